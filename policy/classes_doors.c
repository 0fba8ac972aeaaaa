#include "policy/classes_doors.h"

#include <stdlib.h>

#include "policy/doors.h"
#include "policy/overlap.h"
#include "policy/plain.h"
#include "policy/walk.h"

#define NAMES_MAX    16 /* repositories, and refs, that are tried */
#define NAME_BYTES   128
#define REACHES_MAX  256 /* HTTP rules of one origin that may reach a door */
#define NAMES_EFFORT 1000000
#define STEP_COST    400   /* of each, as effort */
#define REQUESTS_MAX 60000 /* of one origin, and patterns held against each other */

/* Texts that patterns tell apart. */
struct names {
    char text[NAMES_MAX][NAME_BYTES];
    size_t n;
    bool more;
};

struct tour {
    const struct classes *c;
    struct facts f;
    struct door_host at;
    const struct rule *reaches[REACHES_MAX]; /* rules about HTTP that permit */
    size_t nreaches;
    struct names repositories, refs;
    struct buf path, body;
    size_t left; /* of REQUESTS_MAX */
};

/* Where rows lie, below the host. */
static const struct {
    unsigned forges;
    bool own; /* … which is the API's own */
    const char *root;
} places[] = {
    {FORGE_GITHUB, true, ""},
    {FORGE_GITHUB, false, "/api/v3"},
    {FORGE_GITLAB, false, "/api/v4"},
    {FORGE_GITEA, false, "/api/v1"},
};

/* --- patterns ---------------------------------------------------------------------------------------------- */

static size_t put_units(uint16_t *units, size_t n, struct slice text, bool encoded) {
    for (size_t i = 0; i < text.n && n < DOOR_UNITS_MAX - 4; i++)
        units[n++] =
            (uint16_t)(encoded && text.p[i] == '/' ? URL_UNIT_ENCODED | '/' : (unsigned char)text.p[i]);
    return n;
}

size_t classes_doors_row(const char *root, const struct forge_row *row, struct slice repository,
                         struct slice ref, uint16_t units[DOOR_UNITS_MAX]) {
    size_t n = put_units(units, 0, slice_str(root), false);
    bool lab = row->forges & FORGE_GITLAB;
    for (const char *p = row->path; *p && n < DOOR_UNITS_MAX - 4; p++) {
        if (*p != '{') {
            units[n++] = (unsigned char)*p;
            continue;
        }
        const char *end = strchr(p, '}');
        bool repo = strncmp(p, "{repo}", 6) == 0, tail = end[-1] == '*';
        bool names_ref = row->ref[0] == '{' && strncmp(p + 1, row->ref + 1, strlen(row->ref) - 2) == 0;
        p = end;
        if (repo && repository.n) {
            n = put_units(units, n, repository, lab);
        } else if (names_ref && ref.n) {
            n = put_units(units, n, ref, !tail);
        } else {
            units[n++] = tail ? GLOB_STARSTAR : GLOB_STAR;
            if (repo) {
                units[n++] = lab ? URL_UNIT_ENCODED | '/' : '/';
                units[n++] = GLOB_STAR;
            }
        }
    }
    return n;
}

void classes_doors_fill(struct buf *out, struct slice pattern) {
    for (size_t i = 0; i < pattern.n; i++) {
        if (pattern.p[i] != '*') {
            buf_putc(out, pattern.p[i]);
            continue;
        }
        buf_putc(out, '7');
        i += i + 1 < pattern.n && pattern.p[i + 1] == '*';
    }
}

static const uint16_t anything[] = {GLOB_STARSTAR};
static const struct glob everything = {.units = anything, .n = 1};

/* The patterns of a rule's path; of one without any, or with a regular expression, the one for all. */
static size_t paths_of(const struct rule *r, const struct glob **out) {
    *out = r->target.npaths ? r->target.paths : &everything;
    return r->target.npaths ? r->target.npaths : 1;
}

/* Whether the rule is about a method, in some letter case. */
static bool has_method(const struct rule *r, struct slice method) {
    struct slice rest = r->methods, one;
    bool more = !r->any_method, found = r->any_method;
    while (more && !found) {
        more = slice_cut(rest, ',', &one, &rest);
        found = slice_caseeq(one, method);
    }
    return found;
}

/* --- what is tried ----------------------------------------------------------------------------------------- */

static int keep_name(void *arg, struct slice text) {
    struct names *list = arg;
    if (list->n == NAMES_MAX || text.n >= NAME_BYTES) {
        list->more = true;
        return 0;
    }
    memcpy(list->text[list->n], text.p, text.n);
    list->text[list->n++][text.n] = 0;
    return 0;
}

/* "/acme/app", as forges have them. */
static bool repository_name(struct slice path) {
    size_t parts = 0, run = 0;
    for (size_t i = 0; i < path.n; i++) {
        char c = ascii_lower(path.p[i]);
        if (c == '/') {
            if (i > 0 && run == 0)
                return false;
            parts++;
            run = 0;
        } else if ((c >= 'a' && c <= 'z') || ascii_digit(c) || strchr("-_.", c)) {
            run++;
        } else {
            return false;
        }
    }
    return run > 0 && parts >= 2;
}

static int keep_repository(void *arg, struct slice text) {
    return repository_name(text) ? keep_name(arg, slice_from(text, 1)) : 0;
}

static bool about_git(const struct tour *t, const struct rule *r) {
    bool gist = slice_starts(r->target.host, SLICE("gist."));
    return r->action == TREE_PUSH &&
           (overlap_host(&r->target, t->at.git) ||
            (gist && slice_eq(slice_from(r->target.host, strlen("gist.")), t->at.git)));
}

/* The repositories, or the refs, that push rules about the forge tell apart. */
static int collect_names(struct tour *t, bool refs, struct names *out) {
    static const char *const kinds[2][2] = {{"/*/*", "/*/*/*"}, {"refs/heads/*", "refs/tags/*"}};
    uint16_t units[2][16];
    struct glob globs[2];
    struct walk *w = calloc(1, sizeof *w);
    if (!w)
        return ERR_NOMEM;
    w->left = NAMES_EFFORT;
    w->start = refs ? SLICE("refs/") : SLICE("/");
    w->path = w->repository = !refs;
    for (size_t k = 0; k < 2; k++) {
        size_t n = 0;
        for (const char *p = kinds[refs][k]; *p; p++)
            units[k][n++] = (uint16_t)(*p == '*' ? GLOB_STAR : (unsigned char)*p);
        globs[k] = (struct glob){.units = units[k], .n = n};
        walk_add(w, &globs[k], 0, false);
    }
    for (size_t k = 0; k < t->c->npolicies; k++)
        for (size_t i = 0; i < t->c->policies[k]->nrules; i++) {
            const struct rule *r = &t->c->policies[k]->rules[i];
            const struct glob *list = refs ? r->refs : r->target.paths;
            for (size_t g = 0; about_git(t, r) && g < (refs ? r->nrefs : r->target.npaths); g++)
                walk_add(w, &list[g], GLOB_NOCASE, false);
        }
    int result = walk(w, refs ? keep_name : keep_repository, out);
    out->more |= w->truncated;
    free(w);
    return result;
}

static bool json_field(const void *arg, size_t i, struct slice *name, struct slice *value) {
    (void)arg;
    *name = SLICE("content-type");
    *value = SLICE("application/json");
    return i == 0;
}

/* Whether two patterns differ before their first wildcards. */
static bool apart(const struct glob *a, const struct glob *b) {
    for (size_t i = 0; i < a->n && i < b->n; i++) {
        if (a->units[i] >= GLOB_STAR || b->units[i] >= GLOB_STAR)
            return false;
        if (a->units[i] != b->units[i])
            return true;
    }
    return false;
}

/* The request at hand, below everything that the pattern has in common with a rule that permits the method. */
static int hand_over(struct tour *t, const struct glob *pattern) {
    int result = 0;
    t->f.body = buf_slice(&t->body);
    for (size_t i = 0; result == 0 && i < t->nreaches; i++) {
        const struct glob *paths;
        size_t n = paths_of(t->reaches[i], &paths);
        struct overlap o;
        overlap_init(&o);
        for (size_t k = 0; has_method(t->reaches[i], t->f.method) && k < n && t->left; k++) {
            if (apart(&paths[k], pattern))
                continue;
            overlap_globs(&o, &paths[k], pattern, false);
            t->left--;
        }
        struct slice rest = buf_slice(&o.text), one;
        while (result == 0 && t->left && rest.n && slice_cut(rest, 0, &one, &rest)) {
            buf_clear(&t->path);
            classes_doors_fill(&t->path, one);
            t->f.path = buf_slice(&t->path);
            t->left--;
            if (!t->path.failed)
                result = t->c->found(t->c->arg, &t->f);
        }
        overlap_release(&o);
    }
    return result;
}

/* --- rows -------------------------------------------------------------------------------------------------- */

static bool quiet(const struct forge_row *row) {
    return row->does == FORGE_NOTHING && !(row->flags & FORGE_TEXT);
}

/* The ref without what the row puts before it. False: it is of another kind. */
static bool within_space(const struct forge_row *row, struct slice ref, struct slice *out) {
    struct slice space = slice_str(forge_space(row->space));
    *out = slice_from(ref, space.n);
    return slice_starts(ref, space);
}

/* One row for one repository, with one ref (or none), and each of what may stand beside it. */
static int each_body(struct tour *t, const char *root, const struct forge_row *row, struct slice repository,
                     struct slice ref) {
    static const char *const texts[] = {"", "\"force\":true",
                                        "\"body\":\"/merge\",\"description\":\"/merge\",\"note\":\"/merge\""};
    static const unsigned flags[] = {0, FORGE_FORCE, FORGE_TEXT};
    uint16_t units[DOOR_UNITS_MAX];
    struct glob pattern = {.units = units, .n = classes_doors_row(root, row, repository, ref, units)};
    int result = 0;
    for (size_t i = 0; result == 0 && i < sizeof flags / sizeof *flags; i++) {
        bool named = ref.n && row->ref[0] && row->ref[0] != '{';
        if (flags[i] && !(row->flags & flags[i]))
            continue;
        buf_clear(&t->body);
        buf_putc(&t->body, '{');
        if (named)
            buf_printf(&t->body, "\"%s\":\"%.*s\"", row->ref, SLICE_ARG(ref));
        buf_printf(&t->body, "%s%s}", named && *texts[i] ? "," : "", texts[i]);
        result = hand_over(t, &pattern);
    }
    return result;
}

static int each_row(struct tour *t, const char *root, const struct forge_row *row, struct slice repository) {
    struct slice rest = slice_str(row->methods), ref;
    int result = 0;
    for (bool more = true; result == 0 && more && t->left;) {
        more = slice_cut(rest, ',', &t->f.method, &rest);
        result = each_body(t, root, row, repository, SLICE_NONE);
        for (size_t i = 0; result == 0 && row->ref[0] && i < t->refs.n; i++)
            if (within_space(row, slice_str(t->refs.text[i]), &ref))
                result = each_body(t, root, row, repository, ref);
    }
    return result;
}

/* What is in no table: below a repository, and beside them. */
static int each_strange(struct tour *t, const char *root, unsigned forge, struct slice repository) {
    static const char *const methods[] = {"POST", "PUT", "PATCH", "DELETE", "BREW"};
    static const struct forge_row lab = {.forges = FORGE_GITLAB, .path = "/projects/{repo}/{rest*}"},
                                  others = {.path = "/repos/{repo}/{rest*}"};
    const struct forge_row *row = forge == FORGE_GITLAB ? &lab : &others;
    uint16_t units[DOOR_UNITS_MAX];
    struct glob pattern = {.units = units, .n = classes_doors_row(root, row, repository, SLICE_NONE, units)};
    int result = 0;
    buf_clear(&t->body);
    for (size_t i = 0; result == 0 && i < sizeof methods / sizeof *methods; i++) {
        t->f.method = slice_str(methods[i]);
        result = hand_over(t, &pattern);
    }
    return result;
}

static int each_table(struct tour *t, const char *root, unsigned forge, struct slice repository) {
    size_t n[2];
    const struct forge_row *tables[2] = {forge_rows(&n[0]), forge_gitlab_rows(&n[1])};
    int result = each_strange(t, root, forge, repository);
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; result == 0 && i < n[k]; i++) {
            const struct forge_row *row = &tables[k][i];
            /* what writes nothing is the same for all repositories */
            if ((row->forges & forge) && (!repository.n || !quiet(row)))
                result = each_row(t, root, row, repository);
        }
    return result;
}

/* Mutations: one that names repository and branch, one by an opaque id, one that is in no table. */
static int each_mutation(struct tour *t, const char *root, struct slice repository) {
    static const char *const others[] = {"deleteRef(input:{refId:\\\"7\\\"})", "sevenSeven(input:{})"};
    uint16_t units[DOOR_UNITS_MAX];
    struct glob pattern = {.units = units, .n = put_units(units, 0, slice_str(root), false)};
    int result = 0;
    t->f.method = SLICE("POST");
    for (size_t i = 0; result == 0 && i < t->refs.n + 2; i++) {
        struct slice ref = i < 2 ? SLICE_NONE : slice_str(t->refs.text[i - 2]);
        buf_clear(&t->body);
        if (i < 2)
            buf_printf(&t->body, "{\"query\":\"mutation{%s{clientMutationId}}\"}", others[i]);
        else if (repository.n && slice_starts(ref, SLICE("refs/heads/")))
            buf_printf(&t->body,
                       "{\"query\":\"mutation{createCommitOnBranch(input:{branch:{repositoryNameWithOwner:"
                       "\\\"%.*s\\\",branchName:\\\"%.*s\\\"}}){clientMutationId}}\"}",
                       SLICE_ARG(repository), SLICE_ARG(slice_from(ref, strlen("refs/heads/"))));
        else
            continue;
        result = hand_over(t, &pattern);
    }
    return result;
}

/* --- who may be judged differently -------------------------------------------------------------------------- */

static bool has_push_rule(const struct policy *p, const struct rule *rule) {
    for (size_t i = 0; i < p->nrules; i++)
        if (plain_same(&p->rules[i], rule))
            return true;
    return false;
}

/* Whether all policies judge what a request writes in the same way: by the same forge and the same push rules. */
static bool alike(const struct tour *t) {
    struct door_host other;
    const struct classes *c = t->c;
    for (size_t k = 0; k < c->npolicies; k++) {
        if (!doors_place(c->policies[k], &t->f, &other) || !slice_eq(other.git, t->at.git) ||
            other.root != t->at.root || other.forges != t->at.forges)
            return false;
        for (size_t i = 0; i < c->policies[k]->nrules; i++) {
            const struct rule *r = &c->policies[k]->rules[i];
            for (size_t m = 0; about_git(t, r) && m < c->npolicies; m++)
                if (m != k && !has_push_rule(c->policies[m], r))
                    return false;
        }
    }
    return true;
}

static bool meets(const struct glob *g, const char *pattern) {
    uint16_t units[32];
    size_t n = 0;
    for (const char *p = pattern; *p; p++)
        units[n++] = (uint16_t)(*p == '*' ? GLOB_STARSTAR : (unsigned char)*p);
    struct overlap o;
    overlap_init(&o);
    overlap_globs(&o, g, &(struct glob){.units = units, .n = n}, true);
    bool some = o.n || o.truncated;
    overlap_release(&o);
    return some;
}

/* Whether all that the pattern takes is of one row that writes nothing. */
static bool in_quiet_row(const struct tour *t, const struct glob *g, struct slice method) {
    size_t n[2];
    const struct forge_row *tables[2] = {forge_rows(&n[0]), forge_gitlab_rows(&n[1])};
    uint16_t units[DOOR_UNITS_MAX];
    bool found = false;
    for (size_t p = 0; p < sizeof places / sizeof *places; p++)
        for (size_t k = 0; !found && places[p].own == t->at.root && k < 2; k++)
            for (size_t i = 0; !found && i < n[k]; i++) {
                const struct forge_row *row = &tables[k][i];
                if (!(row->forges & places[p].forges & t->at.forges) || !quiet(row) ||
                    !has_method(&(struct rule){.methods = slice_str(row->methods)}, method))
                    continue;
                struct glob pattern = {
                    .units = units,
                    .n = classes_doors_row(places[p].root, row, SLICE_NONE, SLICE_NONE, units)};
                struct overlap o;
                struct buf whole;
                overlap_init(&o);
                buf_init(&whole, 1 << 16);
                overlap_globs(&o, g, &pattern, false);
                overlap_put_glob(&whole, g);
                buf_putc(&whole, 0);
                found = o.n == 1 && !o.truncated && slice_eq(buf_slice(&o.text), buf_slice(&whole));
                buf_release(&whole);
                overlap_release(&o);
            }
    return found;
}

/* Whether no request that the rule permits can write, nor be taken for one that may. */
static bool harmless(const struct tour *t, const struct rule *r) {
    const struct glob *paths;
    size_t n = paths_of(r, &paths);
    for (size_t i = 0; i < n; i++) {
        struct slice rest = r->methods, method;
        if (!t->at.root && !meets(&paths[i], "*/api/*"))
            continue;
        for (bool more = true; more;) {
            more = slice_cut(rest, ',', &method, &rest);
            if (forge_reads_only(method) ? meets(&paths[i], "*/graphql*")
                                         : r->any_method || !in_quiet_row(t, &paths[i], method))
                return false;
        }
    }
    return true;
}

/* --- all --------------------------------------------------------------------------------------------------- */

static int each_place(struct tour *t) {
    int result = 0;
    for (size_t i = 0; result == 0 && i <= t->repositories.n; i++) {
        struct slice repository = i ? slice_str(t->repositories.text[i - 1]) : SLICE_NONE;
        for (size_t p = 0; result == 0 && p < sizeof places / sizeof *places; p++)
            if ((places[p].forges & t->at.forges) && places[p].own == t->at.root)
                result = each_table(t, places[p].root, places[p].forges, repository);
        if (result == 0)
            result = each_mutation(t, t->at.root ? "/graphql" : "/api/graphql", repository);
    }
    return result;
}

static int visit(struct tour *t) {
    bool silent = true, same = alike(t);
    if (same && !(t->c->hidden && *t->c->hidden))
        return 0;
    int result = collect_names(t, false, &t->repositories);
    if (result == 0)
        result = collect_names(t, true, &t->refs);
    for (size_t i = 0; silent && i < t->nreaches; i++)
        silent = harmless(t, t->reaches[i]);
    if (result == 0)
        result = each_place(t);
    if (result == 0 && !silent && !same && t->c->unsure)
        result = t->c->unsure(t->c->arg, t->f.host,
                              "what a request to the forge's API writes is judged by the push rules, which "
                              "differ; beyond the endpoints that were tried that can't be followed");
    return result;
}

/* Rules about HTTP at the origin that permit. */
static void collect_reaches(struct tour *t) {
    const struct index_slot *lists[INDEX_LISTS_MAX];
    for (size_t k = 0; k < t->c->npolicies; k++) {
        const struct policy *p = t->c->policies[k];
        size_t n = index_find(&p->index, t->f.host, t->f.host_is_address, lists);
        for (size_t l = 0; l < n; l++)
            for (uint32_t i = 0; i < lists[l]->n; i++) {
                const struct rule *r = &p->rules[lists[l]->rules[i]];
                if (r->deny || r->action != TREE_HTTP || r->target.scheme != t->f.scheme ||
                    (!r->target.any_port && r->target.port != t->f.port))
                    continue;
                if (t->nreaches < REACHES_MAX)
                    t->reaches[t->nreaches++] = r;
            }
    }
}

int classes_doors(const struct classes *c, const struct facts *origin, uint64_t *effort) {
    struct tour *t = calloc(1, sizeof *t);
    int result = 0;
    if (!t)
        return ERR_NOMEM;
    t->c = c;
    t->f = *origin;
    t->f.kind = FACTS_HTTP;
    t->f.query = SLICE_NONE;
    t->f.field = json_field;
    t->f.body_state = FACTS_BODY_WHOLE;
    buf_init(&t->path, 1 << 16);
    buf_init(&t->body, 1 << 16);
    collect_reaches(t);
    struct door_host last = {.forges = 0};
    for (size_t k = 0; result == 0 && t->nreaches && k < c->npolicies; k++) {
        if (!doors_place(c->policies[k], &t->f, &t->at) ||
            (slice_eq(last.git, t->at.git) && last.root == t->at.root && last.forges == t->at.forges))
            continue;
        last = t->at;
        t->left = *effort / 2 / STEP_COST < REQUESTS_MAX ? (size_t)(*effort / 2 / STEP_COST) : REQUESTS_MAX;
        *effort -= t->left * STEP_COST;
        t->repositories.n = t->refs.n = 0;
        result = visit(t);
        *effort += t->left * STEP_COST;
    }
    buf_release(&t->path);
    buf_release(&t->body);
    free(t);
    return result;
}
