/*
 * Base64 as RFC 4648, section 4, has it: 64 digits, padded with '='. By table: fast enough for the roots of a whole system, which are
 * written at every start, and without a library that a program would be loaded with for nothing else.
 */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include "base/slice.h"

extern const char base64_digits[65]; /* the digits in order of their values, and a NUL */

/* The length of `n` bytes in base64. */
static inline size_t base64_length(size_t n) {
    return (n + 2) / 3 * 4;
}

/* Writes base64_length(bytes.n) characters, no NUL after them, and returns their number. `out` is not where `bytes` is. */
size_t base64_encode(struct slice bytes, char *out);

#endif
