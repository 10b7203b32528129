/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_BASE_FETCH_H
#define TPP_BASE_FETCH_H

/* Ask for memory that will be read soon, where the hardware does not foresee it: many ranks take
 * turns, each reading its own stretch. Any address will do. */
static inline void tpp__fetch(const void *soon) {
#if defined(__GNUC__)
    __builtin_prefetch(soon);
#else
    (void)soon;
#endif
}

#endif
