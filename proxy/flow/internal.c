#include "proxy/flow/internal.h"

#include <stdlib.h>

#include "base/json.h"
#include "base/msg.h"
#include "proxy/flow/refusal.h"
#include "proxy/flow/state.h"
#include "proxy/record/why.h"
#include "proxy/flow/xchg.h"

#define INTERNAL_PAGE_MAX (4u << 20)

#define TYPE_TEXT SLICE("text/plain; charset=utf-8")
#define TYPE_JSON SLICE("application/json")
#define TYPE_PEM  SLICE("application/x-pem-file")

static void internal_answer(struct xchg *x, int status, struct slice type, struct slice body) {
    struct http_field field = {.name = SLICE("Cache-Control"), .value = SLICE("no-store")};
    x->status = (unsigned)status;
    int r = x->client->own(x, status, type, body, &field, 1);
    xchg_end(x, r == 0);
}

/* One remembered record, as a line for people or as an object. */
static void put_record(const struct buf *bytes, bool text, struct buf *out) {
    struct record_ref *refs = calloc(RECORD_REFS_MAX, sizeof *refs);
    struct msg_in m;
    struct record r;
    if (!refs || msg_parse(&m, bytes->data + bytes->start, buf_len(bytes)) || record_decode(&m, &r, refs)) {
        if (!text)
            buf_puts(out, "null");
    } else if (text) {
        record_line(&r, RECORD_PLAIN, out);
    } else {
        record_json(&r, out);
    }
    free(refs);
}

/* What the server made of the refs of a push. */
static void put_refs_text(const struct record *r, struct buf *out) {
    for (size_t i = 0; i < r->nrefs; i++) {
        buf_puts(out, "             ");
        record_put_safe(out, r->refs[i].ref);
        if (r->refs[i].to.n) {
            buf_puts(out, " as ");
            record_put_safe(out, r->refs[i].to);
        }
        buf_puts(out, ": ");
        record_put_safe(out, r->refs[i].outcome);
        buf_putc(out, '\n');
    }
    if (r->refs_omitted)
        buf_printf(out, "             and %llu more refs\n", (unsigned long long)r->refs_omitted);
}

static void put_outcome_text(const struct buf *bytes, struct buf *out) {
    struct record_ref *refs = calloc(RECORD_REFS_MAX, sizeof *refs);
    struct msg_in m;
    struct record r;
    if (refs && msg_parse(&m, bytes->data + bytes->start, buf_len(bytes)) == 0 &&
        record_decode(&m, &r, refs) == 0) {
        buf_printf(out, "  outcome:   ");
        if (r.has & RECORD_HAS_STATUS)
            buf_printf(out, "status %u, ", r.status);
        buf_printf(out, "%llu bytes sent, %llu received, %llu ms\n", (unsigned long long)r.sent,
                   (unsigned long long)r.received, (unsigned long long)r.duration_ms);
        put_refs_text(&r, out);
        if (r.reason.n)
            buf_printf(out, "  trouble:   %.*s\n", SLICE_ARG(r.reason));
    }
    free(refs);
}

static void put_errands(const struct why_entry *e, bool text, struct buf *out) {
    for (size_t i = 0; i < e->nerrands; i++) {
        buf_puts(out, text ? "  " : i ? "," : "");
        put_record(&e->errands[i], text, out);
    }
    if (text && e->errands_omitted)
        buf_printf(out, "  exeat: and asked %zu times more\n", e->errands_omitted);
}

static void put_why(const struct why_entry *e, bool text, struct buf *out) {
    if (text) {
        put_record(&e->record, true, out);
        put_errands(e, true, out);
        if (buf_len(&e->hint))
            buf_printf(out, "  to permit: %.*s\n", SLICE_ARG(buf_slice(&e->hint)));
        if (buf_len(&e->outcome))
            put_outcome_text(&e->outcome, out);
        return;
    }
    struct json j;
    buf_puts(out, "{\"verdict\":");
    put_record(&e->record, false, out);
    buf_puts(out, ",\"outcome\":");
    if (buf_len(&e->outcome))
        put_record(&e->outcome, false, out);
    else
        buf_puts(out, "null");
    buf_puts(out, ",\"errands\":[");
    put_errands(e, false, out);
    buf_printf(out, "],\"errands_omitted\":%zu", e->errands_omitted);
    buf_puts(out, ",\"permit\":");
    json_init(&j, out);
    if (buf_len(&e->hint))
        json_put_string(&j, buf_slice(&e->hint));
    else
        json_put_null(&j);
    buf_puts(out, "}\n");
}

static void serve_why(struct xchg *x, struct slice id_text, struct buf *page) {
    struct ulid id;
    struct why_entry e;
    bool text = refusal_wants_text(x);
    if (!ulid_parse(id_text, &id) || !why_find(x->box->why, &id, &e)) {
        internal_answer(x, 404, TYPE_TEXT,
                        SLICE("exeat: no such decision among the last ones of this sandbox\n"));
        return;
    }
    put_why(&e, text, page);
    why_entry_release(&e);
    internal_answer(x, 200, text ? TYPE_TEXT : TYPE_JSON, buf_slice(page));
}

void internal_serve(struct xchg *x) {
    struct slice path = x->target.path, why = SLICE("/why/");
    struct buf page;
    x->internal = true;
    buf_init(&page, INTERNAL_PAGE_MAX);
    if (!slice_eq(x->req.method, SLICE("GET")) && !x->head_request) {
        internal_answer(x, 405, TYPE_TEXT, SLICE("exeat: only GET is answered here\n"));
    } else if (slice_starts(path, why)) {
        serve_why(x, slice_from(path, why.n), &page);
    } else if (slice_eq(path, SLICE("/policy"))) {
        bool text = refusal_wants_text(x);
        policy_describe(x->box->policy, text ? POLICY_TEXT : POLICY_JSON, &page);
        internal_answer(x, 200, text ? TYPE_TEXT : TYPE_JSON, buf_slice(&page));
    } else if (slice_eq(path, SLICE("/ca.pem"))) {
        internal_answer(x, 200, TYPE_PEM, x->box->engine->config.ca_pem);
    } else {
        internal_answer(x, slice_eq(path, SLICE("/")) ? 200 : 404, TYPE_TEXT,
                        SLICE("exeat.internal: /why/ID  /policy  /ca.pem\n"));
    }
    buf_release(&page);
}
