#include "proxy/codec/pktline.h"

#include <stdarg.h>
#include <stdio.h>

void pkt_reader_init(struct pkt_reader *r) {
    *r = (struct pkt_reader){0};
    buf_init(&r->partial, PKT_PAYLOAD);
}

void pkt_reader_release(struct pkt_reader *r) {
    buf_release(&r->partial);
}

bool pkt_reader_midway(const struct pkt_reader *r) {
    return r->have > 0;
}

/* Value of the four digits, or -1. git writes them in lower case, always. */
static int pkt_length(const char digits[4]) {
    int n = 0;
    for (int i = 0; i < 4; i++) {
        int v = ascii_hex(digits[i]);
        if (v < 0 || (digits[i] >= 'A' && digits[i] <= 'F'))
            return -1;
        n = n << 4 | v;
    }
    return n;
}

/* The digits are complete: a packet without payload, or how much follows. */
static int pkt_begin(struct pkt_reader *r, struct pkt *pkt, bool *complete) {
    int length = pkt_length(r->digits);
    *complete = length >= 0 && length <= 4;
    if (length < 0 || length == 3 || length > PKT_MAX) {
        r->bad = true;
        return ERR_PARSE;
    }
    *pkt = (struct pkt){.kind = PKT_DATA};
    if (length < 4) {
        static const enum pkt_kind kinds[] = {PKT_FLUSH, PKT_DELIM, PKT_END};
        pkt->kind = kinds[length];
    } else {
        r->need = (size_t)length - 4;
    }
    buf_clear(&r->partial);
    return 0;
}

int pkt_next(struct pkt_reader *r, struct slice in, size_t *used, struct pkt *pkt) {
    *used = 0;
    if (r->bad)
        return ERR_PARSE;
    while (r->have < 4) {
        if (*used == in.n)
            return ERR_INCOMPLETE;
        r->digits[r->have++] = in.p[(*used)++];
        if (r->have < 4)
            continue;
        bool complete;
        int err = pkt_begin(r, pkt, &complete);
        if (err)
            return err;
        if (complete) {
            r->have = 0;
            return 0;
        }
    }
    size_t got = buf_len(&r->partial);
    struct slice part = slice_sub(in, *used, r->need - got);
    *used += part.n;
    if (part.n < r->need || got) {
        int err = buf_put(&r->partial, part);
        if (err)
            return err;
        if (got + part.n < r->need)
            return ERR_INCOMPLETE;
        part = buf_slice(&r->partial);
    }
    *pkt = (struct pkt){.kind = PKT_DATA, .payload = part};
    r->have = 0;
    return 0;
}

/* Header, an optional band and the payload, all or nothing. */
static int pkt_write(struct buf *out, int band, struct slice payload) {
    size_t n = payload.n + (band ? 5 : 4);
    if (n > PKT_MAX)
        return ERR_LIMIT;
    char *room;
    int r = buf_reserve(out, n, &room);
    if (r)
        return r;
    char digits[8];
    snprintf(digits, sizeof(digits), "%04x", (unsigned)n);
    memcpy(room, digits, 4);
    if (band)
        room[4] = (char)band;
    if (payload.n)
        memcpy(room + n - payload.n, payload.p, payload.n);
    buf_commit(out, n);
    return 0;
}

int pkt_put(struct buf *out, struct slice payload) {
    return pkt_write(out, 0, payload);
}

int pkt_printf(struct buf *out, const char *format, ...) {
    char text[2048];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof(text))
        return ERR_LIMIT;
    return pkt_put(out, slice_make(text, (size_t)n));
}

int pkt_flush(struct buf *out) {
    return buf_put(out, SLICE("0000"));
}

int pkt_band(struct buf *out, int band, struct slice data) {
    while (data.n) {
        struct slice part = slice_sub(data, 0, PKT_BAND_MAX);
        int r = pkt_write(out, band, part);
        if (r)
            return r;
        data = slice_from(data, part.n);
    }
    return 0;
}

struct slice pkt_line(struct slice payload) {
    if (payload.n && payload.p[payload.n - 1] == '\n')
        payload.n--;
    return payload;
}

bool pkt_word_in(struct slice word, const char *const *list) {
    for (; *list; list++)
        if (slice_eq(word, slice_str(*list)))
            return true;
    return false;
}
