/* Private to netns/: the one nftables table of a sandbox. */
#ifndef NETNS_NFT_H
#define NETNS_NFT_H

#include "netns/listen.h"

/* Installs the rules in the namespace of the caller, and the routes that TPROXY needs. *nat_only tells whether all TCP is led to the
 * listener by NAT, for the kernel can't do otherwise, or the listeners can't. 0, or ERR_UNSUPPORTED with what the kernel says. */
int nft_setup(const uint8_t prefix6[8], bool ipv6, const struct listen_ports *ports, bool *nat_only,
              struct errmsg *msg) MUST_CHECK;

#endif
