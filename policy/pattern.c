/*
 * Patterns from words. A path is canonicalised by the same functions as a request's: first the whole is checked, with
 * a letter in each wildcard's place, then it is read character by character.
 */
#include "policy/compile.h"

#include "policy/diag.h"

struct maker {
    struct compiler *c;
    const struct expanded *e;
    size_t from, to; /* where all of it stands in e, for errors */
    enum pattern_kind kind;
    struct globs *out;
    size_t tried;
    bool (*each)(void *arg, const struct mark *c, size_t n); /* PATTERN_HOST */
    void *arg;
};

static bool fault(struct maker *m, const char *hint, const char *what) {
    diag_marks(m->c, m->e, m->from, m->to - m->from, NULL, hint, "%s", what);
    return false;
}

static bool is_star(const struct mark *c) {
    return c->code == '*';
}

/* The wildcard at c[*i]; 0 if it is none. */
static unsigned wildcard(struct maker *m, const struct mark *c, size_t n, size_t *i) {
    size_t stars = 0;
    while (*i + stars < n && is_star(&c[*i + stars]))
        stars++;
    *i += stars;
    if (stars > 2)
        fault(m, "`*` stays within a segment, `**` crosses them", "more than two '*' in a row");
    return stars == 0 ? 0 : stars == 1 ? GLOB_STAR : GLOB_STARSTAR;
}

/* Whether the path would pass as a request's. */
static bool check_path(struct maker *m, struct slice plain, const struct mark *c) {
    struct errmsg msg;
    unsigned flags = 0;
    struct buf checked;
    char copy[POLICY_LINE_MAX];
    for (size_t i = 0; i < plain.n; i++) {
        copy[i] = is_star(&c[i]) ? 'x' : plain.p[i];
        if (c[i].code == '?' || c[i].code == '#')
            return fault(m, "a condition on the query is written: where query NAME == VALUE",
                         "a query or fragment is not part of a target");
    }
    buf_init(&checked, 3 * POLICY_LINE_MAX);
    int r = url_path_canonical(slice_make(copy, plain.n), &checked, &flags, &msg);
    buf_release(&checked);
    if (r)
        return fault(m, "no request with such a path is ever let through", msg.text);
    if (flags & URL_PATH_EMPTY_SEGMENT)
        return fault(m, NULL, "path has two slashes in a row, which no allow ever matches");
    return true;
}

static bool make_path(struct maker *m, const struct mark *c, size_t n) {
    uint16_t units[GLOB_MAX];
    size_t count = 0;
    struct slice plain = expanded_text(m->c, c, n);
    if (!plain.p || (n > 0 && !check_path(m, plain, c)))
        return false;
    for (size_t i = 0; i < n; count++) {
        if (count == GLOB_MAX)
            return fault(m, NULL, "pattern is too long");
        unsigned wild = wildcard(m, c, n, &i);
        units[count] = (uint16_t)(wild ? wild : url_path_unit(plain, &i));
    }
    return glob_make(&m->out->list[m->out->n++], units, count, &m->c->p->arena);
}

/* ".git" and slashes at the end make no difference to a forge. */
static size_t repository_end(const struct mark *c, size_t n) {
    while (n && (c[n - 1].code & 0xff) == '/')
        n--;
    bool git = n >= 4;
    for (size_t i = 0; git && i < 4; i++)
        git = ascii_lower((char)c[n - 4 + i].code) == ".git"[i] && !is_star(&c[n - 4 + i]);
    if (git)
        for (n -= 4; n && (c[n - 1].code & 0xff) == '/';)
            n--;
    return n;
}

/* The name of a changed file, as git has it: from the repository's root, without a '/' in front. */
static bool make_file(struct maker *m, const struct mark *c, size_t n) {
    uint16_t units[GLOB_MAX];
    size_t count = 0;
    if (n == 0 || c[0].code == '/')
        return fault(m, "write it from the repository's root: .github/**",
                     "a file's pattern begins with no '/'");
    for (size_t i = 0; i < n; count++) {
        if (count == GLOB_MAX)
            return fault(m, NULL, "pattern is too long");
        unsigned wild = wildcard(m, c, n, &i);
        units[count] = wild ? (uint16_t)wild : c[i].code & 0xff;
        i += !wild;
    }
    return glob_make(&m->out->list[m->out->n++], units, count, &m->c->p->arena);
}

/* Nothing in an identity separates segments. */
static bool make_name(struct maker *m, const struct mark *c, size_t n) {
    uint16_t units[GLOB_MAX];
    size_t count = 0;
    for (size_t i = 0; i < n; count++) {
        if (count == GLOB_MAX)
            return fault(m, NULL, "pattern is too long");
        bool wild = wildcard(m, c, n, &i) != 0;
        units[count] = wild ? GLOB_STARSTAR : c[i].code & 0xff;
        i += !wild;
    }
    return glob_make(&m->out->list[m->out->n++], units, count, &m->c->p->arena);
}

static bool make_ref(struct maker *m, const struct mark *c, size_t n) {
    static const char prefix[] = "refs/";
    uint16_t units[GLOB_MAX];
    size_t count = 0;
    for (size_t i = 0; i < sizeof prefix - 1; i++)
        if (i >= n || (c[i].code & 0xff) != (unsigned char)prefix[i])
            return fault(m, "a branch is written refs/heads/NAME, a tag refs/tags/NAME, any ref refs/**",
                         "a ref's pattern begins with refs/");
    for (size_t i = 0; i < n; count++) {
        if (count == GLOB_MAX)
            return fault(m, NULL, "pattern is too long");
        unsigned wild = wildcard(m, c, n, &i);
        if (wild) {
            units[count] = (uint16_t)wild;
            continue;
        }
        if (c[i].code < MARK_LITERAL && strchr("?[]\\~^:", (int)c[i].code))
            return fault(m, "patterns of refs are made of * (within a segment) and **",
                         "a character that no ref's name has");
        units[count] = c[i].code & 0xff;
        i++;
    }
    return glob_make(&m->out->list[m->out->n++], units, count, &m->c->p->arena);
}

static bool make(struct maker *m, const struct mark *c, size_t n) {
    if (m->out && m->out->n == ALTERNATIVES_MAX)
        return fault(m, NULL, "too many alternatives");
    switch (m->kind) {
    case PATTERN_PATH: return make_path(m, c, n);
    case PATTERN_REPOSITORY: return make_path(m, c, repository_end(c, n));
    case PATTERN_REF: return make_ref(m, c, n);
    case PATTERN_FILE: return make_file(m, c, n);
    case PATTERN_NAME: return make_name(m, c, n);
    case PATTERN_HOST: return m->each(m->arg, c, n);
    }
    return false;
}

/* The '}' that closes the brace at c[open], or n. */
static size_t closing(const struct mark *c, size_t n, size_t open) {
    size_t depth = 0;
    for (size_t i = open; i < n; i++) {
        depth += c[i].code == '{';
        if (c[i].code == '}' && --depth == 0)
            return i;
    }
    return n;
}

/* Takes the first brace of c apart and goes on with each of its alternatives in its place. */
static bool each(struct maker *m, const struct mark *c, size_t n, int depth) {
    size_t open = 0;
    while (open < n && c[open].code != '{')
        open++;
    if (open == n) {
        for (size_t i = 0; i < n; i++)
            if (c[i].code == '}')
                return fault(m, NULL, "'}' without a '{'");
        return make(m, c, n);
    }
    size_t close = closing(c, n, open);
    if (close == n && m->kind == PATTERN_HOST)
        return fault(
            m,
            "a host's braces close before its path; those of a path begin behind its first slash: /{,v1/}x",
            "'{' without a '}' in the host");
    if (close == n)
        return fault(m, NULL, "'{' without a '}'");
    if (depth == 8 || ++m->tried > ALTERNATIVES_MAX)
        return fault(m, NULL, "too many alternatives");
    struct mark *one = arena_alloc(&m->c->scratch, n * sizeof *one);
    size_t start = open + 1, level = 0;
    for (size_t i = start; one && i <= close; i++) {
        if (i < close && (c[i].code != ',' || level)) {
            level += c[i].code == '{';
            level -= c[i].code == '}';
            continue;
        }
        size_t size = open;
        memcpy(one, c, open * sizeof *c);
        memcpy(one + size, c + start, (i - start) * sizeof *c);
        size += i - start;
        memcpy(one + size, c + close + 1, (n - close - 1) * sizeof *c);
        size += n - close - 1;
        if (!each(m, one, size, depth + 1))
            return false;
        start = i + 1;
    }
    return one != NULL;
}

bool pattern_compile(struct compiler *c, const struct expanded *e, size_t from, size_t to,
                     enum pattern_kind kind, struct globs *out) {
    struct maker m = {.c = c, .e = e, .from = from, .to = to, .kind = kind, .out = out};
    return each(&m, e->c + from, to - from, 0);
}

bool pattern_each(struct compiler *c, const struct expanded *e, size_t to,
                  bool (*each_one)(void *arg, const struct mark *c, size_t n), void *arg) {
    struct maker m = {.c = c, .e = e, .to = to, .kind = PATTERN_HOST, .each = each_one, .arg = arg};
    return each(&m, e->c, to, 0);
}
