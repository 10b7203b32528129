/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "say.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <tpp/status.h>

static const char *speaker = "tpp";

void say_as(const char *name) {
    speaker = name;
}

static void say(const char *format, va_list args) {
    fprintf(stderr, "%s: ", speaker);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}

int usage_error(const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
    return EXIT_USAGE;
}

int data_error(const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
    return EXIT_FAILED;
}

int system_error(const char *format, ...) {
    const char *reason = strerror(errno); /* before stdio can change errno */
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s: ", speaker);
    vfprintf(stderr, format, args);
    fprintf(stderr, ": %s\n", reason);
    va_end(args);
    return EXIT_FAILED;
}

int library_error(const char *doing) {
    fprintf(stderr, "%s: could not %s: %s\n", speaker, doing, tpp_message());
    return EXIT_FAILED;
}

const char *grouped(char out[GROUPED_BYTES], int64_t number) {
    char digits[GROUPED_BYTES];
    int count = snprintf(digits, sizeof digits, "%" PRId64, number);
    int used = 0;
    for (int i = 0; i < count; i++) {
        int left = count - i;
        if (i > 0 && left % 3 == 0 && digits[i - 1] != '-') {
            out[used++] = ',';
        }
        out[used++] = digits[i];
    }
    out[used] = 0;
    return out;
}
