#include "vault/bindings.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/url.h"
#include "vault/internal.h"
#include "vault/wire.h"

#define HOSTS_MAX  4096
#define FIELDS_MAX 64

/* What clients and services call the field that a key or a token goes in. Lower case, '-' for '_'. */
static const struct slice usual[] = {
    SLICE("authorization"),   SLICE("proxy-authorization"),
    SLICE("x-authorization"), SLICE("x-api-key"),
    SLICE("api-key"),         SLICE("apikey"),
    SLICE("x-goog-api-key"),  SLICE("x-auth-token"),
    SLICE("x-access-token"),  SLICE("x-api-token"),
    SLICE("private-token"),   SLICE("job-token"),
    SLICE("deploy-token"),    SLICE("x-vault-token"),
    SLICE("x-github-token"),  SLICE("access-token"),
    SLICE("authentication"),  SLICE("http-authorization"),
    SLICE("x-token"),         SLICE("ocp-apim-subscription-key"),
    SLICE("x-jfrog-art-api"), SLICE("x-amz-security-token"),
};

/* One host in the worker's memory; its texts lie behind it. */
struct binding {
    struct slice host;
    struct slice *fields;
    size_t nfields;
};

struct bindings {
    struct binding *list;
    size_t n;
    size_t mask;    /* places - 1 */
    size_t *places; /* index + 1; 0: free */
    char *text;
};

/* --- the keeper's side ---------------------------------------------------------------------------------- */

static char normal(char c) {
    return c == '_' ? '-' : ascii_lower(c);
}

static bool same_field(struct slice a, struct slice b) {
    if (a.n != b.n)
        return false;
    for (size_t i = 0; i < a.n; i++)
        if (normal(a.p[i]) != normal(b.p[i]))
            return false;
    return true;
}

static bool is_usual(struct slice name) {
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (same_field(name, usual[i]))
            return true;
    return false;
}

/* Adds a field that is not usual, once. */
static int add_field(struct slice *fields, size_t *n, const char *name) {
    struct slice s = slice_str(name);
    if (is_usual(s))
        return 0;
    for (size_t i = 0; i < *n; i++)
        if (same_field(fields[i], s))
            return 0;
    if (*n == FIELDS_MAX)
        return ERR_LIMIT;
    fields[(*n)++] = s;
    return 0;
}

static bool names_host(const struct credential *c, struct slice host) {
    for (size_t i = 0; i < c->nscopes; i++)
        if (slice_eq(url_host_slice(&c->scopes[i].host), host))
            return true;
    return false;
}

/* The fields of all credentials that are bound to `host`. */
static int put_host(const struct vault *v, struct slice host, struct msg_out *m) {
    struct slice fields[FIELDS_MAX];
    size_t n = 0;
    int r = 0;
    for (size_t i = 0; i < v->n; i++) {
        const struct credential *c = &v->list[i];
        if (!names_host(c, host))
            continue;
        for (size_t j = 0; r == 0 && j < c->nforms; j++)
            r = add_field(fields, &n, c->forms[j].header);
        for (size_t j = 0; r == 0 && j < c->nremoves; j++)
            r = add_field(fields, &n, c->removes[j]);
    }
    msg_put_slice(m, host);
    msg_put_u32(m, (uint32_t)n);
    for (size_t i = 0; i < n; i++)
        msg_put_slice(m, fields[i]);
    return r;
}

static int host_order(const void *a, const void *b) {
    return slice_cmp(*(const struct slice *)a, *(const struct slice *)b);
}

int bindings_put(const struct vault *v, struct msg_out *m) {
    size_t n = 0, all = 0;
    int r = 0;
    for (size_t i = 0; v && i < v->n; i++)
        all += v->list[i].nscopes;
    struct slice *hosts = calloc(all + 1, sizeof *hosts);
    if (!hosts)
        return ERR_NOMEM;
    for (size_t i = 0; v && i < v->n; i++)
        for (size_t j = 0; j < v->list[i].nscopes; j++)
            hosts[n++] = url_host_slice(&v->list[i].scopes[j].host);
    qsort(hosts, n, sizeof *hosts, host_order);
    size_t unique = 0;
    for (size_t i = 0; i < n; i++)
        if (unique == 0 || !slice_eq(hosts[unique - 1], hosts[i]))
            hosts[unique++] = hosts[i];
    if (unique > HOSTS_MAX)
        r = ERR_LIMIT;
    msg_put_u32(m, (uint32_t)unique);
    for (size_t i = 0; r == 0 && i < unique; i++)
        r = put_host(v, hosts[i], m);
    free(hosts);
    return r ? r : m->err;
}

/* --- the worker's side ---------------------------------------------------------------------------------- */

static uint64_t hash_host(struct slice host) {
    /* the names are the operator's: who asks for a host only looks */
    return hash_bytes(HASH_SEED, host);
}

/* Copies a text of the message to where it stays; the room was measured by the message's length. */
static struct slice keep(char **at, struct slice s) {
    struct slice kept = slice_make(*at, s.n);
    if (s.n)
        memcpy(*at, s.p, s.n);
    *at += s.n;
    return kept;
}

static int get_host(struct msg_in *m, struct binding *one, char **at) {
    struct slice host = msg_get_slice(m);
    uint32_t n = msg_get_u32(m);
    if (m->err || host.n == 0 || host.n > URL_HOST_MAX || n > FIELDS_MAX)
        return ERR_PEER;
    one->host = keep(at, host);
    one->fields = calloc(n + 1, sizeof *one->fields);
    if (!one->fields)
        return ERR_NOMEM;
    for (; one->nfields < n; one->nfields++)
        one->fields[one->nfields] = keep(at, msg_get_slice(m));
    return m->err ? ERR_PEER : 0;
}

static void enter(struct bindings *b, size_t i) {
    size_t at = hash_host(b->list[i].host) & b->mask;
    while (b->places[at])
        at = (at + 1) & b->mask;
    b->places[at] = i + 1;
}

int bindings_get(struct msg_in *m, struct bindings **out) {
    int r = 0;
    uint32_t n = m->type == VAULT_BINDINGS ? msg_get_u32(m) : UINT32_MAX;
    *out = NULL;
    if (m->err || n > HOSTS_MAX)
        return ERR_PEER;
    struct bindings *b = calloc(1, sizeof *b);
    size_t places = 8;
    while (places < (size_t)n * 2 + 1)
        places *= 2;
    if (b) {
        b->mask = places - 1;
        b->list = calloc(n + 1, sizeof *b->list);
        b->places = calloc(places, sizeof *b->places);
        b->text = malloc(m->n + 1);
    }
    if (!b || !b->list || !b->places || !b->text) {
        bindings_free(b);
        return ERR_NOMEM;
    }
    char *at = b->text;
    while (r == 0 && b->n < n) {
        struct binding *one = &b->list[b->n++];
        r = get_host(m, one, &at);
        if (r == 0 && bindings_find(b, one->host))
            r = ERR_PEER;
        if (r == 0)
            enter(b, b->n - 1);
    }
    if (r == 0)
        r = msg_end(m);
    if (r)
        bindings_free(b);
    else
        *out = b;
    return r;
}

void bindings_free(struct bindings *b) {
    if (!b)
        return;
    for (size_t i = 0; i < b->n; i++)
        free(b->list[i].fields);
    free(b->list);
    free(b->places);
    free(b->text);
    free(b);
}

const struct binding *bindings_find(const struct bindings *b, struct slice host) {
    if (!b)
        return NULL;
    for (size_t at = hash_host(host) & b->mask; b->places[at]; at = (at + 1) & b->mask) {
        const struct binding *one = &b->list[b->places[at] - 1];
        if (slice_eq(one->host, host))
            return one;
    }
    return NULL;
}

bool binding_removes(const struct binding *binding, struct slice name) {
    if (!binding)
        return false;
    for (size_t i = 0; i < binding->nfields; i++)
        if (same_field(binding->fields[i], name))
            return true;
    return is_usual(name);
}

/* What services take a key or a token under in a query, '-' for '_'. Not "key" and "token": too many things
 * are called so. */
static const char *const usual_parameters[] = {
    "access-token", "private-token", "job-token",     "deploy-token", "personal-access-token",
    "oauth-token",  "auth-token",    "api-key",       "apikey",       "api-token",
    "x-api-key",    "authorization", "client-secret",
};

/* Percent-decodes a parameter's name; one that is longer than any that we know is cut, and is none of them.
 * */
static struct slice parameter_name(struct slice raw, char *out, size_t cap) {
    size_t n = 0;
    for (size_t i = 0; i < raw.n && n < cap; i++) {
        char c = raw.p[i];
        int byte = c == '%' ? slice_hex_pair(raw, i + 1) : -1;
        if (byte >= 0) {
            c = (char)byte;
            i += 2;
        }
        out[n++] = c;
    }
    return slice_make(out, n);
}

bool binding_refuses_query(const struct binding *binding, struct slice query) {
    struct slice one, name, value;
    char decoded[32];
    while (binding && query.n) {
        size_t n = 0;
        /* some servers take ';' for '&' */
        while (n < query.n && query.p[n] != '&' && query.p[n] != ';')
            n++;
        one = slice_sub(query, 0, n);
        query = slice_from(query, n + 1);
        slice_cut(one, '=', &name, &value);
        name = parameter_name(name, decoded, sizeof decoded);
        for (size_t i = 0; i < sizeof usual_parameters / sizeof *usual_parameters; i++)
            if (same_field(name, slice_str(usual_parameters[i])))
                return true;
    }
    return false;
}
