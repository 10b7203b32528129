/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <tpp/status.h>

#include "base/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char message[TPP__MESSAGE];

tpp_status tpp__fail(tpp_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return status;
}

const char *tpp_message(void) {
    return message;
}

void tpp_message_set(const char *text) {
    if (text == message)
        return;
    snprintf(message, sizeof message, "%s", text ? text : "");
}

const char *tpp_status_name(tpp_status status) {
    if (status <= TPP_ERR_USER)
        return "TPP_ERR_USER";
    static const struct {
        tpp_status status;
        const char *name;
    } names[] = {
        {TPP_OK, "TPP_OK"},
        {TPP_PENDING, "TPP_PENDING"},
        {TPP_ERR_INVALID, "TPP_ERR_INVALID"},
        {TPP_ERR_NO_MEMORY, "TPP_ERR_NO_MEMORY"},
        {TPP_ERR_TOO_NEW, "TPP_ERR_TOO_NEW"},
        {TPP_ERR_OVERFLOW, "TPP_ERR_OVERFLOW"},
        {TPP_ERR_TOO_SMALL, "TPP_ERR_TOO_SMALL"},
        {TPP_ERR_UNSUPPORTED, "TPP_ERR_UNSUPPORTED"},
        {TPP_ERR_RANGE, "TPP_ERR_RANGE"},
        {TPP_ERR_ABORTED, "TPP_ERR_ABORTED"},
        {TPP_ERR_TIMEOUT, "TPP_ERR_TIMEOUT"},
        {TPP_ERR_MISMATCH, "TPP_ERR_MISMATCH"},
        {TPP_ERR_COMM, "TPP_ERR_COMM"},
        {TPP_ERR_SCHEDULE, "TPP_ERR_SCHEDULE"},
        {TPP_ERR_DEADLOCK, "TPP_ERR_DEADLOCK"},
        {TPP_ERR_PARSE, "TPP_ERR_PARSE"},
        {TPP_ERR_IO, "TPP_ERR_IO"},
        {TPP_ERR_FORMAT, "TPP_ERR_FORMAT"},
    };
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i].status == status)
            return names[i].name;
    }
    return "unknown status";
}

uint32_t tpp_version(void) {
    return TPP_VERSION;
}

const char *tpp_version_string(void) {
    return TPP_VERSION_STRING;
}
