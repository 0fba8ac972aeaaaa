/*
 * Theory of operation. Hosts fall into classes by the host patterns that take them: each host that a rule spells out,
 * a fresh name below each suffix (longer suffixes are hosts of the shorter ones too), a fresh name for `*`. On each,
 * rules are narrowed down by scheme and port, and what is left are patterns of paths and refs, whose classes walk()
 * finds.
 */
#include "policy/classes.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "policy/classes_doors.h"
#include "policy/classes_hosts.h"
#include "policy/doors.h"
#include "policy/variants.h"
#include "policy/walk.h"

#define GAVE_UP     INT_MAX /* returned by what ran out of effort */
#define METHODS_MAX 4096
#define METHOD_MAX  40
#define TEXTS_MAX   (4u << 20) /* bytes of all texts of one kind */

/* A rule of one of the policies that is about the origin at hand. */
struct about {
    const struct policy *p;
    const struct rule *rule;
};

struct texts {
    struct buf bytes;
    uint32_t *ends;
    size_t n, cap;
};

struct scene {
    const struct classes *c;
    uint64_t own, *effort; /* what is left of it */
    struct facts f;        /* host, scheme and port are set */
    struct about *about;
    size_t n, cap;
    bool conditions; /* one of them has some */
    char (*method)[METHOD_MAX];
    size_t nmethods;
    bool methods_full;
    uint8_t ports[(UINT16_MAX + 1) / 8]; /* those that rules about the host name: a bit each */
    struct texts paths, refs;
    struct buf path;
    struct walk walk;   /* large */
    struct arena globs; /* of patterns made for a walk */
};

/* --- texts ------------------------------------------------------------------------------------------------- */

static int keep_text(void *arg, struct slice text) {
    struct texts *t = arg;
    uint32_t *ends = array_room(t->ends, t->n, &t->cap, sizeof *ends);
    if (!ends)
        return ERR_NOMEM;
    t->ends = ends;
    if (buf_put(&t->bytes, text))
        return ERR_NOMEM;
    t->ends[t->n++] = (uint32_t)buf_len(&t->bytes);
    return 0;
}

static struct slice text_at(const struct texts *t, size_t i) {
    size_t from = i ? t->ends[i - 1] : 0;
    return slice_sub(buf_slice(&t->bytes), from, t->ends[i] - from);
}

static int tell_unsure(const struct scene *s, const char *why) {
    return s->c->unsure ? s->c->unsure(s->c->arg, s->f.host, why) : 0;
}

static int collect(struct scene *s, struct texts *t) {
    t->n = 0;
    buf_clear(&t->bytes);
    s->walk.left = *s->effort / 2; /* the rest for what is found */
    *s->effort -= s->walk.left;
    int r = walk(&s->walk, keep_text, t);
    *s->effort += s->walk.left;
    if (r == 0 && s->walk.truncated)
        r = tell_unsure(s, "its patterns are too many, or too entangled, to follow them all");
    return r;
}

/* Hands it over, and counts what it costs to judge it. */
static int hand_over(void *arg, const struct facts *f) {
    struct scene *s = arg;
    uint64_t cost = 100 + 20 * s->n + f->body.n / 2;
    if (*s->effort < cost)
        return GAVE_UP;
    *s->effort -= cost;
    return s->c->found(s->c->arg, f);
}

/* The request at hand, with all that conditions of rules about it tell apart. */
static int visit(struct scene *s) {
    if (!s->conditions && !facts_lfs_batch(&s->f))
        return hand_over(s, &s->f);
    struct variants v = {
        .policies = s->c->policies, .npolicies = s->c->npolicies, .found = hand_over, .arg = s};
    int r = variants_walk(&v, &s->f);
    return r == 0 && v.unsure ? tell_unsure(s, v.unsure) : r;
}

/* --- http -------------------------------------------------------------------------------------------------- */

static void add_method(struct scene *s, struct slice m, bool lower) {
    char text[METHOD_MAX];
    if (m.n == 0 || m.n >= sizeof text)
        return;
    for (size_t i = 0; i < m.n; i++)
        text[i] = lower ? ascii_lower(m.p[i]) : m.p[i];
    text[m.n] = 0;
    for (size_t i = 0; i < s->nmethods; i++)
        if (strcmp(s->method[i], text) == 0)
            return;
    if (s->nmethods == METHODS_MAX)
        s->methods_full = true;
    else
        memcpy(s->method[s->nmethods++], text, m.n + 1);
}

static void add_other_method(struct scene *s) {
    static const char *const others[] = {"GET", "POST", "PURGE", "BREW", "SEARCH"};
    char fresh[METHOD_MAX];
    size_t before = s->nmethods;
    for (size_t i = 0; i < sizeof others / sizeof *others && s->nmethods == before; i++)
        add_method(s, slice_str(others[i]), false);
    for (unsigned i = 0; s->nmethods == before && !s->methods_full; i++) {
        snprintf(fresh, sizeof fresh, "OTHER%u", i);
        add_method(s, slice_str(fresh), false);
    }
}

/* Every method that a rule names; and if one is about all of them, one that none names, and theirs in small letters,
 * which a deny takes for the method and an allow does not. Of Git LFS those that tell its operations apart. */
static int collect_methods(struct scene *s, bool lfs) {
    static const char *const ours[] = {"GET", "POST", "PUT"};
    bool any = lfs;
    s->nmethods = 0;
    s->methods_full = false;
    for (size_t i = 0; lfs && i < sizeof ours / sizeof *ours; i++)
        add_method(s, slice_str(ours[i]), false);
    for (int lower = 0; lower <= (any ? 1 : 0); lower++) {
        if (lower)
            add_other_method(s);
        for (size_t i = 0; i < s->n; i++) {
            const struct rule *r = s->about[i].rule;
            if (r->action != TREE_HTTP)
                continue;
            any |= r->any_method && !r->deny;
            struct slice rest = r->methods, one;
            for (bool more = !r->any_method; more;) {
                more = slice_cut(rest, ',', &one, &rest);
                add_method(s, one, lower);
            }
        }
    }
    return s->methods_full ? tell_unsure(s, "its rules name too many methods to try them all") : 0;
}

/* A deny reads loosely, an allow strictly, an ask in both ways. */
static void add_paths(struct scene *s, const struct rule *r, unsigned flags, bool with_tails) {
    for (size_t i = 0; i < r->target.npaths; i++) {
        if (r->deny || r->verb == TREE_ASK)
            walk_add(&s->walk, &r->target.paths[i], flags | GLOB_LOOSE, with_tails);
        if (!r->deny)
            walk_add(&s->walk, &r->target.paths[i], flags, with_tails);
    }
}

static void add_glob(struct scene *s, const struct glob *begin, const char *end, bool rest, unsigned flags) {
    uint16_t units[GLOB_MAX];
    struct glob *g = arena_alloc(&s->globs, sizeof *g);
    size_t n = begin->n, more = strlen(end);
    if (n + more + 1 > GLOB_MAX) {
        s->walk.full = true;
        return;
    }
    if (n)
        memcpy(units, begin->units, n * sizeof *units);
    for (size_t i = 0; i < more; i++)
        units[n++] = (unsigned char)end[i];
    if (rest)
        units[n++] = GLOB_STARSTAR;
    if (g && glob_make(g, units, n, &s->globs))
        walk_add(&s->walk, g, flags, false);
    else
        s->walk.full = true;
}

static const uint16_t anything[] = {GLOB_STARSTAR};
static const struct glob everything = {.units = anything, .n = 1};

/* Git LFS is HTTP below a repository: rules about it see the repository, rules about methods the whole path. A deny takes
 * a path with an encoded slash for a repository, too. */
static void add_lfs_paths(struct scene *s, const struct rule *r) {
    bool loose = r->verb != TREE_ALLOW;
    for (size_t i = 0; i < r->target.npaths; i++) {
        const struct glob *g = &r->target.paths[i];
        if (loose)
            walk_add(&s->walk, g, GLOB_NOCASE | GLOB_LOOSE, false);
        for (int k = 0; k <= (loose ? 1 : 0); k++) {
            add_glob(s, g, "/info/lfs/", true, GLOB_NOCASE | (k ? GLOB_LOOSE : 0));
            add_glob(s, g, ".git/info/lfs/", true, GLOB_NOCASE | (k ? GLOB_LOOSE : 0));
        }
    }
    add_glob(s, &everything, "/info/lfs/", true, 0);
    if (!r->ops_named)
        return;
    add_glob(s, &everything, "/info/lfs/objects/batch", false, 0);
    add_glob(s, &everything, "/info/lfs/locks", false, 0);
    add_glob(s, &everything, "/info/lfs/locks/", true, 0);
    add_glob(s, &everything, "/verify", false, 0);
    add_glob(s, &everything, "/unlock", false, 0);
}

static int each_http(struct scene *s) {
    bool lfs = false;
    memset(&s->walk, 0, sizeof s->walk);
    arena_release(&s->globs);
    s->walk.start = SLICE("/");
    s->walk.path = true;
    for (size_t i = 0; i < s->n; i++) {
        const struct rule *rule = s->about[i].rule;
        if (rule->action == TREE_HTTP)
            add_paths(s, rule, 0, false);
        else if (rule->action == TREE_LFS)
            add_lfs_paths(s, rule);
        lfs |= rule->action == TREE_LFS;
    }
    int r = collect_methods(s, lfs);
    if (r == 0)
        r = collect(s, &s->paths);
    s->f.kind = FACTS_HTTP;
    for (size_t i = 0; r == 0 && i < s->paths.n; i++)
        for (size_t m = 0; r == 0 && m < s->nmethods; m++) {
            s->f.path = text_at(&s->paths, i);
            s->f.method = slice_str(s->method[m]);
            r = visit(s);
        }
    return r;
}

/* --- git --------------------------------------------------------------------------------------------------- */

static int each_ref(struct scene *s) {
    struct facts_ref ref;
    int r = 0;
    s->f.refs = &ref;
    s->f.nrefs = 1;
    for (size_t i = 0; r == 0 && i < s->refs.n; i++)
        for (unsigned op = FACTS_CREATE; r == 0 && op <= FACTS_FORCE; op++) {
            if (s->f.kind == FACTS_GIT_FETCH && op != FACTS_CREATE)
                break; /* nothing is done to a ref that is fetched */
            ref = (struct facts_ref){.name = text_at(&s->refs, i), .op = (enum facts_op)op};
            r = visit(s);
        }
    s->f.refs = NULL;
    s->f.nrefs = 0;
    return r;
}

/* Each that some rule about the origin permits. */
static int each_extra(struct scene *s) {
    unsigned some = 0;
    int r = 0;
    for (size_t i = 0; i < s->n; i++)
        some |= s->about[i].rule->also;
    for (unsigned extra = FACTS_PLAIN + 1; r == 0 && extra < FACTS_EXTRAS; extra++) {
        s->f.extra = (enum facts_extra)extra;
        if (some & 1u << extra)
            r = visit(s);
    }
    s->f.extra = FACTS_PLAIN;
    return r;
}

static const struct {
    enum facts_kind kind;
    enum tree_action action;
    const char *query;
    const char *post; /* the endpoint behind the discovery */
} services[] = {
    {FACTS_GIT_FETCH, TREE_FETCH, "service=git-upload-pack", "/git-upload-pack"},
    {FACTS_GIT_PUSH, TREE_PUSH, "service=git-receive-pack", "/git-receive-pack"},
};

static int each_endpoint(struct scene *s, size_t service, struct slice repository) {
    int r = 0;
    s->f.kind = services[service].kind;
    for (int k = 0; r == 0 && k < 4; k++) {
        buf_clear(&s->path);
        if (!(k & 1) || repository.n > 1) /* the root is "/.git" and "" */
            buf_put(&s->path, repository);
        buf_puts(&s->path, k & 1 ? "" : ".git");
        buf_puts(&s->path, k & 2 ? services[service].post : "/info/refs");
        if (s->path.failed)
            return ERR_NOMEM;
        s->f.path = buf_slice(&s->path);
        s->f.method = k & 2 ? SLICE("POST") : SLICE("GET");
        s->f.query = k & 2 ? SLICE_NONE : slice_str(services[service].query);
        if (s->f.kind != FACTS_GIT_PUSH || !(k & 2))
            r = visit(s);
        if (r == 0 && (k & 2))
            r = each_ref(s);
        if (r == 0 && s->f.kind == FACTS_GIT_FETCH && (k & 2))
            r = each_extra(s);
    }
    s->f.query = SLICE_NONE;
    return r;
}

/* Of a fetch none unless a rule names some: a request without refs stands for all then. */
static int collect_refs(struct scene *s, enum tree_action action) {
    bool some = action == TREE_PUSH;
    memset(&s->walk, 0, sizeof s->walk);
    s->walk.start = SLICE("refs/");
    s->refs.n = 0;
    for (size_t i = 0; i < s->n; i++)
        some |= s->about[i].rule->action == action && s->about[i].rule->nrefs;
    for (size_t i = 0; i < s->n; i++)
        for (size_t k = 0; s->about[i].rule->action == action && k < s->about[i].rule->nrefs; k++) {
            const struct rule *r = s->about[i].rule;
            if (r->deny || r->verb == TREE_ASK)
                walk_add(&s->walk, &r->refs[k], GLOB_NOCASE, false);
            if (!r->deny)
                walk_add(&s->walk, &r->refs[k], 0, false);
        }
    return some ? collect(s, &s->refs) : 0;
}

static int each_git(struct scene *s, size_t service) {
    char tails[WALK_TAILS_MAX][32];
    int r = collect_refs(s, services[service].action);
    memset(&s->walk, 0, sizeof s->walk);
    s->walk.start = SLICE("/");
    s->walk.path = true;
    for (int k = 0; k < 4; k++) {
        snprintf(tails[k], sizeof tails[k], "%s%s", k & 1 ? "" : ".git",
                 k & 2 ? services[service].post : "/info/refs");
        s->walk.tails[s->walk.ntails++] = slice_str(tails[k]);
    }
    for (size_t i = 0; i < s->n; i++) {
        const struct rule *rule = s->about[i].rule;
        if (rule->action == services[service].action)
            add_paths(s, rule, GLOB_NOCASE, false);
        else if (rule->action == TREE_HTTP && rule->verb != TREE_ALLOW)
            add_paths(s, rule, 0, true);
    }
    s->walk.repository = true;
    if (r == 0)
        r = collect(s, &s->paths);
    if (r == 0)
        r = each_endpoint(s, service, SLICE("/"));
    for (size_t i = 0; r == 0 && i < s->paths.n; i++)
        r = each_endpoint(s, service, text_at(&s->paths, i));
    return r;
}

/* --- tunnels ----------------------------------------------------------------------------------------------- */

static int each_tunnel(struct scene *s) {
    s->f.kind = FACTS_TUNNEL;
    s->f.method = s->f.path = SLICE_NONE;
    return visit(s);
}

/* --- origins ----------------------------------------------------------------------------------------------- */

/* Collects the rules about the scene's origin. False when memory is short. */
static bool gather(struct scene *s) {
    s->n = 0;
    s->conditions = false;
    for (size_t k = 0; k < s->c->npolicies; k++)
        for (size_t i = 0; i < s->c->policies[k]->nrules; i++) {
            const struct rule *r = &s->c->policies[k]->rules[i];
            const struct target *t = &r->target;
            if (t->scheme != s->f.scheme || (!t->any_port && t->port != s->f.port) ||
                !classes_takes_host(t, s->f.host))
                continue;
            if (s->f.host_is_address && t->host_kind != RULE_HOST_EXACT && !r->deny)
                continue;
            struct about *about = array_room(s->about, s->n, &s->cap, sizeof *about);
            if (!about)
                return false;
            s->about = about;
            s->conditions |= r->conditions != NULL;
            s->about[s->n++] = (struct about){s->c->policies[k], r};
        }
    return true;
}

static bool allows(const struct scene *s, enum tree_action action) {
    for (size_t i = 0; i < s->n; i++)
        if (s->about[i].rule->action == action && !s->about[i].rule->deny)
            return true;
    return false;
}

/* Where nothing is allowed there is nothing to tell apart. */
static int each_origin(struct scene *s) {
    if (!gather(s))
        return ERR_NOMEM;
    if (s->c->hidden)
        *s->c->hidden = false;
    int r = allows(s, TREE_HTTP) || allows(s, TREE_LFS) ? each_http(s) : 0;
    if (r == 0 && s->c->doors && allows(s, TREE_HTTP))
        r = classes_doors(s->c, &s->f, s->effort);
    for (size_t i = 0; r == 0 && i < sizeof services / sizeof *services; i++)
        if (allows(s, services[i].action))
            r = each_git(s, i);
    if (r == 0 && allows(s, TREE_CONNECT))
        r = each_tunnel(s);
    return r == GAVE_UP ? tell_unsure(s, "its rules are too entangled to follow all that they tell apart")
                        : r;
}

static bool named_port(const struct scene *s, unsigned port) {
    return s->ports[port / 8] >> (port % 8) & 1;
}

/* The ports that rules about the host name, its scheme's own, and one that none names. */
static void collect_ports(struct scene *s, enum url_scheme scheme) {
    bool any = false;
    memset(s->ports, 0, sizeof s->ports);
    for (size_t k = 0; k < s->c->npolicies; k++)
        for (size_t i = 0; i < s->c->policies[k]->nrules; i++) {
            const struct target *t = &s->c->policies[k]->rules[i].target;
            if (t->scheme != scheme || !classes_takes_host(t, s->f.host))
                continue;
            any |= t->any_port;
            uint16_t port = t->any_port ? url_default_port(scheme) : t->port;
            s->ports[port / 8] = (uint8_t)(s->ports[port / 8] | 1u << (port % 8));
        }
    unsigned other = 8443;
    while (any && other <= UINT16_MAX && named_port(s, other))
        other++;
    if (any && other <= UINT16_MAX)
        s->ports[other / 8] = (uint8_t)(s->ports[other / 8] | 1u << (other % 8));
}

static int each_host(struct scene *s, struct slice host, bool is_address) {
    if (!classes_looked_at(s->c, host))
        return 0;
    s->f = (struct facts){.host = host, .host_is_address = is_address, .body_state = FACTS_BODY_WHOLE};
    int r = 0;
    for (enum url_scheme scheme = URL_HTTP; r == 0 && scheme <= URL_HTTPS; scheme++) {
        collect_ports(s, scheme);
        for (unsigned port = 0; r == 0 && port <= UINT16_MAX; port++) {
            if (port % 8 == 0 && s->ports[port / 8] == 0)
                port += 7; /* and on to the next byte */
            if (!named_port(s, port))
                continue;
            s->f.scheme = scheme;
            s->f.port = (uint16_t)port;
            r = each_origin(s);
        }
    }
    return r;
}

/* A host that serves a forge's API, and that no rule spells out: it is judged unlike others that a wildcard takes. */
static int each_forge_host(struct scene *s, const char *front, struct slice host) {
    char text[URL_HOST_MAX + 1];
    bool taken = false;
    if (strlen(front) + host.n > URL_HOST_MAX)
        return 0;
    snprintf(text, sizeof text, "%s%.*s", front, SLICE_ARG(host));
    for (size_t k = 0; k < s->c->npolicies; k++)
        for (size_t i = 0; i < s->c->policies[k]->nrules; i++) {
            const struct rule *r = &s->c->policies[k]->rules[i];
            if (r->target.host_kind == RULE_HOST_EXACT && slice_eq(r->target.host, slice_str(text)))
                return 0;
            taken |= !r->deny && r->action == TREE_HTTP && classes_takes_host(&r->target, slice_str(text));
        }
    return taken ? each_host(s, slice_str(text), false) : 0;
}

static int each_forge(struct scene *s) {
    const struct classes *c = s->c;
    int r = 0;
    for (size_t i = 0; r == 0 && doors_known(i); i++)
        r = each_forge_host(s, "", slice_str(doors_known(i)));
    for (size_t k = 0; r == 0 && k < c->npolicies; k++)
        for (size_t i = 0; r == 0 && i < c->policies[k]->nrules; i++) {
            const struct rule *rule = &c->policies[k]->rules[i];
            const struct target *t = &rule->target;
            char name[URL_HOST_MAX + 1];
            if ((rule->action != TREE_PUSH && rule->action != TREE_FETCH) || t->host_is_address ||
                classes_seen(c, k, i, true))
                continue;
            if (t->host_kind == RULE_HOST_EXACT)
                snprintf(name, sizeof name, "%.*s", SLICE_ARG(t->host));
            else if (!classes_fresh_name(c, t, name))
                continue;
            r = each_forge_host(s, "api.", slice_str(name));
            if (r == 0)
                r = each_forge_host(s, "uploads.", slice_str(name));
        }
    return r;
}

int classes_walk(const struct classes *c) {
    struct scene *s = calloc(1, sizeof *s);
    size_t rules = 0;
    int r = s ? 0 : ERR_NOMEM;
    if (!s)
        return r;
    s->c = c;
    for (size_t k = 0; k < c->npolicies; k++)
        rules += c->policies[k]->nrules;
    s->own = CLASSES_EFFORT(rules);
    s->effort = c->effort ? c->effort : &s->own;
    arena_init(&s->globs, TEXTS_MAX);
    s->method = malloc(METHODS_MAX * sizeof *s->method);
    r = s->method ? 0 : ERR_NOMEM;
    buf_init(&s->paths.bytes, TEXTS_MAX);
    buf_init(&s->refs.bytes, TEXTS_MAX);
    buf_init(&s->path, 1 << 16);
    for (size_t k = 0; r == 0 && k < c->npolicies; k++)
        for (size_t i = 0; r == 0 && i < c->policies[k]->nrules; i++) {
            const struct target *t = &c->policies[k]->rules[i].target;
            char name[URL_HOST_MAX + 1];
            if (classes_seen(c, k, i, false))
                continue;
            if (t->host_kind == RULE_HOST_EXACT)
                r = each_host(s, t->host, t->host_is_address);
            else if (classes_fresh_name(c, t, name))
                r = each_host(s, slice_str(name), false);
            else if (c->unsure)
                r = c->unsure(c->arg, t->host, "no name was found that this pattern alone takes");
        }
    if (r == 0 && c->doors)
        r = each_forge(s);
    buf_release(&s->paths.bytes);
    buf_release(&s->refs.bytes);
    buf_release(&s->path);
    free(s->paths.ends);
    free(s->refs.ends);
    free(s->about);
    free(s->method);
    arena_release(&s->globs);
    free(s);
    return r;
}
