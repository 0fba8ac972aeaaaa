/*
 * The answer to a push, read as it streams by: what the server says became of each command (report-status and
 * report-status-v2, gitprotocol-pack(5)), plain or on band 1 of the side band.
 *
 * What is said is passed on line by line and not kept, so that memory is bounded (two packets), however long the answer.
 * What can't be read ends the reading; it never ends more than that, since the answer goes to the client as it is.
 */
#ifndef PROXY_CODEC_GIT_STATUS_H
#define PROXY_CODEC_GIT_STATUS_H

#include "proxy/codec/git.h"

#define GIT_STATUS_TEXT_MAX 512 /* bytes of a reason that are passed on */

/* About one command. A server's proc-receive hook may report several times for one: it turned a push to
 * refs/for/main into more than one update, each with its own name and ids. Slices are good during the call. */
struct git_status_ref {
    struct slice ref; /* as the push named it */
    bool ok;
    struct slice reason; /* if not: the server's words, cut at GIT_STATUS_TEXT_MAX, may hold any byte */
    struct slice to;     /* the ref that was updated instead; empty: this very one */
    struct slice old_id, new_id; /* … from where and to where; each empty where the push's own are meant */
    bool forced;                 /* the server says that this was no fast-forward */
};

typedef void git_status_fn(void *arg, const struct git_status_ref *ref);

enum git_status_end {
    GIT_STATUS_OPEN,  /* more may come */
    GIT_STATUS_WHOLE, /* the report's end was read */
    GIT_STATUS_FATAL, /* the server gave up instead: `text` says why */
    GIT_STATUS_BAD,   /* what came is no report */
};

struct git_status {
    enum git_status_end end;
    /* the pack could not be unpacked, for this reason ("ok" leaves it empty); or that of FATAL */
    struct buf text;

    /* private */
    bool side_band;
    git_status_fn *take;
    void *arg;
    struct pkt_reader outer, inner;
    bool unpack_seen, open; /* `said` waits for option lines */
    struct git_status_ref said;
    struct buf words; /* what `said` points at */
};

/* side_band: the push asked for it (git_caps). */
void git_status_init(struct git_status *s, bool side_band, git_status_fn *take, void *arg);
void git_status_release(struct git_status *s);

/* A cut of the answer's body, decoded. Does nothing once `end` is set. */
void git_status_feed(struct git_status *s, struct slice in);

#endif
