#include "proxy/flow/gitproof.h"

#include <stdlib.h>

struct gitproof {
    struct pack pack;
    size_t *used;   /* of the worker */
    size_t counted; /* this push's part of it */
    bool whole, failed;
    struct errmsg why;
};

struct gitproof *gitproof_new(int id_digits, size_t *used) {
    struct pack_limits limits;
    struct gitproof *proof = calloc(1, sizeof *proof);
    if (!proof)
        return NULL;
    pack_limits_default(&limits);
    limits.memory = GITPROOF_MEMORY;
    proof->used = used;
    if (pack_init(&proof->pack, (unsigned)id_digits / 2, &limits)) {
        free(proof);
        return NULL;
    }
    return proof;
}

void gitproof_free(struct gitproof *proof) {
    if (!proof)
        return;
    *proof->used -= proof->counted;
    pack_release(&proof->pack);
    free(proof);
}

/* What was kept so far proves nothing any more. */
void gitproof_fail(struct gitproof *proof, const char *why) {
    if (proof->failed)
        return;
    proof->failed = true;
    errmsg_set(&proof->why, ERR_PARSE, "%s", why);
    *proof->used -= proof->counted;
    proof->counted = 0;
    pack_release(&proof->pack);
}

void gitproof_feed(struct gitproof *proof, struct slice plain) {
    size_t took = 0;
    if (proof->failed || plain.n == 0)
        return;
    int r = proof->whole ? 0 : pack_feed(&proof->pack, plain, &took);
    proof->whole = r == 0;
    *proof->used += proof->pack.kept - proof->counted;
    proof->counted = proof->pack.kept;
    if (r && r != ERR_INCOMPLETE) {
        struct errmsg why = proof->pack.error;
        gitproof_fail(proof, why.text);
    } else if (r == 0 && took < plain.n) {
        gitproof_fail(proof, "there are bytes behind it");
    } else if (*proof->used > GITPROOF_WORKER_MEMORY) {
        gitproof_fail(proof, "too much is being looked through at once");
    }
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

enum pack_answer gitproof_ask(const struct gitproof *proof, struct slice old, struct slice young) {
    enum pack_answer answer;
    if (!gitproof_whole(proof) || pack_is_ancestor(&proof->pack, old, young, &answer))
        return PACK_UNKNOWN;
    return answer;
}
