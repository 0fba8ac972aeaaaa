#include "proxy/flow/shown.h"

#include <openssl/evp.h>

#include "proxy/flow/shown_memory.h"

#define SET_ENTRIES 16u
#define SETS        (SHOWN_MAX / SET_ENTRIES)
#define TURN_BITS   16
#define TURN_MASK   ((UINT64_C(1) << TURN_BITS) - 1)

static_assert((SETS & (SETS - 1)) == 0, "a set is picked by bits");

/*
 * Theory of operation. A table of small sets, each of as many entries as lie in two lines of the processor's cache. An
 * id's hash names the set; the rest of it is the entry, beside the number of the list that showed it last. A full set
 * gives up its oldest entry. An entry is one word, read and written whole: when two workers take the same place at
 * once, one id is lost, and the fetch that needs it is refused, which is the safe side.
 */

/* ---- hashes ---- */

/* SHA-256 of a key and what follows it; `out` may be the key. All zeros when that fails, which nothing matches: an entry
 * is never 0. */
static void digest(const unsigned char key[32], const void *text, size_t n, unsigned char out[32]) {
    unsigned char block[128];
    unsigned size = 0;
    bool fits = n <= sizeof block - 32;
    memcpy(block, key, 32);
    if (fits)
        memcpy(block + 32, text, n);
    if (!fits || EVP_Digest(block, 32 + n, out, &size, EVP_sha256(), NULL) != 1 || size != 32)
        memset(out, 0, 32);
}

void shown_repo(const struct shown *s, enum url_scheme scheme, struct slice host, uint16_t port,
                struct slice path, struct shown_repo *out) {
    unsigned char part[32];
    char origin[16];
    int n = snprintf(origin, sizeof origin, "%d %u", (int)scheme, port);
    static const unsigned char none[32];
    memcpy(out->key, s ? s->table->key : none, 32);
    digest(out->key, origin, (size_t)n, out->key);
    /* any length: the text's own hash, so that no two texts run together */
    struct slice texts[] = {host, path};
    for (size_t i = 0; i < 2; i++) {
        unsigned size = 0;
        if (EVP_Digest(texts[i].p, texts[i].n, part, &size, EVP_sha256(), NULL) != 1)
            memset(part, 0, sizeof part);
        digest(out->key, part, sizeof part, out->key);
    }
}

/* The set of an id, and its entry without the turn. False: it can't be hashed. */
static bool place(const struct shown_repo *repo, enum shown_kind kind, struct slice id, size_t *set,
                  uint64_t *entry) {
    unsigned char text[65], out[32];
    uint64_t hash[2];
    if (id.n > 64 || id.n == 0)
        return false;
    text[0] = (unsigned char)kind;
    memcpy(text + 1, id.p, id.n);
    digest(repo->key, text, id.n + 1, out);
    memcpy(hash, out, sizeof hash);
    *set = hash[0] & (SETS - 1);
    *entry = hash[1] & ~TURN_MASK;
    return *entry != 0;
}

/* ---- the table ---- */

uint32_t shown_begin(struct shown *s) {
    return s ? atomic_fetch_add_explicit(&s->table->turn, 1, memory_order_relaxed) + 1 : 0;
}

void shown_add(struct shown *s, const struct shown_repo *repo, enum shown_kind kind, struct slice id) {
    size_t set, oldest = 0;
    uint64_t entry;
    unsigned age = 0;
    if (!s || !place(repo, kind, id, &set, &entry))
        return;
    _Atomic uint64_t *list = &s->table->entries[set * SET_ENTRIES];
    uint64_t turn = atomic_load_explicit(&s->table->turn, memory_order_relaxed) & TURN_MASK;
    for (size_t i = 0; i < SET_ENTRIES; i++) {
        uint64_t have = atomic_load_explicit(&list[i], memory_order_relaxed);
        unsigned old = have == 0 ? TURN_MASK + 1 : (unsigned)((turn - have) & TURN_MASK);
        if ((have & ~TURN_MASK) == entry) {
            oldest = i;
            break;
        }
        if (old > age) {
            age = old;
            oldest = i;
        }
    }
    atomic_store_explicit(&list[oldest], entry | turn, memory_order_release);
}

bool shown_has(const struct shown *s, const struct shown_repo *repo, enum shown_kind kind, struct slice id) {
    size_t set;
    uint64_t entry;
    if (!s || !place(repo, kind, id, &set, &entry))
        return false;
    _Atomic uint64_t *list = &s->table->entries[set * SET_ENTRIES];
    for (size_t i = 0; i < SET_ENTRIES; i++)
        if ((atomic_load_explicit(&list[i], memory_order_acquire) & ~TURN_MASK) == entry)
            return true;
    return false;
}

void shown_name(struct shown *s, const struct shown_repo *repo, uint32_t list, struct slice id,
                struct slice ref) {
    if (s)
        shown_names_add(&s->table->names, repo->key, list, id, ref);
}

void shown_names(const struct shown *s, const struct shown_repo *repo, struct slice id,
                 bool (*found)(void *arg, struct slice ref), void *arg) {
    if (s)
        shown_names_find(&s->table->names, repo->key, id, found, arg);
}
