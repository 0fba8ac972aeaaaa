/*
 * The end of an io that has no owner any more: what is queued still goes out, and the peer gets time to read it.
 */
#include "proxy/io/io.h"

#define IO_CUT_MS 2000

/* All of the process, so that none is left at its end. */
static struct io *lingering;

static void io_linger_step(struct io *io);
static const struct io_events io_linger_events;

static void io_linger_begin(struct io *io, unsigned ms) {
    io_own(io, &io_linger_events, NULL);
    io->next = lingering;
    io->link = &lingering;
    if (lingering)
        lingering->link = &io->next;
    lingering = io;
    if (io->write_failed || io->state != IO_OPEN) {
        io_free(io);
        return;
    }
    io->was_full = false;
    io_deadline(io, ms ? ms : 1);
    io->paused = true;
    io_resume(io);
    /* also flushes what was queued with `more` */
    if (io_flush(io)) {
        io_free(io);
        return;
    }
    io_shutdown(io);
    io_linger_step(io);
}

void io_linger(struct io *io, unsigned max, unsigned ms) {
    io->linger_left = max;
    io_linger_begin(io, ms);
}

void io_cut(struct io *io, bool reset) {
    io->cut = true;
    io->cut_reset = reset;
    io->linger_left = IO_HIGH;
    io_linger_begin(io, IO_CUT_MS);
}

/* Is there nothing left to wait for? */
static void io_linger_step(struct io *io) {
    if (io->shut_done && (io->end != IO_END_NOT || io->linger_left == 0 || io->cut_reset))
        io_free(io);
}

static void io_linger_readable(struct io *io) {
    size_t got;
    int r = io_read(io, io_scratch(), IO_SCRATCH, &got);
    if (r == 0) {
        io->linger_left = got < io->linger_left ? io->linger_left - (unsigned)got : 0;
        if (io->linger_left == 0)
            io_pause(io);
    }
    if (r != ERR_AGAIN)
        io_linger_step(io);
}

static void io_linger_failed(struct io *io, int err) {
    (void)err;
    io_free(io);
}

static void io_linger_ready(struct io *io, int err) {
    (void)err;
    io_free(io);
}

static const struct io_events io_linger_events = {
    .ready = io_linger_ready,
    .readable = io_linger_readable,
    .drained = io_linger_step,
    .failed = io_linger_failed,
    .timeout = io_free,
};

void io_end_lingering(void) {
    while (lingering)
        io_free(lingering);
}
