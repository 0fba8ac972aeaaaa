/*
 * Theory of operation. What was seen is sorted, so that requests of one origin, action, credential and reason to be
 * careful stand together. Each such group is a list of paths, which are taken apart at their slashes, encoded ones
 * included: a segment in which three or more differ is `*` for all of them, and what follows is looked at together.
 *
 * What comes first in a path, and behind refs/heads/, tells apart things that have nothing in common but their server:
 * /login, /status and /api, or main and release. They become `*` if they are many, or go on alike (/a/-/x, /b/-/x,
 * /c/-/x); whose repository is pushed to never does.
 */
#include "policy/learn.h"

#include <stdlib.h>

#include "base/array.h"
#include "policy/arena.h"

#define VARY      3  /* so many different texts make a '*' … */
#define MANY      10 /* … of those that come first, unless they go on alike */
#define ALIKE_MAX 64 /* ways to go on that are looked at */
#define SHOWN_MAX 5  /* requests in a comment */
#define ARENA_MAX (256u << 20)

struct seen {
    enum facts_kind kind;
    enum url_scheme scheme;
    uint16_t port;
    bool address, denied;
    enum facts_op op;
    bool unproved; /* FACTS_UPDATE: whether it is a fast-forward was not found out */
    struct slice host, method, path, ref, credential, why;
    uint64_t sent;
    unsigned count;
    const char *careful; /* why it is not permitted; NULL: it is */
    struct slice left;   /* of the path or ref while it is taken apart */
};

struct learner {
    struct arena arena;
    struct seen *list;
    size_t n, cap;
};

struct writer {
    struct learner *l;
    struct buf *out;
    struct buf pattern;
    bool refs;      /* what is taken apart are refs of `repository` */
    unsigned depth; /* segments in front of what is taken apart */
    struct slice repository;
};

struct learner *learner_new(void) {
    struct learner *l = calloc(1, sizeof *l);
    if (l)
        arena_init(&l->arena, ARENA_MAX);
    return l;
}

void learner_free(struct learner *l) {
    if (!l)
        return;
    arena_release(&l->arena);
    free(l->list);
    free(l);
}

/* --- noting ------------------------------------------------------------------------------------------------ */

static bool is_read(struct slice method) {
    return slice_eq(method, SLICE("GET")) || slice_eq(method, SLICE("HEAD")) ||
           slice_eq(method, SLICE("OPTIONS"));
}

static bool same(const struct seen *a, const struct seen *b) {
    return a->kind == b->kind && a->scheme == b->scheme && a->port == b->port && a->op == b->op &&
           a->unproved == b->unproved && a->denied == b->denied && slice_eq(a->host, b->host) &&
           slice_eq(a->method, b->method) && slice_eq(a->path, b->path) && slice_eq(a->ref, b->ref) &&
           slice_eq(a->credential, b->credential);
}

/* What was seen comes from the command that was run: nothing in it may end a comment's line. */
static struct slice copy_clean(struct learner *l, struct slice s) {
    char *p = arena_alloc(&l->arena, s.n + 1);
    for (size_t i = 0; p && i < s.n; i++)
        p[i] = (unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f ? '?' : s.p[i];
    return slice_make(p, p ? s.n : 0);
}

/* Characters that a pattern would take for its own, and those that a name does not have. */
static bool odd(struct slice s) {
    for (size_t i = 0; i < s.n; i++)
        if (strchr("*{}?\\ ", s.p[i]))
            return true;
    return false;
}

static int add(struct learner *l, struct seen *s) {
    for (size_t i = l->n; i-- > 0 && l->n - i < 4096;)
        if (same(&l->list[i], s)) {
            l->list[i].count++;
            l->list[i].sent += s->sent;
            return 0;
        }
    if (l->n == LEARN_REQUESTS_MAX)
        return ERR_LIMIT;
    struct seen *list = array_room(l->list, l->n, &l->cap, sizeof *list);
    if (!list)
        return ERR_NOMEM;
    l->list = list;
    s->host = copy_clean(l, s->host);
    s->method = copy_clean(l, s->method);
    s->path = copy_clean(l, s->path);
    s->ref = copy_clean(l, s->ref);
    s->credential = copy_clean(l, s->credential);
    s->why = copy_clean(l, s->why);
    l->list[l->n++] = *s;
    return l->arena.failed ? ERR_NOMEM : 0;
}

int learner_add(struct learner *l, const struct facts *f, struct slice credential, uint64_t sent, bool denied,
                struct slice why) {
    struct seen s = {.kind = f->kind,
                     .scheme = f->scheme,
                     .port = f->port,
                     .address = f->host_is_address,
                     .denied = denied,
                     .host = f->host,
                     .method = f->kind == FACTS_HTTP       ? f->method
                               : f->kind == FACTS_GIT_PUSH ? SLICE("push")
                                                           : SLICE("fetch"),
                     .path = f->kind == FACTS_HTTP ? f->path : facts_repository(f->path),
                     .credential = credential,
                     .why = why,
                     .sent = sent,
                     .count = 1};
    if (f->kind == FACTS_TUNNEL || (f->kind == FACTS_GIT_PUSH && f->nrefs == 0))
        return 0; /* the discovery of a push is permitted by what permits the push */
    /* what is fetched is not kept to the refs of one day */
    size_t nrefs = f->kind == FACTS_GIT_PUSH ? f->nrefs : 0;
    int r = nrefs ? 0 : add(l, &s);
    for (size_t i = 0; r == 0 && i < nrefs; i++) {
        struct seen one = s;
        one.ref = f->refs[i].name;
        one.unproved = f->refs[i].unproved; /* counts as forced, and was seldom meant so */
        one.op = one.unproved ? FACTS_UPDATE : f->refs[i].op;
        r = add(l, &one);
    }
    return r;
}

/* --- being careful ----------------------------------------------------------------------------------------- */

static const char *careful(const struct seen *s, bool usual) {
    if (s->denied)
        return "it was denied";
    if (s->address)
        return "it goes to an address, not to a name";
    if (!usual)
        return "the host is none that a ready-made policy, --under or --usual names";
    if (odd(s->path) || odd(s->ref) || (s->ref.n && !slice_starts(s->ref, SLICE("refs/"))))
        return "it has characters that patterns are made of, or is no ref";
    if (s->path.n && memmem(s->path.p, s->path.n, "//", 2))
        return "its path has two slashes in a row";
    if (s->kind == FACTS_GIT_FETCH)
        return NULL;
    if (s->kind == FACTS_GIT_PUSH && s->op == FACTS_DELETE)
        return "it deletes a ref";
    if (s->kind == FACTS_GIT_PUSH && s->op == FACTS_FORCE)
        return "it is forced";
    if (s->unproved)
        return "it may be no fast-forward: that was not looked at";
    if (s->kind == FACTS_GIT_PUSH || is_read(s->method))
        return NULL;
    return s->sent ? "it is a write, with a body" : "it is a write";
}

static int compare(const void *a, const void *b) {
    const struct seen *x = a, *y = b;
    int c = (x->careful != NULL) - (y->careful != NULL);
    if (!c)
        c = slice_cmp(x->host, y->host);
    if (!c)
        c = (int)y->scheme - (int)x->scheme;
    if (!c)
        c = (int)x->port - (int)y->port;
    if (!c)
        c = slice_cmp(x->method, y->method);
    if (!c)
        c = slice_cmp(x->credential, y->credential);
    if (!c && x->careful != y->careful)
        c = strcmp(x->careful ? x->careful : "", y->careful ? y->careful : "");
    if (!c)
        c = slice_cmp(x->path, y->path);
    return c ? c : slice_cmp(x->ref, y->ref);
}

static bool same_group(const struct seen *a, const struct seen *b) {
    return slice_eq(a->host, b->host) && a->scheme == b->scheme && a->port == b->port &&
           slice_eq(a->method, b->method) && slice_eq(a->credential, b->credential) &&
           a->careful == b->careful;
}

/* --- writing ----------------------------------------------------------------------------------------------- */

static void put_literal(struct buf *out, struct slice s) {
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '$')
            buf_putc(out, '$');
        buf_putc(out, s.p[i]);
    }
}

static void put_url(struct buf *out, const struct seen *s, struct slice path, bool pattern) {
    url_put_origin(out, s->scheme, s->host, s->port);
    if (pattern)
        buf_put(out, path);
    else
        put_literal(out, path.n ? path : SLICE("/"));
}

static void put_seen(struct writer *w, struct seen *const *list, size_t n) {
    unsigned count = 0;
    uint64_t sent = 0;
    for (size_t i = 0; i < n; i++) {
        count += list[i]->count;
        sent += list[i]->sent;
    }
    buf_printf(w->out, "# seen %s%.0u%s", count == 1 ? "once" : "", count == 1 ? 0 : count,
               count == 1 ? "" : " times");
    for (size_t i = 0; i < n && i < SHOWN_MAX; i++) {
        buf_puts(w->out, i ? ", " : ": ");
        buf_put(w->out, list[i]->ref.n ? list[i]->ref : list[i]->path);
        if (list[i]->ref.n)
            buf_printf(w->out, " %s", facts_op_name(list[i]->op));
    }
    if (n > SHOWN_MAX)
        buf_printf(w->out, ", and %zu more", n - SHOWN_MAX);
    if (sent && list[0]->kind == FACTS_HTTP)
        buf_printf(w->out, " (%llu byte%s sent)", (unsigned long long)sent, sent == 1 ? "" : "s");
    buf_putc(w->out, '\n');
}

/* A method that nothing permits there. */
static const char *forbidden(const struct writer *w, const struct seen *s) {
    static const char *const methods[] = {"DELETE", "PUT", "POST", "PATCH"};
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        bool used = false;
        for (size_t i = 0; i < w->l->n; i++)
            used |= !w->l->list[i].careful && slice_eq(w->l->list[i].host, s->host) &&
                    slice_eq(w->l->list[i].method, slice_str(methods[m]));
        if (!used)
            return methods[m];
    }
    return NULL;
}

static void put_expect(struct writer *w, const struct seen *s, unsigned ops) {
    const char *hash = s->careful ? "#" : "";
    buf_printf(w->out, "%sexpect allow %.*s ", hash, SLICE_ARG(s->method));
    put_url(w->out, s, s->path, false);
    if (s->kind == FACTS_GIT_PUSH) {
        buf_putc(w->out, ' ');
        put_literal(w->out, s->ref);
        buf_printf(w->out, " %s", facts_op_name(s->op));
    }
    if (s->credential.n)
        buf_printf(w->out, " with %.*s", SLICE_ARG(s->credential));
    buf_putc(w->out, '\n');
    if (s->careful)
        return;
    const char *method = s->kind == FACTS_HTTP ? forbidden(w, s) : NULL;
    if (s->kind == FACTS_GIT_PUSH) {
        buf_puts(w->out, "expect deny push ");
        put_url(w->out, s, s->path, false);
        buf_putc(w->out, ' ');
        put_literal(w->out, s->ref);
        buf_printf(w->out, "%s force\n", ops & 1u << FACTS_DELETE ? "" : " delete");
    } else if (method) {
        buf_printf(w->out, "expect deny %s ", method);
        put_url(w->out, s, s->path, false);
        buf_putc(w->out, '\n');
    }
}

/* The rule for what is in `list`, whose pattern stands in w->pattern. */
static void put_rule(struct writer *w, struct seen *const *list, size_t n) {
    const struct seen *s = list[0];
    unsigned ops = 0;
    for (size_t i = 0; i < n; i++)
        ops |= 1u << list[i]->op;
    buf_putc(w->out, '\n');
    put_seen(w, list, n);
    if (s->careful)
        buf_printf(w->out, "# not permitted: %s%s%.*s\n", s->careful, s->why.n && s->denied ? ": " : "",
                   SLICE_ARG((s->denied ? s->why : SLICE_NONE)));
    buf_printf(w->out, "%sallow %.*s ", s->careful ? "#" : "", SLICE_ARG(s->method));
    if (w->refs) {
        put_url(w->out, s, w->repository, true);
        buf_putc(w->out, ' ');
        buf_put(w->out, buf_slice(&w->pattern));
        for (unsigned op = FACTS_CREATE; op <= FACTS_FORCE; op++)
            if (ops & 1u << op)
                buf_printf(w->out, " %s", facts_op_name((enum facts_op)op));
    } else {
        put_url(w->out, s, buf_slice(&w->pattern), true);
    }
    if (s->credential.n)
        buf_printf(w->out, " with %.*s", SLICE_ARG(s->credential));
    buf_putc(w->out, '\n');
    put_expect(w, s, ops);
}

/* --- taking apart ------------------------------------------------------------------------------------------ */

static int split(struct writer *w, struct seen **list, size_t n);

/* What stands in front of a segment: '/', or an encoded one, of the same length for all that go on like it. */
static size_t separator(struct slice left) {
    return slice_starts(left, SLICE("%2F")) ? 3 : left.n > 0;
}

static struct slice segment_at(struct slice left) {
    struct slice s = slice_from(left, separator(left));
    size_t n = 0;
    while (n < s.n && s.p[n] != '/' && !slice_starts(slice_from(s, n), SLICE("%2F")))
        n++;
    return slice_sub(s, 0, n);
}

static struct slice segment_of(const struct seen *s) {
    return segment_at(s->left);
}

static struct slice behind(const struct seen *s) {
    return slice_from(s->left, separator(s->left) + segment_of(s).n);
}

static int compare_left(const void *a, const void *b) {
    const struct seen *x = *(struct seen *const *)a, *y = *(struct seen *const *)b;
    int c = (int)separator(x->left) - (int)separator(y->left);
    return c ? c : slice_cmp(segment_of(x), segment_of(y));
}

/* Whether three or more of the segments that differ are followed by the same one. */
static bool alike(struct seen *const *list, size_t n) {
    for (size_t i = 0; i < n && i < ALIKE_MAX; i++) {
        struct slice wanted = segment_at(behind(list[i])), before = SLICE_NONE;
        size_t kinds = 0;
        if (wanted.n == 0)
            continue;
        for (size_t k = 0; k < n && kinds < VARY; k++) {
            if (!slice_eq(segment_at(behind(list[k])), wanted) ||
                (kinds && slice_eq(segment_of(list[k]), before)))
                continue;
            before = segment_of(list[k]);
            kinds++;
        }
        if (kinds >= VARY)
            return true;
    }
    return false;
}

/* Whether a run of `n` with `kinds` different segments becomes a '*'. */
static bool varies(const struct writer *w, struct seen *const *list, size_t n, size_t kinds) {
    bool first = w->refs ? w->depth <= 1 : w->depth == 0;
    if (kinds < VARY || !first)
        return kinds >= VARY;
    if (w->refs ? w->depth == 0 : list[0]->kind == FACTS_GIT_PUSH)
        return false;
    return kinds >= MANY || alike(list, n);
}

/* Ends at a leaf, or goes on with refs. */
static int leaf(struct writer *w, struct seen **list, size_t n) {
    if (w->refs || list[0]->kind != FACTS_GIT_PUSH) {
        put_rule(w, list, n);
        return w->out->failed ? ERR_LIMIT : 0;
    }
    struct slice repository = arena_copy(&w->l->arena, buf_slice(&w->pattern));
    struct buf saved = w->pattern;
    buf_init(&w->pattern, 1 << 16);
    buf_puts(&w->pattern, "refs");
    for (size_t i = 0; i < n; i++)
        list[i]->left = slice_from(list[i]->ref, strlen("refs"));
    unsigned depth = w->depth;
    w->refs = true;
    w->depth = 0;
    w->repository = repository;
    int r = split(w, list, n);
    w->refs = false;
    w->depth = depth;
    buf_release(&w->pattern);
    w->pattern = saved;
    return r;
}

/* Those of list that share a segment; NULL: whose segments vary. */
static int go_on(struct writer *w, struct seen **list, size_t n, const struct slice *text) {
    size_t before = buf_len(&w->pattern);
    buf_put(&w->pattern, slice_sub(list[0]->left, 0, separator(list[0]->left)));
    if (text)
        put_literal(&w->pattern, *text);
    else
        buf_putc(&w->pattern, '*');
    for (size_t i = 0; i < n; i++)
        list[i]->left = behind(list[i]);
    w->depth++;
    int r = split(w, list, n);
    w->depth--;
    w->pattern.end = w->pattern.start + before;
    return r;
}

static int split(struct writer *w, struct seen **list, size_t n) {
    size_t ended = 0;
    for (size_t i = 0; i < n; i++)
        if (list[i]->left.n == 0) {
            struct seen *s = list[i];
            list[i] = list[ended];
            list[ended++] = s;
        }
    int r = ended ? leaf(w, list, ended) : 0;
    list += ended;
    n -= ended;
    qsort(list, n, sizeof *list, compare_left);
    for (size_t i = 0; r == 0 && i < n;) {
        /* the run of segments behind the same separator, and how many different ones are in it */
        size_t end = i, kinds = 0, same_end = i, mark = separator(list[i]->left);
        for (; end < n && separator(list[end]->left) == mark; end++)
            kinds += end == i || !slice_eq(segment_of(list[end]), segment_of(list[end - 1]));
        if (varies(w, list + i, end - i, kinds)) {
            r = go_on(w, list + i, end - i, NULL);
            i = end;
            continue;
        }
        struct slice segment = segment_of(list[i]);
        while (same_end < end && slice_eq(segment_of(list[same_end]), segment))
            same_end++;
        r = go_on(w, list + i, same_end - i, &segment);
        i = same_end;
    }
    return r;
}

static int write_group(struct writer *w, struct seen *first, size_t n) {
    struct seen **list = malloc(n * sizeof *list);
    if (!list)
        return ERR_NOMEM;
    for (size_t i = 0; i < n; i++) {
        list[i] = &first[i];
        list[i]->left = first[i].path.n ? first[i].path : SLICE("/");
    }
    buf_clear(&w->pattern);
    int r = split(w, list, n);
    free(list);
    return r;
}

/* Where both GET and HEAD were seen on an origin, one rule is about both. */
static void merge_reads(struct learner *l) {
    for (size_t i = 0; i < l->n; i++) {
        struct seen *a = &l->list[i];
        bool both = slice_eq(a->method, SLICE("HEAD"));
        for (size_t k = 0; both && k < l->n; k++) {
            struct seen *b = &l->list[k];
            if (b->scheme == a->scheme && b->port == a->port && slice_eq(b->host, a->host) &&
                slice_eq(b->method, SLICE("GET")))
                a->method = b->method = SLICE("GET,HEAD");
        }
        /* the first HEAD has changed what the others are to be like */
        for (size_t k = 0; k < i && slice_eq(a->method, SLICE("HEAD")); k++) {
            const struct seen *b = &l->list[k];
            if (b->scheme == a->scheme && b->port == a->port && slice_eq(b->host, a->host) &&
                slice_eq(b->method, SLICE("GET,HEAD")))
                a->method = b->method;
        }
    }
}

int learner_write(struct learner *l, bool (*usual)(void *arg, enum url_scheme scheme, struct slice host),
                  void *arg, struct buf *out) {
    struct writer w = {.l = l, .out = out};
    int r = 0;
    for (size_t i = 0; i < l->n; i++)
        l->list[i].careful = careful(&l->list[i], usual(arg, l->list[i].scheme, l->list[i].host));
    merge_reads(l);
    if (l->n)
        qsort(l->list, l->n, sizeof *l->list, compare);
    buf_init(&w.pattern, 1 << 16);
    if (l->n == 0)
        buf_puts(out, "# no request was seen\n");
    for (size_t i = 0, end; r == 0 && i < l->n; i = end) {
        for (end = i + 1; end < l->n && same_group(&l->list[i], &l->list[end]);)
            end++;
        r = write_group(&w, &l->list[i], end - i);
    }
    buf_release(&w.pattern);
    return r == 0 && out->failed ? ERR_LIMIT : r;
}
