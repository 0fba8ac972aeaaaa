/*
 * Names to addresses, for upstreams only: nothing that a sandbox asks its DNS goes this way, and a name is
 * looked up here only when a request to it has been permitted.
 *
 * Three sources, the first that knows the name answers: the operator's pins (--resolve), /etc/hosts, the
 * name servers of /etc/resolv.conf (c-ares on the event loop; UDP, then TCP; EDNS). All files are read in
 * resolver_new, before the process is confined; no file is opened afterwards, and nothing here ever
 * blocks. There are no search domains and no ndots: a name is what it is.
 *
 * Answers are kept as long as their TTL says (within RESOLVE_TTL_MIN..MAX seconds), failures for a few
 * seconds; questions for the same name at the same time become one. The cache is bounded.
 *
 * What is handed out is every address of the answer, of both families, unfiltered but for those without a
 * port to go to: whether one may be connected to is upstream.c's decision, made on the very sockaddr that
 * is connected to.
 */
#ifndef PROXY_UPSTREAM_RESOLVE_H
#define PROXY_UPSTREAM_RESOLVE_H

#include "base/addr.h"
#include "base/err.h"
#include "base/slice.h"
#include "base/url.h"

struct event_base;
struct resolver;

#define RESOLVE_ADDRS_MAX  16 /* addresses of one answer; further ones are left out */
#define RESOLVE_CACHE_MAX  4096
#define RESOLVE_FLIGHT_MAX 512 /* questions on their way at once; further ones fail */
#define RESOLVE_TTL_MIN    5
#define RESOLVE_TTL_MAX    300
#define RESOLVE_TIME_MS    8000 /* the longest that one question takes */

/* --- pins: [+]HOST:PORT:ADDRESS[:PORT][,ADDRESS[:PORT]]..., -HOST:PORT --------------------------------- */

struct resolve_pin {
    struct url_host host;
    bool any;                          /* HOST is '*': every host that has no pin of its own for this port */
    uint16_t port;                     /* of the origin */
    size_t n;                          /* 0: -HOST:PORT takes back what earlier pins have said */
    struct addr to[RESOLVE_ADDRS_MAX]; /* with the port to connect to */
};

/* Reads one --resolve, in the forms of curl. IPv6 addresses stand in brackets; those that no port follows need none. The
 * plus sign, by which curl lets an entry grow old, says nothing here: a run is too short. No name is looked up. 0 or ERR_USAGE with a
 * message that shows what was expected; *out is then unchanged. Good for the command line's check in the
 * supervisor. */
int resolve_pin_parse(struct slice text, struct resolve_pin *out, struct errmsg *msg);

/* --- the resolver ------------------------------------------------------------------------------------- */

struct resolver_config {
    const char *resolv_conf; /* NULL: /etc/resolv.conf. Without the file 127.0.0.1, as the C library has it */
    const char *hosts;       /* NULL: /etc/hosts */
    const char *servers;     /* instead of those of resolv_conf: "127.0.0.1:5353,[::1]:53" (tests); NULL */
    const char *const *pins; /* texts of --resolve, in their order; several for one origin add up */
    size_t npins;
};

/* Reads the files and makes the channel. 0 and a resolver that the caller frees, or ERR_USAGE (a pin),
 * ERR_NOMEM, ERR_INTERNAL. */
int resolver_new(struct event_base *base, const struct resolver_config *config, struct resolver **out,
                 struct errmsg *msg);
/* Cancels every question: no callback comes any more. NULL is fine. */
void resolver_free(struct resolver *r);

struct resolve_answer {
    /* 0; ERR_NOTFOUND (no such name, or no address); ERR_TIMEOUT; ERR_LIMIT; ERR_IO (servers fail or refuse) */
    int err;
    bool pinned; /* the operator named these addresses: they are good wherever they lead */
    bool served; /* a name server has spoken: here are its addresses, or its word that there are none */
    size_t n;
    /* with port; IPv6 and IPv4 interleaved, in the order they are to be tried */
    struct addr addrs[RESOLVE_ADDRS_MAX];
};

typedef void resolve_done(void *arg, const struct resolve_answer *answer);

/* What pins, the hosts file or the address itself say, at once and without any name server. False: they
 * know nothing. */
bool resolve_local(struct resolver *r, const struct url_host *host, uint16_t port,
                   struct resolve_answer *answer);

struct resolve_query;

/*
 * Asks for `host` (canonical; a name or an address). `done` is called once, always from the event loop,
 * never within this call, so that a caller has the handle first. Returns the handle, or NULL when memory
 * is short. The handle is gone when `done` begins or resolve_cancel was called.
 */
struct resolve_query *resolve_start(struct resolver *r, const struct url_host *host, uint16_t port,
                                    resolve_done *done, void *arg);
void resolve_cancel(struct resolve_query *q);

#endif
