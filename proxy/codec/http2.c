#include "proxy/codec/http2.h"

#include "proxy/codec/http1_write.h"

/* ---- lists ---- */

struct lengths {
    uint32_t name, value : 31, never : 1;
};

void http2_list_init(struct http2_list *list) {
    *list = (struct http2_list){0};
    buf_init(&list->bytes, HTTP2_LIST_MAX + HTTP2_LIST_FIELDS * sizeof(struct lengths));
}

void http2_list_clear(struct http2_list *list) {
    buf_release(&list->bytes);
    http2_list_init(list);
}

/* Fields that belong to an HTTP/1 connection (RFC 9113 8.2.2). Of TE one value is permitted. */
static bool is_connection_field(enum http_field_id id, struct slice value) {
    switch (id) {
    case HTTP_F_CONNECTION:
    case HTTP_F_KEEP_ALIVE:
    case HTTP_F_PROXY_CONNECTION:
    case HTTP_F_TRANSFER_ENCODING:
    case HTTP_F_HTTP2_SETTINGS:
    case HTTP_F_UPGRADE: return true;
    case HTTP_F_TE: return !slice_caseeq(value, SLICE("trailers"));
    default: return false;
    }
}

static bool has_upper_case(struct slice s) {
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] >= 'A' && s.p[i] <= 'Z')
            return true;
    return false;
}

static enum http_refusal check_value(struct slice value) {
    if (!http_is_value(value))
        return slice_find(value, '\r') >= 0 || slice_find(value, '\n') >= 0 ? HTTP_REFUSED_LINE_END
                                                                            : HTTP_REFUSED_CONTROL;
    return slice_trim(value).n == value.n ? HTTP_REFUSED_NOT : HTTP_REFUSED_VALUE_SPACE;
}

static enum http_refusal check_field(struct http2_list *list, struct slice name, struct slice value) {
    if (has_upper_case(name))
        return HTTP_REFUSED_NAME_CASE;
    if (name.n && name.p[0] == ':') {
        if (list->regular || !http_is_token(slice_from(name, 1)))
            return HTTP_REFUSED_PSEUDO;
        return check_value(value);
    }
    list->regular = true;
    if (!http_is_token(name))
        return HTTP_REFUSED_NAME;
    if (is_connection_field(http_field_lookup(name, NULL), value))
        return HTTP_REFUSED_HOP_FIELD;
    return check_value(value);
}

int http2_list_add(struct http2_list *list, struct slice name, struct slice value, bool never) {
    if (list->refusal)
        return 0;
    list->fields++;
    list->size += name.n + value.n + HTTP2_LIST_OVERHEAD;
    if (list->size > HTTP2_LIST_MAX)
        list->refusal = HTTP_REFUSED_TOO_LONG;
    else if (list->fields > HTTP2_LIST_FIELDS)
        list->refusal = HTTP_REFUSED_TOO_MANY;
    else
        list->refusal = check_field(list, name, value);
    if (list->refusal)
        return 0;
    list->never |= never;
    struct lengths n = {(uint32_t)name.n, (uint32_t)value.n, never};
    int r = buf_put(&list->bytes, slice_make(&n, sizeof n));
    if (!r)
        r = buf_put(&list->bytes, name);
    if (!r)
        r = buf_put(&list->bytes, value);
    return r;
}

bool http2_list_next(const struct http2_list *list, size_t *at, struct http_field *field) {
    struct slice rest = slice_from(buf_slice(&list->bytes), *at);
    struct lengths n;
    if (rest.n < sizeof n)
        return false;
    memcpy(&n, rest.p, sizeof n);
    *field = (struct http_field){.name = slice_sub(rest, sizeof n, n.name),
                                 .value = slice_sub(rest, sizeof n + n.name, n.value),
                                 .never = n.never};
    *at += sizeof n + n.name + n.value;
    return true;
}

/* The head has the list's regular fields in their order, but for a Host or a key that are left out; its cookie is the last. */
bool http2_list_marks(const struct http2_list *list, struct http_field *fields, size_t n) {
    struct http_field field;
    size_t at = 0, i = 0, k;
    bool pseudo = false;
    while (list->never && http2_list_next(list, &at, &field)) {
        pseudo |= field.never && (field.name.p[0] == ':' || slice_eq(field.name, SLICE("host")));
        bool cookie = slice_eq(field.name, SLICE("cookie"));
        for (k = cookie ? 0 : i; k < n; k++)
            if (slice_eq(fields[k].name, field.name) && (cookie || slice_eq(fields[k].value, field.value)))
                break;
        if (k == n)
            continue;
        fields[k].never |= field.never;
        i = cookie ? i : k + 1;
    }
    return pseudo;
}

/* ---- pseudo-header fields ---- */

enum pseudo {
    PSEUDO_METHOD,
    PSEUDO_SCHEME,
    PSEUDO_AUTHORITY,
    PSEUDO_PATH,
    PSEUDO_PROTOCOL,
    PSEUDO_STATUS,
    PSEUDOS
};

static const char *const pseudo_names[] = {":method", ":scheme",   ":authority",
                                           ":path",   ":protocol", ":status"};
_Static_assert(sizeof pseudo_names / sizeof *pseudo_names == PSEUDOS, "a name for each");

struct pseudos {
    struct slice value[PSEUDOS];
    unsigned has; /* bits */
    size_t at;    /* of the first regular field */
};

static bool has(const struct pseudos *p, enum pseudo which) {
    return p->has & 1u << which;
}

static enum http_refusal read_pseudos(const struct http2_list *list, struct pseudos *p) {
    struct http_field f;
    size_t at = 0;
    *p = (struct pseudos){0};
    while (http2_list_next(list, &at, &f) && f.name.p[0] == ':') {
        unsigned i = 0;
        while (i < PSEUDOS && !slice_eq(f.name, slice_str(pseudo_names[i])))
            i++;
        if (i == PSEUDOS || has(p, i))
            return HTTP_REFUSED_PSEUDO;
        p->has |= 1u << i;
        p->value[i] = f.value;
        p->at = at;
    }
    return list->refusal;
}

/* ---- heads ---- */

static void put_line(struct buf *out, struct slice name, struct slice value) {
    buf_put(out, name);
    buf_puts(out, ": ");
    buf_put(out, value);
    buf_puts(out, "\r\n");
}

static enum http_refusal written(struct buf *out) {
    return out->failed ? HTTP_REFUSED_TOO_LONG : HTTP_REFUSED_NOT;
}

/* Nothing in it could end the request line, or a word of it. */
static bool is_visible(struct slice s) {
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < 0x21 || (unsigned char)s.p[i] > 0x7e)
            return false;
    return s.n > 0;
}

/* RFC 9113 8.3.1, 8.5; RFC 8441 4. */
static enum http_refusal check_request(const struct pseudos *p, bool ended, struct http2_request *about) {
    struct slice method = p->value[PSEUDO_METHOD], path = p->value[PSEUDO_PATH];
    if (!http_is_token(method))
        return has(p, PSEUDO_METHOD) ? HTTP_REFUSED_METHOD : HTTP_REFUSED_PSEUDO;
    about->method = method;
    if (has(p, PSEUDO_STATUS))
        return HTTP_REFUSED_PSEUDO;
    bool connect = slice_eq(method, SLICE("CONNECT"));
    if (has(p, PSEUDO_PROTOCOL) && !connect)
        return HTTP_REFUSED_PSEUDO;
    if (connect && !has(p, PSEUDO_PROTOCOL)) {
        bool alone = !has(p, PSEUDO_SCHEME) && !has(p, PSEUDO_PATH) && has(p, PSEUDO_AUTHORITY);
        if (!alone)
            return HTTP_REFUSED_PSEUDO;
        return is_visible(p->value[PSEUDO_AUTHORITY]) ? HTTP_REFUSED_NOT : HTTP_REFUSED_AUTHORITY;
    }
    if (!has(p, PSEUDO_SCHEME) || !has(p, PSEUDO_PATH) || path.n == 0)
        return HTTP_REFUSED_PSEUDO;
    if (!slice_caseeq(p->value[PSEUDO_SCHEME], SLICE("https"))) /* it is spoken inside TLS alone */
        return HTTP_REFUSED_SCHEME;
    if (!is_visible(path) || (path.p[0] != '/' && !slice_eq(path, SLICE("*"))))
        return HTTP_REFUSED_TARGET;
    if (!connect)
        return HTTP_REFUSED_NOT;
    if (!slice_eq(p->value[PSEUDO_PROTOCOL], SLICE("websocket")))
        return HTTP_REFUSED_PROTOCOL;
    about->websocket = !ended;
    return has(p, PSEUDO_AUTHORITY) && !ended ? HTTP_REFUSED_NOT : HTTP_REFUSED_PSEUDO;
}

/* What the fields behind the pseudo-header fields were seen to hold. */
struct seen {
    bool length, hosts;
    unsigned cookies;
};

/* A Host beside :authority says the same, or the request means two things. */
static enum http_refusal check_host(const struct pseudos *p, struct seen *seen, struct slice value) {
    struct http1_authority host, authority;
    if (seen->hosts)
        return HTTP_REFUSED_HOST_REPEATED;
    seen->hosts = true;
    if (http1_authority_parse(value, &host))
        return HTTP_REFUSED_HOST_BAD;
    enum http_refusal refusal = http1_authority_parse(p->value[PSEUDO_AUTHORITY], &authority);
    if (refusal)
        return refusal;
    return http1_authority_eq(&host, &authority, 443) ? HTTP_REFUSED_NOT : HTTP_REFUSED_HOST_DIFFERS;
}

static enum http_refusal put_request_field(struct buf *out, const struct pseudos *p, bool websocket,
                                           struct seen *seen, struct slice name, struct slice value) {
    switch (http_field_lookup(name, NULL)) {
    case HTTP_F_HOST:
        if (has(p, PSEUDO_AUTHORITY))
            return check_host(p, seen, value);
        break;
    case HTTP_F_COOKIE:
        if (slice_eq(name, SLICE("cookie"))) {
            seen->cookies++;
            return HTTP_REFUSED_NOT;
        }
        break;
    case HTTP_F_CONTENT_LENGTH: seen->length = true; break;
    default: break;
    }
    if (websocket && http_name_alike(name, SLICE("sec-websocket-key")))
        return HTTP_REFUSED_NOT; /* not used in HTTP/2 (RFC 8441 5): the key is ours */
    put_line(out, name, value);
    return HTTP_REFUSED_NOT;
}

/* RFC 9113 8.2.3: what HTTP/2 may split is one field to everybody else. */
static void put_cookie(struct buf *out, const struct http2_list *list) {
    struct http_field f;
    size_t at = 0;
    const char *before = "cookie: ";
    while (http2_list_next(list, &at, &f)) {
        if (!slice_eq(f.name, SLICE("cookie")))
            continue;
        buf_puts(out, before);
        buf_put(out, f.value);
        before = "; ";
    }
    buf_puts(out, "\r\n");
}

static bool wants_length(struct slice method) {
    return slice_eq(method, SLICE("POST")) || slice_eq(method, SLICE("PUT")) ||
           slice_eq(method, SLICE("PATCH"));
}

enum http_refusal http2_request_head(const struct http2_list *list, bool ended, const char key[HTTP2_KEY_LEN],
                                     struct buf *out, struct http2_request *about) {
    struct pseudos p;
    struct seen seen = {0};
    *about = (struct http2_request){0};
    enum http_refusal refusal = read_pseudos(list, &p);
    if (refusal && http_is_token(p.value[PSEUDO_METHOD]))
        about->method = p.value[PSEUDO_METHOD];
    if (!refusal)
        refusal = check_request(&p, ended, about);
    if (refusal)
        return refusal;
    bool connect = !has(&p, PSEUDO_PATH);
    buf_put(out, about->websocket ? SLICE("GET") : about->method);
    buf_puts(out, " ");
    buf_put(out, connect ? p.value[PSEUDO_AUTHORITY] : p.value[PSEUDO_PATH]);
    buf_puts(out, " HTTP/1.1\r\n");
    if (has(&p, PSEUDO_AUTHORITY))
        put_line(out, SLICE("host"), p.value[PSEUDO_AUTHORITY]);
    struct http_field f;
    size_t at = p.at;
    while (http2_list_next(list, &at, &f)) {
        refusal = put_request_field(out, &p, about->websocket, &seen, f.name, f.value);
        if (refusal)
            return refusal;
    }
    if (seen.cookies)
        put_cookie(out, list);
    if (about->websocket) {
        put_line(out, SLICE("sec-websocket-key"), slice_make(key, HTTP2_KEY_LEN));
        buf_puts(out, "connection: upgrade\r\nupgrade: websocket\r\n");
    } else if (!ended && !seen.length && !connect) {
        buf_puts(out, "transfer-encoding: chunked\r\n");
    } else if (ended && !seen.length && wants_length(about->method)) {
        buf_puts(out, "content-length: 0\r\n");
    }
    buf_puts(out, "\r\n");
    return written(out);
}

bool http2_request_keeps(const struct http1_request *req, bool websocket, const struct http_field *field) {
    if (websocket && http_name_alike(field->name, SLICE("sec-websocket-key")))
        return false;
    switch (field->id) {
    case HTTP_F_HOST:
    case HTTP_F_TE:
    case HTTP_F_EXPECT:
    case HTTP_F_TRANSFER_ENCODING: return false;
    case HTTP_F_CONTENT_LENGTH: return req->framing == HTTP_BODY_LENGTH;
    case HTTP_F_TRAILER: return req->framing == HTTP_BODY_CHUNKED && !field->hop;
    default: return !field->hop;
    }
}

/* The first lines of the head. */
static void put_status(struct buf *out, unsigned status, bool granted, struct slice proof) {
    buf_printf(out, "HTTP/1.1 %u %s\r\n", granted ? 101 : status, http1_reason(granted ? 101 : (int)status));
    if (granted) {
        buf_puts(out, "connection: upgrade\r\nupgrade: websocket\r\n");
        put_line(out, SLICE("sec-websocket-accept"), proof);
    }
}

enum http_refusal http2_response_head(const struct http2_list *list, bool ended, struct slice proof,
                                      struct buf *out) {
    struct pseudos p;
    uint64_t status;
    enum http_refusal refusal = read_pseudos(list, &p);
    if (refusal)
        return refusal;
    struct slice text = p.value[PSEUDO_STATUS];
    struct http_field f;
    if (p.has != 1u << PSEUDO_STATUS)
        return HTTP_REFUSED_PSEUDO;
    if (text.n != 3 || !slice_u64(text, 999, &status) || status < 100)
        return HTTP_REFUSED_STATUS_LINE;
    if (status == 101) /* there is no such thing in HTTP/2 (RFC 9113 8.6) */
        return HTTP_REFUSED_SWITCHED;
    bool granted = proof.n && status >= 200 && status < 300 && !ended;
    put_status(out, (unsigned)status, granted, proof);
    size_t at = p.at;
    bool length = false;
    while (http2_list_next(list, &at, &f)) {
        if (granted && http_name_alike(f.name, SLICE("sec-websocket-accept")))
            continue; /* not used in HTTP/2 (RFC 8441 5) */
        length |= http_field_lookup(f.name, NULL) == HTTP_F_CONTENT_LENGTH;
        put_line(out, f.name, f.value);
    }
    if (!granted && !ended && !length && status >= 200 && status != 204 && status != 304)
        buf_puts(out, "transfer-encoding: chunked\r\n");
    buf_puts(out, "\r\n");
    return written(out);
}

bool http2_response_keeps(const struct http1_response *resp, bool head, const struct http_field *field) {
    bool absent = head ? resp->status >= 200 && resp->status != 204 : resp->status == 304;
    switch (field->id) {
    case HTTP_F_ALT_SVC:
    case HTTP_F_TRANSFER_ENCODING: return false;
    case HTTP_F_CONTENT_LENGTH: return absent || resp->framing == HTTP_BODY_LENGTH;
    case HTTP_F_TRAILER: return resp->framing == HTTP_BODY_CHUNKED && !field->hop;
    default: return !field->hop;
    }
}

/* ---- trailers ---- */

enum http_refusal http2_trailers(const struct http2_list *list, struct http_field *fields, size_t max,
                                 size_t *n) {
    struct http_field f;
    size_t at = 0;
    *n = 0;
    if (list->refusal)
        return list->refusal;
    while (http2_list_next(list, &at, &f)) {
        if (f.name.p[0] == ':')
            return HTTP_REFUSED_PSEUDO;
        if (*n == max)
            return HTTP_REFUSED_TRAILER;
        struct http_field *field = &fields[(*n)++];
        f.id = http_field_lookup(f.name, NULL);
        *field = f;
        field->hop = !http_trailer_allowed(field);
    }
    return HTTP_REFUSED_NOT;
}
