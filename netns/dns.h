/*
 * DNS as the sandbox sees it: pure functions from a query's bytes to an answer's.
 *
 * Nothing is ever asked of anybody: a name gets a synthetic address (netns/names.h), and the real one is looked for only
 * when a request to the name has been permitted. What is answered:
 *
 *     A, AAAA         the name's synthetic address; AAAA is empty (NOERROR) when the sandbox has no IPv6
 *     localhost       127.0.0.1 and ::1, also below it (RFC 6761)
 *     other types     NOERROR without an answer: HTTPS and SVCB too, so no client is led to QUIC or ECH
 *     PTR             the name of a synthetic address; NXDOMAIN for other addresses
 *     no host name    REFUSED: other bytes than letters, digits, '-', '_', an address written as a name, the root
 *     .invalid        NXDOMAIN (RFC 6761), and use-application-dns.net, which turns a browser's own DNS over HTTPS off
 *     class not IN    REFUSED
 *     opcode not 0    NOTIMP
 *     malformed       FORMERR where at least the header could be read, else no answer at all
 *     table full      SERVFAIL
 *
 * EDNS(0) is accepted (version over 0: BADVERS). Every answer fits into 512 bytes.
 */
#ifndef NETNS_DNS_H
#define NETNS_DNS_H

#include "base/err.h"
#include "base/slice.h"

struct names;

#define DNS_ANSWER_MAX 768  /* room for any answer */
#define DNS_QUERY_MAX  4096 /* a longer query is malformed */
#define DNS_TTL        60

enum dns_rcode {
    DNS_NOERROR = 0,
    DNS_FORMERR = 1,
    DNS_SERVFAIL = 2,
    DNS_NXDOMAIN = 3,
    DNS_NOTIMP = 4,
    DNS_REFUSED = 5,
    DNS_BADVERS = 16, /* needs EDNS */
};

enum dns_type {
    DNS_A = 1,
    DNS_NS = 2,
    DNS_PTR = 12,
    DNS_TXT = 16,
    DNS_AAAA = 28,
    DNS_SRV = 33,
    DNS_OPT = 41,
    DNS_HTTPS = 65
};

struct dns_query {
    uint16_t id;
    uint16_t flags; /* as received */
    uint16_t type;  /* of the question */
    uint16_t qclass;
    bool edns;
    uint8_t edns_version;
    enum dns_rcode rcode;  /* what parsing alone decides; NOERROR: go on */
    struct slice question; /* name, type and class as received: into the packet */
    size_t n;
    /* lower case, without the final dot, '.' between labels; bytes that no host name has are kept as they are */
    char name[256];
    bool host; /* the name could be a host's */
};

/* What the sandbox is told, decided by dns_answer, for the log. */
struct dns_result {
    struct dns_query query;
    enum dns_rcode rcode;
    bool answered; /* an address or name is in the answer */
};

/* Answers one query. `out` has room for DNS_ANSWER_MAX bytes, *n gets the length. `result` may be NULL.
 * 0, or ERR_PARSE when nothing is to be sent. */
int dns_answer(struct slice packet, struct names *names, bool ipv6, uint8_t *out, size_t *n,
               struct dns_result *result);

/* DNS over TCP: two bytes of length before each message. *message is the first complete one in `stream`, *used the bytes it takes with
 * its length. 0; ERR_INCOMPLETE; ERR_LIMIT (longer than DNS_QUERY_MAX: close the connection). */
int dns_tcp_next(struct slice stream, struct slice *message, size_t *used);

#endif
