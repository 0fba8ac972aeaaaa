/* The vault as a thing: reading its file, looking into it, binding, rendering, wiping. */
#include "vault/vault.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vault/internal.h"

void *vault_grow(void *array, size_t *n, size_t size) {
    /* room for a power of two is kept, so that growing one by one is cheap */
    void *p;
    memcpy(&p, array, sizeof p);
    if (*n == 0 || (*n & (*n - 1)) == 0) {
        void *grown = realloc(p, (*n ? *n * 2 : 1) * size);
        if (!grown)
            return NULL;
        memcpy(array, &grown, sizeof grown);
        p = grown;
    }
    void *one = (char *)p + *n * size;
    memset(one, 0, size);
    ++*n;
    return one;
}

/* --- reading -------------------------------------------------------------------------------------------- */

static int check_owner(int fd, const char *path, struct errmsg *msg) {
    struct stat st;
    if (fstat(fd, &st) < 0)
        return errmsg_errno(msg, ERR_IO, "%s", path);
    if (!S_ISREG(st.st_mode))
        return errmsg_set(msg, ERR_DENIED, "%s is no regular file", path);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return errmsg_set(msg, ERR_DENIED, "%s belongs to user %u, who could name programs to run as you",
                          path, (unsigned)st.st_uid);
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return errmsg_set(
            msg, ERR_DENIED,
            "others may write to %s (mode %03o) and could name programs to run as you: chmod go-w "
            "takes that away",
            path, (unsigned)(st.st_mode & 07777));
    return 0;
}

int vault_read(const char *path, struct buf *text, struct errmsg *msg) {
    char *room;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errmsg_errno(msg, ERR_IO, "%s can't be opened", path);
    int r = check_owner(fd, path, msg);
    size_t total = 0;
    while (r == 0) {
        r = buf_reserve(text, 16384, &room);
        ssize_t n = r ? 0 : read(fd, room, 16384);
        if (r || total + (size_t)(n < 0 ? 0 : n) > VAULT_FILE_MAX)
            r = errmsg_set(msg, r ? r : ERR_LIMIT, "%s is larger than %u bytes", path, VAULT_FILE_MAX);
        else if (n > 0)
            buf_commit(text, (size_t)n), total += (size_t)n;
        else if (n == 0)
            break;
        else if (errno != EINTR)
            r = errmsg_errno(msg, ERR_IO, "%s can't be read", path);
    }
    close(fd);
    return r;
}

/* --- what is in it -------------------------------------------------------------------------------------- */

const struct credential *vault_find(const struct vault *v, struct slice name) {
    for (size_t i = 0; i < v->n; i++)
        if (v->list[i].name && slice_eq(slice_str(v->list[i].name), name))
            return &v->list[i];
    return NULL;
}

size_t vault_count(const struct vault *v) {
    return v->n;
}

const char *vault_name(const struct vault *v, size_t i) {
    return v->list[i].name;
}

bool vault_has(const struct vault *v, struct slice name) {
    return vault_find(v, name) != NULL;
}

struct vault_source vault_source(const struct vault *v, size_t i) {
    return (struct vault_source){.kind = v->list[i].kind, .name = v->list[i].argv[0]};
}

bool vault_watched(const struct vault *v, size_t i) {
    return !v->list[i].unwatched;
}

static void release_scopes(struct scope *list, size_t n) {
    for (size_t i = 0; i < n; i++)
        free(list[i].path);
    free(list);
}

static void release_credential(struct credential *c) {
    release_scopes(c->scopes, c->nscopes);
    for (size_t i = 0; i < c->nargv; i++)
        free(c->argv[i]);
    free(c->argv);
    for (size_t i = 0; i < c->nforms; i++) {
        struct form *f = &c->forms[i];
        secret_release(&f->value);
        release_scopes(f->scopes, f->nscopes);
        free(f->header);
        free(f->before);
        free(f->user);
    }
    free(c->forms);
    for (size_t i = 0; i < c->nremoves; i++)
        free(c->removes[i]);
    free(c->removes);
    free(c->name);
}

void vault_free(struct vault *v) {
    if (!v)
        return;
    for (size_t i = 0; i < v->n; i++)
        release_credential(&v->list[i]);
    free(v->list);
    marks_free(v->marks);
    free(v->file);
    free(v->folder);
    free(v->text);
    free(v);
}

void vault_wipe_env(const struct vault *v) {
    for (size_t i = 0; i < v->n; i++) {
        const struct credential *c = &v->list[i];
        size_t n = c->kind == VAULT_FROM_ENV ? strlen(c->argv[0]) : 0;
        /* every entry of that name, since getenv shows the first alone; the bytes are those that
         * /proc/PID/environ shows */
        for (char **e = environ; n && e && *e; e++)
            if (strncmp(*e, c->argv[0], n) == 0 && (*e)[n] == '=')
                secret_wipe(*e + n + 1, strlen(*e + n + 1));
        if (n)
            unsetenv(c->argv[0]);
    }
}

/* --- binding -------------------------------------------------------------------------------------------- */

/*
 * The pattern as a row of states, state j being "the first j characters of it have matched"; a star is one
 * state that may stay. All states that are possible are carried along, so nothing is ever tried twice: time is
 * the product of the lengths, at worst. '*': any characters but '/'; '**': any.
 */
static bool vault_glob(const char *pattern, struct slice path) {
    unsigned char state[1024] = {0};
    unsigned short token[sizeof state]; /* a character, or STAR, or STARS */
    enum { STAR = 256, STARS };
    size_t n = 0;
    for (const char *p = pattern; *p; p++) {
        if (n + 1 == sizeof state)
            return false;
        token[n++] = *p != '*' ? (unsigned char)*p : p[1] == '*' ? STARS : STAR;
        while (*p == '*' && p[1] == '*')
            p++;
    }
    state[0] = 1;
    for (size_t i = 0; i <= path.n; i++) {
        /* a star may be nothing */
        for (size_t j = 0; j < n; j++)
            if (state[j] && token[j] >= STAR)
                state[j + 1] = 1;
        if (i == path.n)
            break;
        unsigned char c = (unsigned char)path.p[i];
        for (size_t j = n; j-- > 0;) {
            bool stays = state[j + 1] && (token[j] == STARS || (token[j] == STAR && c != '/'));
            bool moves = state[j] && token[j] == c;
            state[j + 1] = stays || moves;
        }
        state[0] = 0;
    }
    return state[n];
}

static bool in_origin(const struct scope *s, const struct vault_origin *o) {
    return s->scheme == o->scheme && s->port == o->port && slice_eq(url_host_slice(&s->host), o->host);
}

static bool in_scope(const struct scope *s, const struct vault_origin *o, struct slice path) {
    return in_origin(s, o) && (!s->path || vault_glob(s->path, path));
}

static int refuse(int err, const struct credential *c, const struct vault_origin *origin, const char *what,
                  struct errmsg *msg) {
    struct buf b;
    buf_init(&b, 512);
    url_put_origin(&b, origin->scheme, origin->host, origin->port);
    errmsg_set(msg, err, "credential '%s' %s %.*s", c->name, what, SLICE_ARG(buf_slice(&b)));
    buf_release(&b);
    return err;
}

const struct form *vault_form(const struct vault *v, struct slice name, const struct vault_origin *origin,
                              struct slice path, int *err, struct errmsg *msg) {
    const struct credential *c = v ? vault_find(v, name) : NULL;
    if (!c) {
        *err = errmsg_set(msg, ERR_NOTFOUND, "the vault has no credential '%.*s'",
                          SLICE_ARG(slice_sub(name, 0, 64)));
        return NULL;
    }
    bool origin_bound = false, bound = false;
    for (size_t i = 0; i < c->nscopes; i++) {
        origin_bound = origin_bound || in_origin(&c->scopes[i], origin);
        bound = bound || in_scope(&c->scopes[i], origin, path);
    }
    if (!bound) {
        *err = refuse(ERR_DENIED, c, origin, origin_bound ? "is not for this path on" : "is not for", msg);
        return NULL;
    }
    for (size_t i = 0; i < c->nforms; i++) {
        const struct form *f = &c->forms[i];
        bool fits = f->nscopes == 0;
        for (size_t j = 0; j < f->nscopes; j++)
            fits = fits || in_scope(&f->scopes[j], origin, path);
        if (fits)
            return f;
    }
    *err = refuse(ERR_DENIED, c, origin, "has no form for this path on", msg);
    return NULL;
}

static bool any_path(const struct scope *list, size_t n, const struct vault_origin *o) {
    for (size_t i = 0; i < n; i++)
        if (list[i].path && in_origin(&list[i], o))
            return false;
    return true;
}

bool vault_any_path(const struct vault *v, struct slice name, const struct vault_origin *origin) {
    const struct credential *c = vault_find(v, name);
    bool any = c && any_path(c->scopes, c->nscopes, origin);
    for (size_t i = 0; any && i < c->nforms; i++)
        any = any_path(c->forms[i].scopes, c->forms[i].nscopes, origin);
    return any;
}
