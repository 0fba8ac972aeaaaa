/*
 * The DNS of a sandbox (RFC 1035; over TCP RFC 7766): answers every question at its listeners, UDP and TCP, with
 * synthetic addresses (netns/dns.h says how). No question leaves the host on a sandbox's behalf: an answer takes a table
 * look-up and nothing else.
 *
 * An answer comes from the address that the listener is bound to; bind UDP listeners to one address, not
 * to the wildcard, else the sandbox's connection tracking does not know the answer again.
 *
 * TCP: at most NAMESERVER_TCP_MAX connections for all listeners together; one that is without a whole
 * question for NAMESERVER_TCP_MS is closed. Answers are written in order, and a client that does not read
 * them is not read from.
 */
#ifndef PROXY_FLOW_NAMESERVER_H
#define PROXY_FLOW_NAMESERVER_H

#include "base/err.h"
#include "base/slice.h"

struct event_base;
struct names;
struct nameserver;

#define NAMESERVER_TCP_MAX            64 /* connections */
#define NAMESERVER_TCP_MS             10000
#define NAMESERVER_REFUSED_PER_SECOND 10

/* Told of names that were refused, at most NAMESERVER_REFUSED_PER_SECOND times a second, so that a sandbox
 * can't flood the record by asking. `name` is as it was asked for: it may hold any byte. */
typedef void nameserver_refused(void *arg, struct slice name, const char *why);

/* `names` is borrowed. `refused` may be NULL. NULL when memory is short. */
struct nameserver *nameserver_new(struct event_base *base, struct names *names, nameserver_refused *refused,
                                  void *arg);

/* Serves a socket (TCP: a listening one); ownership passes, in success and in failure. It is made
 * non-blocking here. With an IPv6 socket among them the sandbox has IPv6, and AAAA questions get
 * addresses. 0, ERR_NOMEM or ERR_IO. */
int nameserver_add_udp(struct nameserver *s, int fd);
int nameserver_add_tcp(struct nameserver *s, int fd);

void nameserver_free(struct nameserver *s);

#endif
