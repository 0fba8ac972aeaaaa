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
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "netns/link.h"
#include "netns/names.h"

/*
 * Everything in the namespace goes over lo, so it is the address that tells apart what stays inside:
 *
 *   nat_output      port 53 goes to the DNS listener, also on loopback (resolvers at 127.0.0.53, 127.0.0.11);
 *                   TCP that is not for loopback or the own address goes to the proxy's listener
 *   filter_output   what is for loopback (redirected traffic has become that) passes, the rest is refused at once,
 *                   so that QUIC and others fall back in no time
 *   filter_forward  nothing
 *
 * A namespace that somebody else made may have a tap with a virtual machine behind it: its packets come by
 * prerouting, where these rules have no hook, and by forward, where they end.
 *
 * The kernel gets the rules in its own terms, each a row of instructions on registers, all in one transaction. The library that
 * reads nft's language takes longer to load than everything here to be done, in each process of exeat's.
 */

#define TABLE "exeat"
#define ROOM  2048 /* for one message; the longest takes a quarter of it */
#define MAX   32   /* messages */

struct rules {
    uint8_t family; /* NFPROTO_INET, NFPROTO_IPV4 */
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

/* --- instructions: all work on one register ------------------------------------------------------------------ */

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

static void if_meta(struct rules *r, enum nft_meta_keys key, uint8_t value) {
    struct instruction i = instruct(r, "meta");
    put_u32(r, NFTA_META_DREG, NFT_REG_1);
    put_u32(r, NFTA_META_KEY, key);
    done(r, i);
    compare(r, NFT_CMP_EQ, &value, 1);
}

/* The first `n` bytes at `offset` of a header are these. */
static void if_payload(struct rules *r, enum nft_payload_bases base, uint32_t offset, const void *bytes,
                       size_t n) {
    struct instruction i = instruct(r, "payload");
    put_u32(r, NFTA_PAYLOAD_DREG, NFT_REG_1);
    put_u32(r, NFTA_PAYLOAD_BASE, base);
    put_u32(r, NFTA_PAYLOAD_OFFSET, offset);
    put_u32(r, NFTA_PAYLOAD_LEN, (uint32_t)n);
    done(r, i);
    compare(r, NFT_CMP_EQ, bytes, n);
}

/* Conntrack knows the packet as part of, or about, something that it has seen before. */
static void if_known(struct rules *r) {
    static const uint32_t known = NF_CT_STATE_BIT(IP_CT_ESTABLISHED) | NF_CT_STATE_BIT(IP_CT_RELATED),
                          none = 0;
    struct instruction i = instruct(r, "ct");
    put_u32(r, NFTA_CT_DREG, NFT_REG_1);
    put_u32(r, NFTA_CT_KEY, NFT_CT_STATE);
    done(r, i);
    i = instruct(r, "bitwise");
    put_u32(r, NFTA_BITWISE_SREG, NFT_REG_1);
    put_u32(r, NFTA_BITWISE_DREG, NFT_REG_1);
    put_u32(r, NFTA_BITWISE_LEN, sizeof known);
    put_value(r, NFTA_BITWISE_MASK, &known, sizeof known);
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

static void redirect(struct rules *r, uint16_t port) {
    uint16_t value = htons(port);
    struct instruction i = instruct(r, "immediate");
    put_u32(r, NFTA_IMMEDIATE_DREG, NFT_REG_1);
    put_value(r, NFTA_IMMEDIATE_DATA, &value, sizeof value);
    done(r, i);
    i = instruct(r, "redir");
    put_u32(r, NFTA_REDIR_REG_PROTO_MIN, NFT_REG_1);
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

/* What is for this address, or the network that its first bytes are. */
static void add_address(struct rules *r, const char *chain, uint8_t family, const void *bytes, size_t n,
                        int code) {
    begin_rule(r, chain);
    if (r->family == NFPROTO_INET)
        if_meta(r, NFT_META_NFPROTO, family);
    if_payload(r, NFT_PAYLOAD_NETWORK_HEADER, family == NFPROTO_IPV4 ? 16 : 24, bytes, n);
    verdict(r, code);
    end_rule(r);
}

/* Loopback and the own addresses. */
static void add_inside(struct rules *r, const char *chain, const uint8_t *own6, int code) {
    struct in_addr own4;
    static const uint8_t loopback4 = 127;
    inet_pton(AF_INET, NAMES_OWN4, &own4);
    add_address(r, chain, NFPROTO_IPV4, &loopback4, 1, code);
    add_address(r, chain, NFPROTO_IPV4, &own4, sizeof own4, code);
    if (!own6)
        return;
    add_address(r, chain, NFPROTO_IPV6, &in6addr_loopback, sizeof in6addr_loopback, code);
    add_address(r, chain, NFPROTO_IPV6, own6, 16, code);
}

static void add_nat(struct rules *r, const uint8_t *own6, const struct listen_ports *ports) {
    static const char chain[] = "nat_output";
    static const uint8_t protocols[] = {IPPROTO_TCP, IPPROTO_UDP};
    const uint16_t domain = htons(53);
    add_chain(r, chain, "nat", NF_INET_LOCAL_OUT, NF_IP_PRI_NAT_DST, NF_ACCEPT);
    for (size_t i = 0; i < sizeof protocols; i++) {
        begin_rule(r, chain);
        if_meta(r, NFT_META_L4PROTO, protocols[i]);
        if_payload(r, NFT_PAYLOAD_TRANSPORT_HEADER, 2, &domain, sizeof domain);
        redirect(r, ports->dns);
        end_rule(r);
    }
    add_inside(r, chain, own6, NFT_RETURN);
    begin_rule(r, chain);
    if_meta(r, NFT_META_L4PROTO, IPPROTO_TCP);
    redirect(r, ports->proxy);
    end_rule(r);
}

static void add_filter(struct rules *r, const uint8_t *own6) {
    static const char output[] = "filter_output", forward[] = "filter_forward";
    add_chain(r, output, "filter", NF_INET_LOCAL_OUT, NF_IP_PRI_FILTER, NF_DROP);
    /* first, for that is nearly every packet */
    begin_rule(r, output);
    if_known(r);
    verdict(r, NF_ACCEPT);
    end_rule(r);
    add_inside(r, output, own6, NF_ACCEPT);
    begin_rule(r, output);
    reject(r);
    end_rule(r);
    add_chain(r, forward, "filter", NF_INET_FORWARD, NF_IP_PRI_FILTER, NF_DROP);
    begin_rule(r, forward);
    reject(r);
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
static int install(uint8_t family, const uint8_t *own6, const struct listen_ports *ports,
                   struct errmsg *msg) {
    static char memory[ROOM * MAX];
    struct rules r = {.family = family, .batch = mnl_nlmsg_batch_start(memory, sizeof memory - ROOM)};
    if (!r.batch)
        return errmsg_set(msg, ERR_NOMEM, "nftables: out of memory");
    begin(&r, NFNL_MSG_BATCH_BEGIN, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
    end(&r);
    add_table(&r);
    add_nat(&r, own6, ports);
    add_filter(&r, own6);
    r.head->nlmsg_flags |= NLM_F_ACK;
    begin(&r, NFNL_MSG_BATCH_END, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
    end(&r);
    int result = send_batch(&r);
    mnl_nlmsg_batch_stop(r.batch);
    return result ? errmsg_errno(msg, ERR_UNSUPPORTED, "nftables rules can't be set") : 0;
}

int nft_setup(const uint8_t prefix6[8], bool ipv6, const struct listen_ports *ports, struct errmsg *msg) {
    uint8_t own6[16];
    link_own6(prefix6, own6);
    int r = install(NFPROTO_INET, ipv6 ? own6 : NULL, ports, msg);
    /* a table for IPv4 alone is enough only if nothing can speak IPv6 at all */
    if (r && !ipv6) {
        int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            return install(NFPROTO_IPV4, NULL, ports, msg);
        close(fd);
    }
    return r;
}
