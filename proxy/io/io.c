#include "proxy/io/io.h"

#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "proxy/io/io_parts.h"

/* `readable` is called this often in a row for bytes that TLS holds already, before others have their turn. */
#define IO_TURNS    4
#define IO_REPEATED 2 /* times without an answer; a window that stays shut is asked about seldom, and once */

static void io_on_read(evutil_socket_t fd, short what, void *arg);
static void io_on_write(evutil_socket_t fd, short what, void *arg);
static void io_on_timer(evutil_socket_t fd, short what, void *arg);

/* `readable`, or the handshake, has its turn, though the socket has not spoken: it is as dry as it was. */
static void io_again(struct io *io) {
    event_active(&io->rd, 0, 0);
}

/* … when all other sockets have been looked at: of one that never runs dry, whose peer is as fast as we are, there would be one such
 * turn after the other, and nobody else's. */
static void io_again_later(struct io *io) {
    static const struct timeval now = {.tv_sec = 0};
    io->again = true;
    io->timer_at = 1; /* any time that has passed */
    event_add(&io->timer, &now);
}

static char scratch[IO_SCRATCH] __attribute__((aligned(64)));

char *io_scratch(void) {
    return scratch;
}

/* ---- life ---- */

static void io_enter(struct io *io, enum io_state state) {
    static const uint8_t legal[IO_STATES] = {
        [IO_CONNECTING] = 1 << IO_OPEN | 1 << IO_CLOSED,
        [IO_OPEN] = 1 << IO_SHAKING | 1 << IO_CLOSED,
        [IO_SHAKING] = 1 << IO_OPEN | 1 << IO_CLOSED,
    };
    assert(legal[io->state] & 1 << state);
    io->state = state;
}

struct io *io_open(struct event_base *base, int fd, bool connecting, const struct io_events *events,
                   void *arg) {
    struct io *io = calloc(1, sizeof *io);
    if (!io) {
        close(fd);
        return NULL;
    }
    io->fd = fd;
    io->base = base;
    io->dialled = connecting;
    io->events = events;
    io->arg = arg;
    buf_init(&io->queue, IO_QUEUE_MAX);
    buf_init(&io->unread, IO_QUEUE_MAX);
    buf_init(&io->held, IO_QUEUE_MAX);
    event_assign(&io->rd, base, fd, EV_READ | EV_PERSIST, io_on_read, io);
    event_assign(&io->wr, base, fd, EV_WRITE | EV_PERSIST, io_on_write, io);
    event_assign(&io->timer, base, -1, 0, io_on_timer, io);
    if (connecting) {
        int one = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        io->wr_on = true;
    } else {
        io_enter(io, IO_OPEN);
        io->rd_on = true;
    }
    if (event_add(connecting ? &io->wr : &io->rd, NULL) < 0) {
        close(fd);
        free(io);
        return NULL;
    }
    return io;
}

void io_keepalive(int fd) {
    int one = 1, idle_s = 60, again_s = 10, times = 3;
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &again_s, sizeof again_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
}

void io_crowded(int fd) {
    int most = IO_CROWDED;
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &most, sizeof most);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &most, sizeof most);
}

bool io_unreachable(const struct io *io) {
    int e = io->sys_errno;
    return e == ETIMEDOUT || e == EHOSTUNREACH || e == ENETUNREACH;
}

bool io_unacknowledged(const struct io *io, unsigned ms) {
    struct tcp_info info;
    socklen_t n = sizeof info;
    memset(&info, 0, sizeof info);
    return getsockopt(io->fd, IPPROTO_TCP, TCP_INFO, &info, &n) == 0 && info.tcpi_last_ack_recv >= ms &&
           info.tcpi_retransmits + info.tcpi_probes >= IO_REPEATED;
}

void io_own(struct io *io, const struct io_events *events, void *arg) {
    io->events = events;
    io->arg = arg;
}

/* Out of the list of those that linger. */
static void io_unlink(struct io *io) {
    if (!io->link)
        return;
    *io->link = io->next;
    if (io->next)
        io->next->link = io->link;
    io->link = NULL;
}

static void io_reap(struct io *io) {
    if (io->state == IO_CLOSED && io->busy == 0)
        free(io);
}

void io_free(struct io *io) {
    if (!io || io->state == IO_CLOSED)
        return;
    bool said = io->shut_done || io->write_failed || io->cut || buf_len(&io->queue) > 0;
    if (io->ssl && io->state == IO_OPEN && !said && io->end_ahead != IO_END_BROKEN &&
        io->end_ahead != IO_END_RESET) {
        io_forget_errors();
        io->more = true; /* the FIN of close() */
        SSL_shutdown(io->ssl);
    }
    io_enter(io, IO_CLOSED);
    event_del(&io->rd);
    event_del(&io->wr);
    event_del(&io->timer);
    io_not_soon(io);
    SSL_free(io->ssl);
    io_forget_errors();
    io->ssl = NULL;
    if (io->cut && io->cut_reset) {
        struct linger now = {.l_onoff = 1};
        setsockopt(io->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    close(io->fd);
    io->fd = -1;
    io_drop_queue(io);
    buf_release(&io->unread);
    buf_release(&io->held);
    io_share_end(&io->share);
    io_unlink(io);
    io_reap(io);
}

/* ---- reading ---- */

/* TLS has ended or failed: what does that mean? */
static int io_tls_failed(struct io *io, int error) {
    if (error == SSL_ERROR_ZERO_RETURN) {
        io->end_ahead = IO_END_CLEAN;
    } else if (io->babbled) {
        io->end_ahead = IO_END_BROKEN;
    } else if (error == SSL_ERROR_SYSCALL && io->raw_fin) {
        io->end_ahead = IO_END_UNCLEAN;
    } else if (error == SSL_ERROR_SYSCALL) {
        io->end_ahead = IO_END_RESET;
    } else {
        io->end_ahead = IO_END_BROKEN;
        io->tls_error = ERR_peek_last_error();
    }
    io_forget_errors();
    return ERR_EOF;
}

void io_want_write(struct io *io) {
    io->blocked = true;
    if (!io->wr_on) {
        event_add(&io->wr, NULL);
        io->wr_on = true;
    }
}

void io_want_read(struct io *io) {
    if (!io->rd_on) {
        event_add(&io->rd, NULL);
        io->rd_on = true;
    }
}

static void io_unwant_read(struct io *io) {
    if (io->rd_on) {
        event_del(&io->rd);
        io->rd_on = false;
    }
}

/* One record. */
static int io_read_record(struct io *io, char *p, size_t n, size_t *got) {
    io_forget_errors();
    io->read_wants_write = false;
    if (SSL_read_ex(io->ssl, p, n, got)) {
        io->vain = 0;
        return 0;
    }
    int error = SSL_get_error(io->ssl, 0);
    if (error == SSL_ERROR_WANT_READ)
        return ERR_AGAIN;
    if (error == SSL_ERROR_WANT_WRITE) {
        io->read_wants_write = true;
        io_want_write(io);
        return ERR_AGAIN;
    }
    return io_tls_failed(io, error);
}

/* As many as there are, in what one recv() brought and the next: there may be little in a lot. What ends them is told by the next
 * call, if any came before it. */
static int io_read_tls(struct io *io, char *p, size_t n, size_t *got) {
    int r;
    io->fills = 0;
    do {
        size_t more = 0;
        r = io_read_record(io, p + *got, n - *got, &more);
        *got += more;
    } while (r == 0 && *got < n && io->fills < 2 && (io_raw_has(io) || SSL_has_pending(io->ssl)));
    io_raw_settle(io);
    return *got ? 0 : r;
}

static int io_read_clear(struct io *io, char *p, size_t n, size_t *got) {
    int r = io_raw_read(io, p, n, got);
    if (r == ERR_EOF)
        io->end_ahead = io->raw_fin ? IO_END_CLEAN : IO_END_RESET;
    return r;
}

int io_read(struct io *io, void *p, size_t n, size_t *got) {
    *got = 0;
    n = io_step(io, n);
    int r = ERR_EOF;
    if (io->end_ahead == IO_END_NOT)
        r = io->ssl ? io_read_tls(io, p, n, got) : io_read_clear(io, p, n, got);
    io->received += *got;
    if (r == ERR_EOF) {
        io->end = io->end_ahead;
        io_unwant_read(io);
    }
    return r;
}

int io_unread(struct io *io, struct slice bytes) {
    assert(!io->ssl && buf_len(&io->unread) == 0);
    if (bytes.n == 0)
        return 0;
    io->received -= bytes.n < io->received ? bytes.n : io->received;
    if (buf_put(&io->unread, bytes))
        return ERR_NOMEM;
    io_count(io);
    io_again(io);
    return 0;
}

void io_pause(struct io *io) {
    io->paused = true;
}

/* Bytes, or an end, that no event of the socket will speak of. Perhaps half a record only: then the next read says so,
 * without a system call, since the socket is known to be dry. */
static bool io_holds_bytes(struct io *io) {
    return buf_len(&io->unread) > 0 || io->end_ahead != IO_END_NOT || (io->ssl && SSL_has_pending(io->ssl));
}

void io_resume(struct io *io) {
    if (!io->paused)
        return;
    io->paused = false;
    if (io->end != IO_END_NOT)
        return;
    if (io->state != IO_CONNECTING)
        io_want_read(io);
    if (io->state == IO_OPEN && io_holds_bytes(io))
        io_again(io);
}

bool io_at_rest(struct io *io) {
    return io->state == IO_OPEN && !io->write_failed && io->dry && buf_len(&io->queue) == 0 &&
           !io_holds_bytes(io);
}

bool io_idle_ok(struct io *io) {
    char byte;
    if (io->state != IO_OPEN || io->write_failed || io_holds_bytes(io))
        return false;
    ssize_t r = recv(io->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return r < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

/* ---- handshake ---- */

static void io_ready(struct io *io, int err) {
    if (io->events->ready)
        io->events->ready(io, err);
}

/* Does the peer's next flight end the handshake, of TLS 1.3 at least? What we say to it, a client's Finished or a server's
 * ticket, nobody waits for: it shares a packet with what follows, which is a request, an answer, or our end. */
static bool io_shakes_last(const struct io *io) {
    OSSL_HANDSHAKE_STATE state = SSL_get_state(io->ssl);
    return state == TLS_ST_CW_CLNT_HELLO || state == TLS_ST_EARLY_DATA;
}

static void io_shaken(struct io *io) {
    bool answers = SSL_is_server(io->ssl);
    io->vain = io->steps = 0;
    io_enter(io, IO_OPEN);
    io_want_read(io);
    io_ready(io, 0);
    if (io->state != IO_OPEN)
        return;
    if (!answers)
        (void)io_flush_soon(io);
    if (buf_len(&io->queue) > 0)
        io_want_write(io);
    if (io_holds_bytes(io))
        io_again(io);
}

static void io_shake(struct io *io) {
    if (io->suspended)
        return;
    int r = io_send_clear(io);
    if (r == ERR_AGAIN) {
        io_unwant_read(io); /* a peer that reads nothing is not listened to */
        return;
    }
    if (r) {
        io_ready(io, r);
        return;
    }
    io_forget_errors();
    io->more = io_shakes_last(io);
    r = SSL_do_handshake(io->ssl);
    io->more = false;
    io_raw_settle(io);
    if (r == 1) {
        io_shaken(io);
        return;
    }
    io_raw_push(io);
    switch (SSL_get_error(io->ssl, r)) {
    case SSL_ERROR_WANT_READ: io_want_read(io); return;
    case SSL_ERROR_WANT_WRITE: io_want_write(io); return;
    case SSL_ERROR_WANT_CLIENT_HELLO_CB: io->suspended = true; return;
    case SSL_ERROR_SSL:
        io->tls_error = ERR_peek_last_error();
        io_forget_errors();
        io_ready(io, ERR_CRYPTO);
        return;
    default:
        io_forget_errors();
        io_ready(io, io->babbled ? ERR_CRYPTO : ERR_EOF);
        return;
    }
}

void io_handshake(struct io *io) {
    assert(io->ssl && (io->state == IO_OPEN || io->state == IO_SHAKING));
    if (io->state == IO_OPEN)
        io_enter(io, IO_SHAKING);
    io->suspended = false;
    io_again(io);
}

/* ---- events ---- */

static void io_read_turns(struct io *io) {
    bool pending = true;
    for (int i = 0; i < IO_TURNS && pending; i++) {
        if (io->state != IO_OPEN || io->paused || io->end != IO_END_NOT || !io->events->readable)
            return;
        uint64_t before = io->received;
        io->events->readable(io);
        if (io->state != IO_OPEN)
            return;
        pending = io->received != before && io_holds_bytes(io);
    }
    if (pending && !io->paused)
        io_again_later(io);
}

/* The queue has been worked on by the event: tell the owner what he waits for. `waited`: for the socket, not for the
 * end of the turn alone. */
static void io_after_send(struct io *io, int r, bool waited) {
    if (r && r != ERR_AGAIN) {
        if (io->events->failed)
            io->events->failed(io, r);
        return;
    }
    size_t left = buf_len(&io->queue);
    if (left == 0)
        io_say_end(io);
    bool owed = io->was_full && left <= (io_share_pressed(&io->share) ? 0 : IO_LOW);
    if (owed)
        io->was_full = false;
    if ((owed || (left == 0 && (waited || io->shut_wanted))) && io->events->drained)
        io->events->drained(io);
}

void io_on_turn_end(struct io *io) {
    io->busy++;
    /* what was to go may have gone since, or wait for the socket's event */
    if (!io_blocked(io) && !io->write_failed && (buf_len(&io->queue) > 0 || io->held_back))
        io_after_send(io, io_send_queue(io), false);
    io->busy--;
    io_reap(io);
}

static void io_on_read(evutil_socket_t fd, short what, void *arg) {
    struct io *io = arg;
    (void)fd;
    io->busy++;
    if (what & EV_READ)
        io->dry = false;
    if (io->state == IO_SHAKING) {
        if (io->suspended)
            io_unwant_read(io);
        else
            io_shake(io);
    } else if (io->state == IO_OPEN) {
        if (io->write_wants_read) {
            io->write_wants_read = false;
            io_after_send(io, io_send_queue(io), true);
        }
        if (io->state == IO_OPEN && (io->paused || !io->events->readable || io->end != IO_END_NOT))
            io_unwant_read(io);
        else
            io_read_turns(io);
    }
    io->busy--;
    io_reap(io);
}

static void io_connected(struct io *io) {
    int error = 0;
    socklen_t len = sizeof error;
    getsockopt(io->fd, SOL_SOCKET, SO_ERROR, &error, &len);
    io->sys_errno = error;
    if (error) {
        io_ready(io, ERR_IO);
        return;
    }
    io_enter(io, IO_OPEN);
    io->dry = true; /* an event tells what comes */
    if (!io->paused)
        io_want_read(io);
    io_ready(io, 0);
    if (io->state == IO_OPEN && buf_len(&io->queue) > 0)
        io_want_write(io);
}

static void io_on_write(evutil_socket_t fd, short what, void *arg) {
    struct io *io = arg;
    (void)fd;
    (void)what;
    io->busy++;
    io->blocked = false;
    if (io->state == IO_CONNECTING) {
        io_connected(io);
    } else if (io->state == IO_SHAKING) {
        io_shake(io);
    } else if (io->state == IO_OPEN) {
        bool reader = io->read_wants_write;
        io->read_wants_write = false;
        io_after_send(io, io->write_failed ? ERR_AGAIN : io_send_queue(io), true);
        if (reader && io->state == IO_OPEN)
            io_read_turns(io);
    }
    if (io->state != IO_CLOSED && !io->blocked && io->wr_on) {
        event_del(&io->wr);
        io->wr_on = false;
    }
    io->busy--;
    io_reap(io);
}

/* ---- deadline ---- */

static void io_arm_timer(struct io *io, uint64_t now) {
    uint64_t ms = io->deadline > now ? io->deadline - now : 1;
    struct timeval tv = {.tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000) * 1000};
    event_add(&io->timer, &tv);
    io->timer_at = now + ms;
}

void io_deadline(struct io *io, unsigned ms) {
    if (ms == 0) {
        io->deadline = 0;
        return;
    }
    uint64_t now = clock_coarse_ms();
    io->deadline = now + ms;
    if (!io->timer_at || io->timer_at > io->deadline)
        io_arm_timer(io, now);
}

static void io_on_timer(evutil_socket_t fd, short what, void *arg) {
    struct io *io = arg;
    (void)fd;
    (void)what;
    io->timer_at = 0;
    if (io->again) {
        io->again = false;
        io_again(io);
    }
    if (!io->deadline)
        return;
    uint64_t now = clock_coarse_ms();
    if (now < io->deadline) {
        io_arm_timer(io, now);
        return;
    }
    io->deadline = 0;
    io->busy++;
    if (io->state == IO_CONNECTING || io->state == IO_SHAKING)
        io_ready(io, ERR_TIMEOUT);
    else if (io->events->timeout)
        io->events->timeout(io);
    io->busy--;
    io_reap(io);
}
