#include "proxy/record/why.h"

#include <assert.h>
#include <stdatomic.h>

#include "base/msg.h"
#include "base/shared.h"

/*
 * Theory of operation. The bytes of all decisions lie one behind the other in a ring, whose `head` counts what was ever
 * written: a piece takes its place by one atomic addition, and is gone when the head is a whole ring further. The index
 * is a ring too, with a line a decision: its id, and where verdict, hint and outcome lie. A line's `turn` is odd
 * while it is written. Who reads copies line and bytes out, then looks whether turn and head say that they were
 * whole meanwhile.
 *
 * Whatever another process wrote is read with care: a worker may have been taken over.
 */
#define WHY_HINT_MAX 2048
#define WHY_REFS     16         /* refs of a push that are remembered */
#define WHY_PIECE    (1u << 15) /* bytes of one record; a longer one is not remembered */

struct piece {
    uint64_t at; /* as the head counted */
    uint32_t n;  /* 0: there is none */
};

struct line {
    _Atomic uint32_t turn;
    char id[ULID_LEN];
    struct piece record, hint, outcome; /* no record: there is no verdict yet */
    struct piece errands[WHY_ERRANDS];
    uint32_t nerrands; /* ever */
};

struct memory {
    _Atomic uint32_t next;
    _Atomic uint64_t head;
    struct line lines[WHY_RECENT];
    char bytes[WHY_BYTES];
};

static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_LLONG_LOCK_FREE == 2, "shared between processes");
static_assert((WHY_RECENT & (WHY_RECENT - 1)) == 0 && (WHY_BYTES & (WHY_BYTES - 1)) == 0,
              "counters may wrap");

struct why {
    struct shared memory; /* first */
    struct memory *shared;
};

static int why_hold(int fd, struct why **out, struct errmsg *msg) {
    struct shared *memory;
    int r = shared_hold(fd, "exeat-why", "last decisions", sizeof(struct memory), sizeof **out, &memory, msg);
    if (r)
        return r;
    *out = (struct why *)memory;
    (*out)->shared = memory->p;
    return 0;
}

int why_new(struct why **out, struct errmsg *msg) {
    return why_hold(SHARED_NEW, out, msg);
}

int why_attach(int fd, struct why **out, struct errmsg *msg) {
    return why_hold(fd, out, msg);
}

int why_fd(const struct why *why) {
    return why->memory.fd;
}

void why_free(struct why *why) {
    shared_free((struct shared *)why);
}

/* --- pieces ------------------------------------------------------------------------------------------- */

static struct piece piece_put(struct memory *s, struct slice text) {
    if (text.n == 0 || text.n > WHY_PIECE)
        return (struct piece){0};
    struct piece piece = {.at = atomic_fetch_add(&s->head, text.n), .n = (uint32_t)text.n};
    size_t at = piece.at & (WHY_BYTES - 1);
    size_t first = text.n < WHY_BYTES - at ? text.n : WHY_BYTES - at;
    memcpy(s->bytes + at, text.p, first);
    memcpy(s->bytes, text.p + first, text.n - first);
    return piece;
}

/* False: written over by now, or never ours. */
static bool piece_get(const struct memory *s, struct piece piece, struct buf *out) {
    buf_clear(out);
    if (piece.n == 0)
        return true;
    if (piece.n > WHY_PIECE)
        return false;
    size_t at = piece.at & (WHY_BYTES - 1);
    size_t first = piece.n < WHY_BYTES - at ? piece.n : WHY_BYTES - at;
    if (buf_put(out, slice_make(s->bytes + at, first)) || buf_put(out, slice_make(s->bytes, piece.n - first)))
        return false;
    atomic_thread_fence(memory_order_acquire);
    return atomic_load(&s->head) - piece.at <= WHY_BYTES;
}

/* Apart, as it takes a large piece of the stack, each page of which is touched (-fstack-clash-protection). */
static __attribute__((noinline)) struct piece piece_of_brief(struct memory *s, const struct record *r) {
    char memory[MSG_MAX];
    struct msg_out m;
    struct record brief = *r;
    if (brief.nrefs > WHY_REFS) {
        brief.refs_omitted += brief.nrefs - WHY_REFS;
        brief.nrefs = WHY_REFS;
    }
    record_encode(&brief, &m, memory, sizeof memory);
    return piece_put(s, m.err ? SLICE_NONE : slice_make(memory, m.n));
}

static struct piece piece_of_record(struct memory *s, const struct record *r, struct slice encoded) {
    return encoded.n && r->nrefs <= WHY_REFS ? piece_put(s, encoded) : piece_of_brief(s, r);
}

/* --- lines -------------------------------------------------------------------------------------------- */

static void line_open(struct line *line) {
    atomic_fetch_or(&line->turn, 1);
    atomic_thread_fence(memory_order_release);
}

static void line_close(struct line *line) {
    atomic_fetch_add_explicit(&line->turn, 1, memory_order_release);
}

static struct line *line_of(struct memory *s, const struct ulid *id) {
    /* the newest are asked for most */
    uint32_t next = atomic_load(&s->next);
    for (uint32_t i = 1; i <= WHY_RECENT; i++) {
        struct line *line = &s->lines[(next - i) & (WHY_RECENT - 1)];
        if (memcmp(line->id, id->text, ULID_LEN) == 0)
            return line;
    }
    return NULL;
}

/* A new line for a decision, which is open. */
static struct line *line_begin(struct memory *s, const struct ulid *id) {
    struct line *line = &s->lines[atomic_fetch_add(&s->next, 1) & (WHY_RECENT - 1)];
    line_open(line);
    memcpy(line->id, id->text, ULID_LEN);
    line->record = line->hint = line->outcome = (struct piece){0};
    line->nerrands = 0;
    return line;
}

void why_verdict(struct why *why, const struct record *r, struct slice encoded, struct slice hint,
                 bool asked) {
    if (!why)
        return;
    struct memory *s = why->shared;
    struct piece record = piece_of_record(s, r, encoded),
                 rule = piece_put(s, slice_sub(hint, 0, WHY_HINT_MAX));
    struct line *line = asked ? line_of(s, &r->id) : NULL;
    if (line)
        line_open(line);
    else
        line = line_begin(s, &r->id);
    line->record = record;
    line->hint = rule;
    line_close(line);
}

void why_errand(struct why *why, const struct record *r, struct slice encoded, bool first) {
    if (!why)
        return;
    struct memory *s = why->shared;
    struct piece errand = piece_of_record(s, r, encoded);
    struct line *line = first ? line_begin(s, &r->id) : line_of(s, &r->id);
    if (!line)
        return;
    if (!first)
        line_open(line);
    if (line->nerrands < WHY_ERRANDS)
        line->errands[line->nerrands] = errand;
    line->nerrands++;
    line_close(line);
}

void why_outcome(struct why *why, const struct record *r, struct slice encoded) {
    struct line *line = why ? line_of(why->shared, &r->id) : NULL;
    if (!line)
        return;
    struct piece outcome = piece_of_record(why->shared, r, encoded);
    line_open(line);
    if (memcmp(line->id, r->id.text, ULID_LEN) == 0)
        line->outcome = outcome;
    line_close(line);
}

static bool read_line(struct memory *s, const struct ulid *id, struct why_entry *out) {
    struct line *line = line_of(s, id);
    if (!line)
        return false;
    uint32_t turn = atomic_load_explicit(&line->turn, memory_order_acquire);
    struct piece record = line->record, hint = line->hint, outcome = line->outcome, errands[WHY_ERRANDS];
    uint32_t nerrands = line->nerrands;
    memcpy(errands, line->errands, sizeof errands);
    bool same = memcmp(line->id, id->text, ULID_LEN) == 0;
    atomic_thread_fence(memory_order_acquire);
    if (!same || turn & 1 || atomic_load(&line->turn) != turn)
        return false;
    out->nerrands = nerrands < WHY_ERRANDS ? nerrands : WHY_ERRANDS;
    out->errands_omitted = nerrands - out->nerrands;
    for (size_t i = 0; i < out->nerrands; i++)
        if (!piece_get(s, errands[i], &out->errands[i]))
            return false;
    return record.n && piece_get(s, record, &out->record) && piece_get(s, hint, &out->hint) &&
           piece_get(s, outcome, &out->outcome);
}

bool why_find(const struct why *why, const struct ulid *id, struct why_entry *out) {
    if (!why)
        return false;
    buf_init(&out->record, WHY_PIECE);
    buf_init(&out->hint, WHY_PIECE);
    buf_init(&out->outcome, WHY_PIECE);
    for (size_t i = 0; i < WHY_ERRANDS; i++)
        buf_init(&out->errands[i], WHY_PIECE);
    /* a line that is being written is whole in a moment */
    for (int tries = 0; tries < 3; tries++)
        if (read_line(why->shared, id, out))
            return true;
    why_entry_release(out);
    return false;
}

void why_entry_release(struct why_entry *e) {
    buf_release(&e->record);
    buf_release(&e->hint);
    buf_release(&e->outcome);
    for (size_t i = 0; i < WHY_ERRANDS; i++)
        buf_release(&e->errands[i]);
}
