#include "proxy/io/io_bio.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <string.h>

int io_raw_read(struct io *io, void *p, size_t n, size_t *got) {
    *got = 0;
    if (buf_len(&io->unread) > 0) {
        struct slice have = slice_sub(buf_slice(&io->unread), 0, n);
        memcpy(p, have.p, have.n);
        buf_consume(&io->unread, have.n);
        buf_trim(&io->unread);
        *got = have.n;
        return 0;
    }
    if (io->dry)
        return ERR_AGAIN;
    ssize_t r;
    do
        r = recv(io->fd, p, n, 0);
    while (r < 0 && errno == EINTR);
    if (r > 0) {
        io->dry = (size_t)r < n;
        *got = (size_t)r;
        return 0;
    }
    if (r < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        io->dry = true;
        return ERR_AGAIN;
    }
    if (r == 0) {
        io->raw_fin = true;
    } else {
        io->raw_reset = true;
        io->sys_errno = errno;
    }
    return ERR_EOF;
}

int io_raw_write(struct io *io, const void *p, size_t n, size_t *taken) {
    *taken = 0;
    ssize_t r;
    do
        r = send(io->fd, p, n, MSG_NOSIGNAL);
    while (r < 0 && errno == EINTR);
    if (r >= 0) {
        *taken = (size_t)r;
        return 0;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK)
        return ERR_AGAIN;
    io->sys_errno = errno;
    return errno == EPIPE || errno == ECONNRESET ? ERR_EOF : ERR_IO;
}

static int bio_read(BIO *bio, char *p, size_t n, size_t *got) {
    int r = io_raw_read(BIO_get_data(bio), p, n, got);
    BIO_clear_retry_flags(bio);
    if (r == ERR_AGAIN)
        BIO_set_retry_read(bio);
    return r == 0;
}

static int bio_write(BIO *bio, const char *p, size_t n, size_t *taken) {
    int r = io_raw_write(BIO_get_data(bio), p, n, taken);
    BIO_clear_retry_flags(bio);
    if (r == ERR_AGAIN)
        BIO_set_retry_write(bio);
    return r == 0;
}

/* BIO_CTRL_EOF gets 0: OpenSSL would otherwise take a missing close_notify for a fatal error of the session. */
static long bio_ctrl(BIO *bio, int command, long number, void *p) {
    (void)bio;
    (void)number;
    (void)p;
    return command == BIO_CTRL_FLUSH || command == BIO_CTRL_DUP;
}

static int bio_create(BIO *bio) {
    BIO_set_init(bio, 1);
    return 1;
}

/* Made once for the process, never freed. */
static BIO_METHOD *bio_method(void) {
    static BIO_METHOD *method;
    if (method)
        return method;
    BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "io");
    if (!m)
        return NULL;
    BIO_meth_set_read_ex(m, bio_read);
    BIO_meth_set_write_ex(m, bio_write);
    BIO_meth_set_ctrl(m, bio_ctrl);
    BIO_meth_set_create(m, bio_create);
    return method = m;
}

int io_tls(struct io *io, SSL *ssl) {
    assert(!io->ssl);
    BIO_METHOD *method = bio_method();
    BIO *bio = method ? BIO_new(method) : NULL;
    if (!bio) {
        SSL_free(ssl);
        return ERR_NOMEM;
    }
    BIO_set_data(bio, io);
    SSL_set_bio(ssl, bio, bio);
    SSL_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                          SSL_MODE_RELEASE_BUFFERS);
    SSL_set_read_ahead(ssl, 1);
    io->ssl = ssl;
    return 0;
}

/* ---- words ---- */

const char *io_error_text(const struct io *io) {
    if (io->tls_error) {
        const char *text = ERR_reason_error_string(io->tls_error);
        return text ? text : "TLS error";
    }
    return io->sys_errno ? strerror(io->sys_errno) : "connection closed";
}
