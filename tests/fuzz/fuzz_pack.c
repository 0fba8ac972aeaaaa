/*
 * Fuzz harness for packs: any cut gives the same end, what is kept stays below its limit, every commit that was kept is
 * found again by its id, and questions about ancestry have an answer. The first byte chooses the hash.
 */
#include <stdlib.h>

#include "proxy/codec/pack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth) {
    if (!truth)
        abort();
}

static int run(struct pack *p, unsigned id_size, struct slice in, size_t piece) {
    struct pack_limits limits;
    pack_limits_default(&limits);
    limits.memory = 1 << 20;
    limits.commit = 1 << 16;
    limits.inflate_free = 64 << 20; /* beyond it the cut may decide when the limit is met */
    must(pack_init(p, id_size, &limits) == 0);
    int r = ERR_INCOMPLETE;
    for (size_t at = 0, used; at < in.n && r == ERR_INCOMPLETE; at += used) {
        struct slice part = slice_sub(in, at, piece);
        r = pack_feed(p, part, &used);
        must(used <= part.n && (r != ERR_INCOMPLETE || used == part.n));
    }
    must(p->kept <= limits.memory);
    must(r == 0 || r == ERR_INCOMPLETE || p->error.text[0]);
    return r;
}

static void check(const struct pack *p, unsigned id_size) {
    char hex[2 * PACK_ID_MAX], first[2 * PACK_ID_MAX];
    for (size_t i = 0; i < p->ncommits && i < 64; i++) {
        const struct pack_commit *c = pack_find(p, p->commits[i].id);
        enum pack_answer answer;
        must(c && c->size == p->commits[i].size);
        for (unsigned k = 0; k < id_size; k++) {
            hex[2 * k] = "0123456789abcdef"[c->id[k] >> 4];
            hex[2 * k + 1] = "0123456789abcdef"[c->id[k] & 15];
        }
        if (i == 0)
            memcpy(first, hex, sizeof hex);
        must(pack_is_ancestor(p, slice_make(hex, 2 * id_size), slice_make(hex, 2 * id_size), &answer) == 0 &&
             answer == PACK_YES);
        int r = pack_is_ancestor(p, slice_make(first, 2 * id_size), slice_make(hex, 2 * id_size), &answer);
        must(r == 0 || r == ERR_PARSE);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct pack whole, bytes;
    if (size == 0)
        return 0;
    unsigned id_size = data[0] & 1 ? 32 : 20;
    struct slice in = slice_make(data + 1, size - 1);
    int r = run(&whole, id_size, in, size), r2 = run(&bytes, id_size, in, 1);
    must((r == 0) == (r2 == 0) && whole.ncommits == bytes.ncommits &&
         whole.objects_seen == bytes.objects_seen);
    check(&whole, id_size);
    pack_release(&whole);
    pack_release(&bytes);
    return 0;
}
