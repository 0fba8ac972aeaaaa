/* Private to netns/: certificates and names as the sandbox's programs find them. */
#ifndef NETNS_TRUST_H
#define NETNS_TRUST_H

#include "netns/overlay.h"
#include "netns/wire.h"

/*
 * What /etc/resolv.conf is in a sandbox. Its first line says whose that is.
 *
 * Every name has an answer here, so the first that a resolver asks for is the one that it finds, and the request has another when
 * that came out of a search list: "github.com.corp.example". There is none in the file, but the C library, Go and c-ares then take
 * the domain of the host's own name for one, for names without a dot. With ndots:0 a name is first asked for as it is.
 */
#define TRUST_RESOLV_MARK "# exeat\n"
#define TRUST_RESOLV_CONF TRUST_RESOLV_MARK "nameserver 127.0.0.1\noptions edns0 ndots:0\n"

/* Lays the bundle over the system's PEM bundles, puts our root into its directories of hashed certificates, lays the overlays
 * (Java key stores), a resolv.conf that names 127.0.0.1 alone, a gai.conf by which a name's IPv4 address comes first (where there
 * is one), and an /etc/hosts with only what is local. `root`: all ids are mapped. */
int trust_setup(const struct wire_trust *what, bool root, struct stage *stage, struct errmsg *msg) MUST_CHECK;

#endif
