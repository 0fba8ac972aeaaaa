#include "netns/link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/fib_rules.h>
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "netns/names.h"

/* The table of link_deliver, and the place of its rule: behind that of the host's addresses, before all others. */
#define DELIVERED 100

struct rtnl {
    struct mnl_socket *socket;
    unsigned port, seq;
    char memory[1024];
};

static struct nlmsghdr *rtnl_begin(struct rtnl *r, uint16_t type, uint16_t flags) {
    struct nlmsghdr *h = mnl_nlmsg_put_header(r->memory);
    h->nlmsg_type = type;
    h->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags;
    h->nlmsg_seq = ++r->seq;
    return h;
}

/* Sends one request and waits for its acknowledgement. 0, or -1 and errno. */
static int rtnl_talk(struct rtnl *r, struct nlmsghdr *h) {
    char answer[8192];
    if (mnl_socket_sendto(r->socket, h, h->nlmsg_len) < 0)
        return -1;
    for (;;) {
        ssize_t n = mnl_socket_recvfrom(r->socket, answer, sizeof answer);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        int done = mnl_cb_run(answer, (size_t)n, r->seq, r->port, NULL, NULL);
        if (done <= MNL_CB_STOP)
            return done < 0 ? -1 : 0;
    }
}

static int lo_up(struct rtnl *r) {
    struct nlmsghdr *h = rtnl_begin(r, RTM_NEWLINK, 0);
    struct ifinfomsg *m = mnl_nlmsg_put_extra_header(h, sizeof *m);
    m->ifi_family = AF_UNSPEC;
    m->ifi_index = LINK_LO;
    m->ifi_flags = IFF_UP;
    m->ifi_change = IFF_UP;
    return rtnl_talk(r, h);
}

static int add_address(struct rtnl *r, int family, const void *addr, size_t n) {
    struct nlmsghdr *h = rtnl_begin(r, RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE);
    struct ifaddrmsg *m = mnl_nlmsg_put_extra_header(h, sizeof *m);
    m->ifa_family = (uint8_t)family;
    m->ifa_prefixlen = (uint8_t)(8 * n);
    m->ifa_flags = family == AF_INET6 ? IFA_F_NODAD : 0;
    m->ifa_index = LINK_LO;
    m->ifa_scope = RT_SCOPE_UNIVERSE;
    mnl_attr_put(h, IFA_LOCAL, n, addr);
    mnl_attr_put(h, IFA_ADDRESS, n, addr);
    return rtnl_talk(r, h);
}

/* The default route to lo, in the main table, or in DELIVERED as one to the host itself. */
static int put_route(struct rtnl *r, uint16_t type, uint8_t table, int family, const void *source) {
    bool local = table == DELIVERED;
    struct nlmsghdr *h = rtnl_begin(r, type, type == RTM_NEWROUTE ? NLM_F_CREATE | NLM_F_REPLACE : 0);
    struct rtmsg *m = mnl_nlmsg_put_extra_header(h, sizeof *m);
    m->rtm_family = (uint8_t)family;
    m->rtm_table = table;
    m->rtm_protocol = RTPROT_STATIC;
    m->rtm_scope = local ? RT_SCOPE_HOST : family == AF_INET ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE;
    m->rtm_type = local ? RTN_LOCAL : RTN_UNICAST;
    mnl_attr_put_u32(h, RTA_OIF, LINK_LO);
    /* what goes to the world comes from the address that is not loopback, whatever order addresses have */
    mnl_attr_put(h, RTA_PREFSRC, family == AF_INET ? 4 : 16, source);
    return rtnl_talk(r, h);
}

static int put_rule(struct rtnl *r, uint16_t type, int family) {
    struct nlmsghdr *h = rtnl_begin(r, type, type == RTM_NEWRULE ? NLM_F_CREATE | NLM_F_EXCL : 0);
    struct fib_rule_hdr *m = mnl_nlmsg_put_extra_header(h, sizeof *m);
    m->family = (uint8_t)family;
    m->table = DELIVERED;
    m->action = FR_ACT_TO_TBL;
    mnl_attr_put_u32(h, FRA_PRIORITY, DELIVERED);
    return rtnl_talk(r, h);
}

static int put_sysctl(const char *path, const char *value) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = write(fd, value, strlen(value));
    int saved = errno;
    close(fd);
    errno = saved;
    return n < 0 ? -1 : 0;
}

static int fail(struct errmsg *msg, const char *what) {
    return errmsg_errno(msg, errno == EPERM || errno == EACCES ? ERR_UNSUPPORTED : ERR_IO,
                        "net namespace: %s", what);
}

/* Conveniences: a host where they can't be set is served without them. */
static void setup_sysctls(bool root) {
    char range[64];
    (void)put_sysctl("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
    snprintf(range, sizeof range, "%u %u", root ? 0 : (unsigned)getegid(),
             root ? 2147483647u : (unsigned)getegid());
    (void)put_sysctl("/proc/sys/net/ipv4/ping_group_range", range);
}

void link_own6(const uint8_t prefix6[8], uint8_t out[16]) {
    memcpy(out, prefix6, 8);
    memset(out + 8, 0xff, 8);
}

/* IPv6 is there if a socket can be bound to ::1 once lo is up. A host that has it compiled out or switched
 * off by ipv6.disable=1 has no such socket family or address; disable_ipv6 as a default of new namespaces is taken back. */
static bool have_ipv6(void) {
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    (void)put_sysctl("/proc/sys/net/ipv6/conf/all/disable_ipv6", "0");
    (void)put_sysctl("/proc/sys/net/ipv6/conf/lo/disable_ipv6", "0");
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int r = -1;
    /* ::1 appears with lo, but not always in the same instant */
    for (int i = 0; i < 20 && r < 0; i++) {
        r = bind(fd, (struct sockaddr *)&a, sizeof a);
        if (r < 0)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    close(fd);
    return r == 0;
}

static int setup(struct rtnl *r, const uint8_t prefix6[8], bool *ipv6, struct errmsg *msg) {
    uint8_t own6[16];
    struct in_addr own4;
    inet_pton(AF_INET, NAMES_OWN4, &own4);
    link_own6(prefix6, own6);
    if (lo_up(r) < 0)
        return fail(msg, "lo can't be set up");
    if (add_address(r, AF_INET, &own4, sizeof own4) < 0)
        return fail(msg, "IPv4 address (RTM_NEWADDR)");
    if (put_route(r, RTM_NEWROUTE, RT_TABLE_MAIN, AF_INET, &own4) < 0)
        return fail(msg, "IPv4 route (RTM_NEWROUTE)");
    *ipv6 = have_ipv6();
    if (!*ipv6)
        return 0;
    if (add_address(r, AF_INET6, own6, sizeof own6) < 0)
        return fail(msg, "IPv6 address (RTM_NEWADDR)");
    if (put_route(r, RTM_NEWROUTE, RT_TABLE_MAIN, AF_INET6, own6) < 0)
        return fail(msg, "IPv6 route (RTM_NEWROUTE)");
    return 0;
}

/* 0, or -1 and errno. */
static int rtnl_open(struct rtnl *r) {
    *r = (struct rtnl){.socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC)};
    if (!r->socket)
        return -1;
    if (mnl_socket_bind(r->socket, 0, MNL_SOCKET_AUTOPID) < 0) {
        int saved = errno;
        mnl_socket_close(r->socket);
        errno = saved;
        return -1;
    }
    r->port = mnl_socket_get_portid(r->socket);
    return 0;
}

int link_setup(const uint8_t prefix6[8], bool root, bool *ipv6, struct errmsg *msg) {
    struct rtnl r;
    if (rtnl_open(&r) < 0)
        return fail(msg, "rtnetlink socket");
    setup_sysctls(root);
    int ret = setup(&r, prefix6, ipv6, msg);
    mnl_socket_close(r.socket);
    return ret;
}

/* One of the steps of link_deliver: rule and route for each family. */
static int deliver_step(struct rtnl *r, const uint8_t prefix6[8], unsigned step, bool on) {
    uint8_t own[16];
    int family = step < 2 ? AF_INET : AF_INET6;
    if (step % 2 == 0)
        return put_rule(r, on ? RTM_NEWRULE : RTM_DELRULE, family);
    if (family == AF_INET)
        inet_pton(AF_INET, NAMES_OWN4, own);
    else
        link_own6(prefix6, own);
    return put_route(r, on ? RTM_NEWROUTE : RTM_DELROUTE, DELIVERED, family, own);
}

static void undo_steps(struct rtnl *r, const uint8_t prefix6[8], unsigned n) {
    while (n > 0)
        (void)deliver_step(r, prefix6, --n, false);
}

static unsigned all_steps(bool ipv6) {
    return ipv6 ? 4 : 2;
}

bool link_deliver(const uint8_t prefix6[8], bool ipv6) {
    struct rtnl r;
    unsigned n = 0;
    if (rtnl_open(&r) < 0)
        return false;
    while (n < all_steps(ipv6) && deliver_step(&r, prefix6, n, true) == 0)
        n++;
    bool all = n == all_steps(ipv6);
    if (!all)
        undo_steps(&r, prefix6, n);
    mnl_socket_close(r.socket);
    return all;
}

void link_undeliver(const uint8_t prefix6[8], bool ipv6) {
    struct rtnl r;
    if (rtnl_open(&r) < 0)
        return;
    undo_steps(&r, prefix6, all_steps(ipv6));
    mnl_socket_close(r.socket);
}
