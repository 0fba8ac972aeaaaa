/*
 * The answers to fetches and to the discovery of pushes: lists of refs are cut down to what the policy permits, and what is
 * shown is remembered.
 */
#include "proxy/codec/pktline.h"
#include "proxy/flow/fetchgate.h"
#include "proxy/flow/fetchgate_state.h"
#include "proxy/flow/state.h"
#include "proxy/flow/xchg.h"

/* ---- which refs are shown ---- */

/* Of the discovery of a push: a ref is shown if it may be fetched, or if anything may be pushed to it. */
static bool gate_permits_push(void *arg, struct slice name) {
    const struct xchg *x = arg;
    struct facts_ref ref = {.name = name};
    struct facts f = x->facts;
    struct verdict v;
    if (policy_may_push_to(x->box->policy, &f, name))
        return true;
    f.kind = FACTS_GIT_FETCH;
    f.refs = &ref;
    f.nrefs = 1;
    policy_judge_ref(x->box->policy, &f, 0, &v);
    return v.action == VERDICT_ALLOW;
}

/* … and gives no object away. */
static void gate_shown_nothing(void *arg, struct slice what, struct slice ref) {
    (void)arg;
    (void)what;
    (void)ref;
}

static void gate_shown(void *arg, struct slice id, struct slice ref) {
    struct xchg *x = arg;
    struct fetchgate *gate = x->fetch;
    if (gate->limited)
        shown_add(x->box->shown, &gate->repo, ref.n ? SHOWN_OBJECT : SHOWN_BORDER, id);
    shown_name(x->box->shown, &gate->repo, gate->list, id, ref);
}

static void gate_stands(void *arg, struct slice name, struct slice ref) {
    struct xchg *x = arg;
    shown_name(x->box->shown, &x->fetch->repo, x->fetch->list, name, ref);
}

static void gate_border(void *arg, struct slice id) {
    gate_shown(arg, id, SLICE_NONE);
}

/* ---- before it comes ---- */

/* The answer is to come whole and as it is, for it is read here. */
static void gate_plain_answer(struct xchg *x) {
    for (size_t i = 0; i < x->req.nfields; i++) {
        struct http_field *f = &x->req.fields[i];
        if (http_name_alike(f->name, SLICE("Accept-Encoding")))
            f->value = SLICE("identity");
        else if (f->id == HTTP_F_RANGE || f->id == HTTP_F_IF_MATCH)
            f->hop = true;
    }
}

void fetchgate_rewrite(struct xchg *x, enum git_offer_kind kind, enum fetch_phase phase) {
    struct fetchgate *gate = x->fetch;
    struct git_offer_rules rules = {
        .limited = gate->limited,
        .any_object = gate->any_object,
        .bundle_uri = fetchgate_extra(x, FACTS_BUNDLE_URI),
        .packfile_uris = fetchgate_extra(x, FACTS_PACKFILE_URIS),
        .permits = fetchgate_permits,
        .shown = gate_shown,
        .stands = gate_stands,
        .arg = x,
    };
    git_offer_init(&gate->offer, kind, &rules);
    fetchgate_enter(x, phase);
    gate_plain_answer(x);
    gate->list = shown_begin(x->box->shown);
}

void fetchgate_rewrite_push(struct xchg *x) {
    struct git_offer_rules rules = {
        .limited = true,
        .permits = gate_permits_push,
        .shown = gate_shown_nothing,
        .stands = gate_shown_nothing,
        .arg = x,
    };
    git_offer_init(&x->fetch->offer, GIT_OFFER_PUSH, &rules);
    fetchgate_enter(x, FETCH_OFFER);
    gate_plain_answer(x);
}

void fetchgate_read_borders(struct xchg *x) {
    git_borders_init(&x->fetch->borders, x->fetch->asked.command);
    fetchgate_enter(x, FETCH_BORDERS);
    gate_plain_answer(x);
}

/* ---- as it comes ---- */

static bool gate_is_refs(const struct xchg *x) {
    const struct http_field *f = http_find(x->resp.fields, x->resp.nfields, HTTP_F_CONTENT_TYPE, NULL);
    struct slice type = SLICE_NONE, parameters;
    if (f)
        slice_cut(f->value, ';', &type, &parameters);
    return slice_caseeq(slice_trim(type),
                        x->git.kind == GIT_DISCOVER_PUSH ? SLICE(GIT_PUSH_REFS) : SLICE(GIT_FETCH_REFS));
}

const char *fetchgate_head(struct xchg *x) {
    struct fetchgate *gate = x->fetch;
    if (!gate || gate->phase == FETCH_IDLE)
        return NULL;
    if (gate->phase == FETCH_BORDERS) {
        gate->borders.done = x->resp.status != 200 || http_encoded(x->resp.fields, x->resp.nfields);
        return NULL;
    }
    bool only_looks = !gate->limited && x->git.kind == GIT_FETCH &&
                      (x->resp.status != 200 || http_encoded(x->resp.fields, x->resp.nfields));
    if (x->resp.status >= 300 || only_looks) {
        fetchgate_release_reader(gate);
        fetchgate_enter(x, FETCH_IDLE);
        return NULL;
    }
    if (x->resp.status != 200)
        return "the server answers with a part of its refs";
    if (x->git.kind != GIT_FETCH && !gate_is_refs(x))
        return "the server does not speak git's smart protocol here, and the dumb one is not let through";
    if (http_encoded(x->resp.fields, x->resp.nfields))
        return "the server's refs come compressed, which was not asked for";
    for (size_t i = 0; i < x->resp.nfields; i++)
        x->resp.fields[i].hop |= x->resp.fields[i].id == HTTP_F_CONTENT_LENGTH;
    x->resp.framing = HTTP_BODY_CHUNKED;
    return NULL;
}

/* What came so far is whole packets, so that git reads one more, which says why it ends. */
static void gate_broken(struct xchg *x, const char *why) {
    struct buf line;
    buf_init(&line, 4096);
    pkt_printf(&line, "ERR exeat: the server's refs can't be read: %s [%s]", why, x->decision.id.text);
    x->up_keep = false;
    xchg_trouble(x, "git-answer", "the server's refs can't be read: %s", why);
    x->client->data(x, buf_slice(&line));
    x->client->end(x, NULL, 0);
    buf_release(&line);
    if (x->state == XCHG_RELAY)
        xchg_end(x, true);
}

void fetchgate_data(struct xchg *x, struct slice bytes) {
    struct fetchgate *gate = x->fetch;
    if (gate->phase != FETCH_OFFER) {
        if (gate->phase == FETCH_BORDERS)
            git_borders_feed(&gate->borders, bytes, gate_border, x);
        x->client->data(x, bytes);
        return;
    }
    int r = git_offer_feed(&gate->offer, bytes, &gate->out);
    if (buf_len(&gate->out))
        x->client->data(x, buf_slice(&gate->out));
    if (x->state != XCHG_RELAY)
        return;
    buf_clear(&gate->out);
    if (r)
        gate_broken(x, gate->offer.error.text);
}

bool fetchgate_end(struct xchg *x) {
    struct fetchgate *gate = x->fetch;
    if (!gate || gate->phase != FETCH_OFFER || git_offer_end(&gate->offer) == 0)
        return true;
    gate_broken(x, gate->offer.error.text);
    return false;
}
