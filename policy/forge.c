/* Which API a request belongs to, and which row of the tables it is. */
#include "policy/forge_read.h"

#include <stdlib.h>

/* --- paths ------------------------------------------------------------------------------------------------- */

/* Segments of a canonical path; empty ones don't count, as servers differ on them. The last one that there is room for
 * holds all the rest. */
static void split(struct forge_reading *r, struct slice path) {
    struct slice rest = path, one;
    for (bool more = true; more;) {
        bool last = r->nsegments == FORGE_SEGMENTS_MAX - 1;
        struct slice from = rest;
        more = slice_cut(rest, '/', &one, &rest);
        if (one.n == 0)
            continue;
        r->segments[r->nsegments++] = last ? from : one;
        if (last)
            return;
    }
}

static bool segment_is(const struct forge_reading *r, size_t i, const char *word) {
    return i < r->nsegments && slice_caseeq(r->segments[i], slice_str(word));
}

bool forge_is_graphql(struct slice segment) {
    const struct slice word = SLICE("graphql");
    return slice_caseeq(slice_sub(segment, 0, word.n), word) &&
           (segment.n == word.n || segment.p[word.n] == '.');
}

/* The API's root is the first `n` segments, of which `folder` are where the forge lies. */
static void enter(struct forge_reading *r, size_t folder, size_t n) {
    const char *from = r->f->path.p;
    if (folder)
        r->prefix = slice_make(from, (size_t)(r->segments[folder - 1].p + r->segments[folder - 1].n - from));
    if (n)
        r->api = slice_make(from, (size_t)(r->segments[n - 1].p + r->segments[n - 1].n - from));
    r->nsegments -= n;
    memmove(r->segments, r->segments + n, r->nsegments * sizeof *r->segments);
}

/* Finds the API, and which forges it may be of. False: the path is of none. */
static bool find_api(struct forge_reading *r, bool root, unsigned forges) {
    static const struct {
        const char *word;
        unsigned forges;
        bool graphql;
    } roots[] = {{"v3", FORGE_GITHUB, false},
                 {"uploads", FORGE_GITHUB, false},
                 {"v4", FORGE_GITLAB, false},
                 {"v1", FORGE_GITEA, false},
                 {"", FORGE_GITHUB | FORGE_GITLAB, true}};
    for (size_t i = 0; i + 1 < r->nsegments && i < 4; i++) {
        for (size_t k = 0; segment_is(r, i, "api") && k < sizeof roots / sizeof *roots; k++) {
            r->forges = roots[k].forges & forges;
            r->graphql = roots[k].graphql;
            bool named = r->graphql ? r->nsegments == i + 2 && forge_is_graphql(r->segments[i + 1])
                                    : segment_is(r, i + 1, roots[k].word);
            if (!named || !r->forges)
                continue;
            enter(r, i, i + 2);
            return true;
        }
    }
    r->forges = forges & FORGE_GITHUB;
    r->graphql = root && r->nsegments == 1 && forge_is_graphql(r->segments[0]);
    if (r->graphql)
        enter(r, 0, 1);
    return root;
}

/* --- rows -------------------------------------------------------------------------------------------------- */

static bool has_method(const char *methods, struct slice method) {
    struct slice rest = slice_str(methods), one;
    for (bool more = true; more;) {
        more = slice_cut(rest, ',', &one, &rest);
        if (slice_eq(one, method))
            return true;
    }
    return false;
}

static void capture(struct forge_reading *r, struct slice name, size_t from, size_t n) {
    const char *end = r->segments[from + n - 1].p + r->segments[from + n - 1].n;
    if (r->ncaptures < FORGE_CAPTURES_MAX)
        r->captures[r->ncaptures++] = (struct forge_capture){
            .name = name,
            .value = slice_make(r->segments[from].p, (size_t)(end - r->segments[from].p)),
        };
}

/* How many segments {repo} takes here: owner and name, or a number, or a project in one. */
static size_t repo_segments(const struct forge_reading *r, const struct forge_row *row, size_t at) {
    return row->forges & FORGE_GITLAB || segment_is(r, at - 1, "repositories") ? 1 : 2;
}

/* Whether the row's path is that of the request. Captures are raw. */
static bool fits(struct forge_reading *r, const struct forge_row *row) {
    struct slice rest = slice_from(slice_str(row->path), 1), word;
    size_t at = 0;
    r->ncaptures = 0;
    for (bool more = true; more;) {
        more = slice_cut(rest, '/', &word, &rest);
        bool open = word.p[0] == '{', tail = open && word.p[word.n - 2] == '*';
        struct slice name = open ? slice_sub(word, 1, word.n - 2 - tail) : word;
        bool repo = open && slice_eq(name, SLICE("repo"));
        size_t take = repo ? repo_segments(r, row, at) : tail ? r->nsegments - at : 1;
        if (at + take > r->nsegments || take == 0)
            return false;
        bool alias = at == 0 && slice_eq(word, SLICE("repos")) && segment_is(r, 0, "repositories");
        if (open)
            capture(r, name, at, take);
        else if (!alias && !slice_caseeq(word, r->segments[at]))
            return false;
        at += take;
    }
    return at == r->nsegments;
}

static const struct forge_row *find_in(struct forge_reading *r, const struct forge_row *rows, size_t n,
                                       struct slice method) {
    for (size_t i = 0; i < n; i++)
        if ((rows[i].forges & r->forges) && has_method(rows[i].methods, method) && fits(r, &rows[i]))
            return &rows[i];
    return NULL;
}

static const struct forge_row *find_row(struct forge_reading *r) {
    size_t n, m;
    const struct forge_row *hub = forge_rows(&n), *lab = forge_gitlab_rows(&m), *row;
    row = find_in(r, hub, n, r->f->method);
    if (!row && slice_eq(r->f->method, SLICE("POST")))
        row = find_in(r, hub, n, SLICE("PATCH"));
    return row ? row : find_in(r, lab, m, r->f->method);
}

/* --- the repository ---------------------------------------------------------------------------------------- */

static bool all_digits(struct slice s) {
    for (size_t i = 0; i < s.n; i++)
        if (!ascii_digit(s.p[i]))
            return false;
    return s.n > 0;
}

/* Undoes percent encoding in what was captured. */
static void decode(struct forge_reading *r, struct slice *s) {
    if (slice_find(*s, '%') < 0)
        return;
    char *text = arena_alloc(&r->out->arena, s->n);
    size_t n = 0;
    for (size_t i = 0; text && i < s->n; i++) {
        int byte = s->p[i] == '%' ? slice_hex_pair(*s, i + 1) : -1;
        text[n++] = byte < 0 ? s->p[i] : (char)byte;
        i += byte < 0 ? 0 : 2;
    }
    if (!text)
        forge_dark(r, "out of memory");
    *s = slice_make(text, n);
}

struct slice forge_repository(struct forge_reading *r, struct slice name) {
    size_t start = 0, parts = 0;
    for (size_t i = 0; i <= name.n; i++) {
        char c = i < name.n ? ascii_lower(name.p[i]) : '/';
        if (c == '/') {
            struct slice one = slice_sub(name, start, i - start);
            if (one.n == 0 || slice_eq(one, SLICE(".")) || slice_eq(one, SLICE("..")))
                forge_dark(r, "it names no repository");
            start = i + 1;
            parts++;
        } else if (!(c >= 'a' && c <= 'z') && !ascii_digit(c) && !strchr("-_.", c)) {
            forge_dark(r, "a repository has no such name");
        }
    }
    if (parts < 2 || (parts > 2 && !(r->forges & FORGE_GITLAB)))
        forge_dark(r, "it names no repository");
    if (r->out->state == FORGE_DARK)
        return SLICE_NONE;
    return forge_text(r, r->prefix, SLICE("/"), name, SLICE_NONE);
}

/* From {repo} of the path. */
static void take_repository(struct forge_reading *r) {
    struct slice raw = SLICE_NONE, name = SLICE_NONE;
    for (size_t i = 0; i < r->ncaptures; i++) {
        if (slice_eq(r->captures[i].name, SLICE("repo")))
            raw = r->captures[i].value;
        decode(r, &r->captures[i].value);
        if (slice_eq(r->captures[i].name, SLICE("repo")))
            name = r->captures[i].value;
    }
    if (raw.n == 0)
        return;
    r->repo_target = slice_make(r->f->path.p, (size_t)(raw.p + raw.n - r->f->path.p));
    if (!all_digits(name))
        r->repository = forge_repository(r, name);
}

/* Of a path that is no row's: the repository that it is about, in any case the part that may be one. */
static void guess_repository(struct forge_reading *r) {
    static const struct forge_row hub = {.forges = FORGE_GITHUB | FORGE_GITEA,
                                         .path = "/repos/{repo}/{rest*}"},
                                  lab = {.forges = FORGE_GITLAB, .path = "/projects/{repo}/{rest*}"},
                                  hub_alone = {.forges = FORGE_GITHUB | FORGE_GITEA, .path = "/repos/{repo}"},
                                  lab_alone = {.forges = FORGE_GITLAB, .path = "/projects/{repo}"};
    const struct forge_row *rows[] = {&hub, &lab, &hub_alone, &lab_alone};
    for (size_t i = 0; i < 4; i++) {
        if ((rows[i]->forges & r->forges) && fits(r, rows[i])) {
            take_repository(r);
            r->out->repository = r->repository;
            return;
        }
    }
}

/* --- reading ----------------------------------------------------------------------------------------------- */

bool forge_reads_only(struct slice method) {
    return slice_eq(method, SLICE("GET")) || slice_eq(method, SLICE("HEAD")) ||
           slice_eq(method, SLICE("OPTIONS"));
}

/* Some servers take another method than the one that the request has, if it says so (Rack, and many after it). */
static bool overridden(const struct facts *f) {
    static const char *const names[] = {"x-http-method-override", "x-http-method", "x-method-override"};
    char text[64];
    struct slice value;
    for (size_t i = 0; f->field && i < sizeof names / sizeof *names; i++)
        if (condition_header(f, slice_str(names[i]), &value) != TRI_NO)
            return true;
    return condition_query(f, SLICE("_method"), text, sizeof text, &value) != TRI_NO;
}

/* Whether the request is to an API, and may write. */
static bool begin(struct forge_reading *r, const struct facts *f, bool root, unsigned forges) {
    *r = (struct forge_reading){.f = f};
    split(r, f->path);
    if (f->kind != FACTS_HTTP || !find_api(r, root, forges))
        return false;
    return r->graphql ? !slice_eq(f->method, SLICE("HEAD")) && !slice_eq(f->method, SLICE("OPTIONS"))
                      : !forge_reads_only(f->method);
}

void forge_read(struct forge *out, const struct facts *f, struct body_view *view, bool root,
                unsigned forges) {
    struct forge_reading r;
    memset(out, 0, sizeof *out);
    arena_init(&out->arena, FORGE_MEMORY_MAX);
    if (!begin(&r, f, root, forges))
        return;
    if (!view)
        view = out->own = calloc(1, sizeof *out->own);
    r.out = out;
    r.view = view;
    out->forges = r.forges;
    if (!view) {
        forge_dark(&r, "out of memory");
        return;
    }
    if (overridden(f)) {
        forge_dark(&r, "it asks the server to take another method for its own");
        return;
    }
    if (r.graphql) {
        forge_graphql_read(&r);
        return;
    }
    const struct forge_row *row = find_row(&r);
    out->row = row;
    if (!row) {
        out->strange = true;
        guess_repository(&r);
        return;
    }
    if (row->does == FORGE_NOTHING && !(row->flags & FORGE_TEXT))
        return;
    r.forges = row->forges;
    take_repository(&r);
    if (out->state != FORGE_DARK)
        forge_rest_read(&r, row);
}

void forge_release(struct forge *out) {
    for (size_t i = 0; i < out->narguments; i++)
        json_decref(out->arguments[i]);
    out->narguments = 0;
    if (out->own)
        body_view_release(out->own);
    free(out->own);
    out->own = NULL;
    arena_release(&out->arena);
}

bool forge_wants_body(const struct facts *f, bool root, unsigned forges) {
    struct forge_reading r;
    if (!begin(&r, f, root, forges))
        return false;
    if (r.graphql)
        return true;
    const struct forge_row *row = find_row(&r);
    return row && (row->does != FORGE_NOTHING || (row->flags & FORGE_TEXT));
}
