/* ca/bundle: what is collected, cleaned, and written for Java; and where JVMs are found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ctype.h>
#include <sys/wait.h>

#include <openssl/pem.h>

#include "ca/bundle.h"
#include "ca/pem.h"
#include "ca/sha1.h"
#include "ca/upstream.h"
#include "tests/unit/ca_support.h"

struct state {
    char path[32], other_path[32];
    int fd, other_fd;
    struct ca_root *root, *other;
};

static int set_up(void **state) {
    struct state *s = calloc(1, sizeof *s);
    s->fd = state_dir(s->path);
    s->other_fd = state_dir(s->other_path);
    assert_int_equal(ca_root_open(s->fd, NOW, &s->root, NULL), 0);
    assert_int_equal(ca_root_open(s->other_fd, NOW, &s->other, NULL), 0);
    unsetenv("SSL_CERT_FILE");
    unsetenv("SSL_CERT_DIR");
    *state = s;
    return 0;
}

static int tear_down(void **state) {
    struct state *s = *state;
    unsetenv("SSL_CERT_FILE");
    unsetenv("SSL_CERT_DIR");
    ca_root_free(s->root);
    ca_root_free(s->other);
    unlinkat(s->fd, "bundle", 0);
    unlinkat(s->other_fd, "more", 0);
    state_remove(s->path, s->fd);
    state_remove(s->other_path, s->other_fd);
    free(s);
    return 0;
}

static const char *in(const char *dir, const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void put_file(const char *path, const struct slice *parts, size_t n) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (size_t i = 0; i < n; i++)
        fwrite(parts[i].p, 1, parts[i].n, f);
    fclose(f);
}

static size_t count(struct slice text, const char *word) {
    size_t n = 0;
    for (size_t i = 0; i + strlen(word) <= text.n; i++)
        n += memcmp(text.p + i, word, strlen(word)) == 0;
    return n;
}

/* Comments, doubled certificates, keys and rubbish are left out; both variables are read. */
static void test_named_roots(void **state) {
    struct state *s = *state;
    struct buf pem;
    size_t n = 0;
    const struct slice parts[] = {
        SLICE("# a comment\n"),
        ca_root_pem(s->root),
        SLICE("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        SLICE("-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\nCN=x\n"),
        ca_root_pem(s->root),
        SLICE("-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n"),
        ca_root_pem(s->other)};
    put_file(in(s->path, "bundle"), parts, sizeof parts / sizeof *parts);
    setenv("SSL_CERT_FILE", in(s->path, "bundle"), 1);
    buf_init(&pem, CA_BUNDLE_MAX);
    assert_int_equal(ca_system_roots(&pem, NULL, &n, NULL), 0);
    assert_int_equal(n, 2);
    assert_int_equal(count(buf_slice(&pem), "BEGIN CERTIFICATE"), 2);
    assert_int_equal(count(buf_slice(&pem), "PRIVATE KEY"), 0);
    assert_int_equal(count(buf_slice(&pem), "comment"), 0);

    put_file(in(s->path, "bundle"), parts, 2);
    put_file(in(s->other_path, "more"), parts + 6, 1);
    setenv("SSL_CERT_DIR", s->other_path, 1);
    buf_clear(&pem);
    assert_int_equal(ca_system_roots(&pem, NULL, &n, NULL), 0);
    assert_int_equal(n, 2);

    setenv("SSL_CERT_FILE", "/nonexistent", 1);
    struct errmsg msg = {""};
    assert_int_equal(ca_system_roots(&pem, NULL, &n, &msg), ERR_IO);
    assert_non_null(strstr(msg.text, "/nonexistent"));
    buf_release(&pem);
}

/* The certificate of `text` with `with` in place of the first `what`. */
static struct slice changed(struct slice text, const char *what, const char *with, char *out, size_t cap) {
    const char *at = memmem(text.p, text.n, what, strlen(what));
    assert_non_null(at);
    size_t n = (size_t)(at - text.p);
    return slice_make(out, (size_t)snprintf(out, cap, "%.*s%s%.*s", (int)n, text.p, with,
                                            (int)(text.n - n - strlen(what)), at + strlen(what)));
}

/* What is a block of base64 with the right ends, and what is none. */
static void test_forms(void **state) {
    static const struct {
        const char *what, *with;
        size_t found;
    } cases[] = {
        {"BEGIN CERT", "BEGIN CERT", 1},
        {"\n", "\r\n", 1},
        {"\n", "  \n", 1},
        {"\n", "\n\n", 1},
        {"\nM", "M", 1},
        {"-----BEGIN", " -----BEGIN", 0},
        {"BEGIN CERT", "BEGIN X509 CERT", 0},
        {"BEGIN CERT", "BEGIN NO CERT", 0},
        {"-----END CERT", "-----END TRUSTED CERT", 0},
        {"-----END", "----END", 0},
        {"\nMII", "\nMII-", 0},
        {"\nMII", "\nMII=", 0},
        {"\nMII", "\nMIII", 0},
        {"\nMII", "\nMI", 0},
        {"\nMII", "\nProc-Type: 4,ENCRYPTED\n\nMII", 0},
    };
    struct state *s = *state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[4096];
        struct buf pem;
        struct errmsg msg;
        const struct slice parts[] = {
            changed(ca_root_pem(s->root), cases[i].what, cases[i].with, text, sizeof text),
            ca_root_pem(s->other), SLICE("-----BEGIN CERTIFICATE-----\nMIIB")};
        put_file(in(s->path, "bundle"), parts, 3);
        buf_init(&pem, CA_BUNDLE_MAX);
        assert_int_equal(ca_file_roots(in(s->path, "bundle"), &pem, NULL, &msg), 0);
        /* whatever is wrong with the first one, the second one is found, in our own form */
        assert_int_equal(count(buf_slice(&pem), "BEGIN CERTIFICATE"), 1 + cases[i].found);
        assert_true(slice_ends(buf_slice(&pem), ca_root_pem(s->other)));
        if (cases[i].found)
            assert_true(slice_starts(buf_slice(&pem), ca_root_pem(s->root)));
        buf_release(&pem);
    }
}

static void test_file_roots(void **state) {
    struct state *s = *state;
    struct buf pem;
    struct errmsg msg = {""};
    buf_init(&pem, CA_BUNDLE_MAX);
    assert_int_equal(ca_file_roots(in(s->path, CA_CERT_FILE), &pem, NULL, &msg), 0);
    assert_true(slice_eq(buf_slice(&pem), ca_root_pem(s->root)));
    /* what is there already is not put there again, and was found all the same */
    assert_int_equal(ca_file_roots(in(s->path, CA_CERT_FILE), &pem, NULL, &msg), 0);
    assert_true(slice_eq(buf_slice(&pem), ca_root_pem(s->root)));
    assert_int_equal(ca_file_roots(in(s->path, CA_KEY_FILE), &pem, NULL, &msg), ERR_PARSE);
    assert_non_null(strstr(msg.text, "holds no certificate"));
    assert_int_equal(ca_file_roots(in(s->path, "none"), &pem, NULL, &msg), ERR_IO);
    assert_int_equal(ca_file_roots(s->path, &pem, NULL, &msg), ERR_IO);
    buf_release(&pem);
}

/* What the record of files has is not read: here it was of another text, so nothing is found, which is no error. */
static void test_read_before(void **state) {
    struct state *s = *state;
    struct buf pem;
    struct errmsg msg = {""};
    static struct ca_read read;
    char second[96];
    snprintf(second, sizeof second, "%s/more", s->other_path);
    assert_int_equal(symlink(in(s->path, CA_CERT_FILE), second), 0);
    buf_init(&pem, CA_BUNDLE_MAX);
    setenv("SSL_CERT_FILE", in(s->path, CA_CERT_FILE), 1);
    assert_int_equal(ca_system_roots(&pem, &read, NULL, NULL), 0);
    assert_int_equal(read.n, 1);
    buf_clear(&pem);
    assert_int_equal(ca_file_roots(second, &pem, &read, &msg), 0);
    assert_int_equal(buf_len(&pem), 0);
    assert_int_equal(ca_file_roots(in(s->other_path, CA_CERT_FILE), &pem, &read, &msg), 0);
    assert_true(slice_eq(buf_slice(&pem), ca_root_pem(s->other)));
    read.n = 0;
    assert_int_equal(ca_file_roots(second, &pem, &read, &msg), 0);
    assert_true(slice_ends(buf_slice(&pem), ca_root_pem(s->root)));
    buf_release(&pem);
}

/* 0, or why `cert` is not trusted by `ctx`; as a CA that is asked about itself. */
static int trusts(SSL_CTX *ctx, X509 *cert) {
    X509_STORE_CTX *v = X509_STORE_CTX_new();
    X509_STORE_CTX_init(v, SSL_CTX_get_cert_store(ctx), cert, NULL);
    X509_STORE_CTX_set_flags(v, X509_V_FLAG_NO_CHECK_TIME);
    int r = X509_verify_cert(v) == 1 ? 0 : X509_STORE_CTX_get_error(v);
    X509_STORE_CTX_free(v);
    return r;
}

/* Every root of the host is found again, more than once; none that is not there. */
static void test_host_roots(void **state) {
    struct state *s = *state;
    struct buf pem;
    size_t n = 0, seen = 0;
    SSL_CTX *ctx = NULL;
    buf_init(&pem, CA_BUNDLE_MAX);
    assert_int_equal(ca_system_roots(&pem, NULL, &n, NULL), 0);
    assert_int_equal(ca_upstream_new(buf_slice(&pem), ca_root_pem(s->root), &ctx, NULL), 0);
    for (int round = 0; round < 2; round++) {
        BIO *bio = BIO_new_mem_buf(buf_slice(&pem).p, (int)buf_len(&pem));
        X509 *cert;
        while ((cert = PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
            assert_int_equal(trusts(ctx, cert), 0);
            X509_free(cert);
            seen++;
        }
        BIO_free(bio);
    }
    assert_int_equal(seen, 2 * n);
    X509 *ours = root_cert(s->root), *other = root_cert(s->other);
    assert_int_equal(trusts(ctx, ours), 0);
    assert_int_equal(trusts(ctx, other), X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT);
    X509_free(ours);
    X509_free(other);
    SSL_CTX_free(ctx);
    buf_release(&pem);
}

static uint64_t be(struct slice s, size_t at, size_t n) {
    uint64_t v = 0;
    assert_true(at + n <= s.n);
    for (size_t i = 0; i < n; i++)
        v = v << 8 | (unsigned char)s.p[at + i];
    return v;
}

/* `pem` as a key store. */
static int make_jks(struct slice pem, uint64_t now_ms, struct buf *out) {
    struct ca_jks j;
    int r = ca_jks_begin(&j, out, pem.n, now_ms);
    if (r == 0)
        r = ca_jks_add(&j, pem);
    return r ? r : ca_jks_end(&j);
}

static void test_jks(void **state) {
    struct state *s = *state;
    struct buf pem, jks;
    buf_init(&pem, CA_BUNDLE_MAX);
    buf_init(&jks, CA_BUNDLE_MAX);
    buf_put(&pem, ca_root_pem(s->root));
    buf_put(&pem, ca_root_pem(s->other));
    assert_int_equal(make_jks(buf_slice(&pem), 1234567890123, &jks), 0);
    struct slice b = buf_slice(&jks);
    assert_int_equal(be(b, 0, 4), 0xfeedfeed);
    assert_int_equal(be(b, 4, 4), 2);
    assert_int_equal(be(b, 8, 4), 2);
    size_t at = 12;
    for (int i = 0; i < 2; i++) {
        X509 *cert = root_cert(i ? s->other : s->root);
        assert_int_equal(be(b, at, 4), 2);
        at += 4;
        at += 2 + be(b, at, 2);
        assert_int_equal(be(b, at, 8), 1234567890123);
        at += 8;
        assert_int_equal(be(b, at, 2), 5);
        assert_memory_equal(b.p + at + 2, "X.509", 5);
        at += 7;
        size_t n = be(b, at, 4);
        X509 *found = cert_of(slice_sub(b, at + 4, n));
        assert_int_equal(X509_cmp(found, cert), 0);
        X509_free(found);
        X509_free(cert);
        at += 4 + n;
    }
    assert_int_equal(b.n, at + 20);

    struct buf small;
    buf_init(&small, 400);
    assert_int_equal(make_jks(buf_slice(&pem), 0, &small), ERR_LIMIT);
    buf_release(&small);
    buf_release(&pem);
    buf_release(&jks);
}

/* The same bytes, asked for from a JVM, where one is there. */
static void test_keytool(void **state) {
    struct state *s = *state;
    struct buf jks;
    char command[512];
    if (access("/usr/bin/keytool", X_OK) < 0)
        skip();
    buf_init(&jks, CA_BUNDLE_MAX);
    assert_int_equal(make_jks(ca_root_pem(s->root), 1700000000000, &jks), 0);
    struct slice part = buf_slice(&jks);
    put_file(in(s->path, "bundle"), &part, 1);
    snprintf(command, sizeof command,
             "/usr/bin/keytool -list -rfc -keystore %s/bundle -storepass " CA_JKS_PASSWORD
             " 2>/dev/null | openssl x509 | cmp - %s/" CA_CERT_FILE,
             s->path, s->path);
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    buf_release(&jks);
}

static bool holds(const struct ca_paths *p, const char *path) {
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->list[i], path) == 0)
            return true;
    return false;
}

static void test_java_paths(void **state) {
    struct state *s = *state;
    char home[64], jvm[96], file[128], java[128], search[160];
    struct ca_paths p = {0};
    snprintf(home, sizeof home, "%s/home", s->path);
    snprintf(jvm, sizeof jvm, "%s/jdk-21", home);
    snprintf(file, sizeof file, "%s/lib/security/cacerts", jvm);
    snprintf(java, sizeof java, "%s/bin/java", jvm);
    snprintf(search, sizeof search, "/nonexistent::%s/bin", jvm);
    const char *dirs[] = {"home", "home/jdk-21", "home/jdk-21/lib", "home/jdk-21/lib/security",
                          "home/jdk-21/bin"};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(mkdirat(s->fd, dirs[i], 0700), 0);
    put_file(file, NULL, 0);
    put_file(java, NULL, 0);
    assert_int_equal(chmod(java, 0700), 0);

    assert_int_equal(ca_java_paths(NULL, NULL, NULL, &p), 0);
    assert_false(holds(&p, file));
    ca_paths_release(&p);
    assert_int_equal(ca_java_paths(jvm, NULL, NULL, &p), 0);
    assert_true(holds(&p, file));
    size_t n = p.n;
    assert_int_equal(ca_java_paths(jvm, search, NULL, &p), 0); /* each once */
    assert_int_equal(p.n, n);
    ca_paths_release(&p);
    assert_int_equal(ca_java_paths(NULL, search, NULL, &p), 0);
    assert_true(holds(&p, file));
    ca_paths_release(&p);
    assert_int_equal(unlink(file) | unlink(java), 0);
    for (size_t i = 5; i-- > 0;)
        assert_int_equal(unlinkat(s->fd, dirs[i], AT_REMOVEDIR), 0);
}

/* --- base64, beside OpenSSL's ------------------------------------------------------------------------------------------ */

/* The outer form of a certificate, `n` bytes in all. */
static void fill_form(unsigned char *der, size_t n) {
    static const unsigned char begin[] = {0x30, 0x81, 0, 0x30, 0, 0x30, 0, 0x03, 0x81, 0};
    memcpy(der, begin, sizeof begin);
    der[2] = (unsigned char)(n - 3);
    der[9] = (unsigned char)(n - sizeof begin);
    for (size_t i = sizeof begin; i < n; i++)
        der[i] = (unsigned char)(i * 89 + n);
}

static int keep_der(void *arg, struct slice der) {
    return buf_put(arg, der);
}

static void assert_read(struct slice pem, struct slice der) {
    struct buf read;
    buf_init(&read, CA_BUNDLE_MAX);
    assert_int_equal(pem_each(pem, keep_der, &read), 0);
    assert_true(slice_eq(buf_slice(&read), der));
    buf_release(&read);
}

/* Every length of the last line, as OpenSSL writes it, and with other line ends and lengths. */
static void test_pem_lengths(void **state) {
    (void)state;
    for (size_t n = 10 + 128; n < 255; n++) {
        unsigned char der[255];
        char *text, with_returns[1024];
        size_t at = 0;
        fill_form(der, n);
        BIO *bio = BIO_new(BIO_s_mem());
        assert_true(PEM_write_bio(bio, PEM_STRING_X509, "", der, (long)n) > 0);
        size_t size = (size_t)BIO_get_mem_data(bio, &text);
        struct buf written;
        buf_init(&written, CA_BUNDLE_MAX);
        assert_int_equal(pem_put(&written, slice_make(der, n)), 0);
        assert_true(slice_eq(buf_slice(&written), slice_make(text, size)));
        assert_read(buf_slice(&written), slice_make(der, n));
        for (size_t i = 0; i < size; i++) {
            if (i > 40 && i < size - 40 && i % 13 == n % 13)
                with_returns[at++] = ' ';
            if (text[i] == '\n' && i > 40 && i < size - 30)
                with_returns[at++] = '\r';
            with_returns[at++] = text[i];
        }
        assert_read(slice_make(with_returns, at), slice_make(der, n));
        buf_release(&written);
        BIO_free(bio);
    }
}

/* One character of the last group exchanged: no certificate, unless it is another digit. */
static void test_pem_digits(void **state) {
    (void)state;
    for (size_t n = 200; n < 203; n++) {
        unsigned char der[255];
        struct buf text;
        fill_form(der, n);
        buf_init(&text, CA_BUNDLE_MAX);
        assert_int_equal(pem_put(&text, slice_make(der, n)), 0);
        size_t size = buf_len(&text), end = size - strlen("\n-----END CERTIFICATE-----\n");
        assert_read(buf_slice(&text), slice_make(der, n));
        for (size_t i = end - 8; i < end; i++)
            for (unsigned c = 0; c < 256; c++) {
                char *p = (char *)buf_slice(&text).p + i, was = *p;
                struct buf read;
                buf_init(&read, CA_BUNDLE_MAX);
                bool digit = isalnum((int)c) || c == '+' || c == '/';
                *p = (char)c;
                assert_int_equal(pem_each(buf_slice(&text), keep_der, &read), 0);
                if (*p == was || (digit && was != '='))
                    assert_int_equal(buf_len(&read), n);
                else if (!digit && c != '=')
                    assert_int_equal(buf_len(&read), 0);
                else
                    assert_true(buf_len(&read) == 0 || buf_len(&read) == n);
                *p = was;
                buf_release(&read);
            }
        buf_release(&text);
    }
}

/* Every length about the edges of a block, in one text and in several, against OpenSSL's. */
static void test_sha1(void **state) {
    unsigned char text[300], got[SHA1_SIZE], want[SHA1_SIZE];
    (void)state;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (unsigned char)(i * 37 + 11);
    for (size_t n = 0; n <= sizeof text; n++) {
        assert_int_equal(EVP_Digest(text, n, want, NULL, EVP_sha1(), NULL), 1);
        for (size_t cut = 0; cut <= n; cut += 1 + n / 7) {
            struct slice parts[] = {slice_make(text, cut), SLICE_NONE, slice_make(text + cut, n - cut)};
            sha1_of(parts, 3, got);
            assert_memory_equal(got, want, sizeof want);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pem_lengths),
        cmocka_unit_test(test_pem_digits),
        cmocka_unit_test(test_sha1),
        cmocka_unit_test_setup_teardown(test_named_roots, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_forms, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_file_roots, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_read_before, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_host_roots, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_jks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_keytool, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_java_paths, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("ca_bundle", tests, NULL, NULL);
}
