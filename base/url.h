/*
 * URLs in one canonical form, used on both sides of every comparison: the request's and the rule's.
 *
 * What two parsers could read differently is refused (ERR_AMBIGUOUS), never repaired: what was judged must be what
 * is served. The canonical form is for judging, resolving, SNI and the log; path and query go upstream in the bytes
 * that were received.
 *
 * Every function here is pure: no state, no look-up, no clock. On failure outputs are unchanged (a `struct buf` is
 * as it was) and `msg` (may be NULL) says why, in words fit for the client that sent it.
 */
#ifndef BASE_URL_H
#define BASE_URL_H

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

enum url_scheme {
    URL_HTTP,
    URL_HTTPS,
};

enum url_host_kind {
    URL_HOST_NAME, /* a DNS name */
    URL_HOST_IPV4, /* dotted quad */
    URL_HOST_IPV6, /* in brackets */
};

#define URL_HOST_MAX  253 /* a name without its final dot, in characters (RFC 1035) */
#define URL_LABEL_MAX 63

/*
 * A host in canonical form: a name is lower-case ASCII without a final dot; an IPv4 address is four decimal
 * numbers; an IPv6 address stands in brackets as inet_ntop writes it ("[2001:db8::1]"), so that the text can be put
 * into a URL or a Host field as it is.
 */
struct url_host {
    enum url_host_kind kind;
    size_t n;
    char text[URL_HOST_MAX + 1]; /* NUL-terminated too */
};

static inline struct slice url_host_slice(const struct url_host *h) {
    return (struct slice){h->text, h->n};
}

/* An address without brackets, for inet_pton; a name as it is. */
struct slice url_host_bare(const struct url_host *h);

/*
 * Reads a host as it stands in a Host field, a target, a ClientHello or a rule.
 * Folds case and takes one final dot off. Refuses: nothing at all, an empty label, a label over 63 or a name over
 * 253 characters, bytes other than letters, digits, '-', '_' and '.' (so: percent signs, user names, non-ASCII),
 * every spelling of an IPv4 address but the plain dotted quad ("127.1", "0x7f.1", "017700000001", "2130706433"),
 * an IPv6 address with a zone or without brackets.
 * Returns 0, ERR_PARSE or ERR_AMBIGUOUS.
 */
int url_host_parse(struct slice raw, struct url_host *out, struct errmsg *msg) MUST_CHECK;

/*
 * host[:port]. A user name before '@' is refused, as is a port that is empty, 0 or over 65535.
 * Without a port, *port becomes `default_port`.
 */
int url_authority_parse(struct slice raw, uint16_t default_port, struct url_host *out, uint16_t *port,
                        struct errmsg *msg) MUST_CHECK;

/* A note about a path that has passed. */
#define URL_PATH_EMPTY_SEGMENT 1u /* holds "//" behind its first character: judged in both readings */

/*
 * Appends the canonical form of an absolute path (no query) to `out`: unreserved characters decoded, hexadecimal
 * digits in upper case, bytes that RFC 3986 wants encoded (non-ASCII, '"', '<', '>', '^', '`', '{', '|', '}')
 * encoded.
 * Refuses: a path that does not begin with one '/'; "." and ".." as a segment, plain or encoded, also before a ';'
 * and beside an encoded slash; a backslash and a NUL or control character, plain or encoded; '#', '?' and space; a
 * '%' without two hexadecimal digits; "%25" before two digits that would decode to an unreserved character, a
 * slash, a backslash, a percent sign or a control character (double encoding); overlong UTF-8.
 * What people need passes: "/@scope%2Fname", "/!azure/x/@v/list", '+', '~', ':', ';' elsewhere.
 * *flags (may be NULL) is set to that note, or 0. Returns 0, ERR_PARSE, ERR_AMBIGUOUS, ERR_LIMIT or ERR_NOMEM.
 */
int url_path_canonical(struct slice raw, struct buf *out, unsigned *flags, struct errmsg *msg) MUST_CHECK;

/*
 * Reads one character of a path at raw.p[*at], moves *at behind it and returns it as it stands in the canonical form:
 * a byte that is plain there, or 0x100 + the byte if it is encoded there. `raw` is a path that url_path_canonical
 * takes (or its result). For those who compare paths character by character.
 */
#define URL_UNIT_ENCODED 0x100u
unsigned url_path_unit(struct slice raw, size_t *at);

/* Checks a query (without its '?'): no control character, space or '#'. It is forwarded and judged as the bytes it
 * has; nothing in it is decoded or refused for its meaning, signatures live there. Returns 0 or ERR_PARSE. */
int url_query_check(struct slice raw, struct errmsg *msg) MUST_CHECK;

/* The parts of an absolute URL, borrowed from it. */
struct url_parts {
    enum url_scheme scheme;
    struct slice authority; /* host[:port], not yet checked */
    struct slice path;      /* "/" if the URL has none */
    struct slice query;     /* without '?' */
    bool has_query;
};

/* Splits "http://…" or "https://…" (scheme in any case). Checks nothing beyond the scheme and the presence of an
 * authority. Returns 0 or ERR_PARSE. */
int url_split(struct slice raw, struct url_parts *out, struct errmsg *msg) MUST_CHECK;

/* Splits an origin-form target at its first '?'. */
void url_target_split(struct slice target, struct slice *path, struct slice *query, bool *has_query);

const char *url_scheme_name(enum url_scheme scheme);
uint16_t url_default_port(enum url_scheme scheme);

/* Appends scheme://host[:port], the port only if it is not the scheme's own. */
int url_put_origin(struct buf *out, enum url_scheme scheme, struct slice host, uint16_t port);

#endif
