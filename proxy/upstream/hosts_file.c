#include "proxy/upstream/hosts_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/url.h"

/* Sorted by name, then by place in the file. */
struct entry {
    struct slice name; /* in `names` of the file */
    size_t order;
    struct addr addr;
};

struct hosts_file {
    struct buf names;
    struct entry *entries;
    size_t n, cap;
};

static struct slice next_word(struct slice *rest) {
    size_t from = 0, to;
    while (from < rest->n && (rest->p[from] == ' ' || rest->p[from] == '\t' || rest->p[from] == '\r'))
        from++;
    for (to = from; to < rest->n && rest->p[to] != ' ' && rest->p[to] != '\t' && rest->p[to] != '\r';)
        to++;
    struct slice word = slice_sub(*rest, from, to - from);
    *rest = slice_from(*rest, to);
    return word;
}

static int add(struct hosts_file *h, struct slice raw, const struct addr *addr) {
    struct url_host host;
    if (url_host_parse(raw, &host, NULL) || host.kind != URL_HOST_NAME || h->n == HOSTS_NAMES_MAX)
        return 0;
    struct entry *entries = array_room(h->entries, h->n, &h->cap, sizeof *entries);
    if (!entries)
        return ERR_NOMEM;
    h->entries = entries;
    size_t at = buf_len(&h->names);
    if (buf_put(&h->names, url_host_slice(&host)))
        return ERR_NOMEM;
    /* the buffer moves as it grows: the offset stands in for the pointer until all is read */
    h->entries[h->n] = (struct entry){.name = {(const char *)at, host.n}, .order = h->n, .addr = *addr};
    h->n++;
    return 0;
}

static int add_line(struct hosts_file *h, struct slice line) {
    struct slice text, comment;
    struct addr addr;
    slice_cut(line, '#', &text, &comment);
    if (!addr_parse(next_word(&text), 0, &addr))
        return 0;
    for (struct slice name; (name = next_word(&text)).n;) {
        int r = add(h, name, &addr);
        if (r)
            return r;
    }
    return 0;
}

static int by_name(const void *a, const void *b) {
    const struct entry *x = a, *y = b;
    int c = slice_cmp(x->name, y->name);
    return c ? c : x->order < y->order ? -1 : x->order > y->order;
}

struct hosts_file *hosts_file_parse(struct slice text) {
    struct hosts_file *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    buf_init(&h->names, 2 * (size_t)HOSTS_FILE_MAX);
    for (bool more = true; more;) {
        struct slice line;
        more = slice_cut(text, '\n', &line, &text);
        if (add_line(h, line)) {
            hosts_file_free(h);
            return NULL;
        }
    }
    const char *names = buf_slice(&h->names).p;
    for (size_t i = 0; i < h->n; i++)
        h->entries[i].name.p = names + (size_t)h->entries[i].name.p;
    if (h->n)
        qsort(h->entries, h->n, sizeof h->entries[0], by_name);
    return h;
}

struct hosts_file *hosts_file_load(const char *path) {
    struct buf text;
    buf_init(&text, HOSTS_FILE_MAX);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0) {
        char *room;
        ssize_t n = 1;
        while (n > 0 && buf_reserve(&text, 4096, &room) == 0) {
            n = read(fd, room, 4096);
            if (n > 0)
                buf_commit(&text, (size_t)n);
        }
        close(fd);
    }
    struct hosts_file *h = hosts_file_parse(buf_slice(&text));
    buf_release(&text);
    return h;
}

void hosts_file_free(struct hosts_file *h) {
    if (!h)
        return;
    buf_release(&h->names);
    free(h->entries);
    free(h);
}

size_t hosts_file_find(const struct hosts_file *h, struct slice name, struct addr *out, size_t max) {
    size_t low = 0, high = h->n, found = 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (slice_cmp(h->entries[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < h->n && found < max && slice_eq(h->entries[low].name, name); low++)
        out[found++] = h->entries[low].addr;
    return found;
}
