#include "proxy/flow/nameserver.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "netns/dns.h"

#define UDP_BURST       64  /* questions answered in one turn of the loop */
#define TCP_BURST       16  /* connections accepted in one */
#define ACCEPT_PAUSE_MS 100 /* without descriptors to be had */

struct listener {
    LIST_ENTRY(listener) link;
    struct nameserver *server;
    int fd;
    struct event *event;
    struct event *again; /* TCP: accepting pauses */
};

struct client {
    LIST_ENTRY(client) link;
    struct nameserver *server;
    int fd;
    struct event *readable, *writable;
    struct buf in, out;
};

struct nameserver {
    struct event_base *base;
    struct names *names;
    bool ipv6; /* an IPv6 listener has been added */
    nameserver_refused *refused;
    void *arg;
    uint64_t refused_second; /* the second that is being counted */
    unsigned refused_count;
    LIST_HEAD(, listener) listeners;
    LIST_HEAD(, client) clients;
    size_t nclients;
};

/* Answers one question. False: nothing is to be sent. */
static bool answer(struct nameserver *s, struct slice question, uint8_t out[DNS_ANSWER_MAX], size_t *n) {
    struct dns_result result;
    if (dns_answer(question, s->names, s->ipv6, out, n, &result))
        return false;
    if (result.rcode == DNS_REFUSED && s->refused) {
        uint64_t second = clock_monotonic_ms() / 1000;
        if (second != s->refused_second)
            s->refused_count = 0;
        s->refused_second = second;
        if (s->refused_count++ < NAMESERVER_REFUSED_PER_SECOND)
            s->refused(s->arg, slice_make(result.query.name, result.query.n), "the name can't be a host's");
    }
    return true;
}

/* --- UDP ---------------------------------------------------------------------------------------------- */

static void on_udp(evutil_socket_t fd, short what, void *arg) {
    struct listener *l = arg;
    char question[DNS_QUERY_MAX + 1];
    uint8_t out[DNS_ANSWER_MAX];
    if (what & EV_CLOSED) { /* whoever made it has shut it down, and it would be readable for ever */
        event_del(l->event);
        return;
    }
    for (int i = 0; i < UDP_BURST; i++) {
        struct sockaddr_storage from;
        socklen_t from_len = sizeof from;
        size_t n;
        ssize_t got =
            recvfrom(fd, question, sizeof question, MSG_DONTWAIT, (struct sockaddr *)&from, &from_len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return;
        /* what can't be sent now is lost, as datagrams are: the client asks again */
        if (answer(l->server, slice_make(question, (size_t)got), out, &n))
            (void)sendto(fd, out, n, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&from, from_len);
    }
}

/* --- TCP ---------------------------------------------------------------------------------------------- */

static void client_free(struct client *c) {
    LIST_REMOVE(c, link);
    c->server->nclients--;
    if (c->readable)
        event_free(c->readable);
    if (c->writable)
        event_free(c->writable);
    close(c->fd);
    buf_release(&c->in);
    buf_release(&c->out);
    free(c);
}

static void wait_for(struct event *event) {
    const struct timeval limit = {.tv_sec = NAMESERVER_TCP_MS / 1000,
                                  .tv_usec = NAMESERVER_TCP_MS % 1000 * 1000};
    event_add(event, &limit);
}

/* Sends what is to be sent. 0; ERR_AGAIN: the rest goes when it can; ERR_EOF. */
static int client_flush(struct client *c) {
    while (buf_len(&c->out)) {
        struct slice out = buf_slice(&c->out);
        ssize_t n = send(c->fd, out.p, out.n, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? ERR_AGAIN : ERR_EOF;
        buf_consume(&c->out, (size_t)n);
    }
    return 0;
}

/* Answers the questions that are there, each when the answer before it is out. Non-zero: the client is gone. */
static int client_serve(struct client *c) {
    int r;
    while ((r = client_flush(c)) == 0) {
        struct slice question;
        size_t used, n;
        uint8_t out[DNS_ANSWER_MAX];
        int next = dns_tcp_next(buf_slice(&c->in), &question, &used);
        if (next == ERR_INCOMPLETE) {
            wait_for(c->readable);
            return 0;
        }
        if (next)
            break;
        if (answer(c->server, question, out, &n)) {
            buf_putc(&c->out, (char)(n >> 8));
            buf_putc(&c->out, (char)(n & 0xff));
            buf_put(&c->out, slice_make(out, n));
        }
        buf_consume(&c->in, used);
    }
    if (r == ERR_AGAIN) {
        wait_for(c->writable);
        return 0;
    }
    client_free(c);
    return ERR_EOF;
}

static void on_client_readable(evutil_socket_t fd, short what, void *arg) {
    struct client *c = arg;
    char *room;
    if (what & EV_TIMEOUT || buf_reserve(&c->in, 512, &room)) {
        client_free(c);
        return;
    }
    ssize_t n = recv(fd, room, 512, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        wait_for(c->readable);
        return;
    }
    if (n <= 0) {
        client_free(c);
        return;
    }
    buf_commit(&c->in, (size_t)n);
    client_serve(c);
}

static void on_client_writable(evutil_socket_t fd, short what, void *arg) {
    (void)fd;
    if (what & EV_TIMEOUT)
        client_free(arg);
    else
        client_serve(arg);
}

static void client_new(struct nameserver *s, int fd) {
    struct client *c = s->nclients < NAMESERVER_TCP_MAX ? calloc(1, sizeof *c) : NULL;
    if (!c) {
        close(fd);
        return;
    }
    int one = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->server = s;
    c->fd = fd;
    buf_init(&c->in, DNS_QUERY_MAX + 2 + 512);
    buf_init(&c->out, 2 + DNS_ANSWER_MAX);
    LIST_INSERT_HEAD(&s->clients, c, link);
    s->nclients++;
    c->readable = event_new(s->base, fd, EV_READ, on_client_readable, c);
    c->writable = event_new(s->base, fd, EV_WRITE, on_client_writable, c);
    if (!c->readable || !c->writable) {
        client_free(c);
        return;
    }
    wait_for(c->readable);
}

static void on_accept(evutil_socket_t fd, short what, void *arg) {
    struct listener *l = arg;
    (void)what;
    for (int i = 0; i < TCP_BURST; i++) {
        int got = accept4((int)fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (got >= 0) {
            client_new(l->server, got);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
            /* the listener stays readable: not to spin, it is left alone for a moment */
            const struct timeval pause = {.tv_usec = ACCEPT_PAUSE_MS * 1000};
            event_del(l->event);
            event_add(l->again, &pause);
        }
        if (errno == EINVAL) /* it listens no more, and would be readable for ever */
            event_del(l->event);
        if (errno != EINTR && errno != ECONNABORTED)
            return;
    }
}

static void on_again(evutil_socket_t fd, short what, void *arg) {
    struct listener *l = arg;
    (void)fd;
    (void)what;
    event_add(l->event, NULL);
}

/* --- life --------------------------------------------------------------------------------------------- */

static void listener_free(struct listener *l) {
    LIST_REMOVE(l, link);
    if (l->event)
        event_free(l->event);
    if (l->again)
        event_free(l->again);
    close(l->fd);
    free(l);
}

static int add_listener(struct nameserver *s, int fd, event_callback_fn callback) {
    struct listener *l = calloc(1, sizeof *l);
    if (!l) {
        close(fd);
        return ERR_NOMEM;
    }
    l->server = s;
    l->fd = fd;
    LIST_INSERT_HEAD(&s->listeners, l, link);
    int flags = fcntl(fd, F_GETFL), family = 0;
    socklen_t length = sizeof family;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &length) == 0 && family == AF_INET6)
        s->ipv6 = true;
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
        listener_free(l);
        return ERR_IO;
    }
    l->event = event_new(s->base, fd, EV_READ | EV_CLOSED | EV_PERSIST, callback, l);
    l->again = evtimer_new(s->base, on_again, l);
    if (!l->event || !l->again || event_add(l->event, NULL) < 0) {
        listener_free(l);
        return ERR_NOMEM;
    }
    return 0;
}

int nameserver_add_udp(struct nameserver *s, int fd) {
    return add_listener(s, fd, on_udp);
}

int nameserver_add_tcp(struct nameserver *s, int fd) {
    return add_listener(s, fd, on_accept);
}

struct nameserver *nameserver_new(struct event_base *base, struct names *names, nameserver_refused *refused,
                                  void *arg) {
    struct nameserver *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->base = base;
    s->names = names;
    s->refused = refused;
    s->arg = arg;
    LIST_INIT(&s->listeners);
    LIST_INIT(&s->clients);
    return s;
}

void nameserver_free(struct nameserver *s) {
    if (!s)
        return;
    for (struct client *c; (c = LIST_FIRST(&s->clients));)
        client_free(c);
    for (struct listener *l; (l = LIST_FIRST(&s->listeners));)
        listener_free(l);
    free(s);
}
