#include "vault/lease.h"

#include <stdlib.h>

#include "base/hash.h"

static size_t lease_place(const struct lease_key *key) {
    uint64_t h = hash_bytes(key->sandbox * HASH_SEED ^ key->origin.port, key->credential);
    return hash_bytes(h, key->origin.host) % LEASES_MAX;
}

static bool lease_is(const struct lease *e, const struct lease_key *key) {
    return e->until_ms && e->sandbox == key->sandbox && e->port == key->origin.port &&
           e->scheme == key->origin.scheme &&
           slice_eq(slice_make(e->credential, e->credential_n), key->credential) &&
           slice_eq(slice_make(e->host, e->host_n), key->origin.host);
}

static void lease_end(struct leases *l, struct lease *e) {
    if (e->until_ms == 0)
        return;
    secret_release(&e->value);
    *e = (struct lease){0};
    l->used--;
}

const struct lease *leases_find(const struct leases *l, const struct lease_key *key, uint64_t now_ms) {
    if (l->used == 0)
        return NULL;
    const struct lease *e = &l->list[lease_place(key)];
    return lease_is(e, key) && now_ms < e->until_ms ? e : NULL;
}

void leases_put(struct leases *l, const struct lease_key *key, struct slice header, struct slice value,
                uint64_t now_ms, uint32_t keep_ms) {
    struct lease *e;
    if (keep_ms == 0 || key->credential.n > sizeof e->credential || header.n > sizeof e->header ||
        key->origin.host.n > sizeof e->host)
        return;
    if (!l->list && !(l->list = calloc(LEASES_MAX, sizeof *l->list)))
        return;
    e = &l->list[lease_place(key)];
    lease_end(l, e);
    if (secret_set(&e->value, value))
        return;
    e->sandbox = key->sandbox;
    e->until_ms = now_ms + keep_ms;
    e->port = key->origin.port;
    e->scheme = (uint8_t)key->origin.scheme;
    e->credential_n = (uint8_t)key->credential.n;
    e->header_n = (uint8_t)header.n;
    e->host_n = (uint16_t)key->origin.host.n;
    memcpy(e->credential, key->credential.p, key->credential.n);
    memcpy(e->header, header.p, header.n);
    memcpy(e->host, key->origin.host.p, key->origin.host.n);
    l->used++;
}

size_t leases_expire(struct leases *l, uint64_t now_ms) {
    for (size_t i = 0; l->used && i < LEASES_MAX; i++)
        if (l->list[i].until_ms <= now_ms)
            lease_end(l, &l->list[i]);
    return l->used;
}

void leases_release(struct leases *l) {
    leases_expire(l, UINT64_MAX);
    free(l->list);
    l->list = NULL;
}
