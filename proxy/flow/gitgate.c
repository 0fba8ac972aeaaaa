#include "proxy/flow/gitgate.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "proxy/flow/gitask.h"
#include "proxy/flow/gitgate_state.h"
#include "proxy/flow/refusal.h"
#include "proxy/flow/state.h"
#include "proxy/flow/xchg.h"

#define GATE_HELD_MAX (GIT_SECTION_MAX + IO_SCRATCH)
#define GATE_EARLY                                                                                           \
    (256u << 10) /* a push up to this length is judged whole, before a byte of it goes upstream */
#define GATE_TAIL_MAX (64u << 10) /* bytes of the end of a longer one, which wait for the verdict */
#define GATE_INFLATE  16384       /* bytes inflated in one step */

static const char *const gate_phase_names[] = {"list", "pack", "ask", "passed"};
_Static_assert(sizeof gate_phase_names / sizeof *gate_phase_names == GATE_PHASES, "a name for each phase");

void gitgate_enter(struct xchg *x, enum gate_phase phase) {
    static const uint8_t legal[GATE_PHASES] = {
        [GATE_LIST] = 1 << GATE_PACK | 1 << GATE_PASSED,
        [GATE_PACK] = 1 << GATE_ASK | 1 << GATE_PASSED,
        [GATE_ASK] = 1 << GATE_ASK | 1 << GATE_PASSED, /* it may be asked for one thing after the other */
    };
    struct gitgate *gate = x->gate;
    assert(legal[gate->phase] & 1 << phase);
    log_debug("xchg %s: gate: %s -> %s", x->decision.id.text, gate_phase_names[gate->phase],
              gate_phase_names[phase]);
    gate->phase = phase;
}

void gitgate_free(struct gitgate *gate) {
    if (!gate)
        return;
    git_push_release(&gate->push);
    if (gate->gzip)
        gunzip_release(&gate->gunzip);
    buf_release(&gate->held);
    buf_release(&gate->plain);
    buf_release(&gate->text);
    buf_release(&gate->tail);
    gitgate_look_free(gate->look);
    gitask_free(gate->ask);
    gitproof_free(gate->proof);
    spot_end(&gate->spot);
    gate_answer_free(gate->answer);
    free(gate->wants);
    free(gate->refs);
    free(gate->options);
    buf_release(&gate->record_options);
    free(gate->record_refs);
    free(gate);
}

struct slice gitgate_held(const struct xchg *x) {
    return x->gate ? buf_slice(&x->gate->held) : SLICE_NONE;
}

void gitgate_sent(struct xchg *x) {
    if (x->gate)
        buf_release(&x->gate->held);
}

bool gitgate_undecided(const struct xchg *x) {
    return x->gate && (x->gate->phase == GATE_PACK || x->gate->phase == GATE_ASK);
}

bool gitgate_reads(const struct xchg *x) {
    return x->state == XCHG_SECTION || (x->state == XCHG_RELAY && gitgate_undecided(x));
}

void gitgate_record(struct xchg *x, struct record *r) {
    switch (x->git.kind) {
    case GIT_NOT: return;
    case GIT_DISCOVER_FETCH:
    case GIT_FETCH: r->git_service = SLICE("git-upload-pack"); break;
    case GIT_DISCOVER_PUSH:
    case GIT_PUSH: r->git_service = SLICE("git-receive-pack"); break;
    case GIT_ARCHIVE: r->git_service = SLICE("git-upload-archive"); break;
    case GIT_REFUSED: break;
    }
    if (x->gate && !x->gate->unsaid) {
        r->refs = x->gate->record_refs;
        r->nrefs = x->gate->nrefs;
        r->options = buf_slice(&x->gate->record_options);
    }
}

/* ---- deciding by the pack ---- */

/* Everything has come, or what came can't be read on. */
static void gate_decide(struct xchg *x) {
    struct gitgate *gate = x->gate;
    if (gitgate_measure(x)) {
        gitgate_refuse_unproved(x);
        return;
    }
    if (!gitgate_whole(gate))
        gitproof_fail(gate->proof, "it ends too early");
    if (gitgate_prove(gate, false, "pack") == 0 || !gitgate_ask(x))
        gitgate_conclude(x);
}

/* Judges by what is known now. False: the push is refused. */
static bool gate_permits(struct xchg *x) {
    struct verdict before = x->verdict;
    if (!gitgate_proved(x->gate)) {
        x->facts.unread = x->gate->needs != 0; /* that, and not what it brings, is the reason */
        gitgate_refuse_unproved(x);
        return false;
    }
    if (x->gate->needs == 0)
        return true;
    policy_judge(x->box->policy, &x->facts, &x->verdict);
    if (x->verdict.action != VERDICT_ALLOW) {
        gitgate_refuse_unproved(x);
        return false;
    }
    if (x->state != XCHG_SECTION && !slice_eq(before.credential, x->verdict.credential)) {
        gitgate_refuse_changed(x);
        return false;
    }
    return true;
}

void gitgate_conclude(struct xchg *x) {
    struct gitgate *gate = x->gate;
    if (gitgate_proved(gate) && gate->needs && !gate->looked && gitgate_look(x))
        return;
    if (!gate_permits(x) || !gitgate_clean(x) || gitgate_limited(x))
        return;
    for (size_t i = 0; i < gate->nrefs; i++)
        gate->refs[i].brought = NULL; /* was in there */
    gitgate_look_free(gate->look);
    gate->look = NULL;
    x->facts.unknown = NULL;
    gitask_free(gate->ask);
    gate->ask = NULL;
    gitproof_free(gate->proof);
    gate->proof = NULL;
    spot_end(&gate->spot);
    gitgate_enter(x, GATE_PASSED);
    if (x->state == XCHG_SECTION) {
        xchg_go(x);
        return;
    }
    xchg_record(x, false, NULL, SLICE_NONE);
    x->server->listen(x, true);
    xchg_send_body(x, buf_slice(&gate->tail));
    if (x->state == XCHG_RELAY)
        xchg_send_end(x, NULL, 0);
}

/* ---- reading ---- */

/* One cut of the plain body. 0: permitted by the list alone; ERR_INCOMPLETE; ERR_DENIED: refused, the exchange may be
 * over. */
static int gate_take(struct xchg *x, struct slice plain) {
    struct gitgate *gate = x->gate;
    if (gate->phase == GATE_LIST) {
        size_t used;
        int r = git_push_feed(&gate->push, plain, &used);
        if (r == ERR_INCOMPLETE)
            return r;
        plain = slice_from(plain, used);
        if (r) {
            gitgate_unreadable(x, r == ERR_LIMIT ? "push-too-long" : "push-malformed", gate->push.error.text);
            return ERR_DENIED;
        }
        if (!gate->gzip && !gate->push.pack_follows && plain.n) {
            gitgate_unreadable(x, "push-malformed", "bytes behind a command list that no pack follows");
            return ERR_DENIED;
        }
        r = gitgate_judge(x);
        if (r != ERR_INCOMPLETE)
            return r;
    }
    gitproof_feed(gate->proof, plain);
    gitgate_spot(x);
    return ERR_INCOMPLETE;
}

static int gate_bad_gzip(struct xchg *x, int err) {
    const char *why = err == ERR_LIMIT ? x->gate->phase == GATE_LIST ? "the command list is too long"
                                                                     : "it is too long for a gzip body"
                                       : "the body is not gzip, as it claims to be";
    if (x->gate->phase == GATE_PACK) {
        gitproof_fail(x->gate->proof, why);
        return ERR_INCOMPLETE;
    }
    gitgate_unreadable(x, "push-malformed", why);
    return ERR_DENIED;
}

static int gate_inflate(struct xchg *x, struct slice bytes) {
    struct gitgate *gate = x->gate;
    int r = ERR_INCOMPLETE;
    bool stuck = false;
    while (r == ERR_INCOMPLETE && !stuck) {
        size_t used;
        buf_clear(&gate->plain);
        int g = gunzip_feed(&gate->gunzip, bytes, &used, &gate->plain, GATE_INFLATE);
        bytes = slice_from(bytes, used);
        if (g && g != ERR_EOF)
            return gate_bad_gzip(x, g);
        size_t came = buf_len(&gate->plain);
        r = gate_take(x, buf_slice(&gate->plain));
        stuck = g == ERR_EOF || (bytes.n == 0 && came < GATE_INFLATE);
        if (r == ERR_INCOMPLETE && g == ERR_EOF && gate->phase == GATE_PACK && bytes.n)
            gitproof_fail(gate->proof, "there are bytes behind the gzip body");
    }
    return r;
}

/* `bytes` of the body as received have been read. Those that could complete the push at the server are kept here. */
static void gate_pass_on(struct xchg *x, struct slice bytes) {
    struct gitgate *gate = x->gate;
    bool wait = gitproof_at_end(gate->proof) || buf_len(&gate->tail);
    if (gitproof_failed(gate->proof) || gitgate_exceeds(gate)) {
        gate_decide(x);
    } else if (x->state == XCHG_SECTION) {
        if (wait || buf_len(&gate->held) < GATE_EARLY)
            return;
        x->client->want_body(x, false);
        xchg_go(x);
    } else if (!wait) {
        xchg_send_body(x, bytes);
    } else if (buf_put(&gate->tail, bytes)) {
        gitproof_fail(gate->proof, "there are bytes behind it");
        gate_decide(x);
    }
}

void gitgate_feed(struct xchg *x, struct slice bytes) {
    struct gitgate *gate = x->gate;
    if (x->state == XCHG_SECTION && buf_put(&gate->held, bytes)) {
        gitgate_unreadable(x, "push-too-long", "the command list is too long");
        return;
    }
    int r = gate->gzip ? gate_inflate(x, bytes) : gate_take(x, bytes);
    if (r == ERR_INCOMPLETE && gate->phase == GATE_PACK) {
        gate_pass_on(x, bytes);
    } else if (r == 0) {
        x->client->want_body(x, false);
        xchg_go(x);
    }
}

void gitgate_body_end(struct xchg *x) {
    switch (x->gate->phase) {
    case GATE_LIST:
        gitgate_unreadable(x, "push-malformed", "the body ended before the command list did");
        break;
    case GATE_PACK: gate_decide(x); break;
    case GATE_ASK:
    case GATE_PASSED:
    case GATE_PHASES: break;
    }
}

void gitgate_begin(struct xchg *x) {
    const struct http_field *f = http_find(x->req.fields, x->req.nfields, HTTP_F_CONTENT_ENCODING, NULL);
    enum git_encoding encoding = git_encoding(f ? f->value : SLICE_NONE);
    struct gitgate *gate = calloc(1, sizeof *gate);
    if (!gate) {
        refusal_trouble(x, 503, "no-memory", "out of memory");
        return;
    }
    git_push_init(&gate->push);
    buf_init(&gate->held, GATE_HELD_MAX);
    buf_init(&gate->plain, GATE_INFLATE);
    buf_init(&gate->text, 4096);
    buf_init(&gate->tail, GATE_TAIL_MAX);
    buf_init(&gate->record_options, RECORD_TEXT_MAX);
    x->gate = gate;
    xchg_enter(x, XCHG_SECTION);
    if (encoding == GIT_ENCODING_UNKNOWN) {
        gitgate_unreadable(x, "push-encoding", "the body's encoding is neither none nor gzip");
        return;
    }
    if (encoding == GIT_ENCODING_GZIP) {
        if (gunzip_init(&gate->gunzip, GIT_SECTION_MAX)) {
            gitgate_unreadable(x, "no-memory", "out of memory");
            return;
        }
        gate->gzip = true;
    }
    if (x->body_done) {
        gitgate_body_end(x);
        return;
    }
    if (x->req.expect_continue) {
        x->proceed_said = true;
        x->client->proceed(x);
    }
    if (x->state == XCHG_SECTION)
        x->client->want_body(x, true);
}
