/*
 * Theory of operation. A host is read label by label and an address is recognised by WHATWG's rule: a name whose
 * last label is a number is an IPv4 address or nothing. Resolvers take many spellings of one ("127.1", octal,
 * hexadecimal), so only the plain one is let through.
 *
 * A path is read once, left to right, into a sequence of characters (plain or still encoded); a segment's first
 * characters are watched for dots while they pass, so that "%2e%2E;x" is seen as the ".." that some servers make of
 * it. Encoded slashes end a segment for this purpose only.
 */
#include "base/url.h"

#include <arpa/inet.h>
#include <stdio.h>

/* --- host -------------------------------------------------------------------------------------------------- */

static bool host_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || ascii_digit(c) || c == '-' || c == '_';
}

/* A label that a resolver would take for a number: digits, or 0x and hexadecimal digits. */
static bool label_is_number(struct slice label) {
    if (label.n >= 2 && label.p[0] == '0' && ascii_lower(label.p[1]) == 'x') {
        for (size_t i = 2; i < label.n; i++)
            if (ascii_hex(label.p[i]) < 0)
                return false;
        return true;
    }
    for (size_t i = 0; i < label.n; i++)
        if (!ascii_digit(label.p[i]))
            return false;
    return label.n > 0;
}

static bool quad_plain(struct slice s) {
    for (int i = 0; i < 4; i++) {
        struct slice part;
        uint64_t value;
        bool more = slice_cut(s, '.', &part, &s);
        if (more != (i < 3) || !slice_u64(part, 255, &value) || (part.n > 1 && part.p[0] == '0'))
            return false;
    }
    return true;
}

static int host_ipv6(struct slice raw, struct url_host *out, struct errmsg *msg) {
    char text[INET6_ADDRSTRLEN];
    struct in6_addr a;
    if (raw.n < 4 || raw.p[raw.n - 1] != ']' || raw.n - 2 >= sizeof text)
        return errmsg_set(msg, ERR_PARSE, "malformed IPv6 address");
    size_t n = raw.n - 2;
    memcpy(text, raw.p + 1, n);
    text[n] = 0;
    if (strlen(text) != n || inet_pton(AF_INET6, text, &a) != 1)
        return errmsg_set(msg, ERR_PARSE, "malformed IPv6 address");
    struct url_host h = {.kind = URL_HOST_IPV6};
    if (!inet_ntop(AF_INET6, &a, text, sizeof text))
        return errmsg_set(msg, ERR_INTERNAL, "IPv6 address can't be written");
    h.n = (size_t)snprintf(h.text, sizeof h.text, "[%s]", text);
    *out = h;
    return 0;
}

static int host_name(struct slice raw, struct url_host *h, struct slice *last, struct errmsg *msg) {
    size_t label = 0;
    for (size_t i = 0; i < raw.n; i++) {
        char c = raw.p[i];
        if (c == '.') {
            if (label == 0)
                return errmsg_set(msg, ERR_AMBIGUOUS, "host has an empty label");
            label = 0;
        } else if ((unsigned char)c >= 0x80) {
            return errmsg_set(msg, ERR_PARSE,
                              "host is not in ASCII (an international name is written xn--…)");
        } else if (!host_char(c)) {
            return errmsg_set(msg, ERR_PARSE, "host has a character that no host name has");
        } else if (++label > URL_LABEL_MAX) {
            return errmsg_set(msg, ERR_PARSE, "host has a label of more than %d characters", URL_LABEL_MAX);
        }
        h->text[i] = ascii_lower(c);
    }
    if (label == 0)
        return errmsg_set(msg, ERR_AMBIGUOUS, "host has an empty label");
    h->n = raw.n;
    h->text[raw.n] = 0;
    *last = slice_make(h->text + h->n - label, label);
    return 0;
}

int url_host_parse(struct slice raw, struct url_host *out, struct errmsg *msg) {
    if (raw.n == 0)
        return errmsg_set(msg, ERR_PARSE, "host is empty");
    if (raw.p[0] == '[')
        return host_ipv6(raw, out, msg);
    bool dot = raw.p[raw.n - 1] == '.';
    if (dot)
        raw.n--;
    if (raw.n > URL_HOST_MAX)
        return errmsg_set(msg, ERR_PARSE, "host has more than %d characters", URL_HOST_MAX);
    struct url_host h = {.kind = URL_HOST_NAME};
    struct slice last = SLICE_NONE;
    int r = host_name(raw, &h, &last, msg);
    if (r)
        return r;
    if (label_is_number(last)) {
        if (dot || !quad_plain(url_host_slice(&h)))
            return errmsg_set(msg, ERR_AMBIGUOUS,
                              "host is an IPv4 address in a spelling that is read in more than one way");
        h.kind = URL_HOST_IPV4;
    }
    *out = h;
    return 0;
}

struct slice url_host_bare(const struct url_host *h) {
    if (h->kind == URL_HOST_IPV6)
        return slice_make(h->text + 1, h->n - 2);
    return url_host_slice(h);
}

int url_authority_parse(struct slice raw, uint16_t default_port, struct url_host *out, uint16_t *port,
                        struct errmsg *msg) {
    if (slice_find(raw, '@') >= 0)
        return errmsg_set(msg, ERR_AMBIGUOUS, "host has a user name before it");
    struct slice host = raw, rest = SLICE_NONE;
    ptrdiff_t end = raw.n && raw.p[0] == '[' ? slice_find(raw, ']') : -1;
    if (end >= 0) {
        host = slice_sub(raw, 0, (size_t)end + 1);
        rest = slice_from(raw, (size_t)end + 1);
    } else if (!(raw.n && raw.p[0] == '[') && (end = slice_find(raw, ':')) >= 0) {
        host = slice_sub(raw, 0, (size_t)end);
        rest = slice_from(raw, (size_t)end);
    }
    uint64_t number = default_port;
    if (rest.n) {
        struct slice digits = slice_from(rest, 1);
        if (rest.p[0] != ':' || digits.n > 5 || !slice_u64(digits, 65535, &number) || number == 0)
            return errmsg_set(msg, ERR_PARSE, "port is not a number from 1 to 65535");
    }
    int r = url_host_parse(host, out, msg);
    if (r)
        return r;
    *port = (uint16_t)number;
    return 0;
}

/* --- path -------------------------------------------------------------------------------------------------- */

static bool unreserved(unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

static bool control(unsigned char c) {
    return c < 0x20 || c == 0x7f;
}

/* Bytes that stand in no URI but that clients send all the same. */
static bool wants_encoding(unsigned char c) {
    return c >= 0x80 || (c && strchr("\"<>^`{|}", c));
}

/* The path as it is read: where it stands, and what its present segment has been so far. */
struct path_reader {
    struct slice raw;
    size_t at;
    unsigned flags;
    unsigned dots;     /* dots at the segment's start, 3 for "more than two" */
    bool only_dots;    /* nothing but dots yet */
    unsigned prev;     /* previous decoded byte if it was encoded and not ASCII, for overlong UTF-8 */
    char last;         /* last character written */
    int after_percent; /* AFTER_…, or the first of two hexadecimal digits behind a '%' */
};
#define AFTER_OTHER   (-1)
#define AFTER_PERCENT (-2)

/* Ends a segment: "." and ".." are never what they look like. */
static int segment_end(struct path_reader *r, struct errmsg *msg) {
    if (r->only_dots && (r->dots == 1 || r->dots == 2))
        return errmsg_set(msg, ERR_AMBIGUOUS, "path has a dot segment");
    return 0;
}

static void segment_begin(struct path_reader *r) {
    r->dots = 0;
    r->only_dots = true;
}

/* Watches a character, decoded, that belongs to the segment. */
static int segment_char(struct path_reader *r, unsigned char c, struct errmsg *msg) {
    if (c == ';')
        return segment_end(r, msg); /* "..;x" is ".." with a parameter to some servers */
    if (c == '.' && r->only_dots)
        r->dots += r->dots < 3;
    else
        r->only_dots = false;
    return 0;
}

/* An encoded byte of 0x80 or more: C0, C1, E0 80-9F and F0 80-8F begin an overlong form, which hides ASCII. */
static int utf8_byte(struct path_reader *r, unsigned char c, struct errmsg *msg) {
    if (c == 0xc0 || c == 0xc1 || (r->prev == 0xe0 && c < 0xa0) || (r->prev == 0xf0 && c < 0x90))
        return errmsg_set(msg, ERR_AMBIGUOUS, "path has overlong UTF-8");
    r->prev = c;
    return 0;
}

/* Watches for "%25" and two hexadecimal digits behind it, themselves encoded or not: refused if decoding once more
 * would bring out something that matters. `c` is the next character, decoded. */
static int double_encoding(struct path_reader *r, unsigned char c, struct errmsg *msg) {
    int digit = ascii_hex((char)c), high = r->after_percent;
    r->after_percent = c == '%' ? AFTER_PERCENT : AFTER_OTHER;
    if (high == AFTER_OTHER || digit < 0)
        return 0;
    if (high == AFTER_PERCENT) {
        r->after_percent = digit;
        return 0;
    }
    c = (unsigned char)(high << 4 | digit);
    if (unreserved(c) || control(c) || c == '/' || c == '\\' || c == '%' || c == ';')
        return errmsg_set(msg, ERR_AMBIGUOUS, "path is encoded twice");
    return 0;
}

static int put_encoded(struct path_reader *r, unsigned char c, struct buf *out) {
    static const char hex[] = "0123456789ABCDEF";
    char text[3] = {'%', hex[c >> 4], hex[c & 15]};
    r->last = '%';
    return buf_put(out, slice_make(text, 3));
}

static int put_plain(struct path_reader *r, unsigned char c, struct buf *out) {
    r->last = (char)c;
    return buf_putc(out, (char)c);
}

/* The byte `c` that stood there as "%XX". */
static int path_encoded(struct path_reader *r, unsigned char c, struct buf *out, struct errmsg *msg) {
    int e = 0;
    if (control(c))
        return errmsg_set(msg, ERR_AMBIGUOUS, "path has an encoded control character");
    if (c == '\\')
        return errmsg_set(msg, ERR_AMBIGUOUS, "path has an encoded backslash");
    if (c >= 0x80 && (e = utf8_byte(r, c, msg)))
        return e;
    if (c == '/') {
        if ((e = segment_end(r, msg)))
            return e;
        segment_begin(r);
    } else if ((e = segment_char(r, c, msg))) {
        return e;
    }
    return unreserved(c) ? put_plain(r, c, out) : put_encoded(r, c, out);
}

/* The byte `c` as it stood there. */
static int path_plain(struct path_reader *r, unsigned char c, struct buf *out, struct errmsg *msg) {
    int e;
    if (control(c) || c == ' ')
        return errmsg_set(msg, ERR_PARSE, "path has a space or control character");
    if (c == '\\')
        return errmsg_set(msg, ERR_AMBIGUOUS, "path has a backslash");
    if (c == '#' || c == '?')
        return errmsg_set(msg, ERR_PARSE, "path has a '%c'", c);
    if (c == '/') {
        if ((e = segment_end(r, msg)))
            return e;
        segment_begin(r);
        if (r->last == '/')
            r->flags |= URL_PATH_EMPTY_SEGMENT;
        return put_plain(r, c, out);
    }
    if (c >= 0x80 && (e = utf8_byte(r, c, msg)))
        return e;
    if ((e = segment_char(r, c, msg)))
        return e;
    return wants_encoding(c) ? put_encoded(r, c, out) : put_plain(r, c, out);
}

static int path_next(struct path_reader *r, struct buf *out, struct errmsg *msg) {
    unsigned char c = (unsigned char)r->raw.p[r->at++];
    if (c != '%') {
        if (c < 0x80)
            r->prev = 0;
        int e = double_encoding(r, c, msg);
        return e ? e : path_plain(r, c, out, msg);
    }
    int byte = slice_hex_pair(r->raw, r->at);
    if (byte < 0)
        return errmsg_set(msg, ERR_AMBIGUOUS, "path has a '%%' without two hexadecimal digits");
    r->at += 2;
    c = (unsigned char)byte;
    if (c < 0x80)
        r->prev = 0;
    int e = double_encoding(r, c, msg);
    return e ? e : path_encoded(r, c, out, msg);
}

unsigned url_path_unit(struct slice raw, size_t *at) {
    unsigned char c = (unsigned char)raw.p[(*at)++];
    if (c != '%')
        return wants_encoding(c) ? URL_UNIT_ENCODED | c : c;
    int byte = slice_hex_pair(raw, *at);
    if (byte < 0)
        return c; /* no path; nothing is read past its end all the same */
    *at += 2;
    c = (unsigned char)byte;
    return unreserved(c) ? c : URL_UNIT_ENCODED | c;
}

int url_path_canonical(struct slice raw, struct buf *out, unsigned *flags, struct errmsg *msg) {
    if (raw.n == 0 || raw.p[0] != '/')
        return errmsg_set(msg, ERR_PARSE, "path does not begin with '/'");
    if (raw.n > 1 && raw.p[1] == '/')
        return errmsg_set(msg, ERR_AMBIGUOUS, "path begins with two slashes");
    size_t before = buf_len(out);
    bool failed = out->failed;
    struct path_reader r = {.raw = raw, .only_dots = true, .after_percent = AFTER_OTHER};
    int e = 0;
    while (!e && r.at < raw.n)
        e = path_next(&r, out, msg);
    if (!e)
        e = segment_end(&r, msg);
    if (e) {
        out->end = out->start + before;
        out->failed = failed;
        if (e == ERR_LIMIT || e == ERR_NOMEM)
            errmsg_set(msg, e, "path is too long");
        return e;
    }
    if (flags)
        *flags = r.flags;
    return 0;
}

/* --- the rest ---------------------------------------------------------------------------------------------- */

int url_query_check(struct slice raw, struct errmsg *msg) {
    for (size_t i = 0; i < raw.n; i++) {
        unsigned char c = (unsigned char)raw.p[i];
        if (control(c) || c == ' ' || c == '#')
            return errmsg_set(msg, ERR_PARSE, "query has a space, a control character or a '#'");
    }
    return 0;
}

int url_split(struct slice raw, struct url_parts *out, struct errmsg *msg) {
    struct url_parts parts = {.scheme = URL_HTTPS};
    if (slice_caseeq(slice_sub(raw, 0, 8), SLICE("https://"))) {
        raw = slice_from(raw, 8);
    } else if (slice_caseeq(slice_sub(raw, 0, 7), SLICE("http://"))) {
        parts.scheme = URL_HTTP;
        raw = slice_from(raw, 7);
    } else {
        return errmsg_set(msg, ERR_PARSE, "URL does not begin with http:// or https://");
    }
    size_t n = 0;
    while (n < raw.n && raw.p[n] != '/' && raw.p[n] != '?' && raw.p[n] != '#')
        n++;
    if (n == 0)
        return errmsg_set(msg, ERR_PARSE, "URL has no host");
    parts.authority = slice_sub(raw, 0, n);
    url_target_split(slice_from(raw, n), &parts.path, &parts.query, &parts.has_query);
    if (parts.path.n == 0)
        parts.path = SLICE("/");
    *out = parts;
    return 0;
}

void url_target_split(struct slice target, struct slice *path, struct slice *query, bool *has_query) {
    *has_query = slice_cut(target, '?', path, query);
}

const char *url_scheme_name(enum url_scheme scheme) {
    return scheme == URL_HTTPS ? "https" : "http";
}

uint16_t url_default_port(enum url_scheme scheme) {
    return scheme == URL_HTTPS ? 443 : 80;
}

int url_put_origin(struct buf *out, enum url_scheme scheme, struct slice host, uint16_t port) {
    if (port == url_default_port(scheme))
        return buf_printf(out, "%s://%.*s", url_scheme_name(scheme), SLICE_ARG(host));
    return buf_printf(out, "%s://%.*s:%u", url_scheme_name(scheme), SLICE_ARG(host), port);
}
