/* A state directory of its own for each test, and keys and certificates to try. */
#ifndef TESTS_UNIT_CA_SUPPORT_H
#define TESTS_UNIT_CA_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ca/root.h"

#define DAY 86400
#define NOW 1800000000 /* 2027-01-15 08:00 UTC */

static inline int state_dir(char *path) {
    memcpy(path, "/tmp/exeat-test-XXXXXX", 23);
    assert_non_null(mkdtemp(path));
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static inline void state_remove(char *path, int fd) {
    unlinkat(fd, CA_CERT_FILE, 0);
    unlinkat(fd, CA_KEY_FILE, 0);
    close(fd);
    /* fails if anything else was left behind */
    assert_int_equal(rmdir(path), 0);
}

static inline EVP_PKEY *new_key(unsigned char **spki, struct slice *out) {
    EVP_PKEY *key = EVP_EC_gen("P-256");
    *spki = NULL;
    int n = i2d_PUBKEY(key, spki);
    assert_true(n > 0);
    *out = slice_make(*spki, (size_t)n);
    return key;
}

static inline X509 *cert_of(struct slice der) {
    const unsigned char *p = (const unsigned char *)der.p;
    X509 *cert = d2i_X509(NULL, &p, (long)der.n);
    assert_non_null(cert);
    assert_ptr_equal(p, (const unsigned char *)der.p + der.n);
    return cert;
}

static inline X509 *root_cert(const struct ca_root *root) {
    struct slice pem = ca_root_pem(root);
    BIO *bio = BIO_new_mem_buf(pem.p, (int)pem.n);
    X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    BIO_free(bio);
    assert_non_null(cert);
    return cert;
}

static inline int64_t time_of(const ASN1_TIME *t) {
    struct tm tm;
    assert_int_equal(ASN1_TIME_to_tm(t, &tm), 1);
    return (int64_t)timegm(&tm);
}

static inline int64_t root_end(const struct ca_root *root) {
    X509 *cert = root_cert(root);
    int64_t end = time_of(X509_get0_notAfter(cert));
    X509_free(cert);
    return end;
}

#endif
