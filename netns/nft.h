/* Private to netns/: the one nftables table of a sandbox. */
#ifndef NETNS_NFT_H
#define NETNS_NFT_H

#include "netns/listen.h"

/* Installs the rules in the namespace of the caller. 0, or ERR_UNSUPPORTED with what the kernel says. */
int nft_setup(const uint8_t prefix6[8], bool ipv6, const struct listen_ports *ports,
              struct errmsg *msg) MUST_CHECK;

#endif
