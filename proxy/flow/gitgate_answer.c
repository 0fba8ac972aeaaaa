/*
 * What became of a push at its server: the report in the answer is read beside its way to the client, which gets every
 * byte as it came, and goes into the outcome's record. It decides nothing.
 */
#include <stdlib.h>

#include "proxy/codec/git_status.h"
#include "proxy/flow/gitgate.h"
#include "proxy/flow/gitgate_state.h"
#include "proxy/flow/xchg.h"

/* A proc-receive hook may make several updates of one command; so many more than commands are recorded. */
#define ANSWER_MORE 64
#define ANSWER_TEXT (RECORD_REFS_BYTES + RECORD_TEXT_MAX)

struct gate_answer {
    struct git_status status;
    struct gitgate *gate;
    uint32_t *order; /* the commands by their refs */
    uint32_t next;   /* the command that most servers speak of next */
    /* one of each command, then more of some; those that nothing was said of are empty */
    struct record_ref *refs;
    size_t nrefs, nmore;
    /* what they point at; one block, which never moves. What doesn't fit is not recorded either */
    struct buf text;
};

void gate_answer_free(struct gate_answer *answer) {
    if (!answer)
        return;
    git_status_release(&answer->status);
    buf_release(&answer->text);
    free(answer->order);
    free(answer->refs);
    free(answer);
}

/* ---- which command? ---- */

static int answer_compare(const void *a, const void *b, void *arg) {
    const struct record_ref *refs = arg;
    return slice_cmp(refs[*(const uint32_t *)a].ref, refs[*(const uint32_t *)b].ref);
}

static bool answer_sort(struct gate_answer *answer) {
    answer->order = calloc(answer->nrefs, sizeof *answer->order);
    if (!answer->order)
        return false;
    for (uint32_t i = 0; i < answer->nrefs; i++)
        answer->order[i] = i;
    qsort_r(answer->order, answer->nrefs, sizeof *answer->order, answer_compare, answer->gate->record_refs);
    return true;
}

/* The command with this ref, or nrefs. */
static size_t answer_find(struct gate_answer *answer, struct slice ref) {
    const struct record_ref *refs = answer->gate->record_refs;
    for (uint32_t i = answer->next ? answer->next - 1 : 0; i < answer->nrefs && i <= answer->next; i++)
        if (slice_eq(refs[i].ref, ref))
            return i;
    if (!answer->order && !answer_sort(answer))
        return answer->nrefs;
    size_t low = 0, high = answer->nrefs;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int c = slice_cmp(refs[answer->order[middle]].ref, ref);
        if (c == 0)
            return answer->order[middle];
        if (c < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return answer->nrefs;
}

/* ---- what was said of it ---- */

static struct slice answer_keep(struct gate_answer *answer, const char *before, struct slice s) {
    size_t at = buf_len(&answer->text);
    if (s.n == 0 || buf_printf(&answer->text, "%s%.*s", before, SLICE_ARG(s)))
        return SLICE_NONE;
    return slice_from(buf_slice(&answer->text), at);
}

static void answer_take(void *arg, const struct git_status_ref *said) {
    struct gate_answer *answer = arg;
    size_t i = answer_find(answer, said->ref);
    if (i == answer->nrefs)
        return; /* nobody asked for it */
    struct record_ref *ref = &answer->refs[i];
    answer->next = (uint32_t)i + 1;
    if (ref->outcome.n) {
        if (answer->nmore == ANSWER_MORE)
            return;
        ref = &answer->refs[answer->nrefs + answer->nmore++];
    }
    ref->ref = answer->gate->record_refs[i].ref;
    ref->to = answer_keep(answer, "", said->to);
    ref->old = answer_keep(answer, "", said->old_id);
    ref->new = answer_keep(answer, "", said->new_id);
    ref->op = said->forced ? SLICE("force") : SLICE_NONE;
    ref->outcome = said->ok ? SLICE("ok") : answer_keep(answer, "refused: ", said->reason);
    if (ref->outcome.n == 0)
        ref->outcome = SLICE("refused");
}

static struct gate_answer *answer_new(struct gitgate *gate) {
    struct gate_answer *answer = calloc(1, sizeof *answer);
    char *room;
    if (!answer)
        return NULL;
    git_status_init(&answer->status, gate->push.caps.side_band_64k, answer_take, answer);
    answer->gate = gate;
    answer->nrefs = gate->nrefs;
    answer->refs = calloc(gate->nrefs + ANSWER_MORE, sizeof *answer->refs);
    buf_init(&answer->text, ANSWER_TEXT);
    if (!answer->refs || buf_reserve(&answer->text, ANSWER_TEXT, &room)) {
        gate_answer_free(answer);
        return NULL;
    }
    return answer;
}

/* Is this a report that can be read? */
static bool answer_fits(const struct xchg *x) {
    const struct http_field *encoding =
        http_find(x->resp.fields, x->resp.nfields, HTTP_F_CONTENT_ENCODING, NULL);
    return x->resp.status == 200 && x->gate->nrefs &&
           (!encoding || git_encoding(encoding->value) == GIT_ENCODING_NONE);
}

void gitgate_answer(struct xchg *x, struct slice bytes) {
    struct gitgate *gate = x->gate;
    if (!gate || !answer_fits(x))
        return;
    if (!gate->answer)
        gate->answer = answer_new(gate);
    if (gate->answer)
        git_status_feed(&gate->answer->status, bytes);
}

void gitgate_outcome(struct xchg *x, struct record *r) {
    struct gitgate *gate = x->gate;
    if (!gate || gate->phase != GATE_PASSED || x->send_phase == SEND_NOTHING || gate->nrefs == 0)
        return;
    if (!gate->answer)
        gate->answer = answer_new(gate);
    struct gate_answer *answer = gate->answer;
    if (!answer)
        return;
    for (size_t i = 0; i < answer->nrefs; i++) {
        if (answer->refs[i].outcome.n == 0) {
            answer->refs[i].ref = gate->record_refs[i].ref;
            answer->refs[i].outcome = SLICE("unknown");
        }
    }
    r->git_service = SLICE("git-receive-pack");
    r->refs = answer->refs;
    r->nrefs = answer->nrefs + answer->nmore;
    r->unpack = buf_slice(&answer->status.text);
}
