/*
 * The way out of an io: records as full as they can be, and of one write as few packets as the kernel makes of it.
 */
#include "base/secret.h"
#include "proxy/io/io_parts.h"

/* ---- the queue ---- */

void io_drop_queue(struct io *io) {
    if (io->sensitive && io->queue.data)
        secret_wipe(io->queue.data, io->queue.cap);
    io->sensitive = false;
    buf_release(&io->queue);
    io_count(io);
}

struct buf *io_queue(struct io *io) {
    return &io->queue;
}

void io_sensitive(struct io *io) {
    io->sensitive = true;
}

/* A queue that grows by itself leaves a copy behind. */
static int io_grow_wiping(struct io *io, size_t n) {
    struct buf larger;
    char *room;
    buf_init(&larger, io->queue.limit);
    int r = buf_reserve(&larger, buf_len(&io->queue) + n, &room);
    if (r)
        return r;
    buf_put(&larger, buf_slice(&io->queue));
    io_drop_queue(io);
    io->queue = larger;
    io->sensitive = true;
    return 0;
}

static int io_enqueue(struct io *io, struct slice bytes) {
    if (io->sensitive && io->queue.cap - io->queue.end < bytes.n) {
        int r = io_grow_wiping(io, bytes.n);
        if (r)
            return r;
    }
    int r = buf_put(&io->queue, bytes);
    io_count(io);
    return r;
}

static void io_consume(struct io *io, size_t n) {
    if (io->sensitive)
        secret_wipe(io->queue.data + io->queue.start, n);
    buf_consume(&io->queue, n);
}

bool io_full(struct io *io) {
    bool blocked = io_blocked(io);
    size_t queued = buf_len(&io->queue);
    io_count(io);
    if (queued >= IO_HIGH || (queued > 0 && blocked && io_share_pressed(&io->share)))
        io->was_full = true;
    else if (queued == 0 && !blocked)
        io->was_full = false; /* all went out at once: no event will say so */
    return io->was_full;
}

/* ---- records ---- */

static int io_write_failed(struct io *io, int err) {
    io->write_failed = true;
    io->dropped += buf_len(&io->queue);
    io->clear = 0;
    io_drop_queue(io);
    return err;
}

static int io_push_clear(struct io *io, struct slice s, size_t *taken) {
    int r = io_raw_write(io, s.p, s.n, taken);
    if (r == ERR_AGAIN)
        io_want_write(io);
    else if (r)
        return io_write_failed(io, r);
    return r;
}

static int io_push_tls(struct io *io, struct slice s, size_t *taken) {
    io_forget_errors();
    io->write_wants_read = false;
    int ok = SSL_write_ex(io->ssl, s.p, s.n < IO_RECORD ? s.n : IO_RECORD, taken);
    io_raw_settle(io);
    if (ok)
        return 0;
    int error = SSL_get_error(io->ssl, 0);
    if (error == SSL_ERROR_WANT_WRITE) {
        io_want_write(io);
        return ERR_AGAIN;
    }
    if (error == SSL_ERROR_WANT_READ) {
        io->write_wants_read = true;
        io_want_read(io);
        return ERR_AGAIN;
    }
    if (error == SSL_ERROR_SSL)
        io->tls_error = ERR_peek_last_error();
    io_forget_errors();
    return io_write_failed(io, error == SSL_ERROR_SSL ? ERR_CRYPTO : ERR_EOF);
}

/* One attempt at one record; with `more`, others follow what is left of `s`. 0 with *taken, ERR_AGAIN with an event
 * armed, or the failure. */
static int io_push(struct io *io, struct slice s, bool more, size_t *taken) {
    *taken = 0;
    io->more = more || (io->ssl && s.n > IO_RECORD);
    int r = io->ssl ? io_push_tls(io, s, taken) : io_push_clear(io, s, taken);
    io->more = false;
    io->sent += *taken;
    if (r)
        io_raw_push(io);
    return r;
}

int io_send_clear(struct io *io) {
    while (io->clear > 0) {
        size_t taken = 0;
        int r = io_push_clear(io, slice_sub(buf_slice(&io->queue), 0, io->clear), &taken);
        if (r)
            return r;
        io->sent += taken;
        io->clear -= taken;
        io_consume(io, taken);
    }
    return 0;
}

/* The queue, as far as it goes; with `more`, other bytes follow it. */
static int io_send(struct io *io, bool more) {
    int r = 0;
    while (r == 0 && buf_len(&io->queue) > 0) {
        size_t taken;
        r = io_push(io, buf_slice(&io->queue), more, &taken);
        io_consume(io, taken);
    }
    if (r == 0) {
        io->sensitive = false;
        buf_trim(&io->queue);
    }
    io_count(io);
    return r;
}

int io_send_queue(struct io *io) {
    int r = io_send(io, false);
    if (r == 0)
        io_raw_push(io);
    return r;
}

void io_say_end(struct io *io) {
    if (!io->shut_wanted || io->shut_done || buf_len(&io->queue) > 0 || io->state != IO_OPEN)
        return;
    if (io->ssl && !io->write_failed && !io->cut) {
        io_forget_errors();
        io->more = !io->cut_reset; /* a FIN */
        int r = SSL_shutdown(io->ssl);
        io->more = false;
        /* 0 is "sent, and the peer's has not come", or (OpenSSL 3.0) a second try that wrote nothing either */
        if (r <= 0 && SSL_get_error(io->ssl, r) == SSL_ERROR_WANT_WRITE) {
            io_want_write(io);
            return;
        }
        io_forget_errors();
    }
    io->shut_done = true;
    if (!io->cut_reset)
        shutdown(io->fd, SHUT_WR);
}

int io_flush(struct io *io) {
    if (io->write_failed)
        return ERR_EOF;
    if (io_blocked(io))
        return 0;
    int r = io_send_queue(io);
    if (r && r != ERR_AGAIN)
        return r;
    io_say_end(io);
    return 0;
}

/* ---- the turn's end ---- */

TAILQ_HEAD(soon, io);

static struct { /* of the process's one loop */
    struct soon answers, requests;
    struct event event; /* active while there are any */
} turn = {.answers = TAILQ_HEAD_INITIALIZER(turn.answers), .requests = TAILQ_HEAD_INITIALIZER(turn.requests)};

static struct soon *soon_of(const struct io *io) {
    return io->dialled ? &turn.requests : &turn.answers;
}

static void soon_remove(struct io *io) {
    TAILQ_REMOVE(soon_of(io), io, soon);
    io->is_soon = false;
}

static bool soon_none(void) {
    return TAILQ_EMPTY(&turn.answers) && TAILQ_EMPTY(&turn.requests);
}

void io_not_soon(struct io *io) {
    if (!io->is_soon)
        return;
    soon_remove(io);
    if (soon_none())
        event_del(&turn.event); /* the event base may go next */
}

static void on_turn_end(evutil_socket_t fd, short what, void *arg) {
    struct io *io;
    (void)fd;
    (void)what;
    (void)arg;
    while ((io = TAILQ_FIRST(&turn.answers)) || (io = TAILQ_FIRST(&turn.requests))) {
        soon_remove(io);
        io_on_turn_end(io);
    }
}

static void soon_add(struct io *io) {
    if (event_get_base(&turn.event) != io->base)
        event_assign(&turn.event, io->base, -1, 0, on_turn_end, NULL);
    if (soon_none())
        event_active(&turn.event, EV_TIMEOUT, 0);
    TAILQ_INSERT_TAIL(soon_of(io), io, soon);
    io->is_soon = true;
}

/* Is there nothing to be done, for now or at all? */
static bool soon_idle(const struct io *io) {
    return io->is_soon || io->write_failed || io_blocked(io) || (buf_len(&io->queue) == 0 && !io->held_back);
}

void io_flush_late(struct io *io) {
    if (!soon_idle(io))
        soon_add(io);
}

int io_flush_soon(struct io *io) {
    if (io->write_failed)
        return ERR_EOF;
    if (soon_idle(io))
        return 0;
    /* nobody else's turn comes before the end of it */
    if (buf_len(&io->queue) > IO_SOON || event_base_get_num_events(io->base, EVENT_BASE_COUNT_ACTIVE) == 0)
        return io_flush(io);
    soon_add(io);
    return 0;
}

/* What lies in the queue, filled up to whole records from *bytes. */
static int io_send_before(struct io *io, struct slice *bytes) {
    size_t part = buf_len(&io->queue) % IO_RECORD, fill = part ? IO_RECORD - part : 0;
    int r = io_enqueue(io, slice_sub(*bytes, 0, fill));
    if (r)
        return r;
    *bytes = slice_from(*bytes, fill);
    return io_send(io, bytes->n > 0);
}

int io_write(struct io *io, struct slice bytes, bool more) {
    size_t least = more ? IO_RECORD : 1;
    int r = 0;
    if (io->write_failed || io->shut_wanted) {
        io->dropped += bytes.n;
        return ERR_EOF;
    }
    if (!io_blocked(io) && buf_len(&io->queue) > 0 && buf_len(&io->queue) + bytes.n > IO_RECORD)
        r = io_send_before(io, &bytes);
    while (r == 0 && bytes.n >= least && buf_len(&io->queue) == 0 && !io_blocked(io)) {
        size_t taken;
        r = io_push(io, bytes, more, &taken);
        bytes = slice_from(bytes, taken);
    }
    if (r && r != ERR_AGAIN) {
        io->dropped += bytes.n;
        return r;
    }
    if (bytes.n && (r = io_enqueue(io, bytes)))
        return r;
    return more ? 0 : io_flush(io);
}

void io_shutdown(struct io *io) {
    if (io->shut_wanted)
        return;
    io->shut_wanted = true;
    if (!io_blocked(io))
        io_say_end(io);
}
