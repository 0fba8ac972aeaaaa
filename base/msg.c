#include "base/msg.h"

#include <endian.h>
#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/pages.h"

struct msg_room msg_room;

void msg_settle(void) {
    pages_give_back(&msg_room, sizeof msg_room);
}

static inline void put_bytes(struct msg_out *m, const void *p, size_t n) {
    if (m->err)
        return;
    if (n > m->cap - m->n) {
        m->err = ERR_LIMIT;
        return;
    }
    if (n)
        memcpy(m->p + m->n, p, n);
    m->n += n;
}

static inline void put_le(struct msg_out *m, uint64_t v, size_t n) {
    uint64_t little = htole64(v);
    put_bytes(m, &little, n);
}

void msg_begin(struct msg_out *m, void *memory, size_t cap, uint16_t type) {
    /* fds stay as they are: none is there */
    m->p = memory;
    m->n = 0;
    m->cap = cap < MSG_MAX ? cap : MSG_MAX;
    m->err = 0;
    m->nfds = 0;
    msg_put_u8(m, MSG_VERSION);
    msg_put_u8(m, 0);
    msg_put_u16(m, type);
}

void msg_put_u8(struct msg_out *m, uint8_t v) {
    put_le(m, v, 1);
}

void msg_put_u16(struct msg_out *m, uint16_t v) {
    put_le(m, v, 2);
}

void msg_put_u32(struct msg_out *m, uint32_t v) {
    put_le(m, v, 4);
}

void msg_put_u64(struct msg_out *m, uint64_t v) {
    put_le(m, v, 8);
}

void msg_put_slice(struct msg_out *m, struct slice s) {
    uint32_t little = htole32((uint32_t)s.n);
    if (m->err)
        return;
    /* length and bytes are one look at the room: a record is made of some forty of these */
    if (s.n > MSG_MAX || sizeof little + s.n > m->cap - m->n) {
        m->err = ERR_LIMIT;
        return;
    }
    memcpy(m->p + m->n, &little, sizeof little);
    if (s.n)
        memcpy(m->p + m->n + sizeof little, s.p, s.n);
    m->n += sizeof little + s.n;
}

void msg_put_str(struct msg_out *m, const char *s) {
    msg_put_slice(m, slice_str(s));
}

void msg_put_fd(struct msg_out *m, int fd) {
    if (m->nfds == MSG_FDS_MAX) {
        m->err = ERR_LIMIT;
        return;
    }
    m->fds[m->nfds++] = fd;
}

int msg_send(int fd, const struct msg_out *m) {
    if (m->err)
        return m->err;
    struct iovec iov = {.iov_base = m->p, .iov_len = m->n};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * MSG_FDS_MAX)];
    } control;
    struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};
    if (m->nfds) {
        memset(&control, 0, sizeof control);
        h.msg_control = control.bytes;
        h.msg_controllen = CMSG_SPACE(sizeof(int) * m->nfds);
        struct cmsghdr *c = CMSG_FIRSTHDR(&h);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * m->nfds);
        memcpy(CMSG_DATA(c), m->fds, sizeof(int) * m->nfds);
    }
    for (;;) {
        ssize_t n = sendmsg(fd, &h, MSG_NOSIGNAL);
        if (n >= 0)
            return 0;
        if (errno == EINTR)
            continue;
        if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS)
            return ERR_AGAIN;
        if (errno == ETOOMANYREFS)
            return ERR_LIMIT;
        return errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN ? ERR_EOF : ERR_IO;
    }
}

const char *msg_send_text(int err) {
    return err == ERR_LIMIT ? "too many descriptors of this user's are on their way (ulimit -n)"
                            : err_text(err);
}

static void take_fds(struct msg_in *m, struct msghdr *h) {
    for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int got;
            memcpy(&got, CMSG_DATA(c) + i * sizeof(int), sizeof got);
            if (m->nfds < MSG_FDS_MAX)
                m->fds[m->nfds++] = got;
            else
                close(got);
        }
    }
}

int msg_recv(int fd, struct msg_in *m, void *memory, size_t cap) {
    struct iovec iov = {.iov_base = memory, .iov_len = cap};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * MSG_FDS_MAX)];
    } control;
    struct msghdr h = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof control.bytes};
    ssize_t n;
    /* A peer that ended with messages unread shows as ECONNRESET, once, before what it sent: its last words are read all the same. */
    int resets = 0;
    do
        n = recvmsg(fd, &h, MSG_CMSG_CLOEXEC);
    while (n < 0 && (errno == EINTR || (errno == ECONNRESET && resets++ == 0)));
    *m = (struct msg_in){0};
    if (n < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return ERR_AGAIN;
        return errno == ECONNRESET ? ERR_EOF : ERR_IO;
    }
    take_fds(m, &h);
    if (n == 0) {
        msg_close_fds(m);
        return ERR_EOF;
    }
    struct msg_in parsed;
    int r = h.msg_flags & MSG_TRUNC ? ERR_PEER : msg_parse(&parsed, memory, (size_t)n);
    m->cut = h.msg_flags & MSG_CTRUNC;
    if (r || m->cut)
        msg_close_fds(m);
    if (r)
        return r;
    m->p = parsed.p;
    m->n = parsed.n;
    m->at = parsed.at;
    m->type = parsed.type;
    return 0;
}

int msg_parse(struct msg_in *m, const void *bytes, size_t n) {
    m->p = bytes;
    m->n = n;
    m->at = 0;
    m->err = 0;
    m->nfds = m->fds_taken = 0;
    m->cut = false;
    uint8_t version = msg_get_u8(m);
    uint8_t reserved = msg_get_u8(m);
    m->type = msg_get_u16(m);
    return m->err || version != MSG_VERSION || reserved ? ERR_PEER : 0;
}

static inline uint64_t get_le(struct msg_in *m, size_t n) {
    if (m->err || n > m->n - m->at) {
        m->err = ERR_PEER;
        return 0;
    }
    uint64_t little = 0;
    memcpy(&little, m->p + m->at, n);
    m->at += n;
    return le64toh(little);
}

uint8_t msg_get_u8(struct msg_in *m) {
    return (uint8_t)get_le(m, 1);
}

uint16_t msg_get_u16(struct msg_in *m) {
    return (uint16_t)get_le(m, 2);
}

uint32_t msg_get_u32(struct msg_in *m) {
    return (uint32_t)get_le(m, 4);
}

uint64_t msg_get_u64(struct msg_in *m) {
    return get_le(m, 8);
}

struct slice msg_get_slice(struct msg_in *m) {
    size_t n = msg_get_u32(m);
    if (m->err || n > m->n - m->at) {
        m->err = ERR_PEER;
        return SLICE_NONE;
    }
    struct slice s = slice_make(m->p + m->at, n);
    m->at += n;
    return s;
}

int msg_get_fd(struct msg_in *m) {
    if (m->fds_taken >= m->nfds) {
        m->err = ERR_PEER;
        return -1;
    }
    int fd = m->fds[m->fds_taken];
    m->fds[m->fds_taken++] = -1;
    return fd;
}

int msg_end(const struct msg_in *m) {
    return m->err || m->cut || m->at != m->n || m->fds_taken != m->nfds ? ERR_PEER : 0;
}

void msg_close_fds(struct msg_in *m) {
    for (size_t i = 0; i < m->nfds; i++)
        if (m->fds[i] >= 0)
            close(m->fds[i]);
    m->nfds = m->fds_taken = 0;
}

int msg_pair(int fds[2]) {
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0 ? ERR_IO : 0;
}
