#include "proxy/codec/watch.h"

#include <stdlib.h>

#define WATCH_WINDOW   65536 /* bytes beside those that have to be kept */
#define WATCH_BITS     15    /* of an index into the set; more where there are many marks … */
#define WATCH_BITS_MAX 18
#define WATCH_SPARSE   128         /* … so that there are so many places for each */
#define WATCH_STEP     4           /* bytes looked at in one go */
#define WATCH_FREE     (64u << 20) /* bytes that may be digested, whatever was seen; beyond them … */
#define WATCH_TIMES    4           /* … so many for each byte seen */
#define WATCH_COST     256         /* what a digest costs beside its bytes, in bytes */

struct watch_table {
    struct watch_key key;
    /* a byte for each beginning of a fingerprint, in it a bit for each that the next three bits can be */
    uint8_t *set;
    unsigned shift; /* of a product, to be an index into the set */
    size_t n;
    struct row {
        struct watchmark mark;
        uint32_t number;
    } * rows;       /* ascending by fingerprints */
    size_t longest; /* of all secrets */
    size_t after;   /* the most bytes that follow those of a fingerprint */
};

static int compare_rows(const void *a, const void *b) {
    uint64_t x = ((const struct row *)a)->mark.print, y = ((const struct row *)b)->mark.print;
    return x < y ? -1 : x > y;
}

int watch_table_new(const struct watch_key *key, const struct watchmark *marks, size_t n,
                    struct watch_table **out) {
    unsigned bits = WATCH_BITS;
    while (bits < WATCH_BITS_MAX && (1u << bits) / WATCH_SPARSE < n)
        bits++;
    struct watch_table *t = calloc(1, sizeof *t);
    *out = NULL;
    if (!t)
        return ERR_NOMEM;
    t->key = *key;
    t->shift = 64 - bits;
    t->set = calloc(1u << bits, sizeof *t->set);
    t->rows = calloc(n + 1, sizeof *t->rows);
    if (!t->set || !t->rows) {
        watch_table_free(t);
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        t->set[marks[i].print >> (WATCH_PRINT_BITS - bits)] |=
            (uint8_t)(1u << (marks[i].print >> (WATCH_PRINT_BITS - bits - 3) & 7));
        t->rows[i] = (struct row){marks[i], (uint32_t)i};
        t->longest = marks[i].length > t->longest ? marks[i].length : t->longest;
        t->after = marks[i].after > t->after ? marks[i].after : t->after;
    }
    t->n = n;
    qsort(t->rows, n, sizeof *t->rows, compare_rows);
    *out = t;
    return 0;
}

void watch_table_free(struct watch_table *table) {
    if (!table)
        return;
    free(table->set);
    free(table->rows);
    free(table);
}

int watch_init(struct watch *w, const struct watch_table *table, struct git_memory *memory) {
    size_t cap = table->longest + table->after + WATCH_WINDOW;
    *w = (struct watch){.table = table, .memory = memory, .at = WATCH_GRAM};
    w->err = git_memory_take(memory, cap) ? 0 : ERR_LIMIT;
    if (w->err)
        return w->err;
    w->cap = cap;
    w->window = malloc(cap);
    if (!w->window) {
        watch_release(w);
        w->err = ERR_NOMEM;
    }
    return w->err;
}

void watch_release(struct watch *w) {
    git_memory_give(w->memory, w->cap);
    free(w->window);
    w->window = NULL;
    w->cap = 0;
}

/* ---- hits ---- */

static int watch_hit(struct watch *w, uint32_t number, struct slice bytes) {
    uint8_t digest[WATCH_DIGEST_SIZE];
    w->digested += bytes.n + WATCH_COST;
    if (w->digested > WATCH_FREE && w->digested / WATCH_TIMES > w->seen)
        return ERR_LIMIT;
    int r = watch_digest(&w->table->key, bytes, digest);
    for (size_t i = 0; r == 0 && i < w->nhits; i++)
        if (w->hits[i].mark == number && memcmp(w->hits[i].digest, digest, sizeof digest) == 0)
            return 0;
    if (r == 0 && w->nhits == WATCH_HITS_MAX)
        r = ERR_LIMIT;
    if (r)
        return r;
    struct watch_hit *hit = &w->hits[w->nhits++];
    *hit = (struct watch_hit){.mark = number};
    memcpy(hit->digest, digest, sizeof digest);
    return 0;
}

/* Does a mark fit the eight bytes that end at `end`, and is all of its secret there? */
static int watch_look(struct watch *w, struct slice run, size_t end, uint64_t print) {
    const struct watch_table *t = w->table;
    size_t low = 0, high = t->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (t->rows[middle].mark.print < print)
            low = middle + 1;
        else
            high = middle;
    }
    int r = 0;
    for (; r == 0 && low < t->n && t->rows[low].mark.print == print; low++) {
        const struct watchmark *mark = &t->rows[low].mark;
        if (mark->after > run.n - end || mark->length > end + mark->after || (mark->part && !w->parts))
            continue;
        r = watch_hit(w, t->rows[low].number, slice_sub(run, end + mark->after - mark->length, mark->length));
    }
    return r;
}

/* All groups of eight bytes that end from `from` to `to`. The first loop is where the time goes. */
static int watch_scan(struct watch *w, struct slice run, size_t from, size_t to) {
    const uint64_t factor = w->table->key.factor;
    const uint8_t *set = w->table->set;
    const unsigned shift = w->table->shift;
    size_t end = from;
    int r = 0;
    while (r == 0 && end <= to) {
        const char *p = run.p + end - WATCH_GRAM;
        for (; to - end >= WATCH_STEP; end += WATCH_STEP, p += WATCH_STEP)
            if (set[watch_product(factor, p) >> shift] | set[watch_product(factor, p + 1) >> shift] |
                set[watch_product(factor, p + 2) >> shift] | set[watch_product(factor, p + 3) >> shift])
                break;
        size_t until = to - end < WATCH_STEP ? to : end + WATCH_STEP - 1;
        for (; r == 0 && end <= until; end++, p++) {
            uint64_t product = watch_product(factor, p);
            if (set[product >> shift] >> (product >> (shift - 3) & 7) & 1)
                r = watch_look(w, run, end, watch_print(product));
        }
    }
    return r;
}

/* ---- runs ---- */

/* Makes room: what no secret that may still be found begins in is given up. */
static void watch_shift(struct watch *w) {
    size_t drop = w->at > w->table->longest ? w->at - w->table->longest : 0;
    memmove(w->window, w->window + drop, w->n - drop);
    w->n -= drop;
    w->at -= drop;
}

int watch_feed(struct watch *w, struct slice bytes) {
    size_t after = w->table->after;
    w->seen += bytes.n;
    while (w->err == 0 && bytes.n) {
        if (w->n == w->cap)
            watch_shift(w);
        struct slice part = slice_sub(bytes, 0, w->cap - w->n);
        memcpy(w->window + w->n, part.p, part.n);
        w->n += part.n;
        bytes = slice_from(bytes, part.n);
        if (w->n < w->at + after)
            continue;
        w->err = watch_scan(w, slice_make(w->window, w->n), w->at, w->n - after);
        w->at = w->n - after + 1;
    }
    return w->err;
}

int watch_end(struct watch *w) {
    if (w->err == 0)
        w->err = watch_scan(w, slice_make(w->window, w->n), w->at, w->n);
    w->n = 0;
    w->at = WATCH_GRAM;
    return w->err;
}

int watch_whole(struct watch *w, struct slice bytes) {
    w->seen += bytes.n;
    if (w->err == 0)
        w->err = watch_scan(w, bytes, WATCH_GRAM, bytes.n);
    return w->err;
}
