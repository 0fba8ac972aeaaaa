#include "proxy/codec/http1.h"

#include "proxy/codec/http1_internal.h"

void http1_scan_init(struct http1_scan *scan, bool response) {
    *scan = (struct http1_scan){.response = response};
}

int http1_refusal_err(enum http_refusal refusal) {
    switch (refusal) {
    case HTTP_REFUSED_NOT: return 0;
    case HTTP_REFUSED_TOO_LONG:
    case HTTP_REFUSED_TOO_MANY:
    case HTTP_REFUSED_TARGET_LONG: return ERR_LIMIT;
    case HTTP_REFUSED_HOST_REPEATED:
    case HTTP_REFUSED_HOST_DIFFERS:
    case HTTP_REFUSED_LENGTH_REPEATED:
    case HTTP_REFUSED_LENGTH_AND_CODING:
    case HTTP_REFUSED_NAME_ALIKE:
    case HTTP_REFUSED_METHOD_OVERRIDE:
    case HTTP_REFUSED_TARGET_OVERRIDE:
    case HTTP_REFUSED_REPEATED:
    case HTTP_REFUSED_SECOND_OPINION: return ERR_AMBIGUOUS;
    default: return ERR_PARSE;
    }
}

static int scan_fail(struct http1_scan *scan, enum http_refusal refusal) {
    scan->refusal = refusal;
    return http1_refusal_err(refusal);
}

/* A first line that can't be one is refused at once: its sender may never send the empty line (HTTP/0.9). */
static enum http_refusal scan_first_line(const struct http1_scan *scan, struct slice line) {
    if (scan->response)
        return slice_starts(line, SLICE("HTTP/1.")) ? HTTP_REFUSED_NOT : HTTP_REFUSED_STATUS_LINE;
    if (slice_ends(line, SLICE(" HTTP/1.1")) || slice_ends(line, SLICE(" HTTP/1.0")))
        return HTTP_REFUSED_NOT;
    return line.n >= 5 && memmem(line.p, line.n, " HTTP/", 6) ? HTTP_REFUSED_VERSION
                                                              : HTTP_REFUSED_REQUEST_LINE;
}

/* A line is complete: `scan->pos` is behind its LF. 1: it is the empty line that ends the head. */
static int scan_line(struct http1_scan *scan, struct slice line) {
    bool first = scan->line == scan->skip;
    scan->line = scan->pos;
    if (line.n == 0 && !first)
        return 1;
    if (line.n == 0 && (scan->response || scan->skip))
        return scan_fail(scan, scan->response ? HTTP_REFUSED_STATUS_LINE : HTTP_REFUSED_REQUEST_LINE);
    if (line.n == 0) {
        scan->skip = scan->line;
        return 0;
    }
    enum http_refusal refusal = first ? scan_first_line(scan, line) : HTTP_REFUSED_NOT;
    return refusal ? scan_fail(scan, refusal) : 0;
}

/* The first byte of `part` that can't stand there: a NUL, a CR that no LF follows, an LF that no CR precedes. A CR at
 * the very end waits for what comes. Returns the length up to and with the first CRLF, or part.n if there is none. */
static enum http_refusal scan_part(const struct http1_scan *scan, struct slice part, size_t *n, bool *line) {
    const char *lf = memchr(part.p, '\n', part.n);
    *line = lf != NULL;
    *n = lf ? (size_t)(lf - part.p) + 1 : part.n;
    if (scan->after_cr)
        return lf == part.p ? HTTP_REFUSED_NOT : HTTP_REFUSED_LINE_END;
    size_t text = lf ? *n - 1 : *n;
    const char *cr = memchr(part.p, '\r', text), *nul = memchr(part.p, 0, text);
    if (nul && (!cr || nul < cr))
        return HTTP_REFUSED_CONTROL;
    if (cr ? cr != part.p + text - 1 : lf != NULL)
        return HTTP_REFUSED_LINE_END;
    return HTTP_REFUSED_NOT;
}

int http1_scan(struct http1_scan *scan, struct slice data, struct slice *head) {
    while (scan->pos < data.n) {
        struct slice part = slice_from(data, scan->pos);
        size_t n;
        bool line;
        enum http_refusal refusal = scan_part(scan, part, &n, &line);
        if (refusal)
            return scan_fail(scan, refusal);
        scan->after_cr = !line && part.p[n - 1] == '\r';
        scan->pos += n;
        if (scan->pos - scan->skip > HTTP1_HEAD_MAX)
            return scan_fail(scan, HTTP_REFUSED_TOO_LONG);
        if (!line)
            break;
        int r = scan_line(scan, slice_sub(data, scan->line, scan->pos - 2 - scan->line));
        if (r == 1) {
            *head = slice_sub(data, scan->skip, scan->pos - scan->skip);
            return 0;
        }
        if (r)
            return r;
    }
    return ERR_INCOMPLETE;
}

/* ---- authorities ---- */

static bool is_host_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || ascii_digit(c) || c == '-' || c == '.' ||
           c == '_';
}

/* Splits off the port behind the host; -1 if what stands there is none. */
static int authority_port(struct slice text) {
    uint64_t port;
    if (text.n == 0)
        return 0;
    if (text.p[0] != ':' || text.n > 6 || !slice_u64(slice_from(text, 1), 65535, &port) || port == 0)
        return -1;
    return (int)port;
}

enum http_refusal http1_authority_parse(struct slice text, struct http1_authority *out) {
    struct http1_authority a = {0};
    size_t end = 0;
    if (slice_find(text, '@') >= 0)
        return HTTP_REFUSED_USERINFO;
    if (text.n && text.p[0] == '[') {
        ptrdiff_t close = slice_find(text, ']');
        if (close < 3)
            return HTTP_REFUSED_AUTHORITY;
        a.host = slice_sub(text, 1, (size_t)close - 1);
        for (size_t i = 0; i < a.host.n; i++)
            if (ascii_hex(a.host.p[i]) < 0 && a.host.p[i] != ':' && a.host.p[i] != '.')
                return HTTP_REFUSED_AUTHORITY;
        a.ipv6 = true;
        end = (size_t)close + 1;
    } else {
        while (end < text.n && is_host_char(text.p[end]))
            end++;
        a.host = slice_sub(text, 0, end);
        if (end == 0)
            return HTTP_REFUSED_AUTHORITY;
    }
    a.port = authority_port(slice_from(text, end));
    if (a.port < 0)
        return HTTP_REFUSED_AUTHORITY;
    *out = a;
    return HTTP_REFUSED_NOT;
}

static struct slice without_final_dot(struct slice host) {
    return host.n > 1 && host.p[host.n - 1] == '.' ? slice_sub(host, 0, host.n - 1) : host;
}

bool http1_authority_eq(const struct http1_authority *a, const struct http1_authority *b, int port) {
    return a->ipv6 == b->ipv6 && (a->port ? a->port : port) == (b->port ? b->port : port) &&
           slice_caseeq(without_final_dot(a->host), without_final_dot(b->host));
}
