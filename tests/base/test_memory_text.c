/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* The arena, the allocator hook, the text sink, and the spot that threads wait at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/text.h"
#include "base/thread.h"

static void arena_counts_what_it_cuts(void **state) {
    (void)state;
    _Alignas(64) char memory[256];
    tpp__arena count = tpp__arena_counting(), cut = tpp__arena_over(memory, sizeof memory);
    assert_null(tpp__arena_take(&count, 3, 8));
    assert_null(tpp__arena_take(&count, 65, 1));
    assert_ptr_equal(tpp__arena_take(&cut, 3, 8), memory);
    assert_ptr_equal(tpp__arena_take(&cut, 65, 1), memory + 64);
    assert_int_equal(count.used, 192);
    assert_int_equal(cut.used, 192);
    assert_true(tpp__arena_fits(&cut));
    assert_null(tpp__arena_take(&cut, 65, 1));
    assert_false(tpp__arena_fits(&cut));
}

static void arena_notices_overflow(void **state) {
    (void)state;
    tpp__arena arena = tpp__arena_counting();
    tpp__arena_take(&arena, INT64_MAX / 2, 8);
    assert_false(tpp__arena_fits(&arena));
}

typedef struct books {
    int64_t bytes;
    int calls;
    bool fail;
} books;

static void *booked_alloc(void *ctx, uint64_t bytes, uint64_t align) {
    books *b = ctx;
    if (b->fail)
        return NULL;
    b->bytes += (int64_t)bytes;
    b->calls++;
    return aligned_alloc(align, bytes);
}

static void booked_release(void *ctx, void *memory, uint64_t bytes) {
    ((books *)ctx)->bytes -= (int64_t)bytes;
    free(memory);
}

static void allocator_gets_back_what_it_gave(void **state) {
    (void)state;
    books b = {0};
    tpp_allocator given = {sizeof given, 0, &b, booked_alloc, booked_release}, mine;
    assert_int_equal(tpp__allocator_read(&mine, &given), TPP_OK);
    char *memory = tpp__alloc(&mine, 100);
    assert_non_null(memory);
    assert_int_equal((uintptr_t)memory % 64, 0);
    for (int i = 0; i < 100; i++)
        assert_int_equal(memory[i], 0);
    tpp__free(&mine, memory, 100);
    tpp__free(&mine, tpp__alloc(&mine, 0), 0);
    tpp__free(&mine, NULL, 5);
    assert_int_equal(b.calls, 2);
    assert_int_equal(b.bytes, 0);
    b.fail = true;
    assert_null(tpp__alloc(&mine, 100));
    assert_non_null(strstr(tpp_message(), "100 bytes"));
    given.alloc = NULL;
    assert_int_equal(tpp__allocator_read(&mine, &given), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "allocator.alloc"));
}

typedef struct page {
    char text[9000];
    int64_t used;
    tpp_status answer;
} page;

static tpp_status to_page(void *ctx, const char *bytes, int64_t count) {
    page *p = ctx;
    memcpy(p->text + p->used, bytes, (size_t)count);
    p->used += count;
    return p->answer;
}

static void numbers_have_a_point_in_every_locale(void **state) {
    (void)state;
    page p = {0};
    tpp__text text;
    tpp__text_begin(&text, to_page, &p);
    tpp__text_fixed(&text, 1234.5678, 2);
    tpp__text_s(&text, " ");
    tpp__text_fixed(&text, -0.004, 2);
    tpp__text_s(&text, " ");
    tpp__text_fixed(&text, -0.05, 1);
    tpp__text_s(&text, " ");
    tpp__text_fixed(&text, 2.5, 0);
    tpp__text_s(&text, " ");
    tpp__text_fixed(&text, 1e16, 9);
    tpp__text_s(&text, " ");
    tpp__text_fixed(&text, -1e20, 2);
    assert_int_equal(tpp__text_end(&text), TPP_OK);
    assert_string_equal(p.text, "1234.57 0.00 -0.1 3 10000000000000000.00 -100000000000000000000");
}

static void long_text_passes_whole_and_failures_stick(void **state) {
    (void)state;
    static char line[5001];
    page p = {0};
    tpp__text text;
    memset(line, 'x', 5000);
    tpp__text_begin(&text, to_page, &p);
    tpp__text_s(&text, line);
    assert_int_equal(tpp__text_end(&text), TPP_OK);
    assert_int_equal(p.used, 5000);
    p = (page){.answer = TPP_ERR_USER - 3};
    tpp__text_begin(&text, to_page, &p);
    tpp__text_s(&text, line);
    assert_int_equal(tpp__text_end(&text), TPP_ERR_USER - 3);
    assert_true(p.used < 5000);
    tpp__text_begin(&text, NULL, NULL);
    assert_int_equal(tpp__text_end(&text), TPP_ERR_INVALID);
}

typedef struct door {
    tpp__spot spot;
    atomic_int open;
} door;

static bool is_open(void *arg) {
    return atomic_load(&((door *)arg)->open) != 0;
}

static void *open_later(void *arg) {
    door *d = arg;
    double until = tpp__now() + 0.02;
    while (tpp__now() < until) {
    }
    atomic_store(&d->open, 1);
    tpp__spot_wake(&d->spot);
    return NULL;
}

static void sleeper_is_woken_or_gives_up(void **state) {
    (void)state;
    door d = {0};
    tpp__thread thread;
    assert_int_equal(tpp__spot_init(&d.spot), TPP_OK);
    assert_false(tpp__spot_wait(&d.spot, is_open, &d, 10, tpp__now() + 0.02));
    assert_int_equal(tpp__thread_start(&thread, open_later, &d), TPP_OK);
    assert_true(tpp__spot_wait(&d.spot, is_open, &d, 10, TPP__FOREVER));
    tpp__thread_join(&thread);
    tpp__spot_destroy(&d.spot);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arena_counts_what_it_cuts),
        cmocka_unit_test(arena_notices_overflow),
        cmocka_unit_test(allocator_gets_back_what_it_gave),
        cmocka_unit_test(numbers_have_a_point_in_every_locale),
        cmocka_unit_test(long_text_passes_whole_and_failures_stick),
        cmocka_unit_test(sleeper_is_woken_or_gives_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
