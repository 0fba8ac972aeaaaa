#include "proxy/io/relay.h"

static struct relay_side *relay_other(const struct relay_side *side) {
    struct relay *r = side->relay;
    return &r->sides[side == &r->sides[0]];
}

static void relay_finish(struct relay_side *side, enum relay_end end) {
    struct relay *r = side->relay;
    if (r->is_over)
        return;
    r->is_over = true;
    r->over(r, end, (unsigned)(side - r->sides));
}

static void relay_touch(struct relay *r) {
    io_deadline(r->sides[0].io, r->idle_ms);
}

/* Is there nothing left to come or to be sent? */
static void relay_settle(struct relay *r) {
    struct relay_side *a = &r->sides[0], *b = &r->sides[1];
    if (a->ended && a->io->write_failed)
        relay_finish(a, RELAY_BROKEN);
    else if (b->ended && b->io->write_failed)
        relay_finish(b, RELAY_BROKEN);
    else if (a->ended && b->ended && a->io->shut_done && b->io->shut_done)
        relay_finish(a, RELAY_ENDED);
}

/* To a side that takes no more, bytes are lost; what it still has to say is heard out. */
static void relay_pass(struct relay_side *from, struct slice bytes) {
    struct relay_side *to = relay_other(from);
    if (to->io->write_failed)
        return;
    *from->moved += bytes.n;
    int r = io_write(to->io, bytes, false);
    if (r == 0) {
        if (io_full(to->io))
            io_pause(from->io);
    } else if (to->io->write_failed) {
        relay_settle(from->relay);
    } else {
        relay_finish(to, RELAY_BROKEN);
    }
}

static void relay_ended(struct relay_side *from) {
    from->ended = true;
    if (from->io->end == IO_END_RESET || from->io->end == IO_END_BROKEN) {
        relay_finish(from, RELAY_BROKEN);
        return;
    }
    io_shutdown(relay_other(from)->io);
    relay_settle(from->relay);
}

/* ---- the ios' events ---- */

static void relay_on_readable(struct io *io) {
    struct relay_side *from = io->arg;
    size_t got;
    char *bytes = io_scratch();
    int r = io_read(io, bytes, IO_SCRATCH, &got);
    if (r == ERR_AGAIN)
        return;
    if (r) {
        relay_ended(from);
        return;
    }
    relay_touch(from->relay);
    relay_pass(from, slice_make(bytes, got));
}

static void relay_on_drained(struct io *io) {
    struct relay_side *to = io->arg, *from = relay_other(to);
    io_resume(from->io);
    relay_settle(to->relay);
}

static void relay_on_failed(struct io *io, int err) {
    (void)err;
    relay_on_drained(io);
}

static void relay_on_timeout(struct io *io) {
    relay_finish(io->arg, RELAY_IDLE);
}

static const struct io_events relay_events = {
    .readable = relay_on_readable,
    .drained = relay_on_drained,
    .failed = relay_on_failed,
    .timeout = relay_on_timeout,
};

void relay_begin(struct relay *r, const struct slice early[2]) {
    for (int i = 0; i < 2; i++) {
        struct relay_side *side = &r->sides[i];
        side->relay = r;
        io_own(side->io, &relay_events, side);
        io_deadline(side->io, 0);
        /* a pause first, so that reading is armed whatever the last owner left */
        io_pause(side->io);
        io_resume(side->io);
    }
    relay_touch(r);
    for (int i = 0; i < 2 && !r->is_over; i++)
        relay_pass(&r->sides[i], early[i]);
    for (int i = 0; i < 2 && !r->is_over; i++)
        if (r->sides[i].io->end != IO_END_NOT)
            relay_ended(&r->sides[i]);
}
