#include "proxy/upstream/dns_channel.h"

#include <ares.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "base/url.h"

#define TRY_MS    1500 /* the first try; c-ares doubles it for each round of the servers */
#define TRIES     3
#define EDNS_SIZE 1232 /* fits any path without fragments */

/* A socket of c-ares's, as long as it wants to be told of it. */
struct dns_socket {
    LIST_ENTRY(dns_socket) link;
    struct dns_channel *channel;
    ares_socket_t fd;
    struct event *event;
};

struct dns_channel {
    struct event_base *base;
    ares_channel ares;
    struct event *timer;
    bool ending; /* dns_channel_free: answers go nowhere */
    LIST_HEAD(, dns_socket) sockets;
};

struct dns_ask {
    struct dns_channel *channel;
    dns_found_done *done;
    void *arg;
};

static void set_timer(struct dns_channel *c) {
    struct timeval t, *due = ares_timeout(c->ares, NULL, &t);
    if (due)
        event_add(c->timer, due);
    else
        event_del(c->timer);
}

static void on_timer(evutil_socket_t fd, short what, void *arg) {
    struct dns_channel *c = arg;
    (void)fd;
    (void)what;
    ares_process_fd(c->ares, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    set_timer(c);
}

static void on_socket(evutil_socket_t fd, short what, void *arg) {
    struct dns_channel *c = arg;
    ares_process_fd(c->ares, what & EV_READ ? fd : ARES_SOCKET_BAD, what & EV_WRITE ? fd : ARES_SOCKET_BAD);
    set_timer(c);
}

/* c-ares says what it wants to hear of a socket; neither means that it is about to be closed. */
static void on_state(void *arg, ares_socket_t fd, int readable, int writable) {
    struct dns_channel *c = arg;
    struct dns_socket *s;
    LIST_FOREACH(s, &c->sockets, link)
    if (s->fd == fd)
        break;
    if (s) {
        event_free(s->event);
        s->event = NULL;
    }
    if (!readable && !writable) {
        if (s) {
            LIST_REMOVE(s, link);
            free(s);
        }
        return;
    }
    if (!s) {
        s = calloc(1, sizeof *s);
        if (!s)
            return; /* the question runs into its time limit */
        s->channel = c;
        s->fd = fd;
        LIST_INSERT_HEAD(&c->sockets, s, link);
    }
    short what = (short)(EV_PERSIST | (readable ? EV_READ : 0) | (writable ? EV_WRITE : 0));
    s->event = event_new(c->base, fd, what, on_socket, c);
    if (s->event)
        event_add(s->event, NULL);
}

static int found_error(int status) {
    switch (status) {
    case ARES_SUCCESS: return 0;
    case ARES_ENOTFOUND:
    case ARES_ENODATA:
    case ARES_ENONAME:
    case ARES_EBADNAME: return ERR_NOTFOUND;
    case ARES_ETIMEOUT: return ERR_TIMEOUT;
    default: return ERR_IO;
    }
}

static void take_nodes(const struct ares_addrinfo *info, struct dns_found *found) {
    found->ttl = UINT32_MAX;
    for (const struct ares_addrinfo_node *node = info->nodes; node; node = node->ai_next) {
        struct addr a = addr_from(node->ai_addr, node->ai_addrlen);
        if (a.len == 0)
            continue;
        if (node->ai_ttl >= 0 && (unsigned)node->ai_ttl < found->ttl)
            found->ttl = (unsigned)node->ai_ttl;
        if (a.sa.sa_family == AF_INET && found->n4 < DNS_FOUND_MAX)
            found->v4[found->n4++] = a;
        else if (a.sa.sa_family == AF_INET6 && found->n6 < DNS_FOUND_MAX)
            found->v6[found->n6++] = a;
    }
    if (found->n4 + found->n6 == 0)
        found->err = ERR_NOTFOUND;
}

static void on_answer(void *arg, int status, int timeouts, struct ares_addrinfo *info) {
    struct dns_ask *ask = arg;
    struct dns_found found = {.err = found_error(status)};
    (void)timeouts;
    if (found.err == 0 && info)
        take_nodes(info, &found);
    if (info)
        ares_freeaddrinfo(info);
    bool ending = ask->channel->ending;
    dns_found_done *done = ask->done;
    void *done_arg = ask->arg;
    free(ask);
    if (!ending)
        done(done_arg, &found);
}

int dns_channel_ask(struct dns_channel *c, const char *name, dns_found_done *done, void *arg) {
    char absolute[URL_HOST_MAX + 2];
    struct ares_addrinfo_hints hints = {
        .ai_family = AF_UNSPEC, .ai_flags = ARES_AI_NOSORT, .ai_socktype = SOCK_STREAM};
    struct dns_ask *ask = malloc(sizeof *ask);
    if (!ask)
        return ERR_NOMEM;
    *ask = (struct dns_ask){c, done, arg};
    /* the dot at the end keeps any notion of search domains away */
    snprintf(absolute, sizeof absolute, "%s.", name);
    ares_getaddrinfo(c->ares, absolute, NULL, &hints, on_answer, ask);
    set_timer(c);
    return 0;
}

int dns_channel_new(struct event_base *base, const char *resolv_conf, const char *servers,
                    struct dns_channel **out, struct errmsg *msg) {
    struct ares_options options = {0};
    int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_NDOTS | ARES_OPT_DOMAINS |
               ARES_OPT_LOOKUPS | ARES_OPT_SOCK_STATE_CB | ARES_OPT_EDNSPSZ;
    char lookups[] = "b";
    struct dns_channel *c = calloc(1, sizeof *c);
    if (!c)
        return errmsg_set(msg, ERR_NOMEM, "resolver: out of memory");
    LIST_INIT(&c->sockets);
    c->base = base;
    c->timer = evtimer_new(base, on_timer, c);
    options.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES | ARES_FLAG_EDNS;
    options.timeout = TRY_MS;
    options.tries = TRIES;
    options.ndots = 0;
    options.domains = NULL;
    options.ndomains = 0;
    options.lookups = lookups;
    options.ednspsz = EDNS_SIZE;
    options.sock_state_cb = on_state;
    options.sock_state_cb_data = c;
    if (resolv_conf) {
        options.resolvconf_path = (char *)(uintptr_t)resolv_conf; /* copied by c-ares */
        mask |= ARES_OPT_RESOLVCONF;
    }
    int r = ares_library_init(ARES_LIB_INIT_ALL);
    if (r == ARES_SUCCESS)
        r = ares_init_options(&c->ares, &options, mask);
    if (r == ARES_SUCCESS && servers)
        r = ares_set_servers_ports_csv(c->ares, servers);
    if (r != ARES_SUCCESS || !c->timer) {
        errmsg_set(msg, ERR_INTERNAL, "resolver: %s", r ? ares_strerror(r) : "out of memory");
        dns_channel_free(c);
        return ERR_INTERNAL;
    }
    *out = c;
    return 0;
}

void dns_channel_free(struct dns_channel *c) {
    if (!c)
        return;
    c->ending = true;
    if (c->ares)
        ares_destroy(c->ares); /* calls on_state for each socket, and every open question back */
    if (c->timer)
        event_free(c->timer);
    free(c);
}
