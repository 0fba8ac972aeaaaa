#include "proxy/record/record.h"

/* A date with five digits in its year has no RFC 3339 text. */
#define TIME_MAX     253402300799999ull
#define REF_OVERHEAD 28 /* seven lengths */

static struct slice limited(struct slice s, size_t max) {
    return slice_sub(s, 0, max);
}

static size_t ref_size(const struct record_ref *ref) {
    return REF_OVERHEAD + limited(ref->ref, RECORD_TEXT_MAX).n + limited(ref->old, RECORD_TEXT_MAX).n +
           limited(ref->new, RECORD_TEXT_MAX).n + limited(ref->op, RECORD_TEXT_MAX).n +
           limited(ref->proof, RECORD_TEXT_MAX).n + limited(ref->to, RECORD_TEXT_MAX).n +
           limited(ref->outcome, RECORD_TEXT_MAX).n;
}

static void put_text(struct msg_out *m, struct slice s) {
    msg_put_slice(m, limited(s, RECORD_TEXT_MAX));
}

static void put_refs(struct msg_out *m, const struct record *r) {
    size_t bytes = 0, n = 0;
    while (n < r->nrefs && n < RECORD_REFS_MAX && bytes + ref_size(&r->refs[n]) <= RECORD_REFS_BYTES)
        bytes += ref_size(&r->refs[n++]);
    msg_put_u32(m, (uint32_t)n);
    for (size_t i = 0; i < n; i++) {
        put_text(m, r->refs[i].ref);
        put_text(m, r->refs[i].old);
        put_text(m, r->refs[i].new);
        put_text(m, r->refs[i].op);
        put_text(m, r->refs[i].proof);
        put_text(m, r->refs[i].to);
        put_text(m, r->refs[i].outcome);
    }
    msg_put_u64(m, r->refs_omitted + (r->nrefs - n));
    put_text(m, r->options);
    put_text(m, r->unpack);
}

void record_encode(const struct record *r, struct msg_out *m, void *memory, size_t cap) {
    msg_begin(m, memory, cap, RECORD_MSG);
    msg_put_u8(m, (uint8_t)r->event);
    msg_put_str(m, r->id.text);
    msg_put_u64(m, r->time_ms);
    put_text(m, r->sandbox);
    msg_put_u8(m, r->denied);
    put_text(m, r->reason);
    put_text(m, r->code);
    put_text(m, r->rule);
    put_text(m, r->method);
    msg_put_slice(m, limited(r->url, RECORD_URL_MAX));
    put_text(m, r->git_service);
    put_text(m, r->git_command);
    put_refs(m, r);
    put_text(m, r->credential);
    put_text(m, r->upstream);
    put_text(m, r->protocol);
    put_text(m, r->upstream_protocol);
    msg_put_u32(m, r->has);
    msg_put_u32(m, r->status);
    msg_put_u64(m, r->sent);
    msg_put_u64(m, r->received);
    msg_put_u64(m, r->duration_ms);
    msg_put_u64(m, r->count);
    msg_put_u64(m, r->from_ms);
    msg_put_u64(m, r->to_ms);
    put_text(m, r->sink);
    put_text(m, r->lfs.operation);
    msg_put_u8(m, r->lfs.batch);
    msg_put_u64(m, r->lfs.objects);
    msg_put_u64(m, r->lfs.bytes);
    msg_put_u32(m, r->lfs.fields);
}

static struct slice get_limited(struct msg_in *m, size_t max) {
    struct slice s = msg_get_slice(m);
    if (s.n > max)
        m->err = ERR_PEER;
    return m->err ? SLICE_NONE : s;
}

static struct slice get_text(struct msg_in *m) {
    return get_limited(m, RECORD_TEXT_MAX);
}

static uint64_t get_time(struct msg_in *m) {
    uint64_t t = msg_get_u64(m);
    if (t > TIME_MAX)
        m->err = ERR_PEER;
    return m->err ? 0 : t;
}

static void get_id(struct msg_in *m, struct ulid *id) {
    struct slice s = msg_get_slice(m);
    *id = (struct ulid){{0}};
    if (s.n && !ulid_parse(s, id))
        m->err = ERR_PEER;
}

static void get_refs(struct msg_in *m, struct record *r, struct record_ref *refs) {
    uint32_t n = msg_get_u32(m);
    if (n > RECORD_REFS_MAX) {
        m->err = ERR_PEER;
        return;
    }
    for (uint32_t i = 0; i < n && !m->err; i++) {
        refs[i].ref = get_text(m);
        refs[i].old = get_text(m);
        refs[i].new = get_text(m);
        refs[i].op = get_text(m);
        refs[i].proof = get_text(m);
        refs[i].to = get_text(m);
        refs[i].outcome = get_text(m);
    }
    r->refs = refs;
    r->nrefs = m->err ? 0 : n;
    r->refs_omitted = msg_get_u64(m);
    r->options = get_text(m);
    r->unpack = get_text(m);
}

int record_decode(struct msg_in *m, struct record *r, struct record_ref *refs) {
    const unsigned known = RECORD_HAS_STATUS | RECORD_HAS_SENT | RECORD_HAS_RECEIVED | RECORD_HAS_DURATION;

    *r = (struct record){0};
    if (m->type != RECORD_MSG)
        return ERR_PEER;
    unsigned event = msg_get_u8(m);
    if (event >= RECORD_EVENTS)
        return ERR_PEER;
    r->event = (enum record_event)event;
    get_id(m, &r->id);
    r->time_ms = get_time(m);
    r->sandbox = get_text(m);
    unsigned denied = msg_get_u8(m);
    r->denied = denied != 0;
    r->reason = get_text(m);
    r->code = get_text(m);
    r->rule = get_text(m);
    r->method = get_text(m);
    r->url = get_limited(m, RECORD_URL_MAX);
    r->git_service = get_text(m);
    r->git_command = get_text(m);
    get_refs(m, r, refs);
    r->credential = get_text(m);
    r->upstream = get_text(m);
    r->protocol = get_text(m);
    r->upstream_protocol = get_text(m);
    r->has = msg_get_u32(m);
    r->status = msg_get_u32(m);
    r->sent = msg_get_u64(m);
    r->received = msg_get_u64(m);
    r->duration_ms = msg_get_u64(m);
    r->count = msg_get_u64(m);
    r->from_ms = get_time(m);
    r->to_ms = get_time(m);
    r->sink = get_text(m);
    r->lfs.operation = get_text(m);
    unsigned batch = msg_get_u8(m);
    r->lfs.batch = batch != 0;
    r->lfs.objects = msg_get_u64(m);
    r->lfs.bytes = msg_get_u64(m);
    r->lfs.fields = msg_get_u32(m);
    if (msg_end(m) || denied > 1 || batch > 1 || r->has & ~known || r->status > 999)
        return ERR_PEER;
    return 0;
}
