/*
 * Sites: what a sandbox's pool knows of one origin.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/hash.h"
#include "proxy/upstream/upstream_parts.h"

#define SITES_MAX   1024 /* kept for their sessions when nobody uses them */
#define SITES_LOOKS 4    /* at the oldest, when one more has come */

static unsigned bucket_of(const struct upstream_origin *o) {
    uint64_t seed = HASH_SEED ^ o->port ^ (uint64_t)o->scheme << 16;
    return (unsigned)(hash_bytes(seed, url_host_slice(&o->host)) % POOL_BUCKETS);
}

static bool same_origin(const struct upstream_origin *a, const struct upstream_origin *b) {
    return a->scheme == b->scheme && a->port == b->port &&
           slice_eq(url_host_slice(&a->host), url_host_slice(&b->host));
}

unsigned pool_bucket(const struct addr *a) {
    bool v6 = a->sa.sa_family == AF_INET6;
    const void *bytes = v6 ? (const void *)&a->in6.sin6_addr : &a->in.sin_addr;
    return (unsigned)(hash_bytes(HASH_SEED ^ addr_port(a), slice_make(bytes, v6 ? 16 : 4)) % POOL_BUCKETS);
}

/* Whether the same addresses may be connected to, and TLS is exeat's or not. */
static bool same_reach(const struct upstream_options *a, const struct upstream_options *b) {
    return a->unread == b->unread && a->private_address == b->private_address &&
           a->private_name == b->private_name && a->nets == b->nets && a->nnets == b->nnets;
}

bool site_same_server(const struct site *site, const struct addr *addr, const struct site *known,
                      const struct addr *at) {
    return addr_eq(at, addr) && known->origin.port == site->origin.port &&
           same_reach(&known->options, &site->options);
}

struct site *site_get(struct upstream_pool *p, const struct upstream_origin *origin,
                      const struct upstream_options *options) {
    unsigned bucket = bucket_of(origin);
    struct site *site;
    LIST_FOREACH(site, &p->buckets[bucket], bucket)
    if (same_reach(&site->options, options) && same_origin(&site->origin, origin))
        break;
    if (site) {
        TAILQ_REMOVE(&p->sites, site, age);
    } else {
        site = calloc(1, sizeof *site);
        if (!site)
            return NULL;
        site->origin = *origin;
        site->options = *options;
        TAILQ_INIT(&site->idle);
        TAILQ_INIT(&site->http2);
        TAILQ_INIT(&site->tickets);
        LIST_INSERT_HEAD(&p->buckets[bucket], site, bucket);
        p->nsites++;
    }
    TAILQ_INSERT_TAIL(&p->sites, site, age);
    site->users++;
    return site;
}

void site_wants_http1(struct site *site) {
    site->http1_until = clock_monotonic_ms() + UPSTREAM_HTTP1_MS;
}

bool site_by_http1(const struct site *site) {
    return site->http1_until && clock_monotonic_ms() < site->http1_until;
}

void site_free(struct upstream_pool *p, struct site *site) {
    shared_leave(site);
    LIST_REMOVE(site, bucket);
    TAILQ_REMOVE(&p->sites, site, age);
    p->nsites--;
    tickets_free(site);
    free(site);
}

void site_put(struct upstream_pool *p, struct site *site) {
    site->users--;
    for (int i = 0; i < SITES_LOOKS && p->nsites > SITES_MAX; i++) {
        site = TAILQ_FIRST(&p->sites);
        if (site->users == 0 && site->nidle == 0) {
            site_free(p, site);
        } else { /* it is in use: not the oldest any more */
            TAILQ_REMOVE(&p->sites, site, age);
            TAILQ_INSERT_TAIL(&p->sites, site, age);
        }
    }
}
