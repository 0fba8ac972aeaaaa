/*
 * Connections of HTTP/2 that serve more names than the one that they were made for (RFC 9113 9.1.1, RFC 9110 4.3.3).
 *
 * One server often stands behind many names, with one address and one certificate. A name that is new to the pool, and
 * that was looked up and whose addresses were checked as if it were to be connected to, becomes the guest of a connection
 * to one of these very addresses, if the certificate that was shown on it is good for the name. Nothing is got by that
 * which the name's own connection would not have had: the same peer would have been connected to, and verified by the
 * same certificate. What a policy says of where the two names may lead is the same. A connection through a proxy has no
 * guests: what address is behind it is not known.
 *
 * A guest stays as long as the connection lives and has room, as with one of its own, which it prefers. Whose server says
 * 421 is no guest ever again (upstream_misdirected). A server that sends an ORIGIN frame (RFC 8336) narrows what it serves on
 * the connection; that is taken as: to nobody but the name that it was made for.
 */
#include "ca/upstream.h"
#include "proxy/upstream/upstream_http2_parts.h"

void shared_add(struct upstream_pool *p, struct up2 *up) {
    if (up->proxied)
        return;
    LIST_INSERT_HEAD(&p->shared[pool_bucket(&up->peer)], up, shared);
    up->listed = true;
}

void shared_remove(struct up2 *up) {
    if (up->listed)
        LIST_REMOVE(up, shared);
    up->listed = false;
    for (struct site *guest; (guest = LIST_FIRST(&up->guests));)
        shared_leave(guest);
}

void shared_leave(struct site *site) {
    if (site->host)
        LIST_REMOVE(site, guest);
    site->host = NULL;
}

struct up2 *shared_join(struct upstream_pool *p, struct site *site, const struct addr *addrs, size_t n,
                        bool once) {
    unsigned looks = 0, checks = 0;
    struct up2 *up;
    if (site->alone || site->origin.host.kind != URL_HOST_NAME)
        return NULL;
    for (size_t i = 0; i < n; i++)
        LIST_FOREACH(up, &p->shared[pool_bucket(&addrs[i])], shared) {
            if (++looks > SAME_SERVER_LOOKS)
                return NULL;
            if (!site_same_server(site, &addrs[i], up->site, &up->peer) || !up2_usable(up, once))
                continue;
            if (ca_upstream_also(up->io->ssl, url_host_slice(&site->origin.host))) {
                shared_leave(site);
                LIST_INSERT_HEAD(&up->guests, site, guest);
                site->host = up;
                return up;
            }
            if (++checks == SAME_SERVER_CHECKS)
                return NULL;
        }
    return NULL;
}

bool upstream_misdirected(struct upstream_link *link, int status) {
    struct site *site = ((struct link *)link)->site;
    if (status != 421 || !site || !link->shared)
        return false;
    shared_leave(site);
    site->alone = true;
    return true;
}
