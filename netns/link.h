/* Private to netns/: loopback, addresses and routes of the sandbox's net namespace, by rtnetlink. */
#ifndef NETNS_LINK_H
#define NETNS_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define LINK_LO 1 /* the index of lo in every net namespace */

/* In the namespace of the caller: lo up, NAMES_OWN4 and PREFIX::ffff:ffff:ffff:ffff on it, everything routed to it, ports under 1024 and
 * ping sockets for all. *ipv6 tells whether IPv6 is there; a host without it is served, one where only
 * a part of it can be set up is not. 0, ERR_UNSUPPORTED or ERR_IO. */
int link_setup(const uint8_t prefix6[8], bool root, bool *ipv6, struct errmsg *msg) MUST_CHECK;

/* Delivers here what goes to the world, for TPROXY to give it to a socket: in a table of its own, so that the default route stays for
 * who looks for one, and bind() still tells the host's own addresses from others. False: the kernel can't, and all is as it was. */
bool link_deliver(const uint8_t prefix6[8], bool ipv6) MUST_CHECK;

/* Takes that back. */
void link_undeliver(const uint8_t prefix6[8], bool ipv6);

/* The sandbox's own IPv6 address. */
void link_own6(const uint8_t prefix6[8], uint8_t out[16]);

#endif
