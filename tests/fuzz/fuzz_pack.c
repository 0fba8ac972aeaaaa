/*
 * Fuzz harness for packs and the store that they fill: any cut gives the same end and the same objects, what is kept
 * stays below its limit, every object is found again by its id, and questions about history have an answer. The first
 * byte chooses the hash, whether trees are kept, whether the pack is looked through for secrets (which any cut finds in the
 * same places), and whether anything is kept at all. What stands behind a pack is another one, of the server's.
 */
#include <stdlib.h>

#include "proxy/codec/pack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth) {
    if (!truth)
        abort();
}

/* Two that overlap, and one that is a part of a third. */
static struct watch_table *secrets(void) {
    static const char *const list[] = {"SECRET-FUZZ-0123456789", "FUZZ-0123456789-more-of-it",
                                       "-0123456789-"};
    static const struct watch_key key = {.factor = UINT64_C(0x9e3779b97f4a7c15)};
    static struct watch_table *table;
    struct watchmark marks[4];
    size_t n = 0;
    for (; n < 3; n++)
        marks[n] =
            (struct watchmark){watch_print(watch_product(key.factor, list[n])),
                               (uint32_t)strlen(list[n]) - WATCH_GRAM, (uint32_t)strlen(list[n]), false};
    marks[n++] = (struct watchmark){watch_print(watch_product(key.factor, list[1] + 13)), 5, 13, true};
    if (!table)
        must(watch_table_new(&key, marks, n, &table) == 0);
    return table;
}

static int feed(struct git_objects *o, uint8_t how, struct watch *watch, struct slice in, size_t piece,
                bool pushed, size_t *taken) {
    struct pack_limits limits;
    struct pack p;
    pack_limits_default(&limits);
    limits.inflate_free = 64 << 20; /* beyond it the cut may decide when the limit is met */
    must(pack_init(&p, o, pushed, &limits) == 0);
    p.watch = how & 4 && pushed ? watch : NULL;
    p.nothing_kept = how & 8;
    int r = ERR_INCOMPLETE;
    *taken = 0;
    for (size_t used; *taken < in.n && r == ERR_INCOMPLETE; *taken += used) {
        struct slice part = slice_sub(in, *taken, piece);
        r = pack_feed(&p, part, &used);
        must(used <= part.n && (r != ERR_INCOMPLETE || used == part.n));
    }
    must(o->kept <= o->memory->limit && o->memory->used <= o->memory->limit);
    must(r == 0 || r == ERR_INCOMPLETE || p.error.text[0]);
    pack_release(&p);
    return r;
}

/* One store, filled from two packs. */
static int run(struct git_objects *o, struct git_memory *memory, struct watch *watch, uint8_t how,
               struct slice in, size_t piece) {
    struct git_objects_limits limits;
    size_t taken;
    git_objects_limits_default(&limits);
    limits.object = 1 << 16;
    limits.made = 4 << 20;
    must(git_objects_init(o, how & 1 ? 32 : 20, how & 2, &limits, memory) == 0);
    must(watch_init(watch, secrets(), NULL) == 0);
    int r = feed(o, how, watch, in, piece, true, &taken);
    must((watch->nhits == 0 || how & 4) && (o->ids.n <= 1 || !(how & 8)));
    return r ? r : feed(o, how, NULL, slice_from(in, taken), piece, false, &taken);
}

static void check(const struct git_objects *o) {
    const uint8_t *first = git_ids_at(&o->ids, 0);
    for (size_t i = 0; i < o->ids.n && i < 64; i++) {
        const uint8_t *id = git_ids_at(&o->ids, i);
        const struct git_object *object = git_objects_find(o, id);
        enum git_answer answer;
        struct git_ids missing, tips;
        must(object && object == &o->list[i]);
        int r = git_objects_is_ancestor(o, id, id, &answer);
        must(r == 0 ? answer == GIT_YES : r == ERR_NOMEM && answer == GIT_UNKNOWN);
        r = git_objects_is_ancestor(o, first, id, &answer);
        must(r == 0 || (r == ERR_NOMEM && answer == GIT_UNKNOWN));
        git_ids_init(&missing, o->id_size);
        git_ids_init(&tips, o->id_size);
        git_ids_add(&tips, id);
        r = git_objects_missing(o, &tips, &missing);
        must(r == 0 || r == ERR_PARSE || r == ERR_NOMEM);
        git_ids_release(&missing);
        git_ids_release(&tips);
    }
    git_objects_largest_waiting(o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct git_memory memory[2] = {{.limit = 1 << 20}, {.limit = 1 << 20}};
    struct git_objects whole, bytes;
    struct watch found, found_too;
    if (size == 0)
        return 0;
    struct slice in = slice_make(data + 1, size - 1);
    int r = run(&whole, &memory[0], &found, data[0], in, size),
        r2 = run(&bytes, &memory[1], &found_too, data[0], in, 1);
    must((r == 0) == (r2 == 0) && whole.ids.n == bytes.ids.n && whole.waiting == bytes.waiting &&
         whole.forgotten == bytes.forgotten);
    must(r || (found.nhits == found_too.nhits &&
               memcmp(found.hits, found_too.hits, found.nhits * sizeof *found.hits) == 0));
    watch_release(&found);
    watch_release(&found_too);
    check(&whole);
    git_objects_release(&whole);
    git_objects_release(&bytes);
    must(memory[0].used == 0 && memory[1].used == 0);
    return 0;
}
