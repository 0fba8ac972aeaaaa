/*
 * Theory of operation. The index gives the few lists of rules that may be about the host. Each rule on them is held
 * against the request stage by stage; how far the best allow came is the reason when none comes through. The lowest
 * number wins among denies and among allows, so the order in which lists are walked makes no difference.
 */
#include "policy/judge.h"

#include "policy/doors.h"
#include "policy/push_options.h"
#include "policy/push.h"
#include "policy/regex.h"

#define NONE     UINT32_MAX
#define PREFETCH 8

/* --- paths ------------------------------------------------------------------------------------------------- */

static bool glob_paths(const struct request *q, const struct glob *g, struct slice path, unsigned flags,
                       bool loose) {
    bool rows = q->doubled || (loose && q->encoded); /* of slashes, in some reading */
    if (loose)
        flags |= GLOB_LOOSE;
    if (!rows)
        return glob_match(g, path, flags);
    bool plain = glob_match(g, path, flags), collapsed = glob_match(g, path, flags | GLOB_COLLAPSE);
    return loose ? plain || collapsed : plain && collapsed;
}

/* The path as the most forgiving server would read it: all decoded, rows of slashes as one, none at the end. */
static size_t forgive(struct slice path, char *out) {
    size_t n = 0;
    for (size_t i = 0; i < path.n; i++) {
        char c = path.p[i];
        int byte = c == '%' ? slice_hex_pair(path, i + 1) : -1;
        if (byte >= 0) {
            c = (char)byte;
            i += 2;
        }
        if (c != '/' || n == 0 || out[n - 1] != '/')
            out[n++] = c;
    }
    return n > 1 && out[n - 1] == '/' ? n - 1 : n;
}

#define REGEX_PATH_MAX 16384

/* Apart from its caller, which would have to touch the pages of this block for every rule. */
__attribute__((noinline)) static bool regex_paths(const struct request *q, const struct target *t,
                                                  struct slice path, bool loose) {
    char text[REGEX_PATH_MAX];
    if (!loose)
        return !q->doubled && (!q->encoded || t->regex_slash) && regex_match(t->regex, path) == TRI_YES;
    if (path.n > sizeof text || regex_match(t->regex, path) != TRI_NO)
        return true;
    return regex_match(t->regex, slice_make(text, forgive(path, text))) != TRI_NO;
}

static bool paths_match(const struct request *q, const struct rule *r, struct slice path, bool git,
                        bool loose) {
    const struct target *t = &r->target;
    if (t->regex)
        return regex_paths(q, t, path, loose);
    if (t->npaths == 0)
        return loose || !q->encoded;
    unsigned flags = q->percent ? GLOB_PATH : 0;
    for (size_t i = 0; i < t->npaths; i++)
        if (glob_paths(q, &t->paths[i], path, git ? flags | GLOB_NOCASE : flags, loose))
            return true;
    return false;
}

/* --- stages ------------------------------------------------------------------------------------------------ */

unsigned rule_method_bit(struct slice method) {
    static const struct slice names[] = {SLICE("GET"),   SLICE("HEAD"),   SLICE("POST"),   SLICE("PUT"),
                                         SLICE("PATCH"), SLICE("DELETE"), SLICE("OPTIONS")};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (slice_eq(method, names[i]))
            return 1u << i;
    return RULE_OTHER_METHODS;
}

static bool method_matches(const struct request *q, const struct rule *r, bool loose) {
    if (r->any_method || (r->method_bits & q->method_bit & ~RULE_OTHER_METHODS))
        return true;
    /* some servers take "get" for GET: a deny stops it, an allow does not cover it */
    if (q->method_bit != RULE_OTHER_METHODS)
        return false;
    struct slice rest = r->methods, one;
    bool more = true;
    while (more) {
        more = slice_cut(rest, ',', &one, &rest);
        if (loose ? slice_caseeq(one, q->f->method) : slice_eq(one, q->f->method))
            return true;
    }
    return false;
}

/* Scheme, host, port. */
static enum stage origin_stage(const struct request *q, const struct rule *r, bool loose) {
    const struct target *t = &r->target;
    if (q->f->host_is_address && t->host_kind != RULE_HOST_EXACT && !loose)
        return STAGE_ADDRESS;
    if (t->scheme != q->f->scheme)
        return STAGE_SCHEME;
    if (!t->any_port && t->port != q->f->port)
        return STAGE_PORT;
    return STAGE_MATCH;
}

/* The first condition of a rule that stands in the way, or NULL. */
static const struct condition *condition_fails(struct request *q, const struct rule *r, bool loose,
                                               const char **why) {
    for (const struct condition *c = r->conditions; c; c = c->next) {
        if (condition_on_body(c) && q->bodyless)
            continue;
        enum tri holds = TRI_NO;
        *why = NULL;
        if (!condition_on_body(c) ||
            q->f->kind == FACTS_HTTP) /* what git sends is neither JSON nor GraphQL */
            holds = condition_holds(c, q->f, q->view, r->body, loose, why);
        if (holds == TRI_NO || (holds == TRI_UNKNOWN && !loose))
            return c;
    }
    return NULL;
}

static enum stage conditions_stage(struct request *q, const struct rule *r, bool loose) {
    const char *why;
    return r->conditions && condition_fails(q, r, loose, &why) ? STAGE_CONDITION : STAGE_MATCH;
}

/* A rule about LFS whose repository matches, against what the request is for. */
static bool lfs_matches(struct request *q, const struct rule *r, bool loose) {
    if (!r->ops_named || (q->bodyless && facts_lfs_batch(q->f)))
        return true;
    enum facts_lfs op = lfs_operation(q->f, q->view);
    return (r->ops & 1u << op) || (loose && op == FACTS_LFS_UNKNOWN);
}

/* A rule about HTTP, or LFS, against the request's method and path. */
static enum stage http_stage(struct request *q, const struct rule *r, bool loose) {
    enum stage s = origin_stage(q, r, loose);
    struct slice path = q->f->path;
    bool lfs = r->action == TREE_LFS;
    if (s != STAGE_MATCH)
        return s;
    if (r->verb == TREE_TUNNEL)
        return STAGE_TUNNEL;
    if (lfs ? !facts_lfs(q->f->path, &path) && !(loose && q->encoded)
            : r->action != TREE_HTTP || !method_matches(q, r, loose))
        return STAGE_ACTION;
    if (paths_match(q, r, path, lfs, loose))
        return lfs && !lfs_matches(q, r, loose) ? STAGE_OP : conditions_stage(q, r, loose);
    return q->encoded && !loose && paths_match(q, r, path, lfs, true) ? STAGE_SLASH : STAGE_PATH;
}

/* A rule about fetch or push against the repository. */
enum stage judge_git_stage(const struct request *q, const struct rule *r, enum tree_action action,
                           bool loose) {
    enum stage s = origin_stage(q, r, loose);
    if (s != STAGE_MATCH)
        return s;
    if (r->action != action)
        return r->verb == TREE_TUNNEL ? STAGE_TUNNEL : STAGE_ACTION;
    bool matches = q->f->repository_unknown ? doors_unknown_repository(r, loose)
                                            : paths_match(q, r, q->repository, true, loose);
    return matches ? STAGE_MATCH : STAGE_PATH;
}

/* A push rule whose repository matches, against one ref. */
static enum stage ref_stage(const struct request *q, const struct rule *r, const struct facts_ref *ref,
                            bool loose) {
    enum stage s = judge_git_stage(q, r, TREE_PUSH, loose);
    if (s != STAGE_MATCH)
        return s;
    if (!rule_takes_ref(r, ref->name, loose))
        return STAGE_REF;
    if (!(r->ops & 1u << ref->op))
        return STAGE_OP;
    if (!push_options_match(q->f, r, ref, loose))
        return STAGE_OPTIONS;
    struct push_finding finding;
    return push_stage(q->f, ref, r, loose, &finding);
}

/* A fetch rule against a request as such, which any rule about the repository permits and only a deny of every ref
 * stops; against one ref; or against what a rule must permit by name. That may bring what any ref leads to, so that a
 * deny of one stops it. */
static enum stage fetch_stage(const struct request *q, const struct rule *r, const struct facts_ref *ref,
                              bool loose) {
    enum stage s = judge_git_stage(q, r, TREE_FETCH, loose);
    if (s != STAGE_MATCH)
        return s;
    if (q->f->extra != FACTS_PLAIN)
        return loose || (r->also & 1u << q->f->extra) ? STAGE_MATCH : STAGE_EXTRA;
    if (ref)
        return rule_takes_ref(r, ref->name, loose) ? STAGE_MATCH : STAGE_REF;
    return loose && r->nrefs ? STAGE_REF : STAGE_MATCH;
}

/* A push without refs: any push rule about the repository permits it, and only a deny of every push stops it. */
static enum stage discovery_stage(const struct request *q, const struct rule *r, bool loose) {
    enum stage s = judge_git_stage(q, r, TREE_PUSH, loose);
    if (s == STAGE_MATCH && loose && (r->nrefs || r->ops_named || r->brings || r->npush_options))
        return STAGE_REF;
    return s;
}

/* What goes through unread may be anything, so that whatever is denied or asked for on the host counts. */
static enum stage tunnel_stage(const struct request *q, const struct rule *r, bool loose) {
    enum stage s = origin_stage(q, r, loose);
    return s == STAGE_MATCH && !loose && r->verb != TREE_TUNNEL ? STAGE_ACTION : s;
}

enum stage judge_stage(struct request *q, const struct rule *r, const struct facts_ref *ref, bool loose) {
    /* git's endpoints are permitted by git's rules alone, but stopped by a deny of either kind */
    if (loose && r->action == TREE_HTTP && q->f->kind != FACTS_TUNNEL)
        return http_stage(q, r, loose);
    switch (q->f->kind) {
    case FACTS_HTTP: return http_stage(q, r, loose);
    case FACTS_GIT_FETCH: return fetch_stage(q, r, ref, loose);
    case FACTS_GIT_PUSH: return ref ? ref_stage(q, r, ref, loose) : discovery_stage(q, r, loose);
    case FACTS_TUNNEL: return tunnel_stage(q, r, loose);
    }
    return STAGE_NONE;
}

/* --- all rules --------------------------------------------------------------------------------------------- */

struct outcome {
    uint32_t deny, allow, ask; /* rule numbers, NONE for none */
    uint32_t hold;             /* an ask that matches read generously: what is allowed is asked for */
    enum stage stage;          /* of the allow, ask or tunnel that came furthest */
    uint32_t near;             /* … and which that is */
};

/* A rule that permits, read strictly. */
static void scan_permit(struct request *q, const struct facts_ref *ref, uint32_t i, struct outcome *o) {
    const struct rule *r = &q->p->rules[i];
    /* what is denied is not asked of a person, and the discovery of a push does nothing yet */
    bool asks = r->verb == TREE_ASK && (q->f->kind != FACTS_GIT_PUSH || ref);
    uint32_t *best = asks ? &o->ask : &o->allow;
    if (i >= *best)
        return;
    enum stage s = judge_stage(q, r, ref, false);
    if (s == STAGE_MATCH)
        *best = i;
    if (s > o->stage || (s == o->stage && i < o->near)) {
        o->stage = s;
        o->near = i;
    }
}

/* Holds every rule that may be about the host against the request, or against one ref of it. */
static struct outcome scan(struct request *q, const struct facts_ref *ref) {
    struct outcome o = {NONE, NONE, NONE, NONE, STAGE_NONE, NONE};
    for (size_t l = 0; l < q->nlists; l++) {
        const struct index_slot *list = q->lists[l];
        /* what a rule is decided by lies in one line of the cache, and the pattern behind it */
        for (uint32_t k = 0; k < list->n && k < PREFETCH; k++)
            __builtin_prefetch(&q->p->rules[list->rules[k]]);
        for (uint32_t k = 0; k < list->n; k++) {
            uint32_t i = list->rules[k];
            const struct rule *r = &q->p->rules[i];
            if (k + 1 < list->n)
                __builtin_prefetch(q->p->rules[list->rules[k + 1]].target.paths);
            if (k + PREFETCH < list->n)
                __builtin_prefetch(&q->p->rules[list->rules[k + PREFETCH]]);
            if (q->reach && !q->reach[r->source->index])
                continue;
            if (r->deny && i < o.deny && judge_stage(q, r, ref, true) == STAGE_MATCH)
                o.deny = i;
            if (r->verb == TREE_ASK && i < o.hold && judge_stage(q, r, ref, true) == STAGE_MATCH)
                o.hold = i;
            if (!r->deny)
                scan_permit(q, ref, i, &o);
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
    case STAGE_TUNNEL: return REASON_TUNNEL_ONLY;
    case STAGE_SLASH: return REASON_ENCODED_SLASH;
    case STAGE_ACTION:
    case STAGE_PATH:
        if (kind == FACTS_TUNNEL)
            return REASON_NO_TUNNEL;
        if (kind == FACTS_GIT_FETCH)
            return REASON_FETCH;
        if (kind == FACTS_GIT_PUSH)
            return REASON_PUSH;
        return s == STAGE_ACTION ? REASON_METHOD : REASON_PATH;
    case STAGE_EXTRA: return REASON_EXTRA;
    case STAGE_REF: return REASON_REFS;
    case STAGE_OP: return REASON_OPERATION;
    case STAGE_CHANGES: return REASON_CHANGES;
    case STAGE_SIZE: return REASON_SIZE;
    case STAGE_OPTIONS: return REASON_OPTIONS;
    case STAGE_BLOB: return REASON_BLOB;
    case STAGE_COMMITS: return REASON_COMMITS;
    case STAGE_AUTHOR: return REASON_AUTHOR;
    case STAGE_COMMITTER: return REASON_COMMITTER;
    case STAGE_SIGNED: return REASON_SIGNED;
    case STAGE_CONDITION: return REASON_CONDITION;
    case STAGE_MATCH: break;
    }
    return REASON_ALLOWED;
}

static void refuse(struct verdict *v, enum verdict_reason reason) {
    *v = (struct verdict){.action = VERDICT_DENY, .reason = reason};
}

/* The discovery of a push does nothing yet: what is asked about is the push. */
static bool is_discovery(const struct request *q) {
    return q->f->kind == FACTS_GIT_PUSH && q->f->nrefs == 0;
}

static void permit(const struct request *q, const struct rule *r, struct verdict *v) {
    *v = (struct verdict){.action = VERDICT_ALLOW, .reason = REASON_ALLOWED, .rule = r->where};
    if (r->verb == TREE_ASK && !is_discovery(q)) {
        v->action = VERDICT_ASK;
        v->reason = REASON_ASKED;
    } else if (r->verb == TREE_TUNNEL) {
        v->action = VERDICT_TUNNEL;
        v->reason = REASON_TUNNELLED;
    }
    v->credential = r->credential;
    v->note = r->note;
    v->max_body = r->max_body;
    v->limit = r->limit;
    v->limit_seconds = r->limit_seconds;
    v->limit_id = r->limit_id;
    v->nets = r->nets;
    v->nnets = r->nnets;
    v->to_private = r->to_private;
    v->names_address = q->f->host_is_address && r->target.host_kind == RULE_HOST_EXACT;
}

/* What `allow` permits waits for a person, since `ask` says so of it. */
static void hold(const struct request *q, const struct rule *allow, const struct rule *ask,
                 struct verdict *v) {
    permit(q, allow, v);
    if (is_discovery(q))
        return;
    v->action = VERDICT_ASK;
    v->reason = REASON_ASKED;
    v->rule = ask->where;
    v->note = ask->note;
    if (ask->credential.n)
        v->credential = ask->credential;
}

/* What a push brings that a rule's part is about, or why it is not known. */
static void settle_brought(const struct request *q, enum stage stage, const struct push_finding *finding,
                           struct verdict *v) {
    if (finding->text) {
        v->brought = finding->text->text;
        v->brought_by = finding->text->commit;
        v->brought_how = push_how(stage);
    } else if (finding->unknown) {
        v->failed_why = q->f->unknown ? q->f->unknown : "what the push brings is not known";
    }
}

/* A deny that is about what the push brings: which part of it. */
static void settle_deny(const struct request *q, const struct facts_ref *ref, const struct rule *r,
                        struct verdict *v) {
    struct push_finding finding;
    if (!ref || !r->brings || q->f->kind != FACTS_GIT_PUSH)
        return;
    push_stage(q->f, ref, r, true, &finding);
    settle_brought(q,
                   r->nchanges      ? STAGE_CHANGES
                   : r->ncommitters ? STAGE_COMMITTER
                                    : STAGE_AUTHOR,
                   &finding, v);
}

/* What stood in the way of the rule that came closest. */
static void settle_near(struct request *q, const struct facts_ref *ref, const struct outcome *o,
                        struct verdict *v) {
    const struct rule *r = &q->p->rules[o->near];
    const char *word = push_word(o->stage);
    if (v->reason == REASON_CONDITION) {
        const struct condition *c = condition_fails(q, r, false, &v->failed_why);
        v->failed = c ? c->text : SLICE_NONE;
    } else if (v->reason == REASON_OPTIONS) {
        struct slice value; /* may be secret */
        slice_cut(push_option_open(q->f, r, ref), '=', &v->failed, &value);
        v->failed_why = "a push option that it does not name";
    } else if (word && ref) {
        struct push_finding finding;
        push_stage(q->f, ref, r, false, &finding);
        v->failed = slice_str(word);
        settle_brought(q, o->stage, &finding, v);
    } else {
        return;
    }
    v->near = r->where;
}

static void settle(struct request *q, const struct facts_ref *ref, const struct outcome *o,
                   struct verdict *v) {
    const struct rule *rules = q->p->rules;
    if (o->deny != NONE) {
        refuse(v, REASON_DENIED_BY_RULE);
        v->rule = rules[o->deny].where;
        v->note = rules[o->deny].note;
        settle_deny(q, ref, &rules[o->deny], v);
    } else if (o->ask != NONE) {
        permit(q, &rules[o->ask], v);
    } else if (o->allow != NONE && o->hold != NONE) {
        hold(q, &rules[o->allow], &rules[o->hold], v);
    } else if (o->allow != NONE) {
        permit(q, &rules[o->allow], v);
    } else {
        refuse(v, reason_of(q->f->kind, o->stage));
        settle_near(q, ref, o, v);
    }
}

static void settle_ref(struct request *q, const struct facts_ref *ref, struct verdict *v) {
    struct outcome o = scan(q, ref);
    settle(q, ref, &o, v);
    if (v->reason != REASON_OPERATION || ref->op != FACTS_FORCE || !ref->unproved)
        return;
    struct facts_ref proved = *ref;
    proved.op = FACTS_UPDATE;
    o = scan(q, &proved);
    if (o.deny == NONE && (o.allow != NONE || o.ask != NONE))
        v->reason = REASON_UNPROVED;
}

/* All names of one object that a fetch is about, or one ref; *i comes to stand behind them. */
static void settle_names(struct request *q, size_t *i, struct verdict *v) {
    const struct facts_ref *first = &q->f->refs[*i];
    struct verdict one;
    bool names = q->f->kind == FACTS_GIT_FETCH && first->new.n > 0;
    settle_ref(q, first, v);
    v->ref = *i;
    while (++*i < q->f->nrefs && names && slice_eq(q->f->refs[*i].new, first->new)) {
        if (v->action != VERDICT_DENY)
            continue;
        settle_ref(q, &q->f->refs[*i], &one);
        if (one.action != VERDICT_DENY)
            *v = one;
    }
}

/* All refs stand or fall together, and one request carries one credential. */
static void settle_refs(struct request *q, struct verdict *v) {
    struct verdict first_bad = {0}, one;
    size_t bad = 0;
    bool mixed = false, some = false;
    for (size_t i = 0; i < q->f->nrefs;) {
        settle_names(q, &i, &one);
        if (one.action == VERDICT_DENY) {
            if (bad++ == 0)
                first_bad = one;
            continue;
        }
        one.ref = 0;
        mixed |= some && !slice_eq(v->credential, one.credential);
        /* one ref that a person is asked about holds the rest */
        bool stronger = one.action == VERDICT_ASK && v->action != VERDICT_ASK;
        if (!some || stronger || (one.action == v->action && one.rule.index < v->rule.index))
            *v = one;
        some = true;
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
bool judge_prepare(struct request *q, const struct policy *p, const struct facts *f, const bool *reach,
                   struct body_view *view, struct verdict *v) {
    const char *why;
    q->p = p;
    q->f = f;
    q->reach = reach;
    q->bodyless = false;
    q->view = view;
    refuse(v, REASON_NO_RULES);
    if (p->nrules == 0)
        return false;
    if (facts_git_as_http(f, &why)) {
        refuse(v, REASON_GIT_AS_HTTP);
        return false;
    }
    bool git = f->kind == FACTS_GIT_FETCH || f->kind == FACTS_GIT_PUSH;
    q->repository = git ? facts_repository(f->path) : SLICE_NONE;
    q->doubled = holds(f->path, SLICE("//"));
    q->percent = slice_find(f->path, '%') >= 0;
    q->encoded = q->percent && holds(f->path, SLICE("%2F"));
    q->method_bit = rule_method_bit(f->method);
    q->nlists = index_find(&p->index, f->host, f->host_is_address, q->lists);
    return true;
}

void judge_rules(const struct policy *p, const struct facts *f, const bool *reach, struct body_view *view,
                 struct verdict *v) {
    struct request q;
    if (!judge_prepare(&q, p, f, reach, view, v))
        return;
    if ((f->kind == FACTS_GIT_PUSH || f->kind == FACTS_GIT_FETCH) && f->nrefs) {
        settle_refs(&q, v);
        return;
    }
    struct outcome o = scan(&q, NULL);
    settle(&q, NULL, &o, v);
}

void judge(const struct policy *p, const struct facts *f, const bool *reach, struct verdict *v) {
    struct body_view view = {.read = false};
    judge_rules(p, f, reach, &view, v);
    if (v->action != VERDICT_DENY && doors_concern(f))
        doors_judge(p, f, reach, &view, v);
    body_view_release(&view);
}

void judge_ref(const struct policy *p, const struct facts *f, const bool *reach, size_t i,
               struct verdict *v) {
    struct request q;
    struct body_view view = {.read = false};
    if (!judge_prepare(&q, p, f, reach, &view, v))
        return;
    settle_ref(&q, &f->refs[i], v);
    v->ref = i;
    v->bad_refs = v->action == VERDICT_DENY;
}

void policy_judge(const struct policy *p, const struct facts *f, struct verdict *v) {
    judge(p, f, NULL, v);
}

void policy_judge_ref(const struct policy *p, const struct facts *f, size_t i, struct verdict *v) {
    judge_ref(p, f, NULL, i, v);
}

static bool about_host(const struct target *t, const struct facts *f) {
    return t->host_kind == RULE_HOST_ANY || (t->host_kind == RULE_HOST_EXACT && slice_eq(t->host, f->host)) ||
           (t->host_kind == RULE_HOST_SUFFIX && !f->host_is_address && f->host.n > t->host.n + 1 &&
            slice_ends(f->host, t->host) && f->host.p[f->host.n - t->host.n - 1] == '.');
}

enum stage judge_rule(const struct policy *p, const struct facts *f, const struct facts_ref *ref, size_t rule,
                      struct judge_part *part) {
    struct request q;
    struct verdict v;
    struct body_view view = {.read = false};
    const struct rule *r = &p->rules[rule];
    if (!about_host(&r->target, f) || !judge_prepare(&q, p, f, NULL, &view, &v))
        return STAGE_NONE;
    enum stage s = judge_stage(&q, r, ref, r->deny);
    if (s == STAGE_CONDITION && part)
        part->text = condition_fails(&q, r, r->deny, &part->why)->text;
    body_view_release(&view);
    return s;
}

bool judge_reaches(const struct policy *p, const struct facts *f, const struct facts_ref *ref, size_t rule) {
    struct request q;
    struct verdict v;
    struct body_view view = {.read = false};
    const struct rule *r = &p->rules[rule];
    if (!about_host(&r->target, f) || !judge_prepare(&q, p, f, NULL, &view, &v))
        return false;
    /* then: body; what options are; pack */
    enum stage far = r->action == TREE_LFS ? STAGE_OP : push_options_masked(f) ? STAGE_OPTIONS : STAGE_SIZE;
    bool reaches = (r->verb != TREE_ALLOW && judge_stage(&q, r, ref, true) >= far) ||
                   (!r->deny && judge_stage(&q, r, ref, false) >= far);
    body_view_release(&view);
    return reaches;
}
