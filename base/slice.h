/*
 * A slice: bytes that somebody else owns. Never NUL-terminated, may hold NUL, may be empty (then `p` may be NULL).
 * A slice is passed by value and is good for as long as its owner says.
 */
#ifndef BASE_SLICE_H
#define BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct slice {
    const char *p;
    size_t n;
};

#define SLICE(literal) ((struct slice){(literal), sizeof(literal) - 1})
#define SLICE_NONE     ((struct slice){NULL, 0})
/* For printf's "%.*s". Lengths beyond INT_MAX do not occur: every buffer of ours is bounded far below. */
#define SLICE_ARG(s) (int)(s).n, (s).p ? (s).p : ""

static inline struct slice slice_make(const void *p, size_t n) {
    return (struct slice){p, n};
}

static inline struct slice slice_str(const char *s) {
    return (struct slice){s, s ? strlen(s) : 0};
}

static inline bool slice_eq(struct slice a, struct slice b) {
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

/* The part from `from`, at most `n` bytes; never reaches beyond `s`. */
static inline struct slice slice_sub(struct slice s, size_t from, size_t n) {
    if (from > s.n)
        from = s.n;
    if (n > s.n - from)
        n = s.n - from;
    return (struct slice){s.p ? s.p + from : NULL, n};
}

static inline struct slice slice_from(struct slice s, size_t from) {
    return slice_sub(s, from, SIZE_MAX);
}

static inline bool slice_starts(struct slice s, struct slice prefix) {
    return s.n >= prefix.n && (prefix.n == 0 || memcmp(s.p, prefix.p, prefix.n) == 0);
}

static inline bool slice_ends(struct slice s, struct slice suffix) {
    return s.n >= suffix.n && (suffix.n == 0 || memcmp(s.p + s.n - suffix.n, suffix.p, suffix.n) == 0);
}

/* ASCII only, whatever the locale. */
static inline char ascii_lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static inline bool ascii_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Value of a hexadecimal digit, or -1. */
int ascii_hex(char c);

/* The byte that two hexadecimal digits at `at` stand for, as behind a '%'; -1 if there are none. */
int slice_hex_pair(struct slice s, size_t at);

/* Equal without regard to ASCII case. */
bool slice_caseeq(struct slice a, struct slice b);

/* Three-way comparison, bytewise, a shorter prefix first. */
int slice_cmp(struct slice a, struct slice b);

/* Index of the first `c`, or -1. */
ptrdiff_t slice_find(struct slice s, char c);

/* Cuts `s` at the first `sep`: *head is what stood before, *tail what stands behind. Without a `sep`, *head is all
 * and false is returned, *tail is empty. */
bool slice_cut(struct slice s, char sep, struct slice *head, struct slice *tail);

/* Without spaces and tabs at both ends. */
struct slice slice_trim(struct slice s);

/* An unsigned decimal number: digits only, at least one, no sign, at most `max`. On failure *out is unchanged. */
bool slice_u64(struct slice s, uint64_t max, uint64_t *out);

#define SLICE_DECIMAL_MAX 20 /* digits of the greatest number of 64 bits */

/* The digits of a number, at the end of `room`: what printf does, in a fraction of its time. */
struct slice slice_decimal(uint64_t value, char room[SLICE_DECIMAL_MAX]);

/* A NUL-terminated copy on the heap, which the caller frees; NULL when memory is short or `s` holds a NUL. */
char *slice_dup(struct slice s);

#endif
