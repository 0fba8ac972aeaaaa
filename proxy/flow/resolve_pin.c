#include "proxy/flow/resolve.h"

#define EXPECTED                                                                                             \
    "expected HOST:PORT:ADDRESS[:PORT], IPv6 addresses in brackets, several addresses with commas"

/* The length of a host at the start of `s`: up to the colon, or to the bracket that closes. */
static size_t host_length(struct slice s) {
    ptrdiff_t at = s.n && s.p[0] == '[' ? slice_find(s, ']') + 1 : slice_find(s, ':');
    return at > 0 ? (size_t)at : 0;
}

static bool parse_port(struct slice s, uint16_t *out) {
    uint64_t v;
    if (!slice_u64(s, 65535, &v) || v == 0)
        return false;
    *out = (uint16_t)v;
    return true;
}

/* ADDRESS[:PORT] */
static int parse_target(struct slice s, uint16_t port, struct addr *out, struct errmsg *msg) {
    size_t n = s.n && s.p[0] == '[' ? host_length(s) : host_length(s) ? host_length(s) : s.n;
    struct slice address = slice_sub(s, 0, n), rest = slice_from(s, n);
    if (rest.n && (rest.p[0] != ':' || !parse_port(slice_from(rest, 1), &port)))
        return errmsg_set(msg, ERR_USAGE, "'%.*s': no port behind the address; " EXPECTED, SLICE_ARG(s));
    if ((s.n && s.p[0] == ':') || !addr_parse(address, port, out))
        return errmsg_set(msg, ERR_USAGE, "'%.*s' is no address; " EXPECTED, SLICE_ARG(s));
    return 0;
}

int resolve_pin_parse(struct slice text, struct resolve_pin *out, struct errmsg *msg) {
    struct resolve_pin pin = {0};
    size_t n = host_length(text);
    struct slice port, targets;
    struct errmsg why;
    int r = 0;

    if (n == 0 || n == text.n || text.p[n] != ':')
        return errmsg_set(msg, ERR_USAGE, "--resolve %.*s: no host and port; " EXPECTED, SLICE_ARG(text));
    if (url_host_parse(slice_sub(text, 0, n), &pin.host, &why))
        return errmsg_set(msg, ERR_USAGE, "--resolve %.*s: %s", SLICE_ARG(text), why.text);
    if (!slice_cut(slice_from(text, n + 1), ':', &port, &targets) || !parse_port(port, &pin.port))
        return errmsg_set(msg, ERR_USAGE, "--resolve %.*s: no port, or no address behind it; " EXPECTED,
                          SLICE_ARG(text));
    for (bool more = true; more && r == 0;) {
        struct slice target;
        more = slice_cut(targets, ',', &target, &targets);
        if (pin.n == RESOLVE_ADDRS_MAX)
            r = errmsg_set(msg, ERR_USAGE, "more than %d addresses", RESOLVE_ADDRS_MAX);
        else
            r = parse_target(target, pin.port, &pin.to[pin.n], msg);
        pin.n++;
    }
    if (r) {
        if (msg)
            errmsg_prefix(msg, "--resolve %.*s", SLICE_ARG(text));
        return r;
    }
    *out = pin;
    return 0;
}
