#include "base/addr.h"

#include <arpa/inet.h>

struct range4 {
    uint32_t net, mask;
    enum addr_kind kind;
};

#define NET4(a, b, c, d) ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))
#define MASK4(bits)      (0xffffffffu << (32 - (bits)))

/* IANA IPv4 Special-Purpose Address Registry (RFC 6890), less the documentation networks, which route nowhere; and metadata
 * services that clouds put at public-looking addresses. The first match counts. */
static const struct range4 ranges4[] = {
    {NET4(0, 0, 0, 0), MASK4(8), ADDR_UNSPECIFIED},       {NET4(127, 0, 0, 0), MASK4(8), ADDR_LOOPBACK},
    {NET4(100, 100, 100, 200), MASK4(32), ADDR_METADATA}, {NET4(168, 63, 129, 16), MASK4(32), ADDR_METADATA},
    {NET4(192, 0, 0, 192), MASK4(32), ADDR_METADATA},     {NET4(10, 0, 0, 0), MASK4(8), ADDR_PRIVATE},
    {NET4(172, 16, 0, 0), MASK4(12), ADDR_PRIVATE},       {NET4(192, 168, 0, 0), MASK4(16), ADDR_PRIVATE},
    {NET4(100, 64, 0, 0), MASK4(10), ADDR_PRIVATE},       {NET4(198, 18, 0, 0), MASK4(15), ADDR_PRIVATE},
    {NET4(169, 254, 0, 0), MASK4(16), ADDR_LINK_LOCAL},   {NET4(224, 0, 0, 0), MASK4(4), ADDR_MULTICAST},
    {NET4(240, 0, 0, 0), MASK4(4), ADDR_RESERVED},        {NET4(192, 0, 0, 0), MASK4(24), ADDR_RESERVED},
    {NET4(192, 88, 99, 0), MASK4(24), ADDR_RESERVED},
};

static enum addr_kind kind4(uint32_t ip) {
    for (size_t i = 0; i < sizeof ranges4 / sizeof ranges4[0]; i++)
        if ((ip & ranges4[i].mask) == ranges4[i].net)
            return ranges4[i].kind;
    return ADDR_PUBLIC;
}

static uint32_t be32(const uint8_t *p) {
    return NET4(p[0], p[1], p[2], p[3]);
}

static bool starts(const uint8_t *p, const uint8_t *prefix, size_t n) {
    return memcmp(p, prefix, n) == 0;
}

static enum addr_kind kind6(const uint8_t *p) {
    static const uint8_t zero[16] = {0};
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    static const uint8_t translated[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0};
    static const uint8_t nat64[12] = {0, 0x64, 0xff, 0x9b};
    static const uint8_t nat64_local[6] = {0, 0x64, 0xff, 0x9b, 0, 1};
    static const uint8_t discard[8] = {1};
    static const uint8_t teredo[4] = {0x20, 0x01, 0, 0};
    static const uint8_t metadata_ec2[16] = {0xfd, 0, 0x0e, 0xc2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0x54};

    if (starts(p, mapped, 12) || starts(p, translated, 12) || starts(p, nat64, 12))
        return kind4(be32(p + 12));
    if (starts(p, nat64_local, 6))
        return ADDR_PRIVATE;
    if (starts(p, zero, 12)) {
        if (starts(p, zero, 16))
            return ADDR_UNSPECIFIED;
        if (be32(p + 12) == 1)
            return ADDR_LOOPBACK;
        return kind4(be32(p + 12)) == ADDR_PUBLIC ? ADDR_RESERVED : kind4(be32(p + 12));
    }
    if (p[0] == 0x20 && p[1] == 0x02) /* 6to4, RFC 3056 */
        return kind4(be32(p + 2));
    if (starts(p, teredo, 4)) /* RFC 4380: the client's IPv4 address is inverted */
        return kind4(~be32(p + 12)) == ADDR_PUBLIC ? kind4(be32(p + 4)) : kind4(~be32(p + 12));
    if (starts(p, metadata_ec2, 16))
        return ADDR_METADATA;
    if ((p[0] & 0xfe) == 0xfc || (p[0] == 0xfe && (p[1] & 0xc0) == 0xc0))
        return ADDR_PRIVATE;
    if (p[0] == 0xfe && (p[1] & 0xc0) == 0x80)
        return ADDR_LINK_LOCAL;
    if (p[0] == 0xff)
        return ADDR_MULTICAST;
    if (starts(p, discard, 8))
        return ADDR_RESERVED;
    return ADDR_PUBLIC;
}

enum addr_kind addr_kind(const struct addr *a) {
    if (a->sa.sa_family == AF_INET)
        return kind4(ntohl(a->in.sin_addr.s_addr));
    if (a->sa.sa_family == AF_INET6)
        return kind6(a->in6.sin6_addr.s6_addr);
    return ADDR_RESERVED;
}

const char *addr_kind_text(enum addr_kind kind) {
    switch (kind) {
    case ADDR_PUBLIC: return "public";
    case ADDR_UNSPECIFIED: return "unspecified";
    case ADDR_LOOPBACK: return "loopback";
    case ADDR_PRIVATE: return "private";
    case ADDR_LINK_LOCAL: return "link-local";
    case ADDR_METADATA: return "cloud metadata";
    case ADDR_MULTICAST: return "multicast";
    case ADDR_RESERVED: return "reserved";
    }
    return "unknown";
}

bool addr_parse(struct slice literal, uint16_t port, struct addr *out) {
    if (literal.n >= 2 && literal.p[0] == '[' && literal.p[literal.n - 1] == ']') {
        literal = slice_sub(literal, 1, literal.n - 2);
        if (slice_find(literal, ':') < 0)
            return false;
    }
    char text[INET6_ADDRSTRLEN];
    if (literal.n == 0 || literal.n >= sizeof text || memchr(literal.p, 0, literal.n))
        return false;
    memcpy(text, literal.p, literal.n);
    text[literal.n] = 0;
    struct addr a = {0};
    /* glibc's inet_pton takes four decimal octets without leading zeros, and no zone: the strict form that is wanted */
    if (inet_pton(AF_INET, text, &a.in.sin_addr) == 1) {
        a.in.sin_family = AF_INET;
        a.in.sin_port = htons(port);
        a.len = sizeof a.in;
    } else if (inet_pton(AF_INET6, text, &a.in6.sin6_addr) == 1) {
        a.in6.sin6_family = AF_INET6;
        a.in6.sin6_port = htons(port);
        a.len = sizeof a.in6;
    } else {
        return false;
    }
    *out = a;
    return true;
}

struct addr addr_from(const struct sockaddr *sa, socklen_t len) {
    struct addr a = {0};
    if ((sa->sa_family == AF_INET && len >= sizeof a.in) ||
        (sa->sa_family == AF_INET6 && len >= sizeof a.in6)) {
        a.len = sa->sa_family == AF_INET ? sizeof a.in : sizeof a.in6;
        memcpy(&a.sa, sa, a.len);
    }
    return a;
}

uint16_t addr_port(const struct addr *a) {
    return a->sa.sa_family == AF_INET6 ? ntohs(a->in6.sin6_port) : ntohs(a->in.sin_port);
}

void addr_set_port(struct addr *a, uint16_t port) {
    if (a->sa.sa_family == AF_INET6)
        a->in6.sin6_port = htons(port);
    else
        a->in.sin_port = htons(port);
}

bool addr_eq(const struct addr *a, const struct addr *b) {
    if (a->len != b->len || a->len == 0 || a->sa.sa_family != b->sa.sa_family || addr_port(a) != addr_port(b))
        return false;
    if (a->sa.sa_family == AF_INET)
        return a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
    return memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, 16) == 0;
}

/* By hand: a line of each record has an address, and printf takes longer than all the rest of it. */
static char *put_decimal(char *at, unsigned value) {
    if (value >= 10)
        at = put_decimal(at, value / 10);
    *at = (char)('0' + value % 10);
    return at + 1;
}

static char *put_ipv4(char *at, const uint8_t bytes[4]) {
    for (int i = 0; i < 4; i++) {
        if (i)
            *at++ = '.';
        at = put_decimal(at, bytes[i]);
    }
    return at;
}

const char *addr_text(const struct addr *a, bool with_port, char out[ADDR_TEXT_MAX]) {
    char *at = out;
    bool known = a->len != 0, six = a->sa.sa_family == AF_INET6, bracket = six && with_port;
    if (bracket)
        *at++ = '[';
    if (known && a->sa.sa_family == AF_INET)
        at = put_ipv4(at, (const uint8_t *)&a->in.sin_addr);
    else if (known && six && inet_ntop(AF_INET6, &a->in6.sin6_addr, at, INET6_ADDRSTRLEN))
        at += strlen(at);
    else
        *at++ = '-';
    if (bracket)
        *at++ = ']';
    if (with_port) {
        *at++ = ':';
        at = put_decimal(at, addr_port(a));
    }
    *at = '\0';
    return out;
}
