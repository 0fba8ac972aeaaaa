/*
 * Between the files of HTTP/2 towards upstreams; nobody else includes this, but for a test of theirs.
 */
#ifndef PROXY_UPSTREAM_UPSTREAM_HTTP2_PARTS_H
#define PROXY_UPSTREAM_UPSTREAM_HTTP2_PARTS_H

#include "proxy/io/http2_guard.h"
#include "proxy/upstream/upstream_parts.h"

/*
 * A connection.
 *
 *     UP2_NEW --> UP2_OPEN --> UP2_GOING
 *        +-----------------------^
 *     any --> UP2_BROKEN
 *
 * up2_enter() is the one writer. A connection that the pool has forgotten (`pool` is NULL) is at least going.
 */
enum up2_state {
    UP2_NEW, /* requests may be begun, but what its server takes is not known yet: its settings have not come */
    UP2_OPEN, /* … and it is known */
    UP2_GOING, /* no more requests: a GOAWAY, an error, no id left, or the pool has no use for it; those under way go on */
    UP2_BROKEN, /* the io can't be used any more, and the session is not entered; all streams are over */
    UP2_STATES
};

/*
 * One of its streams, as the session has it.
 *
 *     UP2S_UNSENT --> UP2S_OPEN --> UP2S_SENT --> UP2S_RESET --> UP2S_CLOSED
 *                         |             +--------------------------^
 *                         +--> UP2S_RESET, UP2S_CLOSED
 *     any but UP2S_CLOSED --> UP2S_LOST
 *
 * up2_stream_enter() is the one writer. The session knows `id` in OPEN, SENT and RESET, and in no other.
 */
enum up2_stream_state {
    UP2S_UNSENT, /* no request was sent */
    UP2S_OPEN,   /* its head was handed to the session, and what has come of its body */
    UP2S_SENT,   /* END_STREAM is out */
    UP2S_RESET,  /* nobody has the link any more, and the server is told so */
    UP2S_CLOSED, /* both ways have ended well, or nobody was to know how */
    UP2S_LOST,   /* … or not: `why` and `unseen` say how */
    UP2S_STATES
};

/*
 * … and its answer, as it comes and is told.
 *
 *     UP2A_HEAD --> UP2A_BODY --> UP2A_WHOLE --> UP2A_TOLD
 *     any --> UP2A_GONE
 *
 * up2_answer_enter() is the one writer.
 */
enum up2_answer_phase {
    UP2A_HEAD,  /* the final head has not come; interim ones may have */
    UP2A_BODY,  /* it has: the next list is the trailers */
    UP2A_WHOLE, /* END_STREAM has come; what waits is to be told */
    UP2A_TOLD,  /* the owner knows all of it; that the rest of his request is refused may follow */
    UP2A_GONE,  /* he was told of the loss: nothing follows */
    UP2A_PHASES
};

/* What a stream has to tell, once it is listened to. */
struct up2_stream {
    struct up2 *up;
    struct site *site; /* the link's, as long as it is `linked` and up->pool is there */
    LIST_ENTRY(up2_stream) entry;
    bool linked;                     /* somebody has a link on it */
    const struct up2_events *events; /* NULL: nobody is to be told, not yet or not any more */
    void *arg;
    enum up2_stream_state state;
    enum up2_answer_phase phase;
    int32_t id; /* see above */
    struct event timer;
    uint64_t due;   /* monotonic ms, 0: none */
    uint64_t fires; /* … when the timer does, if it is pending */
    struct http2_out out;
    struct http2_list list; /* the head under way or waiting */
    struct http2_list trailers;
    struct buf in;         /* of the answer's body */
    struct io_share share; /* … which counts in the sandbox's sum */
    bool listening;
    bool sensitive;  /* secrets may be in the answer: `in` has its room from the beginning, and is wiped */
    bool head_waits; /* `list` is a head to be told */
    bool head_ended; /* … and the whole answer */
    bool touched;    /* something was told in this turn */
    bool malformed;  /* what came on it: the reset says so */
    const char *why; /* UP2S_LOST */
    bool unseen;     /* … and the server has not acted on it */
};

#define UP2_BROKE_RULES "the upstream broke the rules of HTTP/2"
#define UP2_FLOODS      "the upstream floods its connection"
#define UP2_ENDED       "the upstream ended the connection"

struct up2 {
    struct upstream_pool *pool; /* NULL: retired */
    struct site *site;
    TAILQ_ENTRY(up2) entry; /* in site.http2 */
    LIST_ENTRY(up2) shared; /* in pool.shared, if `listed` */
    bool listed;
    LIST_HEAD(, site) guests; /* other names that it serves */
    struct io *io;
    struct addr peer;
    bool proxied;
    enum up2_state state;
    nghttp2_session *session;
    LIST_HEAD(, up2_stream) streams;
    size_t nstreams;
    unsigned busy; /* inside of the library, or going through the streams */
    bool used;     /* a request was sent on it before */
    bool deaf;     /* the io can't be written to any more; what has come is read */
    /* by clock_coarse_ms: when something came last, or was asked for while nothing was; and when its server was asked whether it
     * is there, 0: never */
    uint64_t heard, pinged;
    bool soon;          /* the next PING may come UP2_PING_SOON_MS after the last */
    unsigned silent_ms; /* upstream_config's */
    unsigned secret;    /* heads with a secret that are not sent yet */
    unsigned sensitive; /* streams that are: all that comes is wiped */
    bool narrow;        /* the window last said is UP2_NARROW */
    unsigned told;      /* settings that its server has not acknowledged yet */
    struct event defer;
    struct http2_guard guard;
    const char *ended; /* a literal: how the server ends it, by its GOAWAY's code, if that is an error */
    char why[160];     /* what the server did wrong, once that is known; "": nothing */
};

/* ---- upstream_http2_stream.c ---- */

void up2_stream_enter(struct up2_stream *s, enum up2_stream_state state);
/* Some of the answer's body waits. 0 or ERR_NOMEM, ERR_LIMIT. */
int up2_stream_keep(struct up2_stream *s, struct slice bytes) MUST_CHECK;
/* Has the request's end gone? */
static inline bool up2_stream_sent(const struct up2_stream *s) {
    return s->state == UP2S_SENT || s->state == UP2S_CLOSED;
}
/* Does the session have it? */
static inline bool up2_stream_runs(const struct up2_stream *s) {
    return s->state == UP2S_OPEN || s->state == UP2S_SENT || s->state == UP2S_RESET;
}
void up2_answer_enter(struct up2_stream *s, enum up2_answer_phase phase);
/* It is UP2S_LOST. */
void up2_stream_lose(struct up2_stream *s, const char *why, bool unseen);
/* All that there is to tell, as long as it is listened to. The caller holds `busy`. */
void up2_stream_tell(struct up2_stream *s);
/* The same, and that there is room, or that its end has gone; and that this was all for now. */
void up2_stream_turn(struct up2_stream *s);
/* Nobody has a link on it, and the session has forgotten it, or goes. */
void up2_stream_free(struct up2_stream *s);

/* ---- upstream_http2.c ---- */

/* The server's settings have come. */
void up2_settle(struct up2 *up);
/* No more requests on it. */
void up2_stop(struct up2 *up);
/* What is to be told or sent can't be now: from the event loop. */
void up2_later(struct up2 *up);
/* Sends what there is to be sent. */
void up2_pump(struct up2 *up);

/* ---- upstream_http2_session.c ---- */

/* The session and its settings. 0 or ERR_NOMEM. */
int up2_session(struct up2 *up) MUST_CHECK;

#endif
