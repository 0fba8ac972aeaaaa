/*
 * `expect` lines are proved whenever a policy is loaded; this says how many there were. A file *.policy-test proves a policy from
 * outside:
 *
 *     policy "bugfix.policy"
 *     set repo = acme/app
 *     expect deny push https://github.com/acme/app refs/heads/main
 */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "proxy/command/tool.h"
#include "proxy/process/sources.h"

static const struct option_row rows[] = {TOOL_ROW_SET, TOOL_ROW_JSON, TOOL_ROW_HELP};
#define ROWS (sizeof rows / sizeof rows[0])

#define VALUES_MAX (64u << 10)

/* A test file on its way to becoming a policy: its `policy` lines are includes, its `set` lines --set. */
struct script {
    struct sources sources;
    struct policy_set sets[POLICY_VARS_MAX];
    size_t nsets;
    char values[VALUES_MAX];
    size_t used;
    bool again; /* the values are known */
};

static struct slice first_word(struct slice line, struct slice *rest) {
    size_t n = 0;
    line = slice_trim(line);
    while (n < line.n && line.p[n] != ' ' && line.p[n] != '\t')
        n++;
    *rest = slice_trim(slice_from(line, n));
    return slice_sub(line, 0, n);
}

/* set NAME = VALUE */
static int take_set_line(struct script *s, struct slice rest, struct errmsg *msg) {
    struct slice name, value;
    if (!slice_cut(rest, '=', &name, &value) || s->nsets == POLICY_VARS_MAX)
        return errmsg_set(msg, ERR_PARSE, "a `set` line is written: set NAME = VALUE");
    name = slice_trim(name);
    value = slice_trim(value);
    if (name.n + value.n + 2 > sizeof s->values - s->used)
        return errmsg_set(msg, ERR_LIMIT, "the values of `set` are too long");
    char *at = s->values + s->used;
    memcpy(at, name.p, name.n);
    at[name.n] = '=';
    if (value.n)
        memcpy(at + name.n + 1, value.p, value.n);
    at[name.n + 1 + value.n] = 0;
    s->used += name.n + value.n + 2;
    int r = policy_set_parse(at, &s->sets[s->nsets], msg);
    s->nsets += r == 0;
    return r < 0 ? ERR_PARSE : 0;
}

/* One line after the other, so that what is said about a line names its number. */
static int translate(struct script *s, struct slice text, struct buf *out, struct errmsg *msg) {
    struct slice line, rest;
    bool continued = false;
    for (unsigned number = 1; text.n; number++) {
        slice_cut(text, '\n', &line, &text);
        struct slice word = first_word(line, &rest);
        int r = 0;
        if (continued || word.n == 0 || word.p[0] == '#' || slice_eq(word, SLICE("expect"))) {
            buf_put(out, line);
        } else if (slice_eq(word, SLICE("policy"))) {
            buf_printf(out, "include %.*s", SLICE_ARG(rest));
        } else if (slice_eq(word, SLICE("set"))) {
            r = s->again ? 0 : take_set_line(s, rest, msg);
        } else {
            r = errmsg_set(msg, ERR_PARSE, "a test has lines with policy, set and expect, none with '%.*s'",
                           SLICE_ARG(word));
        }
        if (r < 0) {
            errmsg_prefix(msg, "line %u", number);
            return r;
        }
        continued = slice_ends(line, SLICE("\\"));
        buf_putc(out, '\n');
    }
    return out->failed ? ERR_LIMIT : 0;
}

static int read_script(void *arg, const char *from, const char *name, struct buf *resolved, struct buf *text,
                       struct errmsg *msg) {
    struct script *s = arg;
    int r = sources_read(&s->sources, from, name, resolved, text, msg);
    if (r < 0 || from)
        return r;
    struct buf translated;
    buf_init(&translated, POLICY_FILE_MAX);
    r = translate(s, buf_slice(text), &translated, msg);
    buf_clear(text);
    buf_put(text, buf_slice(&translated));
    buf_release(&translated);
    return r;
}

static int load_script(const struct tool *t, const char *file, struct policy **out,
                       struct policy_diags *diags) {
    struct script *s = calloc(1, sizeof *s);
    struct buf resolved, text;
    struct errmsg msg;
    if (!s)
        return ERR_NOMEM;
    int r = sources_init(&s->sources), r_values = 0;
    /* once for the values, which loading wants first, and once for the text */
    buf_init(&resolved, POLICY_NAME_MAX);
    buf_init(&text, POLICY_FILE_MAX);
    if (r == 0)
        r_values = read_script(s, NULL, file, &resolved, &text, &msg);
    buf_release(&resolved);
    buf_release(&text);
    for (size_t i = 0; i < t->nsets && s->nsets < POLICY_VARS_MAX; i++)
        s->sets[s->nsets++] = t->sets[i];
    s->again = r_values == 0;
    struct policy_input in = {
        .files = &file, .nfiles = 1, .sets = s->sets, .nsets = s->nsets, .read = read_script, .arg = s};
    if (r == 0)
        r = policy_load(&in, out, diags);
    sources_release(&s->sources);
    free(s);
    return r;
}

/* --- one file ---------------------------------------------------------------------------------------------- */

/* Expectations are those of files that could be tested. */
struct totals {
    size_t files, proofs, failed, broken;
};

static bool ends_in(const char *name, const char *tail) {
    return slice_ends(slice_str(name), slice_str(tail));
}

static int test_file(struct tool *t, const char *file, struct totals *totals, struct json *j) {
    struct policy *p = NULL;
    struct policy_diags diags;
    policy_diags_init(&diags);
    diags.most = POLICY_RULES_MAX; /* each expectation that failed is told */
    int r = ends_in(file, ".policy-test") ? load_script(t, file, &p, &diags)
                                          : tool_load_quietly(t, &file, 1, &p, &diags);
    bool broken = r < 0 && (r != ERR_PARSE || diags.n + diags.dropped > diags.failed);
    totals->files++;
    totals->broken += broken;
    totals->proofs += broken ? 0 : diags.proofs;
    totals->failed += broken ? 0 : diags.failed;
    if (j) {
        json_open_object(j);
        json_key(j, "file");
        json_cstring(j, file);
        json_key(j, "tested");
        json_bool(j, !broken);
        json_key(j, "expectations");
        json_u64(j, diags.proofs);
        json_key(j, "failed");
        json_u64(j, diags.failed);
        json_key(j, "errors");
        tool_diags_json(&diags, j);
        json_close(j);
    } else {
        policy_diags_format(&diags, t->print.colour, &t->out);
        if (broken)
            buf_printf(&t->out, "%s: not tested: %s\n", file, r == ERR_PARSE ? "it has errors" : err_text(r));
        else
            buf_printf(&t->out, "%s: %zu expectation%s, %zu failed\n", file, diags.proofs,
                       tool_s(diags.proofs), diags.failed);
    }
    policy_free(p);
    policy_diags_release(&diags);
    return r == ERR_NOMEM ? r : 0;
}

/* Of several files each takes the values that it uses; one that none of them uses is a slip. */
static bool all_used(const struct tool *t) {
    bool good = true;
    for (size_t i = 0; i < t->nsets; i++)
        if (t->sets[i].used && !*t->sets[i].used) {
            log_error("policy test: --set: none of the files uses a variable '%s'", t->sets[i].name);
            good = false;
        }
    return good;
}

int command_policy_test(int argc, char **argv) {
    static struct tool t;
    static bool used[POLICY_VARS_MAX];
    struct totals totals = {0};
    struct json j;
    int first;
    int status = tool_begin(
        &t, "policy test",
        "usage: exeat policy test [OPTION]... FILE...\n"
        "\n"
        "Proves the `expect` lines of each policy, with those of what it includes, and of *.policy-test "
        "files,\n"
        "which name a policy, values for --set, and expectations. Status 2: a file can't be tested.\n",
        rows, ROWS, 1, argc, argv, &first);
    if (status >= 0)
        return status;
    for (size_t i = 0; argc - first > 1 && i < t.nsets; i++)
        t.sets[i].used = &used[i];
    if (t.json) {
        json_init(&j, &t.out);
        json_open_object(&j);
        json_key(&j, "files");
        json_open_array(&j);
    }
    for (int i = first; i < argc; i++)
        if (test_file(&t, argv[i], &totals, t.json ? &j : NULL) < 0)
            log_error("policy test: %s", err_text(ERR_NOMEM));
    if (t.json) {
        json_close(&j);
        json_key(&j, "expectations");
        json_u64(&j, totals.proofs);
        json_key(&j, "failed");
        json_u64(&j, totals.failed);
        json_key(&j, "not_tested");
        json_u64(&j, totals.broken);
        json_close(&j);
        buf_putc(&t.out, '\n');
    } else if (totals.files > 1) {
        buf_printf(&t.out, "%zu files: %zu expectation%s, %zu failed", totals.files, totals.proofs,
                   tool_s(totals.proofs), totals.failed);
        if (totals.broken)
            buf_printf(&t.out, "; %zu not tested", totals.broken);
        buf_putc(&t.out, '\n');
    }
    bool trouble = totals.broken || !all_used(&t);
    return tool_end(&t, trouble ? TOOL_TROUBLE : totals.failed ? EXIT_FINDINGS : EXIT_SUCCESS);
}
