/* What has to be read of a request before it can be judged. */
#include "policy/judge.h"

/* How much of the body the rule wants to see. */
static size_t rule_body(const struct request *q, const struct rule *r) {
    if (r->action == TREE_LFS && r->ops_named && r->body == 0 && facts_lfs_batch(q->f))
        return POLICY_BODY_DEFAULT;
    return r->body;
}

size_t judge_needs_body(const struct policy *p, const struct facts *f, bool *denied) {
    struct request q;
    struct verdict v;
    struct body_view view = {.read = false};
    size_t most = 0;
    if (!p->looks_at_bodies || !judge_prepare(&q, p, f, NULL, &view, &v))
        return 0;
    q.bodyless = true;
    for (size_t l = 0; l < q.nlists; l++) {
        for (uint32_t k = 0; k < q.lists[l]->n; k++) {
            const struct rule *r = &p->rules[q.lists[l]->rules[k]];
            size_t body = rule_body(&q, r);
            if (body <= most && !(r->deny && body == 0))
                continue;
            bool matches = (r->verb != TREE_ALLOW && judge_stage(&q, r, NULL, true) == STAGE_MATCH) ||
                           (!r->deny && judge_stage(&q, r, NULL, false) == STAGE_MATCH);
            if (matches && body == 0) {
                *denied = true;
                return 0;
            }
            if (matches)
                most = body;
        }
    }
    return most;
}

/* May the rule be about the ref, whatever comes out about its operation? */
static bool may_be_about(const struct request *q, const struct rule *r, const struct facts_ref *ref) {
    unsigned ops = 1u << ref->op;
    if (ref->unproved)
        ops |= 1u << FACTS_UPDATE;
    return (r->ops & ops) && judge_git_stage(q, r, TREE_PUSH, true) == STAGE_MATCH &&
           rule_takes_ref(r, ref->name, true);
}

unsigned policy_needs_pack(const struct policy *p, const struct facts *f) {
    struct request q;
    struct verdict v;
    struct body_view view = {.read = false};
    unsigned needs = 0;
    if (f->kind != FACTS_GIT_PUSH || !judge_prepare(&q, p, f, NULL, &view, &v))
        return 0;
    for (size_t l = 0; l < q.nlists; l++) {
        for (uint32_t k = 0; k < q.lists[l]->n; k++) {
            const struct rule *r = &p->rules[q.lists[l]->rules[k]];
            bool about = false;
            for (size_t i = 0; r->brings && i < f->nrefs && !about; i++)
                about = f->refs[i].op != FACTS_DELETE && may_be_about(&q, r, &f->refs[i]);
            if (!about)
                continue;
            needs |= r->nchanges ? POLICY_PACK_PATHS : 0;
            needs |= r->max_size || r->max_blob ? POLICY_PACK_SIZES : 0;
            needs |=
                r->max_commits || r->nauthors || r->ncommitters || r->wants_signed ? POLICY_PACK_COMMITS : 0;
        }
    }
    return needs;
}

uint64_t policy_most(const struct policy *p, const struct facts *f, bool blob) {
    struct request q;
    struct verdict v;
    struct body_view view = {.read = false};
    uint64_t most = 0;
    if (!judge_prepare(&q, p, f, NULL, &view, &v))
        return 0;
    for (size_t i = 0; i < f->nrefs; i++) {
        uint64_t one = 0;
        for (size_t l = 0; l < q.nlists; l++) {
            for (uint32_t k = 0; k < q.lists[l]->n; k++) {
                const struct rule *r = &p->rules[q.lists[l]->rules[k]];
                uint64_t limit = blob ? r->max_blob : r->max_size;
                if (r->deny || !may_be_about(&q, r, &f->refs[i]))
                    continue;
                if (limit == 0)
                    limit = UINT64_MAX;
                if (limit > one)
                    one = limit;
            }
        }
        if (one && (most == 0 || one < most))
            most = one;
    }
    return most == UINT64_MAX ? 0 : most;
}

bool policy_asks_header(const struct policy *p, const struct facts *f, struct slice name) {
    struct request q;
    struct verdict v;
    struct body_view view = {.read = false};
    if (!judge_prepare(&q, p, f, NULL, &view, &v))
        return false;
    for (size_t l = 0; l < q.nlists; l++)
        for (uint32_t k = 0; k < q.lists[l]->n; k++)
            if (condition_names_header(p->rules[q.lists[l]->rules[k]].conditions, name))
                return true;
    return false;
}
