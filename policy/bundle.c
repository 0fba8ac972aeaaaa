/*
 * A policy's input as bytes: "exeatpol" and a version, then numbers of 32 bits (big-endian) and texts with their
 * length before them:
 *
 *     files  { name text }   askings { from (0: the user, else 1 + number of a file)  name  number of a file }
 *     sets   { name value }
 */
#include "policy/diag.h"
#include "policy/rule.h"

#include <stdlib.h>

#define MAGIC "exeatpol\1"

static int put_u32(struct buf *out, size_t v) {
    char b[4] = {(char)(v >> 24), (char)(v >> 16), (char)(v >> 8), (char)v};
    return buf_put(out, slice_make(b, 4));
}

static void put_text(struct buf *out, struct slice s) {
    put_u32(out, s.n);
    buf_put(out, s);
}

static size_t number_of(const struct policy *p, const char *name) {
    for (size_t i = 0; i < p->nfiles; i++)
        if (strcmp(p->files[i]->name, name) == 0)
            return i;
    return 0;
}

int policy_bundle(const struct policy *p, struct buf *out) {
    size_t n = 0;
    buf_put(out, SLICE(MAGIC));
    put_u32(out, p->nfiles);
    for (size_t i = 0; i < p->nfiles; i++) {
        put_text(out, slice_str(p->files[i]->name));
        put_text(out, p->files[i]->text);
    }
    for (const struct asked *a = p->asked; a; a = a->next)
        n++;
    put_u32(out, n);
    for (const struct asked *a = p->asked; a; a = a->next) {
        put_u32(out, a->from ? 1 + number_of(p, a->from) : 0);
        put_text(out, slice_str(a->name));
        put_u32(out, a->source->index);
    }
    put_u32(out, p->nsets);
    for (size_t i = 0; i < p->nsets; i++) {
        put_text(out, slice_str(p->sets[i].name));
        put_text(out, slice_str(p->sets[i].value));
    }
    return out->failed ? ERR_LIMIT : 0;
}

/* Reading: a fault stays, and everything read after it is empty. */
struct unpack {
    struct slice rest;
    bool bad;
    struct arena arena;
};

struct bundle_asked {
    size_t from;
    struct slice name;
    size_t file;
};

struct bundle {
    struct slice (*files)[2];
    size_t nfiles;
    struct bundle_asked *asked;
    size_t nasked;
    struct policy_set *sets;
    size_t nsets;
    const char **tops;
    size_t ntops;
};

static size_t get_u32(struct unpack *u) {
    if (u->bad || u->rest.n < 4) {
        u->bad = true;
        return 0;
    }
    const unsigned char *b = (const unsigned char *)u->rest.p;
    size_t v = (size_t)b[0] << 24 | (size_t)b[1] << 16 | (size_t)b[2] << 8 | b[3];
    u->rest = slice_from(u->rest, 4);
    return v;
}

/* A number of things, each of which takes 4 bytes at least: so no number can ask for more memory than was sent. */
static size_t get_count(struct unpack *u, size_t max) {
    size_t n = get_u32(u);
    if (n > max || n > u->rest.n / 4)
        u->bad = true;
    return u->bad ? 0 : n;
}

/* A text, copied so that a NUL stands behind it. */
static struct slice get_text(struct unpack *u) {
    size_t n = get_u32(u);
    if (u->bad || n > u->rest.n) {
        u->bad = true;
        return SLICE("");
    }
    struct slice s = arena_copy(&u->arena, slice_sub(u->rest, 0, n));
    u->rest = slice_from(u->rest, n);
    if (s.p)
        return s;
    u->bad = true;
    return SLICE("");
}

static const char *get_cstr(struct unpack *u) {
    struct slice s = get_text(u);
    if (memchr(s.p, 0, s.n))
        u->bad = true;
    return s.p;
}

static void *get_array(struct unpack *u, size_t n, size_t size) {
    void *p = arena_alloc(&u->arena, (n + 1) * size);
    if (!p)
        u->bad = true;
    return p;
}

static void unpack_files(struct unpack *u, struct bundle *b) {
    size_t n = get_count(u, POLICY_FILES_MAX);
    b->files = get_array(u, n, sizeof *b->files);
    for (size_t i = 0; i < n && !u->bad; i++) {
        b->files[i][0] = get_text(u);
        b->files[i][1] = get_text(u);
        b->nfiles++;
    }
}

static void unpack_asked(struct unpack *u, struct bundle *b) {
    size_t n = get_count(u, 1u << 20);
    b->asked = get_array(u, n, sizeof *b->asked);
    b->tops = get_array(u, n, sizeof *b->tops);
    for (size_t i = 0; i < n && !u->bad; i++) {
        struct bundle_asked *a = &b->asked[b->nasked++];
        a->from = get_u32(u);
        a->name = slice_str(get_cstr(u));
        a->file = get_u32(u);
        if (a->file >= b->nfiles || a->from > b->nfiles)
            u->bad = true;
        if (a->from == 0)
            b->tops[b->ntops++] = a->name.p;
    }
}

static void unpack_sets(struct unpack *u, struct bundle *b) {
    size_t n = get_count(u, 1u << 16);
    b->sets = get_array(u, n, sizeof *b->sets);
    for (size_t i = 0; i < n && !u->bad; i++) {
        b->sets[i] = (struct policy_set){.name = get_cstr(u)};
        b->sets[i].value = get_cstr(u);
        b->nsets++;
    }
}

static int read_bundle(void *arg, const char *from, const char *name, struct buf *resolved, struct buf *text,
                       struct errmsg *msg) {
    const struct bundle *b = arg;
    for (size_t i = 0; i < b->nasked; i++) {
        const struct bundle_asked *a = &b->asked[i];
        bool same = a->from == 0 ? !from : from && slice_eq(b->files[a->from - 1][0], slice_str(from));
        if (!same || !slice_eq(a->name, slice_str(name)))
            continue;
        int r = buf_put(resolved, b->files[a->file][0]);
        return r ? r : buf_put(text, b->files[a->file][1]);
    }
    return errmsg_set(msg, ERR_NOTFOUND, "no such file in the bundle");
}

int policy_load_bundle(struct slice bundle, struct policy **out, struct policy_diags *diags) {
    struct unpack u = {.rest = bundle};
    struct bundle b = {.nfiles = 0};
    int r = ERR_PARSE;
    *out = NULL;
    arena_init(&u.arena, 4 * bundle.n + (1u << 20));
    u.bad = !slice_starts(bundle, SLICE(MAGIC));
    u.rest = slice_from(bundle, sizeof MAGIC - 1);
    unpack_files(&u, &b);
    unpack_asked(&u, &b);
    unpack_sets(&u, &b);
    if (!u.bad && u.rest.n == 0) {
        struct policy_input in = {.files = b.tops,
                                  .nfiles = b.ntops,
                                  .sets = b.sets,
                                  .nsets = b.nsets,
                                  .read = read_bundle,
                                  .arg = &b};
        r = policy_load(&in, out, diags);
    } else {
        diag_file(diags, "", NULL, "malformed bundle");
    }
    arena_release(&u.arena);
    return r;
}
