/*
 * A tunnel: TLS passed through unread, for clients that pin certificates (`tunnel` in a policy).
 *
 * Only where the policy has such a rule at all is a ClientHello held until it is whole (proxy/codec/clienthello.h). The
 * name in it must be the one behind the address that was dialled; what the policy says of that name decides:
 *
 *     a tunnel   connected to as any other upstream is (resolved, addresses checked, an upstream proxy asked), without
 *                TLS of ours; what the client sent goes on in the bytes received, and relay.h does the rest. Half-close
 *                is kept, bytes are counted
 *     no tunnel  OpenSSL gets the bytes, and requests are read as ever; but where only tunnels name the host, or it is
 *                not certain which host is meant, the connection is refused for the reason that no tunnel is made:
 *                no name (tunnel-no-name), an address (tunnel-address), a malformed name (tunnel-bad-name), another
 *                than was dialled (tunnel-other-name), an encrypted ClientHello inside (tunnel-ech)
 *
 * Nothing can be put into a tunnel, so no credential goes through one. A refusal is a TLS alert (access_denied), since
 * nothing else can be said to a client that trusts no certificate of ours; the record says why.
 *
 *     tunnel_begin - the hello comes - passed to OpenSSL, refused, or connecting - relay - over
 */
#ifndef PROXY_FLOW_TUNNEL_H
#define PROXY_FLOW_TUNNEL_H

#include "base/slice.h"

struct conn;
struct tunnel;

/* The first bytes, all of conn->in, begin TLS. False: no rule passes anything through here, or memory is short: go on
 * without. True: the connection is the tunnel's (it may be over). */
bool tunnel_begin(struct conn *conn);

/* The connection ends: records the outcome, gives back all but the memory, which may still be looked at further up the
 * stack, and goes with the connection's. NULL is fine, for both. */
void tunnel_release(struct tunnel *t);
void tunnel_free(struct tunnel *t);

#endif
