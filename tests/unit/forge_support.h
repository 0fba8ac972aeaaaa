/*
 * Requests to forges' APIs, read as updates of refs: every row of the tables, and what is not to be read as one.
 * A reading is told in a line: "update /acme/app refs/heads/main [a.txt]; …", "quiet", "strange /acme/app", "dark: why".
 */
#ifndef TESTS_UNIT_FORGE_SUPPORT_H
#define TESTS_UNIT_FORGE_SUPPORT_H

#include "policy/forge.h"
#include "tests/unit/policy_support.h"

#define HUB    "https://api.github.com"
#define REPO   HUB "/repos/acme/app"
#define LAB    "https://gitlab.com/api/v4/projects/acme%2Fapp"
#define TEA    "https://codeberg.org/api/v1/repos/acme/app"
#define JSON   "application/json"
#define FORM   "application/x-www-form-urlencoded"
#define ROWS   1024
#define MAIN   "refs/heads/main"
#define UNTOLD "?"

static bool seen[ROWS];             /* rows of the REST tables that a case has hit, GitHub's first */
static const char *mutations[ROWS]; /* … and mutations */
static size_t nmutations;

static const char *type_of_body;
static const char *override;
static struct facts_answer answers[4];
static size_t nanswers;

static inline bool field(const void *arg, size_t i, struct slice *name, struct slice *value) {
    (void)arg;
    if (i == 0 && type_of_body) {
        *name = SLICE("Content-Type");
        *value = slice_str(type_of_body);
        return true;
    }
    if (i == (type_of_body != NULL) && override) {
        *name = SLICE("X-HTTP-Method-Override");
        *value = slice_str(override);
        return true;
    }
    return false;
}

static inline void note_row(const struct forge_row *row) {
    size_t n, m;
    const struct forge_row *hub = forge_rows(&n), *lab = forge_gitlab_rows(&m);
    assert_true(n + m <= ROWS);
    if (row >= hub && row < hub + n)
        seen[row - hub] = true;
    else if (row)
        seen[n + (size_t)(row - lab)] = true;
}

static inline void put_writes(const struct forge *g, struct buf *out) {
    for (size_t i = 0; i < g->n; i++) {
        const struct forge_write *w = &g->writes[i];
        buf_printf(out, "%s%s %.*s ", i ? "; " : "", facts_op_name(w->ref.op),
                   SLICE_ARG((w->repository.n ? w->repository : SLICE(UNTOLD))));
        buf_put(out, w->ref.name.n ? w->ref.name : SLICE(UNTOLD));
        if (!w->brought.paths_known || w->ref.op == FACTS_DELETE)
            continue;
        buf_puts(out, " [");
        for (size_t k = 0; k < w->brought.npaths; k++)
            buf_printf(out, "%s%.*s", k ? " " : "", SLICE_ARG(w->brought.paths[k].text));
        buf_putc(out, ']');
    }
}

/* What exeat would ask the forge; empty: nothing. */
static char question[512];

static inline const char *reading(const char *method, const char *url, const char *body) {
    static char text[4096];
    static struct forge g;
    struct asking a;
    struct buf out;
    asking_init(&a, FACTS_HTTP, method, url);
    a.f.nrefs = 0;
    a.f.body_state = FACTS_BODY_WHOLE;
    a.f.body = slice_str(body);
    a.f.field = field;
    a.f.answers = answers;
    a.f.nanswers = nanswers;
    if (!type_of_body && body && *body)
        type_of_body = JSON;
    bool root = slice_starts(a.f.host, SLICE("api.")) || slice_starts(a.f.host, SLICE("uploads."));
    unsigned forges = slice_eq(a.f.host, SLICE("gitlab.com"))     ? FORGE_GITLAB
                      : slice_eq(a.f.host, SLICE("codeberg.org")) ? FORGE_GITEA
                      : slice_eq(a.f.host, SLICE("hub.test"))     ? FORGE_GITHUB | FORGE_GITLAB | FORGE_GITEA
                                                                  : FORGE_GITHUB;
    bool wants = forge_wants_body(&a.f, root, forges);
    forge_read(&g, &a.f, NULL, root, forges);
    note_row(g.row);
    assert_true(wants || (g.state != FORGE_WRITES));
    snprintf(question, sizeof question, "%.*s%s%.*s", SLICE_ARG(g.question.target),
             g.question.body.n ? " " : "", SLICE_ARG(g.question.body));
    buf_init(&out, sizeof text - 1);
    if (g.state == FORGE_DARK)
        buf_printf(&out, "dark: %s", g.why);
    else if (g.strange)
        buf_printf(&out, "strange %.*s", SLICE_ARG((g.mutation.n ? g.mutation : g.repository)));
    else if (g.state == FORGE_WRITES)
        put_writes(&g, &out);
    else
        buf_puts(&out, "quiet");
    snprintf(text, sizeof text, "%s", buf_cstr(&out));
    buf_release(&out);
    forge_release(&g);
    buf_release(&a.path);
    type_of_body = NULL;
    return text;
}

static inline void reads(const char *method, const char *url, const char *body, const char *wanted) {
    const char *got = reading(method, url, body);
    if (strcmp(got, wanted) != 0)
        fail_msg("%s %s %s\n  reads as: %s\n  wanted:   %s", method, url, body ? body : "", got, wanted);
}

static inline void dark(const char *method, const char *url, const char *body) {
    const char *got = reading(method, url, body);
    if (strncmp(got, "dark: ", 6) != 0)
        fail_msg("%s %s %s\n  reads as: %s\n  wanted:   dark", method, url, body ? body : "", got);
}

static inline void strange(const char *method, const char *url) {
    const char *got = reading(method, url, NULL);
    if (strncmp(got, "strange", 7) != 0)
        fail_msg("%s %s\n  reads as: %s\n  wanted:   strange", method, url, got);
}

static inline void answer(const char *target, const char *body, const char *text) {
    answers[nanswers++] = (struct facts_answer){slice_str(target), slice_str(body), slice_str(text)};
}

static inline void asks(const char *host, const char *query, const char *variables, const char *wanted) {
    char body[2048], url[256];
    struct slice rest = slice_str(query);
    /* which mutations it holds: words before a '(' */
    for (size_t i = 0; i < rest.n; i++) {
        size_t from = i;
        while (from > 0 && rest.p[i] == '(' &&
               (ascii_digit(rest.p[from - 1]) ||
                (ascii_lower(rest.p[from - 1]) >= 'a' && ascii_lower(rest.p[from - 1]) <= 'z')))
            from--;
        if (from < i && nmutations < ROWS)
            mutations[nmutations++] = strndup(rest.p + from, i - from);
    }
    snprintf(url, sizeof url, "%s/graphql", host);
    snprintf(body, sizeof body, "{\"query\":\"%s\",\"variables\":%s}", query, variables ? variables : "null");
    reads("POST", url, body, wanted);
}

#define ON(member) "mutation($i:X!){" member "(input:$i){clientMutationId}}"

/* --- every row ---------------------------------------------------------------------------------------------- */

/* A request that fits the row, by its template. */
static inline void make_url(const struct forge_row *row, char *url, size_t size) {
    bool lab = row->forges == FORGE_GITLAB, tea = row->forges == FORGE_GITEA;
    size_t n = (size_t)snprintf(url, size, "%s",
                                lab   ? "https://gitlab.com/api/v4"
                                : tea ? "https://codeberg.org/api/v1"
                                      : HUB);
    for (const char *p = row->path; *p; p++) {
        if (*p != '{') {
            n += (size_t)snprintf(url + n, size - n, "%c", *p);
            continue;
        }
        bool repo = strncmp(p, "{repo}", 6) == 0;
        n += (size_t)snprintf(url + n, size - n, "%s", repo && lab ? "acme%2Fapp" : repo ? "acme/app" : "7");
        p = strchr(p, '}');
    }
}

static inline void check_row(const struct forge_row *row, size_t at) {
    char url[512], method[16], text[512];
    struct slice rest = slice_str(row->methods), one;
    bool quiet = row->does == FORGE_NOTHING;
    make_url(row, url, sizeof url);
    for (bool more = true; more;) {
        more = slice_cut(rest, ',', &one, &rest);
        snprintf(method, sizeof method, "%.*s", SLICE_ARG(one));
        snprintf(text, sizeof text, "%s", reading(method, url, NULL));
        bool right = quiet ? strcmp(text, "quiet") == 0 : strncmp(text, "strange", 7) != 0;
        if (!right)
            fail_msg("%s %s reads as: %s", method, url, text);
    }
    if (!seen[at] && (!quiet || row->flags))
        fail_msg("no case is about %s %s", row->methods, row->path);
}

/* Each row is reached by its own template, those that write nothing are read as such, and of the others each has stood
 * in a case above. */
static inline void every_row(unsigned forges) {
    size_t n, m, k;
    const struct forge_row *hub = forge_rows(&n), *lab = forge_gitlab_rows(&m);
    const struct forge_mutation *all = forge_mutations(&k);
    bool before[ROWS];
    memcpy(before, seen, sizeof before);
    for (size_t i = 0; i < n + m; i++) {
        const struct forge_row *row = i < n ? &hub[i] : &lab[i - n];
        if (!(row->forges & forges))
            continue;
        assert_true(memchr(row->methods, 0, sizeof row->methods) && memchr(row->path, 0, sizeof row->path) &&
                    memchr(row->ref, 0, sizeof row->ref) && memchr(row->file, 0, sizeof row->file));
        memset(seen, 0, sizeof seen);
        char url[512], method[16];
        make_url(row, url, sizeof url);
        snprintf(method, sizeof method, "%.*s", (int)strcspn(row->methods, ","), row->methods);
        reading(method, url, NULL);
        if (!seen[i])
            fail_msg("%s %s is taken for another row", row->methods, row->path);
        memcpy(seen, before, sizeof seen);
        check_row(row, i);
    }
    for (size_t i = 0; i < k; i++) {
        bool found = false;
        if (!(all[i].forges & forges))
            continue;
        assert_true(memchr(all[i].name, 0, sizeof all[i].name) && memchr(all[i].ref, 0, sizeof all[i].ref) &&
                    memchr(all[i].repository, 0, sizeof all[i].repository) &&
                    memchr(all[i].id, 0, sizeof all[i].id));
        for (size_t j = 0; j < nmutations; j++)
            found |= strcmp(mutations[j], all[i].name) == 0;
        if (all[i].does != FORGE_NOTHING || all[i].flags) {
            if (!found)
                fail_msg("no case is about %s", all[i].name);
            continue;
        }
        char query[256];
        snprintf(query, sizeof query, "{\"query\":\"mutation{%s(input:{}){clientMutationId}}\"}",
                 all[i].name);
        reads("POST", all[i].forges == FORGE_GITLAB ? "https://gitlab.com/api/graphql" : HUB "/graphql",
              query, "quiet");
    }
    for (size_t j = 0; j < nmutations; j++)
        free((char *)(uintptr_t)mutations[j]);
}

#endif
