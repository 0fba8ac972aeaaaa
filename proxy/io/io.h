/*
 * One descriptor with or without TLS, on raw libevent events: the two ends of a relay are one struct used twice.
 *
 * What it does: non-blocking reads into the caller's memory, a bounded queue for writes, TLS's want-read and
 * want-write in every combination (a write that waits for the peer's bytes, a read that has to write first), connect
 * and handshake as one "ready" call, a lazy deadline, half-close in both directions, and the telling apart of the
 * ways in which a stream can end. What it does not do: parse, or decide when to stop.
 *
 * Ownership. io_open takes the descriptor, on success and on failure; io_tls takes the SSL, on success and on
 * failure. From then on both belong to the io, and io_free (or io_linger) is the one way to give them back. io_free
 * may be called from any callback, the io's own too: the descriptor is closed at once, the memory follows when the
 * last callback on the stack has returned. After io_free the caller holds nothing.
 *
 * Memory. An idle io has no buffers, but for a server's tickets until it first writes (some hundred bytes, which go along
 * then): the queue's memory goes back when it is empty, and OpenSSL's with
 * SSL_MODE_RELEASE_BUFFERS. Reading is into memory of the caller's; io_scratch() is one block for all that do not
 * keep the bytes beyond the callback.
 *
 * Back-pressure. io_write never refuses bytes for fullness (up to IO_QUEUE_MAX, a bug's measure); it is the reader of
 * the other side who stops: after a write ask io_full(), then io_pause() the source; `drained` comes when the queue
 * is down to IO_LOW, and io_resume() goes on. An io whose `share` was begun counts in its sandbox's sum (io_memory.h); under
 * pressure it is full when anything at all waits for its peer, drained when nothing does, and read IO_RECORD bytes at a
 * time.
 *
 * The worker's process ignores SIGPIPE or not, as it likes: writes are made with MSG_NOSIGNAL.
 */
#ifndef PROXY_IO_IO_H
#define PROXY_IO_IO_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <openssl/ssl.h>
#include <sys/queue.h>

#include "base/addr.h"
#include "base/buf.h"
#include "proxy/io/io_memory.h"

#define IO_HIGH      (64u << 10)  /* queued bytes from which the other side stops reading */
#define IO_LOW       (16u << 10)  /* … and at which it goes on */
#define IO_QUEUE_MAX (16u << 20)  /* more than that queued is ERR_LIMIT */
#define IO_SCRATCH   (128u << 10) /* bytes of io_scratch(), and of one recv() at most */
#define IO_SOON      (8u << 10)   /* more than that queued does not wait for the turn's end */
#define IO_RECORD    16384        /* bytes of one TLS record at most */
/* Bytes that TLS may take without one of what it carries: more than any handshake has. */
#define IO_VAIN (128u << 10)
/* Messages of its own after the handshake, tickets and new keys, and one more for each 64 KiB that was read. */
#define IO_MESSAGES 1000
#define IO_CROWD    64 /* so many connections has a sandbox on one side, before the next is of a crowd */
#define IO_CROWDED  (64 << 10) /* bytes, of either way, that the kernel holds for such a one, roughly */

struct io;

/* How the peer's stream ended. */
enum io_end {
    IO_END_NOT,     /* it has not */
    IO_END_CLEAN,   /* FIN on a clear connection; close_notify on a TLS one */
    IO_END_UNCLEAN, /* TLS: FIN without a close_notify: what a truncation looks like */
    IO_END_RESET,   /* RST, or another error of the socket */
    IO_END_BROKEN, /* TLS: a protocol error, a fatal alert, or too much that carries nothing: io_error_text says which */
};

/* Callbacks, one table for each kind of owner. Any may be NULL. Each may call anything here, io_free too. */
struct io_events {
    /* Connect or handshake ended: 0, ERR_TIMEOUT, ERR_IO (connect: errno is in io->sys_errno), ERR_CRYPTO (handshake
     * refused; see io_error_text), ERR_EOF (the peer went away during the handshake). Not called for an io opened as
     * connected until io_handshake. After an error the owner frees it. */
    void (*ready)(struct io *io, int err);
    /* There may be bytes: call io_read. Called again while bytes are left, so one io_read a call is enough. Not
     * called while paused, before ready, or after the end was reported by io_read. */
    void (*readable)(struct io *io);
    /* The queue fell to IO_LOW (under pressure: to nothing) after io_full() had been true, or ran empty after io_write
     * had to queue. */
    void (*drained)(struct io *io);
    /* Writing has failed in the background (ERR_EOF: the peer takes no more; ERR_CRYPTO; ERR_IO). What was queued is
     * gone and io_write fails from now on; reading goes on: an early answer may lie there. */
    void (*failed)(struct io *io, int err);
    /* The deadline has passed. It is not set any more. */
    void (*timeout)(struct io *io);
};

/*
 *     IO_CONNECTING --> IO_OPEN <--> IO_SHAKING
 *     any --> IO_CLOSED
 *
 * io_enter() in io.c is the one writer. Legal calls in each:
 */
enum io_state {
    IO_CONNECTING, /* connect() is under way: io_write queues, nothing is read; io_pause, io_deadline, io_free */
    IO_SHAKING,    /* the TLS handshake is: as before, and io_handshake again when it was suspended */
    IO_OPEN,       /* everything; before io_handshake also the state of a clear connection */
    IO_CLOSED,     /* nothing: freed, waiting for the stack to unwind */
    IO_STATES
};

struct io {
    int fd;
    SSL *ssl; /* NULL: clear */
    struct event_base *base;
    const struct io_events *events;
    void *arg; /* the owner's */
    enum io_state state;
    struct io_share share; /* begun by who opened it, or not; io_free ends it */

    enum io_end end;         /* set by the io_read that returned ERR_EOF */
    int sys_errno;           /* of the last failed system call */
    uint64_t received, sent; /* bytes above TLS: read by the owner, and taken by socket or TLS */
    uint64_t dropped;        /* … and written, but lost as writing failed */

    /* private */
    enum io_end end_ahead; /* it has come, and the next io_read says so */
    struct event rd, wr, timer;
    struct buf queue;
    size_t clear;      /* … whose first bytes are older than the TLS, and go out before it */
    struct buf unread; /* bytes given back by io_unread, below TLS */
    struct buf held;   /* records that end a handshake, and go with what follows */
    uint64_t deadline; /* ms by clock_coarse_ms; 0: none */
    uint64_t timer_at; /* when `timer` fires; 0: not pending */
    bool rd_on, wr_on; /* events are added */
    bool again;        /* the timer is to give `readable` its turn */
    bool blocked;      /* the socket was full: only the event writes, all others queue */
    bool paused;
    bool dry;      /* the last recv() was a short one: the next would only say EAGAIN */
    bool was_full; /* io_full() said yes, `drained` is owed */
    bool write_failed;
    bool more;                   /* what is written now is followed at once: MSG_MORE */
    bool held_back;              /* … and was, so that the kernel may wait, or `held` does */
    bool shut_wanted, shut_done; /* io_shutdown was called; close_notify and FIN are out */
    bool read_wants_write, write_wants_read;
    bool raw_fin, raw_reset; /* what the socket said below TLS */
    bool suspended;          /* the handshake waits for io_handshake to be called again */
    size_t vain;             /* see IO_VAIN */
    unsigned steps;          /* … and IO_MESSAGES: OpenSSL's, which takes IO_STEPS for each */
    unsigned fills;          /* recv()s for TLS in this call of io_read */
    bool babbled;            /* the peer had more of either */
    bool sensitive;          /* the queue is wiped as it is sent */
    bool cut, cut_reset;     /* io_cut was called */
    unsigned busy;           /* callbacks on the stack */
    unsigned linger_left;
    unsigned long tls_error; /* OpenSSL's, of the last failure */
    struct io *next, **link; /* of those that linger */
    bool dialled;            /* opened by a connect() of ours */
    TAILQ_ENTRY(io) soon;    /* of those that io_flush_soon was called for */
    bool is_soon;            /* … it is among them */
};

/* Takes `fd`, which must be non-blocking and CLOEXEC. `connecting`: a connect() is under way on it; TCP_NODELAY is
 * set, and `ready` follows. (Accepted sockets inherit TCP_NODELAY from their listener, which saves a system call.)
 * Otherwise reading begins at once. NULL: out of memory, or the kernel watches no more for this user; fd is closed. */
struct io *io_open(struct event_base *base, int fd, bool connecting, const struct io_events *events,
                   void *arg);

/* The kernel is to ask a peer of which nothing was heard for a minute, and that acknowledges nothing either, whether it is there:
 * three times, each 10 s. The stream of one that is not ends with io_unreachable(). What a listener has, accepted sockets
 * inherit. */
void io_keepalive(int fd);
/* The socket is one of a crowd: the kernel is to hold little of what its peer has no room for, and of what came and was not read. It
 * lets both grow to megabytes otherwise, for speed, which thousands of connections whose peers take nothing would make gigabytes: so
 * much that the kernel, whose limit is one for all of the host, takes from every connection there is. */
void io_crowded(int fd);
/* Has the stream ended since nothing reaches the peer any more? */
bool io_unreachable(const struct io *io);
/* Is it so, as far as can be told: has nothing come for `ms`, though what was sent, or a question whether there is room for
 * it, was repeated? The kernel of a peer that is there answers these, whatever its program does. */
bool io_unacknowledged(const struct io *io, unsigned ms);

/* Hands the io to another owner. */
void io_own(struct io *io, const struct io_events *events, void *arg);

/* Gives the io an SSL (client or server; made by SSL_new, without BIOs) and takes ownership of it. What is queued yet goes
 * out in clear, before the handshake begins. 0 or ERR_NOMEM; then the SSL is freed. */
int io_tls(struct io *io, SSL *ssl) MUST_CHECK;

/* Starts the handshake, or goes on with one that waits in the client-hello callback. `ready` is called, never from
 * within. */
void io_handshake(struct io *io);

/* Does the handshake wait in the client-hello callback? */
static inline bool io_suspended(const struct io *io) {
    return io->suspended;
}

/* Closes and frees. NULL is fine. Unsent bytes are dropped; if a clean io_shutdown has not been done and TLS is up,
 * a close_notify is tried once. */
void io_free(struct io *io);

/* Gives the io away: queued bytes are sent, then our end is shut, then what comes is read and thrown away until the
 * peer ends, `max` bytes came or `ms` have passed; then it is freed. This is how a refusal reaches a client that is
 * still sending: closing at once would make the kernel answer with RST, which takes the answer away. */
void io_linger(struct io *io, unsigned max, unsigned ms);

/* Gives the io away as something that was cut off: queued bytes are sent, then the connection ends without a
 * close_notify, so that a truncated answer is not taken for a whole one. `reset`: by RST, for a clear connection
 * whose answer has no other mark of its end. */
void io_cut(struct io *io, bool reset);

/* Frees all that linger or are being cut (at the end of the process). */
void io_end_lingering(void);

/* Reads up to n bytes, of TLS as many records as have come. 0: *got (> 0) bytes came. ERR_AGAIN: none now. ERR_EOF: the
 * stream has ended, io->end says how; no further `readable` comes. */
int io_read(struct io *io, void *p, size_t n, size_t *got) MUST_CHECK;

/* Gives bytes back that were read from a clear connection and belong to what comes after (a TLS handshake): the next
 * read, or TLS, gets them first. 0 or ERR_NOMEM. */
int io_unread(struct io *io, struct slice bytes) MUST_CHECK;

/* `readable` stops, and goes on. Pausing costs no system call until bytes come in fact. */
void io_pause(struct io *io);
void io_resume(struct io *io);

/* As far as is known without a system call, nothing lies unread or unsent, and the connection has not ended. */
bool io_at_rest(struct io *io);

/* A look at an idle connection before it is used again: true if nothing has come and it has not ended. */
bool io_idle_ok(struct io *io);

/* Writes at once what can be, and queues (copies) the rest. With `more`, bytes that follow soon are waited for: what
 * fills no record is only queued, and the kernel may keep the end of what does; io_flush or an io_write without `more`
 * sends all of it, with what follows in one record. 0; ERR_EOF, ERR_IO, ERR_CRYPTO (writing has failed, now or
 * earlier); ERR_LIMIT; ERR_NOMEM. */
int io_write(struct io *io, struct slice bytes, bool more);
/* The queue itself, to write heads into without a copy; follow with io_flush (or io_write). */
struct buf *io_queue(struct io *io);
int io_flush(struct io *io);
/* The same when the loop's turn ends (at once where it has nothing else to do): sends that follow one another wake the peers'
 * side once where they share a machine, find the kernel's code in the cache, and take with them what the turn still brings
 * for the same connection. What goes to clients, on connections that were accepted, goes first: whoever waited for it has asked
 * again by the next turn. */
int io_flush_soon(struct io *io);
/* … and at no time before it, for what comes in pieces, each of which may be small: together they are few records, and few system
 * calls. What fails is told by `failed`. */
void io_flush_late(struct io *io);

/* What is queued from now until the queue is empty holds a secret: it is wiped as it goes. Room for it should be
 * there (buf_reserve) before it is written into io_queue(), since growing leaves a copy behind; io_write leaves none. */
void io_sensitive(struct io *io);

static inline size_t io_queued(const struct io *io) {
    return buf_len(&io->queue);
}
/* The watermark. Remembered, so that `drained` is called. */
bool io_full(struct io *io);

/* Our end is over: when the queue is empty, close_notify (TLS) and FIN go out. Reading goes on. */
void io_shutdown(struct io *io);

/* `timeout` is called once in `ms` from now unless the deadline is moved or cleared (0) before. Moving it is cheap:
 * no system call, and no work in the event base unless it becomes earlier. */
void io_deadline(struct io *io, unsigned ms);

/* A block of IO_SCRATCH bytes, one for the process: good until the next call of anything that reads. */
char *io_scratch(void);

/* The last TLS error in words ("certificate verify failed", "tlsv1 alert unknown ca"), or strerror of the socket's.
 * Never NULL. */
const char *io_error_text(const struct io *io);

#endif
