/*
 * Connections to upstream servers: found, checked, made, verified, kept for reuse.
 *
 *     resolve once -> check every address -> connect to that very address -> TLS, chain and name verified -> ready
 *
 * Where the client wanted to go by its own choice of address plays no part: the origin's name (canonical,
 * judged by policy) is what counts. Addresses that are not public (addr_kind) are refused unless the
 * operator named them with --resolve; each address is checked on each attempt, so no answer that changes
 * between two looks gets through. All good addresses are tried, IPv6 and IPv4 in turn, the next one
 * UPSTREAM_STAGGER_MS after the last or as soon as it failed (RFC 8305); the first to connect wins. TLS is
 * 1.2 or later, with SNI (none for an address), the chain verified against the roots and the certificate
 * against the name or the address, always; ALPN offers http/1.1, and h2 to who asks for it.
 * Sessions are resumed within one sandbox, by their own name, and by others of the same server (upstream_tickets.c). Not
 * one byte of a request is written before all of that has passed.
 *
 * Behind a proxy of the environment (proxyenv.h) the way is CONNECT, for http origins too. Where exeat can
 * resolve the origin itself, all of its addresses must be public there too, else the request is refused;
 * where it can't (a host without DNS of its own), the proxy's word is all there is. An origin that
 * --resolve names is asked of the proxy by that address.
 *
 * One `struct upstream` per worker; one `struct upstream_pool` per sandbox: connections and sessions are
 * never shared between sandboxes. Within a pool a connection belongs to one origin (scheme, host, port); one of HTTP/2
 * may serve other names too (RFC 9113 9.1.1), if it is one to an address that the name was resolved to and may be connected
 * to, has the same port, no proxy on its way, a certificate that is good for the name, and if the options that
 * say where the two may lead are the same.
 *
 * An idle connection is watched: whatever arrives on it (the peer's end, or bytes nobody asked for) drops
 * it at once. It is kept for UPSTREAM_IDLE_MS, below what common servers grant. A server may still close while the next
 * request is on its way: `reused` tells the caller that a failure without a byte of an answer may be that race, to be
 * tried once more with `fresh` if the request can be repeated (RFC 9110, 9.2.2).
 *
 * A request that can't be repeated (`once`) is better off without that race: its connection is looked at just before it is
 * handed out. No server's clock runs out within a second
 * (the shortest in use are two), so it may have a connection that has not been idle for longer. A server that closes
 * after an answer without saying so does it at once: the connection must have carried two requests, or have been idle
 * for UPSTREAM_SETTLE_MS and be open still. What remains is a server that is being shut down in the very moment, which
 * a new connection may meet as well; then the request fails, and is never sent twice. A server of HTTP/2 says by GOAWAY
 * what it has not acted on, so an idle connection of that is only looked at.
 *
 * The way to a server may go without a word: its host, or a NAT on the way. What is sent then TCP repeats for a quarter of
 * an hour; who waits for an answer asks the kernel sooner whether anything of it is acknowledged (io_unacknowledged). Where nothing
 * is under way, the kernel asks after a minute of silence (io_keepalive), and connections of HTTP/2 send something sooner
 * (upstream_http2.h). There is no TCP_USER_TIMEOUT: it would end uploads that a server takes its time for, since it counts a window
 * that stays shut like bytes that nobody acknowledges.
 *
 * Behind a proxy all that asks the kernel hears of the way to the proxy alone. A PING of HTTP/2 is something that the proxy has to
 * send on, so that its own kernel finds out, and it ends the connection. HTTP/1.1 has nothing that could be sent while an answer is
 * waited for: a byte would be the next request's, and new keys for TLS (RFC 8446 4.6.3), which say nothing to the server's program,
 * are more than some servers bear. There the limit of the answer is what ends it, or the proxy, if it looks after its connections.
 */
#ifndef PROXY_UPSTREAM_UPSTREAM_H
#define PROXY_UPSTREAM_UPSTREAM_H

#include "base/addr.h"
#include "base/err.h"
#include "base/url.h"
#include "policy/verdict.h"

struct event_base;
struct io;
struct proxyenv;
struct resolver;
struct up2_stream;

#define UPSTREAM_IDLE_MS         4000
#define UPSTREAM_KEEP_MS         60000 /* where the server says that it keeps a connection as long */
#define UPSTREAM_ONCE_MS         1000  /* no older may be what carries a request that can't be repeated */
#define UPSTREAM_SETTLE_MS       50    /* … nor younger, if it has carried one request only */
#define UPSTREAM_IDLE_PER_ORIGIN 64    /* connections; the one idle longest makes room */
#define UPSTREAM_IDLE_PER_POOL   256
#define UPSTREAM_OPEN_PER_POOL   4096   /* connections handed out, being made or idle */
#define UPSTREAM_CONNECT_MS      30000  /* from the first look at the name to a verified connection */
#define UPSTREAM_SILENT_MS       10000  /* without a byte from a server of which something is asked */
#define UPSTREAM_HTTP1_MS        600000 /* without HTTP/2, where the server has refused a request by that */
#define UPSTREAM_STAGGER_MS      250    /* from one address to the next */
#define UPSTREAM_ADDRESS_MS      10000  /* for one address to accept */

/* Why a connection that was made can't be used any more, if io_unreachable() says so. */
#define UPSTREAM_UNREACHED "the upstream can't be reached any more"

/* --- shared by all pools of a worker ------------------------------------------------------------------ */

struct upstream;

struct upstream_config {
    struct event_base *base;
    struct resolver *resolver; /* borrowed */
    /* who is trusted, as for ca_upstream_new; borrowed, read when a server is met */
    struct slice roots, extra;
    const struct proxyenv *proxies; /* borrowed; NULL: none */
    unsigned connect_ms;            /* until there is a verified connection; 0: UPSTREAM_CONNECT_MS */
    unsigned silent_ms;             /* of a connection of HTTP/2 (upstream_http2.h); 0: UPSTREAM_SILENT_MS */
};

struct upstream *upstream_new(const struct upstream_config *config); /* NULL when memory is short */
void upstream_free(struct upstream *u);                              /* after its pools */

/* --- one sandbox's ------------------------------------------------------------------------------------ */

struct io_memory; /* proxy/io/io_memory.h */
struct upstream_pool;

/* `memory`: the sandbox's sum in which its connections count; borrowed until upstream_pool_free has returned. NULL: none. NULL
 * when memory is short. */
struct upstream_pool *upstream_pool_new(struct upstream *u, struct io_memory *memory);
/* Closes idle connections and cancels attempts without calling anybody back. Links that are handed out
 * stay good and are closed when they are released. */
void upstream_pool_free(struct upstream_pool *p);

struct upstream_origin {
    enum url_scheme scheme;
    struct url_host host; /* canonical */
    uint16_t port;
};

/* Why there is no connection. */
enum upstream_reason {
    UPSTREAM_NAME_UNKNOWN, /* no such name, or no address */
    UPSTREAM_NAME_FAILED,  /* the name servers fail, refuse or are silent */
    UPSTREAM_ADDRESS,      /* the name leads to no address that may be connected to */
    UPSTREAM_SELF,         /* exeat's own name or address */
    UPSTREAM_UNREACHABLE,  /* refused, reset, no route */
    UPSTREAM_TIMEOUT,      /* a time limit passed */
    UPSTREAM_TLS,          /* the handshake failed */
    UPSTREAM_CERTIFICATE,  /* not verified: self-signed, expired, another name, an unknown root … */
    UPSTREAM_PROXY,        /* the environment's proxy said no */
    UPSTREAM_LIMIT,        /* too many connections of this sandbox */
    UPSTREAM_INTERNAL,     /* memory, descriptors */
};

/* A stable word for logs and tests: "upstream-certificate". Never NULL. */
const char *upstream_reason_code(enum upstream_reason reason);
/* Whether it is a refusal of ours (403: address, self) rather than trouble of the upstream's (502; 504 for
 * a time limit). */
bool upstream_reason_refusal(enum upstream_reason reason);

#define UPSTREAM_TEXT_MAX 512 /* of a host's name, and what is said of it */

struct upstream_failure {
    enum upstream_reason reason;
    const char *text; /* for people, one line: what is wrong, and what can be done; no secret is in it */
    struct addr peer; /* the address that the failure is about; len 0: none */
};

/* A connection that is handed out. */
struct upstream_link {
    struct io *io;    /* owned by the pool; use it, do not free it; NULL with `http2` */
    struct addr peer; /* the address connected to (the proxy's, behind one) */
    bool reused;      /* it has carried a request before */
    bool proxied;
    /* Not NULL: it is a stream of HTTP/2 (upstream_http2.h), `io` is NULL. */
    struct up2_stream *http2;
    bool shared; /* … on a connection that was made for another origin */
};

struct upstream_options {
    bool fresh; /* none that was used before */
    bool once;  /* the request can't be repeated: see above */
    /* Without TLS of ours, whatever the scheme: what the caller passes on is TLS already. With `fresh`, and not to be
     * released as reusable. */
    bool unread;
    /* HTTP/2 is offered by ALPN: the link may be a stream of a connection that others use too. Then `fresh` asks for a
     * new connection only with `alone`, since servers say (GOAWAY) what they did not act on. Not where the server has
     * said HTTP_1_1_REQUIRED less than UPSTREAM_HTTP1_MS ago. */
    bool http2;
    bool alone; /* … and for this origin alone */
    /* With `http2` and `fresh`: the link is for a WebSocket. A stream of HTTP/2 is one of a server that takes extended
     * CONNECT (RFC 8441); where it chose h2 and does not, the link is a connection of HTTP/1.1 that was made anew. */
    bool websocket;
    /* Policy named the host by its address (verdict.names_address): private ranges are meant. Loopback,
     * link-local, metadata and the rest stay refused. */
    bool private_address;
    /* Policy says where the name may lead besides public addresses (verdict.to_private, .nets): any private address;
     * networks, each with addresses of its own kind alone (0.0.0.0/0 admits no loopback). The list is part of a
     * connection's identity: it is kept for requests with the same one, and must live as long as the pool. */
    bool private_name;
    const struct verdict_net *nets;
    size_t nnets;
};

struct upstream_callbacks {
    void (*ready)(void *arg, struct upstream_link *link);
    void (*failed)(void *arg, const struct upstream_failure *failure);
};

struct upstream_attempt;

/*
 * An idle connection of HTTP/1.1 to `origin`, at once: the request goes out on it in the same turn of the loop. NULL where
 * there is none that `options` permit, or a stream of HTTP/2 would be had: upstream_acquire gets one.
 */
struct upstream_link *upstream_reuse(struct upstream_pool *p, const struct upstream_origin *origin,
                                     const struct upstream_options *options);

/*
 * Gets a connection to `origin`. One of the callbacks is called, once, always from the event loop and
 * never within this call. The handle is gone when the callback begins. Returns NULL when memory is short
 * (then nobody is called).
 */
struct upstream_attempt *upstream_acquire(struct upstream_pool *p, const struct upstream_origin *origin,
                                          const struct upstream_options *options,
                                          const struct upstream_callbacks *callbacks, void *arg);
void upstream_cancel(struct upstream_attempt *a);

/*
 * Gives a connection back. `reusable`: the answer has ended where its framing said, nothing lies unread or
 * unwritten, and neither side said "close"; otherwise it is closed (TLS gets its close_notify). `keep_ms`
 * is the server's own word (Keep-Alive: timeout) in milliseconds, 0 if it gave none: then a second less
 * than that counts instead of UPSTREAM_IDLE_MS, up to UPSTREAM_KEEP_MS. The link is gone; no callback of
 * the caller's comes any more.
 */
void upstream_release(struct upstream_link *link, bool reusable, unsigned keep_ms);

/* Does an answer of that status say that the server does not serve the origin on this connection, which was made for another
 * name (421, RFC 9110 15.5.20)? Then the origin gets connections of its own, for as long as the pool remembers it, and the
 * request may go by one of these, as a client would do it. The link stays as it is. */
bool upstream_misdirected(struct upstream_link *link, int status);

/* Has the server said, on this link or for another one of its origin, that it wants HTTP/1.1 (RFC 9113 7)? It did nothing for what
 * it said so to, and the next link comes without HTTP/2. */
bool upstream_wants_http1(const struct upstream_link *link);

/* Counts for tests and metrics. */
size_t upstream_pool_idle(const struct upstream_pool *p);
size_t upstream_pool_open(const struct upstream_pool *p);

#endif
