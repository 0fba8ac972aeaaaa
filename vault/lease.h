/*
 * Leases: header values that the keeper rendered, kept by a worker for a moment, so that a busy sandbox does not cost a
 * question to the keeper for each request.
 *
 * The keeper decides for how long (VAULT_LEASE_MS at most), and only for a credential whose binding to the origin does
 * not hang on the path. A lease is for one sandbox, one credential, one origin. What a worker that was taken over could
 * gain by it is nothing: it could have asked. Values are in `struct secret`, wiped when their time is over, when
 * another takes their place, and with the table.
 *
 * The table has a fixed size and never fails: what finds no place, or no memory, is not kept, and asked for again.
 */
#ifndef VAULT_LEASE_H
#define VAULT_LEASE_H

#include "base/secret.h"
#include "vault/vault.h"

#define LEASES_MAX 64

struct lease_key {
    uint64_t sandbox;
    struct slice credential;
    struct vault_origin origin;
};

struct lease {
    uint64_t sandbox;
    uint64_t until_ms; /* of clock_monotonic_ms; 0: free */
    uint16_t port;
    uint8_t scheme, credential_n, header_n;
    uint16_t host_n;
    char credential[VAULT_NAME_MAX];
    char header[128]; /* the field's name */
    char host[URL_HOST_MAX];
    struct secret value;
};

/* Zero-initialised is empty. */
struct leases {
    struct lease *list; /* of LEASES_MAX; NULL until there is one */
    size_t used;
};

/* The lease for `key`, or NULL. Good until the next call. */
const struct lease *leases_find(const struct leases *l, const struct lease_key *key, uint64_t now_ms);

/* Copies header and value; keeps them for `keep_ms` from now. */
void leases_put(struct leases *l, const struct lease_key *key, struct slice header, struct slice value,
                uint64_t now_ms, uint32_t keep_ms);

/* Wipes those whose time is over. Returns how many are left. */
size_t leases_expire(struct leases *l, uint64_t now_ms);

/* Wipes all; empty then. */
void leases_release(struct leases *l);

#endif
