#include "proxy/codec/watch.h"

/*
 * A delta is two sizes, of its base and of what it makes, in seven bits a byte, then instructions: copies, whose first byte
 * says which bytes of offset and length follow, and literals, whose first byte is their length. Literals that follow one
 * another are a run.
 */
enum delta_state { DELTA_FROM, DELTA_TO, DELTA_NEXT, DELTA_COPY, DELTA_LITERAL };

static int delta_size(struct watch *w, uint8_t c) {
    if (w->delta.shift >= 56)
        return ERR_PARSE;
    w->delta.number |= (uint64_t)(c & 0x7f) << w->delta.shift;
    w->delta.shift += 7;
    if (c & 0x80)
        return 0;
    if (w->delta.state == DELTA_TO)
        w->makes = w->delta.number;
    w->delta.number = 0;
    w->delta.shift = 0;
    w->delta.state++;
    return 0;
}

/* What was added comes to its end: bytes of the base are next. */
static int delta_break(struct watch *w) {
    bool run = w->delta.run;
    w->delta.run = false;
    return run ? watch_end(w) : 0;
}

static int delta_next(struct watch *w, uint8_t c) {
    if (c == 0)
        return ERR_PARSE;
    if (!(c & 0x80)) {
        w->delta.left = c;
        w->delta.state = DELTA_LITERAL;
        return 0;
    }
    w->delta.left = (unsigned)__builtin_popcount(c & 0x7f);
    if (w->delta.left)
        w->delta.state = DELTA_COPY;
    return delta_break(w);
}

/* As many bytes of an instruction as are there. */
static int delta_rest(struct watch *w, struct slice in, size_t *used) {
    struct slice part = slice_sub(in, 0, w->delta.left);
    int r = 0;
    if (w->delta.state == DELTA_LITERAL) {
        w->parts = w->delta.run = true;
        r = watch_feed(w, part);
    }
    *used = part.n;
    w->delta.left -= (unsigned)part.n;
    if (w->delta.left == 0)
        w->delta.state = DELTA_NEXT;
    return r;
}

int watch_delta(struct watch *w, struct slice bytes) {
    int r = w->err;
    if (w->delta.state == DELTA_FROM)
        w->makes = 0;
    while (r == 0 && bytes.n) {
        size_t used = 1;
        switch ((enum delta_state)w->delta.state) {
        case DELTA_FROM:
        case DELTA_TO: r = delta_size(w, (uint8_t)bytes.p[0]); break;
        case DELTA_NEXT: r = delta_next(w, (uint8_t)bytes.p[0]); break;
        case DELTA_COPY:
        case DELTA_LITERAL: r = delta_rest(w, bytes, &used); break;
        }
        bytes = slice_from(bytes, used);
    }
    return r;
}

int watch_delta_end(struct watch *w) {
    int r = w->delta.state == DELTA_NEXT ? delta_break(w) : ERR_PARSE;
    w->parts = false;
    memset(&w->delta, 0, sizeof w->delta);
    return w->err ? w->err : r;
}
