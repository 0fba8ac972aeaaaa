/* Fuzz harness for the scribe's side of the record: a message of a worker that may be anybody's. */
#include <stdlib.h>

#include "proxy/record/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct record_ref refs[RECORD_REFS_MAX], again_refs[RECORD_REFS_MAX];
    static uint8_t memory[MSG_MAX];
    struct msg_in in;
    struct msg_out out;
    struct record r, again;
    struct record_fields fields;
    struct buf text;

    if (msg_parse(&in, data, size) || record_decode(&in, &r, refs))
        return 0;
    buf_init(&text, RECORD_JSON_MAX);
    if (record_json(&r, &text) || slice_find(buf_slice(&text), '\n') != (ptrdiff_t)buf_len(&text) - 1)
        abort();
    buf_clear(&text);
    if (record_line(&r, true, &text))
        abort();
    buf_clear(&text);
    if (record_fields(&r, &text, &fields))
        abort();
    buf_release(&text);
    /* what was accepted can be sent on, and is accepted again */
    record_encode(&r, &out, memory, sizeof memory);
    if (out.err || msg_parse(&in, out.p, out.n) || record_decode(&in, &again, again_refs))
        abort();
    return 0;
}
