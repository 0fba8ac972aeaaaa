#include "proxy/flow/spot.h"

#include <assert.h>

#include "proxy/codec/git_objects.h"
#include "proxy/flow/gitproof.h"
#include "proxy/flow/state.h"

static void spot_told(struct vault_request *r, struct vault_answer *answer);

static void spot_enter(struct spot *spot, enum spot_state state) {
    static const uint8_t legal[SPOT_STATES] = {
        [SPOT_CLEAR] = 1 << SPOT_OPEN | 1 << SPOT_FAILED,
        [SPOT_OPEN] = 1 << SPOT_CLEAR | 1 << SPOT_FOUND | 1 << SPOT_FAILED,
    };
    assert(legal[spot->state] & 1 << state);
    spot->state = state;
}

int spot_begin(struct spot *spot, const char *what, struct box *box, void (*told)(void *arg), void *arg) {
    *spot = (struct spot){
        .what = what, .box = box, .told = told, .arg = arg, .ask = {.done = spot_told, .arg = spot}};
    int r = watch_init(&spot->watch, box->engine->watched, &box->engine->proof_memory);
    if (r) {
        spot_enter(spot, SPOT_FAILED);
        errmsg_set(&spot->why, r, "%s", r == ERR_LIMIT ? GITPROOF_BUSY : err_text(r));
    }
    return r;
}

void spot_end(struct spot *spot) {
    vault_cancel(&spot->ask);
    watch_release(&spot->watch);
}

enum spot_state spot_ask(struct spot *spot) {
    if (spot->state != SPOT_CLEAR || spot->asked == spot->watch.nhits)
        return spot->state;
    const struct watch_hit *hit = &spot->watch.hits[spot->asked++];
    struct slice digest = slice_make((const char *)hit->digest, sizeof hit->digest);
    int r = vault_ask_spot(spot->box->engine->config.vault, &spot->ask, spot->box->id, hit->mark, digest);
    spot_enter(spot, r ? SPOT_FAILED : SPOT_OPEN);
    if (r)
        errmsg_set(&spot->why, r, "the keeper of credentials can't be asked");
    return spot->state;
}

/* It can't be told, for this reason. */
static void spot_fail(struct spot *spot, const char *why) {
    if (spot->state > SPOT_OPEN)
        return;
    vault_cancel(&spot->ask);
    spot_enter(spot, SPOT_FAILED);
    errmsg_set(&spot->why, ERR_LIMIT, "%s", why);
}

static void spot_watched(struct spot *spot, int err) {
    spot->nwhat = spot->watch.nhits;
    if (err)
        spot_fail(spot, "too much of it looks like a secret");
}

void spot_feed(struct spot *spot, struct slice bytes) {
    spot_watched(spot, watch_feed(&spot->watch, bytes));
}

void spot_feed_end(struct spot *spot) {
    spot_watched(spot, watch_end(&spot->watch));
}

void spot_whole(struct spot *spot, struct slice bytes) {
    spot_watched(spot, watch_whole(&spot->watch, bytes));
}

static void spot_told(struct vault_request *r, struct vault_answer *answer) {
    struct spot *spot = r->arg;
    if (answer->err == 0) {
        spot_enter(spot, SPOT_FOUND);
        spot->form = answer->form;
        snprintf(spot->credential, sizeof spot->credential, "%.*s", SLICE_ARG(answer->credential));
    } else if (answer->err != ERR_NOTFOUND) {
        spot_enter(spot, SPOT_FAILED);
        errmsg_set(&spot->why, answer->err, "%.*s", SLICE_ARG(answer->why));
    } else {
        spot_enter(spot, SPOT_CLEAR);
    }
    engine_reap(spot->box->engine);
    if (spot_ask(spot) != SPOT_OPEN)
        spot->told(spot->arg);
}

/* ---- in words ---- */

bool spot_in_what(const struct spot *spot) {
    return spot->asked <= spot->nwhat;
}

static const struct watch_place *spot_place(const struct spot *spot) {
    return &spot->watch.hits[spot->asked - 1].place;
}

static void put_place(const struct watch_place *place, struct buf *out) {
    static const char *const types[] = {[GIT_TYPE_COMMIT] = "commit",
                                        [GIT_TYPE_TREE] = "tree",
                                        [GIT_TYPE_BLOB] = "blob",
                                        [GIT_TYPE_TAG] = "tag"};
    if (place->id_size) {
        char hex[2 * GIT_ID_MAX + 1];
        git_id_to_hex(place->id, place->id_size, hex);
        buf_printf(out, " in %s %s", types[place->type], hex);
    } else if (place->type) {
        buf_printf(out, " in a %s of %llu bytes", types[place->type], (unsigned long long)place->size);
    } else if (place->size) {
        buf_printf(out, " in what was changed in a file of now %llu bytes", (unsigned long long)place->size);
    } else {
        buf_puts(out, " in what was changed in a file");
    }
}

void spot_reason(const struct spot *spot, struct buf *out) {
    if (spot->state != SPOT_FOUND) {
        buf_printf(out, "it can't be told whether a secret of the vault is in it: %s", spot->why.text);
        return;
    }
    buf_printf(out, "the secret of credential '%s' is", spot->credential);
    if (spot_in_what(spot))
        buf_printf(out, " in %s", spot->what);
    else
        put_place(spot_place(spot), out);
    if (spot->form == MARKS_BASE64)
        buf_puts(out, ", in base64");
}

void spot_hint(const struct spot *spot, struct buf *out) {
    if (spot->state != SPOT_FOUND || spot_in_what(spot) || !spot_place(spot)->id_size)
        return;
    const struct watch_place *place = spot_place(spot);
    char hex[2 * GIT_ID_MAX + 1];
    git_id_to_hex(place->id, place->id_size, hex);
    if (place->type == GIT_TYPE_BLOB)
        buf_printf(out, "to find it: git log --all --find-object=%s", hex);
    else
        buf_printf(out, "to find it: git show %s", hex);
}
