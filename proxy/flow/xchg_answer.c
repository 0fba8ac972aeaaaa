/*
 * The answer, from the upstream's first byte to its last, whatever transport it comes by. The body's spans go to the
 * client as they come. Nothing is waited for that could be passed on: each turn ends with a flush.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "proxy/flow/fetchgate.h"
#include "proxy/flow/gitgate.h"
#include "proxy/flow/lfsgate.h"
#include "proxy/flow/refusal.h"
#include "proxy/flow/state.h"
#include "proxy/flow/xchg.h"

#define ANSWER_INTERIM_MAX 32 /* 1xx heads before the final one, of no more than HTTP1_HEAD_MAX together */

static const char *const answer_phase_names[] = {"awaited", "begun", "held", "held whole", "passed", "whole"};
_Static_assert(sizeof answer_phase_names / sizeof *answer_phase_names == ANSWER_PHASES,
               "a name for each phase");

void xchg_answer_enter(struct xchg *x, enum xchg_answer_phase phase) {
    static const uint8_t legal[ANSWER_PHASES] = {
        [ANSWER_AWAITED] = 1 << ANSWER_BEGUN,
        [ANSWER_BEGUN] = 1 << ANSWER_HELD | 1 << ANSWER_PASSED | 1 << ANSWER_AWAITED,
        [ANSWER_HELD] = 1 << ANSWER_HELD_WHOLE,
        [ANSWER_PASSED] = 1 << ANSWER_WHOLE,
    };
    assert(legal[x->answer_phase] & 1 << phase);
    log_debug("xchg %s: answer: %s -> %s", x->decision.id.text, answer_phase_names[x->answer_phase],
              answer_phase_names[phase]);
    x->answer_phase = phase;
}

void xchg_answer_comes(struct xchg *x) {
    if (x->answer_phase == ANSWER_AWAITED)
        xchg_answer_enter(x, ANSWER_BEGUN);
}

unsigned xchg_patience(const struct xchg *x) {
    const struct engine_limits *limits = &x->box->engine->config.limits;
    return x->status == 101 ? limits->relay_ms : limits->answer_ms;
}

void xchg_answer_begin(struct xchg *x) {
    x->interims = 0;
    x->interim_size = 0;
    x->server->deadline(x);
    x->server->listen(x, !xchg_undecided(x)); /* until the verdict nothing of it reaches the client */
}

/* No answer will come, or none that can be understood. */
void xchg_answer_broken(struct xchg *x, int status, const char *code, const char *reason) {
    x->up_keep = false;
    xchg_trouble(x, code, "%s", reason);
    if (x->answer_phase >= ANSWER_PASSED)
        xchg_end(x, false);
    else
        refusal_trouble(x, status, code, reason);
}

void xchg_answer_malformed(struct xchg *x, enum http_refusal why) {
    char text[256];
    snprintf(text, sizeof text, "the upstream's answer is malformed: %s",
             why ? http_refusal_text(why) : "too many interim answers (1xx), or too long ones");
    xchg_answer_broken(x, 502, "upstream-malformed", text);
}

/* ---- heads ---- */

/* Keep-Alive: timeout=5 */
static unsigned answer_keep_ms(const struct http1_response *resp) {
    for (size_t i = 0; i < resp->nfields; i++) {
        if (resp->fields[i].id != HTTP_F_KEEP_ALIVE)
            continue;
        struct slice list = resp->fields[i].value, element, name, value;
        while (http_list_next(&list, &element)) {
            uint64_t seconds;
            if (slice_cut(element, '=', &name, &value) && slice_caseeq(slice_trim(name), SLICE("timeout")) &&
                slice_u64(slice_trim(value), 3600, &seconds))
                return seconds ? (unsigned)seconds * 1000 : 1;
        }
    }
    return 0;
}

/* git would ask for a password, which nobody in the sandbox has: the sandbox's own is taken off on the way to this
 * host. What it needs to know is that the lent one was not good. */
static bool answer_is_prompt(const struct xchg *x) {
    return x->resp.status == 401 && x->git.kind != GIT_NOT && x->binding;
}

static void answer_instead_of_prompt(struct xchg *x) {
    char why[512];
    if (x->verdict.credential.n)
        snprintf(why, sizeof why, "%s refused the credential %.*s (status 401)", x->target.host.text,
                 SLICE_ARG(x->verdict.credential));
    else
        snprintf(why, sizeof why, "%s wants a credential (status 401), and the rule lends none",
                 x->target.host.text);
    x->up_keep = false;
    refusal_trouble(x, 403, "upstream-unauthorized", why);
}

/* The final head. False: the exchange is over. */
static bool answer_final(struct xchg *x) {
    const struct http1_response *resp = &x->resp;
    if (answer_is_prompt(x)) {
        answer_instead_of_prompt(x);
        return false;
    }
    secret_release(&x->inject); /* no second try any more */
    xchg_no_retry(x);
    lfsgate_sent(x);
    x->status = (unsigned)resp->status;
    x->up_keep = resp->keep_alive;
    x->keep_ms = answer_keep_ms(resp);
    const char *unfit = fetchgate_head(x);
    if (unfit) {
        xchg_answer_broken(x, 502, "git-answer", unfit);
        return false;
    }
    if (lfsgate_answer_begin(x))
        return x->state == XCHG_RELAY;
    if (x->client->head(x, resp)) {
        x->status = 0;
        xchg_answer_broken(x, 502, "upstream-head", "the upstream's answer can't be passed on");
        return false;
    }
    xchg_answer_enter(x, ANSWER_PASSED);
    return x->state == XCHG_RELAY;
}

/* An interim head. It is passed on even if the client takes none of what comes. */
static bool answer_interim(struct xchg *x) {
    const struct http1_response *resp = &x->resp;
    for (size_t i = 0; i < resp->nfields; i++)
        x->interim_size += resp->fields[i].name.n + resp->fields[i].value.n;
    if (++x->interims > ANSWER_INTERIM_MAX || x->interim_size > HTTP1_HEAD_MAX) {
        xchg_answer_malformed(x, HTTP_REFUSED_NOT);
        return false;
    }
    if (!(x->resp.status == 100 && x->proceed_said))
        x->client->head(x, &x->resp);
    x->client->flush(x);
    return x->state == XCHG_RELAY;
}

bool xchg_answer_head(struct xchg *x) {
    if (!xchg_upgrade_fits(x)) {
        xchg_answer_broken(x, 502, "upstream-malformed",
                           "the upstream's answer does not fit the WebSocket handshake");
        return false;
    }
    return x->resp.interim ? answer_interim(x) : answer_final(x);
}

/* ---- bodies ---- */

void xchg_answer_data(struct xchg *x, struct slice bytes) {
    x->received += bytes.n;
    if (x->answer_phase == ANSWER_HELD) {
        lfsgate_answer_data(x, bytes);
        return;
    }
    gitgate_answer(x, bytes);
    if (x->fetch)
        fetchgate_data(x, bytes);
    else
        x->client->data(x, bytes);
}

void xchg_answer_end(struct xchg *x, const struct http_field *trailers, size_t n) {
    if (!fetchgate_end(x))
        return;
    if (x->answer_phase == ANSWER_HELD) {
        xchg_answer_enter(x, ANSWER_HELD_WHOLE);
        lfsgate_answer_end(x);
        return;
    }
    xchg_answer_enter(x, ANSWER_WHOLE);
    x->client->end(x, trailers, n);
    xchg_settle(x);
}

/* ---- the upstream's connection ---- */

void xchg_answer_lost(struct xchg *x, const char *why, bool unseen) {
    char text[256];
    if (xchg_retry(x, unseen))
        return;
    const char *then = unseen && upstream_wants_http1(x->link)
                           ? "; it can't be sent once more, but the next request goes by HTTP/1.1"
                       : unseen ? "; it has not acted on the request"
                       : x->pooled
                           ? ""
                           : "; whether it has acted on the request is not known, so it was not sent again";
    snprintf(text, sizeof text, "%s%s", why, then);
    xchg_answer_broken(x, 502, "upstream-closed", text);
}

void xchg_upstream_drained(struct xchg *x) {
    if (x->send_phase == SEND_ALL)
        xchg_settle(x);
    else if (!x->body_done && x->send_phase != SEND_FAILED && !xchg_upgrade_waits(x))
        x->client->want_body(x, true);
}

/* An answer that came early may still lie there. The rest of the request is not asked for. */
void xchg_upstream_deaf(struct xchg *x) {
    xchg_send_failed(x);
    x->up_keep = false;
    if (xchg_undecided(x)) /* the verdict is made all the same, then comes the upstream's answer */
        x->client->want_body(x, true);
    if (x->answer_phase == ANSWER_WHOLE)
        xchg_end(x, true);
}

/* The server took too long: which limit that was, and where the exchange stood. */
static void answer_late(struct xchg *x) {
    char limit[TIME_LIMIT_TEXT], text[160];
    engine_limits_met(&x->box->engine->config.limits, TIME_LIMIT_ANSWER, limit);
    if (x->answer_phase == ANSWER_AWAITED)
        snprintf(text, sizeof text, "nothing of the upstream's answer came for %s", limit);
    else if (x->answer_phase == ANSWER_BEGUN)
        snprintf(text, sizeof text, "the upstream began its answer, and no more of its head came for %s",
                 limit);
    else
        snprintf(text, sizeof text,
                 "after %" PRIu64 " bytes of the answer's body no more came from the upstream for %s",
                 x->received, limit);
    xchg_answer_broken(x, 504, "upstream-timeout", text);
}

void xchg_upstream_late(struct xchg *x) {
    const struct engine_limits *limits = &x->box->engine->config.limits;
    char limit[TIME_LIMIT_TEXT], text[160];
    if (x->status == 101) {
        snprintf(text, sizeof text, "nothing came from either side for %s",
                 engine_limits_met(limits, TIME_LIMIT_RELAY, limit));
        xchg_answer_broken(x, 0, "relay-idle", text);
    } else if (x->answer_phase == ANSWER_WHOLE) {
        if (x->server->unsent(x))
            xchg_trouble(x, "upstream-timeout",
                         "the upstream answered, and took no more of the request for %s",
                         engine_limits_met(limits, TIME_LIMIT_ANSWER, limit));
        xchg_end(x, true);
    } else {
        answer_late(x);
    }
}
