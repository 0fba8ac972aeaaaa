/*
 * A push must not hold a secret of the vault's: its pack is looked through for them, and so are the names of its refs and
 * its options, whatever else the verdict hangs on.
 */
#include "proxy/flow/gitgate_state.h"
#include "proxy/flow/state.h"
#include "proxy/flow/xchg.h"

/* The keeper has told. */
static void gate_told(void *arg) {
    struct xchg *x = arg;
    struct gitgate *gate = x->gate;
    if (gate->spot.state != SPOT_CLEAR) {
        gitgate_refuse_secret(x);
    } else if (gate->waits) {
        gate->waits = false;
        gitgate_conclude(x);
    }
}

void gitgate_watch(struct xchg *x) {
    struct gitgate *gate = x->gate;
    if (!x->box->engine->watched)
        return;
    if (spot_begin(&gate->spot, "the name of a ref or an option of the push", x->box, gate_told, x) == 0) {
        for (size_t i = 0; i < gate->nrefs; i++)
            spot_whole(&gate->spot, gate->refs[i].name);
        for (size_t i = 0; i < gate->push.noptions; i++)
            spot_whole(&gate->spot, gate->options[i]);
    }
    gate->watches = gate->push.pack_follows || gate->spot.watch.nhits || gate->spot.state != SPOT_CLEAR;
}

void gitgate_spot(struct xchg *x) {
    if (x->gate->watches)
        spot_ask(&x->gate->spot);
}

bool gitgate_clean(struct xchg *x) {
    struct gitgate *gate = x->gate;
    if (!gate->watches)
        return true;
    enum spot_state state = spot_ask(&gate->spot);
    bool whole = gitgate_whole(gate);
    gate->waits = state == SPOT_OPEN && whole;
    if (!gate->waits && (state != SPOT_CLEAR || !whole))
        gitgate_refuse_secret(x);
    return state == SPOT_CLEAR && whole;
}
