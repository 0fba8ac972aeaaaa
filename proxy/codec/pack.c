#include "proxy/codec/pack.h"

#include <stdlib.h>
#include <zlib.h>

#include "proxy/codec/git_objects_internal.h"

#define PACK_HEAD    12
#define PACK_DISCARD 32768 /* bytes of what is inflated for framing only */
#define PACK_NONE    SIZE_MAX

enum pack_state { PACK_HEADER, PACK_OBJECT, PACK_SIZE, PACK_BACK, PACK_BASE, PACK_BODY, PACK_SUM, PACK_DONE };

/* Types on the wire beside those of git_objects.h. */
enum pack_type { PACK_OFS_DELTA = 6, PACK_REF_DELTA = 7 };

/* Of objects that were kept, and deltas that wait; ascending. What is not among them is lost. */
struct pack_place {
    uint64_t offset;
    struct git_place what;
};

void pack_limits_default(struct pack_limits *limits) {
    *limits = (struct pack_limits){
        .objects = 50000000,
        .inflate_free = 1u << 30,
        .inflate_ratio = 200,
    };
}

int pack_init(struct pack *p, struct git_objects *into, bool pushed, const struct pack_limits *limits) {
    *p = (struct pack){.limits = *limits, .into = into, .pushed = pushed};
    z_stream *z = calloc(1, sizeof *z);
    if (!z)
        return ERR_NOMEM;
    if (inflateInit(z) != Z_OK) {
        free(z);
        return ERR_NOMEM;
    }
    p->stream = z;
    p->sum = EVP_MD_CTX_new();
    if (p->sum && EVP_DigestInit_ex2(p->sum, into->md, NULL) == 1)
        return 0;
    pack_release(p);
    return ERR_CRYPTO;
}

/* ---- places ---- */

static void places_release(struct pack *p) {
    free(p->places);
    if (p->into)
        git_objects_unaccount(p->into, p->places_room * sizeof *p->places);
    p->places = NULL;
    p->nplaces = p->places_room = 0;
}

static size_t places_find(const struct pack *p, uint64_t offset) {
    size_t low = 0, high = p->nplaces;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (p->places[mid].offset == offset)
            return mid;
        if (p->places[mid].offset < offset)
            low = mid + 1;
        else
            high = mid;
    }
    return PACK_NONE;
}

static int places_add(struct pack *p, struct git_place what) {
    if (what.kind == GIT_PLACE_LOST)
        return 0;
    void *list;
    int r = git_objects_room(p->into, p->places, sizeof *p->places, p->nplaces, &p->places_room, &list);
    p->places = list;
    if (r)
        return r;
    p->places[p->nplaces++] = (struct pack_place){.offset = p->now.at, .what = what};
    return 0;
}

void pack_release(struct pack *p) {
    if (p->stream) {
        inflateEnd(p->stream);
        free(p->stream);
    }
    p->stream = NULL;
    EVP_MD_CTX_free(p->sum);
    p->sum = NULL;
    free(p->now.data);
    p->now.data = NULL;
    if (p->whole)
        git_memory_give(p->into->memory, PACK_WHOLE);
    free(p->whole);
    p->whole = NULL;
    places_release(p);
}

bool pack_at_trailer(const struct pack *p) {
    return p->err == 0 && p->state >= PACK_SUM;
}

static int pack_bad(struct pack *p, const char *why) {
    return errmsg_set(&p->error, ERR_PARSE, "%s, in the object at %llu", why, (unsigned long long)p->now.at);
}

/* Gathers `want` bytes of a field that may come in pieces. */
static bool pack_gather(struct pack *p, struct slice in, size_t *used, unsigned want) {
    struct slice part = slice_sub(in, 0, want - p->have);
    if (part.n)
        memcpy(p->small + p->have, part.p, part.n);
    p->have += (unsigned)part.n;
    *used = part.n;
    return p->have == want;
}

static void pack_next(struct pack *p) {
    p->state = p->objects_seen == p->objects ? PACK_SUM : PACK_OBJECT;
    p->have = 0;
}

/* ---- heads ---- */

static int pack_header(struct pack *p, struct slice in, size_t *used) {
    if (!pack_gather(p, in, used, PACK_HEAD))
        return 0;
    const uint8_t *h = p->small;
    if (memcmp(h, "PACK", 4) != 0 || h[4] || h[5] || h[6] || (h[7] != 2 && h[7] != 3))
        return errmsg_set(&p->error, ERR_PARSE, "it does not begin as a pack of version 2 or 3");
    p->objects = (uint32_t)h[8] << 24 | (uint32_t)h[9] << 16 | (uint32_t)h[10] << 8 | h[11];
    if (p->objects > p->limits.objects)
        return errmsg_set(&p->error, ERR_LIMIT, "the pack has %u objects, and %u are the limit", p->objects,
                          p->limits.objects);
    pack_next(p);
    return 0;
}

static bool pack_is_delta(const struct pack *p) {
    return p->now.type == PACK_OFS_DELTA || p->now.type == PACK_REF_DELTA;
}

/* Is it short enough to be looked through as a whole, though it is not kept? */
static bool pack_is_short(const struct pack *p) {
    return p->watch && !p->now.data && !pack_is_delta(p) && p->now.size < PACK_WHOLE;
}

/* What the delta builds on: by its place, or (then *id is set) by an id. */
static struct git_place pack_base_of(struct pack *p, const uint8_t **id) {
    struct git_place base = {GIT_PLACE_LOST, GIT_NONE};
    *id = p->now.type == PACK_REF_DELTA ? p->small : NULL;
    if (p->now.base != PACK_NONE)
        base = p->places[p->now.base].what;
    return base;
}

static bool pack_wants(struct pack *p) {
    const uint8_t *id;
    struct git_place base = pack_base_of(p, &id);
    if (p->nothing_kept)
        return false;
    switch (p->now.type) {
    case GIT_TYPE_COMMIT:
    case GIT_TYPE_TAG: return true;
    case GIT_TYPE_TREE: return p->into->trees;
    case GIT_TYPE_BLOB: return false;
    }
    switch (git_objects_base(p->into, &base, id)) {
    case GIT_PLACE_LOST: return false;
    case GIT_PLACE_OBJECT: return true;
    case GIT_PLACE_DELTA: break;
    }
    if (git_pending_room(p->into, p->now.size))
        return true;
    p->into->forgotten++;
    return false;
}

/* Room for a file that is looked through for secrets. */
static int pack_whole(struct pack *p) {
    if (!git_memory_take(p->into->memory, PACK_WHOLE))
        return ERR_LIMIT;
    p->whole = malloc(PACK_WHOLE);
    if (!p->whole)
        git_memory_give(p->into->memory, PACK_WHOLE);
    return p->whole ? 0 : ERR_NOMEM;
}

/* The head of an object is complete: is it to be kept? */
static int pack_begin_body(struct pack *p, size_t base) {
    const struct git_objects_limits *limits = &p->into->limits;
    p->now.base = base;
    p->now.came = 0;
    p->have = 0;
    p->state = PACK_BODY;
    if (p->now.type == GIT_TYPE_BLOB && p->now.size > p->largest)
        p->largest = p->now.size;
    if (inflateReset(p->stream) != Z_OK)
        return ERR_INTERNAL;
    if (!pack_wants(p)) {
        p->deltas_lost += pack_is_delta(p);
        return pack_is_short(p) && !p->whole ? pack_whole(p) : 0;
    }
    if (p->now.size > limits->object)
        return errmsg_set(&p->error, ERR_LIMIT, "a commit or tree takes more than %zu MiB",
                          limits->object >> 20);
    if (p->now.size > git_memory_room(p->into->memory)) {
        int r = git_objects_account(p->into, (size_t)p->now.size);
        return errmsg_set(&p->error, r, "%s", p->into->error.text);
    }
    p->now.data = malloc((size_t)p->now.size + 1);
    return p->now.data ? 0 : ERR_NOMEM;
}

static int pack_typed(struct pack *p) {
    switch (p->now.type) {
    case GIT_TYPE_COMMIT:
    case GIT_TYPE_TREE:
    case GIT_TYPE_BLOB:
    case GIT_TYPE_TAG: return pack_begin_body(p, PACK_NONE);
    case PACK_OFS_DELTA:
        p->now.back = 0;
        p->now.shift = 0;
        p->state = PACK_BACK;
        return 0;
    case PACK_REF_DELTA: p->state = PACK_BASE; return 0;
    default: return pack_bad(p, "an unknown type");
    }
}

/* Type and size: four bits of the size, then seven bits a byte, the lowest first. */
static int pack_object(struct pack *p, uint8_t c) {
    if (p->state == PACK_OBJECT) {
        p->now.at = p->consumed;
        p->now.type = c >> 4 & 7;
        p->now.size = c & 15;
        p->now.shift = 4;
        p->state = PACK_SIZE;
    } else {
        if (p->now.shift > 53)
            return pack_bad(p, "a size beyond all measure");
        p->now.size |= (uint64_t)(c & 0x7f) << p->now.shift;
        p->now.shift += 7;
    }
    return c & 0x80 ? 0 : pack_typed(p);
}

/* How far back the base of an OFS delta lies: seven bits a byte, the highest first, one added at each step. */
static int pack_back(struct pack *p, uint8_t c) {
    if (p->now.shift++) {
        if (p->now.back >= UINT64_C(1) << 55)
            return pack_bad(p, "a base beyond all measure");
        p->now.back = (p->now.back + 1) << 7;
    }
    p->now.back |= c & 0x7f;
    if (c & 0x80)
        return 0;
    if (p->now.back == 0 || p->now.back > p->now.at - PACK_HEAD)
        return pack_bad(p, "a base outside of the pack");
    return pack_begin_body(p, places_find(p, p->now.at - p->now.back));
}

/* ---- the watch ---- */

static int pack_watched(struct pack *p, int r) {
    switch (r) {
    case 0: return 0;
    case ERR_PARSE: return pack_bad(p, "a malformed delta");
    case ERR_LIMIT:
        return errmsg_set(&p->error, r, "too much of it looks like a secret that is not to leave");
    default: return r;
    }
}

/* Where what was just found is. */
static void pack_place(struct pack *p, size_t from, const char *data) {
    struct watch_place place = {.size = p->watch->makes};
    if (from == p->watch->nhits)
        return;
    if (!pack_is_delta(p)) {
        enum git_type type = (enum git_type)p->now.type;
        place.type = (uint8_t)type;
        place.size = p->now.size;
        if (data && git_objects_hash(p->into, type, slice_make(data, (size_t)place.size), place.id) == 0)
            place.id_size = (uint8_t)p->into->id_size;
    }
    for (size_t i = from; i < p->watch->nhits; i++)
        p->watch->hits[i].place = place;
}

/* Bytes of an object that is neither kept nor short. */
static int pack_watch_part(struct pack *p, struct slice part) {
    size_t before = p->watch->nhits;
    int r = pack_is_delta(p) ? watch_delta(p->watch, part) : watch_feed(p->watch, part);
    pack_place(p, before, NULL);
    return pack_watched(p, r);
}

/* … and its end; of others (data) all of it. */
static int pack_watch_end(struct pack *p, const char *data) {
    size_t before = p->watch->nhits;
    int r;
    if (pack_is_delta(p)) {
        r = data ? watch_delta(p->watch, slice_make(data, (size_t)p->now.size)) : 0;
        int end = watch_delta_end(p->watch);
        r = r ? r : end;
    } else {
        r = data ? watch_whole(p->watch, slice_make(data, (size_t)p->now.size)) : watch_end(p->watch);
    }
    pack_place(p, before, data);
    return pack_watched(p, r);
}

/* ---- bodies ---- */

/* A delta that is not kept makes a blob, for all that is known. */
static int pack_lost_delta(struct pack *p) {
    struct slice head =
        slice_make(p->now.head, p->now.size < PACK_HEAD_MAX ? (size_t)p->now.size : PACK_HEAD_MAX);
    uint64_t from, to;
    if (!git_delta_sizes(&head, &from, &to))
        return pack_bad(p, "a malformed delta");
    if (to > p->largest)
        p->largest = to;
    return 0;
}

static int pack_end_body(struct pack *p) {
    struct git_place what = {GIT_PLACE_OBJECT, GIT_NONE};
    char *data = p->now.data;
    size_t size = (size_t)p->now.size;
    int r = p->watch ? pack_watch_end(p, pack_is_short(p) ? p->whole : data) : 0;
    p->now.data = NULL;
    p->objects_seen++;
    if (r) {
        free(data);
        return r;
    }
    if (!data) {
        what.kind = GIT_PLACE_LOST;
        r = pack_is_delta(p) ? pack_lost_delta(p) : 0;
    } else if (pack_is_delta(p)) {
        const uint8_t *id;
        struct git_place base = pack_base_of(p, &id);
        r = git_objects_take_delta(p->into, base, id, data, size, p->pushed, &what);
    } else {
        r = git_objects_take(p->into, (enum git_type)p->now.type, data, size, p->pushed, &what.number);
    }
    if (r == ERR_PARSE && !p->error.text[0])
        return pack_bad(p, p->into->error.text);
    if (r == 0)
        r = places_add(p, what);
    if (r == 0)
        pack_next(p);
    else if (!p->error.text[0])
        errmsg_set(&p->error, r, "%s", p->into->error.text);
    return r;
}

static int pack_check_ratio(struct pack *p, uint64_t more, uint64_t came) {
    p->inflated += more;
    if (p->inflated > p->limits.inflate_free && p->inflated / p->limits.inflate_ratio > p->consumed + came)
        return errmsg_set(&p->error, ERR_LIMIT, "it inflates to more than %u times its size",
                          p->limits.inflate_ratio);
    return 0;
}

/* One call of inflate. One byte of room more than the header's size, so that one too many is noticed. */
static int pack_body(struct pack *p, struct slice in, size_t *used) {
    char discard[PACK_DISCARD];
    z_stream *z = p->stream;
    uint64_t left = p->now.size + 1 - p->now.came;
    char *keep = pack_is_short(p) ? p->whole : p->now.data;
    size_t room = keep || left < sizeof discard ? (size_t)left : sizeof discard;
    char *to = keep ? keep + p->now.came : discard;
    z->next_in = (z_const Bytef *)(uintptr_t)in.p;
    z->avail_in = in.n > UINT32_MAX ? UINT32_MAX : (uInt)in.n;
    z->next_out = (Bytef *)to;
    z->avail_out = (uInt)room;
    uInt given = z->avail_in;
    int zr = inflate(z, Z_NO_FLUSH);
    *used = given - z->avail_in;
    size_t made = room - z->avail_out;
    if (!p->now.data && p->now.came < sizeof p->now.head)
        memcpy(p->now.head + p->now.came, to,
               made < sizeof p->now.head - p->now.came ? made : sizeof p->now.head - (size_t)p->now.came);
    p->now.came += made;
    if (zr == Z_MEM_ERROR)
        return ERR_NOMEM;
    if (zr != Z_OK && zr != Z_STREAM_END && zr != Z_BUF_ERROR)
        return pack_bad(p, "damaged data");
    if (p->now.came > p->now.size)
        return pack_bad(p, "more data than its header says");
    int r = pack_check_ratio(p, made, *used);
    if (r == 0 && p->watch && !keep)
        r = pack_watch_part(p, slice_make(to, made));
    if (r)
        return r;
    if (zr == Z_STREAM_END)
        return p->now.came == p->now.size ? pack_end_body(p) : pack_bad(p, "less data than its header says");
    return *used == 0 && made == 0 ? pack_bad(p, "data without an end") : 0;
}

static int pack_sum(struct pack *p, struct slice in, size_t *used) {
    uint8_t sum[GIT_ID_MAX];
    unsigned got = 0;
    if (!pack_gather(p, in, used, p->into->id_size))
        return 0;
    if (EVP_DigestFinal_ex(p->sum, sum, &got) != 1 || got != p->into->id_size)
        return ERR_CRYPTO;
    if (memcmp(sum, p->small, p->into->id_size) != 0)
        return errmsg_set(&p->error, ERR_PARSE, "its checksum is wrong");
    p->state = PACK_DONE;
    places_release(p);
    return 0;
}

/* ---- feeding ---- */

/* One step; *used bytes were taken. */
static int pack_step(struct pack *p, struct slice in, size_t *used) {
    *used = 1;
    switch ((enum pack_state)p->state) {
    case PACK_HEADER: return pack_header(p, in, used);
    case PACK_OBJECT:
    case PACK_SIZE: return pack_object(p, (uint8_t)in.p[0]);
    case PACK_BACK: return pack_back(p, (uint8_t)in.p[0]);
    case PACK_BASE: return pack_gather(p, in, used, p->into->id_size) ? pack_begin_body(p, PACK_NONE) : 0;
    case PACK_BODY: return pack_body(p, in, used);
    case PACK_SUM: return pack_sum(p, in, used);
    case PACK_DONE: break;
    }
    *used = 0;
    return 0;
}

int pack_feed(struct pack *p, struct slice in, size_t *used) {
    *used = 0;
    size_t summed = 0; /* bytes of `in` that the checksum has seen */
    while (p->err == 0 && p->state != PACK_DONE && *used < in.n) {
        size_t took = 0;
        bool trailer = p->state == PACK_SUM;
        p->err = pack_step(p, slice_from(in, *used), &took);
        *used += took;
        p->consumed += took;
        /* in one go, before the trailer or at the end of the cut: updates byte by byte are slow */
        bool whole = *used == in.n || p->state >= PACK_SUM;
        if (!trailer && whole && p->err == 0) {
            if (EVP_DigestUpdate(p->sum, in.p + summed, *used - summed) != 1)
                p->err = ERR_CRYPTO;
            summed = *used;
        }
    }
    if (p->err) {
        if (!p->error.text[0])
            errmsg_set(&p->error, p->err, "%s", err_text(p->err));
        return p->err;
    }
    return p->state == PACK_DONE ? 0 : ERR_INCOMPLETE;
}
