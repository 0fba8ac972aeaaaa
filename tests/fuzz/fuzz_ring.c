/* Fuzz harness for the scribe's end of the ring of records: what lies in it, and how far it is said to reach, is a worker's word, who
 * may be anybody; both may change between two messages. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "proxy/record/ring.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Eight bytes of where the writer says he is, two of how many follow, and those, over and over, into the ring from its start. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static uint8_t memory[MSG_MAX];
    struct stat st;
    struct ring *r;
    if (ring_new(&r, NULL) || fstat(ring_fd(r), &st))
        abort();
    uint8_t *raw = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, ring_fd(r), 0);
    if (raw == MAP_FAILED)
        abort();
    uint8_t *bytes = raw + st.st_size - RING_BYTES;
    uint64_t head = 0;
    size_t at = 0;
    while (size >= 10) {
        uint64_t step;
        uint16_t n;
        memcpy(&step, data, sizeof step);
        memcpy(&n, data + sizeof step, sizeof n);
        data += 10;
        size -= 10;
        size_t some = n < size ? n : size;
        for (size_t i = 0; i < some; i++)
            bytes[at++ % RING_BYTES] = data[i];
        data += some;
        size -= some;
        head += step & 1 ? step : some; /* a lie, or as far as was written */
        memcpy(raw, &head, sizeof head);
        struct slice got;
        int err;
        unsigned taken = 0;
        while ((err = ring_take(r, memory, sizeof memory, &got)) == 0) {
            if (got.n > sizeof memory || (const void *)got.p != memory || ++taken > RING_BYTES)
                abort();
        }
        if (taken % 2)
            ring_done(r);
        if (err == ERR_AGAIN)
            (void)ring_rest(r);
        else if (err == ERR_PEER)
            break; /* the scribe closes it */
        else
            abort();
    }
    munmap(raw, (size_t)st.st_size);
    ring_free(r);
    return 0;
}
