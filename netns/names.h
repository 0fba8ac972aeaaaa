/*
 * Synthetic addresses: each name that a sandbox asks for gets an IPv4 and an IPv6 address of its own, and keeps
 * them while the sandbox lives. The address a client connects to thus tells which name it looked up.
 *
 *     A     198.18.0.0/15 (RFC 2544, never routed): 198.19.0.0 + index
 *     AAAA  a /64 of a ULA, random for each sandbox: prefix :: index + 1
 *
 * The table lives in a memfd that the workers of one sandbox share. Insertion takes no lock: an entry is
 * written first and published with one compare-and-swap, so a worker that dies halfway blocks nobody (it costs an index at most).
 * Names are never moved, changed or removed; the 65,537th name is refused, no address is ever given out twice.
 *
 * Names are canonical: lower case, no final dot, as base/url.h has them; comparison is by bytes.
 */
#ifndef NETNS_NAMES_H
#define NETNS_NAMES_H

#include <netinet/in.h>

#include "base/addr.h"
#include "base/err.h"
#include "base/slice.h"

#define NAMES_MAX     65536
#define NAMES_LEN_MAX 253

/* The sandbox's own addresses, on lo: 198.18.0.1 and PREFIX::ffff:ffff:ffff:ffff are outside of what names get. */
#define NAMES_OWN4 "198.18.0.1"

struct names;

/* A new table with a random prefix. 0, ERR_IO or ERR_NOMEM. */
int names_new(struct names **out, struct errmsg *msg);

/* The table that another process made; `fd` is a descriptor of it and is taken, in every case. ERR_PEER if it is none. */
int names_attach(int fd, struct names **out, struct errmsg *msg);

/* Borrowed: the descriptor to hand to other processes. */
int names_fd(const struct names *names);

/* The 8 bytes of the IPv6 prefix, for sandbox_spec. */
const uint8_t *names_prefix(const struct names *names);

/* Accepts NULL. The table itself goes with its last user. */
void names_free(struct names *names);

/* Finds `name`, or gives it an index. 0; ERR_LIMIT (table full); ERR_USAGE (empty, longer than 253 bytes). */
int names_insert(struct names *names, struct slice name, uint32_t *index);

/* Finds `name` only. ERR_NOTFOUND. */
int names_find(const struct names *names, struct slice name, uint32_t *index);

/* The addresses of an index, with port 0. */
struct addr names_addr4(const struct names *names, uint32_t index);
struct addr names_addr6(const struct names *names, uint32_t index);

/* The name that an address was given for; good while the table is. The port is ignored. False: none was. */
bool names_lookup(const struct names *names, const struct addr *addr, struct slice *name);

/* Whether the address lies in a range that only this table gives out (a name was never asked for it, if names_lookup fails). */
bool names_in_range(const struct names *names, const struct addr *addr);

size_t names_count(const struct names *names);

#endif
