/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "cost/cost_model.h"

#include <tpp/cost_comm.h>

static tpp_status check_grid(tpp_cost_grid grid, int32_t q, int32_t depth) {
    if (grid < TPP_COST_GRID_1D || grid > TPP_COST_GRID_3D)
        return tpp__fail(TPP_ERR_INVALID,
                         "grid = %d is not accepted; accepted: 1 (1D), 2 (2D), 3 (2.5D), 4 (3D)",
                         grid);
    if (grid != TPP_COST_GRID_25D && (depth < 0 || depth > 1))
        return tpp__fail(TPP_ERR_INVALID,
                         "depth = %d is not accepted with grid = %d; accepted: 0, 1", depth, grid);
    tpp_status status = tpp__cost_at_least("", "q", q, 1);
    return status == TPP_OK ? tpp__cost_at_least("", "depth", depth, grid == TPP_COST_GRID_25D)
                            : status;
}

static tpp_status divide(const char *field, int64_t length, int64_t ranks, int64_t *out) {
    if (length % ranks != 0)
        return tpp__fail(TPP_ERR_INVALID,
                         "%s = %lld is not a multiple of the %lld ranks that share them", field,
                         (long long)length, (long long)ranks);
    *out = length / ranks;
    return TPP_OK;
}

/* Ranks that share the rows and the columns of an operand. */
static void sharers(tpp_cost_grid grid, tpp_cost_operand operand, int64_t q, int64_t depth,
                    int64_t *rows, int64_t *columns) {
    bool weight = operand == TPP_COST_OPERAND_A || operand == TPP_COST_OPERAND_B;
    bool inner = operand == TPP_COST_OPERAND_A || operand == TPP_COST_OPERAND_U;
    *rows = *columns = q;
    if (grid == TPP_COST_GRID_1D) {
        *rows = operand == TPP_COST_OPERAND_B ? q : 1;
        *columns = inner ? q : 1;
    }
    if (grid == TPP_COST_GRID_25D && !weight)
        *rows = depth * q;
    if (grid == TPP_COST_GRID_3D)
        *(weight ? columns : rows) = q * q;
}

tpp_status tpp_cost_grid_shape(tpp_cost_grid grid, tpp_cost_operand operand, int64_t rows,
                               int64_t columns, int32_t q, int32_t depth, int64_t *out_rows,
                               int64_t *out_columns) {
    const tpp__cost_rule rules[] = {{"rows", rows, 0}, {"columns", columns, 0}};
    int64_t by_rows, by_columns, found_rows = 0, found_columns = 0;
    tpp_status status = check_grid(grid, q, depth);
    if (status == TPP_OK)
        status = TPP__COST_RULES("", rules);
    if (status == TPP_OK && (operand < TPP_COST_OPERAND_X || operand > TPP_COST_OPERAND_Y))
        status = tpp__fail(TPP_ERR_INVALID, "operand = %d is not accepted; accepted: 1 .. %d",
                           operand, TPP_COST_OPERAND_Y);
    if (status != TPP_OK)
        return status;
    if (!out_rows || !out_columns)
        return tpp__fail(TPP_ERR_INVALID, "%s is NULL; it must point to a number",
                         out_rows ? "out_columns" : "out_rows");
    sharers(grid, operand, q, depth, &by_rows, &by_columns);
    status = divide("rows", rows, by_rows, &found_rows);
    if (status == TPP_OK)
        status = divide("columns", columns, by_columns, &found_columns);
    if (status != TPP_OK)
        return status;
    *out_rows = found_rows;
    *out_columns = found_columns;
    return TPP_OK;
}

tpp_status tpp_cost_grid_volume(tpp_cost_grid grid, int64_t tokens, int64_t hidden, int64_t columns,
                                int32_t q, int32_t depth, double *forward, double *backward) {
    const tpp__cost_rule rules[] = {
        {"tokens", tokens, 0}, {"hidden", hidden, 0}, {"columns", columns, 0}};
    tpp_status status = check_grid(grid, q, depth);
    if (status == TPP_OK)
        status = TPP__COST_RULES("", rules);
    if (status != TPP_OK)
        return status;
    if (!forward || !backward)
        return tpp__fail(TPP_ERR_INVALID, "%s is NULL; it must point to a number",
                         forward ? "backward" : "forward");
    double n = q, d = depth > 0 ? depth : 1, others = n - 1;
    double x = (double)tokens * (double)hidden, a = (double)hidden * (double)columns;
    double y = (double)tokens * (double)columns;
    switch (grid) {
    case TPP_COST_GRID_1D:
        *forward = *backward = 2 * others / n * x;
        return TPP_OK;
    case TPP_COST_GRID_3D:
        *forward = others * (x + a + y) / (n * n * n);
        *backward = 2 * *forward;
        return TPP_OK;
    default: /* 2D is of depth 1 */
        *forward = others * (x / d + a) / (n * n);
        *backward = 2 * *forward + 2 * (d - 1) / d * a / (n * n);
        return TPP_OK;
    }
}
