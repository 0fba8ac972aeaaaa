#include "proxy/record/notices.h"

#include "base/hash.h"

/* What the operator can mend; that a server is down or slow is not his doing. */
static bool mendable(struct slice code) {
    static const struct slice codes[] = {
        SLICE("upstream-certificate"), SLICE("upstream-name-unknown"), SLICE("upstream-name-failed"),
        SLICE("upstream-address"),     SLICE("upstream-proxy"),
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (slice_eq(code, codes[i]))
            return true;
    return false;
}

enum notice notices_take(struct notices *n, const struct record *r) {
    if (r->event != RECORD_OUTCOME || !mendable(r->code))
        return NOTICE_NONE;
    /* the reason names the host; that a sandbox finds two with one hash hides a line of its own alone */
    uint64_t h = hash_bytes(hash_bytes(HASH_SEED, r->code), r->reason);
    for (size_t i = 0; i < n->n; i++)
        if (n->told[i] == h)
            return NOTICE_NONE;
    if (n->n < NOTICES_MAX) {
        n->told[n->n++] = h;
        return NOTICE_TELL;
    }
    if (n->full)
        return NOTICE_NONE;
    n->full = true;
    return NOTICE_MORE;
}
