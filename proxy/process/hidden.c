#include "proxy/process/hidden.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* `text` is taken; NULL: memory was short. */
static int add(char ***list, size_t *n, char *text) {
    char **longer = text ? realloc(*list, (*n + 2) * sizeof **list) : NULL;
    if (!longer) {
        free(text);
        return ERR_NOMEM;
    }
    *list = longer;
    longer[(*n)++] = text;
    longer[*n] = NULL;
    return 0;
}

/* A regular file, if there is one; a log may as well be a terminal or /dev/null. */
static int add_file(struct hidden *h, const char *path, struct errmsg *msg) {
    struct stat st;
    if (!path || stat(path, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    char *real = realpath(path, NULL);
    if (!real)
        return errmsg_errno(msg, ERR_IO, "%s, which is to be covered in the sandbox", path);
    int r = add(&h->files, &h->nfiles, real);
    return r < 0 ? errmsg_set(msg, r, "out of memory") : 0;
}

/* What is laid over a file hides one name of it. Another one (a hard link) can be anywhere, and would be read inside. */
static int add_secret(struct hidden *h, const char *path, struct errmsg *msg) {
    struct stat st;
    if (path && stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink > 1)
        return errmsg_set(
            msg, ERR_USAGE,
            "%s has %ju names (hard links), of which only this one would be covered inside: put a copy in "
            "its place",
            path, (uintmax_t)st.st_nlink);
    return add_file(h, path, msg);
}

static int add_source(struct hidden *h, struct vault_source source, struct errmsg *msg) {
    if (source.kind == VAULT_FROM_FILE)
        return add_secret(h, source.name, msg);
    if (source.kind == VAULT_FROM_ENV && add(&h->variables, &h->nvariables, strdup(source.name)) < 0)
        return errmsg_set(msg, ERR_NOMEM, "out of memory");
    return 0;
}

int hidden_collect(struct hidden *h, const char *vault_path, const struct vault *vault, const char *log,
                   struct errmsg *msg) {
    int r = add_secret(h, vault_path, msg);
    for (size_t i = 0; r == 0 && vault && i < vault_count(vault); i++)
        r = add_source(h, vault_source(vault, i), msg);
    return r < 0 ? r : add_file(h, log, msg);
}

static void put_list(struct msg_out *m, char *const *list, size_t n) {
    msg_put_u32(m, (uint32_t)n);
    for (size_t i = 0; i < n; i++)
        msg_put_str(m, list[i]);
}

void hidden_put(const struct hidden *h, struct msg_out *m) {
    put_list(m, h->files, h->nfiles);
    put_list(m, h->variables, h->nvariables);
    msg_put_str(m, h->redis_path);
}

static int get_list(struct msg_in *m, char ***list, size_t *n) {
    uint32_t count = msg_get_u32(m);
    if (count > HIDDEN_MAX)
        return ERR_PEER;
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < count && !m->err; i++)
        r = add(list, n, slice_dup(msg_get_slice(m)));
    return r;
}

int hidden_get(struct hidden *h, struct msg_in *m) {
    int r = get_list(m, &h->files, &h->nfiles);
    if (r == 0)
        r = get_list(m, &h->variables, &h->nvariables);
    struct slice path = msg_get_slice(m);
    if (r == 0 && path.n >= sizeof h->redis_path)
        r = ERR_PEER;
    if (r == 0 && path.n)
        memcpy(h->redis_path, path.p, path.n);
    return r;
}

void hidden_release(struct hidden *h) {
    for (size_t i = 0; i < h->nfiles; i++)
        free(h->files[i]);
    for (size_t i = 0; i < h->nvariables; i++)
        free(h->variables[i]);
    free(h->files);
    free(h->variables);
    *h = (struct hidden){.files = NULL};
}
