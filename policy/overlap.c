/*
 * Theory of operation. Both patterns are walked at once from the left. Where two characters stand, they must be the
 * same. Where a wildcard stands against a character, it takes it or ends. Where two wildcards stand, the common part
 * has the narrower of them, and one of the two ends first: both ways are followed.
 */
#include "policy/overlap.h"

#include "base/url.h"
#include "policy/condition.h"

#define STEPS_MAX 20000
#define UNITS_MAX 1024

struct meeting {
    struct overlap *out;
    const struct glob *a, *b;
    bool nocase;
    size_t steps;
    uint16_t units[UNITS_MAX];
};

void overlap_init(struct overlap *o) {
    *o = (struct overlap){.n = 0};
    buf_init(&o->text, 64 << 10);
}

void overlap_release(struct overlap *o) {
    buf_release(&o->text);
}

void overlap_put_glob(struct buf *out, const struct glob *g) {
    for (size_t i = 0; i < g->n; i++) {
        unsigned c = g->units[i];
        if (c == GLOB_STAR || c == GLOB_STARSTAR)
            buf_puts(out, c == GLOB_STAR ? "*" : "**");
        else if (c >= URL_UNIT_ENCODED)
            buf_printf(out, "%%%02X", c & 0xff);
        else
            buf_putc(out, (char)c);
    }
}

static void emit(struct meeting *m, size_t n) {
    struct buf text;
    buf_init(&text, 4 * UNITS_MAX);
    overlap_put_glob(&text, &(struct glob){.units = m->units, .n = n});
    struct slice all = buf_slice(&m->out->text), one, s = buf_slice(&text);
    bool known = false;
    while (all.n && slice_cut(all, 0, &one, &all))
        known |= slice_eq(one, s);
    if (!known && m->out->n == OVERLAP_MAX) {
        m->out->truncated = true;
    } else if (!known) {
        buf_put(&m->out->text, s);
        buf_putc(&m->out->text, 0);
        m->out->n++;
    }
    buf_release(&text);
}

static bool same(const struct meeting *m, unsigned a, unsigned b) {
    if (m->nocase && a < GLOB_STAR && b < GLOB_STAR)
        return ascii_lower((char)(a & 0xff)) == ascii_lower((char)(b & 0xff)) && (a < 0x100) == (b < 0x100);
    return a == b;
}

static bool star_takes(unsigned star, unsigned c) {
    return c != (URL_UNIT_ENCODED | '/') && (star == GLOB_STARSTAR || c != '/');
}

/* Appends a wildcard; two in a row are the wider one. */
static size_t put_star(struct meeting *m, size_t n, unsigned star) {
    if (n && m->units[n - 1] >= GLOB_STAR) {
        if (star == GLOB_STARSTAR)
            m->units[n - 1] = GLOB_STARSTAR;
        return n;
    }
    m->units[n] = (uint16_t)star;
    return n + 1;
}

static void meet(struct meeting *m, size_t i, size_t k, size_t n);

/* A wildcard against a character: it takes it, or it ends. */
static void meet_one(struct meeting *m, size_t i, size_t k, size_t n, unsigned star, unsigned c, bool first) {
    meet(m, first ? i + 1 : i, first ? k : k + 1, n);
    if (star_takes(star, c)) {
        m->units[n] = (uint16_t)c;
        meet(m, first ? i : i + 1, first ? k + 1 : k, n + 1);
    }
}

static void meet(struct meeting *m, size_t i, size_t k, size_t n) {
    const struct glob *a = m->a, *b = m->b;
    if (n == UNITS_MAX || ++m->steps > STEPS_MAX || m->out->truncated) {
        m->out->truncated = true;
        return;
    }
    if (i == a->n && k == b->n) {
        emit(m, n);
        return;
    }
    unsigned x = i < a->n ? a->units[i] : 0, y = k < b->n ? b->units[k] : 0;
    bool xs = x >= GLOB_STAR, ys = y >= GLOB_STAR;
    if (i == a->n || k == b->n) { /* what is left must be wildcards that take nothing */
        if (xs || ys)
            meet(m, i + xs, k + ys, n);
    } else if (xs && ys) {
        uint16_t before = n ? m->units[n - 1] : 0;
        size_t next = put_star(m, n, x == GLOB_STAR ? x : y);
        uint16_t merged = m->units[next - 1];
        meet(m, i + 1, k, next);
        m->units[next - 1] = merged;
        if (x != y || i + 1 != a->n || k + 1 != b->n)
            meet(m, i, k + 1, next);
        if (n)
            m->units[n - 1] = before;
    } else if (xs || ys) {
        meet_one(m, i, k, n, xs ? x : y, xs ? y : x, xs);
    } else if (same(m, x, y)) {
        m->units[n] = (uint16_t)x;
        meet(m, i + 1, k + 1, n + 1);
    }
}

void overlap_globs(struct overlap *o, const struct glob *a, const struct glob *b, bool nocase) {
    struct meeting m = {.out = o, .a = a, .b = b, .nocase = nocase};
    meet(&m, 0, 0, 0);
}

/* --- rules ------------------------------------------------------------------------------------------------- */

static bool below(struct slice host, struct slice suffix) {
    return host.n > suffix.n + 1 && slice_ends(host, suffix) && host.p[host.n - suffix.n - 1] == '.';
}

static bool hosts_meet(const struct target *a, const struct target *b) {
    if (a->host_kind == RULE_HOST_ANY || b->host_kind == RULE_HOST_ANY || slice_eq(a->host, b->host))
        return a->host_kind == b->host_kind || a->host_kind == RULE_HOST_ANY || b->host_kind == RULE_HOST_ANY;
    return (a->host_kind == RULE_HOST_SUFFIX && below(b->host, a->host)) ||
           (b->host_kind == RULE_HOST_SUFFIX && below(a->host, b->host));
}

bool overlap_host(const struct target *t, struct slice host) {
    return t->host_kind == RULE_HOST_ANY || slice_eq(t->host, host) || below(host, t->host) ||
           below(t->host, host);
}

static bool methods_meet(const struct rule *a, const struct rule *b) {
    if (a->any_method || b->any_method)
        return true;
    struct slice rest = a->methods, one;
    for (bool more = true; more;) {
        struct slice others = b->methods, other;
        more = slice_cut(rest, ',', &one, &rest);
        for (bool yet = true; yet;) {
            yet = slice_cut(others, ',', &other, &others);
            if (slice_caseeq(one, other))
                return true;
        }
    }
    return false;
}

static bool refs_meet(const struct rule *a, const struct rule *b) {
    struct overlap o;
    if (a->nrefs == 0 || b->nrefs == 0)
        return true;
    overlap_init(&o);
    for (size_t i = 0; i < a->nrefs; i++)
        for (size_t k = 0; k < b->nrefs; k++)
            overlap_globs(&o, &a->refs[i], &b->refs[k], a->deny || b->deny);
    bool some = o.n || o.truncated;
    overlap_release(&o);
    return some;
}

bool overlap_origin(const struct rule *a, const struct rule *b) {
    const struct target *t = &a->target, *u = &b->target;
    return t->scheme == u->scheme && (t->any_port || u->any_port || t->port == u->port) && hosts_meet(t, u);
}

bool overlap_possible(const struct rule *a, const struct rule *b) {
    if (!overlap_origin(a, b) || a->action != b->action || !condition_meet(a->conditions, b->conditions))
        return false;
    if (a->action == TREE_HTTP)
        return methods_meet(a, b);
    if (a->action == TREE_LFS)
        return a->ops & b->ops;
    return (a->action != TREE_PUSH || (a->ops & b->ops)) && refs_meet(a, b);
}

void overlap_paths(struct overlap *o, const struct rule *a, const struct rule *b) {
    const struct target *t = &a->target, *u = &b->target;
    static const uint16_t all[] = {GLOB_STARSTAR};
    static const struct glob every = {.units = all, .n = 1};
    bool nocase = a->deny || b->deny || a->action != TREE_HTTP;
    if (t->npaths == 0 && u->npaths == 0) {
        buf_putc(&o->text, 0);
        o->n++;
        return;
    }
    for (size_t i = 0; i < (t->npaths ? t->npaths : 1); i++)
        for (size_t k = 0; k < (u->npaths ? u->npaths : 1); k++)
            overlap_globs(o, t->npaths ? &t->paths[i] : &every, u->npaths ? &u->paths[k] : &every, nocase);
}

/* --- read generously --------------------------------------------------------------------------------------- */

/* The pattern as the most forgiving server would read a text of it: small letters, decoded, a wildcard for all. */
static struct glob forgiving(const struct glob *g, uint16_t units[UNITS_MAX]) {
    size_t n = 0;
    for (size_t i = 0; i < g->n && n < UNITS_MAX - 1; i++) {
        unsigned c = g->units[i];
        units[n++] =
            (uint16_t)(c >= GLOB_STAR ? GLOB_STARSTAR : (unsigned char)ascii_lower((char)(c & 0xff)));
    }
    while (n > 1 && units[n - 1] == '/')
        n--;
    return (struct glob){.units = units, .n = n};
}

static bool meet_loosely(const struct glob *a, const struct glob *b) {
    uint16_t one[UNITS_MAX], two[UNITS_MAX];
    if (a->n >= UNITS_MAX || b->n >= UNITS_MAX)
        return true;
    struct glob x = forgiving(a, one), y = forgiving(b, two);
    struct overlap o;
    overlap_init(&o);
    overlap_globs(&o, &x, &y, false);
    /* a final slash makes no difference */
    one[x.n++] = '/';
    overlap_globs(&o, &x, &y, false);
    x.n--;
    two[y.n++] = '/';
    overlap_globs(&o, &x, &y, false);
    bool some = o.n || o.truncated;
    overlap_release(&o);
    return some;
}

bool overlap_loosely(const struct rule *a, const struct rule *b) {
    const struct target *t = &a->target, *u = &b->target;
    if (!overlap_origin(a, b))
        return false;
    if (a->action != b->action || t->regex || u->regex || t->npaths == 0 || u->npaths == 0)
        return true;
    if (a->action == TREE_HTTP && !methods_meet(a, b))
        return false;
    for (size_t i = 0; i < t->npaths; i++)
        for (size_t k = 0; k < u->npaths; k++)
            if (meet_loosely(&t->paths[i], &u->paths[k]))
                return true;
    return false;
}
