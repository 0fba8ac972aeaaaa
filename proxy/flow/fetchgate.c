#include "proxy/flow/fetchgate.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "proxy/codec/gunzip.h"
#include "proxy/codec/pktline.h"
#include "proxy/flow/bodygate.h"
#include "proxy/flow/errand.h"
#include "proxy/flow/fetchgate_state.h"
#include "proxy/flow/refusal.h"
#include "proxy/flow/state.h"
#include "proxy/flow/xchg.h"

#define GATE_OUT_MAX (1u << 20) /* of a rewritten answer, between two pieces of it */
#define GATE_INFLATE 65536
#define GATE_ASK_MS  30000
#define GATE_ASK_MAX (256u << 20) /* bytes of a list of refs, of some millions */

static const char *const fetch_phase_names[] = {"idle", "body", "ask", "offer", "borders"};
_Static_assert(sizeof fetch_phase_names / sizeof *fetch_phase_names == FETCH_PHASES, "a name for each phase");

void fetchgate_enter(struct xchg *x, enum fetch_phase phase) {
    static const uint8_t legal[FETCH_PHASES] = {
        [FETCH_IDLE] = 1 << FETCH_BODY | 1 << FETCH_ASK | 1 << FETCH_OFFER | 1 << FETCH_BORDERS,
        [FETCH_BODY] = 1 << FETCH_IDLE,
        [FETCH_ASK] = 1 << FETCH_IDLE,
        [FETCH_OFFER] = 1 << FETCH_IDLE,
    };
    struct fetchgate *gate = x->fetch;
    assert(legal[gate->phase] & 1 << phase);
    log_debug("xchg %s: fetch: %s -> %s", x->decision.id.text, fetch_phase_names[gate->phase],
              fetch_phase_names[phase]);
    gate->phase = phase;
}

void fetchgate_release_reader(struct fetchgate *gate) {
    if (gate->phase == FETCH_ASK || gate->phase == FETCH_OFFER)
        git_offer_release(&gate->offer);
    if (gate->phase == FETCH_BORDERS)
        git_borders_release(&gate->borders);
}

void fetchgate_free(struct fetchgate *gate) {
    if (!gate)
        return;
    fetchgate_release_reader(gate);
    buf_release(&gate->out);
    fetched_release(&gate->fetched);
    free(gate);
}

void fetchgate_record(const struct xchg *x, struct record *r) {
    if (!x->fetch)
        return;
    r->git_command = x->fetch->fetched.command;
    r->refs = x->fetch->fetched.refs;
    r->nrefs = x->fetch->fetched.nrefs;
    r->refs_omitted = x->fetch->fetched.omitted;
}

/* ---- what the policy says ---- */

static bool same_credential(const struct xchg *x, const struct verdict *v) {
    return v->action == VERDICT_ALLOW && slice_eq(v->credential, x->verdict.credential);
}

bool fetchgate_extra(const struct xchg *x, enum facts_extra extra) {
    struct facts f = x->facts;
    struct verdict v;
    f.extra = extra;
    policy_judge(x->box->policy, &f, &v);
    return same_credential(x, &v);
}

bool fetchgate_permits(void *arg, struct slice name) {
    const struct xchg *x = arg;
    struct facts_ref ref = {.name = name};
    struct facts f = x->facts;
    struct verdict v;
    f.refs = &ref;
    f.nrefs = 1;
    policy_judge_ref(x->box->policy, &f, 0, &v);
    return same_credential(x, &v);
}

/* ---- the request's head ---- */

/* The answer to the discovery of a push. */
static void gate_begin_push(struct xchg *x) {
    struct facts f = x->facts;
    f.kind = FACTS_GIT_FETCH;
    if (!x->head_request && policy_limits_fetch(x->box->policy, &f))
        fetchgate_rewrite_push(x);
    if (!xchg_limited(x))
        xchg_go(x);
}

void fetchgate_begin(struct xchg *x) {
    struct fetchgate *gate = calloc(1, sizeof *gate);
    const struct facts *f = &x->facts;
    if (!gate) {
        refusal_trouble(x, 503, "no-memory", "out of memory");
        return;
    }
    x->fetch = gate;
    buf_init(&gate->out, GATE_OUT_MAX);
    if (x->git.kind == GIT_DISCOVER_PUSH) {
        gate_begin_push(x);
        return;
    }
    gate->limited = policy_limits_fetch(x->box->policy, f);
    gate->any_object = !gate->limited || fetchgate_extra(x, FACTS_ANY_OBJECT);
    shown_repo(x->box->shown, f->scheme, f->host, f->port, facts_repository(f->path), &gate->repo);
    if (x->git.kind == GIT_FETCH) {
        fetchgate_enter(x, FETCH_BODY);
        if (x->body_done) {
            xchg_enter(x, XCHG_SECTION);
            fetchgate_body_end(x);
        } else {
            bodygate_ask(x, FETCHGATE_BODY_MAX);
        }
        return;
    }
    if (!x->head_request)
        fetchgate_rewrite(x, GIT_OFFER_DISCOVERY, FETCH_OFFER);
    if (!xchg_limited(x))
        xchg_go(x);
}

/* ---- the request's body ---- */

bool fetchgate_reads(const struct xchg *x) {
    return x->fetch && x->fetch->phase == FETCH_BODY && x->state == XCHG_SECTION;
}

static void gate_refuse(struct xchg *x, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void gate_refuse(struct xchg *x, const char *code, const char *format, ...) {
    char reason[ERRMSG_MAX + 128];
    va_list ap;
    va_start(ap, format);
    vsnprintf(reason, sizeof reason, format, ap);
    va_end(ap);
    refusal_git_line(x, code, slice_str(reason));
}

/* By the policy, which x->facts have been given something more for. */
static void gate_refuse_by_policy(struct xchg *x) {
    struct buf reason;
    struct slice lent = x->verdict.credential;
    buf_init(&reason, 8192);
    policy_judge(x->box->policy, &x->facts, &x->verdict);
    if (x->verdict.action == VERDICT_ALLOW)
        buf_printf(&reason, "%s:%u permits it with another credential than %s%.*s", x->verdict.rule.file,
                   x->verdict.rule.line, lent.n ? "" : "none", SLICE_ARG(lent));
    else
        refusal_policy_text(x, 8, &reason);
    /* codes of their own: the request as such was permitted, and the log does not tell what it asked for */
    refusal_git_line(x, x->facts.nrefs ? "fetch-ref" : "fetch-extra", buf_slice(&reason));
    buf_release(&reason);
}

static void gate_refuse_extra(struct xchg *x, enum facts_extra extra) {
    x->facts.extra = extra;
    gate_refuse_by_policy(x);
}

/* One thing that the fetch names. 0; ERR_DENIED: x->facts.refs says which ref; ERR_NOTFOUND: an object. */
static int gate_item(void *arg, enum git_asked_item item, struct slice value) {
    struct xchg *x = arg;
    struct fetchgate *gate = x->fetch;
    const struct shown *shown = x->box->shown;
    bool object = item == GIT_ASKED_WANT || item == GIT_ASKED_SIZE_OF;
    if (item == GIT_ASKED_WANT_REF || item == GIT_ASKED_EXCLUDE) {
        if (git_ref_valid(value, true) && fetchgate_permits(x, value))
            return 0;
        gate->ref = (struct facts_ref){.name = value};
        return ERR_DENIED;
    }
    if (gate->any_object || (item == GIT_ASKED_SHALLOW && !gate->asked.deepens_freely) ||
        shown_has(shown, &gate->repo, SHOWN_OBJECT, value) ||
        (!object && shown_has(shown, &gate->repo, SHOWN_BORDER, value)))
        return 0;
    snprintf(gate->object, sizeof gate->object, "%.12s", value.p);
    return ERR_NOTFOUND;
}

static void gate_refuse_item(struct xchg *x, int err) {
    struct fetchgate *gate = x->fetch;
    if (err == ERR_NOTFOUND) {
        bool failed = gate->trouble.text[0];
        x->facts.extra = FACTS_ANY_OBJECT;
        policy_judge(x->box->policy, &x->facts, &x->verdict);
        gate_refuse(x, "object-not-shown", "no ref that may be fetched leads to object %s%s%s", gate->object,
                    failed ? "; the server could not be asked: " : "", gate->trouble.text);
    } else if (err != ERR_DENIED) {
        gate_refuse(x, "fetch-malformed", "this fetch can't be read: %s", gate->asked.error.text);
    } else if (!git_ref_valid(gate->ref.name, true)) {
        gate_refuse(x, "fetch-ref", "a ref has to be named in full, as refs/heads/NAME");
    } else {
        x->facts.refs = &gate->ref;
        x->facts.nrefs = 1;
        gate_refuse_by_policy(x);
    }
}

/* What a limited fetch may not do, whatever it names. True: it was refused. */
static bool gate_oversteps(struct xchg *x) {
    struct fetchgate *gate = x->fetch;
    if (gate->asked.server_options) {
        gate_refuse(x, "fetch-option", "options for the server may mean other refs than are permitted");
        return true;
    }
    if (gate->asked.filter && !gate->any_object) {
        x->facts.extra = FACTS_ANY_OBJECT;
        policy_judge(x->box->policy, &x->facts, &x->verdict);
        gate_refuse(x, "fetch-filter",
                    "what a filter leaves out is asked for later by ids that no ref was shown to have");
        return true;
    }
    return false;
}

/* The body is permitted: `clean` (if not NULL) goes up in its place. */
static void gate_pass(struct xchg *x, struct buf *clean) {
    struct fetchgate *gate = x->fetch;
    if (xchg_limited(x))
        return;
    if (clean) {
        bodygate_release(x);
        x->held = *clean;
        buf_init(clean, 0);
        for (size_t i = 0; i < x->req.nfields; i++)
            x->req.fields[i].hop |= x->req.fields[i].id == HTTP_F_CONTENT_ENCODING;
    }
    x->req.framing = HTTP_BODY_LENGTH;
    x->req.length = buf_len(&x->held);
    if (gate->asked.command == GIT_ASKED_LS_REFS)
        fetchgate_rewrite(x, GIT_OFFER_LS_REFS, FETCH_OFFER);
    else if (gate->limited && gate->asked.deepens)
        fetchgate_read_borders(x);
    xchg_go(x);
}

/* ---- asking the server for its refs ---- */

static void gate_judge_body(struct xchg *x);

static void gate_ask_head(void *arg, const struct http1_response *resp) {
    struct xchg *x = arg;
    if (resp->status != 200)
        errmsg_set(&x->fetch->trouble, ERR_IO, "it answers with status %d", resp->status);
}

static void gate_ask_data(void *arg, struct slice bytes) {
    struct xchg *x = arg;
    struct fetchgate *gate = x->fetch;
    if (gate->trouble.text[0] == 0 && git_offer_feed(&gate->offer, bytes, &gate->out))
        gate->trouble = gate->offer.error;
    buf_clear(&gate->out);
}

static void gate_ask_over(void *arg, const struct errand_answer *answer) {
    struct xchg *x = arg;
    struct fetchgate *gate = x->fetch;
    if (answer->err)
        errmsg_set(&gate->trouble, answer->err, "%s", answer->why);
    else if (gate->trouble.text[0] == 0 && git_offer_end(&gate->offer))
        gate->trouble = gate->offer.error;
    fetchgate_release_reader(gate);
    fetchgate_enter(x, FETCH_IDLE);
    gate_judge_body(x);
}

/* git asks for an object by its id without a look at the refs, if it was told not to look for tags. False: the server
 * can't be asked. */
static bool gate_ask(struct xchg *x, size_t digits) {
    static const struct errand_events events = {
        .head = gate_ask_head, .data = gate_ask_data, .over = gate_ask_over};
    static const struct http_field fields[] = {
        {.name = {"Content-Type", 12}, .value = {GIT_FETCH_REQUEST, sizeof GIT_FETCH_REQUEST - 1}},
        {.name = {"Accept", 6}, .value = {GIT_FETCH_RESULT, sizeof GIT_FETCH_RESULT - 1}},
        {.name = {"Git-Protocol", 12}, .value = {GIT_FETCH_PROTOCOL, sizeof GIT_FETCH_PROTOCOL - 1}},
    };
    struct buf body, target;
    buf_init(&body, 1024);
    buf_init(&target, HTTP1_TARGET_MAX);
    git_command_begin(&body, "ls-refs", (int)digits);
    pkt_put(&body, SLICE("peel\n"));
    pkt_put(&body, SLICE("symrefs\n"));
    pkt_flush(&body);
    buf_put(&target, x->git.repository);
    buf_puts(&target, "/git-upload-pack");
    struct errand_ask ask = {
        .method = SLICE("POST"),
        .target = buf_slice(&target),
        .fields = fields,
        .nfields = sizeof fields / sizeof *fields,
        .body = buf_slice(&body),
        .purpose = "to see which refs there are",
        .ms = GATE_ASK_MS,
        .answer_max = GATE_ASK_MAX,
    };
    x->fetch->refreshed = true;
    bool begun = !body.failed && !target.failed && errand_start(x, &ask, &events, x);
    buf_release(&body);
    buf_release(&target);
    if (begun)
        fetchgate_rewrite(x, GIT_OFFER_LS_REFS, FETCH_ASK);
    else if (x->errand_why)
        errmsg_set(&x->fetch->trouble, ERR_LIMIT, "%s", x->errand_why);
    return begun;
}

/* Judges the decoded body. */
static void gate_judge(struct xchg *x, struct slice body) {
    struct fetchgate *gate = x->fetch;
    struct git_asked *f = &gate->asked;
    struct buf clean;
    buf_init(&clean, body.n);
    int r = git_asked_read(f, body, gate->limited, NULL, NULL, gate->limited ? &clean : NULL);
    if (r == 0)
        fetched_read(&gate->fetched, body, x->box->shown, &gate->repo, x->box->engine->watched);
    if (r == 0 && f->command == GIT_ASKED_BUNDLE_URI && !fetchgate_extra(x, FACTS_BUNDLE_URI))
        gate_refuse_extra(x, FACTS_BUNDLE_URI);
    else if (r == 0 && f->packfile_uris && !fetchgate_extra(x, FACTS_PACKFILE_URIS))
        gate_refuse_extra(x, FACTS_PACKFILE_URIS);
    else if (r == 0 && !gate->limited)
        gate_pass(x, NULL);
    else if (r == 0 && gate_oversteps(x))
        r = 0;
    else {
        struct git_asked again;
        if (r == 0)
            r = git_asked_read(&again, body, true, gate_item, x, NULL);
        if (r == 0)
            gate_pass(x, &clean);
        else if (r != ERR_NOTFOUND || gate->refreshed || !gate_ask(x, f->digits))
            gate_refuse_item(x, r);
    }
    buf_release(&clean);
}

/* The body undone from gzip. 0, or why not. */
static const char *gate_inflate(struct slice in, size_t most, struct buf *out) {
    struct gunzip g;
    int r = gunzip_init(&g, most);
    while (r == 0 && in.n) {
        size_t used;
        r = gunzip_feed(&g, in, &used, out, GATE_INFLATE);
        in = slice_from(in, used);
    }
    gunzip_release(&g);
    return r == ERR_EOF && in.n == 0 ? NULL : r == ERR_LIMIT ? "it is too long" : "its body is not gzip";
}

/* Judges x->held, which is whole. */
static void gate_judge_body(struct xchg *x) {
    const struct http_field *f = http_find(x->req.fields, x->req.nfields, HTTP_F_CONTENT_ENCODING, NULL);
    enum git_encoding encoding = git_encoding(f ? f->value : SLICE_NONE);
    size_t most = x->fetch->limited ? FETCHGATE_NAMES_MAX : FETCHGATE_BODY_MAX;
    struct buf plain;
    buf_init(&plain, most + GATE_INFLATE);
    const char *why = NULL;
    if (encoding == GIT_ENCODING_GZIP)
        why = gate_inflate(buf_slice(&x->held), most, &plain);
    else if (encoding != GIT_ENCODING_NONE)
        why = "its encoding is neither none nor gzip";
    else if (buf_len(&x->held) > most)
        why = "it is too long";
    if (why)
        gate_refuse(x, "fetch-malformed", "this fetch can't be read: %s", why);
    else
        gate_judge(x, encoding == GIT_ENCODING_GZIP ? buf_slice(&plain) : buf_slice(&x->held));
    buf_release(&plain);
}

void fetchgate_body_end(struct xchg *x) {
    fetchgate_enter(x, FETCH_IDLE);
    x->client->want_body(x, false);
    gate_judge_body(x);
}

void fetchgate_feed(struct xchg *x, struct slice bytes) {
    if (!bodygate_keep(x, bytes) || buf_len(&x->held) <= FETCHGATE_BODY_MAX)
        return;
    fetchgate_enter(x, FETCH_IDLE);
    x->client->want_body(x, false);
    gate_refuse(x, "fetch-malformed", "this fetch can't be read: it is too long");
}
