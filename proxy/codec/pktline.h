/*
 * git's pkt-line: four lower-case hexadecimal digits that count themselves and what follows; 0000, 0001 and 0002 are
 * the flush, delimiter and response-end packets. Read by length, never by searching.
 *
 * The reader is resumable: it may be fed any cut of the stream. A packet that lies whole in the input is not copied.
 */
#ifndef PROXY_CODEC_PKTLINE_H
#define PROXY_CODEC_PKTLINE_H

#include "base/buf.h"

#define PKT_MAX     65520 /* with its four digits */
#define PKT_PAYLOAD (PKT_MAX - 4)
/* Data in one side-band packet: the payload without the band's number. */
#define PKT_BAND_MAX (PKT_PAYLOAD - 1)

enum pkt_kind { PKT_DATA, PKT_FLUSH, PKT_DELIM, PKT_END };

struct pkt {
    enum pkt_kind kind;
    /* of PKT_DATA; may be empty ("0004"). Good until the next call or the input's end. */
    struct slice payload;
};

struct pkt_reader {
    char digits[4];
    unsigned have;      /* digits read */
    size_t need;        /* payload bytes of the packet begun */
    struct buf partial; /* payload so far, if it came in pieces */
    bool bad;           /* a malformed length was seen: every further call fails */
};

void pkt_reader_init(struct pkt_reader *r);
void pkt_reader_release(struct pkt_reader *r);

/* Reads at most one packet off `in`; *used says how many bytes were taken. 0: *pkt is the next packet.
 * ERR_INCOMPLETE: all of `in` was taken and no packet is complete. ERR_PARSE: a malformed or forbidden length.
 * ERR_NOMEM. */
int pkt_next(struct pkt_reader *r, struct slice in, size_t *used, struct pkt *pkt) MUST_CHECK;

/* A payload that is a line, without the line break that may end it. */
struct slice pkt_line(struct slice payload);
/* Is it one of the words of a list that NULL ends? */
bool pkt_word_in(struct slice word, const char *const *list);

/* Is a packet begun and not complete? (At the end of a stream that means truncation.) */
bool pkt_reader_midway(const struct pkt_reader *r);

/* Writers. A payload over PKT_PAYLOAD is ERR_LIMIT. */
int pkt_put(struct buf *out, struct slice payload);
int pkt_printf(struct buf *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
int pkt_flush(struct buf *out);
/* Data on a side band (1 data, 2 progress, 3 fatal), cut into as many packets as are needed. */
int pkt_band(struct buf *out, int band, struct slice data);

#endif
