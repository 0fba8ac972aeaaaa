/*
 * Which URL is this request really for? The connection (TLS and its SNI, or the address that the DNS answer gave for
 * a name), the Host field and the request target must agree; the answer is one canonical authority, path and query,
 * by base/url.h, or a refusal. Judged per request: nothing of an earlier request on the connection counts.
 */
#ifndef PROXY_CODEC_TARGET_H
#define PROXY_CODEC_TARGET_H

#include "base/url.h"
#include "proxy/codec/http1.h"

/* What the connection says about itself. A client that was told to use a proxy (absolute form or CONNECT on a clear
 * connection) names the destination in the request alone. */
struct target_identity {
    bool tls;         /* the request came inside TLS */
    struct slice sni; /* the name of the ClientHello, or inside a CONNECT the name connected to; canonical or
                            not; empty for none */
    /* name or address that the client connected to, as the synthetic DNS knows it; empty if unknown (it connected to
     * an address that no answer gave) */
    struct slice dialed;
    uint16_t port; /* the port that it connected to */
    bool proxied;  /* the client addressed the listener itself as a proxy: `dialed` and `port` mean nothing */
};

enum target_refusal {
    TARGET_REFUSED_NOT = 0,
    TARGET_REFUSED_NO_NAME,      /* nothing names a host (HTTP/1.0 without Host, no SNI) */
    TARGET_REFUSED_HOST,         /* a malformed host or port */
    TARGET_REFUSED_SNI_DIFFERS,  /* SNI and Host */
    TARGET_REFUSED_DIAL_DIFFERS, /* the name dialled and Host, or SNI */
    TARGET_REFUSED_PORT_DIFFERS, /* the port dialled and the one in Host */
    TARGET_REFUSED_SCHEME,       /* http:// inside TLS, https:// outside */
    TARGET_REFUSED_PATH,         /* not canonical, ambiguous */
    TARGET_REFUSED_QUERY,
    TARGET_REFUSED_FORM, /* CONNECT inside TLS, or '*' with another method than OPTIONS */
    TARGET_REFUSED_COUNT
};

struct target {
    enum url_scheme scheme;
    struct url_host host;
    uint16_t port;
    bool connect;       /* CONNECT host:port: no path; what comes inside is judged by itself */
    struct slice path;  /* canonical, in `path_buf`; "*" of OPTIONS * */
    struct slice query; /* as received, without '?' */
    bool has_query;
    struct slice origin; /* path and query as received, what goes upstream */
    enum target_refusal refusal;
    struct errmsg error;
};

/* 0: all but `refusal` and `error` is set, `path` stands in `path_buf` (cleared first; limit 4 * HTTP1_TARGET_MAX is
 * enough). Otherwise ERR_AMBIGUOUS or ERR_PARSE (answer 400, or 421 where names differ, and close), or ERR_NOMEM;
 * `refusal` and `error` say why, and host, if one could be read, stands in `host` for the log (else host.n is 0). */
int target_resolve(struct target *out, const struct target_identity *id, const struct http1_request *req,
                   struct buf *path_buf) MUST_CHECK;

/* A stable word for the log ("sni-differs"). */
const char *target_refusal_code(enum target_refusal refusal);

/* 400, or 421 for names that differ. */
int target_refusal_status(enum target_refusal refusal);

/* The value for the new Host field: host, and the port unless it is the scheme's own. Appends to `out`. */
int target_host_field(struct buf *out, const struct target *target) MUST_CHECK;

#endif
