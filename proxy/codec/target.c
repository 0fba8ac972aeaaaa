#include "proxy/codec/target.h"

#include <assert.h>

struct refusal {
    const char *code;
    int status;
    int err;
};

static const struct refusal refusals[] = {
    [TARGET_REFUSED_NOT] = {"none", 200, 0},
    [TARGET_REFUSED_NO_NAME] = {"no-name", 400, ERR_AMBIGUOUS},
    [TARGET_REFUSED_HOST] = {"host-malformed", 400, ERR_PARSE},
    [TARGET_REFUSED_SNI_DIFFERS] = {"sni-differs", 421, ERR_AMBIGUOUS},
    [TARGET_REFUSED_DIAL_DIFFERS] = {"address-differs", 421, ERR_AMBIGUOUS},
    [TARGET_REFUSED_PORT_DIFFERS] = {"port-differs", 421, ERR_AMBIGUOUS},
    [TARGET_REFUSED_SCHEME] = {"scheme-differs", 400, ERR_AMBIGUOUS},
    [TARGET_REFUSED_PATH] = {"path-ambiguous", 400, ERR_AMBIGUOUS},
    [TARGET_REFUSED_QUERY] = {"query-malformed", 400, ERR_PARSE},
    [TARGET_REFUSED_FORM] = {"target-form", 400, ERR_PARSE},
};

static_assert(sizeof(refusals) / sizeof(refusals[0]) == TARGET_REFUSED_COUNT, "a refusal without a row");

const char *target_refusal_code(enum target_refusal refusal) {
    return refusals[(unsigned)refusal < TARGET_REFUSED_COUNT ? refusal : TARGET_REFUSED_NOT].code;
}

int target_refusal_status(enum target_refusal refusal) {
    return refusals[(unsigned)refusal < TARGET_REFUSED_COUNT ? refusal : TARGET_REFUSED_NOT].status;
}

static int refuse(struct target *out, enum target_refusal refusal, const char *text) {
    out->refusal = refusal;
    return errmsg_set(&out->error, refusals[refusal].err, "%s", text);
}

static bool same_host(const struct url_host *a, const struct url_host *b) {
    return a->kind == b->kind && slice_eq(url_host_slice(a), url_host_slice(b));
}

/* An authority taken apart by http1.h, in canonical form. */
static int read_host(const struct http1_authority *a, struct url_host *host, struct errmsg *msg) {
    if (!a->ipv6)
        return url_host_parse(a->host, host, msg);
    char text[URL_HOST_MAX];
    if (a->host.n + 2 > sizeof(text))
        return errmsg_set(msg, ERR_PARSE, "malformed IPv6 address");
    text[0] = '[';
    memcpy(text + 1, a->host.p, a->host.n);
    text[a->host.n + 1] = ']';
    return url_host_parse(slice_make(text, a->host.n + 2), host, msg);
}

/* A name or address that the connection gives; an IPv6 address may come without brackets. */
static int read_identity(struct slice text, struct url_host *host, struct errmsg *msg) {
    struct http1_authority bare = {.host = text, .ipv6 = slice_find(text, ':') >= 0 && text.p[0] != '['};
    return read_host(&bare, host, msg);
}

/* Holds the request's host against one that the connection names. */
static int agree(struct target *out, struct slice named, enum target_refusal refusal, const char *text) {
    struct url_host host;
    if (named.n == 0 || (out->host.n && slice_eq(named, url_host_slice(&out->host))))
        return 0;
    if (read_identity(named, &host, &out->error)) {
        out->refusal = TARGET_REFUSED_HOST;
        return ERR_PARSE;
    }
    if (out->host.n == 0)
        out->host = host;
    return same_host(&host, &out->host) ? 0 : refuse(out, refusal, text);
}

/* Which authority does the request itself name, if any? The parser has made sure that target and Host agree. */
static int read_authority(struct target *out, const struct target_identity *id,
                          const struct http1_request *req) {
    const struct http1_authority *a =
        req->form == HTTP1_FORM_ABSOLUTE || req->form == HTTP1_FORM_AUTHORITY ? &req->authority : &req->host;
    uint16_t usual = url_default_port(out->scheme);
    if (a->host.n == 0) {
        out->port = id->port;
        return 0;
    }
    if (read_host(a, &out->host, &out->error)) {
        out->host.n = 0;
        out->refusal = TARGET_REFUSED_HOST;
        return ERR_PARSE;
    }
    out->port = a->port ? (uint16_t)a->port : usual;
    /* Some clients leave an unusual port out of Host. The connection says it then; only another port is a lie. */
    if (!id->proxied && a->port == 0)
        out->port = id->port;
    if (!id->proxied && out->port != id->port)
        return refuse(out, TARGET_REFUSED_PORT_DIFFERS, "the port connected to and the request's differ");
    return 0;
}

static int read_scheme(struct target *out, const struct target_identity *id,
                       const struct http1_request *req) {
    out->scheme = id->tls ? URL_HTTPS : URL_HTTP;
    out->connect = req->form == HTTP1_FORM_AUTHORITY;
    if (out->connect) {
        out->scheme = URL_HTTPS;
        if (id->tls)
            return refuse(out, TARGET_REFUSED_FORM, "CONNECT inside TLS");
    }
    if (req->form != HTTP1_FORM_ABSOLUTE)
        return 0;
    bool https = req->scheme.n == 5;
    if (https != id->tls)
        return refuse(out, TARGET_REFUSED_SCHEME,
                      https ? "an https:// target on a connection in clear text"
                            : "an http:// target inside TLS");
    return 0;
}

static int read_path(struct target *out, const struct http1_request *req, struct buf *path_buf) {
    buf_clear(path_buf);
    out->origin = req->origin;
    if (out->connect)
        return 0;
    if (slice_eq(req->origin, SLICE("*"))) {
        out->path = req->origin;
        return 0;
    }
    struct slice raw;
    url_target_split(req->origin, &raw, &out->query, &out->has_query);
    int r = url_path_canonical(raw, path_buf, NULL, &out->error);
    if (r) {
        out->refusal = TARGET_REFUSED_PATH;
        return r;
    }
    out->path = buf_slice(path_buf);
    r = url_query_check(out->query, &out->error);
    if (r)
        out->refusal = TARGET_REFUSED_QUERY;
    return r;
}

int target_resolve(struct target *out, const struct target_identity *id, const struct http1_request *req,
                   struct buf *path_buf) {
    *out = (struct target){.refusal = TARGET_REFUSED_NOT};
    int r = read_scheme(out, id, req);
    if (!r && id->tls && id->sni.n == 0 && id->dialed.n == 0)
        r = refuse(out, TARGET_REFUSED_NO_NAME, "the TLS connection names no host (no SNI)");
    if (!r)
        r = read_authority(out, id, req);
    if (!r)
        r = agree(out, id->tls ? id->sni : SLICE_NONE, TARGET_REFUSED_SNI_DIFFERS,
                  "the name of the TLS connection (SNI) and the request's host differ");
    if (!r)
        r = agree(out, id->proxied ? SLICE_NONE : id->dialed, TARGET_REFUSED_DIAL_DIFFERS,
                  "the name connected to and the request's host differ");
    if (!r && out->host.n == 0)
        r = refuse(out, TARGET_REFUSED_NO_NAME, "neither the connection nor the request names a host");
    if (!r)
        r = read_path(out, req, path_buf);
    return r;
}

int target_host_field(struct buf *out, const struct target *target) {
    size_t before = buf_len(out);
    int r = buf_put(out, url_host_slice(&target->host));
    if (!r && target->port != url_default_port(target->scheme))
        r = buf_printf(out, ":%u", target->port);
    if (r)
        out->end = out->start + before;
    return r;
}
