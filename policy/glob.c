/*
 * Theory of operation. A pattern of n units is an automaton with n + 1 states; state i means that the units before i
 * have matched. A wildcard's state stays active while it takes characters, and passes on to the next state without
 * taking one. The set of active states is a bit set on the stack, moved on by one character of the text at a time.
 */
#include "policy/glob.h"

#include "base/url.h"

#define WORDS ((GLOB_MAX + 64) / 64)

bool glob_make(struct glob *g, const uint16_t *units, size_t n, struct arena *arena) {
    if (n > GLOB_MAX - 1)
        return false;
    uint16_t *copy = arena_alloc(arena, (n ? n : 1) * sizeof *copy);
    if (!copy)
        return false;
    if (n)
        memcpy(copy, units, n * sizeof *copy);
    *g = (struct glob){.units = copy, .n = n};
    while (g->literal < n && copy[g->literal] < GLOB_STAR)
        g->literal++;
    return true;
}

/* The text, read as characters in the way that the flags say. */
struct reader {
    struct slice text;
    size_t at;
    unsigned flags;
    unsigned previous;
};

static inline unsigned fold(unsigned c, unsigned flags) {
    if ((flags & GLOB_LOOSE) && c < GLOB_STAR)
        c &= 0xff;
    if ((flags & (GLOB_NOCASE | GLOB_LOOSE)) && c >= 'A' && c <= 'Z')
        c += 32;
    return c;
}

static inline bool read_unit(struct reader *r, unsigned *out) {
    while (r->at < r->text.n) {
        unsigned c = (unsigned char)r->text.p[r->at];
        if (c == '%' && (r->flags & GLOB_PATH))
            c = url_path_unit(r->text, &r->at);
        else
            r->at++;
        c = fold(c, r->flags);
        if ((r->flags & GLOB_COLLAPSE) && c == '/' && r->previous == '/')
            continue;
        r->previous = c;
        *out = c;
        return true;
    }
    return false;
}

#define ENCODED_SLASH (URL_UNIT_ENCODED | '/')

/* Strictly, an encoded slash is taken by no wildcard. Loosely it has been folded into '/', and `*` takes it as a
 * character of the segment that it may be: so `*` takes a '/' where the text spelled it "%2F". */
static bool star_takes(unsigned c, bool was_encoded) {
    return c != ENCODED_SLASH && (c != '/' || was_encoded);
}

struct states {
    uint64_t word[WORDS];
    size_t words; /* in use */
};

/* Adds state i, and those that a wildcard at i passes on to. */
static inline void add(const struct glob *g, uint64_t *word, size_t i) {
    for (;;) {
        word[i / 64] |= UINT64_C(1) << (i % 64);
        if (i == g->n || g->units[i] < GLOB_STAR)
            return;
        i++;
    }
}

/* Adds to `next` where state i comes by the character c. */
static inline void step(const struct glob *g, uint64_t *next, size_t i, unsigned c, bool was_encoded,
                        unsigned flags) {
    if (i == g->n)
        return;
    unsigned unit = g->units[i];
    if (unit < GLOB_STAR) {
        if (fold(unit, flags) == c)
            add(g, next, i + 1);
    } else if (unit == GLOB_STARSTAR ? c != ENCODED_SLASH : star_takes(c, was_encoded)) {
        add(g, next, i);
    }
}

/* One character on. False if no state is left. */
static bool step_all(const struct glob *g, const struct states *now, struct states *next, unsigned c,
                     bool was_encoded, unsigned flags) {
    uint64_t any = 0;
    memset(next->word, 0, now->words * sizeof *next->word);
    next->words = now->words;
    for (size_t w = 0; w < now->words; w++)
        for (uint64_t bits = now->word[w]; bits; bits &= bits - 1)
            step(g, next->word, w * 64 + (size_t)__builtin_ctzll(bits), c, was_encoded, flags);
    for (size_t w = 0; w < now->words; w++)
        any |= next->word[w];
    return any != 0;
}

static bool has(const struct states *s, size_t i) {
    return s->word[i / 64] >> (i % 64) & 1;
}

static inline bool encoded_at(const struct reader *r, size_t start) {
    return (r->flags & GLOB_PATH) && r->text.p[start] == '%';
}

/* Follows the automaton from the unit `from` on over what `r` has left. */
static bool run(const struct glob *g, size_t from, struct reader *r) {
    struct states sets[2];
    struct states *now = &sets[0], *next = &sets[1];
    now->words = (g->n + 64) / 64;
    memset(now->word, 0, now->words * sizeof *now->word);
    add(g, now->word, from);
    bool before_slash =
        false; /* whether all matched before the text's last character, should that be a '/' */
    unsigned c;
    for (size_t start = r->at; read_unit(r, &c); start = r->at) {
        before_slash = c == '/' && has(now, g->n);
        if (!step_all(g, now, next, c, encoded_at(r, start), r->flags) && !before_slash)
            return false;
        struct states *swap = now;
        now = next;
        next = swap;
    }
    return has(now, g->n) || ((r->flags & GLOB_LOOSE) && before_slash);
}

/* The same for a pattern whose states fit into one word, which nearly every one does. */
static bool run_small(const struct glob *g, size_t from, struct reader *r) {
    uint64_t now = 0;
    bool before_slash = false;
    unsigned c;
    add(g, &now, from);
    for (size_t start = r->at; read_unit(r, &c); start = r->at) {
        uint64_t next = 0;
        bool encoded = encoded_at(r, start);
        before_slash = c == '/' && (now >> g->n & 1);
        for (uint64_t bits = now; bits; bits &= bits - 1)
            step(g, &next, (size_t)__builtin_ctzll(bits), c, encoded, r->flags);
        now = next;
        if (!now && !before_slash)
            return false;
    }
    return (now >> g->n & 1) || ((r->flags & GLOB_LOOSE) && before_slash);
}

/* Whether the text's last character rules the pattern out. For a text whose characters are its bytes. */
static bool end_differs(const struct glob *g, struct slice text, unsigned flags) {
    unsigned unit = g->n ? g->units[g->n - 1] : GLOB_STAR;
    if (unit >= GLOB_STAR || text.n == 0)
        return false;
    unsigned last = (unsigned char)text.p[text.n - 1];
    if ((flags & GLOB_LOOSE) && last == '/' && fold(unit, flags) != '/' && text.n > 1)
        last = (unsigned char)text.p[text.n - 2];
    return fold(last, flags) != fold(unit, flags);
}

bool glob_match(const struct glob *g, struct slice text, unsigned flags) {
    struct reader r = {.text = text, .flags = flags};
    bool plain = !(flags & (GLOB_PATH | GLOB_COLLAPSE));
    unsigned c;
    if (plain && end_differs(g, text, flags))
        return false;
    for (size_t i = 0; i < g->literal; i++)
        if (!read_unit(&r, &c) || fold(g->units[i], flags) != c)
            return false;
    if (plain && g->literal + 1 == g->n && g->units[g->literal] == GLOB_STARSTAR)
        return true;
    if (g->literal == g->n && !(flags & GLOB_LOOSE))
        return !read_unit(&r, &c);
    return g->n < 64 ? run_small(g, g->literal, &r) : run(g, g->literal, &r);
}

bool glob_below(const struct glob *g, struct slice text, unsigned flags) {
    struct states sets[2];
    struct states *now = &sets[0], *next = &sets[1];
    now->words = (g->n + 64) / 64;
    memset(now->word, 0, now->words * sizeof *now->word);
    add(g, now->word, 0);
    for (size_t i = 0; i <= text.n; i++) {
        unsigned c = i < text.n ? fold((unsigned char)text.p[i], flags) : '/';
        if (!step_all(g, now, next, c, false, flags))
            return false;
        struct states *swap = now;
        now = next;
        next = swap;
    }
    return true;
}
