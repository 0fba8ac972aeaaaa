#include "netns/nft.h"

#include <arpa/inet.h>
#include <nftables/libnftables.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "netns/link.h"
#include "netns/names.h"

/*
 * Everything in the namespace goes over lo, so it is the address that tells apart what stays inside:
 *
 *   nat/output     port 53 goes to the DNS listener, also on loopback (resolvers at 127.0.0.53, 127.0.0.11);
 *                  TCP that is not for loopback or the own address goes to the proxy's listener
 *   filter/output  what is for loopback (redirected traffic has become that) passes, the rest is refused at once,
 *                  so that QUIC and others fall back in no time
 *   filter/forward nothing
 *
 * A namespace that somebody else made may have a tap with a virtual machine behind it: its packets come by
 * prerouting, where these rules have no hook, and by forward, where they end.
 */
static void rules_nat(struct buf *b, const char *own6, const struct listen_ports *ports) {
    buf_puts(b, "chain nat_output {\ntype nat hook output priority -100; policy accept;\n");
    buf_printf(b, "meta l4proto { tcp, udp } th dport 53 redirect to :%u\n", ports->dns);
    buf_printf(b, "ip daddr { 127.0.0.0/8, %s } return\n", NAMES_OWN4);
    if (own6)
        buf_printf(b, "ip6 daddr { ::1, %s } return\n", own6);
    buf_printf(b, "meta l4proto tcp redirect to :%u\n}\n", ports->proxy);
}

static void rules_filter(struct buf *b, const char *own6, bool inet) {
    const char *reject = inet ? "reject with icmpx admin-prohibited" : "reject with icmp admin-prohibited";
    buf_puts(b, "chain filter_output {\ntype filter hook output priority 0; policy drop;\n");
    buf_printf(b, "ip daddr { 127.0.0.0/8, %s } accept\n", NAMES_OWN4);
    if (own6)
        buf_printf(b, "ip6 daddr { ::1, %s } accept\n", own6);
    buf_printf(b, "ct state established,related accept\n%s\n}\n", reject);
    buf_printf(b, "chain filter_forward {\ntype filter hook forward priority 0; policy drop;\n%s\n}\n",
               reject);
}

/* `family` is inet; ip only where the kernel has no IPv6 at all, and so no inet tables either. */
static int install(const char *family, const char *own6, const struct listen_ports *ports,
                   struct errmsg *msg) {
    struct buf b;
    int r = ERR_NOMEM;
    buf_init(&b, 8192);
    struct nft_ctx *nft = nft_ctx_new(NFT_CTX_DEFAULT);
    buf_printf(&b, "table %s exeat {\n", family);
    rules_nat(&b, own6, ports);
    rules_filter(&b, own6, strcmp(family, "inet") == 0);
    buf_puts(&b, "}\n");
    const char *text = buf_cstr(&b);
    if (!nft || b.failed || !text) {
        errmsg_set(msg, ERR_NOMEM, "nftables: out of memory");
        goto out;
    }
    nft_ctx_buffer_output(nft);
    nft_ctx_buffer_error(nft);
    r = 0;
    if (nft_run_cmd_from_buffer(nft, text) != 0) {
        const char *said = nft_ctx_get_error_buffer(nft);
        size_t n = said ? strcspn(said, "\n") : 0;
        r = errmsg_set(msg, ERR_UNSUPPORTED, "nftables rules can't be set: %.*s", (int)(n < 300 ? n : 300),
                       said ? said : "");
    }
out:
    if (nft)
        nft_ctx_free(nft);
    buf_release(&b);
    return r;
}

int nft_setup(const uint8_t prefix6[8], bool ipv6, const struct listen_ports *ports, struct errmsg *msg) {
    uint8_t own6[16];
    char text[INET6_ADDRSTRLEN];
    link_own6(prefix6, own6);
    inet_ntop(AF_INET6, own6, text, sizeof text);
    int r = install("inet", ipv6 ? text : NULL, ports, msg);
    /* a table for IPv4 alone is enough only if nothing can speak IPv6 at all */
    if (r && !ipv6) {
        int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            return install("ip", NULL, ports, msg);
        close(fd);
    }
    return r;
}
