#include "vault/kept.h"

#include <stdlib.h>

struct kept_entry {
    struct kept_entry *next;
    uint64_t until_ms;
    struct secret value;
    char key[KEPT_KEY_SIZE];
};

/* Takes out the entry that *at points at. */
static void drop(struct kept *k, struct kept_entry **at) {
    struct kept_entry *e = *at;
    *at = e->next;
    if (k->last == &e->next)
        k->last = at;
    k->n--;
    k->bytes -= e->value.n;
    secret_release(&e->value);
    free(e);
}

static bool is_key(const struct kept_entry *e, struct slice key) {
    return slice_eq(slice_make(e->key, sizeof e->key), key);
}

/* Those whose time is over go, and `key`'s. */
static void tidy(struct kept *k, struct slice key, uint64_t now_ms) {
    struct kept_entry **at = &k->first;
    while (*at) {
        if ((*at)->until_ms <= now_ms || is_key(*at, key))
            drop(k, at);
        else
            at = &(*at)->next;
    }
}

int kept_put(struct kept *k, struct slice key, struct slice value, uint32_t seconds, uint64_t now_ms) {
    if (key.n != KEPT_KEY_SIZE)
        return ERR_USAGE;
    if (value.n > KEPT_VALUE_MAX)
        return ERR_LIMIT;
    if (k->first)
        tidy(k, key, now_ms);
    struct kept_entry *e = calloc(1, sizeof *e);
    if (!e)
        return ERR_NOMEM;
    int r = secret_set(&e->value, value);
    if (r) {
        free(e);
        return r;
    }
    while (k->n == KEPT_MAX || k->bytes + value.n > KEPT_BYTES)
        drop(k, &k->first);
    memcpy(e->key, key.p, key.n);
    e->until_ms = now_ms + 1000u * (uint64_t)(seconds < KEPT_SECONDS_MAX ? seconds : KEPT_SECONDS_MAX);
    if (!k->first)
        k->last = &k->first;
    *k->last = e;
    k->last = &e->next;
    k->n++;
    k->bytes += value.n;
    return 0;
}

struct slice kept_find(struct kept *k, struct slice key, uint64_t now_ms) {
    for (struct kept_entry *e = k->first; e; e = e->next)
        if (e->until_ms > now_ms && is_key(e, key))
            return secret_slice(&e->value);
    return SLICE_NONE;
}

void kept_release(struct kept *k) {
    while (k->first)
        drop(k, &k->first);
}
