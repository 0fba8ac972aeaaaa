/* Fuzz harness for base/url: a line of the seed each for a host, an authority, a path and an absolute URL. */
#include <stdlib.h>

#include "base/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth) {
    if (!truth)
        abort();
}

/* What is canonical stays as it is: two judges of the same path come to the same text. */
static void check_path(struct slice raw) {
    struct buf once, twice;
    unsigned flags, again;
    buf_init(&once, 1 << 16);
    buf_init(&twice, 1 << 16);
    if (!url_path_canonical(raw, &once, &flags, NULL)) {
        must(!url_path_canonical(buf_slice(&once), &twice, &again, NULL));
        must(slice_eq(buf_slice(&once), buf_slice(&twice)) && flags == again);
    } else {
        must(buf_len(&once) == 0);
    }
    buf_release(&once);
    buf_release(&twice);
}

static void check_host(struct slice raw) {
    struct url_host h, again;
    uint16_t port;
    if (url_authority_parse(raw, 443, &h, &port, NULL))
        return;
    must(port != 0 && h.n > 0 && h.n <= URL_HOST_MAX && h.text[h.n] == 0);
    must(!url_host_parse(url_host_slice(&h), &again, NULL));
    must(slice_eq(url_host_slice(&h), url_host_slice(&again)) && h.kind == again.kind);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct slice rest = slice_make(data, size), line;
    bool more = true;
    while (more) {
        more = slice_cut(rest, '\n', &line, &rest);
        struct url_parts parts;
        check_path(line);
        check_host(line);
        if (!url_split(line, &parts, NULL)) {
            check_host(parts.authority);
            check_path(parts.path);
            int r = url_query_check(parts.query, NULL);
            (void)r;
        }
    }
    return 0;
}
