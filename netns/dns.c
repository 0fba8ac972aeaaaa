#include "netns/dns.h"

#include "netns/names.h"

#define HEADER      12
#define FLAG_QR     0x8000u
#define FLAG_OPCODE 0x7800u
#define FLAG_RD     0x0100u
#define FLAG_RA     0x0080u
#define CLASS_IN    1
#define CLASS_ANY   255
#define EDNS_SIZE   1232 /* what we say we take over UDP */

/* --- reading --------------------------------------------------------------- */

/* A cursor with a sticky error. */
struct reader {
    const uint8_t *p;
    size_t n, at;
    bool bad;
};

static uint8_t get8(struct reader *r) {
    if (r->bad || r->at >= r->n) {
        r->bad = true;
        return 0;
    }
    return r->p[r->at++];
}

static uint16_t get16(struct reader *r) {
    unsigned high = get8(r);
    return (uint16_t)(high << 8 | get8(r));
}

static void skip(struct reader *r, size_t n) {
    if (r->bad || n > r->n - r->at)
        r->bad = true;
    else
        r->at += n;
}

static bool host_byte(uint8_t c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* The question's name: labels only, a pointer has nothing to point at. */
static void read_name(struct reader *r, struct dns_query *q) {
    bool digits = true; /* of the last label */
    q->host = true;
    for (;;) {
        uint8_t len = get8(r);
        if (r->bad || len == 0)
            break;
        if (len > 63 || q->n + (q->n ? 1 : 0) + len > NAMES_LEN_MAX || len > r->n - r->at) {
            r->bad = true;
            return;
        }
        if (q->n)
            q->name[q->n++] = '.';
        digits = true;
        for (uint8_t i = 0; i < len; i++) {
            uint8_t c = (uint8_t)ascii_lower((char)r->p[r->at + i]);
            /* a dot within a label would make two names one */
            if (!host_byte(c))
                q->host = false;
            if (!ascii_digit((char)c))
                digits = false;
            q->name[q->n++] = (char)c;
        }
        r->at += len;
    }
    /* 192.0.2.1 is no name, nor is anything that ends like it (RFC 1123, 2.1) */
    if (q->n == 0 || digits)
        q->host = false;
    q->name[q->n] = 0;
}

/* A name in a record that follows: its meaning does not matter. */
static void skip_name(struct reader *r) {
    for (;;) {
        uint8_t len = get8(r);
        if (r->bad || len == 0)
            return;
        if ((len & 0xc0) == 0xc0) {
            skip(r, 1);
            return;
        }
        if (len & 0xc0)
            r->bad = true;
        skip(r, len);
    }
}

/* The additional section of a query: one OPT at most, other records (TSIG, SIG(0)) are skipped. */
static void read_additional(struct reader *r, unsigned count, struct dns_query *q) {
    for (unsigned i = 0; i < count && !r->bad; i++) {
        size_t name_at = r->at;
        skip_name(r);
        uint16_t type = get16(r);
        get16(r);
        get8(r);
        uint8_t version = get8(r);
        get16(r);
        skip(r, get16(r));
        if (r->bad || type != DNS_OPT)
            continue;
        if (q->edns || r->p[name_at] != 0) {
            r->bad = true;
            return;
        }
        q->edns = true;
        q->edns_version = version;
    }
}

/* Reads one query. 0; with q->rcode other than NOERROR the answer is that code. ERR_PARSE: not even a header, or an answer instead of a
 * query: say nothing. */
static int dns_parse(struct slice packet, struct dns_query *q) {
    struct reader r = {.p = (const uint8_t *)packet.p, .n = packet.n};
    *q = (struct dns_query){0};
    q->id = get16(&r);
    q->flags = get16(&r);
    unsigned questions = get16(&r), answers = get16(&r), authority = get16(&r), additional = get16(&r);
    if (r.bad || q->flags & FLAG_QR)
        return ERR_PARSE;
    if (q->flags & FLAG_OPCODE) {
        q->rcode = DNS_NOTIMP;
        return 0;
    }
    if (questions != 1 || answers || authority || packet.n > DNS_QUERY_MAX) {
        q->rcode = DNS_FORMERR;
        return 0;
    }
    read_name(&r, q);
    q->type = get16(&r);
    q->qclass = get16(&r);
    size_t end = r.at;
    read_additional(&r, additional, q);
    if (r.bad || r.at != r.n) {
        q->rcode = DNS_FORMERR;
        q->edns = false;
        return 0;
    }
    q->question = slice_sub(packet, HEADER, end - HEADER);
    if (q->edns && q->edns_version)
        q->rcode = DNS_BADVERS;
    else if (q->qclass != CLASS_IN && q->qclass != CLASS_ANY)
        q->rcode = DNS_REFUSED;
    return 0;
}

int dns_tcp_next(struct slice stream, struct slice *message, size_t *used) {
    if (stream.n < 2)
        return ERR_INCOMPLETE;
    size_t n = (size_t)(uint8_t)stream.p[0] << 8 | (uint8_t)stream.p[1];
    if (n > DNS_QUERY_MAX)
        return ERR_LIMIT;
    if (stream.n - 2 < n)
        return ERR_INCOMPLETE;
    *message = slice_sub(stream, 2, n);
    *used = n + 2;
    return 0;
}

/* --- writing --------------------------------------------------------------- */

struct writer {
    uint8_t *p;
    size_t n;
};

static void put(struct writer *w, const void *bytes, size_t n) {
    /* DNS_ANSWER_MAX has room for the largest question, one record and OPT: this is for a bug of ours */
    if (n > DNS_ANSWER_MAX - w->n)
        return;
    memcpy(w->p + w->n, bytes, n);
    w->n += n;
}

static void put16(struct writer *w, unsigned v) {
    uint8_t b[2] = {(uint8_t)(v >> 8), (uint8_t)v};
    put(w, b, 2);
}

static void put_record(struct writer *w, enum dns_type type, const void *data, size_t n) {
    put16(w, 0xc000 | HEADER); /* the question's name */
    put16(w, type);
    put16(w, CLASS_IN);
    put16(w, 0);
    put16(w, DNS_TTL);
    put16(w, (unsigned)n);
    put(w, data, n);
}

/* The labels of a canonical name, as the data of a PTR. */
static size_t name_wire(struct slice name, uint8_t out[256]) {
    size_t n = 0;
    struct slice label, rest = name;
    bool more;
    do {
        more = slice_cut(rest, '.', &label, &rest);
        if (label.n == 0 || label.n > 63 || n + label.n + 2 > 255)
            return 0;
        out[n++] = (uint8_t)label.n;
        memcpy(out + n, label.p, label.n);
        n += label.n;
    } while (more);
    out[n++] = 0;
    return n;
}

/* --- deciding -------------------------------------------------------------- */

static bool within(struct slice name, struct slice domain) {
    if (slice_eq(name, domain))
        return true;
    return name.n > domain.n && slice_ends(name, domain) && name.p[name.n - domain.n - 1] == '.';
}

/* "1.0.19.198.in-addr.arpa" and its longer cousin. */
static bool reverse_addr(struct slice name, struct addr *addr) {
    char text[64];
    size_t n = 0;
    if (slice_ends(name, SLICE(".in-addr.arpa"))) {
        name.n -= strlen(".in-addr.arpa");
        while (name.n) {
            size_t from = name.n;
            while (from && name.p[from - 1] != '.')
                from--;
            struct slice label = slice_from(name, from);
            if (label.n == 0 || label.n > 3 || n + label.n + 1 > 16)
                return false;
            if (n)
                text[n++] = '.';
            memcpy(text + n, label.p, label.n);
            n += label.n;
            name.n = from ? from - 1 : 0;
        }
    } else if (slice_ends(name, SLICE(".ip6.arpa")) && name.n == 63 + strlen(".ip6.arpa")) {
        for (int i = 62; i >= 0; i -= 2) {
            if (ascii_hex(name.p[i]) < 0 || (i && name.p[i - 1] != '.'))
                return false;
            text[n++] = name.p[i];
            if (i && (62 - i) % 8 == 6)
                text[n++] = ':';
        }
    } else {
        return false;
    }
    return addr_parse(slice_make(text, n), 0, addr);
}

static enum dns_rcode answer_ptr(struct writer *w, const struct dns_query *q, struct names *names,
                                 bool *answered) {
    struct addr addr;
    struct slice name;
    uint8_t wire[256];
    size_t n;
    if (!reverse_addr(slice_make(q->name, q->n), &addr))
        return DNS_NXDOMAIN;
    if (addr_kind(&addr) == ADDR_LOOPBACK)
        name = SLICE("localhost");
    else if (!names_lookup(names, &addr, &name))
        return DNS_NXDOMAIN;
    n = name_wire(name, wire);
    if (n == 0)
        return DNS_NXDOMAIN;
    put_record(w, DNS_PTR, wire, n);
    *answered = true;
    return DNS_NOERROR;
}

static enum dns_rcode answer_address(struct writer *w, const struct dns_query *q, struct names *names,
                                     bool ipv6, bool *answered) {
    struct slice name = slice_make(q->name, q->n);
    struct addr addr4, addr6;
    if (within(name, SLICE("localhost"))) {
        addr_parse(SLICE("127.0.0.1"), 0, &addr4);
        addr_parse(SLICE("::1"), 0, &addr6);
    } else {
        uint32_t index;
        if (names_insert(names, name, &index))
            return DNS_SERVFAIL;
        addr4 = names_addr4(names, index);
        addr6 = names_addr6(names, index);
    }
    if (q->type == DNS_A)
        put_record(w, DNS_A, &addr4.in.sin_addr, 4);
    else if (ipv6)
        put_record(w, DNS_AAAA, &addr6.in6.sin6_addr, 16);
    else
        return DNS_NOERROR;
    *answered = true;
    return DNS_NOERROR;
}

static enum dns_rcode answer_question(struct writer *w, const struct dns_query *q, struct names *names,
                                      bool ipv6, bool *answered) {
    struct slice name = slice_make(q->name, q->n);
    if (q->type == DNS_PTR)
        return answer_ptr(w, q, names, answered);
    if (within(name, SLICE("invalid")) || within(name, SLICE("use-application-dns.net")))
        return DNS_NXDOMAIN;
    if (q->type != DNS_A && q->type != DNS_AAAA)
        return DNS_NOERROR;
    if (!q->host)
        return DNS_REFUSED;
    return answer_address(w, q, names, ipv6, answered);
}

int dns_answer(struct slice packet, struct names *names, bool ipv6, uint8_t *out, size_t *n,
               struct dns_result *result) {
    struct dns_query q;
    int r = dns_parse(packet, &q);
    if (r)
        return r;
    struct writer w = {.p = out};
    uint8_t header[HEADER] = {0};
    put(&w, header, sizeof header);
    put(&w, q.question.p ? q.question.p : "", q.question.n);
    bool answered = false;
    enum dns_rcode rcode = q.rcode;
    if (rcode == DNS_NOERROR)
        rcode = answer_question(&w, &q, names, ipv6, &answered);
    if (q.edns) {
        put(&w, "", 1); /* OPT: root name, type, size, extended code, version, flags, no options */
        put16(&w, DNS_OPT);
        put16(&w, EDNS_SIZE);
        put16(&w, (unsigned)rcode >> 4 << 8);
        put16(&w, 0);
        put16(&w, 0);
    }
    *n = w.n;
    w.n = 0;
    put16(&w, q.id);
    put16(&w, FLAG_QR | (q.flags & (FLAG_OPCODE | FLAG_RD)) | FLAG_RA | (rcode & 15));
    put16(&w, q.question.n ? 1 : 0);
    put16(&w, answered ? 1 : 0);
    put16(&w, 0);
    put16(&w, q.edns ? 1 : 0);
    if (result)
        *result = (struct dns_result){.query = q, .rcode = rcode, .answered = answered};
    return 0;
}
