#include "proxy/codec/sniff.h"

#define PREFACE SLICE("PRI * HTTP/2")

/* Longest method that http1.h takes, and its space: both fit into SNIFF_MAX. */
#define METHOD_MAX 32

/* A handshake record (22, version 3.x) whose first message is a ClientHello (1). */
static enum sniff sniff_tls(struct slice d) {
    if (d.n > 1 && d.p[1] != 3)
        return SNIFF_OTHER;
    if (d.n > 2 && (unsigned char)d.p[2] > 4)
        return SNIFF_OTHER;
    if (d.n > 4 && d.p[3] == 0 && d.p[4] == 0)
        return SNIFF_OTHER;
    if (d.n < 6)
        return SNIFF_MORE;
    return d.p[5] == 1 ? SNIFF_TLS : SNIFF_OTHER;
}

/* What both have in common so far agrees. */
static bool begins_like(struct slice data, struct slice word) {
    size_t n = data.n < word.n ? data.n : word.n;
    return slice_eq(slice_sub(data, 0, n), slice_sub(word, 0, n));
}

enum sniff sniff_first(struct slice d) {
    if (d.n == 0)
        return SNIFF_MORE;
    if (d.p[0] == 0x16)
        return sniff_tls(d);
    if (begins_like(d, SLICE("SSH-")) && d.n >= 4)
        return SNIFF_SSH;
    if (begins_like(d, PREFACE) && d.n >= PREFACE.n)
        return SNIFF_HTTP2;
    for (size_t i = 0; i < d.n; i++) {
        char c = d.p[i];
        if (c == ' ' && i > 0)
            return begins_like(d, PREFACE) && d.n < PREFACE.n ? SNIFF_MORE : SNIFF_HTTP;
        bool inner = i > 0 && (c == '-' || c == '_' || ascii_digit(c));
        if ((!(c >= 'A' && c <= 'Z') && !inner) || i == METHOD_MAX)
            return SNIFF_OTHER;
    }
    return SNIFF_MORE;
}
