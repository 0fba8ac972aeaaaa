/*
 * Theory of operation. The index gives the few lists of rules that may be about the host. Each rule on them is held
 * against the request stage by stage; how far the best allow came is the reason when none comes through. The lowest
 * number wins among denies and among allows, so the order in which lists are walked makes no difference.
 */
#include "policy/rule.h"

#include "policy/facts.h"

#define NONE UINT32_MAX

/* A request, with what is worked out about it once. */
struct request {
    const struct policy *p;
    const struct facts *f;
    const bool *reach;
    struct slice repository;
    bool doubled; /* the path holds "//" */
    bool encoded; /* the path holds "%2F" */
    bool percent; /* … any '%' */
    unsigned method_bit;
    const struct index_slot *lists[INDEX_LISTS_MAX];
    size_t nlists;
};

static bool path_matches(const struct request *q, const struct glob *g, struct slice path, unsigned flags,
                         bool deny) {
    bool rows = q->doubled || (deny && q->encoded); /* of slashes, in some reading */
    if (deny)
        flags |= GLOB_LOOSE;
    if (!rows)
        return glob_match(g, path, flags);
    bool plain = glob_match(g, path, flags), collapsed = glob_match(g, path, flags | GLOB_COLLAPSE);
    return deny ? plain || collapsed : plain && collapsed;
}

static bool paths_match(const struct request *q, const struct rule *r, bool git, bool deny) {
    const struct target *t = &r->target;
    if (t->npaths == 0)
        return deny || !q->encoded;
    struct slice path = git ? q->repository : q->f->path;
    unsigned flags = q->percent ? GLOB_PATH : 0;
    for (size_t i = 0; i < t->npaths; i++)
        if (path_matches(q, &t->paths[i], path, git ? flags | GLOB_NOCASE : flags, deny))
            return true;
    return false;
}

unsigned rule_method_bit(struct slice method) {
    static const char *const names[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (slice_eq(method, slice_str(names[i])))
            return 1u << i;
    return RULE_OTHER_METHODS;
}

static bool method_matches(const struct request *q, const struct rule *r) {
    if (r->any_method || (r->method_bits & q->method_bit & ~RULE_OTHER_METHODS))
        return true;
    /* some servers take "get" for GET: a deny stops it, an allow does not cover it */
    if (q->method_bit != RULE_OTHER_METHODS)
        return false;
    struct slice rest = r->methods, one;
    bool more = true;
    while (more) {
        more = slice_cut(rest, ',', &one, &rest);
        if (r->deny ? slice_caseeq(one, q->f->method) : slice_eq(one, q->f->method))
            return true;
    }
    return false;
}

/* Scheme, host, port. */
static enum stage origin_stage(const struct request *q, const struct rule *r) {
    const struct target *t = &r->target;
    if (q->f->host_is_address && t->host_kind != RULE_HOST_EXACT && !r->deny)
        return STAGE_ADDRESS;
    if (t->scheme != q->f->scheme)
        return STAGE_SCHEME;
    if (!t->any_port && t->port != q->f->port)
        return STAGE_PORT;
    return STAGE_MATCH;
}

/* A rule about HTTP against the request's method and path. */
static enum stage http_stage(const struct request *q, const struct rule *r) {
    enum stage s = origin_stage(q, r);
    if (s != STAGE_MATCH)
        return s;
    if (r->action != TREE_HTTP || !method_matches(q, r))
        return STAGE_ACTION;
    if (paths_match(q, r, false, r->deny))
        return STAGE_MATCH;
    return q->encoded && !r->deny && paths_match(q, r, false, true) ? STAGE_SLASH : STAGE_PATH;
}

/* A rule about fetch or push against the repository. */
static enum stage git_stage(const struct request *q, const struct rule *r, enum tree_action action) {
    enum stage s = origin_stage(q, r);
    if (s != STAGE_MATCH)
        return s;
    if (r->action != action)
        return STAGE_ACTION;
    return paths_match(q, r, true, r->deny) ? STAGE_MATCH : STAGE_PATH;
}

static bool ref_matches(const struct rule *r, struct slice name) {
    if (r->nrefs == 0)
        return true;
    for (size_t i = 0; i < r->nrefs; i++)
        if (glob_match(&r->refs[i], name, r->deny ? GLOB_NOCASE : 0))
            return true;
    return false;
}

/* A push rule whose repository matches, against one ref. */
static enum stage ref_stage(const struct request *q, const struct rule *r, const struct facts_ref *ref) {
    enum stage s = git_stage(q, r, TREE_PUSH);
    if (s != STAGE_MATCH)
        return s;
    if (!ref_matches(r, ref->name))
        return STAGE_REF;
    return r->ops & 1u << ref->op ? STAGE_MATCH : STAGE_OP;
}

/* A push without refs: any push rule about the repository permits it, and only a deny of every push stops it. */
static enum stage discovery_stage(const struct request *q, const struct rule *r) {
    enum stage s = git_stage(q, r, TREE_PUSH);
    if (s == STAGE_MATCH && r->deny && (r->nrefs || r->ops_named))
        return STAGE_REF;
    return s;
}

struct outcome {
    uint32_t deny, allow; /* rule numbers, NONE for none */
    enum stage stage;     /* of the allow that came furthest */
};

static enum stage stage_of(const struct request *q, const struct rule *r, const struct facts_ref *ref) {
    /* git's endpoints are permitted by git's rules alone, but stopped by a deny of either kind */
    if (r->deny && r->action == TREE_HTTP)
        return http_stage(q, r);
    switch (q->f->kind) {
    case FACTS_HTTP: return http_stage(q, r);
    case FACTS_GIT_FETCH: return git_stage(q, r, TREE_FETCH);
    case FACTS_GIT_PUSH: return ref ? ref_stage(q, r, ref) : discovery_stage(q, r);
    case FACTS_TUNNEL: break;
    }
    return STAGE_NONE;
}

/* Holds every rule that may be about the host against the request, or against one ref of it. */
static struct outcome scan(const struct request *q, const struct facts_ref *ref) {
    struct outcome o = {NONE, NONE, STAGE_NONE};
    for (size_t l = 0; l < q->nlists; l++) {
        for (uint32_t k = 0; k < q->lists[l]->n; k++) {
            uint32_t i = q->lists[l]->rules[k];
            const struct rule *r = &q->p->rules[i];
            if ((q->reach && !q->reach[r->source->index]) || i >= (r->deny ? o.deny : o.allow))
                continue;
            enum stage s = stage_of(q, r, ref);
            if (s == STAGE_MATCH && r->deny)
                o.deny = i;
            else if (s == STAGE_MATCH)
                o.allow = i;
            if (!r->deny && s > o.stage)
                o.stage = s;
        }
    }
    return o;
}

static enum verdict_reason reason_of(enum facts_kind kind, enum stage s) {
    switch (s) {
    case STAGE_NONE: return REASON_HOST;
    case STAGE_ADDRESS: return REASON_ADDRESS;
    case STAGE_SCHEME: return REASON_SCHEME;
    case STAGE_PORT: return REASON_PORT;
    case STAGE_SLASH: return REASON_ENCODED_SLASH;
    case STAGE_ACTION:
    case STAGE_PATH:
        if (kind == FACTS_GIT_FETCH)
            return REASON_FETCH;
        if (kind == FACTS_GIT_PUSH)
            return REASON_PUSH;
        return s == STAGE_ACTION ? REASON_METHOD : REASON_PATH;
    case STAGE_REF: return REASON_REFS;
    case STAGE_OP: return REASON_OPERATION;
    case STAGE_MATCH: break;
    }
    return REASON_ALLOWED;
}

static void refuse(struct verdict *v, enum verdict_reason reason) {
    *v = (struct verdict){.action = VERDICT_DENY, .reason = reason};
}

static void settle(const struct request *q, const struct outcome *o, struct verdict *v) {
    if (o->deny != NONE) {
        refuse(v, REASON_DENIED_BY_RULE);
        v->rule = q->p->rules[o->deny].where;
        v->note = q->p->rules[o->deny].note;
    } else if (o->allow != NONE) {
        const struct rule *r = &q->p->rules[o->allow];
        *v = (struct verdict){.action = VERDICT_ALLOW, .reason = REASON_ALLOWED, .rule = r->where};
        v->credential = r->credential;
        v->note = r->note;
        v->names_address = q->f->host_is_address && r->target.host_kind == RULE_HOST_EXACT;
    } else {
        refuse(v, reason_of(q->f->kind, o->stage));
    }
}

static void settle_ref(const struct request *q, const struct facts_ref *ref, struct verdict *v) {
    struct outcome o = scan(q, ref);
    settle(q, &o, v);
    if (v->reason != REASON_OPERATION || ref->op != FACTS_FORCE || !ref->unproved)
        return;
    struct facts_ref proved = *ref;
    proved.op = FACTS_UPDATE;
    o = scan(q, &proved);
    if (o.deny == NONE && o.allow != NONE)
        v->reason = REASON_UNPROVED;
}

/* All refs stand or fall together, and one request carries one credential. */
static void settle_push(const struct request *q, struct verdict *v) {
    struct verdict first_bad = {0}, one;
    size_t bad = 0;
    bool mixed = false;
    for (size_t i = 0; i < q->f->nrefs; i++) {
        settle_ref(q, &q->f->refs[i], &one);
        if (one.action != VERDICT_ALLOW) {
            one.ref = i;
            if (bad++ == 0)
                first_bad = one;
            continue;
        }
        mixed |= v->rule.index && !slice_eq(v->credential, one.credential);
        if (!v->rule.index || one.rule.index < v->rule.index)
            *v = one;
    }
    if (bad)
        *v = first_bad;
    else if (mixed)
        refuse(v, REASON_CREDENTIALS);
    v->bad_refs = bad;
}

static bool holds(struct slice s, struct slice part) {
    return s.n && memmem(s.p, s.n, part.p, part.n);
}

/* False if the verdict is known without looking at a rule. */
static bool prepare(struct request *q, const struct policy *p, const struct facts *f, const bool *reach,
                    struct verdict *v) {
    q->p = p;
    q->f = f;
    q->reach = reach;
    refuse(v, REASON_NO_RULES);
    if (p->nrules == 0)
        return false;
    if (f->kind == FACTS_HTTP && facts_git_like(f->path, f->query)) {
        refuse(v, REASON_GIT_AS_HTTP);
        return false;
    }
    q->repository = f->kind == FACTS_HTTP ? SLICE_NONE : facts_repository(f->path);
    q->doubled = holds(f->path, SLICE("//"));
    q->percent = slice_find(f->path, '%') >= 0;
    q->encoded = q->percent && holds(f->path, SLICE("%2F"));
    q->method_bit = rule_method_bit(f->method);
    q->nlists = index_find(&p->index, f->host, f->host_is_address, q->lists);
    return true;
}

void judge(const struct policy *p, const struct facts *f, const bool *reach, struct verdict *v) {
    struct request q;
    if (!prepare(&q, p, f, reach, v))
        return;
    if (f->kind == FACTS_GIT_PUSH && f->nrefs) {
        settle_push(&q, v);
        return;
    }
    struct outcome o = scan(&q, NULL);
    settle(&q, &o, v);
}

void judge_ref(const struct policy *p, const struct facts *f, const bool *reach, size_t i,
               struct verdict *v) {
    struct request q;
    if (!prepare(&q, p, f, reach, v))
        return;
    settle_ref(&q, &f->refs[i], v);
    v->ref = i;
    v->bad_refs = v->action != VERDICT_ALLOW;
}

void policy_judge(const struct policy *p, const struct facts *f, struct verdict *v) {
    judge(p, f, NULL, v);
}

void policy_judge_ref(const struct policy *p, const struct facts *f, size_t i, struct verdict *v) {
    judge_ref(p, f, NULL, i, v);
}

enum stage judge_rule(const struct policy *p, const struct facts *f, const struct facts_ref *ref,
                      size_t rule) {
    struct request q;
    struct verdict v;
    const struct target *t = &p->rules[rule].target;
    if (!prepare(&q, p, f, NULL, &v))
        return STAGE_NONE;
    bool about = t->host_kind == RULE_HOST_ANY ||
                 (t->host_kind == RULE_HOST_EXACT && slice_eq(t->host, f->host)) ||
                 (t->host_kind == RULE_HOST_SUFFIX && !f->host_is_address && f->host.n > t->host.n + 1 &&
                  slice_ends(f->host, t->host) && f->host.p[f->host.n - t->host.n - 1] == '.');
    return about ? stage_of(&q, &p->rules[rule], ref) : STAGE_NONE;
}

size_t policy_needs_body(const struct policy *p, const struct facts *f) {
    (void)p;
    (void)f;
    return 0; /* no rule has a condition on a body yet */
}
