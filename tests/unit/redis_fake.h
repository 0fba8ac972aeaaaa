/* A Redis from a script: good, silent, half dead, grumbling or hostile. */
#ifndef TESTS_UNIT_REDIS_FAKE_H
#define TESTS_UNIT_REDIS_FAKE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <unistd.h>

#include <cmocka.h>
#include <event2/event.h>

#include "base/addr.h"
#include "base/buf.h"

enum mood {
    GOOD,
    SILENT,  /* reads, never answers */
    DEAF,    /* does not even read */
    GRUMBLE, /* answers XADD with an error */
    RESET,   /* answers half and resets */
    TRICKLE, /* a byte of the answer each 100 ms */
    POUR,    /* answers without an end, until POURED bytes have gone */
    HOSTILE, /* answers by `error`, whatever that is; and says it at first, before anything was asked, if `early` */
};

#define POURED (64u << 20)

struct peer;

struct fake {
    struct event_base *base;
    int listener, port;
    struct event *accepting;
    enum mood mood;
    const char *error;
    bool early;
    size_t poured;
    unsigned connections, closed;
    LIST_HEAD(, peer) peers;
    uint64_t commands, acknowledged, xadds; /* xadds: acknowledged ones */
    uint64_t gaps;                          /* XADDs that are a gap */
    char last[4096];                        /* the last command's words, spaces between */
};

struct peer {
    LIST_ENTRY(peer) link;
    struct fake *fake;
    int fd;
    struct event *event, *trickle, *pour;
    struct buf in;
};

static void peer_free(struct peer *p, bool reset) {
    struct linger now = {.l_onoff = 1};
    if (reset)
        setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    LIST_REMOVE(p, link);
    event_free(p->event);
    event_free(p->trickle);
    event_free(p->pour);
    close(p->fd);
    buf_release(&p->in);
    p->fake->closed++;
    free(p);
}

static struct slice line_of(struct slice *rest) {
    const char *end = memmem(rest->p, rest->n, "\r\n", 2);
    if (!end)
        return SLICE_NONE;
    struct slice line = slice_sub(*rest, 0, (size_t)(end - rest->p));
    *rest = slice_from(*rest, line.n + 2);
    return line;
}

/* One command in RESP: bytes used, 0 if it is not all there. */
static size_t take_command(struct fake *f, struct slice all) {
    struct slice rest = all, line = line_of(&rest);
    uint64_t words, n;
    size_t at = 0;
    if (!line.n)
        return 0;
    assert_true(line.p[0] == '*' && slice_u64(slice_from(line, 1), 1000, &words));
    for (uint64_t i = 0; i < words; i++) {
        line = line_of(&rest);
        if (!line.n)
            return 0;
        assert_true(line.p[0] == '$' && slice_u64(slice_from(line, 1), 1 << 20, &n));
        if (rest.n < n + 2)
            return 0;
        at += (size_t)snprintf(f->last + at, sizeof f->last - at, "%s%.*s", i ? " " : "", (int)n, rest.p);
        if (at >= sizeof f->last)
            at = sizeof f->last - 1;
        assert_true(rest.p[n] == '\r' && rest.p[n + 1] == '\n');
        rest = slice_from(rest, n + 2);
    }
    return all.n - rest.n;
}

static void on_trickle(evutil_socket_t fd, short what, void *arg) {
    struct peer *p = arg;
    const struct timeval wait = {.tv_usec = 100000};
    (void)fd;
    (void)what;
    if (send(p->fd, "$", 1, MSG_NOSIGNAL) == 1)
        event_add(p->trickle, &wait);
}

/* An answer that has no end. */
static void on_pour(evutil_socket_t fd, short what, void *arg) {
    static char much[65536];
    struct peer *p = arg;
    const struct timeval wait = {.tv_usec = 1000};
    (void)fd;
    (void)what;
    for (ssize_t n; p->fake->poured < POURED && (n = send(p->fd, much, sizeof much, MSG_NOSIGNAL)) > 0;)
        p->fake->poured += (size_t)n;
    event_add(p->pour, &wait);
}

/* False: the peer is gone. */
static bool reply(struct peer *p) {
    struct fake *f = p->fake;
    const char *text = "+OK\r\n";
    bool xadd = strncmp(f->last, "XADD ", 5) == 0;
    f->commands++;
    switch (f->mood) {
    case SILENT:
    case DEAF: return true;
    case TRICKLE:
        if (!evtimer_pending(p->trickle, NULL))
            on_trickle(-1, 0, p);
        return true;
    case RESET:
        (void)!send(p->fd, "$1", 2, MSG_NOSIGNAL);
        peer_free(p, true);
        return false;
    case POUR:
        (void)!send(p->fd, "$1000000000\r\n", 13, MSG_NOSIGNAL);
        on_pour(-1, 0, p);
        return true;
    case GRUMBLE:
        if (xadd || !f->error[0])
            text = f->error;
        break;
    case HOSTILE: text = f->error; break;
    case GOOD: break;
    }
    if (text[0] == '+' && xadd) {
        f->xadds++;
        f->gaps += strstr(f->last, " event gap ") != NULL;
    }
    f->acknowledged++;
    (void)!send(p->fd, text, strlen(text), MSG_NOSIGNAL);
    return true;
}

static void on_peer(evutil_socket_t fd, short what, void *arg) {
    struct peer *p = arg;
    char *room;
    (void)what;
    if (p->fake->mood == DEAF) {
        event_del(p->event);
        return;
    }
    assert_int_equal(buf_reserve(&p->in, 65536, &room), 0);
    ssize_t n = recv(fd, room, 65536, MSG_DONTWAIT);
    if (n <= 0) {
        peer_free(p, false);
        return;
    }
    buf_commit(&p->in, (size_t)n);
    for (size_t used; (used = take_command(p->fake, buf_slice(&p->in)));) {
        buf_consume(&p->in, used);
        if (!reply(p))
            return;
    }
}

static void on_accept(evutil_socket_t fd, short what, void *arg) {
    struct fake *f = arg;
    (void)what;
    int got = accept4((int)fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (got < 0)
        return;
    struct peer *p = calloc(1, sizeof *p);
    f->connections++;
    LIST_INSERT_HEAD(&f->peers, p, link);
    p->fake = f;
    p->fd = got;
    buf_init(&p->in, 4 << 20);
    p->event = event_new(f->base, got, EV_READ | EV_PERSIST, on_peer, p);
    p->trickle = evtimer_new(f->base, on_trickle, p);
    p->pour = evtimer_new(f->base, on_pour, p);
    event_add(p->event, NULL);
    if (f->early && f->mood == HOSTILE)
        (void)!send(p->fd, f->error, strlen(f->error), MSG_NOSIGNAL);
}

static void fake_listen(struct fake *f) {
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)f->port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof a;
    int one = 1;
    f->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(f->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    assert_int_equal(bind(f->listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(f->listener, 16), 0);
    getsockname(f->listener, (struct sockaddr *)&a, &n);
    f->port = ntohs(a.sin_port);
    f->accepting = event_new(f->base, f->listener, EV_READ | EV_PERSIST, on_accept, f);
    event_add(f->accepting, NULL);
}

static void fake_close(struct fake *f) {
    event_free(f->accepting);
    close(f->listener);
}

/* The peers that never saw the other side's end, too. */
static void fake_end(struct fake *f) {
    for (struct peer *p; (p = LIST_FIRST(&f->peers));)
        peer_free(p, false);
    fake_close(f);
}

#endif
