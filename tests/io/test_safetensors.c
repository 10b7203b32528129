/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Files of tensors: what goes in comes out; a writer leaves a whole file or none. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmocka.h>

#include <tpp/io.h>

#include "support/io_folder.h"

static tpp_tensor_desc tensor(const char *name, tpp_dtype dtype, int64_t rows, int64_t cols,
                              const void *data) {
    tpp_tensor_desc d = {0};
    d.size = sizeof d;
    d.name = name;
    d.dtype = dtype;
    d.rows = rows;
    d.cols = cols;
    d.data = data;
    return d;
}

static tpp_safetensors_writer *begin(const char *path) {
    tpp_safetensors_writer *w = NULL;
    assert_int_equal(tpp_safetensors_writer_create(&w, path), TPP_OK);
    return w;
}

static void finish(tpp_safetensors_writer *w) {
    tpp_status status = tpp_safetensors_writer_finish(w);
    if (status != TPP_OK)
        fail_msg("%s", tpp_message());
    tpp_safetensors_writer_destroy(w);
}

static tpp_safetensors *opened(const char *path) {
    tpp_safetensors *file = NULL;
    if (tpp_safetensors_create(&file, path) != TPP_OK)
        fail_msg("%s", tpp_message());
    return file;
}

static tpp_tensor_info found(const tpp_safetensors *file, const char *name) {
    tpp_tensor_info info = {0};
    info.size = sizeof info;
    if (tpp_safetensors_find(file, name, &info) != TPP_OK)
        fail_msg("%s", tpp_message());
    assert_string_equal(info.name, name);
    return info;
}

static const float f32[6] = {1, -0.0f, 3e38f, 1e-45f, 5, 6};
static const double f64[3] = {0.1, -1e308, 5e-324};
static const int32_t i32[3] = {1, INT32_MIN, INT32_MAX};
static const uint16_t bf16[3] = {0x3f80, 0xff80, 0x0001};
static const int64_t i64[2] = {INT64_MIN, INT64_MAX};

static void test_round_trip(void **state) {
    const char *path = io_path(*state, "all.safetensors");
    tpp_safetensors_writer *w = begin(path);
    /* float32 in front of the longer ones: the file has them the other way round */
    tpp_tensor_desc d[] = {tensor("f32", TPP_F32, 2, 3, f32), tensor("i32", TPP_I32, 1, 3, i32),
                           tensor("f64", TPP_F64, 3, 1, f64), tensor("i64", TPP_I64, 1, 2, i64),
                           tensor("bf16", TPP_BF16, 3, 1, bf16)};
    d[1].dims = 1;
    for (int i = 0; i < 5; i++)
        assert_int_equal(tpp_safetensors_writer_add(w, &d[i]), TPP_OK);
    assert_int_equal(tpp_safetensors_writer_set_metadata(w, "format", "np"), TPP_OK);
    assert_int_equal(tpp_safetensors_writer_set_metadata(w, "format", "pt"), TPP_OK);
    finish(w);

    tpp_safetensors *file = opened(path);
    assert_int_equal(tpp_safetensors_count(file), 5);
    assert_string_equal(tpp_safetensors_metadata_get(file, "format"), "pt");
    assert_null(tpp_safetensors_metadata_get(file, "other"));
    for (int i = 0; i < 5; i++) {
        tpp_tensor_info info = found(file, d[i].name);
        assert_int_equal(info.dtype, d[i].dtype);
        assert_int_equal(info.dims, d[i].dims ? d[i].dims : 2);
        assert_int_equal(info.rows, d[i].rows);
        assert_int_equal(info.cols, d[i].cols);
        assert_int_equal(info.shape[info.dims - 1], d[i].cols);
        int64_t width = d[i].dtype == TPP_BF16                           ? 2
                        : d[i].dtype == TPP_F64 || d[i].dtype == TPP_I64 ? 8
                                                                         : 4;
        assert_int_equal(info.bytes, width * d[i].rows * d[i].cols);
        assert_int_equal((uintptr_t)info.data % (uintptr_t)width, 0);
        assert_memory_equal(info.data, d[i].data, (size_t)info.bytes);
    }
    tpp_tensor_info info = {0};
    info.size = sizeof info;
    assert_int_equal(tpp_safetensors_query(file, 0, &info), TPP_OK);
    assert_string_equal(info.name, "f64"); /* in the order of their bytes */
    assert_int_equal((uintptr_t)info.data % 64, 0);
    assert_int_equal(tpp_safetensors_query(file, 5, &info), TPP_ERR_RANGE);
    assert_int_equal(tpp_safetensors_query(file, -1, &info), TPP_ERR_RANGE);
    assert_int_equal(tpp_safetensors_find(file, "F32", &info), TPP_ERR_RANGE);
    assert_non_null(strstr(tpp_message(), "F32"));
    tpp_safetensors_destroy(file);
}

static void test_empty(void **state) {
    const char *path = io_path(*state, "empty.safetensors");
    finish(begin(path));
    tpp_safetensors *file = opened(path);
    assert_int_equal(tpp_safetensors_count(file), 0);
    assert_null(tpp_safetensors_metadata_get(file, "format"));
    tpp_safetensors_destroy(file);

    tpp_safetensors_writer *w = begin(path);
    tpp_tensor_desc none = tensor("none", TPP_F32, 0, 5, NULL);
    tpp_tensor_desc some = tensor("some", TPP_F32, 2, 3, f32);
    tpp_tensor_desc flat = tensor("flat", TPP_F64, 1, 0, NULL);
    assert_int_equal(tpp_safetensors_writer_add(w, &none), TPP_OK);
    assert_int_equal(tpp_safetensors_writer_add(w, &some), TPP_OK);
    assert_int_equal(tpp_safetensors_writer_add(w, &flat), TPP_OK);
    finish(w);
    file = opened(path);
    tpp_tensor_info info = found(file, "none");
    assert_int_equal(info.rows, 0);
    assert_int_equal(info.cols, 5);
    assert_int_equal(info.bytes, 0);
    assert_memory_equal(found(file, "some").data, f32, sizeof f32);
    assert_int_equal(found(file, "flat").cols, 0);
    tpp_safetensors_destroy(file);
}

static void test_names(void **state) {
    static const char *const names[] = {
        "a\"b", "back\\slash", "line\nend", "tab\t\x01", "h.0/ä€\xf0\x9d\x84\x9e", " ", "{}[],:"};
    enum { NAMES = sizeof names / sizeof *names };
    const char *path = io_path(*state, "names.safetensors");
    tpp_safetensors_writer *w = begin(path);
    float value[NAMES];
    for (int i = 0; i < NAMES; i++) {
        value[i] = (float)i;
        tpp_tensor_desc d = tensor(names[i], TPP_F32, 1, 1, &value[i]);
        assert_int_equal(tpp_safetensors_writer_add(w, &d), TPP_OK);
        assert_int_equal(tpp_safetensors_writer_set_metadata(w, names[i], names[i]), TPP_OK);
    }
    finish(w);
    tpp_safetensors *file = opened(path);
    for (int i = 0; i < NAMES; i++) {
        assert_memory_equal(found(file, names[i]).data, &value[i], sizeof value[i]);
        assert_string_equal(tpp_safetensors_metadata_get(file, names[i]), names[i]);
    }
    tpp_safetensors_destroy(file);
}

/* What the door of add refuses; the writer goes on as if nothing had been. */
static void test_refused(void **state) {
    const char *path = io_path(*state, "refused.safetensors");
    tpp_safetensors_writer *w = begin(path);
    tpp_tensor_desc good = tensor("good", TPP_F32, 2, 3, f32);
    assert_int_equal(tpp_safetensors_writer_add(w, &good), TPP_OK);
    tpp_tensor_desc line = tensor("line", TPP_F32, 2, 3, f32);
    line.dims = 1;
    tpp_tensor_desc cube = tensor("cube", TPP_F32, 2, 3, f32);
    cube.dims = 3;
    tpp_tensor_desc flag = tensor("flag", TPP_F32, 2, 3, f32);
    flag.flags = 1;
    const struct {
        tpp_tensor_desc desc;
        tpp_status status;
        const char *word;
    } cases[] = {
        {good, TPP_ERR_INVALID, "good is there already"},
        {tensor(NULL, TPP_F32, 2, 3, f32), TPP_ERR_INVALID, "name"},
        {tensor("", TPP_F32, 2, 3, f32), TPP_ERR_INVALID, "empty"},
        {tensor("__metadata__", TPP_F32, 2, 3, f32), TPP_ERR_INVALID, "metadata"},
        {tensor("\xff\xfe", TPP_F32, 2, 3, f32), TPP_ERR_INVALID, "UTF-8"},
        {tensor("type", 5, 2, 3, f32), TPP_ERR_UNSUPPORTED, "tensor type: desc.dtype = 5"},
        {tensor("type", 0, 2, 3, f32), TPP_ERR_UNSUPPORTED, "desc.dtype = 0"},
        {tensor("below", TPP_F32, -1, 3, f32), TPP_ERR_INVALID, "desc.rows = -1"},
        {tensor("below", TPP_F32, 1, -3, f32), TPP_ERR_INVALID, "desc.cols = -3"},
        {tensor("large", TPP_F32, INT64_MAX, 2, f32), TPP_ERR_OVERFLOW, "64 bits"},
        {tensor("large", TPP_F32, INT64_MAX / 4, 1, f32), TPP_ERR_OVERFLOW, "64 bits"},
        {tensor("nothing", TPP_F32, 2, 3, NULL), TPP_ERR_INVALID, "neither data nor source"},
        {line, TPP_ERR_INVALID, "dims 1"},
        {cube, TPP_ERR_INVALID, "desc.dims = 3"},
        {flag, TPP_ERR_TOO_NEW, "flags"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(tpp_safetensors_writer_add(w, &cases[i].desc), cases[i].status);
        assert_non_null(strstr(tpp_message(), cases[i].word));
    }
    assert_int_equal(tpp_safetensors_writer_add(w, NULL), TPP_ERR_INVALID);
    assert_int_equal(tpp_safetensors_writer_add(NULL, &good), TPP_ERR_INVALID);
    assert_int_equal(tpp_safetensors_writer_set_metadata(w, NULL, ""), TPP_ERR_INVALID);
    assert_int_equal(tpp_safetensors_writer_set_metadata(w, "k", "\xff"), TPP_ERR_INVALID);
    assert_int_equal(tpp_safetensors_writer_finish(w), TPP_OK);
    assert_int_equal(tpp_safetensors_writer_add(w, &line), TPP_ERR_INVALID);
    assert_int_equal(tpp_safetensors_writer_finish(w), TPP_ERR_INVALID);
    tpp_safetensors_writer_destroy(w);
    tpp_safetensors *file = opened(path);
    assert_int_equal(tpp_safetensors_count(file), 1);
    tpp_safetensors_destroy(file);
}

static tpp_status counted_source(void *ctx, const tpp_tensor_call *call) {
    int *left = ctx;
    assert_int_equal(call->bytes, sizeof f32);
    if ((*left)-- == 0) {
        tpp_message_set("no more");
        return TPP_ERR_USER - 5;
    }
    *call->data = f32;
    return TPP_OK;
}

static tpp_status silent_source(void *ctx, const tpp_tensor_call *call) {
    (void)ctx;
    (void)call;
    return TPP_OK;
}

/* Add two tensors with a source that fails at call number `calls`, and finish. */
static tpp_status write_from_source(const char *path, tpp_tensor_source_fn source, int calls) {
    tpp_safetensors_writer *w = begin(path);
    tpp_tensor_desc a = tensor("a", TPP_F32, 2, 3, NULL);
    a.source = source;
    a.ctx = &calls;
    tpp_tensor_desc b = a;
    b.name = "b";
    assert_int_equal(tpp_safetensors_writer_add(w, &a), TPP_OK);
    assert_int_equal(tpp_safetensors_writer_add(w, &b), TPP_OK);
    tpp_status status = tpp_safetensors_writer_finish(w);
    tpp_safetensors_writer_destroy(w);
    return status;
}

/* The old file stays until the new one is whole; a failure or a change of mind leaves no trace. */
static void test_atomic(void **state) {
    const char *path = io_path(*state, "atomic.safetensors");
    assert_int_equal(io_files(*state), 0);
    tpp_safetensors_writer_destroy(begin(path));
    assert_int_equal(io_files(*state), 0);
    assert_int_equal(write_from_source(path, counted_source, 2), TPP_OK);
    assert_int_equal(io_files(*state), 1);

    assert_int_equal(write_from_source(path, counted_source, 1), TPP_ERR_USER - 5);
    assert_string_equal(tpp_message(), "no more");
    assert_int_equal(write_from_source(path, silent_source, 0), TPP_ERR_INVALID);
    tpp_safetensors_writer *first = begin(path);
    tpp_safetensors_writer *second = begin(path); /* at the same time, under the same name */
    assert_int_equal(io_files(*state), 3);
    tpp_safetensors *file = opened(path);
    assert_memory_equal(found(file, "b").data, f32, sizeof f32);
    finish(second);
    assert_memory_equal(found(file, "b").data, f32, sizeof f32); /* the old one, still mapped */
    tpp_safetensors_destroy(file);
    tpp_safetensors_writer_destroy(first);
    assert_int_equal(io_files(*state), 1);
    file = opened(path);
    assert_int_equal(tpp_safetensors_count(file), 0);
    tpp_safetensors_destroy(file);
}

/* A disk that is full: here a limit on the size of files. */
static void test_full_disk(void **state) {
    const char *path = io_path(*state, "full.safetensors");
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    finish(begin(path));
    const struct rlimit small = {70, before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    tpp_status status = write_from_source(path, counted_source, 2);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(status, TPP_ERR_IO);
    assert_non_null(strstr(tpp_message(), path));
    assert_int_equal(io_files(*state), 1);
    tpp_safetensors *file = opened(path); /* the one of before */
    assert_int_equal(tpp_safetensors_count(file), 0);
    tpp_safetensors_destroy(file);
}

static void test_paths(void **state) {
    tpp_safetensors_writer *w = (void *)state;
    tpp_safetensors *file = (void *)state;
    const char *folder = io_path(*state, "folder");
    assert_int_equal(tpp_safetensors_writer_create(&w, "/does/not/exist"), TPP_ERR_IO);
    assert_null(w);
    assert_non_null(strstr(tpp_message(), "/does/not/exist"));
    assert_int_equal(tpp_safetensors_writer_create(&w, "/dev/null"), TPP_ERR_INVALID);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(tpp_safetensors_writer_create(&w, folder), TPP_ERR_INVALID);
    assert_int_equal(tpp_safetensors_create(&file, folder), TPP_ERR_IO);
    assert_int_equal(tpp_safetensors_create(&file, "/dev/null"), TPP_ERR_IO);
    assert_int_equal(tpp_safetensors_create(&file, "/does/not/exist"), TPP_ERR_IO);
    assert_null(file);
    assert_int_equal(tpp_safetensors_create(&file, NULL), TPP_ERR_INVALID);
    assert_int_equal(tpp_safetensors_create(NULL, folder), TPP_ERR_INVALID);
    assert_int_equal(tpp_safetensors_writer_create(&w, NULL), TPP_ERR_INVALID);
    assert_int_equal(tpp_safetensors_writer_create(&w, ""), TPP_ERR_INVALID);
    assert_int_equal(tpp_safetensors_writer_create(NULL, folder), TPP_ERR_INVALID);
    assert_int_equal(tpp_safetensors_count(NULL), 0);
    assert_int_equal(io_files(*state), 1);
    tpp_safetensors_destroy(NULL);
    tpp_safetensors_writer_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, io_folder_make, io_folder_remove),
        cmocka_unit_test_setup_teardown(test_empty, io_folder_make, io_folder_remove),
        cmocka_unit_test_setup_teardown(test_names, io_folder_make, io_folder_remove),
        cmocka_unit_test_setup_teardown(test_refused, io_folder_make, io_folder_remove),
        cmocka_unit_test_setup_teardown(test_atomic, io_folder_make, io_folder_remove),
        cmocka_unit_test_setup_teardown(test_full_disk, io_folder_make, io_folder_remove),
        cmocka_unit_test_setup_teardown(test_paths, io_folder_make, io_folder_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
