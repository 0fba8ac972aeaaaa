/* GraphQL documents. What is read has an operation and a field, and blanks and comments around it change nothing. */
#include "policy/condition.h"

#include <stdio.h>
#include <stdlib.h>

static void must(bool good, const char *what) {
    if (!good) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t operations, fields, operations2, fields2;
    struct slice text = slice_make(data, size);
    if (!graphql_scan(text, &operations, &fields))
        return 0;
    must(operations > 0, "no operation");
    struct buf more;
    buf_init(&more, size + 64);
    buf_puts(&more, "\t# a comment {\n,");
    buf_put(&more, text);
    buf_puts(&more, "\n#}");
    must(graphql_scan(buf_slice(&more), &operations2, &fields2), "comments make it unreadable");
    must(operations == operations2 && fields == fields2, "comments change it");
    buf_clear(&more);
    buf_put(&more, text);
    buf_puts(&more, "\nfragment FuzzedFragment on T { zz }");
    bool read = graphql_scan(buf_slice(&more), &operations2, &fields2);
    must(!read || (operations == operations2 && fields + 1 == fields2), "a fragment more");
    buf_release(&more);
    return 0;
}
