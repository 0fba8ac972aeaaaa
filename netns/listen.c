#include "netns/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netfilter_ipv4.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/addr.h"

#ifndef IP6T_SO_ORIGINAL_DST
#define IP6T_SO_ORIGINAL_DST 80 /* linux/netfilter_ipv6/ip6_tables.h, which clashes with others */
#endif

/* The kernel cuts it to net.core.somaxconn. */
#define BACKLOG 65535

/* Bound to loopback, never to the wildcard: an answer by UDP must come from the address that conntrack expects. *port is the port to
 * bind, 0 for any; the one bound is put there. Returns the socket or -1. */
static int open_one(int family, int type, uint16_t *port) {
    int fd = socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    struct addr a;
    int one = 1;
    addr_parse(family == AF_INET ? SLICE("127.0.0.1") : SLICE("::1"), *port, &a);
    if (family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one) < 0)
        goto fail;
    a.len = family == AF_INET ? sizeof a.in : sizeof a.in6;
    if (bind(fd, &a.sa, a.len) < 0)
        goto fail;
    if (type == SOCK_STREAM && listen(fd, BACKLOG) < 0)
        goto fail;
    if (getsockname(fd, &a.sa, &a.len) < 0)
        goto fail;
    *port = addr_port(&a);
    return fd;

fail:;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

/* For TPROXY; needs CAP_NET_ADMIN in here. What is accepted has both options from the listener. It is bound to a port of the world's,
 * which a server of the sandbox can have at all addresses nevertheless if both permit reuse. The listener shares its port with nobody:
 * it listens before it permits so. */
static bool transparent(int fd, int level, int option) {
    int one = 1;
    return setsockopt(fd, level, option, &one, sizeof one) == 0 &&
           setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0;
}

void listen_close(struct sandbox_listeners *l) {
    int *all[] = {&l->tcp4, &l->tcp6, &l->dns_udp4, &l->dns_udp6, &l->dns_tcp4, &l->dns_tcp6};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (*all[i] >= 0)
            close(*all[i]);
        *all[i] = -1;
    }
}

int listen_open(bool ipv6, struct sandbox_listeners *out, struct listen_ports *ports, struct errmsg *msg) {
    struct sandbox_listeners l = {-1, -1, -1, -1, -1, -1};
    *ports = (struct listen_ports){0};
    l.tcp4 = open_one(AF_INET, SOCK_STREAM, &ports->proxy);
    if (l.tcp4 < 0)
        goto fail;
    ports->transparent = transparent(l.tcp4, IPPROTO_IP, IP_TRANSPARENT);
    l.dns_tcp4 = open_one(AF_INET, SOCK_STREAM, &ports->dns);
    if (l.dns_tcp4 < 0)
        goto fail;
    l.dns_udp4 = open_one(AF_INET, SOCK_DGRAM, &ports->dns);
    if (l.dns_udp4 < 0)
        goto fail;
    if (ipv6) {
        l.tcp6 = open_one(AF_INET6, SOCK_STREAM, &ports->proxy);
        if (l.tcp6 < 0)
            goto fail;
        ports->transparent = transparent(l.tcp6, IPPROTO_IPV6, IPV6_TRANSPARENT) && ports->transparent;
        l.dns_tcp6 = open_one(AF_INET6, SOCK_STREAM, &ports->dns);
        if (l.dns_tcp6 < 0)
            goto fail;
        l.dns_udp6 = open_one(AF_INET6, SOCK_DGRAM, &ports->dns);
        if (l.dns_udp6 < 0)
            goto fail;
    }
    *out = l;
    return 0;

fail:
    errmsg_errno(msg, ERR_IO, "net namespace: listening sockets");
    listen_close(&l);
    return ERR_IO;
}

static bool is_loopback(const struct addr *a) {
    return a->sa.sa_family == AF_INET ? ntohl(a->in.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET
                                      : IN6_IS_ADDR_LOOPBACK(&a->in6.sin6_addr);
}

static int option(int fd, int which) {
    int value = -1;
    socklen_t n = sizeof value;
    return getsockopt(fd, SOL_SOCKET, which, &value, &n) < 0 ? -1 : value;
}

int netns_listener(int fd, int type) {
    int domain = option(fd, SO_DOMAIN), flags = fcntl(fd, F_GETFL);
    bool tcp = type == SOCK_STREAM;
    if ((domain != AF_INET && domain != AF_INET6) || option(fd, SO_TYPE) != type ||
        option(fd, SO_PROTOCOL) != (tcp ? IPPROTO_TCP : IPPROTO_UDP) ||
        (tcp && option(fd, SO_ACCEPTCONN) != 1))
        return ERR_PEER;
    return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? ERR_PEER : 0;
}

int netns_original_dst(int fd, struct addr *dst, bool *direct) {
    struct addr local = {.len = sizeof local.in6}, original = {.len = sizeof original.in6};
    if (getsockname(fd, &local.sa, &local.len) < 0)
        return ERR_IO;
    bool v4 = local.sa.sa_family == AF_INET;
    /* TPROXY leaves an address of the world as it is, NAT makes the listener's own of it */
    if (!is_loopback(&local))
        original = local;
    else if (getsockopt(fd, v4 ? SOL_IP : SOL_IPV6, v4 ? SO_ORIGINAL_DST : IP6T_SO_ORIGINAL_DST, &original.sa,
                        &original.len) < 0)
        return ERR_IO;
    /* the kernel leaves flow label, scope and, for IPv4, the length as it likes */
    *dst = original;
    dst->len = local.len;
    if (!v4) {
        dst->in6.sin6_flowinfo = 0;
        dst->in6.sin6_scope_id = 0;
    }
    if (direct)
        *direct = is_loopback(&local) && addr_eq(dst, &local);
    return 0;
}
