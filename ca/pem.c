#include "ca/pem.h"

#include <openssl/pem.h>
#include <stdlib.h>

#include "base/base64.h"
#include "base/err.h"
#include "ca/der.h"

#define PEM_LINE 48 /* bytes a line: 64 characters */

/* Takes one value off the front: its tag must be `tag`. *content is what is in it, *whole all of it; NULL
 * where not wanted. */
static bool take(struct slice *s, unsigned char tag, struct slice *content, struct slice *whole) {
    const unsigned char *p = (const unsigned char *)s->p;
    if (s->n < 2 || p[0] != tag)
        return false;
    size_t n = p[1], head = 2;
    if (n > 0x80) {
        size_t count = n & 0x7f;
        if (count > 3 || s->n < 2 + count)
            return false;
        for (n = 0; head < 2 + count; head++)
            n = n << 8 | p[head];
    } else if (n == 0x80) {
        return false;
    }
    if (n > s->n - head)
        return false;
    if (content)
        *content = slice_sub(*s, head, n);
    if (whole)
        *whole = slice_sub(*s, 0, head + n);
    *s = slice_from(*s, head + n);
    return true;
}

/* The certificate at the beginning of `data`: SEQUENCE { SEQUENCE, SEQUENCE, BIT STRING }. */
static bool outer_form(struct slice data, struct slice *whole) {
    struct slice inner;
    return take(&data, DER_SEQUENCE, &inner, whole) && take(&inner, DER_SEQUENCE, NULL, NULL) &&
           take(&inner, DER_SEQUENCE, NULL, NULL) && take(&inner, DER_BIT_STRING, NULL, NULL) && inner.n == 0;
}

struct slice pem_subject(struct slice der) {
    struct slice cert, body, subject;
    if (!take(&der, DER_SEQUENCE, &cert, NULL) || !take(&cert, DER_SEQUENCE, &body, NULL))
        return SLICE_NONE;
    (void)take(&body, DER_CONTEXT_OF(0), NULL, NULL); /* the version, where it is not 1 */
    if (take(&body, DER_INTEGER, NULL, NULL) && take(&body, DER_SEQUENCE, NULL, NULL) &&
        take(&body, DER_SEQUENCE, NULL, NULL) && take(&body, DER_SEQUENCE, NULL, NULL) &&
        take(&body, DER_SEQUENCE, NULL, &subject))
        return subject;
    return SLICE_NONE;
}

/* --- the text ---------------------------------------------------------------------------------------------- */

#define DASHES "-----"
#define BEGIN  SLICE("BEGIN ")
#define END    SLICE("END ")

static const char *const labels[] = {PEM_STRING_X509, PEM_STRING_X509_OLD, PEM_STRING_X509_TRUSTED};

/* The next line that begins with a label between dashes: *before is what stands before it, *rest what follows it. */
static bool next_label(struct slice *rest, struct slice *before, struct slice *label) {
    struct slice all = *rest;
    const char *at;
    if (all.n == 0) /* it may be none at all, where nothing may be looked for */
        return false;
    while ((at = memmem(rest->p, rest->n, DASHES, strlen(DASHES)))) {
        size_t from = (size_t)(at - all.p);
        *rest = slice_from(all, from + strlen(DASHES));
        const char *end = memmem(rest->p, rest->n, DASHES, strlen(DASHES));
        if ((from && at[-1] != '\n') || !end || memchr(rest->p, '\n', (size_t)(end - rest->p)))
            continue;
        *before = slice_sub(all, 0, from);
        *label = slice_sub(*rest, 0, (size_t)(end - rest->p));
        *rest = slice_from(*rest, label->n + strlen(DASHES));
        return true;
    }
    return false;
}

/* Whether a certificate's block begins with this one and ends with that one. */
static bool is_cert(struct slice first, struct slice last) {
    for (size_t i = 0; i < sizeof labels / sizeof labels[0]; i++) {
        struct slice name = slice_str(labels[i]);
        if (slice_starts(first, BEGIN) && slice_eq(slice_from(first, BEGIN.n), name) &&
            slice_starts(last, END) && slice_eq(slice_from(last, END.n), name))
            return true;
    }
    return false;
}

/* --- base64 -------------------------------------------------------------------------------------------------- */

/* By table, for the roots of a whole system are read at every start: OpenSSL's takes several times as long. Nothing in them is
 * secret. */
#define NO_DIGIT 64u

static const unsigned char *digit_values(void) {
    static unsigned char values[256];
    if (values[0] == NO_DIGIT)
        return values;
    memset(values, NO_DIGIT, sizeof values);
    for (unsigned char i = 0; i < 64; i++)
        values[(unsigned char)base64_digits[i]] = i;
    return values;
}

/* Base64 in lines, to `out`, which has room for `text`. Empty if it is none. */
static struct slice decode(struct slice text, unsigned char *out) {
    const unsigned char *values = digit_values(), *p = (const unsigned char *)text.p, *end = p + text.n;
    unsigned char *to = out;
    uint32_t group = 0;
    unsigned have = 0, pads = 0; /* digits and pads in `group` */
    while (p < end) {
        if (have == 0 && end - p >= 4) {
            unsigned a = values[p[0]], b = values[p[1]], c = values[p[2]], d = values[p[3]];
            if ((a | b | c | d) < NO_DIGIT && pads == 0) {
                *to++ = (unsigned char)(a << 2 | b >> 4);
                *to++ = (unsigned char)(b << 4 | c >> 2);
                *to++ = (unsigned char)(c << 6 | d);
                p += 4;
                continue;
            }
        }
        unsigned char c = *p++;
        if (c == '\n' || c == '\r' || c == ' ' || c == '\t')
            continue;
        bool pad = c == '=' && have >= 2;
        if (!pad && (values[c] == NO_DIGIT || pads))
            return SLICE_NONE;
        group = group << 6 | (pad ? 0 : values[c]);
        pads += pad;
        if (++have < 4)
            continue;
        for (unsigned i = 0; i < 3 - pads; i++)
            *to++ = (unsigned char)(group >> (16 - 8 * i));
        group = have = 0;
    }
    return have ? SLICE_NONE : slice_make(out, (size_t)(to - out));
}

int pem_each(struct slice pem, int (*each)(void *arg, struct slice der), void *arg) {
    struct slice first = SLICE_NONE, last, body, cert;
    unsigned char *memory = pem.n ? malloc(pem.n) : NULL;
    int r = pem.n && !memory ? ERR_NOMEM : 0;
    /* a block without an end of its own is passed over, what follows it is not */
    for (; r == 0 && next_label(&pem, &body, &last); first = last)
        if (is_cert(first, last) && outer_form(decode(body, memory), &cert))
            r = each(arg, cert);
    free(memory);
    return r;
}

int pem_put(struct buf *out, struct slice der) {
    char line[PEM_LINE / 3 * 4 + 1];
    buf_puts(out, DASHES "BEGIN " PEM_STRING_X509 DASHES "\n");
    for (; der.n; der = slice_from(der, PEM_LINE)) {
        size_t n = base64_encode(slice_sub(der, 0, PEM_LINE), line);
        line[n++] = '\n';
        buf_put(out, slice_make(line, n));
    }
    buf_puts(out, DASHES "END " PEM_STRING_X509 DASHES "\n");
    return out->failed ? ERR_LIMIT : 0;
}
