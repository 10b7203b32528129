/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_KERN_BY_TYPE_H
#define TPP_KERN_BY_TYPE_H

#include "base/bf16.h"

#include <tpp/base.h>

/* Calls one of name_f32, name_f64 and name_bf16, which each_type.inc makes of a template. */
#define TPP__BY_TYPE(dtype, name, ...)                                                             \
    do {                                                                                           \
        if ((dtype) == TPP_F32)                                                                    \
            name##_f32(__VA_ARGS__);                                                               \
        else if ((dtype) == TPP_F64)                                                               \
            name##_f64(__VA_ARGS__);                                                               \
        else                                                                                       \
            name##_bf16(__VA_ARGS__);                                                              \
    } while (0)

/* The same of functions that return a number. */
#define TPP__OF_TYPE(dtype, name, ...)                                                             \
    ((dtype) == TPP_F32   ? name##_f32(__VA_ARGS__)                                                \
     : (dtype) == TPP_F64 ? name##_f64(__VA_ARGS__)                                                \
                          : name##_bf16(__VA_ARGS__))

#endif
