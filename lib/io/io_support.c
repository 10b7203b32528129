/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "io_support.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE = 512, SIZED_LEAST = 8 /* size and flags */ };

tpp_status tpp__io_fail(tpp_status status, const char *format, ...) {
    char text[MESSAGE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tpp_message_set(text);
    return status;
}

tpp_status tpp__io_system(const char *what, const char *path) {
    char reason[128];
    int number = errno;
    if (strerror_r(number, reason, sizeof reason) != 0)
        snprintf(reason, sizeof reason, "error %d", number);
    return tpp__io_fail(TPP_ERR_IO, "%s %s: %s", path, what, reason);
}

static tpp_status size_of(uint32_t *size, const void *in, const char *name) {
    if (!in)
        return tpp__io_fail(TPP_ERR_INVALID, "%s is NULL; it must point to a struct", name);
    memcpy(size, in, sizeof *size);
    if (*size < SIZED_LEAST)
        return tpp__io_fail(TPP_ERR_INVALID,
                            "%s.size = %u is too small; set it to sizeof of the struct", name,
                            *size);
    return TPP_OK;
}

tpp_status tpp__io_sized_read(void *out, uint32_t known, const void *in, const char *name) {
    uint32_t size = 0, flags = 0;
    tpp_status status = size_of(&size, in, name);
    if (status != TPP_OK)
        return status;
    const unsigned char *bytes = in;
    memset(out, 0, known);
    memcpy(out, in, size < known ? size : known);
    for (uint32_t i = known; i < size; i++) {
        if (bytes[i] != 0)
            return tpp__io_fail(
                TPP_ERR_TOO_NEW,
                "%s uses byte %u, this library (%s) knows %u; link a newer one or leave it 0", name,
                i, TPP_VERSION_STRING, known);
    }
    memcpy(&flags, bytes + sizeof size, sizeof flags);
    if (flags != 0)
        return tpp__io_fail(TPP_ERR_TOO_NEW,
                            "%s.flags = 0x%x has bits that this library (%s) does not know; it "
                            "knows none",
                            name, flags, TPP_VERSION_STRING);
    return TPP_OK;
}

tpp_status tpp__io_sized_write(void *out, const void *in, uint32_t known, const char *name) {
    uint32_t size = 0;
    tpp_status status = size_of(&size, out, name);
    if (status != TPP_OK)
        return status;
    uint32_t filled = size < known ? size : known;
    memcpy((char *)out + sizeof size, (const char *)in + sizeof size, filled - sizeof size);
    return TPP_OK;
}

static const struct {
    const char *name;
    tpp_dtype dtype;
    int32_t bytes;
} types[] = {
    {"F32", TPP_F32, 4},   {"F64", TPP_F64, 8}, {"I32", TPP_I32, 4}, {"I64", TPP_I64, 8},
    {"BOOL", 0, 1},        {"U8", 0, 1},        {"I8", 0, 1},        {"F8_E5M2", 0, 1},
    {"F8_E4M3", 0, 1},     {"I16", 0, 2},       {"U16", 0, 2},       {"F16", TPP_F16, 2},
    {"BF16", TPP_BF16, 2}, {"U32", 0, 4},       {"U64", 0, 8},
};
enum { TYPES = sizeof types / sizeof *types };

const char *tpp__io_dtype_name(tpp_dtype dtype) {
    for (int i = 0; i < TYPES; i++) {
        if (dtype != 0 && types[i].dtype == dtype)
            return types[i].name;
    }
    return NULL;
}

int64_t tpp__io_dtype_bytes(tpp_dtype dtype) {
    for (int i = 0; i < TYPES; i++) {
        if (dtype != 0 && types[i].dtype == dtype)
            return types[i].bytes;
    }
    return 0;
}

tpp_dtype tpp__io_dtype_of(const char *name) {
    for (int i = 0; i < TYPES; i++) {
        if (strcmp(types[i].name, name) == 0)
            return types[i].dtype;
    }
    return -1;
}
