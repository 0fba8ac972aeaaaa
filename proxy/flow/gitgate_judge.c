/*
 * What a push wants, as facts for the policy: by its command list, then by what its pack proves.
 */
#include <stdlib.h>

#include "proxy/flow/gitgate_state.h"
#include "proxy/flow/refusal.h"
#include "proxy/flow/state.h"
#include "proxy/flow/xchg.h"

static enum facts_op gate_op(enum git_op op) {
    switch (op) {
    case GIT_CREATE: return FACTS_CREATE;
    case GIT_DELETE: return FACTS_DELETE;
    case GIT_UPDATE: break;
    }
    return FACTS_FORCE;
}

static int gate_collect(struct gitgate *gate) {
    size_t n = gate->push.ncommands;
    if (n == 0)
        return 0;
    gate->refs = calloc(n, sizeof *gate->refs);
    gate->record_refs = calloc(n, sizeof *gate->record_refs);
    gate->wants = calloc(n, sizeof *gate->wants);
    if (!gate->refs || !gate->record_refs || !gate->wants)
        return ERR_NOMEM;
    for (size_t i = 0; i < n; i++) {
        struct git_command c = git_push_command(&gate->push, i);
        gate->refs[i] = (struct facts_ref){
            .name = c.ref,
            .op = gate_op(c.op),
            .unproved = c.op == GIT_UPDATE,
            .old = c.old_id,
            .new = c.new_id,
        };
        gate->record_refs[i] = (struct record_ref){
            .ref = c.ref,
            .old = c.old_id,
            .new = c.new_id,
            .op = slice_str(facts_op_name(gate->refs[i].op)),
            .proof = c.op == GIT_UPDATE ? SLICE("none") : SLICE_NONE,
        };
    }
    gate->nrefs = n;
    return 0;
}

static int gate_collect_options(struct gitgate *gate) {
    size_t n = gate->push.noptions;
    gate->options = n ? calloc(n, sizeof *gate->options) : NULL;
    if (n && !gate->options)
        return ERR_NOMEM;
    for (size_t i = 0; i < n; i++)
        gate->options[i] = git_push_option(&gate->push, i);
    return record_put_options(&gate->record_options, gate->options, n);
}

static bool gate_allows(struct xchg *x, size_t i) {
    struct verdict v;
    policy_judge_ref(x->box->policy, &x->facts, i, &v);
    return v.action == VERDICT_ALLOW;
}

/* What has to be proved: updates that are permitted as a fast-forward and not otherwise. They are judged as such, for
 * the moment, to see whether a proof can help at all. */
static void gate_assume(struct xchg *x) {
    struct gitgate *gate = x->gate;
    for (size_t i = 0; i < gate->nrefs; i++) {
        struct facts_ref *ref = &gate->refs[i];
        if (!ref->unproved || gate_allows(x, i))
            continue;
        ref->op = FACTS_UPDATE;
        ref->unproved = false;
        gate->wants[i] = gate_allows(x, i);
        if (gate->wants[i]) {
            gate->nwants++;
        } else {
            ref->op = FACTS_FORCE;
            ref->unproved = true;
        }
    }
}

int gitgate_judge(struct xchg *x) {
    struct gitgate *gate = x->gate;
    if (gate_collect(gate) || gate_collect_options(gate)) {
        gitgate_unreadable(x, "no-memory", "out of memory");
        return ERR_DENIED;
    }
    x->facts.refs = gate->refs;
    x->facts.nrefs = gate->nrefs;
    x->facts.options = gate->options;
    x->facts.noptions = gate->push.noptions;
    gate->needs = policy_needs_pack(x->box->policy, &x->facts);
    gate->most_size = policy_most(x->box->policy, &x->facts, false);
    gate->most_blob = policy_most(x->box->policy, &x->facts, true);
    x->facts.unread = gate->needs != 0;
    gate_assume(x);
    policy_judge(x->box->policy, &x->facts, &x->verdict);
    if (x->verdict.action != VERDICT_ALLOW) {
        gitgate_refuse(x, SLICE_NONE);
        return ERR_DENIED;
    }
    gitgate_watch(x);
    bool asks = gate->nwants || gate->needs;
    if (!asks && !gate->watches) {
        if (gitgate_limited(x))
            return ERR_DENIED;
        gitgate_enter(x, GATE_PASSED);
        return 0;
    }
    gate->proof = gitproof_new(gate->push.caps.id_digits,
                               !asks                             ? GITPROOF_NOTHING
                               : gate->needs & POLICY_PACK_PATHS ? GITPROOF_TREES
                                                                 : GITPROOF_COMMITS,
                               gate->spot.state == SPOT_CLEAR && gate->watches ? &gate->spot.watch : NULL,
                               &x->box->engine->proof_memory);
    if (!gate->proof) {
        gitgate_unreadable(x, "no-memory", "out of memory");
        return ERR_DENIED;
    }
    gate->gunzip.limit = GATE_GUNZIP_MAX;
    gitgate_enter(x, GATE_PACK);
    return ERR_INCOMPLETE;
}

bool gitgate_whole(const struct gitgate *gate) {
    return !gate->push.pack_follows || gitproof_whole(gate->proof);
}

bool gitgate_exceeds(const struct gitgate *gate) {
    return (gate->most_size && gitproof_size(gate->proof) > gate->most_size) ||
           (gate->most_blob && gitproof_largest(gate->proof) > gate->most_blob);
}

bool gitgate_measure(struct xchg *x) {
    struct gitgate *gate = x->gate;
    bool whole = gitgate_whole(gate), exceeds = gitgate_exceeds(gate);
    x->facts.unread = false;
    x->facts.size = gitproof_size(gate->proof);
    x->facts.blob = gitproof_largest(gate->proof);
    x->facts.size_known = x->facts.blob_known = whole || exceeds;
    x->facts.unknown = whole ? NULL : "its pack was not looked through to the end";
    return exceeds;
}

static void gate_answered(struct gitgate *gate, size_t i, enum git_answer answer, const char *by) {
    struct facts_ref *ref = &gate->refs[i];
    ref->op = answer == GIT_YES ? FACTS_UPDATE : FACTS_FORCE;
    ref->unproved = answer == GIT_UNKNOWN;
    gate->record_refs[i].op = slice_str(facts_op_name(ref->op));
    if (answer != GIT_UNKNOWN)
        gate->record_refs[i].proof = slice_str(by);
}

static bool gate_is_open(const struct gitgate *gate, size_t i, bool again) {
    return gate->wants[i] && (gate->refs[i].unproved || !again);
}

size_t gitgate_prove(struct gitgate *gate, bool again, const char *by) {
    unsigned id_size = gitproof_objects(gate->proof)->id_size;
    struct git_update *updates = calloc(gate->nrefs, sizeof *updates);
    size_t n = 0, failed = 0;
    bool known = updates != NULL;
    for (size_t i = 0; known && i < gate->nrefs; i++) {
        const struct facts_ref *ref = &gate->refs[i];
        if (gate_is_open(gate, i, again)) {
            known = git_id_from_hex(ref->old, id_size, updates[n].old) &&
                    git_id_from_hex(ref->new, id_size, updates[n].young);
            n++;
        }
    }
    if (known)
        gitproof_ask(gate->proof, updates, n);
    for (size_t i = 0, k = 0; i < gate->nrefs; i++) {
        if (!gate_is_open(gate, i, again))
            continue;
        gate_answered(gate, i, known ? updates[k++].answer : GIT_UNKNOWN, by);
        failed += gate->refs[i].op != FACTS_UPDATE;
    }
    free(updates);
    return failed;
}

bool gitgate_proved(const struct gitgate *gate) {
    for (size_t i = 0; i < gate->nrefs; i++)
        if (gate->wants[i] && gate->refs[i].op != FACTS_UPDATE)
            return false;
    return true;
}

bool gitgate_forced(const struct gitgate *gate) {
    for (size_t i = 0; i < gate->nrefs; i++)
        if (gate->wants[i] && gate->refs[i].op == FACTS_FORCE && !gate->refs[i].unproved)
            return true;
    return false;
}
