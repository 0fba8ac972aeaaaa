/*
 * Socket addresses as values: parsing, printing, and what kind of place an address is.
 */
#ifndef BASE_ADDR_H
#define BASE_ADDR_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/slice.h"

struct addr {
    union {
        struct sockaddr sa;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    };
    socklen_t len; /* 0: none */
};

#define ADDR_TEXT_MAX 64

/* Where an address leads. Everything but ADDR_PUBLIC is refused as an upstream unless the operator named it. */
enum addr_kind {
    ADDR_PUBLIC,
    ADDR_UNSPECIFIED, /* 0.0.0.0/8, :: */
    ADDR_LOOPBACK,    /* 127/8, ::1 */
    ADDR_PRIVATE,     /* RFC 1918, RFC 6598 (100.64/10), ULA, site-local, 198.18/15 (RFC 2544) */
    ADDR_LINK_LOCAL,  /* 169.254/16 (where cloud metadata lives), fe80::/10 */
    ADDR_METADATA,    /* further addresses of cloud metadata services outside of the ranges above */
    ADDR_MULTICAST,   /* 224/4, ff00::/8 */
    ADDR_RESERVED,    /* 240/4 with broadcast, 192.0.0/24, discard-only and the like */
};

/* The kind; IPv4 inside of IPv6 (mapped, compatible, NAT64 64:ff9b::/96 and 64:ff9b:1::/48, 6to4, Teredo) is judged by the IPv4 address, so
 * that no spelling opens what another one closes. */
enum addr_kind addr_kind(const struct addr *a);
/* "loopback", "private" …; never NULL. */
const char *addr_kind_text(enum addr_kind kind);

/* From a literal alone ("10.0.0.1", "::1", "[::1]"), strict: four decimal octets without leading zeros, or RFC 4291 text without a
 * zone. False, and *out unchanged, for anything else. No name is ever looked up. */
bool addr_parse(struct slice literal, uint16_t port, struct addr *out);

/* From a kernel sockaddr. */
struct addr addr_from(const struct sockaddr *sa, socklen_t len);

uint16_t addr_port(const struct addr *a);
void addr_set_port(struct addr *a, uint16_t port);

/* Same family, address and port. */
bool addr_eq(const struct addr *a, const struct addr *b);

/* "192.0.2.1" or "2001:db8::1" without, "192.0.2.1:443" or "[2001:db8::1]:443" with the port. Returns `out`. */
const char *addr_text(const struct addr *a, bool with_port, char out[ADDR_TEXT_MAX]);

#endif
