/*
 * The commits that a pack carries, by offset and by id, and what follows from their parents.
 */
#include <stdio.h>
#include <stdlib.h>

#include "proxy/codec/pack_internal.h"

/* ---- the store ---- */

size_t pack_store_by_offset(const struct pack *p, uint64_t offset) {
    size_t low = 0, high = p->ncommits;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (p->commits[mid].offset == offset)
            return mid;
        if (p->commits[mid].offset < offset)
            low = mid + 1;
        else
            high = mid;
    }
    return PACK_NONE;
}

/* An id is a hash already; whoever makes commits whose ids begin alike only slows the search down, and by far too little
 * for the work it took. */
static size_t store_slot(const struct pack *p, const uint8_t *id) {
    uint64_t start;
    memcpy(&start, id, sizeof start);
    size_t at = (size_t)start & (p->slots - 1);
    while (p->table[at] && memcmp(p->commits[p->table[at] - 1].id, id, p->id_size) != 0)
        at = (at + 1) & (p->slots - 1);
    return at;
}

size_t pack_store_by_id(const struct pack *p, const uint8_t *id) {
    if (!p->slots)
        return PACK_NONE;
    size_t at = store_slot(p, id);
    return p->table[at] ? p->table[at] - 1 : PACK_NONE;
}

const struct pack_commit *pack_find(const struct pack *p, const uint8_t *id) {
    size_t i = pack_store_by_id(p, id);
    return i == PACK_NONE ? NULL : &p->commits[i];
}

static int store_account(struct pack *p, size_t more) {
    if (more > p->limits.memory - p->kept)
        return errmsg_set(&p->error, ERR_LIMIT, "the commits of the pack take more than %zu MiB",
                          p->limits.memory >> 20);
    p->kept += more;
    return 0;
}

static int store_grow_table(struct pack *p) {
    size_t slots = p->slots ? p->slots * 2 : 256;
    int r = store_account(p, (slots - p->slots) * sizeof *p->table);
    if (r)
        return r;
    uint32_t *table = calloc(slots, sizeof *table);
    if (!table)
        return ERR_NOMEM;
    free(p->table);
    p->table = table;
    p->slots = slots;
    for (size_t i = 0; i < p->ncommits; i++) {
        size_t at = store_slot(p, p->commits[i].id);
        if (!p->table[at])
            p->table[at] = (uint32_t)i + 1;
    }
    return 0;
}

static int store_grow(struct pack *p) {
    if (p->ncommits == p->room) {
        size_t room = p->room ? p->room * 2 : 64;
        int r = store_account(p, (room - p->room) * sizeof *p->commits);
        if (r)
            return r;
        struct pack_commit *commits = realloc(p->commits, room * sizeof *commits);
        if (!commits)
            return ERR_NOMEM;
        p->commits = commits;
        p->room = room;
    }
    return (p->ncommits + 1) * 2 > p->slots ? store_grow_table(p) : 0;
}

static int store_hash(struct pack *p, struct pack_commit *c) {
    char head[32];
    int n = snprintf(head, sizeof head, "commit %u", c->size) + 1;
    unsigned got = 0;
    if (EVP_DigestInit_ex2(p->hash, p->md, NULL) != 1 || EVP_DigestUpdate(p->hash, head, (size_t)n) != 1 ||
        EVP_DigestUpdate(p->hash, c->data, c->size) != 1 || EVP_DigestFinal_ex(p->hash, c->id, &got) != 1 ||
        got != p->id_size)
        return ERR_CRYPTO;
    return 0;
}

int pack_store_add(struct pack *p, uint64_t offset, char *data, size_t size, uint32_t depth) {
    struct pack_commit c = {.offset = offset, .data = data, .size = (uint32_t)size, .depth = depth};
    int r = store_account(p, size + 32); /* and what malloc needs for itself */
    if (r == 0)
        r = store_grow(p);
    if (r == 0)
        r = store_hash(p, &c);
    if (r) {
        free(data);
        return r;
    }
    p->commits[p->ncommits] = c;
    size_t at = store_slot(p, c.id);
    if (!p->table[at])
        p->table[at] = (uint32_t)p->ncommits + 1;
    p->ncommits++;
    return 0;
}

void pack_store_release(struct pack *p) {
    for (size_t i = 0; i < p->ncommits; i++)
        free(p->commits[i].data);
    free(p->commits);
    free(p->table);
    p->commits = NULL;
    p->table = NULL;
    p->ncommits = p->room = p->slots = p->kept = 0;
}

/* ---- parents ---- */

bool pack_id_from_hex(struct slice hex, unsigned id_size, uint8_t *id) {
    if (hex.n != 2 * (size_t)id_size)
        return false;
    for (unsigned i = 0; i < id_size; i++) {
        int high = ascii_hex(hex.p[2 * i]), low = ascii_hex(hex.p[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        id[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* "tree ID", then "parent ID" for each parent, then something else: git reads no parent behind that. */
int pack_next_parent(struct slice commit, unsigned id_size, size_t *at, uint8_t *id) {
    struct slice word = *at ? SLICE("parent ") : SLICE("tree ");
    struct slice rest = slice_from(commit, *at);
    if (!slice_starts(rest, word))
        return *at ? ERR_EOF : ERR_PARSE;
    size_t line = word.n + 2 * (size_t)id_size;
    if (rest.n <= line || rest.p[line] != '\n' ||
        !pack_id_from_hex(slice_sub(rest, word.n, line - word.n), id_size, id))
        return ERR_PARSE;
    bool first = *at == 0;
    *at += line + 1;
    return first ? pack_next_parent(commit, id_size, at, id) : 0;
}

/* ---- ancestry ---- */

struct walk {
    const struct pack *p;
    uint8_t old[PACK_ID_MAX];
    uint32_t *queue; /* each commit comes into it once */
    size_t head, tail;
    uint8_t *seen;
    enum pack_answer answer;
};

static void walk_to(struct walk *w, const uint8_t *id) {
    if (memcmp(id, w->old, w->p->id_size) == 0) {
        w->answer = PACK_YES;
        return;
    }
    size_t i = pack_store_by_id(w->p, id);
    if (i == PACK_NONE) {
        w->answer = PACK_UNKNOWN;
    } else if (!w->seen[i]) {
        w->seen[i] = 1;
        w->queue[w->tail++] = (uint32_t)i;
    }
}

static int walk_on(struct walk *w) {
    while (w->answer != PACK_YES && w->head < w->tail) {
        const struct pack_commit *c = &w->p->commits[w->queue[w->head++]];
        uint8_t parent[PACK_ID_MAX];
        size_t at = 0;
        int r;
        while ((r = pack_next_parent(slice_make(c->data, c->size), w->p->id_size, &at, parent)) == 0) {
            walk_to(w, parent);
            if (w->answer == PACK_YES)
                return 0;
        }
        if (r != ERR_EOF)
            return r;
    }
    return 0;
}

int pack_is_ancestor(const struct pack *p, struct slice old, struct slice young, enum pack_answer *answer) {
    struct walk w = {.p = p, .answer = PACK_NO};
    uint8_t id[PACK_ID_MAX];
    if (!pack_id_from_hex(old, p->id_size, w.old) || !pack_id_from_hex(young, p->id_size, id))
        return ERR_USAGE;
    w.queue = calloc(p->ncommits + 1, sizeof *w.queue);
    w.seen = calloc(p->ncommits + 1, 1);
    int r = ERR_NOMEM;
    if (w.queue && w.seen) {
        walk_to(&w, id);
        r = walk_on(&w);
    }
    free(w.queue);
    free(w.seen);
    if (r == 0)
        *answer = w.answer;
    return r;
}
