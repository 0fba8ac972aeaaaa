/* vault: how long, for whom and for where a rendered header is kept by a worker. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "vault/lease.h"

static struct lease_key key_of(uint64_t sandbox, const char *credential, const char *host) {
    return (struct lease_key){sandbox, slice_str(credential), {URL_HTTPS, slice_str(host), 443}};
}

static void kept(const struct leases *l, const struct lease_key *key, uint64_t now, const char *value) {
    const struct lease *e = leases_find(l, key, now);
    assert_non_null(e);
    assert_true(slice_eq(secret_slice(&e->value), slice_str(value)));
    assert_true(slice_eq(slice_make(e->header, e->header_n), SLICE("Authorization")));
}

static void put(struct leases *l, const struct lease_key *key, const char *value, uint64_t now, uint32_t ms) {
    leases_put(l, key, SLICE("Authorization"), slice_str(value), now, ms);
}

static void test_its_time(void **state) {
    static struct leases l;
    struct lease_key key = key_of(1, "github", "a.test");
    (void)state;
    put(&l, &key, "SECRET-A", 5000, 1000);
    kept(&l, &key, 5000, "SECRET-A");
    kept(&l, &key, 5999, "SECRET-A");
    assert_null(leases_find(&l, &key, 6000));
    assert_int_equal(leases_expire(&l, 5999), 1);
    const struct lease *e = leases_find(&l, &key, 5999);
    assert_int_equal(leases_expire(&l, 6000), 0);
    assert_null(e->value.bytes);
    assert_null(leases_find(&l, &key, 5000));
    put(&l, &key, "SECRET-B", 7000, 0); /* the keeper says: not at all */
    assert_null(leases_find(&l, &key, 7000));
}

/* A lease is for what was asked, and for nothing that differs in any part. */
static void test_its_key(void **state) {
    static struct leases l;
    struct lease_key key = key_of(1, "github", "a.test"), other;
    (void)state;
    put(&l, &key, "SECRET-A", 0, 1000);
    for (uint64_t i = 2; i < 200; i++) {
        other = key_of(i, "github", "a.test");
        assert_null(leases_find(&l, &other, 1));
    }
    other = key_of(1, "githu", "a.test");
    assert_null(leases_find(&l, &other, 1));
    other = key_of(1, "github", "b.test");
    assert_null(leases_find(&l, &other, 1));
    other = key;
    other.origin.port = 8443;
    assert_null(leases_find(&l, &other, 1));
    other = key;
    other.origin.scheme = URL_HTTP;
    assert_null(leases_find(&l, &other, 1));
    kept(&l, &key, 1, "SECRET-A");
    leases_release(&l);
    assert_null(leases_find(&l, &key, 1));
}

/* More than fit: each is kept as it was put, or not at all. */
static void test_many(void **state) {
    static struct leases l;
    char value[32];
    size_t found = 0;
    (void)state;
    for (uint64_t i = 0; i < 1000; i++) {
        struct lease_key key = key_of(i, "github", "a.test");
        snprintf(value, sizeof value, "SECRET-%u", (unsigned)i);
        put(&l, &key, value, i, 5000);
        kept(&l, &key, i, value);
    }
    for (uint64_t i = 0; i < 1000; i++) {
        struct lease_key key = key_of(i, "github", "a.test");
        snprintf(value, sizeof value, "SECRET-%u", (unsigned)i);
        if (!leases_find(&l, &key, 1000))
            continue;
        kept(&l, &key, 1000, value);
        found++;
    }
    assert_in_range(found, LEASES_MAX / 2, LEASES_MAX);
    assert_int_equal(leases_expire(&l, 1000), found);
    leases_release(&l);
    assert_int_equal(l.used, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_its_time),
        cmocka_unit_test(test_its_key),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
