#include "proxy/flow/shown_names.h"

#include <assert.h>
#include <openssl/evp.h>

#include "proxy/flow/shown.h"

/*
 * Theory of operation. Names are written one behind the other round a ring, each with a check (a keyed hash over it, its
 * place and its object), its list, and where the name before it of the same object is, if the same list showed that. A
 * table of small sets leads from an object to its last name. Places count all words that were ever written, so that one
 * that was written over is known for it; and what two workers wrote into each other fails its check.
 */
#define SET_ENTRIES 8u
#define SETS        (SHOWN_NAMES_OBJECTS / SET_ENTRIES)
#define PLACE_BITS  40
#define PLACE_MASK  ((UINT64_C(1) << PLACE_BITS) - 1)
#define ID_MAX      64u
#define NAME_WORDS  (SHOWN_NAME_MAX / 8)

static_assert((SHOWN_NAMES_WORDS & (SHOWN_NAMES_WORDS - 1)) == 0 && (SETS & (SETS - 1)) == 0,
              "picked by bits");

enum { CHECK, BEFORE, LIST_AND_LENGTH, NAME };

/* What the check is made of, in one piece. */
struct text {
    unsigned char key[32];
    unsigned char id[ID_MAX];
    uint64_t place;
    uint64_t words[NAME + NAME_WORDS]; /* as in the ring */
};

static size_t words_of(size_t length) {
    return NAME + (length + 7) / 8;
}

/* All zeros when that fails. */
static void hash(const struct text *text, size_t n, uint64_t out[4]) {
    unsigned size = 0;
    if (EVP_Digest(text, n, (unsigned char *)out, &size, EVP_sha256(), NULL) != 1 || size != 32)
        memset(out, 0, 32);
}

static bool begin(struct text *text, const unsigned char key[32], struct slice id) {
    memcpy(text->key, key, 32);
    memset(text->id, 0, ID_MAX);
    if (id.n == 0 || id.n > ID_MAX)
        return false;
    memcpy(text->id, id.p, id.n);
    return true;
}

/* The set of an object, and its entry without the place. */
static size_t set_of(const struct text *text, uint64_t *mark) {
    uint64_t out[4];
    hash(text, offsetof(struct text, place), out);
    *mark = out[1] & ~PLACE_MASK;
    return (out[0] & (SETS - 1)) * SET_ENTRIES;
}

static uint64_t check_of(struct text *text, uint64_t place, size_t words) {
    uint64_t out[4];
    text->place = place;
    text->words[CHECK] = 0;
    hash(text, offsetof(struct text, words) + words * 8, out);
    return out[0];
}

static const _Atomic uint64_t *word_at(const struct shown_names *t, uint64_t place) {
    return &t->words[place & (SHOWN_NAMES_WORDS - 1)];
}

/* Reads what lies at a place into text->words. False: nothing of this object. */
static bool read_at(const struct shown_names *t, uint64_t place, struct text *text, struct slice *name) {
    uint64_t end = atomic_load_explicit(&t->end, memory_order_acquire);
    if (place == 0 || place > end || end - place >= SHOWN_NAMES_WORDS)
        return false;
    for (size_t i = 0; i < NAME; i++)
        text->words[i] = atomic_load_explicit(word_at(t, place + i), memory_order_relaxed);
    size_t length = text->words[LIST_AND_LENGTH] & UINT32_MAX;
    if (length == 0 || length > SHOWN_NAME_MAX)
        return false;
    for (size_t i = NAME; i < words_of(length); i++)
        text->words[i] = atomic_load_explicit(word_at(t, place + i), memory_order_relaxed);
    uint64_t check = text->words[CHECK];
    *name = slice_make(&text->words[NAME], length);
    return check_of(text, place, words_of(length)) == check;
}

void shown_names_add(struct shown_names *t, const unsigned char key[32], uint32_t list, struct slice id,
                     struct slice name) {
    struct text text, before;
    struct slice same;
    uint64_t mark, last = 0, oldest = UINT64_MAX;
    size_t slot = 0;
    if (name.n == 0 || name.n > SHOWN_NAME_MAX || !begin(&text, key, id))
        return;
    size_t set = set_of(&text, &mark);
    for (size_t i = set; i < set + SET_ENTRIES; i++) {
        uint64_t entry = atomic_load_explicit(&t->last[i], memory_order_acquire);
        bool its = entry && (entry & ~PLACE_MASK) == mark;
        if (its || (entry & PLACE_MASK) < oldest) {
            oldest = its ? 0 : entry & PLACE_MASK;
            last = its ? entry & PLACE_MASK : 0;
            slot = i;
        }
    }
    begin(&before, key, id);
    if (!read_at(t, last, &before, &same) || before.words[LIST_AND_LENGTH] >> 32 != list)
        last = 0;
    else if (slice_eq(same, name))
        return;
    size_t words = words_of(name.n);
    text.words[BEFORE] = last;
    text.words[LIST_AND_LENGTH] = (uint64_t)list << 32 | name.n;
    text.words[words - 1] = 0;
    memcpy(&text.words[NAME], name.p, name.n);
    /* a place is never 0 */
    uint64_t place = atomic_fetch_add_explicit(&t->end, words, memory_order_relaxed) + 1;
    text.words[CHECK] = check_of(&text, place, words);
    for (size_t i = 0; i < words; i++)
        atomic_store_explicit(&t->words[(place + i) & (SHOWN_NAMES_WORDS - 1)], text.words[i],
                              memory_order_relaxed);
    atomic_store_explicit(&t->last[slot], mark | (place & PLACE_MASK), memory_order_release);
}

void shown_names_find(const struct shown_names *t, const unsigned char key[32], struct slice id,
                      bool (*found)(void *arg, struct slice name), void *arg) {
    struct text text;
    struct slice name;
    uint64_t mark, place = 0, list = 0;
    if (!begin(&text, key, id))
        return;
    size_t set = set_of(&text, &mark);
    for (size_t i = set; i < set + SET_ENTRIES; i++) {
        uint64_t entry = atomic_load_explicit(&t->last[i], memory_order_acquire);
        if (entry && (entry & ~PLACE_MASK) == mark)
            place = entry & PLACE_MASK;
    }
    while (read_at(t, place, &text, &name)) {
        uint64_t before = text.words[BEFORE];
        if (list && text.words[LIST_AND_LENGTH] >> 32 != list - 1)
            return;
        list = (text.words[LIST_AND_LENGTH] >> 32) + 1;
        if (!found(arg, name) || before >= place)
            return;
        place = before;
    }
}
