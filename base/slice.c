#include "base/slice.h"

#include <stdlib.h>

int ascii_hex(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

int slice_hex_pair(struct slice s, size_t at) {
    int high = at < s.n ? ascii_hex(s.p[at]) : -1;
    int low = high >= 0 && at + 1 < s.n ? ascii_hex(s.p[at + 1]) : -1;
    return low < 0 ? -1 : high << 4 | low;
}

bool slice_caseeq(struct slice a, struct slice b) {
    if (a.n != b.n)
        return false;
    for (size_t i = 0; i < a.n; i++)
        if (ascii_lower(a.p[i]) != ascii_lower(b.p[i]))
            return false;
    return true;
}

int slice_cmp(struct slice a, struct slice b) {
    size_t n = a.n < b.n ? a.n : b.n;
    int r = n ? memcmp(a.p, b.p, n) : 0;
    if (r)
        return r;
    return (a.n > b.n) - (a.n < b.n);
}

ptrdiff_t slice_find(struct slice s, char c) {
    const char *hit = s.n ? memchr(s.p, c, s.n) : NULL;
    return hit ? hit - s.p : -1;
}

bool slice_cut(struct slice s, char sep, struct slice *head, struct slice *tail) {
    ptrdiff_t at = slice_find(s, sep);
    if (at < 0) {
        *head = s;
        *tail = SLICE_NONE;
        return false;
    }
    struct slice h = slice_sub(s, 0, (size_t)at);
    *tail = slice_from(s, (size_t)at + 1);
    *head = h;
    return true;
}

struct slice slice_trim(struct slice s) {
    while (s.n && (s.p[0] == ' ' || s.p[0] == '\t')) {
        s.p++;
        s.n--;
    }
    while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
        s.n--;
    return s;
}

bool slice_u64(struct slice s, uint64_t max, uint64_t *out) {
    if (s.n == 0)
        return false;
    uint64_t v = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (!ascii_digit(s.p[i]))
            return false;
        uint64_t d = (uint64_t)(s.p[i] - '0');
        if (d > max || v > (max - d) / 10)
            return false;
        v = v * 10 + d;
    }
    *out = v;
    return true;
}

struct slice slice_decimal(uint64_t value, char room[SLICE_DECIMAL_MAX]) {
    size_t at = SLICE_DECIMAL_MAX;
    do
        room[--at] = (char)('0' + value % 10);
    while (value /= 10);
    return slice_make(room + at, SLICE_DECIMAL_MAX - at);
}

char *slice_dup(struct slice s) {
    if (s.n && memchr(s.p, 0, s.n))
        return NULL;
    char *copy = malloc(s.n + 1);
    if (!copy)
        return NULL;
    if (s.n)
        memcpy(copy, s.p, s.n);
    copy[s.n] = 0;
    return copy;
}
