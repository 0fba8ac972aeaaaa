#include "proxy/flow/putgate.h"

#include <stdlib.h>

#include "proxy/flow/refusal.h"
#include "proxy/flow/spot.h"
#include "proxy/flow/state.h"
#include "proxy/flow/xchg.h"

struct putgate {
    struct spot spot;
    uint64_t came;
    char last;    /* byte of a body whose length was told: it is the end of that */
    size_t nlast; /* 0: there is none (yet) */
    bool ended;   /* all of the body was looked through */
    bool decided; /* it holds no secret */
};

void putgate_free(struct putgate *gate) {
    if (gate)
        spot_end(&gate->spot);
    free(gate);
}

bool putgate_undecided(const struct xchg *x) {
    return x->put && !x->put->decided;
}

/* git-lfs tries eight times more, whatever the status, in half a minute. But of a 422 it makes a success. */
static void put_refuse(struct xchg *x) {
    xchg_cut(x);
    refusal_secret(x, &x->put->spot);
}

/* All of it was looked through, and the upstream waits for its end. */
static void put_conclude(struct xchg *x) {
    struct putgate *gate = x->put;
    gate->decided = true;
    spot_end(&gate->spot);
    xchg_record(x, false, NULL, SLICE_NONE);
    x->server->listen(x, true);
    xchg_send_body(x, slice_make(&gate->last, gate->nlast));
    if (x->state == XCHG_RELAY)
        xchg_send_end(x, NULL, 0);
}

/* The keeper has told. On a second try the end comes once more. */
static void put_told(void *arg) {
    struct xchg *x = arg;
    if (x->put->spot.state != SPOT_CLEAR)
        put_refuse(x);
    else if (x->put->ended && x->state == XCHG_RELAY)
        put_conclude(x);
}

bool putgate_begin(struct xchg *x) {
    if (!x->box->engine->watched || x->req.framing == HTTP_BODY_NONE)
        return true;
    x->put = calloc(1, sizeof *x->put);
    if (!x->put || spot_begin(&x->put->spot, "this object of Git LFS", x->box, put_told, x)) {
        refusal_trouble(x, 503, "no-memory", "out of memory");
        return false;
    }
    if (x->req.expect_continue && !x->body_done) { /* the upstream's word for it would wait, too */
        x->proceed_said = true;
        x->client->proceed(x);
    }
    return x->state != XCHG_OVER;
}

/* True: a secret was found, or it can't be told. */
static bool put_spots(struct xchg *x) {
    enum spot_state state = spot_ask(&x->put->spot);
    if (state != SPOT_FOUND && state != SPOT_FAILED)
        return false;
    put_refuse(x);
    return true;
}

void putgate_feed(struct xchg *x, struct slice bytes) {
    struct putgate *gate = x->put;
    if (bytes.n == 0)
        return;
    gate->came += bytes.n;
    spot_feed(&gate->spot, bytes);
    if (put_spots(x))
        return;
    if (x->req.framing == HTTP_BODY_LENGTH && gate->came == x->req.length) {
        gate->last = bytes.p[--bytes.n];
        gate->nlast = 1;
    }
    xchg_send_body(x, bytes);
}

void putgate_body_end(struct xchg *x) {
    struct putgate *gate = x->put;
    if (!gate->ended)
        spot_feed_end(&gate->spot);
    gate->ended = true;
    if (!put_spots(x) && gate->spot.state == SPOT_CLEAR)
        put_conclude(x);
}
