/* ca/mint: leaves that strict clients take, for names that were checked, within the root's dates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/ca_support.h"

struct state {
    char path[32];
    int fd;
    struct ca_root *root;
    X509 *root_cert;
    EVP_PKEY *key;
    unsigned char *bytes;
    struct slice spki;
    struct buf der;
};

static int set_up(void **state) {
    struct state *s = calloc(1, sizeof *s);
    struct errmsg msg = {""};
    s->fd = state_dir(s->path);
    if (ca_root_open(s->fd, NOW, &s->root, &msg))
        fail_msg("%s", msg.text);
    s->root_cert = root_cert(s->root);
    s->key = new_key(&s->bytes, &s->spki);
    buf_init(&s->der, CA_DER_MAX);
    *state = s;
    return 0;
}

static int tear_down(void **state) {
    struct state *s = *state;
    buf_release(&s->der);
    OPENSSL_free(s->bytes);
    EVP_PKEY_free(s->key);
    X509_free(s->root_cert);
    ca_root_free(s->root);
    state_remove(s->path, s->fd);
    free(s);
    return 0;
}

static X509 *mint(struct state *s, const char *name, int64_t now) {
    struct errmsg msg = {""};
    buf_clear(&s->der);
    if (ca_mint(s->root, slice_str(name), s->spki, now, &s->der, &msg))
        fail_msg("%s: %s", name, msg.text);
    return cert_of(buf_slice(&s->der));
}

/* As a strict client verifies: X509_V_FLAG_X509_STRICT, purpose, name. The error, or 0. */
static int verify(struct state *s, X509 *leaf, const char *host, const char *ip, int64_t at) {
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();
    X509_STORE_add_cert(store, s->root_cert);
    X509_STORE_CTX_init(ctx, store, leaf, NULL);
    X509_STORE_CTX_set_purpose(ctx, X509_PURPOSE_SSL_SERVER);
    X509_STORE_CTX_set_flags(ctx, X509_V_FLAG_X509_STRICT | X509_V_FLAG_CHECK_SS_SIGNATURE);
    X509_STORE_CTX_set_time(ctx, 0, (time_t)at);
    X509_VERIFY_PARAM *param = X509_STORE_CTX_get0_param(ctx);
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    if (host)
        X509_VERIFY_PARAM_set1_host(param, host, 0);
    if (ip)
        X509_VERIFY_PARAM_set1_ip_asc(param, ip);
    int r = X509_verify_cert(ctx) == 1 ? 0 : X509_STORE_CTX_get_error(ctx);
    X509_STORE_CTX_free(ctx);
    X509_STORE_free(store);
    return r;
}

static void test_names(void **state) {
    static const struct {
        const char *name, *host, *ip, *not_host, *not_ip;
    } rows[] = {
        {"a.test", "a.test", NULL, "b.test", "10.0.0.1"},
        {"a.test", "A.TEST", NULL, "x.a.test", NULL},
        {"localhost", "localhost", NULL, "a.test", NULL},
        {"under_score.a.test", "under_score.a.test", NULL, NULL, NULL},
        {"192.0.2.7", NULL, "192.0.2.7", "192.0.2.7", "192.0.2.8"},
        {"[2001:db8::1]", NULL, "2001:db8::1", "2001:db8::1", "2001:db8::2"},
        {"[::ffff:127.0.0.1]", NULL, "::ffff:127.0.0.1", NULL, "127.0.0.1"},
    };
    struct state *s = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        X509 *leaf = mint(s, rows[i].name, NOW);
        assert_int_equal(verify(s, leaf, rows[i].host, rows[i].ip, NOW), 0);
        if (rows[i].not_host)
            assert_int_equal(verify(s, leaf, rows[i].not_host, NULL, NOW), X509_V_ERR_HOSTNAME_MISMATCH);
        if (rows[i].not_ip)
            assert_int_equal(verify(s, leaf, NULL, rows[i].not_ip, NOW), X509_V_ERR_IP_ADDRESS_MISMATCH);
        X509_free(leaf);
    }
}

/* A common name has room for 64 characters; a host name may have 253. */
static void test_long_names(void **state) {
    struct state *s = *state;
    char name[254] = "";
    for (size_t i = 0; i < 253; i++)
        name[i] = i % 62 == 61 ? '.' : 'a';
    X509 *leaf = mint(s, name, NOW);
    char cn[300];
    assert_int_equal(X509_NAME_get_text_by_NID(X509_get_subject_name(leaf), NID_commonName, cn, sizeof cn),
                     -1);
    assert_int_equal(verify(s, leaf, name, NULL, NOW), 0);
    X509_free(leaf);
    name[64] = '\0';
    leaf = mint(s, name, NOW);
    assert_int_equal(X509_NAME_get_text_by_NID(X509_get_subject_name(leaf), NID_commonName, cn, sizeof cn),
                     64);
    assert_int_equal(verify(s, leaf, name, NULL, NOW), 0);
    X509_free(leaf);
}

static void test_refused_names(void **state) {
    static const char *const rows[] = {
        "",      ".",   "A.test", "a.test.", "*.a.test",       "a b",        "a.test/",  "a,DNS:b",
        "127.1", "::1", "[::1",   "a..test", "[2001:db8::01]", "a.test:443", "u@a.test", "b\xc3\xbc.test"};
    struct state *s = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        buf_clear(&s->der);
        if (ca_mint(s->root, slice_str(rows[i]), s->spki, NOW, &s->der, NULL) != ERR_PARSE)
            fail_msg("'%s' was certified", rows[i]);
        assert_int_equal(buf_len(&s->der), 0);
    }
    assert_int_equal(ca_mint(s->root, slice_make("a.test\0.b.test", 14), s->spki, NOW, &s->der, NULL),
                     ERR_PARSE);
}

static void test_refused_keys(void **state) {
    struct state *s = *state;
    char bytes[CA_SPKI_MAX + 1] = {0};
    memcpy(bytes, s->spki.p, s->spki.n);
    const struct slice rows[] = {SLICE_NONE, SLICE("x"), slice_make(bytes, s->spki.n - 1),
                                 slice_make(bytes, s->spki.n + 1), slice_make(bytes, sizeof bytes)};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(ca_mint(s->root, SLICE("a.test"), rows[i], NOW, &s->der, NULL), ERR_PARSE);
    bytes[26] = 2; /* a compressed point */
    assert_int_equal(ca_mint(s->root, SLICE("a.test"), slice_make(bytes, s->spki.n), NOW, &s->der, NULL),
                     ERR_PARSE);
    EVP_PKEY *other = EVP_EC_gen("P-384");
    unsigned char *der = NULL;
    int n = i2d_PUBKEY(other, &der);
    assert_int_equal(ca_mint(s->root, SLICE("a.test"), slice_make(der, (size_t)n), NOW, &s->der, NULL),
                     ERR_PARSE);
    EVP_PKEY_free(other);
    OPENSSL_free(der);
    assert_int_equal(buf_len(&s->der), 0);
    X509_free(mint(s, "a.test", NOW));
}

static void test_extensions(void **state) {
    struct state *s = *state;
    X509 *leaf = mint(s, "a.test", NOW);
    assert_int_equal(X509_get_version(leaf), X509_VERSION_3);
    assert_int_equal(X509_get_extended_key_usage(leaf), XKU_SSL_SERVER);
    assert_int_equal(X509_get_key_usage(leaf), KU_DIGITAL_SIGNATURE);
    assert_int_equal(
        X509_EXTENSION_get_critical(X509_get_ext(leaf, X509_get_ext_by_NID(leaf, NID_key_usage, -1))), 1);
    assert_int_equal(
        ASN1_OCTET_STRING_cmp(X509_get0_authority_key_id(leaf), X509_get0_subject_key_id(s->root_cert)), 0);
    assert_int_equal(ASN1_STRING_length(X509_get0_subject_key_id(leaf)), 20);
    assert_int_equal(X509_check_ca(leaf), 0);
    assert_int_equal(X509_get_ext_count(leaf), 5);
    assert_int_equal(EVP_PKEY_eq(X509_get0_pubkey(leaf), s->key), 1);
    X509_free(leaf);
}

static void test_serials(void **state) {
    struct state *s = *state;
    unsigned char seen[64][20];
    for (size_t i = 0; i < 64; i++) {
        X509 *leaf = mint(s, "a.test", NOW);
        const ASN1_INTEGER *serial = X509_get0_serialNumber(leaf);
        assert_int_equal(ASN1_STRING_type(serial), V_ASN1_INTEGER);
        assert_int_equal(ASN1_STRING_length(serial), 16);
        assert_true(ASN1_STRING_get0_data(serial)[0] < 0x80 && ASN1_STRING_get0_data(serial)[0] > 0);
        memcpy(seen[i], ASN1_STRING_get0_data(serial), 16);
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(seen[i], seen[j], 16);
        X509_free(leaf);
    }
}

static void test_dates(void **state) {
    struct state *s = *state;
    X509 *leaf = mint(s, "a.test", NOW);
    int64_t from = time_of(X509_get0_notBefore(leaf)), to = time_of(X509_get0_notAfter(leaf));
    assert_true(from <= NOW - DAY);
    assert_int_equal(to - from, CA_LEAF_DAYS * DAY);
    /* clients whose clock is half a day off */
    assert_int_equal(verify(s, leaf, "a.test", NULL, NOW - DAY / 2), 0);
    assert_int_equal(verify(s, leaf, "a.test", NULL, NOW + DAY / 2), 0);
    X509_free(leaf);

    int64_t end = root_end(s->root);
    leaf = mint(s, "a.test", end - DAY);
    assert_int_equal(time_of(X509_get0_notAfter(leaf)), end);
    X509_free(leaf);

    int64_t begin = time_of(X509_get0_notBefore(s->root_cert));
    leaf = mint(s, "a.test", begin + 3600);
    assert_int_equal(time_of(X509_get0_notBefore(leaf)), begin);
    X509_free(leaf);

    buf_clear(&s->der);
    assert_int_equal(ca_mint(s->root, SLICE("a.test"), s->spki, end + 1, &s->der, NULL), ERR_CRYPTO);
    assert_int_equal(ca_mint_for(s->root, SLICE("a.test"), s->spki, NOW, 5, &s->der, NULL), 0);
    leaf = cert_of(buf_slice(&s->der));
    assert_int_equal(time_of(X509_get0_notAfter(leaf)), NOW + 5);
    assert_int_equal(verify(s, leaf, "a.test", NULL, NOW + 6), X509_V_ERR_CERT_HAS_EXPIRED);
    X509_free(leaf);
}

/* From 2050 on a year has four digits in a certificate. */
static void test_four_digit_years(void **state) {
    struct state *s = *state;
    int64_t later = 2524608000 - 10 * (int64_t)DAY; /* ten days before 2050 */
    ca_root_free(s->root);
    assert_int_equal(ca_root_open(s->fd, later, &s->root, NULL), 0);
    X509_free(s->root_cert);
    s->root_cert = root_cert(s->root);
    X509 *leaf = mint(s, "a.test", later);
    assert_int_equal(ASN1_STRING_type(X509_get0_notBefore(leaf)), V_ASN1_UTCTIME);
    assert_int_equal(ASN1_STRING_type(X509_get0_notAfter(leaf)), V_ASN1_GENERALIZEDTIME);
    assert_int_equal(time_of(X509_get0_notAfter(leaf)), later + 29 * (int64_t)DAY);
    assert_int_equal(verify(s, leaf, "a.test", NULL, later + 20 * (int64_t)DAY), 0);
    X509_free(leaf);
}

/* Each worker has a key of its own. */
static void test_many_keys(void **state) {
    struct state *s = *state;
    for (int i = 0; i < 40; i++) {
        unsigned char *bytes;
        struct slice spki;
        EVP_PKEY *key = new_key(&bytes, &spki);
        buf_clear(&s->der);
        assert_int_equal(ca_mint(s->root, SLICE("a.test"), spki, NOW, &s->der, NULL), 0);
        X509 *leaf = cert_of(buf_slice(&s->der));
        assert_int_equal(EVP_PKEY_eq(X509_get0_pubkey(leaf), key), 1);
        X509_free(leaf);
        leaf = mint(s, "a.test", NOW);
        assert_int_equal(EVP_PKEY_eq(X509_get0_pubkey(leaf), s->key), 1);
        X509_free(leaf);
        EVP_PKEY_free(key);
        OPENSSL_free(bytes);
    }
}

static void test_full_buffer(void **state) {
    struct state *s = *state;
    struct buf small;
    buf_init(&small, 100);
    assert_int_equal(ca_mint(s->root, SLICE("a.test"), s->spki, NOW, &small, NULL), ERR_LIMIT);
    assert_int_equal(buf_len(&small), 0);
    buf_release(&small);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_long_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused_keys, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_extensions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_serials, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_dates, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_four_digit_years, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_keys, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_full_buffer, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("ca_mint", tests, NULL, NULL);
}
