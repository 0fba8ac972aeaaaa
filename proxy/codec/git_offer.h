/*
 * What a server of git offers, rewritten to what may be seen: the answer to the discovery of a fetch, in protocol
 * versions 0, 1 and 2, the answer to version 2's ls-refs, and that to the discovery of a push, which shows refs and their
 * ids as well (gitprotocol-v2, gitprotocol-pack). A push's own capabilities all pass.
 *
 * Of version 2's capabilities those pass that are known, and bundle-uri and packfile-uris only where the caller says
 * so. Where refs are limited, every ref is asked about, and a line passes
 * - of a ref, and of what a tag leads to ("^{}"), if the ref is permitted;
 * - of HEAD and other symbolic refs, if what they stand for is known and permitted too. What HEAD stands for is part of
 *   the capabilities in version 0 (symref=HEAD:…) and of the line in version 2 (symref-target:…).
 * Names that are no refs are hidden. In version 0 and 1 the capabilities go with the first ref that is shown, and those
 * that would bring more (include-tag, allow-…-in-want) are taken off. A filter, which leaves objects out that are asked
 * for by their ids later, is offered only where any object may be asked for; without it a clone is whole.
 *
 * Where they are not limited, all refs pass as they came, and what can't be read of them is only not told.
 *
 * Streaming: any cut of the answer may be fed, no more than one packet is kept, and what comes out is whole packets.
 */
#ifndef PROXY_CODEC_GIT_OFFER_H
#define PROXY_CODEC_GIT_OFFER_H

#include "base/buf.h"
#include "proxy/codec/pktline.h"

enum git_offer_kind {
    GIT_OFFER_DISCOVERY,
    GIT_OFFER_LS_REFS,
    GIT_OFFER_PUSH, /* the discovery of a push, always limited: versions 0 and 1 */
};

struct git_offer_rules {
    bool limited;       /* refs are asked about; else all pass */
    bool any_object;    /* objects may be asked for by any id */
    bool bundle_uri;    /* may be offered */
    bool packfile_uris; /* … */
    /* May this ref be seen? Only for names that git_ref_valid takes. */
    bool (*permits)(void *arg, struct slice ref);
    /* This id, in hexadecimal, was shown: of a ref, or of what a tag leads to; of HEAD and the like with the ref that it
     * stands for, if that is known. Without a ref: as the border of a shallow repository. */
    void (*shown)(void *arg, struct slice id, struct slice ref);
    /* HEAD, or the like, was shown to stand for this ref. */
    void (*stands)(void *arg, struct slice name, struct slice ref);
    void *arg;
};

struct git_offer {
    struct errmsg error; /* why a call failed */
    unsigned version;    /* of the protocol, once known; 0 before */

    /* private */
    enum git_offer_kind kind;
    struct git_offer_rules rules;
    struct pkt_reader reader;
    int state;
    struct buf caps; /* version 0: what the server said behind its first ref */
    struct buf last; /* the ref before, for its "^{}" */
    bool last_shown, caps_due;
    size_t digits; /* of an id */
};

void git_offer_init(struct git_offer *a, enum git_offer_kind kind, const struct git_offer_rules *rules);
void git_offer_release(struct git_offer *a);

/* Takes a cut of the answer and appends to `out` what the sandbox is to get. 0; ERR_PARSE: that is no advertisement,
 * ERR_LIMIT or ERR_NOMEM: `out` is full; a->error says why, and what was appended so far is whole packets. */
int git_offer_feed(struct git_offer *a, struct slice in, struct buf *out) MUST_CHECK;

/* The answer has ended: 0, or ERR_PARSE if it was not complete. */
int git_offer_end(struct git_offer *a) MUST_CHECK;

#endif
