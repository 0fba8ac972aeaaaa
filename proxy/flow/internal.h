/*
 * exeat's own host, inside the sandbox only: what it may do, why something was refused, and the root to trust.
 *
 *     /why/ID    one of the last decisions of this sandbox (text, or JSON for who accepts it)
 *     /policy    what this sandbox may do; credentials by name only
 *     /ca.pem    exeat's root
 *
 * Over http and https, on any port; never recorded, since nothing leaves.
 */
#ifndef PROXY_FLOW_INTERNAL_H
#define PROXY_FLOW_INTERNAL_H

#define INTERNAL_HOST "exeat.internal"

struct xchg;

/* Answers and ends the exchange. */
void internal_serve(struct xchg *x);

#endif
