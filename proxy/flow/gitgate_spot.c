/*
 * A push must not hold a secret of the vault's: its pack is looked through for them, whatever else the verdict hangs on.
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
    if (!x->box->engine->watched || !gate->push.pack_follows)
        return;
    gate->watches = true;
    spot_begin(&gate->spot, x->box, gate_told, x);
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
    gate->waits = state == SPOT_OPEN && gitproof_whole(gate->proof);
    if (!gate->waits && (state != SPOT_CLEAR || !gitproof_whole(gate->proof)))
        gitgate_refuse_secret(x);
    return state == SPOT_CLEAR && gitproof_whole(gate->proof);
}
