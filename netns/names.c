#include "netns/names.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdatomic.h>
#include <sys/random.h>

#include "base/shared.h"

/*
 * Theory of operation. The memfd holds a header, a hash table of slots (open addressing, twice as many as names)
 * and the entries. A slot holds 0 or index + 1. To insert, a process takes an index (one atomic addition), writes
 * the entry, and publishes it by compare-and-swap of the first empty slot on the name's probe path. If somebody
 * else was first there, it looks at what that one put in: the same name means that the index just taken is
 * wasted, another name that the probe goes on. An entry counts only when `published` is set, so that a wasted
 * index means no name.
 *
 * Whatever another process wrote is read with care: a worker may have been taken over.
 */
#define NAMES_SLOTS (2 * NAMES_MAX)
#define NAMES_BASE4 0xc6130000u /* 198.19.0.0 */

struct entry {
    _Atomic uint8_t published;
    uint8_t n;
    char name[254];
};

struct table {
    uint64_t key[2];
    uint8_t prefix[8];
    _Atomic uint32_t taken; /* indexes given out, wasted ones too; may pass NAMES_MAX */
    _Atomic uint32_t slots[NAMES_SLOTS];
    struct entry entries[NAMES_MAX];
};

static_assert(sizeof(struct entry) == 256, "entries are of a power of two");
static_assert(ATOMIC_INT_LOCK_FREE == 2, "the table is shared between processes");

struct names {
    struct shared memory; /* first */
    struct table *table;
};

static uint64_t rotl(uint64_t x, int b) {
    return x << b | x >> (64 - b);
}

struct sip {
    uint64_t v0, v1, v2, v3;
};

static void sip_round(struct sip *s) {
    s->v0 += s->v1;
    s->v1 = rotl(s->v1, 13) ^ s->v0;
    s->v0 = rotl(s->v0, 32);
    s->v2 += s->v3;
    s->v3 = rotl(s->v3, 16) ^ s->v2;
    s->v0 += s->v3;
    s->v3 = rotl(s->v3, 21) ^ s->v0;
    s->v2 += s->v1;
    s->v1 = rotl(s->v1, 17) ^ s->v2;
    s->v2 = rotl(s->v2, 32);
}

static void sip_word(struct sip *s, uint64_t m) {
    s->v3 ^= m;
    sip_round(s);
    sip_round(s);
    s->v0 ^= m;
}

/* SipHash-2-4: names are the sandbox's choice, it must not be able to aim them at one slot. */
static uint64_t names_hash(const struct table *t, struct slice name) {
    struct sip s = {
        .v0 = t->key[0] ^ 0x736f6d6570736575u,
        .v1 = t->key[1] ^ 0x646f72616e646f6du,
        .v2 = t->key[0] ^ 0x6c7967656e657261u,
        .v3 = t->key[1] ^ 0x7465646279746573u,
    };
    size_t at = 0;
    for (; name.n - at >= 8; at += 8) {
        uint64_t m;
        memcpy(&m, name.p + at, 8);
        sip_word(&s, m);
    }
    uint64_t last = (uint64_t)name.n << 56;
    for (size_t i = 0; at + i < name.n; i++)
        last |= (uint64_t)(uint8_t)name.p[at + i] << (8 * i);
    sip_word(&s, last);
    s.v2 ^= 0xff;
    for (int i = 0; i < 4; i++)
        sip_round(&s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

static int names_hold(int fd, struct names **out, struct errmsg *msg) {
    struct shared *memory;
    int r = shared_hold(fd, "exeat-names", "name table", sizeof(struct table), sizeof **out, &memory, msg);
    if (r)
        return r;
    *out = (struct names *)memory;
    (*out)->table = memory->p;
    return 0;
}

int names_new(struct names **out, struct errmsg *msg) {
    struct {
        uint64_t key[2];
        uint8_t prefix[8];
    } seed;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        return errmsg_errno(msg, ERR_IO, "name table: getrandom");
    int r = names_hold(SHARED_NEW, out, msg);
    if (r)
        return r;
    struct table *t = (*out)->table;
    memcpy(t->key, seed.key, sizeof t->key);
    memcpy(t->prefix, seed.prefix, sizeof t->prefix);
    t->prefix[0] = 0xfd;
    return 0;
}

int names_attach(int fd, struct names **out, struct errmsg *msg) {
    return names_hold(fd, out, msg);
}

int names_fd(const struct names *names) {
    return names->memory.fd;
}

const uint8_t *names_prefix(const struct names *names) {
    return names->table->prefix;
}

void names_free(struct names *names) {
    shared_free((struct shared *)names);
}

static bool entry_is(const struct table *t, uint32_t index, struct slice name) {
    const struct entry *e = &t->entries[index];
    return e->n == name.n && memcmp(e->name, name.p, name.n) == 0;
}

/* Walks the probe path. 0: *index has it; ERR_NOTFOUND: *slot is the first empty one; ERR_LIMIT: no empty slot. */
static int names_probe(struct table *t, struct slice name, size_t *slot, uint32_t *index) {
    for (size_t i = 0; i < NAMES_SLOTS; i++) {
        uint32_t v = atomic_load_explicit(&t->slots[*slot], memory_order_acquire);
        if (v == 0)
            return ERR_NOTFOUND;
        if (v <= NAMES_MAX && entry_is(t, v - 1, name)) {
            /* whoever put it there may be about to say so, or dead */
            atomic_store_explicit(&t->entries[v - 1].published, 1, memory_order_release);
            *index = v - 1;
            return 0;
        }
        *slot = (*slot + 1) % NAMES_SLOTS;
    }
    return ERR_LIMIT;
}

int names_find(const struct names *names, struct slice name, uint32_t *index) {
    if (name.n == 0 || name.n > NAMES_LEN_MAX)
        return ERR_NOTFOUND;
    size_t slot = names_hash(names->table, name) % NAMES_SLOTS;
    return names_probe(names->table, name, &slot, index) ? ERR_NOTFOUND : 0;
}

int names_insert(struct names *names, struct slice name, uint32_t *index) {
    struct table *t = names->table;
    if (name.n == 0 || name.n > NAMES_LEN_MAX)
        return ERR_USAGE;
    size_t slot = names_hash(t, name) % NAMES_SLOTS;
    int r = names_probe(t, name, &slot, index);
    if (r != ERR_NOTFOUND)
        return r;
    /* looked at first, so that asking for ever does not make the counter wrap */
    if (atomic_load(&t->taken) >= NAMES_MAX)
        return ERR_LIMIT;
    uint32_t mine = atomic_fetch_add(&t->taken, 1);
    if (mine >= NAMES_MAX)
        return ERR_LIMIT;
    struct entry *e = &t->entries[mine];
    e->n = (uint8_t)name.n;
    memcpy(e->name, name.p, name.n);
    for (;;) {
        uint32_t empty = 0;
        if (atomic_compare_exchange_strong_explicit(&t->slots[slot], &empty, mine + 1, memory_order_acq_rel,
                                                    memory_order_acquire))
            break;
        r = names_probe(t, name, &slot, index);
        if (r != ERR_NOTFOUND)
            return r;
    }
    atomic_store_explicit(&e->published, 1, memory_order_release);
    *index = mine;
    return 0;
}

struct addr names_addr4(const struct names *names, uint32_t index) {
    (void)names;
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(NAMES_BASE4 + index % NAMES_MAX)};
    return addr_from((struct sockaddr *)&in, sizeof in);
}

struct addr names_addr6(const struct names *names, uint32_t index) {
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    uint32_t low = htonl(index % NAMES_MAX + 1);
    memcpy(in6.sin6_addr.s6_addr, names->table->prefix, 8);
    memcpy(in6.sin6_addr.s6_addr + 12, &low, 4);
    return addr_from((struct sockaddr *)&in6, sizeof in6);
}

/* The index that an address stands for; false when it is outside of what names get. */
static bool names_index(const struct names *names, const struct addr *addr, uint32_t *index) {
    uint32_t v;
    if (addr->len && addr->sa.sa_family == AF_INET) {
        v = ntohl(addr->in.sin_addr.s_addr) - NAMES_BASE4;
    } else if (addr->len && addr->sa.sa_family == AF_INET6) {
        const uint8_t *b = addr->in6.sin6_addr.s6_addr;
        if (memcmp(b, names->table->prefix, 8) || memcmp(b + 8, "\0\0\0", 4))
            return false;
        memcpy(&v, b + 12, 4);
        v = ntohl(v) - 1;
    } else {
        return false;
    }
    if (v >= NAMES_MAX)
        return false;
    *index = v;
    return true;
}

bool names_lookup(const struct names *names, const struct addr *addr, struct slice *name) {
    uint32_t index;
    if (!names_index(names, addr, &index))
        return false;
    const struct entry *e = &names->table->entries[index];
    if (!atomic_load_explicit(&e->published, memory_order_acquire))
        return false;
    uint8_t n = e->n;
    if (n == 0 || n > NAMES_LEN_MAX)
        return false;
    *name = slice_make(e->name, n);
    return true;
}

bool names_in_range(const struct names *names, const struct addr *addr) {
    if (addr->len && addr->sa.sa_family == AF_INET)
        return (ntohl(addr->in.sin_addr.s_addr) & 0xfffe0000u) == 0xc6120000u;
    return addr->len && addr->sa.sa_family == AF_INET6 &&
           memcmp(addr->in6.sin6_addr.s6_addr, names->table->prefix, 8) == 0;
}

size_t names_count(const struct names *names) {
    uint32_t taken = atomic_load(&names->table->taken);
    size_t n = 0;
    for (uint32_t i = 0; i < taken && i < NAMES_MAX; i++)
        n += atomic_load_explicit(&names->table->entries[i].published, memory_order_relaxed);
    return n;
}
