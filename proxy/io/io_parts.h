/*
 * What the files of an io share. For io.c, io_write.c and io_bio.c alone.
 */
#ifndef PROXY_IO_IO_PARTS_H
#define PROXY_IO_IO_PARTS_H

#include <openssl/err.h>

#include "proxy/io/io.h"

/* OpenSSL's queue of errors must be empty before SSL_get_error is asked. It nearly always is, and emptying it takes
 * longer than looking. */
static inline void io_forget_errors(void) {
    if (ERR_peek_error())
        ERR_clear_error();
}

/* What it holds, in its sandbox's sum: after each change of either. */
static inline void io_count(struct io *io) {
    io_share_set(&io->share, io->queue.cap + io->unread.cap);
}

/* How much of n bytes is read at once? */
static inline size_t io_step(const struct io *io, size_t n) {
    return n > IO_RECORD && io_share_pressed(&io->share) ? IO_RECORD : n;
}

/* ---- io.c: what the socket is watched for ---- */

void io_want_write(struct io *io);
void io_want_read(struct io *io);

/* The turn's end, which io_flush_soon was called for. */
void io_on_turn_end(struct io *io);

/* ---- io_write.c ---- */

/* Can nothing be written now? An event will say when. */
static inline bool io_blocked(const struct io *io) {
    return io->state != IO_OPEN || io->blocked || io->write_wants_read;
}

/* io_flush_soon is forgotten. */
void io_not_soon(struct io *io);

/* Sends the queue, as far as it goes. 0, ERR_AGAIN with an event armed, or the failure. */
int io_send_queue(struct io *io);

/* Sends what was queued in clear before TLS began. As io_send_queue. */
int io_send_clear(struct io *io);

/* Our end is over and all is sent: close_notify and FIN. */
void io_say_end(struct io *io);

void io_drop_queue(struct io *io);

/* ---- io_bio.c: the bottom, which is system calls and the BIO by which OpenSSL makes them ----
 *
 * A BIO of our own, since OpenSSL's socket BIO can neither give TLS the bytes that were read before it began, nor tell
 * FIN from RST, nor keep a FIN without close_notify from ending the SSL for writing too. */

/* recv(), `unread` first. 0, ERR_AGAIN, or ERR_EOF with raw_fin or raw_reset set. */
int io_raw_read(struct io *io, void *p, size_t n, size_t *got);

/* Are there bytes that were read and that TLS has not asked for yet? */
bool io_raw_has(const struct io *io);

/* Keeps them for the io's next turn. To be called before another io reads. */
void io_raw_settle(struct io *io);

/* Sends, by MSG_MORE where io->more says so; in a handshake that is not sent at all yet, but held until there is more. 0,
 * ERR_AGAIN, ERR_EOF (the peer takes no more) or ERR_IO. */
int io_raw_write(struct io *io, const void *p, size_t n, size_t *taken);

/* What is held, or kept in the kernel by MSG_MORE, goes out; where it can't, an event is armed. */
void io_raw_push(struct io *io);

#endif
