#include "ca/pem.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include "base/err.h"

int pem_each(struct slice pem, int (*each)(void *arg, X509 *cert), void *arg) {
    if (pem.n == 0)
        return 0;
    BIO *bio = BIO_new_mem_buf(pem.p, (int)pem.n);
    if (!bio)
        return ERR_NOMEM;
    int r = 0;
    while (r == 0) {
        char *name = NULL, *header = NULL;
        unsigned char *data = NULL;
        long n = 0;
        /* a block that can't be decoded does not end the walk, the end of the text does */
        if (PEM_read_bio(bio, &name, &header, &data, &n) != 1) {
            bool end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE || BIO_eof(bio);
            ERR_clear_error();
            if (end)
                break;
            continue;
        }
        const unsigned char *p = data;
        X509 *cert = NULL;
        if (strcmp(name, PEM_STRING_X509) == 0 || strcmp(name, PEM_STRING_X509_OLD) == 0)
            cert = d2i_X509(NULL, &p, n);
        else if (strcmp(name, PEM_STRING_X509_TRUSTED) == 0)
            cert = d2i_X509_AUX(NULL, &p, n);
        if (cert)
            r = each(arg, cert);
        X509_free(cert);
        OPENSSL_free(name);
        OPENSSL_free(header);
        OPENSSL_free(data);
        ERR_clear_error();
    }
    BIO_free(bio);
    return r;
}
