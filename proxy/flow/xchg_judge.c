/*
 * From a parsed head to a verdict: which URL it is really for, whether a rule permits it, and who answers.
 */
#include "proxy/flow/bodygate.h"
#include "proxy/flow/doorgate.h"
#include "proxy/flow/facts.h"
#include "proxy/flow/fetchgate.h"
#include "proxy/flow/gitgate.h"
#include "proxy/flow/internal.h"
#include "proxy/flow/putgate.h"
#include "proxy/flow/refusal.h"
#include "proxy/flow/state.h"
#include "proxy/flow/xchg.h"

/* Does a rule speak of this host and port in this scheme, whatever it says about method and path? */
static bool judge_names_host(const struct xchg *x, enum url_scheme scheme) {
    struct facts f = x->facts;
    struct verdict v;
    f.scheme = scheme;
    f.kind = FACTS_HTTP;
    f.method = SLICE("GET");
    f.path = SLICE("/");
    f.query = SLICE_NONE;
    policy_judge(x->box->policy, &f, &v);
    switch (v.reason) {
    case REASON_NO_RULES:
    case REASON_HOST:
    case REASON_SCHEME:
    case REASON_PORT:
    case REASON_ADDRESS: return false;
    default: return true;
    }
}

/* A CONNECT is neither permitted nor denied for itself: what comes inside is judged. But to a host that no rule names
 * nothing inside could be permitted. */
static void judge_connect(struct xchg *x) {
    const struct target *t = &x->target;
    x->facts = (struct facts){
        .kind = FACTS_HTTP,
        .scheme = URL_HTTPS,
        .host = url_host_slice(&t->host),
        .host_is_address = t->host.kind != URL_HOST_NAME,
        .port = t->port,
        .method = x->req.method,
        .path = SLICE("/"),
    };
    if (x->conn->tunnelled || x->conn->tls) {
        refusal_malformed(x, 400, "nested-connect", "CONNECT inside of a connection that was made by one");
        return;
    }
    bool internal = slice_eq(x->facts.host, SLICE(INTERNAL_HOST));
    if (!internal && !judge_names_host(x, URL_HTTPS) && !judge_names_host(x, URL_HTTP)) {
        x->judged = true;
        policy_judge(x->box->policy, &x->facts, &x->verdict);
        refusal_policy(x);
        return;
    }
    x->internal = true; /* what comes inside is recorded */
    x->tunnel = true;
    if (x->client->tunnel(x))
        refusal_malformed(x, 400, "connect", "CONNECT is not understood here");
    else
        xchg_end(x, true);
}

/* A request for the very socket that it came in by would go round in circles. */
static bool judge_is_self(const struct xchg *x) {
    struct slice host = url_host_slice(&x->target.host);
    return x->conn->direct && x->conn->dst.len && x->target.port == addr_port(&x->conn->dst) &&
           (slice_eq(host, slice_str(x->conn->dial_text)) || slice_eq(host, SLICE("localhost")));
}

/*
 * git's probe "0000" says that a request follows whose length git does not tell, a long push or a fetch with many refs.
 * Over HTTP/2 that can end in a standstill: where the last 2 KiB of such a body, or less, have to wait, libcurl 7.84 to
 * 8.6 (transfer.c, the refill of its buffer) asks for more to send along, does not see that there is none, and asks
 * again; but git reads the answer first, which comes when the request has ended. No server can know that the end is
 * near. So git is told to repeat the probe over HTTP/1.1 (RFC 9113 7), which libcurl does by itself since 7.63, and the
 * long request follows it there.
 */
static bool judge_repeats(const struct xchg *x) {
    return x->conn->h2 && (x->git.kind == GIT_FETCH || x->git.kind == GIT_PUSH) &&
           x->req.framing == HTTP_BODY_LENGTH && x->req.length == GIT_PROBE_LEN;
}

void xchg_judge(struct xchg *x) {
    struct target_identity id = conn_identity(x->conn, x->req.form);
    struct target *t = &x->target;
    int r = target_resolve(t, &id, &x->req, &x->path);
    if (r == ERR_NOMEM) {
        xchg_end(x, false);
        return;
    }
    if (r) {
        refusal_malformed(x, target_refusal_status(t->refusal), target_refusal_code(t->refusal),
                          t->error.text);
        return;
    }
    x->head_request = slice_eq(x->req.method, SLICE("HEAD"));
    x->binding = bindings_find(x->box->engine->bindings, url_host_slice(&t->host));
    if (t->connect) {
        judge_connect(x);
        return;
    }
    if (slice_eq(url_host_slice(&t->host), SLICE(INTERNAL_HOST))) {
        internal_serve(x);
        return;
    }
    facts_from_request(x);
    if (judge_is_self(x)) {
        refusal_other(x, "self", SLICE("the address is exeat's own listener"));
        return;
    }
    if (x->git.kind == GIT_REFUSED) {
        refusal_git_line(x, "git-ambiguous", slice_str(x->git.reason));
        return;
    }
    if (judge_repeats(x)) {
        x->repeats = true;
        x->internal = true; /* what comes instead is recorded */
        xchg_end(x, false);
        return;
    }
    if (binding_refuses_query(x->binding, t->query)) {
        refusal_other(
            x, "query-token",
            SLICE("the query holds a token, and a sandbox brings none of its own to a host that a credential "
                  "is bound to"));
        return;
    }
    if (!bodygate_begin(x))
        xchg_decide(x);
}

bool xchg_limited(struct xchg *x) {
    const struct verdict *v = &x->verdict;
    unsigned wait_s;
    bool discovery = x->git.kind == GIT_DISCOVER_FETCH || x->git.kind == GIT_DISCOVER_PUSH;
    if (v->max_body && x->req.framing == HTTP_BODY_LENGTH && x->req.length > v->max_body) {
        refusal_too_large(x);
        return true;
    }
    if (discovery || box_takes(x->box, v, &wait_s))
        return false;
    refusal_limit(x, wait_s);
    return true;
}

bool xchg_undecided(const struct xchg *x) {
    return gitgate_undecided(x) || putgate_undecided(x);
}

void xchg_decide(struct xchg *x) {
    x->judged = true;
    policy_judge(x->box->policy, &x->facts, &x->verdict);
    if (x->verdict.action != VERDICT_ALLOW) {
        if (!doorgate_begin(x))
            refusal_policy(x);
    } else if (x->git.kind == GIT_PUSH) {
        gitgate_begin(x); /* which asks for limits when the push itself is permitted */
    } else if (x->git.kind == GIT_FETCH || x->git.kind == GIT_DISCOVER_FETCH ||
               x->git.kind == GIT_DISCOVER_PUSH) {
        fetchgate_begin(x);
    } else {
        doorgate_permit(x);
    }
}
