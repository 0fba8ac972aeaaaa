#include "proxy/flow/decision.h"

#include <stdlib.h>

#include "base/clock.h"
#include "proxy/flow/recorder.h"
#include "proxy/flow/state.h"

#define WHY_HINT_MAX 2048
#define WHY_REFS     16 /* refs of a push that are remembered */

void why_release(struct why *why) {
    for (size_t i = 0; why->ring && i < WHY_RECENT; i++) {
        buf_release(&why->ring[i].record);
        buf_release(&why->ring[i].hint);
        buf_release(&why->ring[i].outcome);
    }
    free(why->ring);
    *why = (struct why){0};
}

static struct why_entry *why_entry_of(const struct why *why, const struct ulid *id) {
    if (!why->ring)
        return NULL;
    /* the newest are asked for most */
    for (size_t n = 0; n < WHY_RECENT; n++) {
        struct why_entry *e = &why->ring[(why->next + WHY_RECENT - 1 - n) % WHY_RECENT];
        if (memcmp(e->id.text, id->text, ULID_LEN) == 0)
            return e;
    }
    return NULL;
}

const struct why_entry *why_find(const struct why *why, const struct ulid *id) {
    return why_entry_of(why, id);
}

static void why_keep(struct buf *into, const struct record *r) {
    char memory[MSG_MAX];
    struct msg_out m;
    struct record brief = *r;
    if (brief.nrefs > WHY_REFS) {
        brief.refs_omitted += brief.nrefs - WHY_REFS;
        brief.nrefs = WHY_REFS;
    }
    record_encode(&brief, &m, memory, sizeof memory);
    buf_clear(into);
    if (m.err || buf_put(into, slice_make(memory, m.n)))
        buf_clear(into);
}

static void why_add(struct why *why, const struct record *r, struct slice hint) {
    if (!why->ring) {
        why->ring = calloc(WHY_RECENT, sizeof *why->ring);
        if (!why->ring)
            return;
        for (size_t i = 0; i < WHY_RECENT; i++) {
            buf_init(&why->ring[i].record, MSG_MAX);
            buf_init(&why->ring[i].hint, WHY_HINT_MAX);
            buf_init(&why->ring[i].outcome, MSG_MAX);
        }
    }
    struct why_entry *e = &why->ring[why->next];
    why->next = (why->next + 1) % WHY_RECENT;
    e->id = r->id;
    buf_clear(&e->outcome);
    buf_clear(&e->hint);
    buf_put(&e->hint, slice_sub(hint, 0, WHY_HINT_MAX));
    why_keep(&e->record, r);
}

void decision_begin(struct decision *d) {
    *d = (struct decision){.id = ulid_new(), .began = clock_monotonic_ms()};
}

static void decision_fill(struct box *box, const struct decision *d, struct record *r,
                          enum record_event event) {
    r->event = event;
    r->id = d->id;
    r->time_ms = clock_wall_ms();
    r->sandbox = box_name(box);
}

void decision_verdict(struct box *box, struct decision *d, struct record *r, struct slice hint) {
    if (d->verdict_sent)
        return;
    d->verdict_sent = true;
    decision_fill(box, d, r, RECORD_VERDICT);
    if (r->denied)
        box->engine->stats.denied++;
    why_add(&box->why, r, hint);
    recorder_send(box->engine->config.recorder, r);
}

void decision_outcome(struct box *box, struct decision *d, struct record *r) {
    if (!d->verdict_sent || d->outcome_sent)
        return;
    d->outcome_sent = true;
    decision_fill(box, d, r, RECORD_OUTCOME);
    r->has |= RECORD_HAS_DURATION;
    r->duration_ms = clock_monotonic_ms() - d->began;
    struct why_entry *e = why_entry_of(&box->why, &d->id);
    if (e)
        why_keep(&e->outcome, r);
    recorder_send(box->engine->config.recorder, r);
}
