/* One --resolve, in the forms of curl. */
#include "proxy/upstream/resolve.h"

#define EXPECTED                                                                                             \
    "expected HOST:PORT:ADDRESS[:PORT] or -HOST:PORT, IPv6 addresses in brackets, several addresses with "   \
    "commas"

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
    size_t n = host_length(s) ? host_length(s) : s.n;
    /* an IPv6 address without brackets: it has more than one colon, and can have no port behind it */
    if (s.n && s.p[0] != '[' && slice_find(slice_from(s, n < s.n ? n + 1 : n), ':') >= 0)
        n = s.n;
    struct slice address = slice_sub(s, 0, n), rest = slice_from(s, n);
    if (rest.n && (rest.p[0] != ':' || !parse_port(slice_from(rest, 1), &port)))
        return errmsg_set(msg, ERR_USAGE, "'%.*s': no port behind the address; " EXPECTED, SLICE_ARG(s));
    if (!addr_parse(address, port, out))
        return errmsg_set(msg, ERR_USAGE, "'%.*s' is no address; " EXPECTED, SLICE_ARG(s));
    return 0;
}

/* HOST:PORT, of which the rest is left in `*rest`. */
static int parse_origin(struct slice s, struct resolve_pin *pin, struct slice *rest, bool *has_rest,
                        struct errmsg *msg) {
    size_t n = host_length(s);
    struct slice host = slice_sub(s, 0, n), port;
    struct errmsg why;
    if (n == 0 || n == s.n || s.p[n] != ':')
        return errmsg_set(msg, ERR_USAGE, "no host and port; " EXPECTED);
    pin->any = slice_eq(host, SLICE("*"));
    if (!pin->any && url_host_parse(host, &pin->host, &why))
        return errmsg_set(msg, ERR_USAGE, "%s", why.text);
    *has_rest = slice_cut(slice_from(s, n + 1), ':', &port, rest);
    return parse_port(port, &pin->port) ? 0 : errmsg_set(msg, ERR_USAGE, "no port; " EXPECTED);
}

int resolve_pin_parse(struct slice text, struct resolve_pin *out, struct errmsg *msg) {
    struct resolve_pin pin = {0};
    bool removes = text.n && text.p[0] == '-', adds = false;
    struct slice targets;
    int r =
        parse_origin(slice_from(text, removes || (text.n && text.p[0] == '+')), &pin, &targets, &adds, msg);
    if (r == 0 && adds == removes)
        r = errmsg_set(msg, ERR_USAGE,
                       removes ? "an address behind what is taken back" : "no address; " EXPECTED);
    for (bool more = adds; more && r == 0;) {
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
