/*
 * What the pack of a push leaves open, the server is asked for: ref by ref, the commits between where the pack's history
 * ends and the ref's old id. Were the old id an ancestor, it would be named by one of them.
 */
#include "proxy/flow/gitask.h"
#include "proxy/flow/gitgate_state.h"
#include "proxy/flow/xchg.h"

#define ASK_PURPOSE   "to prove a fast-forward"
#define ASK_BASE_MAX  65536 /* bytes of what a commit may be a delta of */
#define ASK_BASES_MAX 4096

static void ask_done(void *arg);

/* What is missing for the proof of a ref, and what the server need not send for it. */
static int ask_ids(const struct git_objects *objects, const struct facts_ref *ref, struct git_ids *wants,
                   struct git_ids *haves) {
    uint8_t old[GIT_ID_MAX], new[GIT_ID_MAX];
    if (!git_id_from_hex(ref->old, objects->id_size, old) ||
        !git_id_from_hex(ref->new, objects->id_size, new))
        return ERR_USAGE;
    const struct git_object *tip = git_objects_find(objects, new);
    if (tip && tip->type != GIT_TYPE_COMMIT)
        return ERR_UNSUPPORTED; /* fast-forwards are from commit to commit */
    int r = git_objects_missing(objects, new, wants);
    if (r == 0 && git_ids_add(haves, old) == GIT_IDS_NONE)
        r = ERR_NOMEM;
    return r;
}

/* Asks about the ref `gate->asking`. False: it can't be asked about. */
static bool ask_ref(struct xchg *x) {
    struct gitgate *gate = x->gate;
    const struct git_objects *objects = gitproof_objects(gate->proof);
    struct git_ids wants, haves;
    git_ids_init_in(&wants, objects->id_size, objects->memory);
    git_ids_init_in(&haves, objects->id_size, objects->memory);
    int r = ask_ids(objects, &gate->refs[gate->asking], &wants, &haves);
    if (r == 0 && wants.n) {
        struct gitask_wish wish = {.wants = &wants,
                                   .haves = &haves,
                                   .filter = GITASK_COMMITS,
                                   .purpose = ASK_PURPOSE,
                                   .into = gitproof_beyond(gate->proof)};
        r = !wish.into ? ERR_NOMEM : gitask_fetch(gate->ask, &wish, ask_done, x);
    } else if (r == 0) {
        r = ERR_NOTFOUND;
    }
    git_ids_release(&wants);
    git_ids_release(&haves);
    return r == 0;
}

/* Asks about the next ref from `i` on whose proof is open. False: there is none, or it can't be asked about. */
static bool ask_from(struct xchg *x, size_t i) {
    struct gitgate *gate = x->gate;
    for (; i < gate->nrefs; i++) {
        /* what came for another ref may have been enough */
        if (!gate->wants[i] || !gate->refs[i].unproved || gitgate_prove_ref(gate, i, "server"))
            continue;
        gate->asking = i;
        return ask_ref(x);
    }
    return false;
}

static void ask_bases_done(void *arg) {
    struct xchg *x = arg;
    if (!gitask_failed(x->gate->ask) && ask_from(x, x->gate->asking))
        return;
    gitgate_conclude(x);
}

/* The server knows none of what was wanted: a commit of the push may be there as a delta of one that the server has.
 * False: there is no such delta, or it can't be asked for. */
static bool ask_bases(struct xchg *x) {
    struct gitgate *gate = x->gate;
    const struct git_objects *objects = gitproof_objects(gate->proof);
    struct git_ids wants;
    if (gate->asked_bases)
        return false;
    gate->asked_bases = true;
    git_ids_init_in(&wants, objects->id_size, objects->memory);
    int r = git_objects_bases(objects, ASK_BASE_MAX, &wants);
    if (r == 0 && wants.n && wants.n <= ASK_BASES_MAX) {
        struct gitask_wish wish = {.wants = &wants,
                                   .alone = true,
                                   .filter = GITASK_COMMITS,
                                   .purpose = ASK_PURPOSE,
                                   .into = gitproof_objects(gate->proof)};
        r = gitask_fetch(gate->ask, &wish, ask_bases_done, x);
    } else {
        r = ERR_NOTFOUND;
    }
    git_ids_release(&wants);
    return r == 0;
}

static void ask_done(void *arg) {
    struct xchg *x = arg;
    struct gitgate *gate = x->gate;
    struct facts_ref *ref = &gate->refs[gate->asking];
    if (gitgate_prove_ref(gate, gate->asking, "server")) {
        if (ask_from(x, gate->asking + 1))
            return;
    } else if (gitask_refused(gate->ask)) {
        if (ask_bases(x))
            return;
    } else if (!gitask_failed(gate->ask)) {
        ref->unproved = false; /* all that leads to it was asked for, and the old id is not there */
        gate->record_refs[gate->asking].proof = SLICE("server");
    }
    gitgate_conclude(x);
}

bool gitgate_ask(struct xchg *x) {
    struct gitgate *gate = x->gate;
    if (!gitproof_whole(gate->proof))
        return false;
    for (size_t i = 0; i < gate->nrefs; i++)
        if (gate->wants[i] && gate->refs[i].op == FACTS_FORCE && !gate->refs[i].unproved)
            return false; /* the pack shows that one of them is forced: all are refused */
    gate->ask = gitask_new(x, gate->proof);
    if (!gate->ask || !ask_from(x, 0))
        return false;
    gate->phase = GATE_ASK;
    return true;
}
