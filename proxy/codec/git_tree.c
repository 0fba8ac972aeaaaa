#include "proxy/codec/git_tree.h"

#define MODE_DIGITS 7
#define TREE_NESTED                                                                                          \
    64 /* names that are each the beginning of the next and go on below '/': "a", "a-b", "a-b.c" */

static bool tree_mode(struct slice *tree, unsigned *mode) {
    static const unsigned known[] = {GIT_MODE_TREE, GIT_MODE_LINK, GIT_MODE_GITLINK,
                                     0100644,       0100755,       0100664};
    unsigned value = 0;
    size_t i = 0;
    for (; i < tree->n && i < MODE_DIGITS && tree->p[i] >= '0' && tree->p[i] <= '7'; i++)
        value = value << 3 | (unsigned)(tree->p[i] - '0');
    if (i == 0 || i >= tree->n || tree->p[i] != ' ')
        return false;
    *tree = slice_from(*tree, i + 1);
    *mode = value;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (known[k] == value)
            return true;
    return false;
}

int git_tree_next(struct slice *tree, unsigned id_size, struct git_entry *out) {
    struct slice rest = *tree, name;
    struct git_entry e;
    if (rest.n == 0)
        return ERR_EOF;
    if (!tree_mode(&rest, &e.mode) || !slice_cut(rest, 0, &name, &rest) || rest.n < id_size)
        return ERR_PARSE;
    if (name.n == 0 || slice_find(name, '/') >= 0 || slice_eq(name, SLICE(".")) ||
        slice_eq(name, SLICE("..")))
        return ERR_PARSE;
    e.name = name;
    e.id = (const uint8_t *)rest.p;
    *out = e;
    *tree = slice_from(rest, id_size);
    return 0;
}

static int end_of(const struct git_entry *e, size_t at) {
    return at < e->name.n ? (uint8_t)e->name.p[at] : git_entry_is_tree(e) ? '/' : 0;
}

int git_entry_cmp(const struct git_entry *a, const struct git_entry *b) {
    size_t n = a->name.n < b->name.n ? a->name.n : b->name.n;
    int r = memcmp(a->name.p, b->name.p, n);
    if (r)
        return r;
    if (end_of(a, n) != end_of(b, n))
        return end_of(a, n) - end_of(b, n);
    return (a->name.n > b->name.n) - (a->name.n < b->name.n);
}

/*
 * A file "a" and a directory "a" may have others between them, all of which begin with "a" and go on below '/'. So a name
 * matters for as long as such ones follow, and those that matter at one time are each the beginning of the next.
 */
struct names {
    struct slice list[TREE_NESTED];
    size_t n;
};

/* Can a directory of this name still come behind `e`? */
static bool name_matters(struct slice name, const struct git_entry *e) {
    return slice_starts(e->name, name) && (e->name.n == name.n || (uint8_t)e->name.p[name.n] < '/');
}

static bool names_add(struct names *names, const struct git_entry *e) {
    while (names->n && !name_matters(names->list[names->n - 1], e))
        names->n--;
    if (git_entry_is_tree(e))
        return names->n == 0 || !slice_eq(names->list[names->n - 1], e->name);
    if (names->n == TREE_NESTED)
        return false;
    names->list[names->n++] = e->name;
    return true;
}

int git_tree_check(struct slice tree, unsigned id_size) {
    struct names names = {.n = 0};
    struct git_entry e, last = {.mode = 0};
    int r;
    while ((r = git_tree_next(&tree, id_size, &e)) == 0) {
        if ((last.mode && git_entry_cmp(&last, &e) >= 0) || !names_add(&names, &e))
            return ERR_PARSE;
        last = e;
    }
    return r == ERR_EOF ? 0 : r;
}
