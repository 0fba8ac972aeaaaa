/* Fuzz harness for pkt-lines: any cut of the input gives the same packets; written again they are the same bytes. */
#include <stdlib.h>

#include "proxy/codec/pktline.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth) {
    if (!truth)
        abort();
}

static int run(struct slice in, size_t piece, struct buf *out) {
    static const char *const special[] = {"", "0000", "0001", "0002"};
    struct pkt_reader r;
    size_t at = 0;
    int err = ERR_INCOMPLETE;
    pkt_reader_init(&r);
    while (at < in.n) {
        struct pkt pkt;
        size_t used;
        err = pkt_next(&r, slice_sub(in, at, piece), &used, &pkt);
        at += used;
        if (err == ERR_INCOMPLETE)
            continue;
        if (err)
            break;
        must(!(pkt.kind == PKT_DATA ? pkt_put(out, pkt.payload) : buf_puts(out, special[pkt.kind])));
        must(slice_eq(buf_slice(out), slice_sub(in, 0, at)));
    }
    pkt_reader_release(&r);
    return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct slice in = slice_make(data, size);
    struct buf whole, bytes;
    buf_init(&whole, SIZE_MAX / 2);
    buf_init(&bytes, SIZE_MAX / 2);
    must(run(in, size ? size : 1, &whole) == run(in, 1, &bytes));
    must(slice_eq(buf_slice(&whole), buf_slice(&bytes)));
    buf_release(&whole);
    buf_release(&bytes);
    return 0;
}
