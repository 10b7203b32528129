/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Products over grids of ranks, walked block by block: what a rank is sent is counted where it
 * happens, and is what cost_comm.h tells. Every walk's results are those of one rank. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/cost_table.h"
#include "support/sched_support.h"

#include <tpp/cost_comm.h>

enum { MOST = 64 * 64, RANKS = 64 };

/* X [t, h], A [h, k], dY [t, k]; Y = X A, dX = dY A', dA = X' dY. Small whole numbers. */
typedef struct product {
    int32_t t, h, k;
    int64_t x[MOST], a[MOST], dy[MOST];
    int64_t y[MOST], dx[MOST], da[MOST];                   /* by the walk */
    int64_t right_y[MOST], right_dx[MOST], right_da[MOST]; /* by one rank */
    int64_t got[RANKS];                                    /* elements that each rank was sent */
} product;

static void multiply(int64_t *out, const int64_t *a, const int64_t *b, int32_t m, int32_t n,
                     int32_t inner, bool a_turned, bool b_turned) {
    for (int32_t i = 0; i < m; i++) {
        for (int32_t j = 0; j < n; j++) {
            int64_t sum = 0;
            for (int32_t l = 0; l < inner; l++)
                sum += a[a_turned ? l * m + i : i * inner + l] *
                       b[b_turned ? j * inner + l : l * n + j];
            out[i * n + j] = sum;
        }
    }
}

static void set_up(product *p, int32_t t, int32_t h, int32_t k) {
    memset(p, 0, sizeof *p);
    p->t = t, p->h = h, p->k = k;
    for (int32_t i = 0; i < t * h; i++)
        p->x[i] = i % 7 - 3;
    for (int32_t i = 0; i < h * k; i++)
        p->a[i] = i % 5 - 2;
    for (int32_t i = 0; i < t * k; i++)
        p->dy[i] = i % 9 - 4;
    multiply(p->right_y, p->x, p->a, t, k, h, false, false);
    multiply(p->right_dx, p->dy, p->a, t, h, k, false, true);
    multiply(p->right_da, p->x, p->dy, h, k, t, true, false);
}

static int64_t total(const product *p) {
    int64_t sum = 0;
    for (int32_t i = 0; i < RANKS; i++)
        sum += p->got[i];
    return sum;
}

/* A block of a matrix of `columns`, its height and width. */
typedef struct block {
    int64_t *at;
    int32_t columns, height, width;
} block;

static block block_of(int64_t *matrix, int32_t columns, int32_t row, int32_t column, int32_t height,
                      int32_t width) {
    return (block){matrix + (int64_t)row * height * columns + (int64_t)column * width, columns,
                   height, width};
}

/* out += a b, a' b or a b'. */
static void add_product(block out, block a, block b, bool a_turned, bool b_turned) {
    int32_t inner = a_turned ? a.height : a.width;
    for (int32_t i = 0; i < out.height; i++) {
        for (int32_t j = 0; j < out.width; j++) {
            for (int32_t l = 0; l < inner; l++)
                out.at[i * out.columns + j] +=
                    (a_turned ? a.at[l * a.columns + i] : a.at[i * a.columns + l]) *
                    (b_turned ? b.at[j * b.columns + l] : b.at[l * b.columns + j]);
        }
    }
}

static void send(product *p, int32_t from, int32_t to, block what) {
    if (from != to)
        p->got[to] += (int64_t)what.height * what.width;
}

/* SUMMA on `depth` layers of q x q ranks; layer z has rows z q .. of X's blocks, and all have A's.
 * In step l row i of ranks is sent X(i, l), and column j A(l, j). */
static void summa_forward(product *p, int32_t q, int32_t depth) {
    int32_t rows = p->t / (q * depth), inner = p->h / q, columns = p->k / q;
    for (int32_t at = 0; at < depth * q * q; at++) {
        int32_t z = at / (q * q), i = at / q % q, j = at % q;
        for (int32_t l = 0; l < q; l++) {
            block x = block_of(p->x, p->h, z * q + i, l, rows, inner);
            block a = block_of(p->a, p->k, l, j, inner, columns);
            send(p, (z * q + i) * q + l, at, x);
            send(p, (z * q + l) * q + j, at, a);
            add_product(block_of(p->y, p->k, z * q + i, j, rows, columns), x, a, false, false);
        }
    }
}

/* dX(i, l) is the sum over j of dY(i, j) A(l, j)': A is sent along its column, and partial dX to
 * who has it; dA(l, j) the sum over i of X(i, l)' dY(i, j): X is sent along its row. Over depth dA
 * is summed by rings. */
static void summa_backward(product *p, int32_t q, int32_t depth) {
    int32_t rows = p->t / (q * depth), inner = p->h / q, columns = p->k / q;
    for (int32_t at = 0; at < depth * q * q; at++) {
        int32_t z = at / (q * q), i = at / q % q, j = at % q;
        block dy = block_of(p->dy, p->k, z * q + i, j, rows, columns);
        for (int32_t l = 0; l < q; l++) {
            block a = block_of(p->a, p->k, l, j, inner, columns);
            block x = block_of(p->x, p->h, z * q + i, l, rows, inner);
            block dx = block_of(p->dx, p->h, z * q + i, l, rows, inner);
            block da = block_of(p->da, p->k, l, j, inner, columns);
            send(p, (z * q + l) * q + j, at, a);
            send(p, at, (z * q + i) * q + l, dx);
            add_product(dx, dy, a, false, true);
            send(p, (z * q + i) * q + l, at, x);
            send(p, at, (z * q + l) * q + j, da);
            add_product(da, x, dy, true, false);
        }
        p->got[at] += 2 * (depth - 1) * inner * columns / depth;
    }
}

/* q x q x q: rank (i, j, l) multiplies X(i, l) by A(l, j), which are cut over the third axis: the
 * ranks that need one gather it, and sums of Y are scattered. `piece` elements of q are each
 * rank's. */
static void cube(product *p, int32_t q, bool backward) {
    int32_t rows = p->t / q, inner = p->h / q, columns = p->k / q;
    int64_t x = (int64_t)rows * inner / q, a = (int64_t)inner * columns / q,
            y = (int64_t)rows * columns / q;
    for (int32_t at = 0; at < q * q * q; at++) {
        block bx = block_of(p->x, p->h, at / (q * q), at % q, rows, inner);
        block ba = block_of(p->a, p->k, at % q, at / q % q, inner, columns);
        block dy = block_of(p->dy, p->k, at / (q * q), at / q % q, rows, columns);
        if (!backward) {
            add_product(block_of(p->y, p->k, at / (q * q), at / q % q, rows, columns), bx, ba,
                        false, false);
            p->got[at] +=
                (q - 1) * (x + a + y); /* X over j, A over i gathered; Y over l scattered */
            continue;
        }
        add_product(block_of(p->dx, p->h, at / (q * q), at % q, rows, inner), dy, ba, false, true);
        p->got[at] += (q - 1) * (y + a + x); /* dY, A gathered; dX scattered */
        add_product(block_of(p->da, p->k, at % q, at / q % q, inner, columns), bx, dy, true, false);
        p->got[at] += (q - 1) * (y + x + a); /* dY, X gathered; dA scattered */
    }
}

static void check(product *p, tpp_cost_grid grid, int32_t q, int32_t depth, int32_t ranks,
                  bool back) {
    double forward, backward;
    assert_ok(tpp_cost_grid_volume(grid, p->t, p->h, p->k, q, depth, &forward, &backward));
    double told = back ? backward : forward;
    /* a ring's share need not be whole here */
    if (!((double)total(p) > told * ranks - ranks && (double)total(p) < told * ranks + 0.5))
        fail_msg("grid %d, q %d, depth %d: %lld elements, told %g", grid, q, depth,
                 (long long)total(p), told * ranks);
    if (back) {
        assert_memory_equal(p->dx, p->right_dx, (size_t)(p->t * p->h) * sizeof *p->dx);
        assert_memory_equal(p->da, p->right_da, (size_t)(p->h * p->k) * sizeof *p->da);
    } else {
        assert_memory_equal(p->y, p->right_y, (size_t)(p->t * p->k) * sizeof *p->y);
    }
}

static void walks(void **state) {
    product *p = malloc(sizeof *p);
    (void)state;
    assert_non_null(p);
    for (int32_t i = 0; i < 4 * 4 * 2; i++) {
        const int32_t q = 1 + i / 2 % 4, depth = 1 + i / 8;
        const bool back = i % 2;
        set_up(p, 2 * q * depth, 3 * q, 4 * q);
        back ? summa_backward(p, q, depth) : summa_forward(p, q, depth);
        check(p, TPP_COST_GRID_25D, q, depth, depth * q * q, back);
        if (depth == 1)
            check(p, TPP_COST_GRID_2D, q, 0, q * q, back);
        if (i >= 8)
            continue;
        set_up(p, 2 * q * q, q * q, q * q);
        cube(p, q, back);
        check(p, TPP_COST_GRID_3D, q, 0, q * q * q, back);
    }
    free(p);
}

/* 1D, a pair of products: one all-reduce each way; a ring of them receives 2 (q - 1) / q. */
static void pairs(void **state) {
    double forward, backward;
    (void)state;
    for (int32_t q = 1; q < 70; q++) {
        assert_ok(tpp_cost_grid_volume(TPP_COST_GRID_1D, 100, 30, 7, q, 0, &forward, &backward));
        assert_true(forward == 2 * (q - 1.0) / q * 3000 && backward == forward);
    }
}

static void local(const char *cell, tpp_cost_grid grid, tpp_cost_operand operand, int64_t rows,
                  int64_t columns, int32_t depth) {
    int64_t got_rows, got_columns;
    char text[32];
    assert_ok(tpp_cost_grid_shape(grid, operand, rows, columns, 2, depth, &got_rows, &got_columns));
    snprintf(text, sizeof text, "%dx%d", (int)got_rows, (int)got_columns);
    assert_string_equal(text, cell);
}

/* Colossal-AI's documentation: an MLP of 256, 1,024 and 256 columns, 16 tokens, q = 2. */
static void shapes_of_the_example(void **state) {
    cost_table t;
    (void)state;
    cost_table_read(&t, "tp_nd_shapes_example.csv");
    assert_int_equal(t.rows, 4);
    for (int32_t i = 0; i < t.rows; i++) {
        const tpp_cost_grid grid = TPP_COST_GRID_1D + i;
        const int32_t depth = grid == TPP_COST_GRID_25D ? 2 : 0;
        local(cost_cell(&t, i, "weight1_256x1024_local"), grid, TPP_COST_OPERAND_A, 256, 1024,
              depth);
        local(cost_cell(&t, i, "weight2_1024x256_local"), grid, TPP_COST_OPERAND_B, 1024, 256,
              depth);
        local(cost_cell(&t, i, "input_16x256_local"), grid, TPP_COST_OPERAND_X, 16, 256, depth);
        local(cost_cell(&t, i, "out1_local"), grid, TPP_COST_OPERAND_U, 16, 1024, depth);
        local(cost_cell(&t, i, "out2_local"), grid, TPP_COST_OPERAND_Y, 16, 256, depth);
    }
}

/* tp_nd_costs: shares of weights, of activations and of the work, for q = 2 and 4, depth 2; n: 1 /
 * share. */
static void shares(void **state) {
    static const struct {
        tpp_cost_grid grid;
        int32_t q, depth, weights, activations;
    } rows[] = {{TPP_COST_GRID_1D, 4, 0, 4, 1},    {TPP_COST_GRID_2D, 4, 0, 16, 16},
                {TPP_COST_GRID_25D, 4, 2, 16, 32}, {TPP_COST_GRID_3D, 4, 0, 64, 64},
                {TPP_COST_GRID_2D, 2, 0, 4, 4},    {TPP_COST_GRID_3D, 2, 0, 8, 8}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t r, c;
        for (tpp_cost_operand o = TPP_COST_OPERAND_X; o <= TPP_COST_OPERAND_Y; o++) {
            bool weight = o == TPP_COST_OPERAND_A || o == TPP_COST_OPERAND_B;
            int32_t n = weight ? rows[i].weights : rows[i].activations;
            if (rows[i].grid == TPP_COST_GRID_1D && o == TPP_COST_OPERAND_U)
                n = rows[i].q; /* between the pair's products */
            assert_ok(
                tpp_cost_grid_shape(rows[i].grid, o, 64, 128, rows[i].q, rows[i].depth, &r, &c));
            assert_int_equal(r * c * n, 64 * 128);
        }
    }
}

static void refused(void **state) {
    double f, b;
    int64_t r, c;
    (void)state;
    assert_fails(tpp_cost_grid_volume(0, 1, 1, 1, 1, 1, &f, &b), TPP_ERR_INVALID, "grid = 0");
    assert_fails(tpp_cost_grid_volume(5, 1, 1, 1, 1, 1, &f, &b), TPP_ERR_INVALID, "grid = 5");
    assert_fails(tpp_cost_grid_volume(1, 1, 1, 1, 0, 1, &f, &b), TPP_ERR_INVALID, "q = 0");
    assert_fails(tpp_cost_grid_volume(2, 1, 1, 1, 1, 2, &f, &b), TPP_ERR_INVALID, "depth = 2");
    assert_fails(tpp_cost_grid_volume(3, 1, 1, 1, 1, 0, &f, &b), TPP_ERR_INVALID, "depth = 0");
    assert_fails(tpp_cost_grid_volume(1, -1, 1, 1, 1, 1, &f, &b), TPP_ERR_INVALID, "tokens = -1");
    assert_fails(tpp_cost_grid_volume(1, 1, -1, 1, 1, 1, &f, &b), TPP_ERR_INVALID, "hidden = -1");
    assert_fails(tpp_cost_grid_volume(1, 1, 1, -1, 1, 1, &f, &b), TPP_ERR_INVALID, "columns = -1");
    assert_fails(tpp_cost_grid_volume(1, 1, 1, 1, 1, 1, NULL, &b), TPP_ERR_INVALID, "forward is");
    assert_fails(tpp_cost_grid_volume(1, 1, 1, 1, 1, 1, &f, NULL), TPP_ERR_INVALID, "backward is");
    assert_fails(tpp_cost_grid_shape(2, 1, 5, 4, 2, 0, &r, &c), TPP_ERR_INVALID,
                 "rows = 5 is not a multiple of the 2 ranks");
    assert_fails(tpp_cost_grid_shape(4, 2, 4, 6, 2, 0, &r, &c), TPP_ERR_INVALID,
                 "columns = 6 is not a multiple of the 4 ranks");
    assert_fails(tpp_cost_grid_shape(2, 6, 4, 4, 2, 0, &r, &c), TPP_ERR_INVALID, "operand = 6");
    assert_fails(tpp_cost_grid_shape(2, 1, -4, 4, 2, 0, &r, &c), TPP_ERR_INVALID, "rows = -4");
    assert_fails(tpp_cost_grid_shape(2, 1, 4, 4, 2, 0, NULL, &c), TPP_ERR_INVALID, "out_rows is");
    assert_fails(tpp_cost_grid_shape(2, 1, 4, 4, 2, 0, &r, NULL), TPP_ERR_INVALID,
                 "out_columns is");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walks),
        cmocka_unit_test(pairs),
        cmocka_unit_test(shapes_of_the_example),
        cmocka_unit_test(shares),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
