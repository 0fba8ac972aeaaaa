/*
 * What the halves of an errand share (errand.h): errand.c has it all but what HTTP/2 does in another way than HTTP/1.1, which is
 * errand_http2.c's. Nobody else includes this.
 */
#ifndef PROXY_FLOW_ERRAND_PARTS_H
#define PROXY_FLOW_ERRAND_PARTS_H

#include <event2/event_struct.h>

#include "proxy/codec/http1_body.h"
#include "proxy/codec/http1_write.h"
#include "proxy/flow/errand.h"
#include "proxy/flow/state.h"
#include "proxy/flow/xchg.h"
#include "vault/client.h"

/*
 *     ERRAND_CREDENTIAL --> ERRAND_CONNECT <--> ERRAND_SENT --> ERRAND_HEAD --> ERRAND_BODY
 *     any --> ERRAND_OVER
 *
 * errand_enter() in errand.c is the one writer.
 */
enum errand_state {
    ERRAND_CREDENTIAL, /* it begins, and the keeper is asked if the verdict lends a credential */
    ERRAND_CONNECT,    /* `attempt` is under way */
    ERRAND_SENT, /* on `link_up`; nothing but interim heads (HTTP/2) has come: it may be sent again (`retried`) */
    ERRAND_HEAD, /* one has, and the request is not sent again */
    ERRAND_BODY, /* the owner was told the head */
    ERRAND_OVER, /* nothing comes in; it goes with the last callback on the stack */
    ERRAND_STATES
};

struct errand {
    struct xchg *x;
    enum errand_state state;
    struct errand *next, **link; /* of the exchange's */
    const struct errand_events *events;
    void *arg;
    const char *purpose;
    uint64_t answer_max;
    unsigned ms;
    struct event timer;
    bool busy; /* a callback that may cancel it is on the stack */

    struct buf text; /* what `req` and `body` point into; it has its final size from the start */
    struct slice body;
    struct slice unsent; /* of it, by HTTP/2 */
    struct vault_request ask;
    struct secret inject;
    struct slice inject_name; /* into inject_text */
    char inject_text[128];

    struct upstream_attempt *attempt;
    struct upstream_link *link_up;
    bool retried, recorded;
    unsigned interims;
    uint64_t received;
    struct buf in; /* the answer's head, and what came with it */
    struct buf gathered;
    struct http1_scan scan;
    struct http1_body decoder; /* of its body, HTTP/1's … */
    struct http_length length; /* … and HTTP/2's */

    struct http1_request req; /* last, as they are large */
    struct http1_response resp;
};

/* Each of these may end the errand: false, or nothing, and then it is not there any more. */

void errand_fail(struct errand *e, int err, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The first byte of an answer has come: the request is not sent again. */
void errand_begun(struct errand *e);
/* `resp` has been parsed; an interim head is left at that, the final one is told. */
bool errand_head(struct errand *e);
/* A piece of the body. */
bool errand_piece(struct errand *e, struct slice data);
/* The answer is whole. `clean`: the connection is good for another request. */
void errand_done(struct errand *e, bool clean);
/* Once more, on a new connection; false: not again. */
bool errand_again(struct errand *e);

/* ---- errand_http2.c ---- */

/* Sends it, on the link that it has, with `opt` as for http1_write_request. 0 or an error. */
int errand2_send(struct errand *e, const struct http1_write *opt);

#endif
