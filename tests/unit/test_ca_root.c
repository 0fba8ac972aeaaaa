/* ca/root: made once, kept closed, checked as a strict client would. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/wait.h>

#include "ca/root.h"
#include "tests/unit/ca_support.h"

struct state {
    char path[32];
    int fd;
};

static int set_up(void **state) {
    struct state *s = calloc(1, sizeof *s);
    s->fd = state_dir(s->path);
    *state = s;
    return 0;
}

static int tear_down(void **state) {
    struct state *s = *state;
    state_remove(s->path, s->fd);
    free(s);
    return 0;
}

static void write_file(int dirfd, const char *name, mode_t mode, const void *bytes, size_t n) {
    unlinkat(dirfd, name, 0);
    int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL, mode);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), n);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static mode_t mode_of(int dirfd, const char *name) {
    struct stat st;
    assert_int_equal(fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
    return st.st_mode & 07777;
}

static void set_mode(int dirfd, const char *name, mode_t mode) {
    assert_int_equal(fchmodat(dirfd, name, mode, 0), 0);
}

static struct ca_root *open_ok(int dirfd, int64_t now) {
    struct ca_root *root = NULL;
    struct errmsg msg = {""};
    if (ca_root_open(dirfd, now, &root, &msg))
        fail_msg("%s", msg.text);
    return root;
}

static void open_fails(int dirfd, int64_t now, int err, const char *says) {
    struct ca_root *root = NULL;
    struct errmsg msg = {""};
    assert_int_equal(ca_root_open(dirfd, now, &root, &msg), err);
    assert_null(root);
    if (!strstr(msg.text, says))
        fail_msg("'%s' does not say '%s'", msg.text, says);
}

static void test_made_once(void **state) {
    struct state *s = *state;
    mode_t mask = umask(077);
    struct ca_root *a = open_ok(s->fd, NOW);
    umask(mask);
    assert_int_equal(mode_of(s->fd, CA_CERT_FILE), 0644);
    assert_int_equal(mode_of(s->fd, CA_KEY_FILE), 0600);
    struct ca_root *b = open_ok(s->fd, NOW + 1);
    assert_true(slice_eq(ca_root_pem(a), ca_root_pem(b)));
    ca_root_free(a);
    ca_root_free(b);
}

static void test_extensions(void **state) {
    struct state *s = *state;
    struct ca_root *root = open_ok(s->fd, NOW);
    X509 *cert = root_cert(root);
    int critical = 0;
    BASIC_CONSTRAINTS *bc = X509_get_ext_d2i(cert, NID_basic_constraints, &critical, NULL);
    assert_non_null(bc);
    assert_true(bc->ca);
    assert_int_equal(ASN1_INTEGER_get(bc->pathlen), 0);
    assert_int_equal(critical, 1);
    BASIC_CONSTRAINTS_free(bc);
    assert_int_equal(X509_get_key_usage(cert), KU_KEY_CERT_SIGN | KU_CRL_SIGN);
    assert_int_equal(
        X509_EXTENSION_get_critical(X509_get_ext(cert, X509_get_ext_by_NID(cert, NID_key_usage, -1))), 1);
    assert_int_equal(ASN1_STRING_length(X509_get0_subject_key_id(cert)), 20);
    assert_int_equal(X509_self_signed(cert, 1), 1);
    assert_true(time_of(X509_get0_notBefore(cert)) <= NOW - 2 * DAY);
    assert_int_equal(root_end(root), NOW + (CA_ROOT_DAYS - CA_ROOT_BACK_DAYS) * DAY);
    const ASN1_INTEGER *serial = X509_get0_serialNumber(cert);
    assert_int_equal(ASN1_STRING_type(serial), V_ASN1_INTEGER); /* not V_ASN1_NEG_INTEGER */
    assert_in_range(ASN1_STRING_length(serial), 8, 20);
    X509_free(cert);
    ca_root_free(root);
}

/* Both see the same root, whoever comes first. */
static void test_two_first_users(void **state) {
    struct state *s = *state;
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    pid_t children[4];
    for (int i = 0; i < 4; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            struct ca_root *root = NULL;
            char pem[4096] = {0};
            int r = ca_root_open(s->fd, NOW, &root, NULL);
            if (r == 0 && ca_root_pem(root).n < sizeof pem)
                memcpy(pem, ca_root_pem(root).p, ca_root_pem(root).n);
            _exit(r || write(pipes[1], pem, sizeof pem) != sizeof pem);
        }
    }
    char first[4096], other[4096];
    assert_int_equal(read(pipes[0], first, sizeof first), sizeof first);
    for (int i = 1; i < 4; i++) {
        assert_int_equal(read(pipes[0], other, sizeof other), sizeof other);
        assert_memory_equal(first, other, sizeof first);
    }
    for (int i = 0; i < 4; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    close(pipes[0]);
    close(pipes[1]);
}

/* What a crash between the two files leaves is completed with the key that is there. */
static void test_key_alone(void **state) {
    struct state *s = *state;
    struct ca_root *root = open_ok(s->fd, NOW);
    X509 *before = root_cert(root);
    ca_root_free(root);
    assert_int_equal(unlinkat(s->fd, CA_CERT_FILE, 0), 0);
    write_file(s->fd, "." CA_CERT_FILE ".new", 0600, "half", 4);
    root = open_ok(s->fd, NOW);
    X509 *after = root_cert(root);
    assert_int_equal(EVP_PKEY_eq(X509_get0_pubkey(before), X509_get0_pubkey(after)), 1);
    X509_free(before);
    X509_free(after);
    ca_root_free(root);
}

static void test_renewed(void **state) {
    struct state *s = *state;
    struct ca_root *root = open_ok(s->fd, NOW);
    int64_t end = root_end(root);
    X509 *before = root_cert(root);
    ca_root_free(root);

    root = open_ok(s->fd, end - (CA_RENEW_DAYS + 1) * DAY);
    assert_int_equal(root_end(root), end);
    ca_root_free(root);

    root = open_ok(s->fd, end - (CA_RENEW_DAYS - 1) * DAY);
    assert_true(root_end(root) > end);
    X509 *after = root_cert(root);
    assert_int_equal(EVP_PKEY_eq(X509_get0_pubkey(before), X509_get0_pubkey(after)), 1);
    assert_int_equal(X509_NAME_cmp(X509_get_subject_name(before), X509_get_subject_name(after)), 0);
    assert_int_not_equal(ASN1_INTEGER_cmp(X509_get0_serialNumber(before), X509_get0_serialNumber(after)), 0);
    X509_free(before);
    X509_free(after);
    ca_root_free(root);

    /* expired years ago: made anew all the same, it is ours */
    root = open_ok(s->fd, end + 4000 * (int64_t)DAY);
    ca_root_free(root);
}

static void test_refuses_open_files(void **state) {
    struct state *s = *state;
    ca_root_free(open_ok(s->fd, NOW));
    set_mode(s->fd, CA_KEY_FILE, 0640);
    open_fails(s->fd, NOW, ERR_DENIED, "ca-key.pem is open to others (mode 640)");
    set_mode(s->fd, CA_KEY_FILE, 0604);
    open_fails(s->fd, NOW, ERR_DENIED, "ca-key.pem");
    set_mode(s->fd, CA_KEY_FILE, 0600);
    set_mode(s->fd, CA_CERT_FILE, 0664);
    open_fails(s->fd, NOW, ERR_DENIED, "others may write to ca.pem");
    set_mode(s->fd, CA_CERT_FILE, 0644);
    set_mode(s->fd, ".", 0770);
    open_fails(s->fd, NOW, ERR_DENIED, "others may write to the state directory");
    set_mode(s->fd, ".", 0700);
    ca_root_free(open_ok(s->fd, NOW));

    if (geteuid() == 0) {
        assert_int_equal(fchownat(s->fd, CA_KEY_FILE, 12345, 12345, 0), 0);
        open_fails(s->fd, NOW, ERR_DENIED, "belongs to user 12345");
    }
}

static void test_refuses_other_things(void **state) {
    struct state *s = *state;
    ca_root_free(open_ok(s->fd, NOW));
    assert_int_equal(renameat(s->fd, CA_KEY_FILE, s->fd, "elsewhere"), 0);
    open_fails(s->fd, NOW, ERR_NOTFOUND, "ca-key.pem is not");
    assert_int_equal(symlinkat("elsewhere", s->fd, CA_KEY_FILE), 0);
    open_fails(s->fd, NOW, ERR_DENIED, "symbolic link");
    unlinkat(s->fd, CA_KEY_FILE, 0);
    assert_int_equal(mkfifoat(s->fd, CA_KEY_FILE, 0600), 0);
    open_fails(s->fd, NOW, ERR_DENIED, "no regular file");
    write_file(s->fd, CA_KEY_FILE, 0600, "nonsense\n", 9);
    open_fails(s->fd, NOW, ERR_PARSE, "holds no private key");
    write_file(s->fd, CA_KEY_FILE, 0600, "", 0);
    open_fails(s->fd, NOW, ERR_PARSE, "holds no private key");
    unlinkat(s->fd, "elsewhere", 0);
}

/* --- an operator's own root --------------------------------------------------------------------------- */

enum { OTHER_KEY = 1, INTERMEDIATE = 2, ENCRYPTED = 4, SEC1 = 8 };

struct recipe {
    const char *basic, *usage, *key_id;
    int days;
    const char *curve;
    int flags;
    int err;
    const char *says;
};

#define SCALAR 36 /* where it begins in the DER that exeat writes */

/* A key whose point is the certificate's, and whose number is not. */
static void test_refuses_halves_of_two(void **state) {
    struct state *s = *state;
    char pem[1024], *name, *header, *bytes;
    unsigned char *der;
    long n;
    ca_root_free(open_ok(s->fd, NOW));
    int fd = openat(s->fd, CA_KEY_FILE, O_RDONLY);
    ssize_t got = read(fd, pem, sizeof pem);
    close(fd);
    BIO *in = BIO_new_mem_buf(pem, (int)got), *out = BIO_new(BIO_s_mem());
    assert_int_equal(PEM_read_bio(in, &name, &header, &der, &n), 1);
    for (int other = 1; other >= 0; other--) { /* and back, so that nothing else is refused */
        der[SCALAR + 31] ^= 1;
        assert_true(PEM_write_bio(out, name, header, der, n) > 0);
        long length = BIO_get_mem_data(out, &bytes);
        write_file(s->fd, CA_KEY_FILE, 0600, bytes, (size_t)length);
        (void)BIO_reset(out);
        if (other)
            open_fails(s->fd, NOW, ERR_PARSE, "does not belong to its public one: put the right key there");
        else
            ca_root_free(open_ok(s->fd, NOW));
    }
    OPENSSL_free(name);
    OPENSSL_free(header);
    OPENSSL_free(der);
    BIO_free(in);
    BIO_free(out);
}

static void add(X509 *cert, int nid, const char *value) {
    X509V3_CTX ctx;
    if (!value)
        return;
    X509V3_set_ctx(&ctx, cert, cert, NULL, NULL, 0);
    X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    assert_non_null(ext);
    X509_add_ext(cert, ext, -1);
    X509_EXTENSION_free(ext);
}

static void write_root(int dirfd, const struct recipe *r) {
    EVP_PKEY *key = r->curve ? EVP_EC_gen(r->curve) : EVP_RSA_gen(2048);
    EVP_PKEY *other = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    char *bytes;
    X509_set_version(cert, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 4711);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC, (const unsigned char *)"ours",
                               -1, -1, 0);
    X509_set_issuer_name(cert, X509_get_subject_name(cert));
    if (r->flags & INTERMEDIATE)
        X509_NAME_add_entry_by_txt(X509_get_issuer_name(cert), "O", MBSTRING_ASC,
                                   (const unsigned char *)"above", -1, -1, 0);
    ASN1_TIME_set(X509_getm_notBefore(cert), NOW - 10 * DAY);
    ASN1_TIME_set(X509_getm_notAfter(cert), NOW + r->days * DAY);
    X509_set_pubkey(cert, r->flags & OTHER_KEY ? other : key);
    add(cert, NID_basic_constraints, r->basic);
    add(cert, NID_key_usage, r->usage);
    add(cert, NID_subject_key_identifier, r->key_id);
    assert_true(X509_sign(cert, r->flags & OTHER_KEY ? other : key, EVP_sha256()) > 0);
    BIO *bio = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(bio, cert);
    long n = BIO_get_mem_data(bio, &bytes);
    write_file(dirfd, CA_CERT_FILE, 0644, bytes, (size_t)n);
    BIO_free(bio);
    bio = BIO_new(BIO_s_mem());
    if (r->flags & SEC1 &&
        r->flags & ENCRYPTED) /* by a cipher that OpenSSL has no name for, as it has for none in the keeper */
        PEM_write_bio(bio, PEM_STRING_ECPRIVATEKEY, "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-512-CBC,00\n",
                      (const unsigned char *)"?", 1);
    else if (r->flags & SEC1)
        PEM_write_bio_PrivateKey_traditional(bio, key, NULL, NULL, 0, NULL, NULL);
    else
        PEM_write_bio_PKCS8PrivateKey(bio, key, r->flags & ENCRYPTED ? EVP_aes_128_cbc() : NULL, "pass",
                                      r->flags & ENCRYPTED ? 4 : 0, NULL, NULL);
    n = BIO_get_mem_data(bio, &bytes);
    write_file(dirfd, CA_KEY_FILE, 0600, bytes, (size_t)n);
    BIO_free(bio);
    X509_free(cert);
    EVP_PKEY_free(key);
    EVP_PKEY_free(other);
}

#define CA    "critical,CA:TRUE"
#define SIGN  "critical,keyCertSign"
#define CURVE "P-256"

/* The number's last bit is another. */
static void spoil(EVP_PKEY *key, const char *number, unsigned char *der, size_t n) {
    unsigned char bytes[256];
    BIGNUM *bn = NULL;
    assert_int_equal(EVP_PKEY_get_bn_param(key, number, &bn), 1);
    size_t length = (size_t)BN_bn2bin(bn, bytes);
    unsigned char *at = memmem(der, n, bytes, length);
    assert_non_null(at);
    at[length - 1] ^= 1;
    BN_free(bn);
}

/* The same of RSA, where it does not even help that there are two ways to sign. */
static void test_refuses_halves_of_rsa(void **state) {
    struct state *s = *state;
    const struct recipe recipe = {CA, SIGN, "hash", 900, NULL, 0, 0, NULL};
    char pem[4096], *name, *header, *bytes;
    unsigned char *der;
    long n;
    write_root(s->fd, &recipe);
    int fd = openat(s->fd, CA_KEY_FILE, O_RDONLY);
    ssize_t got = read(fd, pem, sizeof pem);
    close(fd);
    BIO *in = BIO_new_mem_buf(pem, (int)got), *out = BIO_new(BIO_s_mem());
    EVP_PKEY *key = PEM_read_bio_PrivateKey(in, NULL, NULL, NULL);
    assert_non_null(key);
    assert_int_equal(BIO_reset(in), 1);
    assert_int_equal(PEM_read_bio(in, &name, &header, &der, &n), 1);
    spoil(key, "d", der, (size_t)n);
    spoil(key, "rsa-exponent1", der, (size_t)n);
    assert_true(PEM_write_bio(out, name, header, der, n) > 0);
    n = BIO_get_mem_data(out, &bytes);
    write_file(s->fd, CA_KEY_FILE, 0600, bytes, (size_t)n);
    open_fails(s->fd, NOW, ERR_PARSE, "does not belong to its public one");
    write_file(s->fd, CA_KEY_FILE, 0600, pem, (size_t)got);
    ca_root_free(open_ok(s->fd, NOW));
    OPENSSL_free(name);
    OPENSSL_free(header);
    OPENSSL_free(der);
    EVP_PKEY_free(key);
    BIO_free(in);
    BIO_free(out);
}

static void test_operators_root(void **state) {
    struct state *s = *state;
    const struct recipe rows[] = {
        {CA, SIGN, "hash", 900, CURVE, 0, 0, NULL},
        {CA, SIGN, "hash", 1, CURVE, 0, 0, NULL}, /* near its end: that is his matter */
        {CA, SIGN, "hash", 900, "P-384", 0, 0, NULL},
        {CA, SIGN, "hash", 900, NULL, 0, 0, NULL}, /* RSA */
        {CA, SIGN, "hash", 900, CURVE, SEC1, 0, NULL},
        {CA, SIGN, NULL, 900, CURVE, 0, ERR_PARSE, "subject key identifier"},
        {"CA:TRUE", SIGN, "hash", 900, CURVE, 0, ERR_PARSE, "basicConstraints is not critical"},
        {"critical,CA:FALSE", SIGN, "hash", 900, CURVE, 0, ERR_PARSE, "no basicConstraints CA:TRUE"},
        {NULL, SIGN, "hash", 900, CURVE, 0, ERR_PARSE, "no basicConstraints CA:TRUE"},
        {CA, NULL, "hash", 900, CURVE, 0, ERR_PARSE, "keyCertSign"},
        {CA, "critical,digitalSignature", "hash", 900, CURVE, 0, ERR_PARSE, "keyCertSign"},
        {CA, "keyCertSign", "hash", 900, CURVE, 0, ERR_PARSE, "keyUsage is not critical"},
        {CA, SIGN, "hash", -1, CURVE, 0, ERR_PARSE, "has expired"},
        {CA, SIGN, "hash", 900, CURVE, OTHER_KEY, ERR_PARSE, "do not belong together"},
        {CA, SIGN, "hash", 900, CURVE, INTERMEDIATE, ERR_PARSE, "not self-signed"},
        {CA, SIGN, "hash", 900, CURVE, ENCRYPTED, ERR_UNSUPPORTED, "is encrypted"},
        {CA, SIGN, "hash", 900, CURVE, ENCRYPTED | SEC1, ERR_UNSUPPORTED, "is encrypted"},
        {CA, SIGN, "hash", 900, "secp256k1", 0, ERR_UNSUPPORTED, "a kind that clients refuse"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_root(s->fd, &rows[i]);
        if (rows[i].err) {
            open_fails(s->fd, NOW, rows[i].err, rows[i].says);
            continue;
        }
        struct ca_root *root = open_ok(s->fd, NOW);
        assert_int_equal(root_end(root), NOW + rows[i].days * DAY);
        ca_root_free(root);
    }
    write_root(s->fd, &rows[0]);
    open_fails(s->fd, NOW - 20 * DAY, ERR_PARSE, "not yet valid");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_made_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_extensions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_two_first_users, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_key_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_renewed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refuses_open_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refuses_other_things, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refuses_halves_of_two, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refuses_halves_of_rsa, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_operators_root, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("ca_root", tests, NULL, NULL);
}
