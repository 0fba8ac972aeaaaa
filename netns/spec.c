#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "netns/wire.h"

/*
 * The specification is a row of fields: u32 tag, u32 length, the bytes, a NUL, so that strings can be used where
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

static int subject_hash(struct slice pem, uint32_t *hash, struct errmsg *msg) {
    BIO *bio = BIO_new_mem_buf(pem.p, (int)(pem.n < INT_MAX ? pem.n : 0));
    X509 *x = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    int r = x ? 0 : errmsg_set(msg, ERR_USAGE, "sandbox: the root certificate can't be read");
    if (x)
        *hash = (uint32_t)X509_subject_name_hash(x);
    X509_free(x);
    BIO_free(bio);
    return r;
}

/* The path in a line of /proc/net/unix, if somebody could connect to it; else NULL. Relative names can't be placed;
 * nobody binds a service that way. The end that accept made has the listener's name too, but is connected. */
static const char *socket_path(char *line) {
    unsigned type, state;
    int at = 0;
    if (sscanf(line, "%*s %*s %*s %*s %x %x %*s %n", &type, &state, &at) != 2 || line[at] != '/')
        return NULL;
    if (state == 3 && type != SOCK_DGRAM)
        return NULL;
    line[at + (int)strcspn(line + at, "\n")] = 0;
    return line + at;
}

/* Sockets that are bound to a path on the host: the sandbox must not be able to connect to them. */
static int host_sockets(struct buf *b, struct errmsg *msg) {
    FILE *f = fopen("/proc/self/net/unix", "re");
    if (!f) {
        /* a kernel without unix sockets has none to cover */
        return errno == ENOENT ? 0 : errmsg_errno(msg, ERR_IO, "/proc/self/net/unix");
    }
    char *line = NULL;
    size_t cap = 0, count = 0;
    int r = 0;
    while (r == 0 && getline(&line, &cap, f) > 0) {
        const char *path = socket_path(line);
        if (path && ++count > SOCKETS_MAX)
            r = errmsg_set(msg, ERR_LIMIT, "the host has more than %d named unix sockets", SOCKETS_MAX);
        else if (path)
            field_str(b, TAG_SOCKET, path);
    }
    free(line);
    fclose(f);
    return r;
}

static int seal(struct buf *b, int *memfd, struct errmsg *msg) {
    int fd = memfd_create("exeat-sandbox", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return errmsg_errno(msg, ERR_IO, "memfd");
    struct slice rest = buf_slice(b);
    while (rest.n) {
        ssize_t n = write(fd, rest.p, rest.n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            goto fail;
        rest = slice_from(rest, (size_t)n);
    }
    if (fcntl(fd, F_ADD_SEALS, SPEC_ALLOWED) < 0)
        goto fail;
    *memfd = fd;
    return 0;

fail:
    errmsg_errno(msg, ERR_IO, "memfd");
    close(fd);
    return ERR_IO;
}

int wire_spec_write(const struct sandbox_spec *spec, int *memfd, struct errmsg *msg) {
    char cwd[PATH_MAX];
    uint32_t hash;
    struct buf b;
    if (!spec->argv || !spec->argv[0])
        return errmsg_set(msg, ERR_USAGE, "sandbox: no command");
    if (!spec->state_dir || spec->state_dir[0] != '/')
        return errmsg_set(msg, ERR_USAGE, "sandbox: the state directory is not an absolute path");
    if (!getcwd(cwd, sizeof cwd) || cwd[0] != '/')
        return errmsg_set(msg, ERR_USAGE, "the working directory has no name (was it removed?)");
    int r = subject_hash(spec->ca_pem, &hash, msg);
    if (r)
        return r;
    buf_init(&b, SPEC_MAX);
    field(&b, TAG_INHERIT, &spec->inherit, sizeof spec->inherit);
    field_str(&b, TAG_CWD, cwd);
    field_str(&b, TAG_STATE_DIR, spec->state_dir);
    field(&b, TAG_CA, spec->ca_pem.p, spec->ca_pem.n);
    field(&b, TAG_BUNDLE, spec->bundle_pem.p, spec->bundle_pem.n);
    field(&b, TAG_CA_HASH, &hash, sizeof hash);
    field(&b, TAG_PREFIX6, spec->prefix6, sizeof spec->prefix6);
    field_list(&b, TAG_ARG, (const char *const *)spec->argv);
    field_list(&b, TAG_BUNDLE_PATH, spec->bundle_paths);
    field_list(&b, TAG_COVER, spec->cover);
    field_list(&b, TAG_SOCKET, spec->cover_sockets);
    for (size_t i = 0; i < spec->noverlays; i++) {
        field_str(&b, TAG_OVERLAY_PATH, spec->overlays[i].path);
        field(&b, TAG_OVERLAY_BYTES, spec->overlays[i].bytes.p, spec->overlays[i].bytes.n);
    }
    r = host_sockets(&b, msg);
    field(&b, TAG_END, NULL, 0);
    if (r == 0 && b.failed)
        r = errmsg_set(msg, ERR_LIMIT, "sandbox: the specification is longer than %u MiB", SPEC_MAX >> 20);
    if (r == 0)
        r = seal(&b, memfd, msg);
    buf_release(&b);
    return r;
}

/* --- reading --------------------------------------------------------------- */

/* A list that grows by one; a NULL follows its last. */
struct strings {
    const char **list;
    size_t n;
};

static bool append(struct strings *s, const char *p) {
    const char **grown = reallocarray(s->list, s->n + 2, sizeof *grown);
    if (!grown)
        return false;
    grown[s->n++] = p;
    grown[s->n] = NULL;
    s->list = grown;
    return true;
}

struct lists {
    struct strings args, bundles, cover, sockets;
};

static bool copy(void *to, struct slice s, size_t n) {
    if (s.n != n)
        return false;
    memcpy(to, s.p, n);
    return true;
}

static bool add_overlay(struct wire_spec *out, const char *path) {
    struct sandbox_overlay *grown = reallocarray(out->overlays, out->noverlays + 1, sizeof *grown);
    if (!grown)
        return false;
    out->overlays = grown;
    out->overlays[out->noverlays++] = (struct sandbox_overlay){.path = path};
    return true;
}

static bool read_field(struct wire_spec *out, struct lists *lists, enum tag tag, struct slice s) {
    switch (tag) {
    case TAG_INHERIT: return copy(&out->inherit, s, sizeof out->inherit);
    case TAG_CWD: out->cwd = s.p; return true;
    case TAG_STATE_DIR: out->state_dir = s.p; return true;
    case TAG_CA: out->ca_pem = s; return true;
    case TAG_BUNDLE: out->bundle_pem = s; return true;
    case TAG_CA_HASH: return copy(&out->ca_hash, s, sizeof out->ca_hash);
    case TAG_PREFIX6: return copy(out->prefix6, s, sizeof out->prefix6);
    case TAG_ARG: return append(&lists->args, s.p);
    case TAG_BUNDLE_PATH: return append(&lists->bundles, s.p);
    case TAG_COVER: return append(&lists->cover, s.p);
    case TAG_SOCKET: return append(&lists->sockets, s.p);
    case TAG_OVERLAY_PATH: return add_overlay(out, s.p);
    case TAG_OVERLAY_BYTES:
        if (out->noverlays == 0)
            return false;
        out->overlays[out->noverlays - 1].bytes = s;
        return true;
    case TAG_END: return true;
    }
    return false;
}

/* The fields, one after the other, up to TAG_END, behind which nothing may follow. */
static bool read_fields(struct wire_spec *out, struct lists *lists) {
    size_t at = 0;
    for (;;) {
        uint32_t head[2];
        if (out->map_size - at < sizeof head + 1)
            return false;
        memcpy(head, out->map + at, sizeof head);
        at += sizeof head;
        if (head[1] > out->map_size - at - 1 || out->map[at + head[1]] != 0)
            return false;
        if (!read_field(out, lists, (enum tag)head[0], slice_make(out->map + at, head[1])))
            return false;
        at += head[1] + 1;
        if (head[0] == TAG_END)
            return at == out->map_size;
    }
}

int wire_spec_read(int memfd, struct wire_spec *out, struct errmsg *msg) {
    struct stat st;
    struct lists lists = {0};
    *out = (struct wire_spec){0};
    int seals = fcntl(memfd, F_GET_SEALS);
    if (fstat(memfd, &st) < 0 || seals < 0 || (seals & SPEC_ALLOWED) != SPEC_ALLOWED || st.st_size == 0 ||
        st.st_size > SPEC_MAX)
        return errmsg_set(msg, ERR_PEER, "sandbox: malformed specification");
    out->map_size = (size_t)st.st_size;
    out->map = mmap(NULL, out->map_size, PROT_READ, MAP_PRIVATE, memfd, 0);
    if (out->map == MAP_FAILED) {
        *out = (struct wire_spec){0};
        return errmsg_errno(msg, ERR_IO, "sandbox: specification");
    }
    bool whole = read_fields(out, &lists);
    out->argv = (char **)lists.args.list;
    out->bundle_paths = lists.bundles.list;
    out->cover = lists.cover.list;
    out->sockets = lists.sockets.list;
    if (whole && out->argv && out->cwd && out->state_dir)
        return 0;
    wire_spec_release(out);
    return errmsg_set(msg, ERR_PEER, "sandbox: malformed specification");
}

void wire_spec_release(struct wire_spec *spec) {
    free(spec->argv);
    free(spec->bundle_paths);
    free(spec->cover);
    free(spec->sockets);
    free(spec->overlays);
    if (spec->map)
        munmap((void *)(uintptr_t)spec->map, spec->map_size);
    *spec = (struct wire_spec){0};
}
