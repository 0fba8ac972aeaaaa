/*
 * c-ares on the event loop: one name in, the addresses of both families out. No cache, no policy; used by
 * resolve.c alone.
 *
 * The configuration is read in dns_channel_new. Afterwards c-ares opens sockets and nothing else: look-ups
 * are by "b" (DNS) alone, without search domains, host aliases or sorting.
 */
#ifndef PROXY_UPSTREAM_DNS_CHANNEL_H
#define PROXY_UPSTREAM_DNS_CHANNEL_H

#include "base/addr.h"
#include "base/err.h"

struct event_base;
struct dns_channel;

#define DNS_FOUND_MAX 16 /* addresses of each family */

struct dns_found {
    int err;      /* 0, ERR_NOTFOUND, ERR_TIMEOUT, ERR_IO */
    unsigned ttl; /* the smallest of the answer's, in seconds */
    size_t n4, n6;
    struct addr v4[DNS_FOUND_MAX], v6[DNS_FOUND_MAX]; /* without port */
};

typedef void dns_found_done(void *arg, const struct dns_found *found);

/* 0 and a channel, or ERR_NOMEM, ERR_INTERNAL with a message. `resolv_conf`: a path; NULL: the system's.
 * `servers` (may be NULL) are taken instead of those that stand there. */
int dns_channel_new(struct event_base *base, const char *resolv_conf, const char *servers,
                    struct dns_channel **out, struct errmsg *msg);
/* No callback comes during this or after. */
void dns_channel_free(struct dns_channel *c);

/* `done` is called once, perhaps within this call. `name` is NUL-terminated. 0 or ERR_NOMEM (then it is
 * not called). */
int dns_channel_ask(struct dns_channel *c, const char *name, dns_found_done *done, void *arg);

#endif
