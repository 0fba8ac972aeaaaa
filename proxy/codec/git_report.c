/*
 * Refusing a push in git's own words.
 *
 * receive-pack's report says whether the pack was unpacked, then one line for each ref. "unpack ok" is said though
 * nothing was unpacked: with any other word git blames the pack ("remote unpack failed") and then prints the same
 * rejections. Every ref is `ng`, so git prints "! [remote rejected] main -> main (reason)" for each and exits 1.
 */
#include "proxy/codec/git.h"

#define REASON_MAX  512
#define REPORT_MAX  (16u << 20)
#define MESSAGE_MAX 8192

/* One line for `ng`: what could end or colour it becomes a space. */
static struct slice clean(struct slice reason, char text[REASON_MAX]) {
    struct slice cut = slice_sub(reason, 0, REASON_MAX);
    for (size_t i = 0; i < cut.n; i++) {
        unsigned char c = (unsigned char)cut.p[i];
        text[i] = c < 0x20 || c == 0x7f ? ' ' : (char)c;
    }
    return slice_make(text, cut.n);
}

static int put_report(struct buf *report, const struct git_push *push,
                      struct slice (*reason)(size_t i, void *arg), void *arg) {
    int r = pkt_put(report, SLICE("unpack ok\n"));
    for (size_t i = 0; i < push->ncommands && !r; i++) {
        char text[REASON_MAX], line[GIT_REF_MAX + REASON_MAX + 8];
        struct slice ref = git_push_command(push, i).ref, why = clean(reason(i, arg), text);
        size_t n = 0;
        memcpy(line, "ng ", 3);
        memcpy(line + (n = 3), ref.p, ref.n);
        line[n += ref.n] = ' ';
        memcpy(line + ++n, text, why.n);
        line[n += why.n] = '\n';
        r = pkt_put(report, slice_make(line, n + 1));
    }
    return r ? r : pkt_flush(report);
}

/* Without a report git can only be told that the whole thing failed. Its transport prints the text of an ERR packet
 * ("fatal: remote error: ..."). */
static int put_error(struct buf *out, struct slice message) {
    char text[MESSAGE_MAX + 8];
    struct slice cut = slice_sub(message, 0, MESSAGE_MAX);
    memcpy(text, "ERR ", 4);
    if (cut.n)
        memcpy(text + 4, cut.p, cut.n);
    return pkt_put(out, slice_make(text, cut.n + 4));
}

int git_report_refusal(struct buf *out, const struct git_push *push,
                       struct slice (*reason)(size_t i, void *arg), void *arg, struct slice message) {
    const struct git_caps *caps = &push->caps;
    bool report = (caps->report_status || caps->report_status_v2) && push->ncommands && reason;
    struct buf lines;
    size_t before = buf_len(out);
    int r = 0;
    if (!report && !caps->side_band_64k)
        return put_error(out, message);
    buf_init(&lines, REPORT_MAX);
    if (report)
        r = put_report(&lines, push, reason, arg);
    if (!r && caps->side_band_64k) {
        /* band 3 ends it: git prints the message and hangs up, there being no ref to report on */
        r = pkt_band(out, report ? 2 : 3, message);
        if (!r && report)
            r = pkt_band(out, 1, buf_slice(&lines));
        if (!r)
            r = pkt_flush(out);
    } else if (!r) {
        r = buf_put(out, buf_slice(&lines));
    }
    buf_release(&lines);
    if (r)
        out->end = out->start + before;
    return r;
}
