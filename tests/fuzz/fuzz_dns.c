/* A sandbox's DNS queries, over UDP and TCP. */
#include <stdlib.h>

#include "netns/dns.h"
#include "netns/names.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(struct slice packet, struct names *names, bool ipv6) {
    uint8_t out[DNS_ANSWER_MAX];
    struct dns_result result;
    size_t n;
    if (dns_answer(packet, names, ipv6, out, &n, &result))
        return;
    /* at least a header, never more than fits into a datagram of old */
    if (n < 12 || n > 512 || memcmp(out, packet.p, 2) || !(out[2] & 0x80))
        abort();
    if (result.query.n > NAMES_LEN_MAX || (result.answered && result.rcode != DNS_NOERROR))
        abort();
    /* an answer is no query: two of us would not talk for ever */
    if (dns_answer(slice_make(out, n), names, ipv6, out, &n, NULL) != ERR_PARSE)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct names *names;
    struct slice stream = slice_make(data, size), message;
    size_t used;
    if (!names && names_new(&names, NULL))
        abort();
    check(stream, names, true);
    check(stream, names, false);
    while (dns_tcp_next(stream, &message, &used) == 0) {
        check(message, names, true);
        stream = slice_from(stream, used);
    }
    return 0;
}
