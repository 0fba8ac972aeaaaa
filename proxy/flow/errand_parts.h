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

struct errand {
    struct xchg *x;
    struct errand *next, **link; /* of the exchange's */
    const struct errand_events *events;
    void *arg;
    const char *purpose;
    uint64_t answer_max;
    unsigned ms;
    struct event timer;
    bool busy; /* a callback that may cancel it is on the stack */
    bool gone; /* … and has */

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
    bool any; /* a byte of an answer has come */
    bool head_done;
    unsigned interims;
    uint64_t received;
    struct buf in; /* the answer's head, and what came with it */
    struct buf gathered;
    struct http1_scan scan;
    struct http1_body decoder;

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
