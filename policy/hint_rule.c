/* A rule in words, that is about one request and as little else as the language can say. */
#include "policy/hint.h"

#include "policy/doors.h"
#include "policy/push_options.h"

#define REFS_MAX      8    /* lines */
#define PATH_MAX_HINT 1024 /* bytes of a path or a ref; a longer one is nothing to copy */

/* A text as a pattern that matches it: '$' would be a variable. (A '*' is not written by it; little else is special.) */
static void put_pattern(struct buf *out, struct slice s) {
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '$')
            buf_putc(out, '$');
        buf_putc(out, s.p[i]);
    }
}

/* Whether a ref's name can stand in a policy as it is: a proper name does. */
static bool is_ref(struct slice s) {
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] <= 0x20 || s.p[i] == 0x7f || strchr("{}\\?[]~^:*", s.p[i]))
            return false;
    return slice_starts(s, SLICE("refs/")) && s.n <= PATH_MAX_HINT;
}

/* A star in a pattern would take more than itself. */
static bool has_star(struct slice path) {
    return path.n && memchr(path.p, '*', path.n);
}

/* … so a path that holds one is written as a regular expression. */
static void put_regex(struct buf *out, struct slice path) {
    buf_putc(out, '~');
    for (size_t i = 0; i < path.n; i++) {
        if (path.p[i] == '$') {
            buf_puts(out, "\\x24");
            continue;
        }
        if (strchr(".*+?()[]{}|^\\", path.p[i]))
            buf_putc(out, '\\');
        buf_putc(out, path.p[i]);
    }
}

static void put_target(const struct facts *f, struct slice path, struct buf *out) {
    url_put_origin(out, f->scheme, f->host, f->port);
    if (f->repository_unknown)
        buf_puts(out, "/**");
    else if (has_star(path))
        put_regex(out, path);
    else
        put_pattern(out, path.n ? path : SLICE("/")); /* without a path a rule is about the whole host */
}

/* The rule that permits and comes closest, if it comes as far as `least`; NULL: none does. */
static const struct rule *nearest(const struct policy *p, const struct facts *f, const struct facts_ref *ref,
                                  enum stage least) {
    const struct index_slot *lists[INDEX_LISTS_MAX];
    const struct rule *best = NULL;
    enum stage far = STAGE_NONE;
    size_t n = p->nrules ? index_find(&p->index, f->host, f->host_is_address, lists) : 0;
    for (size_t l = 0; l < n; l++)
        for (uint32_t k = 0; k < lists[l]->n; k++) {
            uint32_t i = lists[l]->rules[k];
            const struct rule *r = &p->rules[i];
            enum stage s = r->deny ? STAGE_NONE : judge_rule(p, f, ref, i, NULL);
            if (s >= least && (s > far || (s == far && r < best))) {
                far = s;
                best = r;
            }
        }
    return best;
}

/* --- HTTP -------------------------------------------------------------------------------------------------- */

static bool put_lfs(const struct facts *f, struct buf *out) {
    struct slice repository;
    const char *lfs = facts_lfs_name(facts_lfs_operation(f));
    /* "/..git" without its ".git" is no path */
    if (!lfs || !facts_lfs(f->path, &repository) || repository.n == 0 || has_star(repository) ||
        slice_ends(repository, SLICE("/.")) || slice_ends(repository, SLICE("/..")))
        return false;
    buf_puts(out, "allow lfs ");
    put_target(f, repository, out);
    buf_printf(out, " %s", lfs);
    return true;
}

static bool is_graphql(struct slice path) {
    return path.n >= 8 && slice_caseeq(slice_from(path, path.n - 8), SLICE("/graphql"));
}

bool hint_http(const struct policy *p, const struct facts *f, unsigned level, struct buf *out) {
    static const struct rule none = {.conditions = NULL};
    if (level > HINT_WIDE || !facts_method(f->method) || f->path.n == 0 || f->path.p[0] != '/' ||
        f->path.n > PATH_MAX_HINT)
        return false;
    bool wide = level & HINT_WIDE;
    if (!wide && put_lfs(f, out))
        return true;
    const struct rule *r = wide ? NULL : nearest(p, f, NULL, STAGE_CONDITION);
    if (!wide && !r && is_graphql(f->path))
        r = &none;
    buf_printf(out, "allow %.*s ", SLICE_ARG(f->method));
    put_target(f, f->path, out);
    return wide || (r && hint_conditions(r, f, out));
}

/* --- git --------------------------------------------------------------------------------------------------- */

/* Whether the options of a push can stand in a policy as they are. */
static bool plain_options(const struct facts *f) {
    for (size_t i = 0; i < f->noptions; i++)
        for (size_t k = 0; k < f->options[i].n; k++)
            if ((unsigned char)f->options[i].p[k] <= 0x20 || f->options[i].p[k] == 0x7f ||
                strchr("{}\\?[]\"#$*", f->options[i].p[k]))
                return false;
    return true;
}

static void put_options(const struct facts *f, struct buf *out) {
    bool some = false;
    for (size_t i = 0; i < f->noptions; i++) {
        if (!push_option_writes(f->options[i]))
            continue;
        buf_printf(out, "%s%.*s", some ? " " : " options ", SLICE_ARG(f->options[i]));
        some = true;
    }
}

/* The credential that another ref of the push is permitted with. */
static struct slice lender(const struct policy *p, const struct facts *f) {
    for (size_t i = 0; i < f->nrefs; i++) {
        struct verdict v;
        policy_judge_ref(p, f, i, &v);
        if (v.action != VERDICT_DENY && v.credential.n)
            return v.credential;
    }
    return SLICE_NONE;
}

/* What of the narrowest rule for a ref stands behind its operation. */
static bool put_parts(const struct policy *p, const struct facts *f, const struct facts_ref *ref,
                      unsigned level, struct buf *out) {
    bool different = level == 0;
    put_options(f, out);
    const struct rule *r = nearest(p, f, ref, STAGE_REF);
    if (r && f->kind == FACTS_GIT_PUSH && !(level & HINT_WIDE))
        (void)hint_brought(r, f, ref, out);
    else
        different |= r && r->brings;
    struct slice credential = level & HINT_LENDER ? lender(p, f) : SLICE_NONE;
    if (credential.n)
        buf_printf(out, " with %.*s", SLICE_ARG(credential));
    return different || credential.n;
}

/* A line for each ref that is denied. False if one can't stand in a policy. */
static bool put_refs(const struct policy *p, const struct facts *f, unsigned level, struct buf *out) {
    struct slice repository = facts_repository(f->path);
    bool push = f->kind == FACTS_GIT_PUSH, different = false;
    size_t shown = 0;
    for (size_t i = 0; i < f->nrefs; i++) {
        const struct facts_ref *ref = &f->refs[i];
        struct verdict one;
        policy_judge_ref(p, f, i, &one);
        if (one.action != VERDICT_DENY)
            continue;
        if (shown++ == REFS_MAX || (ref->name.n && !is_ref(ref->name)))
            return false;
        buf_printf(out, "%sallow %s ", shown > 1 ? "\n" : "", push ? "push" : "fetch");
        put_target(f, repository, out);
        buf_putc(out, ' ');
        put_pattern(out, ref->name.n ? ref->name : SLICE("refs/**"));
        if (push)
            buf_printf(out, " %s", facts_op_name(ref->op));
        different |= put_parts(p, f, ref, level, out);
        if (ref->unproved && one.reason != REASON_UNPROVED) /* nobody has tried to prove it */
            buf_puts(out, "  # update, if it is a fast-forward");
    }
    return shown && different;
}

bool hint_git(const struct policy *p, const struct facts *f, unsigned level, struct buf *out) {
    struct slice repository = facts_repository(f->path);
    /* "..git" without its ".git" is no path */
    if (f->path.n > PATH_MAX_HINT || has_star(repository) || slice_ends(repository, SLICE("/.")) ||
        slice_ends(repository, SLICE("/..")) || !plain_options(f))
        return false;
    if (f->nrefs)
        return put_refs(p, f, level, out);
    if (level)
        return false;
    buf_puts(out, f->kind == FACTS_GIT_PUSH ? "allow push " : "allow fetch ");
    put_target(f, repository, out);
    if (f->kind == FACTS_GIT_PUSH)
        buf_puts(out, " refs/heads/BRANCH");
    else if (f->extra != FACTS_PLAIN)
        buf_printf(out, " also %s", facts_extra_name(f->extra));
    return true;
}

bool hint_tunnel(const struct facts *f, unsigned level, struct buf *out) {
    buf_puts(out, "tunnel ");
    url_put_origin(out, f->scheme, f->host, f->port);
    return level == 0;
}
