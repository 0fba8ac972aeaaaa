/*
 * The one bridge between messages and policy: from a request in canonical form to the facts that it is judged by.
 */
#ifndef PROXY_FLOW_FACTS_H
#define PROXY_FLOW_FACTS_H

struct xchg;

/* Fills x->git and x->facts from x->req and x->target. The facts borrow from all three. */
void facts_from_request(struct xchg *x);

#endif
