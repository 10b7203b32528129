/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_SCHED_SUPPORT_H
#define TPP_SUPPORT_SCHED_SUPPORT_H

/* What the tests of schedules share. To be included after cmocka. */

#include <tpp/schedule.h>

#include <string.h>

/* A call fails with this status and a sentence that holds these words. */
#define assert_fails(call, status, words)                                                          \
    do {                                                                                           \
        assert_int_equal(call, status);                                                            \
        if (!strstr(tpp_message(), words))                                                         \
            fail_msg("'%s' does not say '%s'", tpp_message(), words);                              \
    } while (0)

#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != TPP_OK)                                                                      \
            fail_msg("%s: %s", #call, tpp_message());                                              \
    } while (0)

tpp_schedule_desc sched_desc(tpp_schedule_kind kind, int32_t ranks, int32_t chunks, int32_t micros,
                             int32_t group);

/* Made by tpp_schedule_make, or by _create alone; NULL when that fails. */
tpp_schedule *sched_made(tpp_schedule_kind kind, int32_t ranks, int32_t chunks, int32_t micros,
                         int32_t group);
tpp_schedule *sched_created(tpp_schedule_kind kind, int32_t ranks, int32_t chunks, int32_t micros,
                            int32_t group);

/* The text form, zero-terminated; free it. NULL when it cannot be written. */
char *sched_text(const tpp_schedule *schedule);

/* The same in CSV. */
char *sched_csv(const tpp_schedule *schedule, uint32_t flags);

/* The same of a parsed text; NULL when that fails. */
tpp_schedule *sched_parsed(const char *text);

/* A file under tests/data/schedules, zero-terminated; free it. NULL when there is none. */
char *sched_file(const char *name);

#endif
