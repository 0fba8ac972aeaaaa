/*
 * What the files of the pool share; nobody else includes this.
 *
 *     upstream.c         a caller's wish, from upstream_acquire to upstream_release; the pool's life
 *     upstream_sites.c   what is known of an origin
 *     upstream_tickets.c TLS, and its sessions
 *     upstream_idle.c    connections of HTTP/1.1 that wait to be used again
 *     upstream_http2*.c  connections of HTTP/2 (upstream_http2.h), and their streams
 *     upstream_shared.c  … that serve other names, too
 *     dial.c             making a connection: the name, its addresses, the race, the proxy, TLS
 *
 *     upstream_pool 1--* site (an origin: idle links, TLS sessions) 1--* link
 *     upstream_attempt: one caller's wish; decided once, told from the event loop, gone
 */
#ifndef PROXY_UPSTREAM_UPSTREAM_PARTS_H
#define PROXY_UPSTREAM_UPSTREAM_PARTS_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <openssl/ssl.h>
#include <sys/queue.h>

#include "proxy/io/io.h"
#include "proxy/upstream/proxyenv.h"
#include "proxy/upstream/resolve.h"
#include "proxy/upstream/upstream.h"
#include "proxy/upstream/upstream_http2.h"

#define SITE_TICKETS 4

struct upstream {
    struct upstream_config config;
    SSL_CTX *tls;   /* made for the first connection that needs it */
    bool dns_works; /* an answer of a name server has come, at some time */
    /* behind a proxy, a host without DNS is not asked again before (monotonic ms) */
    uint64_t dns_absent_until;
};

/* The public link is the first member. */
struct link {
    struct upstream_link link;
    TAILQ_ENTRY(link) entry;    /* in site.idle or pool.out */
    struct upstream_pool *pool; /* NULL: the pool is gone, close on release */
    struct site *site;
    unsigned served; /* requests whose answers ended well */
    uint64_t since;  /* idle since (monotonic ms) */
};

TAILQ_HEAD(link_list, link);
TAILQ_HEAD(ticket_list, ticket);

struct site {
    LIST_ENTRY(site) bucket;
    TAILQ_ENTRY(site) age; /* in pool.sites, the one used last at the end */
    struct upstream_origin origin;
    struct upstream_options options; /* but `fresh` */
    struct link_list idle;           /* the one used last at the front */
    size_t nidle;
    TAILQ_HEAD(, up2) http2; /* connections of HTTP/2, the one made last at the end */
    bool speaks_http2;       /* the last connection that was made chose it */
    bool no_websocket;       /* … and has no extended CONNECT */
    uint64_t http1_until;    /* monotonic ms: no HTTP/2 before, by its server's own word; 0: it said none */
    unsigned dialling;       /* attempts under way that offer it */
    unsigned users;          /* links handed out and attempts: it stays as long as there are any */
    struct up2 *host; /* a connection that was made for another name and serves this one, too; NULL: none */
    LIST_ENTRY(site) guest;     /* in host.guests */
    bool alone;                 /* a server has said that it serves this name on connections of its own */
    struct ticket_list tickets; /* TLS sessions, the newest at the front */
    size_t ntickets;
    bool own_tickets; /* its server has ended a handshake that went on with another name's session */
};

#define POOL_BUCKETS 64

struct upstream_pool {
    struct upstream *upstream;
    struct io_memory *memory;
    LIST_HEAD(, site) buckets[POOL_BUCKETS];
    LIST_HEAD(, up2) shared[POOL_BUCKETS];     /* by the address that they are connected to */
    LIST_HEAD(, ticket) tickets[POOL_BUCKETS]; /* by that which they were made with */
    TAILQ_HEAD(, site) sites;
    size_t nsites;
    struct link_list out; /* links handed out */
    TAILQ_HEAD(, upstream_attempt) attempts;
    size_t open; /* handed out, being made or idle */
    size_t idle;
};

/* One address that is being connected to. */
struct try {
    struct upstream_attempt *attempt;
    struct io *io; /* NULL: not running */
    struct addr addr;
};

/*
 *     ATTEMPT_BEGUN --> ATTEMPT_WAITING --> ATTEMPT_DIALLING <--> ATTEMPT_ASKING
 *           +-------------------------------^
 *     any of these --> ATTEMPT_MADE, ATTEMPT_FAILED
 *
 * attempt_enter() in upstream.c is the one writer. What is decided stays, and the caller is told from the event loop.
 */
enum attempt_state {
    ATTEMPT_BEGUN,    /* within upstream_acquire */
    ATTEMPT_WAITING,  /* another of the site's makes a connection, which may be of use to this one too */
    ATTEMPT_DIALLING, /* dial.c makes one: attempt_made or attempt_fail follows */
    ATTEMPT_ASKING,   /* `asks` was made, and its server has not said yet whether it takes a WebSocket */
    ATTEMPT_MADE,     /* `made` is what the caller gets */
    ATTEMPT_FAILED,   /* `failure` and `text` say why he gets none */
    ATTEMPT_STATES
};

struct upstream_attempt {
    TAILQ_ENTRY(upstream_attempt) entry;
    struct upstream_pool *pool;
    struct site *site;
    struct upstream_options options;
    struct upstream_callbacks callbacks;
    void *arg;
    struct event timer; /* the time limit, and the way into the event loop when it is decided */
    enum attempt_state state;
    bool counted;     /* in pool.open */
    bool borrowed;    /* TLS goes on with another name's session */
    bool offers;      /* HTTP/2, on a connection that others could use: counted in site.dialling */
    struct up2 *asks; /* ATTEMPT_ASKING */
    struct link *made;
    struct upstream_failure failure;

    /* dial.c's */
    bool dialled;                     /* dial_start was called: what is below holds something */
    const struct proxy_server *proxy; /* NULL: directly */
    struct resolve_query *query;
    size_t naddrs, next;
    size_t running;
    struct event stagger;
    struct io *io; /* connected; before that NULL */
    struct addr peer;
    struct buf head; /* of the proxy's answer to CONNECT */

    /* last, as they are large and not cleared */
    char text[UPSTREAM_TEXT_MAX];       /* of the failure */
    char connect_to[URL_HOST_MAX + 16]; /* host:port of CONNECT; empty: not known */
    struct addr addrs[RESOLVE_ADDRS_MAX];
    struct try tries[RESOLVE_ADDRS_MAX];
};

/* ---- upstream.c ---- */

/* Is it known how it ends? */
static inline bool attempt_decided(const struct upstream_attempt *a) {
    return a->state == ATTEMPT_MADE || a->state == ATTEMPT_FAILED;
}
/* Decides an attempt; the caller hears of it from the event loop. */
void attempt_fail(struct upstream_attempt *a, enum upstream_reason reason, const struct addr *peer,
                  const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Takes the io. */
void attempt_made(struct upstream_attempt *a, struct io *io);

/* A direct way was found: one of a->addrs has a connection already that serves this name, too. False: it is to be made. */
bool attempt_join(struct upstream_attempt *a);

/* A connection of HTTP/2 has said what it takes, or is no more. */
void attempt_answered(struct upstream_pool *p, struct up2 *up);

/* ---- dial.c ---- */

/* Starts making a connection; ends in one of the two above. May be called again after dial_release. */
void dial_start(struct upstream_attempt *a);
/* Frees what dialling holds, at any time. */
void dial_release(struct upstream_attempt *a);

/* ---- upstream_sites.c ---- */

/* Finds or makes the site, and counts the caller as a user. NULL when memory is short. */
struct site *site_get(struct upstream_pool *p, const struct upstream_origin *origin,
                      const struct upstream_options *options);
/* One user less. Sites beyond the limit that nobody uses go, the oldest first. */
void site_put(struct upstream_pool *p, struct site *site);
/* Whether the site, at one of its addresses, has the server that `known` has at `at`, and the rules of both lead to the same
 * places: what was made for one may serve the other, if the certificate is good for it, which is not looked at here. */
bool site_same_server(const struct site *site, const struct addr *addr, const struct site *known,
                      const struct addr *at);
/* … so many are looked at for one name, and so many of their certificates, whose lists of names may be long. */
#define SAME_SERVER_LOOKS  64
#define SAME_SERVER_CHECKS 4
/* Its server has said HTTP_1_1_REQUIRED (RFC 9113 7): HTTP/2 is neither offered nor used for UPSTREAM_HTTP1_MS. */
void site_wants_http1(struct site *site);
bool site_by_http1(const struct site *site);
/* At the pool's end: whoever uses it. */
void site_free(struct upstream_pool *p, struct site *site);
/* The place of an address in an index of the pool's. */
unsigned pool_bucket(const struct addr *a);

/* ---- upstream_tickets.c ---- */

/* Readies the io's TLS for the attempt's site: name, session, where new sessions go, whether HTTP/2 is offered. 0, ERR_NOMEM or an
 * error of ca_upstream_prepare. */
int attempt_tls(struct upstream_attempt *a, struct io *io) MUST_CHECK;
/* Sessions that come on it are not kept any more. NULL is fine. */
void tickets_forget(SSL *ssl);
/* All of the site's. */
void tickets_free(struct site *site);

/* ---- upstream_shared.c ---- */

/* Other names may become guests of the connection; not any more, and those that are leave. Both may be said of any. */
void shared_add(struct upstream_pool *p, struct up2 *up);
void shared_remove(struct up2 *up);
/* Makes the site the guest of a connection to one of the addresses, which its policy permits. NULL: none is fit. `once` as in
 * upstream.h. */
struct up2 *shared_join(struct upstream_pool *p, struct site *site, const struct addr *addrs, size_t n,
                        bool once);
/* It is nobody's guest then. */
void shared_leave(struct site *site);

/* ---- upstream_idle.c ---- */

/* Makes it idle. It is in no list. */
void idle_add(struct link *l, unsigned ms);
/* A connection to be used again, looked at once more; it is in no list then. NULL: none. */
struct link *idle_take(struct site *site, bool once);
/* Closes one that is idle. */
void idle_drop(struct link *l);

#endif
