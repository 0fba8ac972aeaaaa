/*
 * The proxy that exeat itself has to use to get out, from its own environment, read as curl reads it.
 *
 *     https_proxy, HTTPS_PROXY   for https origins
 *     http_proxy, HTTP_PROXY     for http origins (the upper-case one not where REQUEST_METHOD is set: there a client
 *                                has chosen it)
 *     all_proxy, ALL_PROXY       for both, where the ones above are not set
 *     no_proxy, NO_PROXY         names (each with all below it), addresses, networks ADDRESS/BITS, or "*"; separated by
 *                                commas or spaces
 *
 * The lower-case name wins; an empty value means "none". A proxy is [http://][user:password@]HOST[:PORT],
 * port 1080 if none is named. Another scheme (https, socks5) is an error at start, never ignored.
 *
 * Every origin goes through the proxy by CONNECT, http ones too: one path carries both, and no request is
 * rewritten.
 */
#ifndef PROXY_UPSTREAM_PROXYENV_H
#define PROXY_UPSTREAM_PROXYENV_H

#include "base/addr.h"
#include "base/err.h"
#include "base/secret.h"
#include "base/url.h"

#define PROXYENV_BYPASS_MAX 256

struct proxy_server {
    bool set;
    struct url_host host;
    uint16_t port;
    struct secret authorization; /* "Basic …"; empty if the URL names no user */
};

struct proxy_bypass {
    bool network; /* an address with `bits`; else a name */
    struct addr addr;
    unsigned bits;
    struct url_host name;
};

struct proxyenv {
    struct proxy_server https, http;
    bool bypass_all;
    struct proxy_bypass *bypass;
    size_t nbypass, bypass_room;
};

/* `get` is getenv in the program, something else in tests. 0, ERR_NOMEM, or ERR_USAGE with a message that names the
 * variable and never shows user or password; *env is then empty. */
int proxyenv_load(struct proxyenv *env, const char *(*get)(const char *name), struct errmsg *msg);
void proxyenv_release(struct proxyenv *env);

/* The proxy for an origin; NULL: connect directly. */
const struct proxy_server *proxyenv_for(const struct proxyenv *env, enum url_scheme scheme,
                                        const struct url_host *host);

#endif
