/* What supervisor and init tell each other at the start, as it travels. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/array.h"
#include "base/write.h"
#include "netns/hostsockets.h"
#include "netns/wire.h"

/*
 * A specification is a row of fields: u32 tag, u32 length, the bytes, a NUL, so that strings can be used where
 * they lie. It is written and read by the same program a moment apart; it is still checked, since nothing is gained by
 * trusting it.
 */
#define SPEC_MAX     (64u << 20)
#define SOCKETS_MAX  16384
#define SPEC_ALLOWED (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)

enum tag {
    TAG_INHERIT = 1,
    TAG_CWD,
    TAG_STATE_DIR,
    TAG_CA,
    TAG_BUNDLE,
    TAG_CA_HASH,
    TAG_PREFIX6,
    TAG_ARG,
    TAG_BUNDLE_PATH,
    TAG_COVER,
    TAG_SOCKET,
    TAG_OVERLAY_PATH, /* followed by its bytes */
    TAG_OVERLAY_BYTES,
    TAG_END,
};

static void field(struct buf *b, enum tag tag, const void *p, size_t n) {
    uint32_t head[2] = {tag, (uint32_t)n};
    if (n > SPEC_MAX)
        b->failed = true;
    buf_put(b, slice_make(head, sizeof head));
    buf_put(b, slice_make(p, n));
    buf_putc(b, 0);
}

static void field_str(struct buf *b, enum tag tag, const char *s) {
    field(b, tag, s, strlen(s));
}

static void field_list(struct buf *b, enum tag tag, const char *const *list) {
    for (; list && *list; list++)
        field_str(b, tag, *list);
}

struct sockets {
    struct buf *b;
    size_t n;
    struct errmsg *msg;
};

static int put_socket(void *arg, const char *path) {
    struct sockets *s = arg;
    if (++s->n > SOCKETS_MAX)
        return errmsg_set(s->msg, ERR_LIMIT, "the host has more than %d named unix sockets", SOCKETS_MAX);
    field_str(s->b, TAG_SOCKET, path);
    return 0;
}

static int spec_file(struct errmsg *msg) {
    int fd = memfd_create("exeat-sandbox", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        errmsg_errno(msg, ERR_IO, "memfd");
    return fd;
}

/* Nobody changes it any more, if `written`; else it is closed. */
static int seal(int fd, bool written, int *memfd, struct errmsg *msg) {
    if (written && fcntl(fd, F_ADD_SEALS, SPEC_ALLOWED) == 0) {
        *memfd = fd;
        return 0;
    }
    errmsg_errno(msg, ERR_IO, "memfd");
    close(fd);
    return ERR_IO;
}

/* False with errno set; a file in memory takes all of it, or there is no room. */
static bool put(int fd, enum tag tag, struct slice s) {
    uint32_t head[2] = {tag, (uint32_t)s.n};
    char end = 0;
    struct iovec parts[] = {{head, sizeof head}, {(void *)(uintptr_t)s.p, s.n}, {&end, 1}};
    ssize_t n, all = (ssize_t)(sizeof head + s.n + 1);
    do
        n = writev(fd, parts, 3);
    while (n < 0 && errno == EINTR);
    if (n >= 0 && n < all)
        errno = ENOSPC;
    return n == all;
}

static int write_spec(struct buf *b, int *memfd, struct errmsg *msg) {
    int fd = spec_file(msg);
    return fd < 0 ? ERR_IO : seal(fd, write_all(fd, buf_slice(b)) == 0, memfd, msg);
}

/* Ends the row and puts it into a memfd. `r` is what came of it so far. */
static int finish(struct buf *b, int r, int *memfd, struct errmsg *msg) {
    field(b, TAG_END, NULL, 0);
    if (r == 0 && b->failed)
        r = errmsg_set(msg, ERR_LIMIT, "sandbox: the specification is longer than %u MiB", SPEC_MAX >> 20);
    if (r == 0)
        r = write_spec(b, memfd, msg);
    buf_release(b);
    return r;
}

int wire_spec_write(const struct sandbox_spec *spec, int *memfd, struct errmsg *msg) {
    char cwd[PATH_MAX];
    struct buf b;
    if (!spec->argv || !spec->argv[0])
        return errmsg_set(msg, ERR_USAGE, "sandbox: no command");
    if (!spec->state_dir || spec->state_dir[0] != '/')
        return errmsg_set(msg, ERR_USAGE, "sandbox: the state directory is not an absolute path");
    if (!getcwd(cwd, sizeof cwd) || cwd[0] != '/')
        return errmsg_set(msg, ERR_USAGE, "the working directory has no name (was it removed?)");
    buf_init(&b, SPEC_MAX);
    field(&b, TAG_INHERIT, &spec->inherit, sizeof spec->inherit);
    field_str(&b, TAG_CWD, cwd);
    field_str(&b, TAG_STATE_DIR, spec->state_dir);
    field(&b, TAG_PREFIX6, spec->prefix6, sizeof spec->prefix6);
    field_list(&b, TAG_ARG, (const char *const *)spec->argv);
    field_list(&b, TAG_COVER, spec->cover);
    field_list(&b, TAG_SOCKET, spec->cover_sockets);
    /* sockets that are bound to a path on the host: the sandbox must not be able to connect to them */
    struct sockets sockets = {&b, 0, msg};
    return finish(&b, hostsockets_each(put_socket, &sockets, msg), memfd, msg);
}

/* Field by field, for two of them are long: in one piece they would be copied once more. */
int wire_trust_write(const struct sandbox_trust *trust, int *memfd, struct errmsg *msg) {
    size_t n = trust->ca_pem.n + trust->bundle_pem.n;
    for (size_t i = 0; i < trust->noverlays; i++)
        n += trust->overlays[i].bytes.n;
    if (n > SPEC_MAX)
        return errmsg_set(msg, ERR_LIMIT, "sandbox: what is trusted is longer than %u MiB", SPEC_MAX >> 20);
    int fd = spec_file(msg);
    if (fd < 0)
        return ERR_IO;
    bool ok = put(fd, TAG_CA, trust->ca_pem) &&
              put(fd, TAG_CA_HASH, slice_make(&trust->ca_hash, sizeof trust->ca_hash)) &&
              put(fd, TAG_BUNDLE, trust->bundle_pem);
    for (const char *const *path = trust->bundle_paths; ok && path && *path; path++)
        ok = put(fd, TAG_BUNDLE_PATH, slice_str(*path));
    for (size_t i = 0; ok && i < trust->noverlays; i++)
        ok = put(fd, TAG_OVERLAY_PATH, slice_str(trust->overlays[i].path)) &&
             put(fd, TAG_OVERLAY_BYTES, trust->overlays[i].bytes);
    return seal(fd, ok && put(fd, TAG_END, SLICE_NONE), memfd, msg);
}

/* --- reading --------------------------------------------------------------- */

/* A NULL follows its last. */
struct strings {
    const char **list;
    size_t n, room;
};

static bool append(struct strings *s, const char *p) {
    const char **grown = array_room(s->list, s->n + 1, &s->room, sizeof *grown);
    if (!grown)
        return false;
    grown[s->n++] = p;
    grown[s->n] = NULL;
    s->list = grown;
    return true;
}

static bool copy(void *to, struct slice s, size_t n) {
    if (s.n != n)
        return false;
    memcpy(to, s.p, n);
    return true;
}

struct spec_reader {
    struct wire_spec *out;
    struct strings args, cover, sockets;
};

static bool read_spec_field(void *arg, enum tag tag, struct slice s) {
    struct spec_reader *r = arg;
    switch (tag) {
    case TAG_INHERIT: return copy(&r->out->inherit, s, sizeof r->out->inherit);
    case TAG_CWD: r->out->cwd = s.p; return true;
    case TAG_STATE_DIR: r->out->state_dir = s.p; return true;
    case TAG_PREFIX6: return copy(r->out->prefix6, s, sizeof r->out->prefix6);
    case TAG_ARG: return append(&r->args, s.p);
    case TAG_COVER: return append(&r->cover, s.p);
    case TAG_SOCKET: return append(&r->sockets, s.p);
    case TAG_END: return true;
    default: return false;
    }
}

struct trust_reader {
    struct wire_trust *out;
    struct strings bundles;
    size_t room; /* of the overlays */
};

static bool add_overlay(struct trust_reader *r, const char *path) {
    struct wire_trust *out = r->out;
    struct sandbox_overlay *grown = array_room(out->overlays, out->noverlays, &r->room, sizeof *grown);
    if (!grown)
        return false;
    out->overlays = grown;
    out->overlays[out->noverlays++] = (struct sandbox_overlay){.path = path};
    return true;
}

static bool read_trust_field(void *arg, enum tag tag, struct slice s) {
    struct trust_reader *r = arg;
    switch (tag) {
    case TAG_CA: r->out->ca_pem = s; return true;
    case TAG_CA_HASH: return copy(&r->out->ca_hash, s, sizeof r->out->ca_hash);
    case TAG_BUNDLE: r->out->bundle_pem = s; return true;
    case TAG_BUNDLE_PATH: return append(&r->bundles, s.p);
    case TAG_OVERLAY_PATH: return add_overlay(r, s.p);
    case TAG_OVERLAY_BYTES:
        if (r->out->noverlays == 0)
            return false;
        r->out->overlays[r->out->noverlays - 1].bytes = s;
        return true;
    case TAG_END: return true;
    default: return false;
    }
}

/* The fields, one after the other, up to TAG_END, behind which nothing may follow. */
static bool read_fields(struct slice map, bool (*read_field)(void *, enum tag, struct slice), void *arg) {
    size_t at = 0;
    for (;;) {
        uint32_t head[2];
        if (map.n - at < sizeof head + 1)
            return false;
        memcpy(head, map.p + at, sizeof head);
        at += sizeof head;
        if (head[1] > map.n - at - 1 || map.p[at + head[1]] != 0)
            return false;
        if (!read_field(arg, (enum tag)head[0], slice_make(map.p + at, head[1])))
            return false;
        at += head[1] + 1;
        if (head[0] == TAG_END)
            return at == map.n;
    }
}

static int malformed(struct errmsg *msg) {
    return errmsg_set(msg, ERR_PEER, "sandbox: malformed specification");
}

static int map_whole(int memfd, struct slice *map, struct errmsg *msg) {
    struct stat st;
    int seals = fcntl(memfd, F_GET_SEALS);
    if (fstat(memfd, &st) < 0 || seals < 0 || (seals & SPEC_ALLOWED) != SPEC_ALLOWED || st.st_size == 0 ||
        st.st_size > SPEC_MAX)
        return malformed(msg);
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, memfd, 0);
    if (p == MAP_FAILED)
        return errmsg_errno(msg, ERR_IO, "sandbox: specification");
    *map = slice_make(p, (size_t)st.st_size);
    return 0;
}

static void unmap(struct slice map) {
    if (map.p)
        munmap((void *)(uintptr_t)map.p, map.n);
}

int wire_spec_read(int memfd, struct wire_spec *out, struct errmsg *msg) {
    struct spec_reader reader = {.out = out};
    *out = (struct wire_spec){0};
    int r = map_whole(memfd, &out->map, msg);
    if (r)
        return r;
    bool whole = read_fields(out->map, read_spec_field, &reader);
    out->argv = (char **)reader.args.list;
    out->cover = reader.cover.list;
    out->sockets = reader.sockets.list;
    if (whole && out->argv && out->cwd && out->state_dir)
        return 0;
    wire_spec_release(out);
    return malformed(msg);
}

void wire_spec_release(struct wire_spec *spec) {
    free(spec->argv);
    free(spec->cover);
    free(spec->sockets);
    unmap(spec->map);
    *spec = (struct wire_spec){0};
}

int wire_trust_read(int memfd, struct wire_trust *out, struct errmsg *msg) {
    struct trust_reader reader = {.out = out};
    *out = (struct wire_trust){0};
    int r = map_whole(memfd, &out->map, msg);
    if (r)
        return r;
    bool whole = read_fields(out->map, read_trust_field, &reader);
    out->bundle_paths = reader.bundles.list;
    if (whole && out->ca_pem.n && out->bundle_pem.n)
        return 0;
    wire_trust_release(out);
    return malformed(msg);
}

void wire_trust_release(struct wire_trust *trust) {
    free(trust->bundle_paths);
    free(trust->overlays);
    unmap(trust->map);
    *trust = (struct wire_trust){0};
}
