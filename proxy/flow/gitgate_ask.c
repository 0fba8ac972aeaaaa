/*
 * What the pack of a push leaves open, the server is asked for: the commits between where the pack's history ends and the
 * refs' old ids. Were a ref's old id an ancestor, it would be named by one of them.
 *
 * All refs are asked about at once, naming all old ids as what need not be sent, nor what is behind it. That is enough
 * unless the way from one ref to its old id leads by the old id of another one (branches upon branches, or many of them at
 * several places of one line). For those left, the old id of one is named alone: it decides about that ref, and about all
 * that lie above, which is about half of them each time.
 */
#include "proxy/flow/gitask.h"
#include "proxy/flow/gitgate_state.h"
#include "proxy/flow/xchg.h"

#define ASK_PURPOSE   "to prove a fast-forward"
#define ASK_BASE_MAX  65536 /* bytes of what a commit may be a delta of */
#define ASK_BASES_MAX 4096
#define ASK_REFS_MAX  1000 /* that are asked about: each has its way to be found */
#define ASK_ALL       SIZE_MAX

static void ask_done(void *arg);

/* Proves what can be proved by what is known. Is there a ref left whose proof is open, and none that is forced? */
static bool ask_left(struct gitgate *gate) {
    bool open = gitgate_prove(gate, true, "server") > 0;
    return open && !gitgate_forced(gate);
}

/* The new ids of all that is open, and the old ids that the server need not go beyond: all of them, or that of the ref
 * `gate->asking`. */
static int ask_ends(struct gitgate *gate, struct git_ids *tips, struct git_ids *haves) {
    uint8_t id[GIT_ID_MAX];
    for (size_t i = 0; i < gate->nrefs; i++) {
        const struct facts_ref *ref = &gate->refs[i];
        if (!gate->wants[i] || !ref->unproved)
            continue;
        if (!git_id_from_hex(ref->new, tips->id_size, id) || git_ids_add(tips, id) == GIT_IDS_NONE)
            return ERR_NOMEM;
        const struct git_object *tip = git_objects_find(gitproof_objects(gate->proof), id);
        if (tip && tip->type != GIT_TYPE_COMMIT)
            return ERR_UNSUPPORTED; /* fast-forwards are from commit to commit */
        if ((gate->asking == ASK_ALL || gate->asking == i) &&
            (!git_id_from_hex(ref->old, haves->id_size, id) || git_ids_add(haves, id) == GIT_IDS_NONE))
            return ERR_NOMEM;
    }
    return 0;
}

/* What is missing for all that is open: where what is known of its history ends. */
static int ask_ids(struct gitgate *gate, struct git_ids *wants, struct git_ids *haves) {
    const struct git_objects *objects = gitproof_objects(gate->proof);
    const struct git_objects *beyond = gitproof_beyond(gate->proof);
    struct git_ids tips, edge;
    git_ids_init_in(&tips, objects->id_size, objects->memory);
    git_ids_init_in(&edge, objects->id_size, objects->memory);
    int r = beyond ? ask_ends(gate, &tips, haves) : ERR_NOMEM;
    if (r == 0)
        r = git_objects_missing(objects, &tips, &edge);
    if (r == 0)
        r = git_objects_missing(beyond, &edge, wants);
    git_ids_release(&tips);
    git_ids_release(&edge);
    return r;
}

/* The one ref whose old id is to be named alone: whichever has the least, which says nothing of where it lies. */
static size_t ask_choose(const struct gitgate *gate) {
    size_t found = ASK_ALL;
    for (size_t i = 0; i < gate->nrefs; i++)
        if (gate->wants[i] && gate->refs[i].unproved &&
            (found == ASK_ALL || slice_cmp(gate->refs[i].old, gate->refs[found].old) < 0))
            found = i;
    return found;
}

static size_t ask_open(const struct gitgate *gate) {
    size_t n = 0;
    for (size_t i = 0; i < gate->nrefs; i++)
        n += gate->wants[i] && gate->refs[i].unproved;
    return n;
}

/* Asks about what is open. False: nothing is, or it can't be asked about. */
static bool ask_on(struct xchg *x) {
    struct gitgate *gate = x->gate;
    const struct git_objects *objects = gitproof_objects(gate->proof);
    struct git_ids wants, haves;
    size_t open = ask_left(gate) ? ask_open(gate) : 0;
    if (open > ASK_REFS_MAX)
        gitask_give_up(gate->ask, "too many refs would have to be asked about: push fewer at once");
    if (open == 0 || open > ASK_REFS_MAX)
        return false;
    gate->asking = gate->asked_all || open == 1 ? ask_choose(gate) : ASK_ALL;
    gate->asked_all = true;
    git_ids_init_in(&wants, objects->id_size, objects->memory);
    git_ids_init_in(&haves, objects->id_size, objects->memory);
    int r = ask_ids(gate, &wants, &haves);
    if (r == 0 && wants.n) {
        struct gitask_wish wish = {.wants = &wants,
                                   .haves = &haves,
                                   .filter = GITASK_COMMITS,
                                   .purpose = ASK_PURPOSE,
                                   .into = gitproof_beyond(gate->proof)};
        r = gitask_fetch(gate->ask, &wish, ask_done, x);
    } else if (r == 0) {
        r = ERR_NOTFOUND;
    }
    git_ids_release(&wants);
    git_ids_release(&haves);
    return r == 0;
}

static void ask_bases_done(void *arg) {
    struct xchg *x = arg;
    x->gate->asked_all = false;
    if (!gitask_failed(x->gate->ask) && ask_on(x))
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
    size_t i = gate->asking;
    if (gitask_refused(gate->ask)) {
        if (ask_bases(x))
            return;
    } else if (!gitask_failed(gate->ask) && gitproof_whole(gate->proof)) {
        if (i != ASK_ALL && gitgate_prove(gate, true, "server") && gate->refs[i].unproved) {
            gate->refs[i].unproved =
                false; /* all that leads to it was asked for, and the old id is not there */
            gate->record_refs[i].proof = SLICE("server");
        } else if (ask_on(x)) {
            return;
        }
    } else {
        (void)ask_left(gate); /* what came before it failed may be enough */
    }
    gitgate_conclude(x);
}

bool gitgate_ask(struct xchg *x) {
    struct gitgate *gate = x->gate;
    if (!gitproof_whole(gate->proof) || gitgate_forced(gate))
        return false; /* one that is forced has all refused */
    gate->ask = gitask_new(x, gate->proof);
    if (!gate->ask || !ask_on(x))
        return false;
    gitgate_enter(x, GATE_ASK);
    return true;
}
