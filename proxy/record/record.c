#include "proxy/record/record.h"

#include <stddef.h>

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
}

/* Of the texts and numbers below a record has few: those are sent, and a bit for each says which. */
#define OF(field) offsetof(struct record, field)
static const struct {
    size_t at, max;
} texts[] = {
    {OF(sandbox), RECORD_TEXT_MAX},     {OF(reason), RECORD_TEXT_MAX},
    {OF(code), RECORD_TEXT_MAX},        {OF(rule), RECORD_TEXT_MAX},
    {OF(method), RECORD_TEXT_MAX},      {OF(url), RECORD_URL_MAX},
    {OF(git_service), RECORD_TEXT_MAX}, {OF(git_command), RECORD_TEXT_MAX},
    {OF(options), RECORD_TEXT_MAX},     {OF(unpack), RECORD_TEXT_MAX},
    {OF(credential), RECORD_TEXT_MAX},  {OF(upstream), RECORD_TEXT_MAX},
    {OF(protocol), RECORD_TEXT_MAX},    {OF(upstream_protocol), RECORD_TEXT_MAX},
    {OF(sink), RECORD_TEXT_MAX},        {OF(lfs.operation), RECORD_TEXT_MAX},
};
static const size_t numbers[] = {
    OF(time_ms), OF(sent),  OF(received),    OF(duration_ms), OF(count),
    OF(from_ms), OF(to_ms), OF(lfs.objects), OF(lfs.bytes),
};
#define TEXTS    (sizeof texts / sizeof texts[0])
#define NUMBERS  (sizeof numbers / sizeof numbers[0])
#define HAS_REFS (1u << (TEXTS + NUMBERS))
_Static_assert(TEXTS + NUMBERS < 31, "a bit for each");

static struct slice *text_at(const struct record *r, size_t i) {
    return (struct slice *)((uintptr_t)r + texts[i].at);
}

static uint64_t *number_at(const struct record *r, size_t i) {
    return (uint64_t *)((uintptr_t)r + numbers[i]);
}

static uint32_t what_it_has(const struct record *r) {
    uint32_t has = r->nrefs || r->refs_omitted ? HAS_REFS : 0;
    for (size_t i = 0; i < TEXTS; i++)
        has |= (uint32_t)(text_at(r, i)->n > 0) << i;
    for (size_t i = 0; i < NUMBERS; i++)
        has |= (uint32_t)(*number_at(r, i) > 0) << (TEXTS + i);
    return has;
}

void record_encode(const struct record *r, struct msg_out *m, void *memory, size_t cap) {
    uint32_t has = what_it_has(r);
    msg_begin(m, memory, cap, RECORD_MSG);
    msg_put_u8(m, (uint8_t)r->event);
    msg_put_u8(m, r->denied);
    msg_put_u8(m, r->lfs.batch);
    msg_put_u32(m, r->lfs.fields);
    msg_put_u32(m, r->has);
    msg_put_u32(m, r->status);
    msg_put_str(m, r->id.text);
    msg_put_u32(m, has);
    for (uint32_t rest = has & ~HAS_REFS; rest; rest &= rest - 1) {
        size_t i = (size_t)__builtin_ctz(rest);
        if (i < TEXTS)
            msg_put_slice(m, limited(*text_at(r, i), texts[i].max));
        else
            msg_put_u64(m, *number_at(r, i - TEXTS));
    }
    if (has & HAS_REFS)
        put_refs(m, r);
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
}

int record_decode(struct msg_in *m, struct record *r, struct record_ref *refs) {
    const unsigned known = RECORD_HAS_STATUS | RECORD_HAS_SENT | RECORD_HAS_RECEIVED | RECORD_HAS_DURATION;

    *r = (struct record){0};
    if (m->type != RECORD_MSG)
        return ERR_PEER;
    unsigned event = msg_get_u8(m), denied = msg_get_u8(m), batch = msg_get_u8(m);
    if (event >= RECORD_EVENTS || denied > 1 || batch > 1)
        return ERR_PEER;
    r->event = (enum record_event)event;
    r->denied = denied;
    r->lfs.batch = batch;
    r->lfs.fields = msg_get_u32(m);
    r->has = msg_get_u32(m);
    r->status = msg_get_u32(m);
    get_id(m, &r->id);
    uint32_t has = msg_get_u32(m);
    if (has >= HAS_REFS << 1)
        return ERR_PEER;
    for (uint32_t rest = has & ~HAS_REFS; rest; rest &= rest - 1) {
        size_t i = (size_t)__builtin_ctz(rest);
        if (i < TEXTS)
            *text_at(r, i) = get_limited(m, texts[i].max);
        else
            *number_at(r, i - TEXTS) = msg_get_u64(m);
    }
    if (has & HAS_REFS)
        get_refs(m, r, refs);
    if (msg_end(m) || r->has & ~known || r->status > 999 || r->time_ms > TIME_MAX || r->from_ms > TIME_MAX ||
        r->to_ms > TIME_MAX)
        return ERR_PEER;
    return 0;
}
