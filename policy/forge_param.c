/* What a request to a forge's API says: its parameters, names of refs and files, and what the forge answered. */
#include <stdlib.h>

#include "policy/forge_read.h"

#define NAME_MAX_BYTES 512 /* of a ref or a file */

void forge_dark(struct forge_reading *r, const char *why) {
    if (r->out->state == FORGE_DARK)
        return;
    r->out->state = FORGE_DARK;
    r->out->why = why;
}

struct slice forge_text(struct forge_reading *r, struct slice a, struct slice b, struct slice c,
                        struct slice d) {
    const struct slice parts[] = {a, b, c, d};
    char *text = arena_alloc(&r->out->arena, a.n + b.n + c.n + d.n + 1);
    size_t n = 0;
    for (size_t i = 0; text && i < 4; i++) {
        if (parts[i].n)
            memcpy(text + n, parts[i].p, parts[i].n);
        n += parts[i].n;
    }
    if (!text)
        forge_dark(r, "out of memory");
    return slice_make(text, n);
}

struct slice forge_captured(const struct forge_reading *r, struct slice name) {
    for (size_t i = 0; i < r->ncaptures; i++)
        if (slice_eq(r->captures[i].name, name))
            return r->captures[i].value;
    return SLICE_NONE;
}

/* --- parameters -------------------------------------------------------------------------------------------- */

const json_t *forge_member(const json_t *object, struct slice path, bool *doubtful) {
    struct slice step;
    for (bool more = true; more && object;) {
        more = slice_cut(path, '.', &step, &path);
        if (!json_is_object(object)) {
            *doubtful |= !json_is_null(object);
            return NULL;
        }
        object = condition_json_member(object, step, doubtful);
    }
    return object;
}

static enum tri json_text(struct forge_reading *r, const char *name, struct slice *out) {
    bool doubtful = false;
    const json_t *v = forge_member(r->json, slice_str(name), &doubtful);
    if (doubtful)
        return TRI_UNKNOWN;
    if (!v || json_is_null(v))
        return TRI_NO;
    if (!json_is_string(v))
        return TRI_UNKNOWN;
    *out = slice_make(json_string_value(v), json_string_length(v));
    return TRI_YES;
}

/* Of a query or a form. */
static enum tri pair_text(struct forge_reading *r, const struct facts *f, const char *name,
                          struct slice *out) {
    char memory[NAME_MAX_BYTES];
    struct slice found;
    enum tri t = condition_query(f, slice_str(name), memory, sizeof memory, &found);
    if (t == TRI_YES)
        *out = forge_text(r, found, SLICE_NONE, SLICE_NONE, SLICE_NONE);
    return t;
}

/* Two places that may say the same thing: GitLab and Forgejo read queries and bodies alike. */
static enum tri both(enum tri a, struct slice one, enum tri b, struct slice two, struct slice *out) {
    *out = a == TRI_YES ? one : two;
    if (a == TRI_NO || b == TRI_NO)
        return a == TRI_NO ? b : a;
    return a == TRI_YES && b == TRI_YES && slice_eq(one, two) ? TRI_YES : TRI_UNKNOWN;
}

enum tri forge_param(struct forge_reading *r, const char *name, struct slice *out) {
    struct slice in_json = SLICE_NONE, in_form = SLICE_NONE, in_query = SLICE_NONE, body;
    enum tri j = json_text(r, name, &in_json);
    if (r->input) {
        *out = in_json;
        return j;
    }
    enum tri f = pair_text(r, &r->form, name, &in_form), q = pair_text(r, r->f, name, &in_query);
    enum tri b = both(j, in_json, f, in_form, &body);
    /* GitHub takes parameters from the query of a DELETE; of other methods that is not said */
    if ((r->forges & FORGE_GITHUB) && q != TRI_NO && !slice_eq(r->f->method, SLICE("DELETE")))
        return TRI_UNKNOWN;
    return both(b, body, q, in_query, out);
}

enum tri forge_switch(struct forge_reading *r, const char *name) {
    struct slice text = SLICE_NONE;
    bool doubtful = false;
    const json_t *v = forge_member(r->json, slice_str(name), &doubtful);
    enum tri t = TRI_UNKNOWN;
    bool twice = json_is_boolean(v) && !r->input &&
                 (pair_text(r, &r->form, name, &text) != TRI_NO || pair_text(r, r->f, name, &text) != TRI_NO);
    if (json_is_boolean(v) && !doubtful && !twice)
        t = json_is_true(v) ? TRI_YES : TRI_NO;
    else if (!json_is_boolean(v))
        t = forge_param(r, name, &text);
    if (t != TRI_YES || json_is_boolean(v))
        return t;
    if (slice_eq(text, SLICE("false")) || slice_eq(text, SLICE("0")))
        return TRI_NO;
    return slice_eq(text, SLICE("true")) || slice_eq(text, SLICE("1")) ? TRI_YES : TRI_UNKNOWN;
}

/* --- names ------------------------------------------------------------------------------------------------- */

/* What git and a server would take for the same ref or file; else who knows what is meant. */
static bool plain_name(struct slice s, const char *never) {
    size_t start = 0;
    if (s.n == 0 || s.n > NAME_MAX_BYTES)
        return false;
    for (size_t i = 0; i <= s.n; i++) {
        char c = i < s.n ? s.p[i] : '/';
        if ((unsigned char)c < 0x20 || c == 0x7f || strchr(never, c))
            return false;
        if (c != '/')
            continue;
        struct slice one = slice_sub(s, start, i - start);
        if (one.n == 0 || slice_eq(one, SLICE(".")) || slice_eq(one, SLICE("..")))
            return false;
        start = i + 1;
    }
    return true;
}

const char *forge_space(enum forge_space space) {
    static const char texts[][12] = {[FORGE_HEADS] = "refs/heads/",
                                     [FORGE_TAGS] = "refs/tags/",
                                     [FORGE_REFS] = "refs/",
                                     [FORGE_WHOLE] = ""};
    return texts[space];
}

struct slice forge_ref(struct forge_reading *r, enum forge_space space, struct slice name) {
    static const char *const looks_whole[] = {"refs/", "heads/", "tags/", "remotes/"};
    struct slice whole = forge_text(r, slice_str(forge_space(space)), name, SLICE_NONE, SLICE_NONE);
    bool good = plain_name(name, " ~^:?*[\\") && !memmem(name.p, name.n, "..", 2) &&
                !memmem(name.p, name.n, "@{", 2) && slice_starts(whole, SLICE("refs/"));
    if (space == FORGE_REFS)
        good &= !slice_starts(name, SLICE("refs/"));
    for (size_t i = 0; (space == FORGE_HEADS || space == FORGE_TAGS) && i < 4; i++)
        good &= !slice_starts(name, slice_str(looks_whole[i]));
    if (slice_caseeq(name, SLICE("HEAD")) || slice_eq(name, SLICE("@")))
        good = false;
    if (good)
        return whole;
    forge_dark(r, "the name of its ref can be read in more than one way");
    return SLICE_NONE;
}

bool forge_file(struct forge_reading *r, struct slice name, const struct facts_text **paths, size_t *n) {
    struct facts_text *one = arena_alloc(&r->out->arena, sizeof *one);
    if (!one || !plain_name(name, "\\")) {
        forge_dark(r, "the name of a file can be read in more than one way");
        return false;
    }
    *one = (struct facts_text){.text = name};
    *paths = one;
    *n = 1;
    return true;
}

bool forge_files(struct forge_reading *r, const json_t *list, const struct facts_text **paths, size_t *n) {
    static const char *const names[] = {"path",     "file_path",    "previous_path",
                                        "filePath", "previousPath", "from_path"};
    size_t count = json_array_size(list), most = count * 6;
    struct facts_text *all =
        count <= FORGE_PATHS_MAX ? arena_alloc(&r->out->arena, (most + 1) * sizeof *all) : NULL;
    *n = 0;
    for (size_t i = 0; all && i < count; i++) {
        const json_t *one = json_array_get(list, i);
        size_t before = *n;
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            bool doubtful = false;
            const json_t *v = forge_member(one, slice_str(names[k]), &doubtful);
            struct slice name = slice_make(json_string_value(v), json_string_length(v));
            if (doubtful || (v && !json_is_null(v) && !plain_name(name, "\\")))
                return false;
            if (json_is_string(v))
                all[(*n)++] = (struct facts_text){.text = name};
        }
        if (*n == before)
            return false;
    }
    *paths = all;
    return all != NULL;
}

/* --- commands in texts ------------------------------------------------------------------------------------- */

/* GitLab's "quick actions" that merge, or decide what a merge writes: a line each, in comments and descriptions. */
static bool text_commands(struct slice s) {
    static const char *const words[] = {"/merge", "/rebase", "/ship", "/create_merge_request",
                                        "/target_branch"};
    for (size_t i = 0; i < s.n; i++) {
        bool start = s.p[i] == '/';
        for (size_t k = i; start && k > 0 && s.p[k - 1] != '\n' && s.p[k - 1] != '\r' && s.p[k - 1] != '=' &&
                           s.p[k - 1] != '&';
             k--)
            start = (unsigned char)s.p[k - 1] <= ' ' || (unsigned char)s.p[k - 1] >= 0x80;
        for (size_t k = 0; start && k < sizeof words / sizeof *words; k++) {
            struct slice word = slice_str(words[k]), rest = slice_from(s, i);
            char next = rest.n > word.n ? rest.p[word.n] : 0;
            bool ends =
                next != '_' && !ascii_digit(next) && !(ascii_lower(next) >= 'a' && ascii_lower(next) <= 'z');
            if (slice_caseeq(slice_sub(rest, 0, word.n), word) && ends)
                return true;
        }
    }
    return false;
}

static bool json_commands(const json_t *v) {
    size_t n = json_array_size(v);
    json_t *map = (json_t *)v; /* iterating does not change it */
    if (json_is_string(v))
        return text_commands(slice_make(json_string_value(v), json_string_length(v)));
    for (size_t i = 0; i < n; i++)
        if (json_commands(json_array_get(v, i)))
            return true;
    for (void *it = json_object_iter(map); it; it = json_object_iter_next(map, it))
        if (json_commands(json_object_iter_value(it)))
            return true;
    return false;
}

/* A query or a form, decoded as a whole: where one of its values begins, a line does. */
static bool pair_commands(struct forge_reading *r, struct slice s) {
    char *text = s.n ? arena_alloc(&r->out->arena, s.n) : NULL;
    size_t n = 0;
    for (size_t i = 0; text && i < s.n; i++) {
        char c = s.p[i] == '+' ? ' ' : s.p[i];
        int byte = c == '%' ? slice_hex_pair(s, i + 1) : -1;
        if (byte >= 0) {
            c = (char)byte;
            i += 2;
        }
        text[n++] = c;
    }
    return s.n && (!text || text_commands(slice_make(text, n)));
}

bool forge_commands(struct forge_reading *r) {
    return json_commands(r->json) ||
           (!r->input && (pair_commands(r, r->form.query) || pair_commands(r, r->f->query)));
}

/* --- answers ----------------------------------------------------------------------------------------------- */

static const struct facts_answer *answer_to(const struct facts *f, struct slice target, struct slice body) {
    for (size_t i = 0; i < f->nanswers; i++)
        if (slice_eq(f->answers[i].target, target) && slice_eq(f->answers[i].body, body))
            return &f->answers[i];
    return NULL;
}

bool forge_answer(struct forge_reading *r, struct slice target, struct slice body, const char *path,
                  struct slice *out) {
    const struct facts_answer *a = answer_to(r->f, target, body);
    bool doubtful = false, good = false;
    if (target.n == 0)
        return false;
    if (!a && !r->out->asks) {
        r->out->asks = true;
        r->out->question = (struct forge_question){.target = target, .body = body};
    }
    if (!a || a->answer.n == 0)
        return false;
    json_t *all = json_loadb(a->answer.p, a->answer.n, JSON_REJECT_DUPLICATES, NULL);
    const json_t *v = forge_member(all, slice_str(path), &doubtful);
    struct slice text = SLICE_NONE;
    char number[24];
    if (json_is_string(v))
        text = slice_make(json_string_value(v), json_string_length(v));
    if (json_is_integer(v)) {
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(v));
        text = slice_str(number);
    } else if (json_is_boolean(v)) {
        text = json_is_true(v) ? SLICE("true") : SLICE("false");
    }
    if (text.n && !doubtful) {
        *out = forge_text(r, text, SLICE_NONE, SLICE_NONE, SLICE_NONE);
        good = out->p != NULL;
    }
    json_decref(all);
    return good;
}
