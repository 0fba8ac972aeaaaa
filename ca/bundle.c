#include "ca/bundle.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ca/pem.h"
#include "ca/sha1.h"

#define ROOTS_MAX 4096
#define READ_SIZE 65536

/* --- collecting ----------------------------------------------------------------------------------------- */

/* Roots are written out as they are found, each once. They are told apart by their text, which is always of one form: a digest
 * would do as well, but to make ready for one takes OpenSSL longer than all the rest of this. */
struct collection {
    struct buf *out;
    struct {
        size_t at, n;
    } blocks[ROOTS_MAX]; /* in `out` */
    size_t n;
    size_t found; /* new or not */
    bool again;   /* a file was read before */
    struct ca_read *read;
};

/* What is in `out` already, which nothing but this has written. */
static int recall(struct collection *c) {
    struct slice text = buf_slice(c->out), begin = SLICE("-----BEGIN ");
    for (size_t at = 0; at < text.n; c->n++) {
        struct slice rest = slice_from(text, at + begin.n);
        const char *next = rest.n ? memmem(rest.p, rest.n, begin.p, begin.n) : NULL;
        if (c->n == ROOTS_MAX)
            return ERR_LIMIT;
        c->blocks[c->n].at = at;
        c->blocks[c->n].n = (next ? (size_t)(next - text.p) : text.n) - at;
        at += c->blocks[c->n].n;
    }
    return 0;
}

static bool have(const struct collection *c, struct slice block) {
    struct slice text = buf_slice(c->out);
    for (size_t i = 0; i < c->n; i++)
        if (slice_eq(slice_sub(text, c->blocks[i].at, c->blocks[i].n), block))
            return true;
    return false;
}

static int collect(void *arg, struct slice der) {
    struct collection *c = arg;
    struct buf block;
    buf_init(&block, CA_BUNDLE_MAX);
    int r = pem_put(&block, der);
    c->found++;
    if (r == 0 && !have(c, buf_slice(&block))) {
        size_t at = buf_len(c->out);
        r = c->n == ROOTS_MAX ? ERR_LIMIT : buf_put(c->out, buf_slice(&block));
        if (r == 0) {
            c->blocks[c->n].at = at;
            c->blocks[c->n++].n = buf_len(&block);
        }
    }
    buf_release(&block);
    return r;
}

/* In directories every file has two names, the second one a hash. */
static bool read_before(struct ca_read *read, const struct stat *st) {
    for (size_t i = 0; read && i < read->n; i++)
        if (read->files[i].ino == st->st_ino && read->files[i].dev == st->st_dev)
            return true;
    if (read && read->n < CA_READ_MAX) {
        read->files[read->n].dev = st->st_dev;
        read->files[read->n++].ino = st->st_ino;
    }
    return false;
}

/* The bytes of a regular file, none if it was read before. 0; ERR_IO with errno set; ERR_LIMIT. */
static int read_file(struct collection *c, int dirfd, const char *path, struct buf *out) {
    struct stat st;
    char *room;
    int r = 0;
    int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return ERR_IO;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        errno = EINVAL;
        r = ERR_IO;
    }
    bool again = r == 0 && read_before(c->read, &st);
    c->again |= again;
    /* at once for all of it and for the read that finds its end, so that it need not move */
    if (r == 0 && !again && st.st_size < CA_BUNDLE_MAX - READ_SIZE)
        r = buf_reserve(out, (size_t)st.st_size + READ_SIZE, &room);
    while (r == 0 && !again && (r = buf_reserve(out, READ_SIZE, &room)) == 0) {
        ssize_t n = read(fd, room, READ_SIZE);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            r = ERR_IO;
        if (n <= 0)
            break;
        buf_commit(out, (size_t)n);
    }
    int e = errno;
    close(fd);
    errno = e;
    return r;
}

static int collect_file(struct collection *c, int dirfd, const char *path) {
    struct buf text;
    buf_init(&text, CA_BUNDLE_MAX);
    char *room;
    int r = read_file(c, dirfd, path, &text);
    /* at once, or it moves as it grows */
    if (r == 0 && buf_len(&text) < CA_BUNDLE_MAX - buf_len(c->out))
        r = buf_reserve(c->out, buf_len(&text), &room);
    if (r == 0)
        r = pem_each(buf_slice(&text), collect, c);
    int e = errno;
    buf_release(&text);
    errno = e;
    return r;
}

/* Every file of one directory; those that can't be read are passed over. */
static int collect_dir(struct collection *c, const char *path) {
    int r = 0;
    DIR *dir = opendir(path);
    if (!dir)
        return 0;
    struct dirent *e;
    while (r == 0 && (e = readdir(dir))) {
        if (e->d_name[0] == '.')
            continue;
        r = collect_file(c, dirfd(dir), e->d_name);
        if (r == ERR_IO)
            r = 0;
    }
    closedir(dir);
    return r;
}

/* A list of directories, as OpenSSL reads SSL_CERT_DIR. */
static int collect_dirs(struct collection *c, const char *list) {
    struct slice rest = slice_str(list), one;
    bool more;
    int r = 0;
    do {
        more = slice_cut(rest, ':', &one, &rest);
        char *path = one.n ? slice_dup(one) : NULL;
        if (path)
            r = collect_dir(c, path);
        free(path);
    } while (r == 0 && more);
    return r;
}

static int collect_named(struct collection *c, const char *file, const char *dirs, struct errmsg *msg) {
    int r = 0;
    if (file && *file) {
        r = collect_file(c, AT_FDCWD, file);
        if (r == ERR_IO)
            return errmsg_errno(msg, ERR_IO, "SSL_CERT_FILE=%s can't be read", file);
    }
    if (r == 0 && dirs && *dirs)
        r = collect_dirs(c, dirs);
    return r;
}

static int collect_known(struct collection *c) {
    struct ca_paths paths = {0};
    int r = ca_bundle_paths(&paths);
    for (size_t i = 0; r == 0 && c->n == 0 && i < paths.n; i++) {
        r = collect_file(c, AT_FDCWD, paths.list[i]);
        if (r == ERR_IO)
            r = 0;
    }
    ca_paths_release(&paths);
    if (r == 0 && c->n == 0)
        r = collect_dirs(c, OPENSSL_DIR "/certs");
    if (r == 0 && c->n == 0)
        r = collect_dir(c, "/etc/ssl/certs");
    return r;
}

/* Some 64 KiB, most of which are never touched. */
static struct collection *begin(struct buf *pem, struct ca_read *read) {
    struct collection *c = calloc(1, sizeof *c);
    if (c) {
        c->out = pem;
        c->read = read;
    }
    return c;
}

int ca_system_roots(struct buf *pem, struct ca_read *read, size_t *count, struct errmsg *msg) {
    const char *file = getenv("SSL_CERT_FILE");
    const char *dirs = getenv("SSL_CERT_DIR");
    struct collection *c = begin(pem, read);
    bool named = (file && *file) || (dirs && *dirs);
    int r = !c ? ERR_NOMEM : named ? collect_named(c, file, dirs, msg) : collect_known(c);
    if (r && r != ERR_IO)
        errmsg_set(msg, r, "the host's root certificates can't be collected: %s", err_text(r));
    if (count)
        *count = c ? c->n : 0;
    free(c);
    return r;
}

int ca_file_roots(const char *path, struct buf *pem, struct ca_read *read, struct errmsg *msg) {
    struct collection *c = begin(pem, read);
    int r = c ? recall(c) : ERR_NOMEM;
    if (r == 0)
        r = collect_file(c, AT_FDCWD, path);
    if (r == ERR_IO)
        errmsg_errno(msg, r, "%s can't be read", path);
    else if (r)
        errmsg_set(msg, r, "%s: %s", path, err_text(r));
    else if (c->found == 0 && !c->again)
        r = errmsg_set(msg, ERR_PARSE, "%s holds no certificate in PEM", path);
    free(c);
    return r;
}

/* --- Java ----------------------------------------------------------------------------------------------- */

/*
 * JKS, as every Java since 1.2 reads it: magic, version, number of entries; for each trusted certificate a
 * tag, an alias, a date, the certificate's kind and its DER; at the end a SHA-1 over the password (UTF-16), a
 * fixed phrase, and all of the above. The digest guards against accidents, no more; there is nothing secret
 * in it.
 */
#define JKS_MAGIC   0xfeedfeedu
#define JKS_VERSION 2
#define JKS_TRUSTED 2
#define JKS_PHRASE  "Mighty Aphrodite"

static void put_be(struct buf *out, uint64_t v, int bytes) {
    while (bytes-- > 0)
        buf_putc(out, (char)(v >> (8 * bytes)));
}

static void put_utf(struct buf *out, const char *ascii) {
    put_be(out, strlen(ascii), 2);
    buf_puts(out, ascii);
}

static int put_cert(void *arg, struct slice der) {
    struct ca_jks *j = arg;
    char alias[32];
    snprintf(alias, sizeof alias, "root-%u", j->n++);
    put_be(j->out, JKS_TRUSTED, 4);
    put_utf(j->out, alias);
    put_be(j->out, j->now_ms, 8);
    put_utf(j->out, "X.509");
    put_be(j->out, der.n, 4);
    buf_put(j->out, der);
    return j->out->failed ? ERR_LIMIT : 0;
}

static int put_digest(struct buf *out, size_t from) {
    static const char password[] = CA_JKS_PASSWORD;
    char wide[2 * (sizeof password - 1)];
    unsigned char md[SHA1_SIZE];
    for (size_t i = 0; i < sizeof wide; i++)
        wide[i] = i % 2 ? password[i / 2] : 0;
    struct slice texts[] = {slice_make(wide, sizeof wide), SLICE(JKS_PHRASE),
                            slice_from(buf_slice(out), from)};
    sha1_of(texts, sizeof texts / sizeof texts[0], md);
    return buf_put(out, slice_make(md, sizeof md));
}

int ca_jks_begin(struct ca_jks *j, struct buf *out, size_t bytes, uint64_t now_ms) {
    *j = (struct ca_jks){.out = out, .from = buf_len(out), .now_ms = now_ms};
    char *room;
    /* at once, or it moves as it grows; base64 is longer than what is put in its place */
    int r = buf_reserve(out, bytes, &room);
    put_be(out, JKS_MAGIC, 4);
    put_be(out, JKS_VERSION, 4);
    put_be(out, 0, 4); /* their number, once it is known */
    return r ? r : out->failed ? ERR_LIMIT : 0;
}

int ca_jks_add(struct ca_jks *j, struct slice pem) {
    return pem_each(pem, put_cert, j);
}

int ca_jks_end(struct ca_jks *j) {
    uint32_t n = htonl(j->n);
    if (j->out->failed)
        return ERR_LIMIT;
    memcpy(j->out->data + j->out->start + j->from + 8, &n, sizeof n);
    return put_digest(j->out, j->from);
}
