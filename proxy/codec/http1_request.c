/* Heads of requests: the first line, and what the fields say of the request. */
#include "proxy/codec/http1.h"

#include "proxy/codec/http1_internal.h"

/* "GET" and "get" are different methods by RFC 9110, and the same one to some servers: lower case is refused. */
static bool is_method(struct slice s) {
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (!(c >= 'A' && c <= 'Z') && !(i > 0 && (c == '-' || c == '_' || ascii_digit(c))))
            return false;
    }
    return s.n > 0 && s.n <= HTTP1_METHOD_MAX;
}

static enum http_refusal request_line(struct http1_request *req, struct slice line) {
    struct slice rest, version;
    if (!slice_cut(line, ' ', &req->method, &rest) || !is_method(req->method)) {
        req->method = SLICE_NONE;
        return HTTP_REFUSED_METHOD;
    }
    if (!slice_cut(rest, ' ', &req->target, &version) || req->target.n == 0 || slice_find(version, ' ') >= 0)
        return HTTP_REFUSED_REQUEST_LINE;
    if (slice_eq(version, SLICE("HTTP/1.0")))
        req->minor = 0;
    else if (!slice_eq(version, SLICE("HTTP/1.1")))
        return slice_starts(version, SLICE("HTTP/")) ? HTTP_REFUSED_VERSION : HTTP_REFUSED_REQUEST_LINE;
    if (req->target.n > HTTP1_TARGET_MAX)
        return HTTP_REFUSED_TARGET_LONG;
    for (size_t i = 0; i < req->target.n; i++) {
        unsigned char c = (unsigned char)req->target.p[i];
        if (c < 0x21 || c > 0x7e)
            return c < 0x20 || c == 0x7f ? HTTP_REFUSED_CONTROL : HTTP_REFUSED_TARGET;
        if (c == '#')
            return HTTP_REFUSED_FRAGMENT;
    }
    return HTTP_REFUSED_NOT;
}

static enum http_refusal target_absolute(struct http1_request *req) {
    struct slice target = req->target;
    ptrdiff_t colon = slice_find(target, ':');
    if (colon <= 0 || !slice_starts(slice_from(target, (size_t)colon), SLICE("://")))
        return HTTP_REFUSED_TARGET;
    req->form = HTTP1_FORM_ABSOLUTE;
    req->scheme = slice_sub(target, 0, (size_t)colon);
    if (!slice_caseeq(req->scheme, SLICE("http")) && !slice_caseeq(req->scheme, SLICE("https")))
        return HTTP_REFUSED_SCHEME;
    struct slice rest = slice_from(target, (size_t)colon + 3);
    size_t end = 0;
    while (end < rest.n && rest.p[end] != '/' && rest.p[end] != '?')
        end++;
    req->origin = slice_from(rest, end);
    if (req->origin.n == 0)
        req->origin = slice_eq(req->method, SLICE("OPTIONS")) ? SLICE("*") : SLICE("/");
    else if (req->origin.p[0] != '/') /* a query without a path has no origin form in the bytes received */
        return HTTP_REFUSED_TARGET;
    return http1_authority_parse(slice_sub(rest, 0, end), &req->authority);
}

static enum http_refusal request_target(struct http1_request *req) {
    if (slice_eq(req->method, SLICE("CONNECT"))) {
        req->form = HTTP1_FORM_AUTHORITY;
        enum http_refusal refusal = http1_authority_parse(req->target, &req->authority);
        if (refusal)
            return refusal;
        return req->authority.port ? HTTP_REFUSED_NOT : HTTP_REFUSED_AUTHORITY;
    }
    req->origin = req->target;
    if (req->target.p[0] == '/') {
        req->form = HTTP1_FORM_ORIGIN;
        return HTTP_REFUSED_NOT;
    }
    if (slice_eq(req->target, SLICE("*"))) {
        req->form = HTTP1_FORM_ASTERISK;
        return slice_eq(req->method, SLICE("OPTIONS")) ? HTTP_REFUSED_NOT : HTTP_REFUSED_TARGET;
    }
    return target_absolute(req);
}

static enum http_refusal request_host(struct http1_request *req, const struct http1_section *s) {
    if (s->hosts > 1)
        return HTTP_REFUSED_HOST_REPEATED;
    if (!s->host)
        return req->minor == 1 ? HTTP_REFUSED_HOST_MISSING : HTTP_REFUSED_NOT;
    req->host_field = s->host->value;
    if (http1_authority_parse(req->host_field, &req->host))
        return HTTP_REFUSED_HOST_BAD;
    bool same = true;
    if (req->form == HTTP1_FORM_AUTHORITY) /* clients leave the port out of a CONNECT's Host */
        same = http1_authority_eq(&req->authority, &req->host, req->authority.port);
    else if (req->form == HTTP1_FORM_ABSOLUTE)
        same = http1_authority_eq(&req->authority, &req->host, req->scheme.n == 5 ? 443 : 80);
    return same ? HTTP_REFUSED_NOT : HTTP_REFUSED_HOST_DIFFERS;
}

static enum http_refusal request_framing(struct http1_request *req, const struct http1_section *s) {
    enum http_refusal refusal = http1_coding(s, req->minor);
    if (refusal)
        return refusal;
    if (s->codings) {
        req->framing = HTTP_BODY_CHUNKED;
    } else if (s->lengths) {
        req->framing = HTTP_BODY_LENGTH;
        req->length = s->length;
    }
    bool none = slice_eq(req->method, SLICE("CONNECT")) || slice_eq(req->method, SLICE("TRACE"));
    if (none && (req->framing == HTTP_BODY_CHUNKED || req->length))
        return HTTP_REFUSED_BODY;
    return HTTP_REFUSED_NOT;
}

/* TE: of the codings and "trailers" in it, only the latter concerns what we pass on. */
static bool te_has_trailers(struct slice value) {
    struct slice name;
    while (http_list_next(&value, &name))
        if (slice_caseeq(name, SLICE("trailers")))
            return true;
    return false;
}

static enum http_refusal request_rest(struct http1_request *req, const struct http1_section *s) {
    req->keep_alive = req->minor == 1 ? !s->close : s->keep_alive && !s->close;
    if (s->upgrade && s->upgrade_named && req->minor == 1)
        req->upgrade = s->upgrade->value;
    for (size_t i = 0; i < s->n; i++) {
        const struct http_field *field = &s->fields[i];
        if (field->id == HTTP_F_TE && te_has_trailers(field->value))
            req->te_trailers = true;
        if (field->id != HTTP_F_EXPECT)
            continue;
        if (!slice_caseeq(field->value, SLICE("100-continue")))
            return HTTP_REFUSED_EXPECT;
        req->expect_continue = req->minor == 1;
    }
    return HTTP_REFUSED_NOT;
}

static enum http_refusal request_parse(struct http1_request *req, struct slice head) {
    struct slice rest = head, line;
    if (head.n > HTTP1_HEAD_MAX)
        return HTTP_REFUSED_TOO_LONG;
    enum http_refusal refusal = http1_line(&rest, &line);
    if (!refusal)
        refusal = request_line(req, line);
    if (!refusal)
        refusal = request_target(req);
    if (refusal)
        return refusal;

    struct http1_section section = {.fields = req->fields};
    refusal = http1_fields(rest, &section, true);
    req->nfields = section.n;
    if (!refusal)
        refusal = request_host(req, &section);
    if (!refusal)
        refusal = request_framing(req, &section);
    if (!refusal)
        refusal = request_rest(req, &section);
    if (refusal)
        return refusal;

    struct http1_opinion ours = {.head = head,
                                 .method = req->method,
                                 .target = req->target,
                                 .minor = req->minor,
                                 .fields = req->fields,
                                 .nfields = req->nfields,
                                 .chunked = req->framing == HTTP_BODY_CHUNKED,
                                 .has_length = section.lengths > 0,
                                 .length = section.length};
    return http1_second_opinion(&ours) ? HTTP_REFUSED_NOT : HTTP_REFUSED_SECOND_OPINION;
}

int http1_request_parse(struct http1_request *req, struct slice head) {
    memset(req, 0, offsetof(struct http1_request, fields));
    req->minor = 1;
    req->refusal = request_parse(req, head);
    return http1_refusal_err(req->refusal);
}
