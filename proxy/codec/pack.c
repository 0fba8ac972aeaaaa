#include "proxy/codec/pack.h"

#include <stdlib.h>
#include <zlib.h>

#include "proxy/codec/pack_internal.h"

#define PACK_HEAD    12
#define PACK_DISCARD 32768 /* bytes of what is inflated for framing only */

enum pack_state { PACK_HEADER, PACK_OBJECT, PACK_SIZE, PACK_BACK, PACK_BASE, PACK_BODY, PACK_SUM, PACK_DONE };

/* Types of objects, as the wire has them. */
enum pack_type {
    PACK_COMMIT = 1,
    PACK_TREE = 2,
    PACK_BLOB = 3,
    PACK_TAG = 4,
    PACK_OFS_DELTA = 6,
    PACK_REF_DELTA = 7
};

void pack_limits_default(struct pack_limits *limits) {
    *limits = (struct pack_limits){
        .memory = 256u << 20,
        .commit = 16u << 20,
        .objects = 50000000,
        .depth = 4095,
        .inflate_free = 1u << 30,
        .inflate_ratio = 200,
    };
}

int pack_init(struct pack *p, unsigned id_size, const struct pack_limits *limits) {
    *p = (struct pack){.limits = *limits, .id_size = id_size};
    if (id_size != 20 && id_size != 32)
        return ERR_USAGE;
    z_stream *z = calloc(1, sizeof *z);
    if (!z)
        return ERR_NOMEM;
    if (inflateInit(z) != Z_OK) {
        free(z);
        return ERR_NOMEM;
    }
    p->stream = z;
    p->md = EVP_MD_fetch(NULL, id_size == 20 ? "SHA1" : "SHA256", NULL);
    p->sum = EVP_MD_CTX_new();
    p->hash = EVP_MD_CTX_new();
    if (p->md && p->sum && p->hash && EVP_DigestInit_ex2(p->sum, p->md, NULL) == 1)
        return 0;
    pack_release(p);
    return ERR_CRYPTO;
}

void pack_release(struct pack *p) {
    if (p->stream) {
        inflateEnd(p->stream);
        free(p->stream);
    }
    p->stream = NULL;
    EVP_MD_CTX_free(p->sum);
    EVP_MD_CTX_free(p->hash);
    EVP_MD_free(p->md);
    p->sum = p->hash = NULL;
    p->md = NULL;
    free(p->now.data);
    p->now.data = NULL;
    pack_store_release(p);
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

/* The head of an object is complete: is it to be kept? */
static int pack_begin_body(struct pack *p, size_t base) {
    bool delta = p->now.type == PACK_OFS_DELTA || p->now.type == PACK_REF_DELTA;
    p->now.base = base;
    p->now.came = 0;
    p->have = 0;
    p->state = PACK_BODY;
    if (delta && base == PACK_NONE)
        p->deltas_open++;
    if (inflateReset(p->stream) != Z_OK)
        return ERR_INTERNAL;
    if (delta ? base == PACK_NONE : p->now.type != PACK_COMMIT)
        return 0;
    if (p->now.size > p->limits.commit)
        return errmsg_set(&p->error, ERR_LIMIT, "a commit takes more than %zu MiB", p->limits.commit >> 20);
    if (delta && p->commits[base].depth >= p->limits.depth)
        return errmsg_set(&p->error, ERR_LIMIT, "a chain of more than %u deltas", p->limits.depth);
    if (p->now.size > p->limits.memory - p->kept)
        return errmsg_set(&p->error, ERR_LIMIT, "the commits of the pack take more than %zu MiB",
                          p->limits.memory >> 20);
    p->now.data = malloc((size_t)p->now.size + 1);
    return p->now.data ? 0 : ERR_NOMEM;
}

static int pack_typed(struct pack *p) {
    switch (p->now.type) {
    case PACK_COMMIT:
    case PACK_TREE:
    case PACK_BLOB:
    case PACK_TAG: return pack_begin_body(p, PACK_NONE);
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
    return pack_begin_body(p, pack_store_by_offset(p, p->now.at - p->now.back));
}

/* ---- bodies ---- */

static int pack_end_body(struct pack *p) {
    char *data = p->now.data, *made;
    size_t size = (size_t)p->now.size;
    uint32_t depth = 0;
    p->now.data = NULL;
    p->objects_seen++;
    if (data && p->now.base != PACK_NONE) {
        const struct pack_commit *base = &p->commits[p->now.base];
        depth = base->depth + 1;
        int r = pack_delta_apply(slice_make(base->data, base->size), slice_make(data, size), p->limits.commit,
                                 &made, &size);
        free(data);
        if (r == ERR_PARSE)
            return pack_bad(p, "a delta that does not fit its base");
        if (r)
            return errmsg_set(&p->error, r, "a commit made by a delta is too large");
        data = made;
    }
    int r = data ? pack_store_add(p, p->now.at, data, size, depth) : 0;
    if (r == 0)
        pack_next(p);
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
    size_t room = p->now.data || left < sizeof discard ? (size_t)left : sizeof discard;
    char *to = p->now.data ? p->now.data + p->now.came : discard;
    z->next_in = (z_const Bytef *)(uintptr_t)in.p;
    z->avail_in = in.n > UINT32_MAX ? UINT32_MAX : (uInt)in.n;
    z->next_out = (Bytef *)to;
    z->avail_out = (uInt)room;
    uInt given = z->avail_in;
    int zr = inflate(z, Z_NO_FLUSH);
    *used = given - z->avail_in;
    size_t made = room - z->avail_out;
    p->now.came += made;
    if (zr == Z_MEM_ERROR)
        return ERR_NOMEM;
    if (zr != Z_OK && zr != Z_STREAM_END && zr != Z_BUF_ERROR)
        return pack_bad(p, "damaged data");
    if (p->now.came > p->now.size)
        return pack_bad(p, "more data than its header says");
    int r = pack_check_ratio(p, made, *used);
    if (r)
        return r;
    if (zr == Z_STREAM_END)
        return p->now.came == p->now.size ? pack_end_body(p) : pack_bad(p, "less data than its header says");
    return *used == 0 && made == 0 ? pack_bad(p, "data without an end") : 0;
}

static int pack_sum(struct pack *p, struct slice in, size_t *used) {
    uint8_t sum[PACK_ID_MAX];
    unsigned got = 0;
    if (!pack_gather(p, in, used, p->id_size))
        return 0;
    if (EVP_DigestFinal_ex(p->sum, sum, &got) != 1 || got != p->id_size)
        return ERR_CRYPTO;
    if (memcmp(sum, p->small, p->id_size) != 0)
        return errmsg_set(&p->error, ERR_PARSE, "its checksum is wrong");
    p->state = PACK_DONE;
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
    case PACK_BASE:
        return pack_gather(p, in, used, p->id_size) ? pack_begin_body(p, pack_store_by_id(p, p->small)) : 0;
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
