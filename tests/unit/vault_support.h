/* A vault from a text, with its secrets. */
#ifndef TESTS_UNIT_VAULT_SUPPORT_H
#define TESTS_UNIT_VAULT_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "vault/vault.h"

static inline struct vault *vault_of(const char *folder, const char *text) {
    struct vault *v = NULL;
    struct buf diags;
    buf_init(&diags, 1 << 20);
    if (vault_parse("credentials", folder, slice_str(text), &v, &diags))
        fail_msg("%.*s", SLICE_ARG(buf_slice(&diags)));
    buf_release(&diags);
    return v;
}

/* Resolves it; *said gets the diagnostics, which the caller frees. */
static inline int resolve(struct vault *v, char **said) {
    struct buf diags;
    buf_init(&diags, 1 << 20);
    int r = vault_resolve(v, 3000, &diags);
    *said = strdup(buf_cstr(&diags));
    buf_release(&diags);
    return r;
}

static inline struct vault *open_vault(const char *folder, const char *text) {
    char *said;
    struct vault *v = vault_of(folder, text);
    if (resolve(v, &said))
        fail_msg("%s", said);
    free(said);
    return v;
}

static inline struct vault_origin origin_of(const char *url) {
    static struct url_host host; /* good until the next call */
    struct url_parts parts;
    struct vault_origin o = {0};
    assert_int_equal(url_split(slice_str(url), &parts, NULL), 0);
    o.scheme = parts.scheme;
    assert_int_equal(
        url_authority_parse(parts.authority, url_default_port(parts.scheme), &host, &o.port, NULL), 0);
    o.host = url_host_slice(&host);
    return o;
}

#endif
