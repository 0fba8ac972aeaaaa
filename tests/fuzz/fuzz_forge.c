/*
 * Requests to forges' APIs. An input is a line "METHOD HOST PATH?QUERY", a line with the content type, a line with an
 * answer of the forge's (JSON, to whatever is asked), and a body. What is read holds only names that are whole; a body
 * that matters is asked for; and whatever a request with pushes to branches of one kind may do, it may do with pushes to
 * everything: more rules that allow never permit less.
 */
#include "policy/forge.h"
#include "policy/policy.h"

#include <stdio.h>
#include <stdlib.h>

#define HTTP                                                                                                 \
    "allow * https://api.github.com/**\nallow * https://gitlab.com/**\nallow * https://git.test/**\n"        \
    "allow * https://gitlab.com/api/v4/projects/*%2f*{,/**}\n"

static const char *const rules[] = {
    HTTP "allow push https://github.com/acme/app refs/heads/fix/*\nallow push https://gitlab.com/acme/app "
         "refs/heads/fix/*\nallow push https://git.test/** refs/heads/fix/*\n",
    HTTP
    "allow push https://github.com/** create update delete force\nallow push https://gitlab.com/** create "
    "update delete force\nallow push https://git.test/** create update delete force\n",
};

static int read_rules(void *arg, const char *from, const char *name, struct buf *resolved, struct buf *text,
                      struct errmsg *msg) {
    (void)from;
    (void)msg;
    buf_puts(text, arg);
    return buf_puts(resolved, name);
}

static void must(bool good, const char *what) {
    if (!good) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

static struct policy *load(const char *text) {
    static const char *const name = "fuzz";
    char *copy = strdup(text);
    struct policy_input in = {.files = &name, .nfiles = 1, .read = read_rules, .arg = copy};
    struct policy_diags diags;
    struct policy *p;
    policy_diags_init(&diags);
    must(policy_load(&in, &p, &diags) == 0, "the rules are no policy");
    policy_diags_release(&diags);
    free(copy);
    return p;
}

static bool field(const void *arg, size_t i, struct slice *name, struct slice *value) {
    *name = SLICE("content-type");
    *value = *(const struct slice *)arg;
    return i == 0 && value->n;
}

static bool plain(struct slice s, const char *begin) {
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f)
            return false;
    return slice_starts(s, slice_str(begin)) && !memmem(s.p, s.n, "//", 2);
}

static void check_reading(const struct forge *g) {
    must(g->state != FORGE_DARK || g->why, "dark for no reason");
    must((g->state == FORGE_WRITES) == (g->n > 0) || g->state == FORGE_DARK, "writes without a write");
    for (size_t i = 0; i < g->n && g->state == FORGE_WRITES; i++) {
        const struct forge_write *w = &g->writes[i];
        must(w->repository.n == 0 || plain(w->repository, "/"), "a repository's name");
        must(w->ref.name.n == 0 || plain(w->ref.name, "refs/"), "a ref's name");
        must(w->unknown || (w->repository.n && w->ref.name.n), "nothing is unknown, and something is");
        for (size_t k = 0; k < w->brought.npaths; k++)
            must(w->brought.paths[k].text.n && plain(w->brought.paths[k].text, "") &&
                     w->brought.paths[k].text.p[0] != '/',
                 "a file's name");
    }
}

/* Reads it as each forge, with the answer to every question that comes. */
static void read_all(struct facts f, struct slice answer) {
    static struct forge g;
    struct facts_answer answers[6];
    f.answers = answers;
    for (unsigned forges = 1; forges < 8; forges++) {
        for (int root = 0; root < 2; root++) {
            struct buf kept[6][2];
            f.nanswers = 0;
            for (bool more = true; more;) {
                bool wants = forge_wants_body(&f, root, forges);
                forge_read(&g, &f, NULL, root, forges);
                check_reading(&g);
                must(wants || g.state != FORGE_WRITES, "a body that matters was not asked for");
                more = g.asks && f.nanswers < 6;
                if (more) {
                    size_t n = f.nanswers++;
                    for (size_t k = 0; k < 2; k++)
                        buf_init(&kept[n][k], 1 << 20);
                    buf_put(&kept[n][0], g.question.target);
                    buf_put(&kept[n][1], g.question.body);
                    answers[n] =
                        (struct facts_answer){buf_slice(&kept[n][0]), buf_slice(&kept[n][1]), answer};
                }
                forge_release(&g);
            }
            for (size_t n = 0; n < f.nanswers; n++)
                for (size_t k = 0; k < 2; k++)
                    buf_release(&kept[n][k]);
        }
    }
}

static void judge(const struct facts *f) {
    static struct policy *policies[2];
    struct verdict v[2];
    for (size_t i = 0; i < 2; i++) {
        struct buf out;
        if (!policies[i])
            policies[i] = load(rules[i]);
        buf_init(&out, 1 << 20);
        policy_judge(policies[i], f, &v[i]);
        policy_explain(policies[i], f, &v[i], 0, &out);
        policy_hint(policies[i], f, &v[i], &out);
        must(v[i].action == VERDICT_ALLOW || buf_len(&out) > 0, "denied without a word");
        buf_release(&out);
    }
    /* what no table has is another matter: it is refused where push rules speak, and the second ones speak of more */
    must(v[0].action == VERDICT_DENY || v[1].action != VERDICT_DENY || v[1].reason == REASON_WRITE_UNKNOWN,
         "more rules permit less");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct slice rest = slice_make(data, size), line, type, answer, method, target, host;
    struct slice raw = SLICE_NONE, query = SLICE_NONE;
    struct buf path;
    bool has_query;
    slice_cut(rest, '\n', &line, &rest);
    slice_cut(rest, '\n', &type, &rest);
    slice_cut(rest, '\n', &answer, &rest);
    slice_cut(line, ' ', &method, &line);
    slice_cut(line, ' ', &host, &target);
    url_target_split(target, &raw, &query, &has_query);
    buf_init(&path, 1 << 16);
    if (url_path_canonical(raw, &path, NULL, NULL) == 0 && url_query_check(query, NULL) == 0) {
        struct facts f = {.kind = FACTS_HTTP,
                          .scheme = URL_HTTPS,
                          .host = host,
                          .port = 443,
                          .method = method,
                          .path = buf_slice(&path),
                          .query = query,
                          .field = field,
                          .field_arg = &type,
                          .body_state = FACTS_BODY_WHOLE,
                          .body = rest};
        read_all(f, answer);
        judge(&f);
    }
    buf_release(&path);
    return 0;
}
