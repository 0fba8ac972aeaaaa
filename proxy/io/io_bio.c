#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <string.h>
#include <sys/uio.h>

#include "proxy/io/io_parts.h"

int io_raw_read(struct io *io, void *p, size_t n, size_t *got) {
    *got = 0;
    if (io->raw_reset)
        return ERR_EOF;
    if (buf_len(&io->unread) > 0) {
        struct slice have = slice_sub(buf_slice(&io->unread), 0, n);
        memcpy(p, have.p, have.n);
        buf_consume(&io->unread, have.n);
        buf_trim(&io->unread);
        io_count(io);
        *got = have.n;
        return 0;
    }
    if (io->dry)
        return ERR_AGAIN;
    n = io_step(io, n);
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

/* One system call for what is held and `s` behind it. *taken is of `s`. */
static int io_raw_send(struct io *io, struct slice s, size_t *taken) {
    struct slice held = buf_slice(&io->held);
    struct iovec parts[] = {{(void *)held.p, held.n}, {(void *)s.p, s.n}};
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = 2};
    int flags = MSG_NOSIGNAL | (io->more ? MSG_MORE : 0);
    ssize_t r;
    do /* nearly always there is one part alone, and for that the kernel has a shorter way */
        r = held.n ? sendmsg(io->fd, &m, flags) : send(io->fd, s.p, s.n, flags);
    while (r < 0 && errno == EINTR);
    if (r >= 0) {
        size_t first = (size_t)r < held.n ? (size_t)r : held.n;
        buf_consume(&io->held, first);
        buf_trim(&io->held);
        io->held_back = io->more || first < held.n;
        *taken = (size_t)r - first;
        return *taken == 0 && s.n > 0 ? ERR_AGAIN : 0;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK)
        return ERR_AGAIN;
    io->sys_errno = errno;
    return errno == EPIPE || errno == ECONNRESET ? ERR_EOF : ERR_IO;
}

int io_raw_write(struct io *io, const void *p, size_t n, size_t *taken) {
    *taken = 0;
    if (io->more && io->state == IO_SHAKING && buf_put(&io->held, slice_make(p, n)) == 0) {
        io->held_back = true;
        *taken = n;
        return 0;
    }
    return io_raw_send(io, slice_make(p, n), taken);
}

void io_raw_push(struct io *io) {
    int one = 1;
    size_t taken;
    if (buf_len(&io->held) > 0) {
        int r = io_raw_send(io, SLICE_NONE, &taken);
        if (r && r != ERR_AGAIN)
            buf_release(&io->held); /* the next read or write says why */
        else if (buf_len(&io->held) > 0)
            io_want_write(io);
        return;
    }
    if (io->held_back)
        setsockopt(io->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    io->held_back = false;
}

/* ---- reading ahead ----
 *
 * One recv() brings what lies in the socket, into memory that all share. OpenSSL gets it a record at a time: held in a
 * buffer of its own, what is left would be moved to the front for each. io_raw_settle() leaves nothing here when the
 * io has had its turn. */

#define IO_AHEAD IO_SCRATCH

static char ahead[IO_AHEAD] __attribute__((aligned(64)));
static struct slice ahead_left; /* of the io whose turn it is */

static int io_ahead_read(struct io *io, void *p, size_t n, size_t *got) {
    if (ahead_left.n == 0) {
        if (n >= IO_AHEAD || buf_len(&io->unread) > 0)
            return io_raw_read(io, p, n, got);
        size_t all;
        int r = io_raw_read(io, ahead, IO_AHEAD, &all);
        io->fills++;
        if (r)
            return r;
        ahead_left = slice_make(ahead, all);
    }
    struct slice have = slice_sub(ahead_left, 0, n);
    memcpy(p, have.p, have.n);
    ahead_left = slice_from(ahead_left, have.n);
    *got = have.n;
    return 0;
}

bool io_raw_has(const struct io *io) {
    return ahead_left.n > 0 || buf_len(&io->unread) > 0;
}

void io_raw_settle(struct io *io) {
    if (ahead_left.n > 0 && buf_put(&io->unread, ahead_left))
        io->raw_reset = true; /* out of memory: a gap would be worse */
    ahead_left = SLICE_NONE;
    io_count(io);
}

#define IO_STEPS 3

/* What TLS says to TLS costs work and is told to nobody: OpenSSL goes on to the next message by itself, and would for as long as
 * the peer is faster than it. */
static bool io_babbles(const struct io *io) {
    return io->vain > IO_VAIN || io->steps / IO_STEPS > IO_MESSAGES + (io->received >> 16);
}

static void on_info(const SSL *ssl, int where, int value) {
    struct io *io = BIO_get_data(SSL_get_rbio(ssl));
    (void)value;
    if (where & SSL_CB_LOOP)
        io->steps++;
}

static int bio_read(BIO *bio, char *p, size_t n, size_t *got) {
    struct io *io = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (io_babbles(io)) {
        io->babbled = true;
        return 0;
    }
    int r = io_ahead_read(io, p, n, got);
    if (r == 0)
        io->vain += *got;
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
    SSL_set_info_callback(ssl, on_info);
    io->ssl = ssl;
    io->clear = buf_len(&io->queue);
    return 0;
}

/* ---- words ---- */

const char *io_error_text(const struct io *io) {
    if (io->babbled)
        return "too many bytes, or messages, of TLS that carry nothing";
    if (io->tls_error) {
        const char *text = ERR_reason_error_string(io->tls_error);
        return text ? text : "TLS error";
    }
    return io->sys_errno ? strerror(io->sys_errno) : "connection closed";
}
