#include "proxy/flow/gitproof.h"

#include <stdlib.h>

struct gitproof {
    struct git_objects objects;
    struct git_objects beyond;
    bool has_beyond;
    struct pack pack;
    struct git_memory memory;
    bool whole, failed;
    struct errmsg why, reason;
};

struct gitproof *gitproof_new(int id_digits, enum gitproof_keep keep, struct watch *watch,
                              struct git_memory *worker) {
    struct git_objects_limits limits;
    struct pack_limits pack;
    struct gitproof *proof = calloc(1, sizeof *proof);
    if (!proof)
        return NULL;
    git_objects_limits_default(&limits);
    pack_limits_default(&pack);
    proof->memory = (struct git_memory){.limit = worker->limit / 2, .of = worker};
    if (git_objects_init(&proof->objects, (unsigned)id_digits / 2, keep == GITPROOF_TREES, &limits,
                         &proof->memory) ||
        pack_init(&proof->pack, &proof->objects, true, &pack)) {
        gitproof_free(proof);
        return NULL;
    }
    proof->pack.watch = watch;
    proof->pack.nothing_kept = keep == GITPROOF_NOTHING;
    return proof;
}

static void gitproof_drop(struct gitproof *proof) {
    pack_release(&proof->pack);
    git_objects_release(&proof->objects);
    git_objects_release(&proof->beyond);
    proof->has_beyond = false;
}

void gitproof_free(struct gitproof *proof) {
    if (!proof)
        return;
    gitproof_drop(proof);
    free(proof);
}

/* What was kept so far proves nothing any more. */
void gitproof_fail(struct gitproof *proof, const char *why) {
    if (proof->failed)
        return;
    proof->failed = true;
    errmsg_set(&proof->why, ERR_PARSE, "%s", why);
    gitproof_drop(proof);
}

const char *gitproof_reason(struct gitproof *proof, const char *why) {
    if (proof->memory.full == NULL)
        return why;
    if (proof->memory.full == &proof->memory)
        errmsg_set(
            &proof->reason, ERR_LIMIT,
            "this push needs more than %zu MiB of memory to be looked through; the operator may permit more "
            "(exeat run --push-memory)",
            proof->memory.limit >> 20);
    else
        errmsg_set(&proof->reason, ERR_LIMIT, "%s", GITPROOF_BUSY);
    return proof->reason.text;
}

struct git_objects *gitproof_objects(struct gitproof *proof) {
    return &proof->objects;
}

struct git_objects *gitproof_beyond(struct gitproof *proof) {
    struct git_objects_limits limits;
    if (proof->has_beyond)
        return &proof->beyond;
    git_objects_limits_default(&limits);
    if (git_objects_init(&proof->beyond, proof->objects.id_size, false, &limits, &proof->memory))
        return NULL;
    proof->has_beyond = true;
    return &proof->beyond;
}

void gitproof_feed(struct gitproof *proof, struct slice plain) {
    size_t took = 0;
    if (proof->failed || plain.n == 0)
        return;
    int r = proof->whole ? 0 : pack_feed(&proof->pack, plain, &took);
    proof->whole = r == 0;
    if (r && r != ERR_INCOMPLETE) {
        struct errmsg why = proof->pack.error;
        gitproof_fail(proof, gitproof_reason(proof, why.text));
    } else if (r == 0 && took < plain.n) {
        gitproof_fail(proof, "there are bytes behind it");
    }
}

uint64_t gitproof_size(const struct gitproof *proof) {
    return proof->pack.consumed;
}

uint64_t gitproof_largest(const struct gitproof *proof) {
    uint64_t waiting = proof->whole && !proof->failed ? git_objects_largest_waiting(&proof->objects) : 0;
    return waiting > proof->pack.largest ? waiting : proof->pack.largest;
}

bool gitproof_at_end(const struct gitproof *proof) {
    return proof->whole || pack_at_trailer(&proof->pack);
}

bool gitproof_whole(const struct gitproof *proof) {
    return proof->whole && !proof->failed;
}

const char *gitproof_failed(const struct gitproof *proof) {
    return proof->failed ? proof->why.text : NULL;
}

void gitproof_ask(const struct gitproof *proof, struct git_update *updates, size_t n) {
    if (gitproof_whole(proof))
        (void)git_ancestry(&proof->objects, proof->has_beyond ? &proof->beyond : NULL, updates, n);
    else
        for (size_t i = 0; i < n; i++)
            updates[i].answer = GIT_UNKNOWN;
}
