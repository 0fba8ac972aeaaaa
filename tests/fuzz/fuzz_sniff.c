/* Fuzz harness for the first bytes of a connection: once told, more bytes don't change it; SNIFF_MAX bytes tell. */
#include <stdlib.h>

#include "proxy/codec/sniff.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct slice in = slice_make(data, size);
    enum sniff told = SNIFF_MORE;
    for (size_t n = 0; n <= size; n++) {
        enum sniff kind = sniff_first(slice_sub(in, 0, n));
        if ((told != SNIFF_MORE && kind != told) || (n >= SNIFF_MAX && kind == SNIFF_MORE))
            abort();
        told = kind;
    }
    return 0;
}
