/*
 * What a sandbox trusts: the host's roots and ours, as PEM for most, as a Java key store for JVMs, and where
 * both are to be laid.
 *
 * Nothing here is secret. `--upstream-ca` roots are for upstreams (ca/upstream.h) and are not in the bundle
 * unless the caller adds them: a sandbox meets only certificates that exeat made.
 */
#ifndef CA_BUNDLE_H
#define CA_BUNDLE_H

#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

#define CA_BUNDLE_MAX (8u << 20) /* bytes of all roots together */
#define CA_PATHS_MAX  64

/* The files that were read: a second name of one of them adds nothing, and is not read. Zero-initialised is none. What is beyond the
 * limit may be read twice, which costs time and no more. */
#define CA_READ_MAX 512
struct ca_read {
    struct {
        dev_t dev;
        ino_t ino;
    } files[CA_READ_MAX];
    size_t n;
};

/*
 * Appends the host's roots to `pem`, each once, as plain CERTIFICATE blocks without comments. Looked for in
 * this order; the first that gives at least one is taken:
 *   1. SSL_CERT_FILE and SSL_CERT_DIR of exeat's own environment (where set, nothing else);
 *   2. OpenSSL's default file;
 *   3. the files of the known distributions (Debian, Fedora, SUSE, Alpine, Arch, NixOS);
 *   4. OpenSSL's default directory, then /etc/ssl/certs: every certificate in it.
 * `read` is a record of the files, for further calls that append to the same `pem`, or NULL. *count (may be NULL) gets
 * the number; 0 is no error: a minimal container has none. What can't be read as a certificate is left out. Returns 0, ERR_LIMIT,
 * ERR_NOMEM, or ERR_IO with a message when SSL_CERT_FILE names what can't be read.
 */
int ca_system_roots(struct buf *pem, struct ca_read *read, size_t *count, struct errmsg *msg);

/* Appends the roots of one PEM file (--upstream-ca) that are not in `pem` yet, cleaned in the same way. `read` as above: what is in
 * there was put into this `pem`. 0; ERR_PARSE: there is none in it; ERR_IO, ERR_LIMIT, ERR_NOMEM; all with a message. */
int ca_file_roots(const char *path, struct buf *pem, struct ca_read *read, struct errmsg *msg);

/*
 * A Java key store (JKS, read by Java 8 and later) with each certificate of some PEM texts as a trusted one; its password is
 * CA_JKS_PASSWORD, as in every JDK. In steps, for the host's roots are there long before our own: `begin` (`bytes` of PEM are
 * expected, `now_ms` becomes the entries' date), `add` as often as needed, `end`. All append to `out`, which is borrowed from the
 * first to the last. Each returns 0, ERR_LIMIT or ERR_NOMEM; after an error the store is not to be used.
 */
#define CA_JKS_PASSWORD "changeit"
struct ca_jks {
    struct buf *out;
    size_t from; /* where the store begins */
    uint64_t now_ms;
    uint32_t n; /* certificates */
};
int ca_jks_begin(struct ca_jks *j, struct buf *out, size_t bytes, uint64_t now_ms);
int ca_jks_add(struct ca_jks *j, struct slice pem);
int ca_jks_end(struct ca_jks *j);

/* Absolute, real paths, each once; those beyond CA_PATHS_MAX are left out. Zero-initialised is empty. */
struct ca_paths {
    char *list[CA_PATHS_MAX];
    size_t n;
};
void ca_paths_release(struct ca_paths *paths);

/* Where this host's programs look for PEM bundles (files that exist): our bundle is to be laid over each. */
int ca_bundle_paths(struct ca_paths *paths);

/*
 * Where this host's JVMs keep their roots (files that exist): /etc/ssl/certs/java/cacerts, $JAVA_HOME, the
 * JVM of `java` in `path`, those under /usr/lib/jvm, /opt, /usr/java, and `home`'s .sdkman and .jdks.
 * `java_home`, `path`, `home` are the sandbox's variables of these names; NULL where unset.
 */
int ca_java_paths(const char *java_home, const char *path, const char *home, struct ca_paths *paths);

#endif
