/*
 * The gate for fetches: what a sandbox sees of a repository, and what it gets. Also of a push's discovery, which shows refs
 * and their ids: whoever knows a hidden id could push something on top of it, and fetch that.
 *
 * Which refs are shown, and so what a fetch is for, is remembered for its record, whatever the policy says (fetched.h).
 * The answer to the discovery is rewritten (proxy/codec/git_offer.h): offers that no rule permits by name are taken out,
 * and where the policy keeps fetches from the repository to some refs (policy_limits_fetch), so are all others. The body
 * of a fetch is held until it has come, then judged (proxy/codec/git_asked.h): by its command, and, where refs are
 * limited, by what it names. An object must have been shown to this sandbox (shown.h); one that was not is asked about
 * at the server, once, by an errand for the list of refs. What goes upstream then is written anew from what was judged.
 *
 *     discovery: fetchgate_begin - xchg_go - fetchgate_head - fetchgate_data… - fetchgate_end
 *     fetch:     fetchgate_begin - fetchgate_feed… - fetchgate_body_end - [errand] - permitted: as above
 *                                                                                  - refused: git's ERR line
 */
#ifndef PROXY_FLOW_FETCHGATE_H
#define PROXY_FLOW_FETCHGATE_H

#include "base/slice.h"

#define FETCHGATE_BODY_MAX  (32u << 20) /* a fetch, decoded; about 600,000 objects by their ids */
#define FETCHGATE_NAMES_MAX (8u << 20)  /* … where each id is looked up */

struct fetchgate;
struct record;
struct xchg;

/* The policy permits the request as such. The exchange may be over when these return. */
void fetchgate_begin(struct xchg *x);

bool fetchgate_reads(const struct xchg *x);
void fetchgate_feed(struct xchg *x, struct slice bytes);
void fetchgate_body_end(struct xchg *x);

/* The answer's final head (x->resp) is to be passed on. Its framing may be changed here. Not NULL: the answer can't be
 * passed on, for this reason. Without a gate nothing happens, here and in fetchgate_end. */
const char *fetchgate_head(struct xchg *x);
/* A piece of its body, passed on as far as it may; only with a gate. */
void fetchgate_data(struct xchg *x, struct slice bytes);
/* Its end. False: the answer was not whole, the exchange is over. */
bool fetchgate_end(struct xchg *x);

/* What the record says of it: its command, and the refs that it is for. */
void fetchgate_record(const struct xchg *x, struct record *r);

void fetchgate_free(struct fetchgate *gate);

#endif
