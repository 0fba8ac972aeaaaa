#include "proxy/codec/http1_write.h"

/* Writes into room that was reserved for the longest possible result. */
struct cursor {
    char *p;
    size_t n;
    bool bad; /* a name or value that must not be written */
};

/* What any head needs beside the caller's names and values: status line or version, framing, Connection, TE ... */
#define ROOM_FIXED 512
#define ROOM_FIELD 4 /* ": " and CRLF */

static void put(struct cursor *c, struct slice s) {
    if (s.n)
        memcpy(c->p + c->n, s.p, s.n);
    c->n += s.n;
}

/* A field of our own making. */
static void put_fixed(struct cursor *c, struct slice name, struct slice value) {
    put(c, name);
    put(c, SLICE(": "));
    put(c, value);
    put(c, SLICE("\r\n"));
}

/* A field of somebody else's making, checked on its way out. */
static void put_field(struct cursor *c, struct slice name, struct slice value) {
    if (!http_is_token(name) || !http_is_value(value))
        c->bad = true;
    put_fixed(c, name, value);
}

static void put_number(struct cursor *c, uint64_t n) {
    char digits[SLICE_DECIMAL_MAX];
    put(c, slice_decimal(n, digits));
}

static void put_length(struct cursor *c, uint64_t length) {
    put(c, SLICE("Content-Length: "));
    put_number(c, length);
    put(c, SLICE("\r\n"));
}

static size_t fields_room(const struct http_field *fields, size_t n) {
    size_t room = 0;
    for (size_t i = 0; i < n; i++)
        room += fields[i].name.n + fields[i].value.n + ROOM_FIELD;
    return room;
}

static int begin(struct cursor *c, struct buf *out, size_t room) {
    *c = (struct cursor){0};
    return buf_reserve(out, room + ROOM_FIXED, &c->p);
}

/* What was written counts only now. */
static int finish(const struct cursor *c, struct buf *out) {
    if (c->bad)
        return ERR_PARSE;
    buf_commit(out, c->n);
    return 0;
}

static void put_framing(struct cursor *c, enum http_framing framing, uint64_t length) {
    if (framing == HTTP_BODY_CHUNKED)
        put_fixed(c, SLICE("Transfer-Encoding"), SLICE("chunked"));
    else if (framing == HTTP_BODY_LENGTH)
        put_length(c, length);
}

static bool is_dropped(const struct http1_write *opt, struct slice name) {
    for (size_t i = 0; i < opt->ndrop; i++)
        if (http_name_alike(name, opt->drop[i]))
            return true;
    return false;
}

static void put_added(struct cursor *c, const struct http_field *add, size_t n) {
    for (size_t i = 0; i < n; i++)
        put_field(c, add[i].name, add[i].value);
}

static void put_upgrade(struct cursor *c, const struct http1_write *opt) {
    if (!opt->upgrade.n)
        return;
    put_fixed(c, SLICE("Connection"), SLICE("Upgrade"));
    put_field(c, SLICE("Upgrade"), opt->upgrade);
}

/* ---- requests ---- */

static bool request_keeps(const struct http1_request *req, const struct http_field *field,
                          const struct http1_write *opt) {
    switch (field->id) {
    case HTTP_F_HOST:
    case HTTP_F_CONTENT_LENGTH:
    case HTTP_F_TRANSFER_ENCODING:
    case HTTP_F_EXPECT: return false;
    case HTTP_F_TRAILER: return req->framing == HTTP_BODY_CHUNKED && !field->hop;
    default: return !field->hop && !is_dropped(opt, field->name);
    }
}

static struct slice request_host(const struct http1_request *req, const struct http1_write *opt) {
    return opt->host.n ? opt->host : req->host_field;
}

static void put_request(struct cursor *c, const struct http1_request *req, struct http1_write *opt) {
    struct slice target = opt->retarget ? opt->target : req->origin;
    put(c, req->method);
    put(c, SLICE(" "));
    if (opt->absolute) {
        put(c, SLICE("http://"));
        put(c, request_host(req, opt));
    }
    put(c, target);
    put(c, SLICE(" HTTP/1.1\r\n"));
    put_fixed(c, SLICE("Host"), request_host(req, opt));
    for (size_t i = 0; i < req->nfields; i++)
        if (request_keeps(req, &req->fields[i], opt))
            put_field(c, req->fields[i].name, req->fields[i].value);
    bool te = req->te_trailers && !opt->upgrade.n; /* Connection has one thing to say then */
    if (te)
        put_fixed(c, SLICE("TE"), SLICE("trailers"));
    if (req->expect_continue && !opt->drop_expect)
        put_fixed(c, SLICE("Expect"), SLICE("100-continue"));
    put_framing(c, req->framing, req->length);
    opt->closing = opt->close && !opt->upgrade.n;
    if (opt->closing)
        put_fixed(c, SLICE("Connection"), te ? SLICE("close, TE") : SLICE("close"));
    else if (te)
        put_fixed(c, SLICE("Connection"), SLICE("TE"));
    put_upgrade(c, opt);
    put_added(c, opt->add, opt->nadd);
    put(c, SLICE("\r\n"));
}

/* A target goes out between two spaces: nothing in it may look like one, or like a line's end. */
static bool is_target(struct slice s) {
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < 0x21 || (unsigned char)s.p[i] > 0x7e)
            return false;
    return s.n > 0;
}

int http1_write_request(struct buf *out, const struct http1_request *req, struct http1_write *opt) {
    struct http1_authority authority;
    struct slice target = opt->retarget ? opt->target : req->origin;
    if (http1_authority_parse(request_host(req, opt), &authority) || !http_is_token(req->method) ||
        !is_target(target) || (target.p[0] != '/' && !slice_eq(target, SLICE("*"))))
        return ERR_PARSE;
    struct cursor c;
    int r = begin(&c, out,
                  req->method.n + target.n + 2 * request_host(req, opt).n + opt->upgrade.n +
                      fields_room(req->fields, req->nfields) + fields_room(opt->add, opt->nadd));
    if (r)
        return r;
    put_request(&c, req, opt);
    return finish(&c, out);
}

/* ---- answers ---- */

struct answer {
    const struct http1_response *resp;
    bool head;
};

/* Of an answer to HEAD and of a 304 the framing fields tell of a body that is not there: they stay as they are. */
static bool tells_of_absent_body(const struct answer *a) {
    return a->head ? a->resp->status >= 200 && a->resp->status != 204 : a->resp->status == 304;
}

static bool response_keeps(const struct answer *a, const struct http_field *field,
                           const struct http1_write *opt) {
    switch (field->id) {
    case HTTP_F_ALT_SVC: return false;
    case HTTP_F_CONTENT_LENGTH: return tells_of_absent_body(a);
    case HTTP_F_TRANSFER_ENCODING: return tells_of_absent_body(a) && opt->client_minor > 0;
    case HTTP_F_TRAILER: return opt->framing_out == HTTP_BODY_CHUNKED && !field->hop;
    default: return !field->hop && !is_dropped(opt, field->name);
    }
}

static void put_response(struct cursor *c, const struct answer *a, struct http1_write *opt) {
    const struct http1_response *resp = a->resp;
    put(c, SLICE("HTTP/1.1 "));
    put_number(c, (uint64_t)resp->status);
    put(c, SLICE(" "));
    put(c, resp->reason);
    put(c, SLICE("\r\n"));
    for (size_t i = 0; i < resp->nfields; i++)
        if (response_keeps(a, &resp->fields[i], opt))
            put_field(c, resp->fields[i].name, resp->fields[i].value);
    put_framing(c, opt->framing_out, resp->length);
    if (opt->closing)
        put_fixed(c, SLICE("Connection"), SLICE("close"));
    else if (opt->client_minor == 0 && resp->status >= 200)
        put_fixed(c, SLICE("Connection"), SLICE("keep-alive"));
    put_upgrade(c, opt);
    put_added(c, opt->add, opt->nadd);
    put(c, SLICE("\r\n"));
}

int http1_write_response(struct buf *out, const struct http1_response *resp, bool head,
                         struct http1_write *opt) {
    if (!http_is_value(resp->reason))
        return ERR_PARSE;
    opt->framing_out = resp->framing;
    bool stream = resp->framing == HTTP_BODY_CHUNKED || resp->framing == HTTP_BODY_CLOSE;
    if (stream)
        opt->framing_out = opt->client_minor > 0 ? HTTP_BODY_CHUNKED : HTTP_BODY_CLOSE;
    bool interim = resp->status < 200;
    opt->closing = !interim && (opt->close || opt->framing_out == HTTP_BODY_CLOSE ||
                                (opt->client_minor == 0 && !opt->client_keep_alive));
    if (interim && opt->client_minor == 0)
        return 0;
    struct answer a = {resp, head};
    struct cursor c;
    int r = begin(&c, out,
                  resp->reason.n + opt->upgrade.n + fields_room(resp->fields, resp->nfields) +
                      fields_room(opt->add, opt->nadd));
    if (r)
        return r;
    put_response(&c, &a, opt);
    return finish(&c, out);
}

/* ---- our own answers ---- */

static const struct {
    int status;
    const char *reason;
} reasons[] = {
    {100, "Continue"},
    {200, "OK"},
    {204, "No Content"},
    {400, "Bad Request"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {407, "Proxy Authentication Required"},
    {408, "Request Timeout"},
    {411, "Length Required"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
};

const char *http1_reason(int status) {
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "";
}

int http1_write_own(struct buf *out, int status, struct slice content_type, uint64_t length,
                    const struct http_field *add, size_t nadd, bool close) {
    struct cursor c;
    if (status < 200 || status > 599)
        return ERR_USAGE;
    int r = begin(&c, out, content_type.n + fields_room(add, nadd));
    if (r)
        return r;
    put(&c, SLICE("HTTP/1.1 "));
    put_number(&c, (uint64_t)status);
    put(&c, SLICE(" "));
    put(&c, slice_str(http1_reason(status)));
    put(&c, SLICE("\r\n"));
    if (content_type.n)
        put_field(&c, SLICE("Content-Type"), content_type);
    put_length(&c, length);
    if (close)
        put_fixed(&c, SLICE("Connection"), SLICE("close"));
    put_added(&c, add, nadd);
    put(&c, SLICE("\r\n"));
    return finish(&c, out);
}
