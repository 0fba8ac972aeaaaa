#include "proxy/codec/http.h"

#include <assert.h>

struct known {
    const char *name;
    uint8_t id;
};

#define KNOWN(name, id)                                                                                      \
    { name, id }

/* By length, so that a look-up compares few names. */
static const struct known known[] = {
    KNOWN("te", HTTP_F_TE),
    KNOWN("age", HTTP_F_AGE),
    KNOWN("date", HTTP_F_DATE),
    KNOWN("host", HTTP_F_HOST),
    KNOWN("vary", HTTP_F_VARY),
    KNOWN("range", HTTP_F_RANGE),
    KNOWN("accept", HTTP_F_ACCEPT),
    KNOWN("cookie", HTTP_F_COOKIE),
    KNOWN("expect", HTTP_F_EXPECT),
    KNOWN("pragma", HTTP_F_PRAGMA),
    KNOWN("x-host", HTTP_F_ROUTE_HINT),
    KNOWN("alt-svc", HTTP_F_ALT_SVC),
    KNOWN("api-key", HTTP_F_API_KEY),
    KNOWN("cookie2", HTTP_F_COOKIE),
    KNOWN("expires", HTTP_F_EXPIRES),
    KNOWN("trailer", HTTP_F_TRAILER),
    KNOWN("upgrade", HTTP_F_UPGRADE),
    KNOWN("if-match", HTTP_F_IF_MATCH),
    KNOWN("if-range", HTTP_F_IF_MATCH),
    KNOWN("location", HTTP_F_LOCATION),
    KNOWN("forwarded", HTTP_F_ROUTE_HINT),
    KNOWN("job-token", HTTP_F_API_KEY),
    KNOWN("x-api-key", HTTP_F_API_KEY),
    KNOWN("connection", HTTP_F_CONNECTION),
    KNOWN("keep-alive", HTTP_F_KEEP_ALIVE),
    KNOWN("set-cookie", HTTP_F_SET_COOKIE),
    KNOWN("user-agent", HTTP_F_USER_AGENT),
    KNOWN("x-auth-key", HTTP_F_API_KEY),
    KNOWN("content-type", HTTP_F_CONTENT_TYPE),
    KNOWN("deploy-token", HTTP_F_API_KEY),
    KNOWN("git-protocol", HTTP_F_GIT_PROTOCOL),
    KNOWN("max-forwards", HTTP_F_MAX_FORWARDS),
    KNOWN("x-auth-token", HTTP_F_API_KEY),
    KNOWN("x-csrf-token", HTTP_F_API_KEY),
    KNOWN("authorization", HTTP_F_AUTHORIZATION),
    KNOWN("cache-control", HTTP_F_CACHE_CONTROL),
    KNOWN("content-range", HTTP_F_CONTENT_RANGE),
    KNOWN("if-none-match", HTTP_F_IF_MATCH),
    KNOWN("private-token", HTTP_F_API_KEY),
    KNOWN("x-http-method", HTTP_F_METHOD_OVERRIDE),
    KNOWN("x-rewrite-url", HTTP_F_TARGET_OVERRIDE),
    KNOWN("x-vault-token", HTTP_F_API_KEY),
    KNOWN("content-length", HTTP_F_CONTENT_LENGTH),
    KNOWN("http2-settings", HTTP_F_HTTP2_SETTINGS),
    KNOWN("x-access-token", HTTP_F_API_KEY),
    KNOWN("x-gitlab-token", HTTP_F_API_KEY),
    KNOWN("x-goog-api-key", HTTP_F_API_KEY),
    KNOWN("x-original-url", HTTP_F_TARGET_OVERRIDE),
    KNOWN("x-original-host", HTTP_F_ROUTE_HINT),
    KNOWN("content-encoding", HTTP_F_CONTENT_ENCODING),
    KNOWN("content-location", HTTP_F_CONTENT_LOCATION),
    KNOWN("proxy-connection", HTTP_F_PROXY_CONNECTION),
    KNOWN("www-authenticate", HTTP_F_WWW_AUTHENTICATE),
    KNOWN("x-forwarded-host", HTTP_F_ROUTE_HINT),
    KNOWN("if-modified-since", HTTP_F_IF_MATCH),
    KNOWN("transfer-encoding", HTTP_F_TRANSFER_ENCODING),
    KNOWN("x-method-override", HTTP_F_METHOD_OVERRIDE),
    KNOWN("proxy-authenticate", HTTP_F_PROXY_AUTHENTICATE),
    KNOWN("x-forwarded-prefix", HTTP_F_ROUTE_HINT),
    KNOWN("x-forwarded-server", HTTP_F_ROUTE_HINT),
    KNOWN("if-unmodified-since", HTTP_F_IF_MATCH),
    KNOWN("proxy-authorization", HTTP_F_PROXY_AUTHORIZATION),
    KNOWN("x-amz-security-token", HTTP_F_API_KEY),
    KNOWN("x-http-host-override", HTTP_F_ROUTE_HINT),
    KNOWN("x-http-method-override", HTTP_F_METHOD_OVERRIDE),
    KNOWN("proxy-authentication-info", HTTP_F_PROXY_AUTHENTICATION_INFO),
};

#define KNOWN_COUNT   (sizeof(known) / sizeof(known[0]))
#define NAME_SHORTEST 2
#define NAME_LONGEST  25

/* Where the names of a length begin. To be kept in step with the table: the unit test finds every name. */
static const uint8_t first_of_length[NAME_LONGEST + 2] = {
    0, 0, 0, 1, 2, 5, 6, 11, 17, 20, 23, 28, 28, 34, 42, 48, 49, 54, 57, 60, 62, 64, 64, 65, 65, 65, 66,
};

static_assert(KNOWN_COUNT == 66, "first_of_length is out of step with the table of names");

/* tchar of RFC 9110 5.6.2, lower-case in the table so that it also folds: 0 for what may not stand in a name. */
static const unsigned char tchar[256] = {
    ['!'] = '!', ['#'] = '#', ['$'] = '$', ['%'] = '%', ['&'] = '&', ['\''] = '\'', ['*'] = '*', ['+'] = '+',
    ['-'] = '-', ['.'] = '.', ['^'] = '^', ['_'] = '_', ['`'] = '`', ['|'] = '|',   ['~'] = '~', ['0'] = '0',
    ['1'] = '1', ['2'] = '2', ['3'] = '3', ['4'] = '4', ['5'] = '5', ['6'] = '6',   ['7'] = '7', ['8'] = '8',
    ['9'] = '9', ['A'] = 'a', ['B'] = 'b', ['C'] = 'c', ['D'] = 'd', ['E'] = 'e',   ['F'] = 'f', ['G'] = 'g',
    ['H'] = 'h', ['I'] = 'i', ['J'] = 'j', ['K'] = 'k', ['L'] = 'l', ['M'] = 'm',   ['N'] = 'n', ['O'] = 'o',
    ['P'] = 'p', ['Q'] = 'q', ['R'] = 'r', ['S'] = 's', ['T'] = 't', ['U'] = 'u',   ['V'] = 'v', ['W'] = 'w',
    ['X'] = 'x', ['Y'] = 'y', ['Z'] = 'z', ['a'] = 'a', ['b'] = 'b', ['c'] = 'c',   ['d'] = 'd', ['e'] = 'e',
    ['f'] = 'f', ['g'] = 'g', ['h'] = 'h', ['i'] = 'i', ['j'] = 'j', ['k'] = 'k',   ['l'] = 'l', ['m'] = 'm',
    ['n'] = 'n', ['o'] = 'o', ['p'] = 'p', ['q'] = 'q', ['r'] = 'r', ['s'] = 's',   ['t'] = 't', ['u'] = 'u',
    ['v'] = 'v', ['w'] = 'w', ['x'] = 'x', ['y'] = 'y', ['z'] = 'z',
};

struct refusal {
    const char *code;
    const char *text;
    int status;
};

static const struct refusal refusals[] = {
    [HTTP_REFUSED_NOT] = {"none", "nothing is wrong", 200},
    [HTTP_REFUSED_LINE_END] = {"line-end", "a line ends in a bare CR or LF", 400},
    [HTTP_REFUSED_CONTROL] = {"control-character", "a control character in the head", 400},
    [HTTP_REFUSED_TOO_LONG] = {"head-too-long", "the header block is too long", 431},
    [HTTP_REFUSED_TOO_MANY] = {"too-many-fields", "too many header fields", 431},
    [HTTP_REFUSED_REQUEST_LINE] = {"request-line", "malformed request line", 400},
    [HTTP_REFUSED_STATUS_LINE] = {"status-line", "malformed status line", 400},
    [HTTP_REFUSED_METHOD] = {"method", "malformed method", 400},
    [HTTP_REFUSED_VERSION] = {"version", "the version is neither HTTP/1.0 nor HTTP/1.1", 505},
    [HTTP_REFUSED_TARGET] = {"target", "malformed request target, or not one for this method", 400},
    [HTTP_REFUSED_TARGET_LONG] = {"target-too-long", "the request target is too long", 414},
    [HTTP_REFUSED_FRAGMENT] = {"fragment", "a fragment in the request target", 400},
    [HTTP_REFUSED_USERINFO] = {"userinfo", "user information in the authority", 400},
    [HTTP_REFUSED_AUTHORITY] = {"authority", "malformed host or port in the request target", 400},
    [HTTP_REFUSED_SCHEME] = {"scheme", "the request target has another scheme than http or https", 400},
    [HTTP_REFUSED_NAME] = {"field-name", "malformed header field name", 400},
    [HTTP_REFUSED_NAME_SPACE] = {"field-name-space", "a space before a header field's colon", 400},
    [HTTP_REFUSED_NAME_ALIKE] = {"field-name-alike", "a header field that servers may take for another one",
                                 400},
    [HTTP_REFUSED_FOLD] = {"folded-line", "a folded header line", 400},
    [HTTP_REFUSED_HOST_MISSING] = {"host-missing", "no Host header field", 400},
    [HTTP_REFUSED_HOST_REPEATED] = {"host-repeated", "more than one Host header field", 400},
    [HTTP_REFUSED_HOST_BAD] = {"host-malformed", "malformed Host header field", 400},
    [HTTP_REFUSED_HOST_DIFFERS] = {"host-differs", "request target and Host name different authorities", 400},
    [HTTP_REFUSED_LENGTH_BAD] = {"length-malformed", "malformed Content-Length", 400},
    [HTTP_REFUSED_LENGTH_REPEATED] = {"length-repeated", "more than one Content-Length", 400},
    [HTTP_REFUSED_LENGTH_AND_CODING] = {"length-and-coding", "Content-Length beside Transfer-Encoding", 400},
    [HTTP_REFUSED_CODING] = {"transfer-coding", "a Transfer-Encoding other than chunked alone", 501},
    [HTTP_REFUSED_CODING_1_0] = {"transfer-coding-1.0", "Transfer-Encoding in HTTP/1.0", 400},
    [HTTP_REFUSED_CONNECTION] = {"connection", "Connection is malformed or names a field that must go on",
                                 400},
    [HTTP_REFUSED_EXPECT] = {"expect", "an expectation other than 100-continue", 417},
    [HTTP_REFUSED_METHOD_OVERRIDE] = {"method-override", "a header field that overrides the method", 400},
    [HTTP_REFUSED_TARGET_OVERRIDE] = {"target-override", "a header field that overrides the target", 400},
    [HTTP_REFUSED_BODY] = {"body", "a body where none may be", 400},
    [HTTP_REFUSED_REPEATED] = {"field-repeated", "a header field that may come only once came twice", 400},
    [HTTP_REFUSED_SECOND_OPINION] = {"second-opinion", "two parsers read this head differently", 400},
    [HTTP_REFUSED_CHUNK] = {"chunk", "malformed chunked coding", 400},
    [HTTP_REFUSED_CHUNK_EXTENSION] = {"chunk-extension", "a malformed or over-long chunk extension", 400},
    [HTTP_REFUSED_TRAILER] = {"trailer", "a malformed or over-long trailer section", 400},
    [HTTP_REFUSED_UPGRADED] = {"upgraded", "the server switches protocols without having been asked to", 400},
    [HTTP_REFUSED_UPGRADE_MISSING] =
        {"upgrade-missing", "the server switches protocols without saying to which (101 without Upgrade)",
         400},
    [HTTP_REFUSED_SWITCHED] = {"switched",
                               "the server switches protocols by a status that HTTP/2 does not have (101)",
                               400},
    [HTTP_REFUSED_PSEUDO] = {"pseudo-header",
                             "a pseudo-header field is missing, repeated, unknown or out of place", 400},
    [HTTP_REFUSED_NAME_CASE] = {"field-name-case", "upper case in the name of an HTTP/2 field", 400},
    [HTTP_REFUSED_VALUE_SPACE] = {"field-value-space", "a space at an end of the value of an HTTP/2 field",
                                  400},
    [HTTP_REFUSED_HOP_FIELD] = {"connection-field", "a field of an HTTP/1 connection in HTTP/2", 400},
    [HTTP_REFUSED_PROTOCOL] = {"protocol", "an extended CONNECT for another protocol than websocket", 501},
    [HTTP_REFUSED_LENGTH_DIFFERS] = {"length-differs", "Content-Length and the length of the body differ",
                                     400},
};

static_assert(sizeof(refusals) / sizeof(refusals[0]) == HTTP_REFUSED_COUNT, "a refusal without a text");

static const struct refusal *refusal_row(enum http_refusal refusal) {
    return &refusals[(unsigned)refusal < HTTP_REFUSED_COUNT ? refusal : HTTP_REFUSED_NOT];
}

const char *http_refusal_text(enum http_refusal refusal) {
    return refusal_row(refusal)->text;
}

const char *http_refusal_code(enum http_refusal refusal) {
    return refusal_row(refusal)->code;
}

int http_refusal_status(enum http_refusal refusal) {
    return refusal_row(refusal)->status;
}

static char fold(char c) {
    return c == '_' ? '-' : ascii_lower(c);
}

bool http_is_hop(enum http_field_id id) {
    switch (id) {
    case HTTP_F_CONNECTION:
    case HTTP_F_HTTP2_SETTINGS:
    case HTTP_F_KEEP_ALIVE:
    case HTTP_F_PROXY_AUTHENTICATE:
    case HTTP_F_PROXY_AUTHENTICATION_INFO:
    case HTTP_F_PROXY_AUTHORIZATION:
    case HTTP_F_PROXY_CONNECTION:
    case HTTP_F_TE:
    case HTTP_F_TRANSFER_ENCODING:
    case HTTP_F_UPGRADE:
    case HTTP_F_ROUTE_HINT: return true;
    default: return false;
    }
}

enum http_field_id http_field_lookup(struct slice name, bool *alike) {
    if (alike)
        *alike = false;
    if (name.n < NAME_SHORTEST || name.n > NAME_LONGEST)
        return HTTP_F_OTHER;
    char first = fold(name.p[0]);
    for (size_t k = first_of_length[name.n]; k < first_of_length[name.n + 1]; k++) {
        if (known[k].name[0] != first)
            continue;
        size_t i = 1;
        while (i < name.n && fold(name.p[i]) == known[k].name[i])
            i++;
        if (i < name.n)
            continue;
        if (alike)
            *alike = slice_find(name, '_') >= 0;
        return known[k].id;
    }
    return HTTP_F_OTHER;
}

bool http_name_alike(struct slice a, struct slice b) {
    if (a.n != b.n)
        return false;
    for (size_t i = 0; i < a.n; i++)
        if (fold(a.p[i]) != fold(b.p[i]))
            return false;
    return true;
}

bool http_is_token(struct slice s) {
    for (size_t i = 0; i < s.n; i++)
        if (!tchar[(unsigned char)s.p[i]])
            return false;
    return s.n > 0;
}

static bool is_control(char c) {
    unsigned char u = (unsigned char)c;
    return (u < 0x20 && u != '\t') || u == 0x7f;
}

#define EVERY(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Eight bytes at once: may any of them be below 0x20 or be 0x7f? (A yes is looked at byte by byte.) */
static bool has_control(uint64_t w) {
    uint64_t low = (w - EVERY(0x20)) & ~w, del = w ^ EVERY(0x7f);
    return (low | ((del - EVERY(1)) & ~del)) & EVERY(0x80);
}

bool http_is_value(struct slice s) {
    size_t i = 0;
    for (uint64_t w; s.n - i >= sizeof(w); i += sizeof(w)) {
        memcpy(&w, s.p + i, sizeof(w));
        if (!has_control(w))
            continue;
        for (size_t k = 0; k < sizeof(w); k++)
            if (is_control(s.p[i + k]))
                return false;
    }
    for (; i < s.n; i++)
        if (is_control(s.p[i]))
            return false;
    return true;
}

bool http_trailer_allowed(const struct http_field *field) {
    return field->id == HTTP_F_OTHER && !field->hop;
}

const struct http_field *http_find(const struct http_field *fields, size_t n, enum http_field_id id,
                                   size_t *count) {
    const struct http_field *first = NULL;
    size_t found = 0;
    for (size_t i = 0; i < n; i++) {
        if (fields[i].id != id || fields[i].hop)
            continue;
        if (!first)
            first = &fields[i];
        found++;
    }
    if (count)
        *count = found;
    return first;
}

const struct http_field *http_find_name(const struct http_field *fields, size_t n, struct slice name,
                                        size_t *count) {
    const struct http_field *first = NULL;
    size_t found = 0;
    for (size_t i = 0; i < n; i++) {
        if (fields[i].hop || !http_name_alike(fields[i].name, name))
            continue;
        if (!first)
            first = &fields[i];
        found++;
    }
    if (count)
        *count = found;
    return first;
}

bool http_list_next(struct slice *list, struct slice *element) {
    while (list->n) {
        struct slice head, tail;
        slice_cut(*list, ',', &head, &tail);
        *list = tail;
        *element = slice_trim(head);
        if (element->n)
            return true;
    }
    return false;
}

bool http_encoded(const struct http_field *fields, size_t n) {
    const struct http_field *f = http_find(fields, n, HTTP_F_CONTENT_ENCODING, NULL);
    return f && !slice_caseeq(f->value, SLICE("identity"));
}
