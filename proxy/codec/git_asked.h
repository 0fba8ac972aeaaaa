/*
 * What a fetch asks for: the body of a POST to git-upload-pack, in protocol versions 0, 1 and 2 (gitprotocol-pack,
 * gitprotocol-v2), whole and decoded. And the little of its answer that later requests are judged by.
 *
 * The two forms can't be taken for each other: version 2 begins with a command or a capability, the older ones with
 * what is wanted, and a server of either kind ends at what is the other's. Of version 2 every command and argument must
 * be a known one.
 */
#ifndef PROXY_CODEC_GIT_ASKED_H
#define PROXY_CODEC_GIT_ASKED_H

#include "base/buf.h"
#include "proxy/codec/pktline.h"

enum git_asked_command {
    GIT_ASKED_PROBE,   /* "0000": git looks whether it may in */
    GIT_ASKED_OLD,     /* versions 0 and 1 */
    GIT_ASKED_LS_REFS, /* version 2 from here on */
    GIT_ASKED_FETCH,
    GIT_ASKED_BUNDLE_URI,
    GIT_ASKED_OBJECT_INFO,
};

/* What a line names. */
enum git_asked_item {
    GIT_ASKED_WANT,     /* an object by its id */
    GIT_ASKED_WANT_REF, /* a ref by its full name */
    GIT_ASKED_SHALLOW,  /* an object at which the client's history ends */
    GIT_ASKED_EXCLUDE,  /* deepen-not: a ref whose history is left out */
    GIT_ASKED_SIZE_OF,  /* object-info: an object by its id */
};

struct git_asked {
    enum git_asked_command command;
    bool packfile_uris;  /* packs from elsewhere would be taken */
    bool filter;         /* objects are to be left out */
    bool server_options; /* there are words for the server that only the server understands */
    bool deepens;        /* borders of history move: the answer names the new ones */
    bool deepens_freely; /* … from where the client says that its history ends (unshallow, deepen-relative) */
    struct errmsg error; /* why a call failed */

    size_t digits; /* of the ids that were named; 0: none was */

    /* private */
    size_t wants;
};

/*
 * Reads the body. `item` (may be NULL) is called for each line that names something, and ends the reading by another
 * value than 0, which is returned. Into `clean` (may be NULL; its limit must be the body's length at least) goes the
 * same request without what asks for more than it names (include-tag). `strict`: the older form is read to the end too;
 * else it is only recognised.
 * 0; ERR_PARSE: malformed, or not known; ERR_NOMEM. f->error says why.
 */
int git_asked_read(struct git_asked *f, struct slice body, bool strict,
                   int (*item)(void *arg, enum git_asked_item item, struct slice value), void *arg,
                   struct buf *clean) MUST_CHECK;

/*
 * The beginning of the answer to a fetch that deepens: which borders it names. Fed with the answer as it goes by, until
 * `done`. What can't be read ends it without a word: the answer is not judged.
 */
struct git_borders {
    bool done;

    /* private */
    bool old, inside;
    struct pkt_reader reader;
};

void git_borders_init(struct git_borders *b, enum git_asked_command command);
void git_borders_release(struct git_borders *b);
void git_borders_feed(struct git_borders *b, struct slice in, void (*border)(void *arg, struct slice id),
                      void *arg);

#endif
