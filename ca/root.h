/*
 * The root: exeat's own certification authority. Its key is the most precious thing that exeat holds; only
 * the keeper calls anything here.
 *
 * It lives in the state directory as `ca.pem` (0644) and `ca-key.pem` (0600) and is made at first use. Two
 * first users at once make one: the directory is locked (flock on the directory itself, no lock file), each
 * file is written beside its place and renamed. A crash at any moment leaves something that the next start
 * completes.
 *
 * An own root (ECDSA P-256, recognised by its name) is certified anew, with the same key, when it has less
 * than CA_RENEW_DAYS left, so that what trusts the old certificate goes on working. An operator may put a
 * root of his own there: it is checked as strictly as a strict client would, used as it is, and never
 * written.
 */
#ifndef CA_ROOT_H
#define CA_ROOT_H

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

#define CA_CERT_FILE "ca.pem"
#define CA_KEY_FILE  "ca-key.pem"

#define CA_ROOT_DAYS      1825 /* life of an own root, back-dating included */
#define CA_ROOT_BACK_DAYS 7    /* … of which lie in the past, for guests whose clock is behind */
#define CA_RENEW_DAYS     90   /* an own root with less left is certified anew */
#define CA_LEAF_DAYS      30   /* life of a leaf, back-dating included */
#define CA_LEAF_BACK_DAYS 1

#define CA_SPKI_MAX 128  /* no public key of P-256 is longer in DER */
#define CA_DER_MAX  4096 /* no leaf is longer */
#define CA_PEM_MAX  65536

struct ca_root;

/*
 * Opens the root in the directory `dirfd` (which stays the caller's), making or renewing it where needed.
 * `now` is in seconds since 1970. Returns 0 and a root that the caller frees, or an error with a message that
 * says which file and what to do:
 *   ERR_DENIED       directory or file is not ours, or open to others, or a symbolic link
 *   ERR_PARSE        a file is not what it should be, key and certificate (or an EC key's halves) do not belong together, or the
 *                    certificate is not fit to sign (no critical basicConstraints CA:TRUE, no critical
 *                    keyUsage with keyCertSign, no subject key identifier, not self-signed, not valid now)
 *   ERR_NOTFOUND     there is a ca.pem, but no key
 *   ERR_UNSUPPORTED  the key is encrypted, or of a kind that clients refuse
 *   ERR_IO, ERR_CRYPTO, ERR_NOMEM
 */
int ca_root_open(int dirfd, int64_t now, struct ca_root **out, struct errmsg *msg) MUST_CHECK;
void ca_root_free(struct ca_root *root);

/* The certificate as PEM, borrowed. No secret. */
struct slice ca_root_pem(const struct ca_root *root);

/* The hash of its subject, by which OpenSSL and others name files of certificates. */
uint32_t ca_root_hash(const struct ca_root *root);

/*
 * Appends to `der` a leaf certificate for `name`, with the public key `spki` (SubjectPublicKeyInfo of an EC
 * P-256 key, its point not compressed; compared, not parsed). `name` is a host in the canonical form of
 * base/url.h ("a.example", "192.0.2.1", "[2001:db8::1]"); anything else is ERR_PARSE. Nothing but name and
 * key comes from the caller; nothing from any other certificate. Life: from a day before `now` to
 * CA_LEAF_DAYS later, never beyond the root's own dates. Returns 0, ERR_PARSE (name or key), ERR_CRYPTO,
 * ERR_LIMIT or ERR_NOMEM; on failure `der` is unchanged.
 */
int ca_mint(struct ca_root *root, struct slice name, struct slice spki, int64_t now, struct buf *der,
            struct errmsg *msg) MUST_CHECK;

/* The same with a life of `life` seconds from `now` on, back-dating not counted: for tests of expiry. */
int ca_mint_for(struct ca_root *root, struct slice name, struct slice spki, int64_t now, int64_t life,
                struct buf *der, struct errmsg *msg) MUST_CHECK;

#endif
