/*
 * The DNS of a sandbox: answers every question at its listeners, UDP and TCP, with synthetic addresses (netns/names.h).
 *
 * No question leaves the host on a sandbox's behalf: an answer takes a table look-up and nothing else. A and AAAA get the name's
 * synthetic address; other types of a host name an empty answer (HTTPS and SVCB too, so that nobody is led to QUIC or an encrypted
 * ClientHello); what can't be a host name is refused; the reverse name of a synthetic address gets its name. A malformed message gets
 * FORMERR if it has an id, else nothing.
 *
 * TCP: at most NAMESERVER_TCP_MAX connections a listener, NAMESERVER_TCP_MS without a whole question closes one; answers are written in
 * order, and a client that does not read its answers is not read from.
 */
#ifndef FLOW_NAMESERVER_H
#define FLOW_NAMESERVER_H

#include "base/err.h"
#include "base/slice.h"

struct event_base;
struct names;
struct nameserver;

#define NAMESERVER_TCP_MAX 64
#define NAMESERVER_TCP_MS 10000
#define NAMESERVER_REFUSED_PER_SECOND 10

/* Told of names that were refused, at most NAMESERVER_REFUSED_PER_SECOND times a second, so that a sandbox can't flood the record by
 * asking. `name` is as it was asked, printable, in presentation form. */
typedef void nameserver_refused(void *arg, struct slice name, const char *why);

/* `names` is borrowed. NULL when memory is short. `refused` may be NULL. */
struct nameserver *nameserver_new(struct event_base *base, struct names *names, nameserver_refused *refused, void *arg);

/* Serves a socket; ownership of the descriptor passes, in success and in failure. Non-blocking is set here. 0 or ERR_NOMEM, ERR_IO. */
int nameserver_add_udp(struct nameserver *s, int fd);
int nameserver_add_tcp(struct nameserver *s, int fd);

void nameserver_free(struct nameserver *s);

#endif
