/*
 * Runs a check over every truncation of a valid input and over it with each single bit turned, from heap blocks of
 * exactly the input's size, so that a sanitizer sees a read past the end.
 */
#ifndef TESTS_UNIT_MUTATE_H
#define TESTS_UNIT_MUTATE_H

#include <stdlib.h>

#include "base/slice.h"

typedef void mutate_fn(struct slice input, void *arg);

static inline void mutate_copy(struct slice input, mutate_fn *fn, void *arg) {
    char *copy = malloc(input.n ? input.n : 1);
    if (!copy)
        abort();
    if (input.n)
        memcpy(copy, input.p, input.n);
    fn(slice_make(copy, input.n), arg);
    free(copy);
}

static inline void mutate_truncate(struct slice input, mutate_fn *fn, void *arg) {
    for (size_t n = 0; n < input.n; n++)
        mutate_copy(slice_sub(input, 0, n), fn, arg);
}

static inline void mutate_flip(struct slice input, mutate_fn *fn, void *arg) {
    char *copy = malloc(input.n + 1);
    if (!copy)
        abort();
    memcpy(copy, input.p, input.n);
    for (size_t bit = 0; bit < input.n * 8; bit++) {
        copy[bit / 8] ^= (char)(1 << bit % 8);
        mutate_copy(slice_make(copy, input.n), fn, arg);
        copy[bit / 8] ^= (char)(1 << bit % 8);
    }
    free(copy);
}

#endif
