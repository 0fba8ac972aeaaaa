/*
 * Theory of operation. A state of the product is, for each pattern, the set of units at which it may stand after the
 * text so far (see glob.c), and for a path a second set for the reading in which a row of slashes is one slash.
 * Beside them stand a few bits about the text itself: whether it ends in a slash, whether it holds an encoded one,
 * where its last segment stands. States that are the same go on the same, so each is walked from once. The alphabet is
 * cut down to the characters that the patterns name, in the spellings that some pattern tells apart, and one
 * character that none names.
 */
#include "policy/walk.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/url.h"

#define SYMBOLS_MAX 512
#define TEXT_MAX    4096
#define NOTHING     UINT32_MAX

#define STATE_WORDS_MAX (8u << 20) /* all states together */

enum segment {
    SEGMENT_START,
    SEGMENT_DOT,
    SEGMENT_DOTS,
    SEGMENT_OTHER,
};

/* The bits about the text, the first word of a state. */
#define NOTE_SEGMENT 3u        /* enum segment */
#define NOTE_SLASH   (1u << 2) /* the last character was '/' */
#define NOTE_LOOSE   (1u << 3) /* … or "%2F" */
#define NOTE_ENCODED (1u << 4) /* holds "%2F" */

struct node {
    uint32_t parent, next; /* next: in the hash's chain */
    uint16_t symbol;
};

struct product {
    struct walk *w;
    size_t at[WALK_PATTERNS_MAX];    /* where the sets of a pattern begin in a state, in words */
    size_t words[WALK_PATTERNS_MAX]; /* of one set */
    size_t size;                     /* words of a state */
    uint64_t *states;
    struct node *nodes;
    size_t n, cap;
    uint32_t *heads;
    uint64_t *scratch, *moved, *tail;
    uint16_t symbols[SYMBOLS_MAX];
    size_t nsymbols;
    char (*classes)[WALK_PATTERNS_MAX * (WALK_TAILS_MAX + 1) / 8 + 1];
    size_t nclasses;
};

void walk_add(struct walk *w, const struct glob *glob, unsigned flags, bool with_tails) {
    for (size_t i = 0; i < w->n; i++) {
        const struct walk_pattern *p = &w->list[i];
        if (p->flags == flags && p->with_tails == with_tails && p->glob->n == glob->n &&
            memcmp(p->glob->units, glob->units, glob->n * sizeof *glob->units) == 0)
            return;
    }
    if (w->n == WALK_PATTERNS_MAX)
        w->full = true;
    else
        w->list[w->n++] = (struct walk_pattern){glob, flags, with_tails};
}

/* --- one pattern ------------------------------------------------------------------------------------------- */

/* A pattern has three sets in a state: plain, collapsed, and (one word) whether each had matched before a last slash. */
enum { BEFORE_PLAIN = 1, BEFORE_COLLAPSED = 2 };

static unsigned fold(unsigned c, unsigned flags) {
    if ((flags & GLOB_LOOSE) && c < GLOB_STAR)
        c &= 0xff;
    if ((flags & (GLOB_NOCASE | GLOB_LOOSE)) && c >= 'A' && c <= 'Z')
        c += 32;
    return c;
}

static bool has(const uint64_t *set, size_t i) {
    return set[i / 64] >> (i % 64) & 1;
}

static void add(const struct glob *g, uint64_t *set, size_t i) {
    for (;; i++) {
        set[i / 64] |= UINT64_C(1) << (i % 64);
        if (i == g->n || g->units[i] < GLOB_STAR)
            return;
    }
}

static void step(const struct walk_pattern *p, const uint64_t *from, uint64_t *to, size_t words,
                 unsigned raw) {
    const struct glob *g = p->glob;
    unsigned c = fold(raw, p->flags);
    bool encoded = raw >= URL_UNIT_ENCODED, slash = c == (URL_UNIT_ENCODED | '/');
    memset(to, 0, words * sizeof *to);
    for (size_t w = 0; w < words; w++)
        for (uint64_t bits = from[w]; bits; bits &= bits - 1) {
            size_t i = w * 64 + (size_t)__builtin_ctzll(bits);
            unsigned unit = i < g->n ? g->units[i] : 0;
            if (i == g->n)
                continue;
            if (unit < GLOB_STAR ? fold(unit, p->flags) == c : false)
                add(g, to, i + 1);
            else if (unit == GLOB_STARSTAR ? !slash : unit == GLOB_STAR && !slash && (c != '/' || encoded))
                add(g, to, i);
        }
}

/* Moves pattern i of a state on by a character. `slashed`: the text so far ends in what this pattern takes for '/'. */
static void move_pattern(const struct product *x, size_t i, const uint64_t *from, uint64_t *to, unsigned raw,
                         bool slashed) {
    const struct walk_pattern *p = &x->w->list[i];
    size_t words = x->words[i];
    bool slash = fold(raw, p->flags) == '/';
    from += x->at[i];
    to += x->at[i];
    uint64_t before = 0;
    step(p, from, to, words, raw);
    if (slash && has(from, p->glob->n))
        before |= BEFORE_PLAIN;
    if (!x->w->path) {
        memcpy(to + words, to, words * sizeof *to);
    } else if (slash && slashed) {
        memcpy(to + words, from + words, words * sizeof *to);
        before |= from[2 * words] & BEFORE_COLLAPSED;
    } else {
        step(p, from + words, to + words, words, raw);
        if (slash && has(from + words, p->glob->n))
            before |= BEFORE_COLLAPSED;
    }
    to[2 * words] = p->flags & GLOB_LOOSE ? before : 0;
}

/* As judging does: an allow must take both readings, a deny one of them. */
static bool takes(const struct product *x, size_t i, const uint64_t *state) {
    const struct walk_pattern *p = &x->w->list[i];
    const uint64_t *s = state + x->at[i];
    size_t words = x->words[i];
    bool plain = has(s, p->glob->n) || (s[2 * words] & BEFORE_PLAIN);
    bool collapsed = has(s + words, p->glob->n) || (s[2 * words] & BEFORE_COLLAPSED);
    return p->flags & GLOB_LOOSE ? plain || collapsed : plain && collapsed;
}

/* --- a state ----------------------------------------------------------------------------------------------- */

/* The segment after one more character; -1: no text goes on so. */
static int next_segment(const struct walk *w, unsigned notes, unsigned raw) {
    enum segment s = (enum segment)(notes & NOTE_SEGMENT);
    bool border = raw == '/' || raw == (URL_UNIT_ENCODED | '/');
    if ((border || raw == ';') && (s == SEGMENT_DOT || s == SEGMENT_DOTS))
        return -1;
    if (border)
        return !w->path && s == SEGMENT_START ? -1 : SEGMENT_START;
    if (raw == '.' && s == SEGMENT_START)
        return SEGMENT_DOT;
    return raw == '.' && s == SEGMENT_DOT ? SEGMENT_DOTS : SEGMENT_OTHER;
}

static bool move(const struct product *x, const uint64_t *from, uint64_t *to, unsigned raw) {
    unsigned notes = (unsigned)from[0];
    int segment = next_segment(x->w, notes, raw);
    if (segment < 0)
        return false;
    bool slash = raw == '/', encoded = raw == (URL_UNIT_ENCODED | '/');
    to[0] = (uint64_t)segment | (slash ? NOTE_SLASH : 0) | (slash || encoded ? NOTE_LOOSE : 0) |
            (notes & NOTE_ENCODED) | (encoded ? NOTE_ENCODED : 0);
    for (size_t i = 0; i < x->w->n; i++)
        move_pattern(x, i, from, to, raw,
                     notes & (x->w->list[i].flags & GLOB_LOOSE ? NOTE_LOOSE : NOTE_SLASH));
    return true;
}

static void begin(const struct product *x, uint64_t *state) {
    memset(state, 0, x->size * sizeof *state);
    for (size_t i = 0; i < x->w->n; i++) {
        add(x->w->list[i].glob, state + x->at[i], 0);
        add(x->w->list[i].glob, state + x->at[i] + x->words[i], 0);
    }
}

static void move_text(struct product *x, uint64_t *state, struct slice text) {
    for (size_t i = 0; i < text.n; i++)
        if (move(x, state, x->moved, (unsigned char)text.p[i]))
            memcpy(state, x->moved, x->size * sizeof *state);
}

static uint64_t hash(const uint64_t *state, size_t n) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) {
        h = (h ^ state[i]) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    return h;
}

/* Keeps the state in `scratch` if it is new. */
static bool keep(struct product *x, uint32_t parent, uint16_t symbol) {
    uint32_t *head = &x->heads[hash(x->scratch, x->size) % (2 * WALK_STATES_MAX)];
    for (uint32_t k = *head; k != NOTHING; k = x->nodes[k].next)
        if (memcmp(&x->states[k * x->size], x->scratch, x->size * sizeof *x->scratch) == 0)
            return true;
    if (x->n == WALK_STATES_MAX || x->n * x->size >= STATE_WORDS_MAX) {
        x->w->truncated = true;
        return true;
    }
    if (x->n == x->cap) {
        size_t cap = x->cap ? 2 * x->cap : 256;
        uint64_t *states = realloc(x->states, cap * x->size * sizeof *states);
        if (states)
            x->states = states;
        struct node *nodes = realloc(x->nodes, cap * sizeof *nodes);
        if (nodes)
            x->nodes = nodes;
        if (!states || !nodes)
            return false;
        x->cap = cap;
    }
    memcpy(&x->states[x->n * x->size], x->scratch, x->size * sizeof *x->scratch);
    x->nodes[x->n] = (struct node){parent, *head, symbol};
    *head = (uint32_t)x->n++;
    return true;
}

/* --- the alphabet ------------------------------------------------------------------------------------------ */

static void add_symbol(struct product *x, unsigned c) {
    for (size_t i = 0; i < x->nsymbols; i++)
        if (x->symbols[i] == c)
            return;
    if (x->nsymbols < SYMBOLS_MAX)
        x->symbols[x->nsymbols++] = (uint16_t)c;
    else
        x->w->truncated = true;
}

static bool unreserved(unsigned c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("-._~", (int)c));
}

/* A character of a pattern in every spelling that is not the same to all of them. */
static void add_spellings(struct product *x, unsigned unit, unsigned flags) {
    unsigned c = unit & 0xff;
    add_symbol(x, unit);
    if ((flags & (GLOB_NOCASE | GLOB_LOOSE)) && c >= 'a' && c <= 'z')
        add_symbol(x, c - 32);
    if ((flags & (GLOB_NOCASE | GLOB_LOOSE)) && c >= 'A' && c <= 'Z')
        add_symbol(x, c + 32);
    if (!x->w->path || !(flags & GLOB_LOOSE) || unreserved(c) || c == '/')
        return;
    add_symbol(x, URL_UNIT_ENCODED | c);
    if (strchr("!$&'()*+,;=:@", (int)c))
        add_symbol(x, c);
}

static void make_alphabet(struct product *x) {
    for (size_t i = 0; i < x->w->n; i++)
        for (size_t k = 0; k < x->w->list[i].glob->n; k++)
            if (x->w->list[i].glob->units[k] < GLOB_STAR)
                add_spellings(x, x->w->list[i].glob->units[k], x->w->list[i].flags);
    static const char others[] = "xyzwvutsrqponmlkjihgfedcba0123456789_-~";
    size_t named = x->nsymbols;
    for (const char *o = others; *o; o++) {
        bool used = false;
        for (size_t i = 0; i < named; i++) {
            unsigned have = x->symbols[i];
            used |=
                have == (unsigned char)*o || (have >= 'A' && have <= 'Z' && have + 32 == (unsigned char)*o);
        }
        if (!used) {
            /* to the front, so that examples are made of it where they may */
            add_symbol(x, (unsigned char)*o);
            uint16_t last = x->symbols[x->nsymbols - 1];
            memmove(x->symbols + 1, x->symbols, (x->nsymbols - 1) * sizeof *x->symbols);
            x->symbols[0] = last;
            break;
        }
    }
    add_symbol(x, '/');
    if (x->w->path)
        add_symbol(x, URL_UNIT_ENCODED | '/');
}

/* --- classes ----------------------------------------------------------------------------------------------- */

static void put_bit(char *class, size_t i) {
    class[i / 8] = (char)(class[i / 8] | 1 << (i % 8));
}

/* Whether the state is the first of its class. */
static bool first_of_class(struct product *x, const uint64_t *state) {
    char class[sizeof *x->classes];
    size_t bit = 0;
    memset(class, 0, sizeof class);
    if (state[0] & NOTE_ENCODED)
        put_bit(class, sizeof class * 8 - 1);
    for (size_t i = 0; i < x->w->n; i++)
        if (!x->w->list[i].with_tails && takes(x, i, state))
            put_bit(class, i);
    bit = x->w->n;
    for (size_t t = 0; t < x->w->ntails; t++, bit += x->w->n) {
        memcpy(x->tail, state, x->size * sizeof *state);
        move_text(x, x->tail, x->w->tails[t]);
        for (size_t i = 0; i < x->w->n && bit + x->w->n < sizeof class * 8; i++)
            if (x->w->list[i].with_tails && takes(x, i, x->tail))
                put_bit(class, bit + i);
    }
    for (size_t i = 0; i < x->nclasses; i++)
        if (memcmp(x->classes[i], class, sizeof class) == 0)
            return false;
    if (x->nclasses == WALK_CLASSES_MAX) {
        x->w->truncated = true;
        return false;
    }
    memcpy(x->classes[x->nclasses++], class, sizeof class);
    return true;
}

static bool is_text(const struct product *x, const uint64_t *state) {
    unsigned segment = state[0] & NOTE_SEGMENT;
    if (x->w->repository && (state[0] & NOTE_SLASH))
        return false;
    return segment != SEGMENT_DOT && segment != SEGMENT_DOTS && (x->w->path || segment != SEGMENT_START);
}

/* The text that leads to a state, written from its end. */
static struct slice text_of(const struct product *x, size_t i, char text[TEXT_MAX]) {
    static const char hex[] = "0123456789ABCDEF";
    size_t at = TEXT_MAX;
    for (; x->nodes[i].parent != NOTHING; i = x->nodes[i].parent) {
        unsigned c = x->nodes[i].symbol;
        if (at < x->w->start.n + 3)
            return SLICE_NONE;
        if (c >= URL_UNIT_ENCODED) {
            text[--at] = hex[c & 15];
            text[--at] = hex[c >> 4 & 15];
            c = '%';
        }
        text[--at] = (char)c;
    }
    at -= x->w->start.n;
    memcpy(text + at, x->w->start.p, x->w->start.n);
    return slice_make(text + at, TEXT_MAX - at);
}

static bool prepare(struct product *x) {
    x->size = 1;
    for (size_t i = 0; i < x->w->n; i++) {
        x->words[i] = x->w->list[i].glob->n / 64 + 1;
        x->at[i] = x->size;
        x->size += 2 * x->words[i] + 1;
    }
    x->heads = malloc(2 * WALK_STATES_MAX * sizeof *x->heads);
    x->scratch = calloc(3 * x->size, sizeof *x->scratch);
    x->classes = malloc(WALK_CLASSES_MAX * sizeof *x->classes);
    if (!x->heads || !x->scratch || !x->classes)
        return false;
    x->moved = x->scratch + x->size;
    x->tail = x->moved + x->size;
    memset(x->heads, 0xff, 2 * WALK_STATES_MAX * sizeof *x->heads);
    make_alphabet(x);
    begin(x, x->scratch);
    move_text(x, x->scratch, x->w->start);
    return keep(x, NOTHING, 0);
}

/* A second slash right behind the first is no path. */
static bool leading_row(const struct product *x, size_t i, unsigned c) {
    return x->w->path && x->nodes[i].parent == NOTHING && (c & 0xff) == '/' && x->w->start.n == 1;
}

int walk(struct walk *w, int (*found)(void *arg, struct slice text), void *arg) {
    struct product x = {.w = w};
    char text[TEXT_MAX];
    w->truncated = w->full;
    int r = prepare(&x) ? 0 : ERR_NOMEM;
    for (size_t i = 0; r == 0 && i < x.n; i++) {
        uint64_t steps = (uint64_t)x.nsymbols * x.size;
        if (w->left < steps) {
            w->truncated = true;
            break;
        }
        w->left -= steps;
        if (is_text(&x, &x.states[i * x.size]) && first_of_class(&x, &x.states[i * x.size])) {
            struct slice s = text_of(&x, i, text);
            if (s.n)
                r = found(arg, s);
            else
                w->truncated = true;
        }
        for (size_t k = 0; r == 0 && k < x.nsymbols; k++) {
            if (leading_row(&x, i, x.symbols[k]) || !move(&x, &x.states[i * x.size], x.scratch, x.symbols[k]))
                continue;
            if (!keep(&x, (uint32_t)i, x.symbols[k]))
                r = ERR_NOMEM;
        }
    }
    free(x.states);
    free(x.nodes);
    free(x.heads);
    free(x.scratch);
    free(x.classes);
    return r;
}
