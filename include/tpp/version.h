/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_VERSION_H
#define TPP_VERSION_H

/**
 * @file version.h
 * Version numbers, at compile time (the macros) and at run time (the functions), and the export
 * macro.
 *
 * While the major version is 0, a program built with 0.x runs with any later 0.x.y of the same x
 * (the soname is libtpp.so.0.x). From 1.0 on, with any later 1.y.
 */

#include <stdint.h>

#if defined(__GNUC__)
#define TPP_API __attribute__((visibility("default")))
#else
#define TPP_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define TPP_VERSION_MAJOR 0
#define TPP_VERSION_MINOR 1
#define TPP_VERSION_PATCH 0
#define TPP_VERSION_STRING "0.1.0"

/** The version as one number: major << 16 | minor << 8 | patch, for comparing. */
#define TPP_VERSION ((TPP_VERSION_MAJOR << 16) | (TPP_VERSION_MINOR << 8) | TPP_VERSION_PATCH)

/**
 * The version of the library that runs, in the form of TPP_VERSION.
 *
 * Threads: any. Since: 0.1.
 */
TPP_API uint32_t tpp_version(void);

/**
 * The version of the library that runs, as text, such as "0.1.0".
 *
 * Memory: static text, never freed. Threads: any. Since: 0.1.
 */
TPP_API const char *tpp_version_string(void);

#ifdef __cplusplus
}
#endif

#endif
