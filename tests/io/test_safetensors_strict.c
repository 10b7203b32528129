/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Files that break a rule of the format are refused, with a sentence that names tensor and rule;
 * random damage never harms the reader. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <tpp/io.h>

#include "support/io_folder.h"

enum { MOST = 4096 };

/* The file of this header and so many bytes of data. */
static int64_t compose(unsigned char *out, const char *header, int64_t data) {
    int64_t length = (int64_t)strlen(header);
    memset(out, 0, MOST);
    for (int i = 0; i < 8; i++)
        out[i] = (unsigned char)((uint64_t)length >> 8 * i);
    memcpy(out + 8, header, (size_t)length);
    return 8 + length + data;
}

/* "'" stands for "\"". */
static const struct bad {
    const char *header;
    int64_t data;
    tpp_status status;
    const char *word, *rule; /* both in the sentence */
} bad[] = {
    {"", 0, TPP_ERR_FORMAT, "header", "begin with {"},
    {"[]", 0, TPP_ERR_FORMAT, "header", "begin with {"},
    {" {}", 0, TPP_ERR_FORMAT, "header", "begin with {"},
    {"{", 0, TPP_ERR_FORMAT, "JSON", "byte"},
    {"{} x", 0, TPP_ERR_FORMAT, "JSON", "byte"},
    {"{'a':}", 0, TPP_ERR_FORMAT, "JSON", "byte"},
    {"{'\xff':1}", 0, TPP_ERR_FORMAT, "JSON", "byte"},
    {"{'a':{'dtype':'F32','shape':[1],'data_offsets':[0,4]},"
     "'a':{'dtype':'F32','shape':[1],'data_offsets':[4,8]}}",
     8, TPP_ERR_FORMAT, "duplicate", "a"},
    {"{'a':{'dtype':'F32','dtype':'F32','shape':[1],'data_offsets':[0,4]}}", 4, TPP_ERR_FORMAT,
     "duplicate", "dtype"},
    {"{'a':7}", 0, TPP_ERR_FORMAT, "\"a\"", "no object"},
    {"{'a':{'shape':[1],'data_offsets':[0,4]}}", 4, TPP_ERR_FORMAT, "\"a\"", "dtype is missing"},
    {"{'a':{'dtype':'F32','data_offsets':[0,4]}}", 4, TPP_ERR_FORMAT, "\"a\"", "shape is missing"},
    {"{'a':{'dtype':'F32','shape':[1]}}", 4, TPP_ERR_FORMAT, "\"a\"", "data_offsets is missing"},
    {"{'a':{'dtype':'F32','shape':[1],'data_offsets':[0,4],'x':1}}", 4, TPP_ERR_FORMAT, "\"a\"",
     "a key other than"},
    {"{'a':{'dtype':4,'shape':[1],'data_offsets':[0,4]}}", 4, TPP_ERR_FORMAT, "\"a\"", "dtype"},
    {"{'a':{'dtype':'F33','shape':[1],'data_offsets':[0,4]}}", 4, TPP_ERR_FORMAT, "\"a\"", "F33"},
    {"{'a':{'dtype':'f32','shape':[1],'data_offsets':[0,4]}}", 4, TPP_ERR_FORMAT, "\"a\"", "f32"},
    {"{'a':{'dtype':'U16','shape':[1],'data_offsets':[0,2]}}", 2, TPP_ERR_UNSUPPORTED, "\"a\"",
     "U16"},
    {"{'a':{'dtype':'F32','shape':1,'data_offsets':[0,4]}}", 4, TPP_ERR_FORMAT, "\"a\"", "shape"},
    {"{'a':{'dtype':'F32','shape':[-1],'data_offsets':[0,4]}}", 4, TPP_ERR_FORMAT, "\"a\"",
     "shape"},
    {"{'a':{'dtype':'F32','shape':[1.0],'data_offsets':[0,4]}}", 4, TPP_ERR_FORMAT, "\"a\"",
     "shape"},
    {"{'a':{'dtype':'F32','shape':[4294967296,4294967296],'data_offsets':[0,0]}}", 0,
     TPP_ERR_FORMAT, "\"a\"", "64 bits"},
    {"{'a':{'dtype':'F32','shape':[4294967296,4294967296,0],'data_offsets':[0,0]}}", 0,
     TPP_ERR_FORMAT, "\"a\"", "64 bits"},
    {"{'a':{'dtype':'F64','shape':[4611686018427387904],'data_offsets':[0,0]}}", 0, TPP_ERR_FORMAT,
     "\"a\"", "64 bits"},
    {"{'a':{'dtype':'F32','shape':[9223372036854775808],'data_offsets':[0,0]}}", 0, TPP_ERR_FORMAT,
     "JSON", "integer"},
    {"{'a':{'dtype':'F32','shape':[1],'data_offsets':[0]}}", 4, TPP_ERR_FORMAT, "\"a\"",
     "data_offsets"},
    {"{'a':{'dtype':'F32','shape':[1],'data_offsets':[0,4,8]}}", 8, TPP_ERR_FORMAT, "\"a\"",
     "data_offsets"},
    {"{'a':{'dtype':'F32','shape':[1],'data_offsets':[4,0]}}", 4, TPP_ERR_FORMAT, "\"a\"",
     "data_offsets"},
    {"{'a':{'dtype':'F32','shape':[1],'data_offsets':[-4,0]}}", 4, TPP_ERR_FORMAT, "\"a\"",
     "data_offsets"},
    {"{'a':{'dtype':'F32','shape':[2],'data_offsets':[0,4]}}", 4, TPP_ERR_FORMAT, "\"a\"",
     "span 4 bytes, shape and dtype need 8"},
    {"{'a':{'dtype':'F32','shape':[1],'data_offsets':[0,8]}}", 8, TPP_ERR_FORMAT, "\"a\"",
     "span 8 bytes, shape and dtype need 4"},
    {"{'a':{'dtype':'F32','shape':[2],'data_offsets':[0,8]}}", 4, TPP_ERR_FORMAT, "\"a\"",
     "has only 4"},
    {"{'a':{'dtype':'F32','shape':[1],'data_offsets':[0,4]}}", 5, TPP_ERR_FORMAT, "end at byte 4",
     "has 5"},
    {"{}", 1, TPP_ERR_FORMAT, "end at byte 0", "has 1"},
    {"{'a':{'dtype':'F32','shape':[1],'data_offsets':[4,8]}}", 8, TPP_ERR_FORMAT, "\"a\"", "hole"},
    {"{'b':{'dtype':'F32','shape':[1],'data_offsets':[8,12]},"
     "'a':{'dtype':'F32','shape':[1],'data_offsets':[0,4]}}",
     12, TPP_ERR_FORMAT, "\"b\"", "hole"},
    {"{'b':{'dtype':'F32','shape':[2],'data_offsets':[4,12]},"
     "'a':{'dtype':'F32','shape':[2],'data_offsets':[0,8]}}",
     12, TPP_ERR_FORMAT, "\"b\"", "overlap"},
    {"{'b':{'dtype':'F32','shape':[1],'data_offsets':[0,4]},"
     "'a':{'dtype':'F32','shape':[1],'data_offsets':[0,4]}}",
     4, TPP_ERR_FORMAT, "\"b\"", "overlap"},
    {"{'__metadata__':[]}", 0, TPP_ERR_FORMAT, "__metadata__", "no object"},
    {"{'__metadata__':{'format':1}}", 0, TPP_ERR_FORMAT, "format", "no string"},
};

static void with_quotes(char *out, const char *text) {
    do
        *out++ = (char)(*text == '\'' ? '"' : *text);
    while (*text++);
}

static void refuses(const char *path, tpp_status status, const char *word, const char *rule) {
    tpp_safetensors *file = (void *)&status;
    tpp_status got = tpp_safetensors_create(&file, path);
    if (got != status || file || !strstr(tpp_message(), word) || !strstr(tpp_message(), rule))
        fail_msg("%s: %s; expected %s with \"%s\" and \"%s\"", tpp_status_name(got), tpp_message(),
                 tpp_status_name(status), word, rule);
    assert_non_null(strstr(tpp_message(), path));
}

static void test_bad_headers(void **state) {
    const char *path = io_path(*state, "bad");
    unsigned char bytes[MOST];
    char header[MOST];
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        with_quotes(header, bad[i].header);
        io_write(path, bytes, compose(bytes, header, bad[i].data));
        refuses(path, bad[i].status, bad[i].word, bad[i].rule);
    }
}

static void test_bad_lengths(void **state) {
    const char *path = io_path(*state, "bad");
    unsigned char bytes[MOST];
    io_write(path, bytes, 0);
    refuses(path, TPP_ERR_FORMAT, "0 bytes", "8");
    int64_t count = compose(bytes, "{}", 0);
    io_write(path, bytes, 7);
    refuses(path, TPP_ERR_FORMAT, "7 bytes", "8");
    io_write(path, bytes, count - 1);
    refuses(path, TPP_ERR_FORMAT, "header has 2 bytes", "only 1");
    memset(bytes, 0xff, 8);
    io_write(path, bytes, count);
    refuses(path, TPP_ERR_FORMAT, "18446744073709551615", "100000000");
    const unsigned char above[8] = {0x01, 0xe1, 0xf5, 0x05}; /* 100,000,001 */
    memcpy(bytes, above, 8);
    io_write(path, bytes, count);
    refuses(path, TPP_ERR_FORMAT, "100000001", "at most 100000000");
}

/* What is odd but allowed: shapes of no and of three lengths, spaces behind the header, empty
 * tensors at the same place, any order of keys, no alignment. */
static void test_allowed(void **state) {
    const char *path = io_path(*state, "odd");
    unsigned char bytes[MOST];
    char header[MOST];
    with_quotes(header,
                "{'c':{'data_offsets':[4,28],'shape':[1,2,3],'dtype':'F32'},"
                "'e':{'dtype':'I64','shape':[0],'data_offsets':[4,4]},"
                "'f':{'dtype':'I64','shape':[3,0,2],'data_offsets':[4,4]},"
                "'s':{'dtype':'I32','shape':[],'data_offsets':[0,4]},'__metadata__':{}}    ");
    int64_t count = compose(bytes, header, 28);
    bytes[count - 28] = 7;
    io_write(path, bytes, count);
    tpp_safetensors *file;
    if (tpp_safetensors_create(&file, path) != TPP_OK)
        fail_msg("%s", tpp_message());
    assert_int_equal(tpp_safetensors_count(file), 4);
    tpp_tensor_info info = {0};
    info.size = sizeof info;
    assert_int_equal(tpp_safetensors_find(file, "s", &info), TPP_OK);
    assert_int_equal(info.dims, 0);
    assert_int_equal(info.rows * info.cols, 1);
    assert_int_equal(*(const unsigned char *)info.data, 7);
    assert_int_equal(tpp_safetensors_find(file, "c", &info), TPP_OK);
    assert_int_equal(info.dims, 3);
    assert_int_equal(info.rows, 2);
    assert_int_equal(info.cols, 3);
    assert_int_equal(info.shape[1], 2);
    assert_int_equal(tpp_safetensors_find(file, "f", &info), TPP_OK);
    assert_int_equal(info.rows, 0);
    tpp_safetensors_destroy(file);
}

static uint64_t next(uint64_t *seed) { /* xorshift64 */
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* Read all that the file says it has. */
static unsigned touch(const tpp_safetensors *file) {
    unsigned sum = 0;
    for (int64_t i = 0; i < tpp_safetensors_count(file); i++) {
        tpp_tensor_info info = {0};
        info.size = sizeof info;
        assert_int_equal(tpp_safetensors_query(file, i, &info), TPP_OK);
        for (int64_t b = 0; b < info.bytes; b++)
            sum += ((const unsigned char *)info.data)[b];
        sum += (unsigned)strlen(info.name);
    }
    return sum;
}

/* Bits turned, bytes replaced by those of JSON, and the end cut off. */
static void test_damage(void **state) {
    static const char json[] = "{}[]\",:0123456789-.e \\un";
    const char *path = io_path(*state, "damaged");
    unsigned char good[MOST];
    char header[MOST];
    with_quotes(header, "{'__metadata__':{'format':'pt'},"
                        "'a':{'dtype':'F32','shape':[2,3],'data_offsets':[0,24]},"
                        "'b':{'dtype':'I64','shape':[1],'data_offsets':[24,32]}}");
    int64_t count = compose(good, header, 32);
    uint64_t seed = 88172645463325252u;
    int opened = 0, refused = 0;
    unsigned sum = 0;
    for (int round = 0; round < 4000; round++) {
        unsigned char bytes[MOST];
        memcpy(bytes, good, sizeof bytes);
        int64_t kept = round % 4 == 0 ? (int64_t)(next(&seed) % (uint64_t)count) : count;
        for (uint64_t changes = next(&seed) % 4 + (kept == count); changes > 0; changes--) {
            uint64_t at = next(&seed) % (uint64_t)count;
            if (next(&seed) % 2)
                bytes[at] = (unsigned char)json[next(&seed) % (sizeof json - 1)];
            else
                bytes[at] ^= (unsigned char)(1u << next(&seed) % 8);
        }
        io_write(path, bytes, kept);
        tpp_safetensors *file;
        tpp_status status = tpp_safetensors_create(&file, path);
        if (status == TPP_OK)
            sum += touch(file);
        else if (status != TPP_ERR_FORMAT && status != TPP_ERR_UNSUPPORTED)
            fail_msg("%s: %s", tpp_status_name(status), tpp_message());
        opened += status == TPP_OK;
        refused += status != TPP_OK;
        tpp_safetensors_destroy(file);
    }
    assert_true(opened > 100 && refused > 1000);
    assert_true(sum > 0);
}

/* JSON as deep as it likes is no way into the stack. */
static void test_deep(void **state) {
    enum { DEEP = 1000000 };
    const char *path = io_path(*state, "deep");
    unsigned char *bytes = calloc(1, DEEP + 8);
    assert_non_null(bytes);
    for (int i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(DEEP >> 8 * i);
    memcpy(bytes + 8, "{\"a\":", 5);
    memset(bytes + 13, '[', DEEP - 5);
    io_write(path, bytes, DEEP + 8);
    free(bytes);
    refuses(path, TPP_ERR_FORMAT, "JSON", "depth");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_bad_headers, io_folder_make, io_folder_remove),
        cmocka_unit_test_setup_teardown(test_bad_lengths, io_folder_make, io_folder_remove),
        cmocka_unit_test_setup_teardown(test_allowed, io_folder_make, io_folder_remove),
        cmocka_unit_test_setup_teardown(test_damage, io_folder_make, io_folder_remove),
        cmocka_unit_test_setup_teardown(test_deep, io_folder_make, io_folder_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
