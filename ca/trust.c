#include "ca/trust.h"

#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/err.h"
#include "ca/libctx.h"
#include "ca/pem.h"

struct root {
    X509_NAME *subject;
    unsigned char *der;
    size_t n;
    bool read; /* it is in the store */
};

struct trust {
    struct slice pem, extra; /* until the first question */
    struct root *list;
    size_t n, cap;
};

static X509_LOOKUP_METHOD *method;

static int add_root(void *arg, struct slice der) {
    struct trust *t = arg;
    struct slice subject = pem_subject(der);
    const unsigned char *p = (const unsigned char *)subject.p;
    struct root *list = array_room(t->list, t->n, &t->cap, sizeof *list);
    if (!list)
        return ERR_NOMEM;
    t->list = list;
    struct root *root = &t->list[t->n];
    *root = (struct root){.subject = subject.n ? d2i_X509_NAME(NULL, &p, (long)subject.n) : NULL, .n = der.n};
    if (!root->subject)
        return 0; /* nothing can be issued by it */
    root->der = malloc(der.n);
    if (!root->der) {
        X509_NAME_free(root->subject);
        return ERR_NOMEM;
    }
    memcpy(root->der, der.p, der.n);
    t->n++;
    return 0;
}

static void trust_free(struct trust *t) {
    for (size_t i = 0; t && i < t->n; i++) {
        X509_NAME_free(t->list[i].subject);
        free(t->list[i].der);
    }
    if (t)
        free(t->list);
    free(t);
}

/* Their subjects are read when one is asked for: until a server is met, that is memory and time for nothing. */
static void read_roots(struct trust *t) {
    /* what memory was short for is not trusted */
    (void)pem_each(t->pem, add_root, t);
    (void)pem_each(t->extra, add_root, t);
    t->pem = t->extra = SLICE_NONE;
}

static void lookup_free(X509_LOOKUP *lookup) {
    trust_free(X509_LOOKUP_get_method_data(lookup));
    X509_LOOKUP_set_method_data(lookup, NULL);
}

/* Reads all roots of that name into the store; `out` gets one of them, without a reference of its own. */
static int lookup_subject(X509_LOOKUP *lookup, X509_LOOKUP_TYPE type, const X509_NAME *name,
                          X509_OBJECT *out) {
    struct trust *t = X509_LOOKUP_get_method_data(lookup);
    int found = 0;
    if (type != X509_LU_X509)
        return 0;
    if (t && (t->pem.n || t->extra.n))
        read_roots(t);
    for (size_t i = 0; t && i < t->n; i++) {
        struct root *root = &t->list[i];
        const unsigned char *p = root->der;
        if (root->read || X509_NAME_cmp(root->subject, name) != 0)
            continue;
        root->read = true;
        X509 *cert = X509_new_ex(libctx_tls(), NULL);
        if (cert && d2i_X509(&cert, &p, (long)root->n) &&
            X509_STORE_add_cert(X509_LOOKUP_get_store(lookup), cert) == 1 && !found &&
            X509_OBJECT_set1_X509(out, cert)) {
            found = 1;
            X509_free(
                cert); /* set1 took a reference and the caller takes another one: the store's is enough */
        }
        X509_free(cert);
    }
    ERR_clear_error();
    return found;
}

int trust_add(X509_STORE *store, struct slice pem, struct slice extra) {
    if (!method) {
        method = X509_LOOKUP_meth_new("roots in memory");
        if (!method || !X509_LOOKUP_meth_set_free(method, lookup_free) ||
            !X509_LOOKUP_meth_set_get_by_subject(method, lookup_subject))
            return ERR_CRYPTO;
    }
    struct trust *t = calloc(1, sizeof *t);
    X509_LOOKUP *lookup = t ? X509_STORE_add_lookup(store, method) : NULL;
    if (!lookup || !X509_LOOKUP_set_method_data(lookup, t)) {
        int r = t ? ERR_CRYPTO : ERR_NOMEM;
        free(t);
        ERR_clear_error();
        return r;
    }
    t->pem = pem;
    t->extra = extra;
    return 0;
}
