#include "ca/pem.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include "base/err.h"
#include "ca/der.h"

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

static bool is_cert(const char *name) {
    return strcmp(name, PEM_STRING_X509) == 0 || strcmp(name, PEM_STRING_X509_OLD) == 0 ||
           strcmp(name, PEM_STRING_X509_TRUSTED) == 0;
}

int pem_each(struct slice pem, int (*each)(void *arg, struct slice der), void *arg) {
    if (pem.n == 0)
        return 0;
    BIO *bio = BIO_new_mem_buf(pem.p, (int)pem.n);
    if (!bio)
        return ERR_NOMEM;
    int r = 0;
    while (r == 0) {
        char *name = NULL, *header = NULL;
        unsigned char *data = NULL;
        struct slice cert;
        long n = 0;
        /* a block that can't be decoded does not end the walk, the end of the text does */
        if (PEM_read_bio(bio, &name, &header, &data, &n) != 1) {
            bool end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE || BIO_eof(bio);
            ERR_clear_error();
            if (end)
                break;
            continue;
        }
        if (is_cert(name) && outer_form(slice_make(data, (size_t)n), &cert))
            r = each(arg, cert);
        OPENSSL_free(name);
        OPENSSL_free(header);
        OPENSSL_free(data);
    }
    BIO_free(bio);
    return r;
}
