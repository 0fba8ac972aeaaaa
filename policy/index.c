#include "base/hash.h"
#include "policy/rule.h"

/* The slot of a key, or the free one where it belongs. */
static struct index_slot *slot_of(const struct index *ix, struct slice key, bool suffix) {
    size_t i = hash_bytes(HASH_SEED + suffix, key) & ix->mask;
    while (ix->slots[i].key.p && (ix->slots[i].suffix != suffix || !slice_eq(ix->slots[i].key, key)))
        i = (i + 1) & ix->mask;
    return &ix->slots[i];
}

static struct index_slot *slot_for(struct index *ix, const struct rule *r) {
    if (r->target.host_kind == RULE_HOST_ANY)
        return &ix->any;
    bool suffix = r->target.host_kind == RULE_HOST_SUFFIX;
    struct index_slot *s = slot_of(ix, r->target.host, suffix);
    s->key = r->target.host;
    s->suffix = suffix;
    return s;
}

bool index_build(struct policy *p) {
    struct index *ix = &p->index;
    size_t size = 16;
    while (size < p->nrules * 2)
        size *= 2;
    ix->slots = arena_alloc(&p->arena, size * sizeof *ix->slots);
    if (!ix->slots)
        return false;
    ix->mask = size - 1;
    for (size_t i = 0; i < p->nrules; i++)
        slot_for(ix, &p->rules[i])->n++;
    for (size_t i = 0; i < p->nrules; i++) {
        struct index_slot *s = slot_for(ix, &p->rules[i]);
        if (!s->rules) {
            s->rules = arena_alloc(&p->arena, s->n * sizeof *s->rules);
            if (!s->rules)
                return false;
            s->n = 0;
        }
        s->rules[s->n++] = (uint32_t)i;
    }
    return true;
}

size_t index_find(const struct index *ix, struct slice host, bool is_address,
                  const struct index_slot *lists[INDEX_LISTS_MAX]) {
    size_t n = 0;
    const struct index_slot *s = slot_of(ix, host, false);
    if (s->n)
        lists[n++] = s;
    struct slice head, rest = host;
    while (!is_address && slice_cut(rest, '.', &head, &rest) && n < INDEX_LISTS_MAX - 1) {
        s = slot_of(ix, rest, true);
        if (s->n)
            lists[n++] = s;
    }
    if (ix->any.n)
        lists[n++] = &ix->any;
    return n;
}

bool policy_tunnels(const struct policy *p) {
    return p->tunnels;
}

struct policy_about policy_about(const struct policy *p, const struct facts *f) {
    struct policy_about about = {false};
    const struct index_slot *lists[INDEX_LISTS_MAX];
    size_t n = index_find(&p->index, f->host, f->host_is_address, lists);
    for (size_t l = 0; l < n; l++)
        for (uint32_t k = 0; k < lists[l]->n; k++) {
            const struct rule *r = &p->rules[lists[l]->rules[k]];
            const struct target *t = &r->target;
            if (r->deny || t->scheme != f->scheme || (!t->any_port && t->port != f->port) ||
                (f->host_is_address && t->host_kind != RULE_HOST_EXACT))
                continue;
            about.tunnels |= r->verb == TREE_TUNNEL;
            about.reads |= r->verb != TREE_TUNNEL;
        }
    return about;
}
