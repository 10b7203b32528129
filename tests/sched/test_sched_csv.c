/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/sched_support.h"

static tpp_status parse(tpp_schedule **s, const char *text, uint32_t flags) {
    return tpp_schedule_parse_csv(s, text, (int64_t)strlen(text), flags, NULL);
}

/* `csv` reads as the schedule that the text form `text` is. */
static void reads(const char *csv, uint32_t flags, const char *text) {
    tpp_schedule *s;
    if (parse(&s, csv, flags) != TPP_OK)
        fail_msg("'%s': %s", csv, tpp_message());
    char *written = sched_text(s);
    assert_string_equal(written, text);
    free(written);
    tpp_schedule_destroy(s);
}

static void refuses(const char *csv, uint32_t flags, tpp_status status, const char *words) {
    tpp_schedule *s = (tpp_schedule *)&status;
    assert_fails(parse(&s, csv, flags), status, words);
    assert_null(s);
}

/* --- Reading --- */

static void test_cells(void **state) {
    (void)state;
    static const char plain[] = "0F0 0B0\n1F0 1B0\n";
    static const char *const same[] = {
        "0F0,0B0\r\n1F0,1B0\r\n",            /* as PyTorch writes it */
        "0F0,0B0\n1F0,1B0",                  /* by hand */
        "0F0,0B0\r1F0,1B0\r",                /* an old line end */
        "0F0,,,0B0\n,1F0,1B0,\n",            /* idle slots */
        "\"0F0\",\"0B0\"\n1F0,\"1B0\"",      /* all quoted, as some spreadsheets do */
        "\"\",0F0,\"\",0B0\n1F0,1B0\n",      /* quoted idle slots */
        " 0F0 ,\t0B0\n1F0,\" 1B0 \"\n",      /* blanks around */
        "0F0,0B0\n1F0,1B0\n\n\r\n\r",        /* empty lines at the end */
        "\xef\xbb\xbf\060F0,0B0\n1F0,1B0\n", /* a byte order mark, then 0F0 */
        "0F0,\"\n0B0\"\n1F0,1B0\n",          /* a line end within quotes is a blank of the cell */
        "\"0\"F0,0B0\n1F0,1B0\n",            /* what follows closing quotes is added */
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        reads(same[i], 0, plain);
    refuses("0F0,\"0\nB0\"\n1F0,1B0\n", 0, TPP_ERR_PARSE,
            "row 1, column 2: in '0 B0' found 'B0', expected an operation");
}

static void test_empty_ranks(void **state) {
    (void)state;
    reads("\n0F0,0B0\n,,\n\"\"\n", 0, "-\n0F0 0B0\n-\n-\n");
    reads("\r\n\r\n0F0", 0, "-\n-\n0F0\n");
}

static void test_kinds_of_schedules(void **state) {
    (void)state;
    reads("0F0,0F1,,0I0,0W0,0B1\n,1F0,1F1,1I0,1W0,1B1\n", 0,
          "0F0 0F1 0I0 0W0 0B1\n1F0 1F1 1I0 1W0 1B1\n");
    reads("0F0,3F0,(0F1;3B0)OVERLAP_F_B\n,1F0,2F0", 0, "0F0 3F0 (0F1;3B0)OVERLAP_F_B\n1F0 2F0\n");
    reads("( 0F1 ; 0B0 )OVERLAP_F_B", 0, "(0F1;0B0)OVERLAP_F_B\n");
    reads("0F0,2F1\n1F0,3F1", TPP_CSV_TWO_WAY, "directions 2\n0F0 2F1\n1F0 3F1\n");
    reads("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n", 0,
          "0F0 0SEND_F0 0RECV_B0 0B0\n1RECV_F0 1F0 1B0 1SEND_B0\n");
}

/* What is read with its messages is lowered, and can be proved and finished as it is; a receive may
 * stand earlier than where lower would put it. */
static void test_messages(void **state) {
    (void)state;
    tpp_schedule *s;
    assert_ok(parse(&s,
                    "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\r\n"
                    "1RECV_F0,1RECV_F1,1F0,1F1,1B0,1SEND_B0,1B1,1SEND_B1\r\n",
                    0));
    assert_fails(tpp_schedule_lower(s), TPP_ERR_INVALID, "is lowered already");
    assert_ok(tpp_schedule_check(s, TPP_CHANNEL_POSTED));
    assert_int_equal(tpp_schedule_check(s, TPP_CHANNEL_RENDEZVOUS), TPP_OK);
    assert_ok(tpp_schedule_finish(s));
    tpp_schedule_destroy(s);
    assert_ok(parse(&s, "0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1RECV_F0,1B0,1SEND_B0\n", 0));
    assert_fails(tpp_schedule_finish(s), TPP_ERR_SCHEDULE, "1F0 stands before 1RECV_F0");
    tpp_schedule_destroy(s);
}

static void test_sharding(void **state) {
    (void)state;
    static const char csv[] = "0UNSHARD,0F0,0F1,0B0,0B1,0REDUCE_GRAD,0RESHARD\n"
                              "1UNSHARD,1F0,1B0,1RESHARD0,1F1,1B1\n";
    reads(csv, TPP_CSV_SKIP_SHARDING, "0F0 0F1 0B0 0B1\n1F0 1B0 1F1 1B1\n");
    refuses(csv, 0, TPP_ERR_PARSE,
            "row 1, column 1: '0UNSHARD': UNSHARD shards parameters, which a schedule does not "
            "tell of; the flag TPP_CSV_SKIP_SHARDING leaves it out");
    refuses("0F0,0REDUCE_GRAD", 0, TPP_ERR_PARSE, "row 1, column 2: '0REDUCE_GRAD': REDUCE_GRAD");
    refuses("0F0,0RESHARD7", 0, TPP_ERR_PARSE, "row 1, column 2: '0RESHARD7': RESHARD shards");
    refuses("0F0,UNSHARD", 4, TPP_ERR_PARSE, "row 1, column 2: found 'UNSHARD', expected a stage");
    refuses("(0UNSHARD;0B0)OVERLAP_F_B", 4, TPP_ERR_PARSE, "in '(0UNSHARD;0B0)OVERLAP_F_B' found");
    refuses("0UNSHARD\n", 4, TPP_ERR_PARSE, "the text holds no action");
    refuses("0UNSHARDx\n", 4, TPP_ERR_PARSE, "row 1, column 1: in '0UNSHARDx' found 'x', expected");
}

/* --- Refusals --- */

static void test_refusals(void **state) {
    (void)state;
    const tpp_status bad = TPP_ERR_PARSE;
    refuses("", 0, bad, "the text holds no action");
    refuses("\n,,\n", 0, bad, "the text holds no action");
    refuses("0F0,0B0\n1F0,,1F0x\n", 0, bad,
            "row 2, column 3: in '1F0x' found 'x', expected the end of the cell");
    refuses("0F0 0B0", 0, bad, "row 1, column 1: in '0F0 0B0' found '0B0', expected the end of");
    refuses("0F0,hello\n", 0, bad, "row 1, column 2: found 'hello', expected a stage");
    refuses("Rank 0,0F0\n", 0, bad, "row 1, column 1: found 'Rank 0', expected a stage");
    refuses("0F0;0B0\n", 0, bad, "in '0F0;0B0' found ';0B0', expected the end of the cell");
    refuses("0F0\n\n1BW0\n", 0, bad, "row 3, column 1: in '1BW0' found 'BW0', expected an oper");
    refuses("0F\n", 0, bad, "row 1, column 1: in '0F' found the end of the cell, expected a micro");
    refuses("0F00\n", 0, bad, "in '0F00' found '00', expected a micro-batch");
    refuses("0f0\n", 0, bad, "found 'f0', expected an operation");
    refuses("-1F0\n", 0, bad, "found '-1F0', expected a stage");
    refuses("-\n", 0, bad, "found '-', expected a stage");
    refuses("0F\xc3\xa9\n", 0, bad, "row 1, column 1: in '0F?\?' found '?\?', expected a");
    refuses("0F0,\"0B0", 0, bad,
            "row 1, column 2: found the end of the text, expected a closing '\"'");
    refuses("0F0,\"0B0\"\"\"\n", 0, bad,
            "row 1, column 2: in '0B0\"' found '\"', expected the end");
    refuses("0F0,0\"B0\"\n", 0, bad,
            "row 1, column 2: in '0\"B0\"' found '\"B0\"', expected an op");
    refuses("1048576F0\n", 0, bad, "found '1048576F0', expected a stage, 0 .. 1048575");
    refuses("0F0,0B0\n0F1\n", 0, TPP_ERR_SCHEDULE,
            "row 2, column 1: stage 0 is on rank 0 already, so not on rank 1");
    refuses("0F0,2F0\n", 0, TPP_ERR_SCHEDULE, "stage 1 is on no rank, but stage 2 is there");
    refuses("0F0,1F0,2F1\n", TPP_CSV_TWO_WAY, TPP_ERR_SCHEDULE,
            "two directions of 3 stages: stages 0 .. 2 must be an even number");
}

static void test_pairs(void **state) {
    (void)state;
    const tpp_status bad = TPP_ERR_PARSE;
    refuses("(0F0;1B0)\n", 0, bad, "found the end of the cell, expected OVERLAP_F_B");
    refuses("(0F0;1B0)OVERLAP\n", 0, bad, "found 'OVERLAP', expected OVERLAP_F_B");
    refuses("(0F0;1B0) OVERLAP_F_B\n", 0, bad, "found 'OVERLAP_F_B', expected OVERLAP_F_B");
    refuses("(0F0;1B0)OVERLAP_F_B1\n", 0, bad, "found '1', expected the end of the cell");
    refuses("(0F0)OVERLAP_F_B\n", 0, bad, "found ')OVERLAP_F_B', expected ';', as in (0F3;7B1)");
    refuses("(0F0;1B0;2F0)OVERLAP_F_B\n", 0, bad, "found ';2F0)OVERLAP_F_B', expected ')'");
    refuses("(1B0;0F0)OVERLAP_F_B\n", 0, bad, "found '1B0;0F0)OVERLAP_F_B', expected an F, as in");
    refuses("(0F0;1I0)OVERLAP_F_B\n", 0, bad, "found '1I0)OVERLAP_F_B', expected a B, as in");
    refuses("()OVERLAP_F_B\n", 0, bad, "found ')OVERLAP_F_B', expected a stage");
    refuses("(", 0, bad, "row 1, column 1: in '(' found the end of the cell, expected a stage");
    refuses("0OVERLAP_F_B\n", 0, bad, "found 'OVERLAP_F_B', expected an operation");
}

static void test_long_cells(void **state) {
    (void)state;
    char text[600];
    memset(text, ' ', sizeof text);
    memcpy(text, "0F0", 3);
    memcpy(text + 590, ",0B0", 5);
    reads(text, 0, "0F0 0B0\n"); /* blanks behind a text do not count, however many */
    text[300] = 'x';
    refuses(text, 0, TPP_ERR_PARSE, "row 1, column 1: in '0F0   ");
    /* What is kept of a cell ends where the action ends, but the cell goes on. */
    memset(text, ' ', sizeof text);
    memcpy(text, "(0F1;", 5);
    memcpy(text + 105, "0B0)OVERLAP_F_B", 15);
    text[120] = ',';
    text[599] = 0;
    reads(text, 0, "(0F1;0B0)OVERLAP_F_B\n");
    text[120] = 'x';
    refuses(text, 0, TPP_ERR_PARSE, "found more, expected the end of the cell");
    memset(text, '0', 599);
    text[599] = 0;
    refuses(text, 0, TPP_ERR_PARSE, "row 1, column 1: found '000");
}

static void test_arguments(void **state) {
    (void)state;
    tpp_schedule *s;
    assert_fails(tpp_schedule_parse_csv(NULL, "0F0", 3, 0, NULL), TPP_ERR_INVALID, "out is NULL");
    assert_fails(tpp_schedule_parse_csv(&s, NULL, 3, 0, NULL), TPP_ERR_INVALID, "text is NULL");
    assert_fails(tpp_schedule_parse_csv(&s, "0F0", -1, 0, NULL), TPP_ERR_INVALID, "bytes = -1");
    assert_fails(parse(&s, "0F0", TPP_CSV_MESSAGES), TPP_ERR_INVALID,
                 "flags = 1; valid: 0, or of 4 (SKIP_SHARDING) and 8 (TWO_WAY)");
}

/* --- Writing --- */

static void writes(const tpp_schedule *s, uint32_t flags, const char *csv) {
    char *written = sched_csv(s, flags);
    assert_non_null(written);
    assert_string_equal(written, csv);
    free(written);
}

static void test_write(void **state) {
    (void)state;
    tpp_schedule *s = sched_created(TPP_SCHEDULE_GPIPE, 2, 1, 2, 0);
    writes(s, 0, "0F0,0F1,0B0,0B1\r\n1F0,1F1,1B0,1B1\r\n");
    writes(s, TPP_CSV_SLOTS, "0F0,0F1,,,0B0,0B1\r\n,1F0,1F1,1B0,1B1\r\n");
    assert_null(sched_csv(s, TPP_CSV_MESSAGES));
    assert_non_null(strstr(tpp_message(), "schedule is not lowered; call tpp_schedule_lower"));
    assert_ok(tpp_schedule_lower(s));
    writes(s, 0, "0F0,0F1,0B0,0B1\r\n1F0,1F1,1B0,1B1\r\n");
    writes(s, TPP_CSV_SLOTS, "0F0,0F1,,,0B0,0B1\r\n,1F0,1F1,1B0,1B1\r\n");
    writes(s, TPP_CSV_MESSAGES,
           "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\r\n"
           "1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1\r\n");
    assert_null(sched_csv(s, TPP_CSV_MESSAGES | TPP_CSV_SLOTS));
    assert_non_null(strstr(tpp_message(), "flags = 3; valid: 0, 1 (MESSAGES), 2 (SLOTS)"));
    assert_null(sched_csv(NULL, 0));
    assert_int_equal(tpp_schedule_write_csv(s, 0, NULL, NULL), TPP_ERR_INVALID);
    tpp_schedule_destroy(s);
}

static void test_write_pairs_and_empty_ranks(void **state) {
    (void)state;
    tpp_schedule *s = sched_parsed("-\n0F0 0F1 (0F2;0B0)OVERLAP_F_B 0B1 0B2\n1F0 1B0 1F1 1B1 1F2 "
                                   "1B2\n-\n");
    assert_non_null(s);
    writes(s, 0,
           "\"\"\r\n0F0,0F1,(0F2;0B0)OVERLAP_F_B,0B1,0B2\r\n1F0,1B0,1F1,1B1,1F2,1B2\r\n\"\"\r\n");
    writes(s, TPP_CSV_SLOTS,
           "\"\"\r\n0F0,0F1,,(0F2;0B0)OVERLAP_F_B,,0B1,,0B2\r\n"
           ",1F0,1B0,1F1,1B1,1F2,1B2\r\n\"\"\r\n");
    tpp_schedule_destroy(s);
}

/* An order that no clock can follow has no slots, and can be written all the same. */
static void test_no_slots(void **state) {
    (void)state;
    tpp_schedule *s = sched_parsed("0B0 0F0\n");
    assert_null(sched_csv(s, TPP_CSV_SLOTS));
    assert_non_null(strstr(tpp_message(), "rank 0: 0B0 never has what it needs"));
    writes(s, 0, "0B0,0F0\r\n");
    tpp_schedule_destroy(s);
    s = sched_parsed("0F1048575 0B0\n");
    assert_null(sched_csv(s, TPP_CSV_SLOTS));
    assert_non_null(strstr(tpp_message(), "the schedule has 2 actions, but 1 stages and 1048576"));
    tpp_schedule_destroy(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cells),
        cmocka_unit_test(test_empty_ranks),
        cmocka_unit_test(test_kinds_of_schedules),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_sharding),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_long_cells),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_write),
        cmocka_unit_test(test_write_pairs_and_empty_ranks),
        cmocka_unit_test(test_no_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
