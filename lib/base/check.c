/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"

#include <stdio.h>
#include <string.h>

tpp_status tpp__sized_read(void *out, uint32_t known, uint32_t flags, const void *in,
                           const char *name) {
    if (!in)
        return tpp__fail(TPP_ERR_INVALID, "%s is NULL; it must point to a struct", name);
    uint32_t size;
    memcpy(&size, in, sizeof size);
    if (size < TPP__SIZED_MIN)
        return tpp__fail(TPP_ERR_INVALID,
                         "%s.size = %u is too small; set it to sizeof of the struct", name, size);
    memset(out, 0, known);
    memcpy(out, in, size < known ? size : known);
    const unsigned char *bytes = in;
    for (uint32_t i = known; i < size; i++) {
        if (bytes[i] != 0)
            return tpp__fail(
                TPP_ERR_TOO_NEW,
                "%s uses byte %u, this library (%s) knows %u; link a newer one or leave it 0", name,
                i, TPP_VERSION_STRING, known);
    }
    uint32_t given;
    memcpy(&given, bytes + sizeof size, sizeof given);
    if (given & ~flags)
        return tpp__fail(
            TPP_ERR_TOO_NEW,
            "%s.flags = 0x%x has bits that this library (%s) does not know; it knows 0x%x", name,
            given, TPP_VERSION_STRING, flags);
    return TPP_OK;
}

tpp_status tpp__sized_write(void *out, const void *in, uint32_t known, const char *name) {
    if (!out)
        return tpp__fail(TPP_ERR_INVALID, "%s is NULL; it must point to a struct", name);
    uint32_t size;
    memcpy(&size, out, sizeof size);
    if (size < TPP__SIZED_MIN)
        return tpp__fail(TPP_ERR_INVALID,
                         "%s.size = %u is too small; set it to sizeof of the struct", name, size);
    uint32_t filled = size < known ? size : known;
    memcpy((char *)out + sizeof size, (const char *)in + sizeof size, filled - sizeof size);
    return TPP_OK;
}

bool tpp__mul(int64_t a, int64_t b, int64_t *out) {
    if (a != 0 && b > INT64_MAX / a)
        return false;
    *out = a * b;
    return true;
}

bool tpp__add(int64_t a, int64_t b, int64_t *out) {
    if (b > INT64_MAX - a)
        return false;
    *out = a + b;
    return true;
}

int64_t tpp__count_times(tpp__count *sum, int64_t a, int64_t b) {
    int64_t product = 0;
    if (tpp__mul(a, b, &product))
        return product;
    sum->overflow = true;
    return 0;
}

void tpp__count_add(tpp__count *sum, int64_t a, int64_t b) {
    int64_t product = tpp__count_times(sum, a, b);
    if (!tpp__add(sum->value, product, &sum->value))
        sum->overflow = true;
}

int64_t tpp__dtype_bytes(tpp_dtype dtype) {
    switch (dtype) {
    case TPP_BF16:
        return 2;
    case TPP_F32:
    case TPP_I32:
        return 4;
    case TPP_F64:
    case TPP_I64:
        return 8;
    default:
        return 0;
    }
}

tpp_dtype tpp__dtype_wide(tpp_dtype dtype) {
    return dtype == TPP_BF16 ? TPP_F32 : dtype;
}

const char *tpp__dtype_name(tpp_dtype dtype) {
    switch (dtype) {
    case TPP_F32:
        return "float32";
    case TPP_F64:
        return "float64";
    case TPP_BF16:
        return "bfloat16";
    case TPP_I32:
        return "int32";
    case TPP_I64:
        return "int64";
    default:
        return "unknown type";
    }
}

const char *tpp_op_name(tpp_op op) {
    switch (op) {
    case TPP_OP_F:
        return "F";
    case TPP_OP_B:
        return "B";
    case TPP_OP_I:
        return "I";
    case TPP_OP_W:
        return "W";
    case TPP_OP_SEND_F:
        return "SEND_F";
    case TPP_OP_RECV_F:
        return "RECV_F";
    case TPP_OP_SEND_B:
        return "SEND_B";
    case TPP_OP_RECV_B:
        return "RECV_B";
    case TPP_OP_STEP:
        return "STEP";
    default:
        return NULL;
    }
}

void tpp__divisors(int64_t n, char *out, int bytes) {
    int used = 0;
    out[0] = 0;
    int64_t root = 0;
    while ((root + 1) * (root + 1) <= n)
        root++;
    /* Rising: the small divisors, then what each leaves of n, from the largest small one down. */
    for (int64_t i = 1; i <= 2 * root && used < bytes - 24; i++) {
        int64_t small = i <= root ? i : 2 * root + 1 - i;
        if (n % small != 0 || (i > root && small * small == n))
            continue;
        used += snprintf(out + used, (size_t)(bytes - used), "%s%lld", i > 1 ? ", " : "",
                         (long long)(i <= root ? small : n / small));
    }
}
