#include "policy/spelling.h"

static bool same(char a, char b) {
    return ascii_lower(a) == ascii_lower(b);
}

/* Edits from one word to the other; a swap of neighbours is one. */
static unsigned distance(struct slice a, struct slice b) {
    enum { MAX = 24 };
    unsigned d[MAX + 1][MAX + 1];
    if (a.n > MAX || b.n > MAX)
        return MAX;
    for (size_t i = 0; i <= a.n; i++)
        for (size_t k = 0; k <= b.n; k++) {
            if (i == 0 || k == 0) {
                d[i][k] = (unsigned)(i + k);
                continue;
            }
            unsigned best = d[i - 1][k - 1] + !same(a.p[i - 1], b.p[k - 1]);
            if (d[i - 1][k] + 1 < best)
                best = d[i - 1][k] + 1;
            if (d[i][k - 1] + 1 < best)
                best = d[i][k - 1] + 1;
            if (i > 1 && k > 1 && same(a.p[i - 1], b.p[k - 2]) && same(a.p[i - 2], b.p[k - 1]) &&
                d[i - 2][k - 2] + 1 < best)
                best = d[i - 2][k - 2] + 1;
            d[i][k] = best;
        }
    return d[a.n][b.n];
}

const char *spelling_meant(struct slice word, const char *const *known, size_t n) {
    const char *nearest = NULL;
    unsigned best = 3;
    for (size_t i = 0; i < n; i++) {
        struct slice one = slice_str(known[i]);
        unsigned d = distance(word, one);
        if (d < best && 2 * d < one.n) {
            best = d;
            nearest = known[i];
        }
    }
    return nearest;
}
