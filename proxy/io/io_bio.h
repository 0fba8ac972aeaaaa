/*
 * The bottom of an io: system calls, and the BIO by which OpenSSL makes them. For io.c alone.
 *
 * A BIO of our own, since OpenSSL's socket BIO can neither give TLS the bytes that were read before it began, nor tell
 * FIN from RST, nor keep a FIN without close_notify from ending the SSL for writing too.
 */
#ifndef PROXY_IO_IO_BIO_H
#define PROXY_IO_IO_BIO_H

#include <openssl/err.h>

#include "proxy/io/io.h"

/* recv(), `unread` first. 0, ERR_AGAIN, or ERR_EOF with raw_fin or raw_reset set. */
int io_raw_read(struct io *io, void *p, size_t n, size_t *got);

/* send(). 0, ERR_AGAIN, ERR_EOF (the peer takes no more) or ERR_IO. */
int io_raw_write(struct io *io, const void *p, size_t n, size_t *taken);

/* OpenSSL's queue of errors must be empty before SSL_get_error is asked. It nearly always is, and emptying it takes
 * longer than looking. */
static inline void io_forget_errors(void) {
    if (ERR_peek_error())
        ERR_clear_error();
}

#endif
