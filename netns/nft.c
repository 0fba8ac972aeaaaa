#include "netns/nft.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter_ipv4.h>
#include <netinet/ip_icmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "netns/link.h"
#include "netns/names.h"

/*
 * Everything in the namespace goes over lo, so it is the address that tells apart what stays inside (loopback, the own address) from
 * what wants out:
 *
 *   raw_output         TCP to the web's ports (443, 80) that wants out, and the answers to it, are not tracked
 *   nat_output         port 53 goes to the DNS listener, also on loopback (resolvers at 127.0.0.53, 127.0.0.11); other TCP that
 *                      wants out goes to the proxy's listener
 *   filter_output      what is for loopback (redirected traffic has become that) or the own address passes, and so does what was not
 *                      tracked, as long as it stays on lo; the rest is refused at once, so that QUIC falls back in no time
 *   filter_prerouting  TCP that wants out still is given to the proxy's listener as it is (TPROXY), what stays inside passes; there
 *                      is no other way behind it, so that a server bound to all addresses is not reached by one that wants out
 *   filter_forward     nothing
 *
 * TPROXY costs a packet of a kept connection four rules to 443 (one or two of raw_output, the first of filter_output, two or one of
 * filter_prerouting), no look into conntrack's table, which all sandboxes of a host share, and no new header. But the exit's end of such
 * a connection is bound inside to the port that it wants. A server of the sandbox may want that port, too, and a scan of all ports
 * would leave none for clients: so it is for the web's ports alone, and listen.c says how servers have these.
 *
 * Where the kernel has no TPROXY (nft_tproxy), or but one table of routes, or the listeners are not transparent, NAT leads all TCP to
 * the listener: then there is no raw_output, nor filter_prerouting.
 *
 * A namespace that somebody else made may have a tap with a virtual machine behind it, which is not served: all that comes from there
 * ends in filter_prerouting or filter_forward, but for what is for the own address or TCP, and the answers to that, which would go
 * elsewhere than to lo, end in filter_output.
 *
 * The kernel gets the rules in its own terms, each a row of instructions on registers, all in one transaction. The library that
 * reads nft's language takes longer to load than everything here to be done, in each process of exeat's.
 */

#define TABLE "exeat"
#define ROOM  2048 /* for one message; the longest takes a third of it */
#define MAX   40   /* messages */

struct rules {
    uint8_t family;      /* NFPROTO_INET, NFPROTO_IPV4 */
    const uint8_t *own6; /* NULL: no IPv6 */
    const struct listen_ports *ports;
    uint32_t seq;
    struct mnl_nlmsg_batch *batch;
    /* the message that is being written */
    struct nlmsghdr *head;
    struct nlattr *list;
};

/* --- messages ------------------------------------------------------------------------------------------------ */

static struct nlmsghdr *begin(struct rules *r, uint16_t type, uint16_t flags, uint8_t family,
                              uint16_t resource) {
    r->head = mnl_nlmsg_put_header(mnl_nlmsg_batch_current(r->batch));
    r->head->nlmsg_type = type;
    r->head->nlmsg_flags = NLM_F_REQUEST | flags;
    r->head->nlmsg_seq = r->seq++;
    struct nfgenmsg *m = mnl_nlmsg_put_extra_header(r->head, sizeof *m);
    *m = (struct nfgenmsg){family, NFNETLINK_V0, htons(resource)};
    return r->head;
}

static struct nlmsghdr *begin_nft(struct rules *r, uint16_t type, uint16_t flags) {
    return begin(r, NFNL_SUBSYS_NFTABLES << 8 | type, NLM_F_CREATE | flags, r->family, 0);
}

static void end(struct rules *r) {
    mnl_nlmsg_batch_next(r->batch);
}

static void begin_rule(struct rules *r, const char *chain) {
    struct nlmsghdr *h = begin_nft(r, NFT_MSG_NEWRULE, NLM_F_APPEND);
    mnl_attr_put_strz(h, NFTA_RULE_TABLE, TABLE);
    mnl_attr_put_strz(h, NFTA_RULE_CHAIN, chain);
    r->list = mnl_attr_nest_start(h, NFTA_RULE_EXPRESSIONS);
}

static void end_rule(struct rules *r) {
    mnl_attr_nest_end(r->head, r->list);
    end(r);
}

/* --- instructions: all but one work on one register ---------------------------------------------------------- */

struct instruction {
    struct nlattr *element, *data;
};

static struct instruction instruct(struct rules *r, const char *name) {
    struct instruction i = {.element = mnl_attr_nest_start(r->head, NFTA_LIST_ELEM)};
    mnl_attr_put_strz(r->head, NFTA_EXPR_NAME, name);
    i.data = mnl_attr_nest_start(r->head, NFTA_EXPR_DATA);
    return i;
}

static void done(struct rules *r, struct instruction i) {
    mnl_attr_nest_end(r->head, i.data);
    mnl_attr_nest_end(r->head, i.element);
}

static void put_u32(struct rules *r, uint16_t type, uint32_t value) {
    mnl_attr_put_u32(r->head, type, htonl(value));
}

static void put_value(struct rules *r, uint16_t type, const void *bytes, size_t n) {
    struct nlattr *nest = mnl_attr_nest_start(r->head, type);
    mnl_attr_put(r->head, NFTA_DATA_VALUE, n, bytes);
    mnl_attr_nest_end(r->head, nest);
}

static void compare(struct rules *r, enum nft_cmp_ops op, const void *bytes, size_t n) {
    struct instruction i = instruct(r, "cmp");
    put_u32(r, NFTA_CMP_SREG, NFT_REG_1);
    put_u32(r, NFTA_CMP_OP, op);
    put_value(r, NFTA_CMP_DATA, bytes, n);
    done(r, i);
}

static void if_meta(struct rules *r, enum nft_meta_keys key, const void *value, size_t n) {
    struct instruction i = instruct(r, "meta");
    put_u32(r, NFTA_META_DREG, NFT_REG_1);
    put_u32(r, NFTA_META_KEY, key);
    done(r, i);
    compare(r, NFT_CMP_EQ, value, n);
}

static void if_protocol(struct rules *r, uint8_t protocol) {
    if_meta(r, NFT_META_L4PROTO, &protocol, sizeof protocol);
}

static void if_family(struct rules *r, uint8_t family) {
    if (r->family == NFPROTO_INET)
        if_meta(r, NFT_META_NFPROTO, &family, sizeof family);
}

/* The first `n` bytes at `offset` of a header are these, or are not. */
static void if_payload(struct rules *r, enum nft_payload_bases base, uint32_t offset, enum nft_cmp_ops op,
                       const void *bytes, size_t n) {
    struct instruction i = instruct(r, "payload");
    put_u32(r, NFTA_PAYLOAD_DREG, NFT_REG_1);
    put_u32(r, NFTA_PAYLOAD_BASE, base);
    put_u32(r, NFTA_PAYLOAD_OFFSET, offset);
    put_u32(r, NFTA_PAYLOAD_LEN, (uint32_t)n);
    done(r, i);
    compare(r, op, bytes, n);
}

/* For conntrack the packet is in one of these states (NF_CT_STATE_BIT). */
static void if_state(struct rules *r, uint32_t states) {
    static const uint32_t none = 0;
    struct instruction i = instruct(r, "ct");
    put_u32(r, NFTA_CT_DREG, NFT_REG_1);
    put_u32(r, NFTA_CT_KEY, NFT_CT_STATE);
    done(r, i);
    i = instruct(r, "bitwise");
    put_u32(r, NFTA_BITWISE_SREG, NFT_REG_1);
    put_u32(r, NFTA_BITWISE_DREG, NFT_REG_1);
    put_u32(r, NFTA_BITWISE_LEN, sizeof states);
    put_value(r, NFTA_BITWISE_MASK, &states, sizeof states);
    put_value(r, NFTA_BITWISE_XOR, &none, sizeof none);
    done(r, i);
    compare(r, NFT_CMP_NEQ, &none, sizeof none);
}

static void verdict(struct rules *r, int code) {
    struct instruction i = instruct(r, "immediate");
    put_u32(r, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
    struct nlattr *data = mnl_attr_nest_start(r->head, NFTA_IMMEDIATE_DATA);
    struct nlattr *nest = mnl_attr_nest_start(r->head, NFTA_DATA_VERDICT);
    put_u32(r, NFTA_VERDICT_CODE, (uint32_t)code);
    mnl_attr_nest_end(r->head, nest);
    mnl_attr_nest_end(r->head, data);
    done(r, i);
}

static void load(struct rules *r, enum nft_registers to, const void *bytes, size_t n) {
    struct instruction i = instruct(r, "immediate");
    put_u32(r, NFTA_IMMEDIATE_DREG, to);
    put_value(r, NFTA_IMMEDIATE_DATA, bytes, n);
    done(r, i);
}

static void redirect(struct rules *r, uint16_t port) {
    uint16_t value = htons(port);
    load(r, NFT_REG_1, &value, sizeof value);
    struct instruction i = instruct(r, "redir");
    put_u32(r, NFTA_REDIR_REG_PROTO_MIN, NFT_REG_1);
    done(r, i);
}

/* Gives the packet to the transparent socket that it belongs to, or else that listens there; without one, the rule ends here. */
static void tproxy(struct rules *r, uint8_t family, const void *address, size_t n, uint16_t port) {
    uint16_t value = htons(port);
    load(r, NFT_REG_1, address, n);
    load(r, NFT_REG_2, &value, sizeof value);
    struct instruction i = instruct(r, "tproxy");
    put_u32(r, NFTA_TPROXY_FAMILY, family);
    put_u32(r, NFTA_TPROXY_REG_ADDR, NFT_REG_1);
    put_u32(r, NFTA_TPROXY_REG_PORT, NFT_REG_2);
    done(r, i);
}

static void notrack(struct rules *r) {
    done(r, instruct(r, "notrack"));
}

static void reset(struct rules *r) {
    struct instruction i = instruct(r, "reject");
    put_u32(r, NFTA_REJECT_TYPE, NFT_REJECT_TCP_RST);
    done(r, i);
}

static void reject(struct rules *r) {
    bool inet = r->family == NFPROTO_INET;
    struct instruction i = instruct(r, "reject");
    put_u32(r, NFTA_REJECT_TYPE, inet ? NFT_REJECT_ICMPX_UNREACH : NFT_REJECT_ICMP_UNREACH);
    mnl_attr_put_u8(r->head, NFTA_REJECT_ICMP_CODE,
                    inet ? NFT_REJECT_ICMPX_ADMIN_PROHIBITED : ICMP_PKT_FILTERED);
    done(r, i);
}

/* --- the rules ----------------------------------------------------------------------------------------------- */

static void add_table(struct rules *r) {
    mnl_attr_put_strz(begin_nft(r, NFT_MSG_NEWTABLE, 0), NFTA_TABLE_NAME, TABLE);
    end(r);
}

static void add_chain(struct rules *r, const char *name, const char *type, uint32_t hook, int priority,
                      int policy) {
    struct nlmsghdr *h = begin_nft(r, NFT_MSG_NEWCHAIN, 0);
    mnl_attr_put_strz(h, NFTA_CHAIN_TABLE, TABLE);
    mnl_attr_put_strz(h, NFTA_CHAIN_NAME, name);
    struct nlattr *nest = mnl_attr_nest_start(h, NFTA_CHAIN_HOOK);
    put_u32(r, NFTA_HOOK_HOOKNUM, hook);
    put_u32(r, NFTA_HOOK_PRIORITY, (uint32_t)priority);
    mnl_attr_nest_end(h, nest);
    put_u32(r, NFTA_CHAIN_POLICY, (uint32_t)policy);
    mnl_attr_put_strz(h, NFTA_CHAIN_TYPE, type);
    end(r);
}

/* What is inside, of one family. */
struct inside {
    uint8_t family;
    uint32_t source, destination; /* where a header has them */
    struct network {
        uint8_t bytes[16];
        size_t n; /* less than an address has: all that begin so */
    } own, loopback;
};

static size_t find_inside(const struct rules *r, struct inside out[2]) {
    out[0] = (struct inside){NFPROTO_IPV4, 12, 16, {{0}, 4}, {{127}, 1}};
    inet_pton(AF_INET, NAMES_OWN4, out[0].own.bytes);
    if (!r->own6)
        return 1;
    out[1] = (struct inside){NFPROTO_IPV6, 8, 24, {{0}, 16}, {{[15] = 1}, 16}};
    memcpy(out[1].own.bytes, r->own6, 16);
    return 2;
}

static void if_address(struct rules *r, uint32_t offset, enum nft_cmp_ops op, const struct network *a) {
    if_payload(r, NFT_PAYLOAD_NETWORK_HEADER, offset, op, a->bytes, a->n);
}

static void add_destination(struct rules *r, const char *chain, const struct inside *f,
                            const struct network *a, int code) {
    begin_rule(r, chain);
    if_family(r, f->family);
    if_address(r, f->destination, NFT_CMP_EQ, a);
    verdict(r, code);
    end_rule(r);
}

/* What is for the own addresses and loopback. */
static void add_inside(struct rules *r, const char *chain, int code) {
    struct inside in[2];
    size_t n = find_inside(r, in);
    for (size_t i = 0; i < n; i++) {
        add_destination(r, chain, &in[i], &in[i].own, code);
        add_destination(r, chain, &in[i], &in[i].loopback, code);
    }
}

/* One way of a connection: `answer` is the one that has the world's address and port as its source. */
static void add_untracked(struct rules *r, const char *chain, const struct inside *f, uint16_t port,
                          bool answer) {
    uint16_t value = htons(port);
    begin_rule(r, chain);
    if_family(r, f->family);
    if_protocol(r, IPPROTO_TCP);
    if_payload(r, NFT_PAYLOAD_TRANSPORT_HEADER, answer ? 0 : 2, NFT_CMP_EQ, &value, sizeof value);
    if_address(r, answer ? f->source : f->destination, NFT_CMP_NEQ, &f->own);
    if_address(r, answer ? f->source : f->destination, NFT_CMP_NEQ, &f->loopback);
    notrack(r);
    verdict(r, NF_ACCEPT);
    end_rule(r);
}

static void add_raw(struct rules *r) {
    static const char chain[] = "raw_output";
    /* the one with the most packets first */
    static const uint16_t ports[] = {443, 80};
    struct inside in[2];
    size_t n = find_inside(r, in);
    add_chain(r, chain, "filter", NF_INET_LOCAL_OUT, NF_IP_PRI_RAW, NF_ACCEPT);
    for (size_t i = 0; i < 2 * n; i++) {
        add_untracked(r, chain, &in[i / 2], ports[i % 2], false);
        add_untracked(r, chain, &in[i / 2], ports[i % 2], true);
    }
}

static void add_nat(struct rules *r) {
    static const char chain[] = "nat_output";
    static const uint8_t protocols[] = {IPPROTO_TCP, IPPROTO_UDP};
    const uint16_t domain = htons(53);
    add_chain(r, chain, "nat", NF_INET_LOCAL_OUT, NF_IP_PRI_NAT_DST, NF_ACCEPT);
    for (size_t i = 0; i < sizeof protocols; i++) {
        begin_rule(r, chain);
        if_protocol(r, protocols[i]);
        if_payload(r, NFT_PAYLOAD_TRANSPORT_HEADER, 2, NFT_CMP_EQ, &domain, sizeof domain);
        redirect(r, r->ports->dns);
        end_rule(r);
    }
    add_inside(r, chain, NFT_RETURN);
    begin_rule(r, chain);
    if_protocol(r, IPPROTO_TCP);
    redirect(r, r->ports->proxy);
    end_rule(r);
}

static void add_filter(struct rules *r, bool nat_only) {
    static const char output[] = "filter_output", forward[] = "filter_forward";
    static const uint32_t lo = LINK_LO,
                          known = NF_CT_STATE_BIT(IP_CT_ESTABLISHED) | NF_CT_STATE_BIT(IP_CT_RELATED);
    add_chain(r, output, "filter", NF_INET_LOCAL_OUT, NF_IP_PRI_FILTER, NF_DROP);
    /* first, for that is nearly every packet */
    begin_rule(r, output);
    if (!nat_only)
        if_meta(r, NFT_META_OIF, &lo, sizeof lo);
    if_state(r, nat_only ? known : known | NF_CT_STATE_UNTRACKED_BIT);
    verdict(r, NF_ACCEPT);
    end_rule(r);
    add_inside(r, output, NF_ACCEPT);
    begin_rule(r, output);
    reject(r);
    end_rule(r);
    add_chain(r, forward, "filter", NF_INET_FORWARD, NF_IP_PRI_FILTER, NF_DROP);
    begin_rule(r, forward);
    reject(r);
    end_rule(r);
}

static void add_tproxy(struct rules *r, const char *chain, const struct inside *f) {
    const struct in_addr listener4 = {htonl(INADDR_LOOPBACK)};
    bool v4 = f->family == NFPROTO_IPV4;
    begin_rule(r, chain);
    if_family(r, f->family);
    if_address(r, f->destination, NFT_CMP_NEQ, &f->loopback);
    if_protocol(r, IPPROTO_TCP);
    tproxy(r, f->family, v4 ? (const void *)&listener4 : &in6addr_loopback, v4 ? 4 : 16, r->ports->proxy);
    verdict(r, NF_ACCEPT);
    end_rule(r);
}

/* First the own address, where the answers go, then what is for neither of ours. */
static void add_prerouting(struct rules *r) {
    static const char chain[] = "filter_prerouting";
    struct inside in[2];
    size_t n = find_inside(r, in);
    add_chain(r, chain, "filter", NF_INET_PRE_ROUTING, NF_IP_PRI_MANGLE, NF_DROP);
    for (size_t i = 0; i < n; i++) {
        add_destination(r, chain, &in[i], &in[i].own, NF_ACCEPT);
        add_tproxy(r, chain, &in[i]);
        add_destination(r, chain, &in[i], &in[i].loopback, NF_ACCEPT);
    }
    begin_rule(r, chain);
    if_protocol(r, IPPROTO_TCP);
    reset(r);
    end_rule(r);
}

/* --- one transaction ----------------------------------------------------------------------------------------- */

/* Failures come in the order of the messages, that of the whole under the first one's number; so when the last one is
 * acknowledged, all is well. 0, or -1 and errno. */
static int wait_for(struct mnl_socket *socket, uint32_t last) {
    char answer[8192];
    for (;;) {
        ssize_t n = mnl_socket_recvfrom(socket, answer, sizeof answer);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        int left = (int)n;
        for (struct nlmsghdr *h = (void *)answer; mnl_nlmsg_ok(h, left); h = mnl_nlmsg_next(h, &left)) {
            if (h->nlmsg_type != NLMSG_ERROR || h->nlmsg_len < mnl_nlmsg_size(sizeof(struct nlmsgerr)))
                continue;
            const struct nlmsgerr *e = mnl_nlmsg_get_payload(h);
            errno = -e->error;
            if (e->error)
                return -1;
            if (h->nlmsg_seq == last)
                return 0;
        }
    }
}

static int send_batch(struct rules *r) {
    struct mnl_socket *socket = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC);
    if (!socket)
        return -1;
    int result = mnl_socket_bind(socket, 0, MNL_SOCKET_AUTOPID);
    if (result == 0 &&
        mnl_socket_sendto(socket, mnl_nlmsg_batch_head(r->batch), mnl_nlmsg_batch_size(r->batch)) < 0)
        result = -1;
    /* the last one but the end of the batch, which older kernels do not acknowledge */
    if (result == 0)
        result = wait_for(socket, r->seq - 2);
    int saved = errno;
    mnl_socket_close(socket);
    errno = saved;
    return result;
}

/* `family` is inet; IPv4 only where the kernel has no IPv6 at all, and so no inet tables either. */
static int install(uint8_t family, const uint8_t *own6, const struct listen_ports *ports, bool nat_only) {
    char *memory = malloc(ROOM * MAX); /* static, its pages would stay */
    struct rules r = {.family = family,
                      .own6 = own6,
                      .ports = ports,
                      .batch = memory ? mnl_nlmsg_batch_start(memory, ROOM * (MAX - 1)) : NULL};
    if (!r.batch) {
        free(memory);
        return -1;
    }
    begin(&r, NFNL_MSG_BATCH_BEGIN, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
    end(&r);
    add_table(&r);
    if (!nat_only) {
        add_raw(&r);
        add_prerouting(&r);
    }
    add_nat(&r);
    add_filter(&r, nat_only);
    r.head->nlmsg_flags |= NLM_F_ACK;
    begin(&r, NFNL_MSG_BATCH_END, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
    end(&r);
    int result = send_batch(&r);
    mnl_nlmsg_batch_stop(r.batch);
    free(memory);
    return result;
}

/* By TPROXY if that can be, or else by NAT. */
static int install_best(uint8_t family, const uint8_t prefix6[8], const uint8_t *own6,
                        const struct listen_ports *ports, bool *nat_only) {
    *nat_only = !ports->transparent || !link_deliver(prefix6, own6 != NULL);
    if (!*nat_only && install(family, own6, ports, false)) {
        link_undeliver(prefix6, own6 != NULL);
        *nat_only = true;
    }
    return *nat_only ? install(family, own6, ports, true) : 0;
}

int nft_setup(const uint8_t prefix6[8], bool ipv6, const struct listen_ports *ports, bool *nat_only,
              struct errmsg *msg) {
    uint8_t own6[16];
    link_own6(prefix6, own6);
    int r = install_best(NFPROTO_INET, prefix6, ipv6 ? own6 : NULL, ports, nat_only);
    int saved = errno;
    /* a table for IPv4 alone is enough only if nothing can speak IPv6 at all */
    if (r && !ipv6) {
        int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0) {
            r = install_best(NFPROTO_IPV4, prefix6, NULL, ports, nat_only);
            saved = errno;
        } else {
            close(fd);
        }
    }
    errno = saved;
    return r ? errmsg_errno(msg, ERR_UNSUPPORTED, "nftables rules can't be set") : 0;
}
