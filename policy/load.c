/*
 * Theory of operation. Loading goes in passes, so that no order of lines matters: all files are read and parsed
 * (includes where they stand), then variables get their values, then rules are compiled and indexed, and last the
 * expectations are proved. A pass that finds errors does not stop the next one from finding more, but nothing is
 * proved on rules that are not whole.
 *
 * An `expect` in a file that the user named is about the whole policy; in an included file it is about that file and
 * what it includes, so that a preset proves itself and whoever includes it may add to it.
 */
#include "policy/compile.h"

#include <assert.h>
#include <stdlib.h>

#include "policy/condition.h"
#include "policy/diag.h"

#define ARENA_MAX (512u << 20)

/* A parsed statement, in reading order over all files. */
struct item {
    const struct tree_statement *statement;
    const struct source *source;
    struct item *next;
};

struct loader {
    struct compiler c;
    struct vars vars;
    const struct policy_input *in;
    struct item *items, **last;
    size_t nrules;
    bool too_many;
    bool unread;                 /* a file could not be read: which variables it uses is not known */
    bool open[POLICY_FILES_MAX]; /* being read: to meet it again is a cycle */
    struct buf resolved, text;
};

static void load_statements(struct loader *ld, struct source *s, unsigned depth);

/* Notes that `from` asked for `name` and got `s`. */
static bool note_asked(struct loader *ld, const char *from, const char *name, const struct source *s) {
    struct policy *p = ld->c.p;
    struct asked *a = arena_alloc(&p->arena, sizeof *a);
    struct slice copy = arena_copy(&p->arena, slice_str(name));
    if (!a || !copy.p)
        return false;
    *a = (struct asked){.from = from, .name = copy.p, .source = s};
    *p->asked_last = a;
    p->asked_last = &a->next;
    return true;
}

static struct source *find_source(struct policy *p, struct slice name) {
    for (size_t i = 0; i < p->nfiles; i++)
        if (slice_eq(slice_str(p->files[i]->name), name))
            return p->files[i];
    return NULL;
}

static struct source *add_source(struct loader *ld) {
    struct policy *p = ld->c.p;
    struct source *s = arena_alloc(&p->arena, sizeof *s);
    struct slice name = arena_copy(&p->arena, buf_slice(&ld->resolved));
    struct slice text = arena_copy(&p->arena, buf_slice(&ld->text));
    if (!s || !name.p || !text.p)
        return NULL;
    *s = (struct source){.name = name.p, .text = text, .index = (unsigned)p->nfiles};
    p->files[p->nfiles++] = s;
    return s;
}

/* Reads one file, or finds it among those that are read. NULL after an error; *fresh: it has to be parsed. `at` is
 * the include that asks, NULL for a top file. */
static struct source *open_file(struct loader *ld, const char *name, const struct token *at, bool *fresh) {
    struct policy *p = ld->c.p;
    struct errmsg msg = {""};
    const char *from = at ? at->source->name : NULL;
    buf_clear(&ld->resolved);
    buf_clear(&ld->text);
    int r = ld->in->read(ld->in->arg, from, name, &ld->resolved, &ld->text, &msg);
    static_assert(POLICY_FILE_MAX == 4u << 20, "the message says so");
    const char *why = r == ERR_LIMIT ? "it is larger than 4 MiB" : msg.text[0] ? msg.text : err_text(r);
    struct slice resolved = buf_slice(&ld->resolved);
    struct source *s = NULL;
    if (!r && (resolved.n == 0 || memchr(resolved.p, 0, resolved.n)))
        why = "it has no proper name";
    else if (!r && !(s = find_source(p, resolved)) && p->nfiles == POLICY_FILES_MAX)
        why = "there are too many files";
    else if (!r) {
        *fresh = s == NULL;
        if (!s)
            s = add_source(ld);
        if (s && note_asked(ld, from, name, s))
            return s;
        return NULL;
    }
    ld->unread = true;
    if (at)
        diag_token(ld->c.diags, at, NULL, NULL, "can't include \"%s\": %s", name, why);
    else
        diag_file(ld->c.diags, name, NULL, "can't be read: %s", why);
    return NULL;
}

static void load_include(struct loader *ld, const struct token *at, unsigned depth) {
    struct slice name = arena_copy(&ld->c.p->arena, at->text);
    bool fresh;
    if (!name.p)
        return;
    if (depth >= POLICY_DEPTH_MAX) {
        diag_token(ld->c.diags, at, NULL, NULL, "includes are nested too deep");
        return;
    }
    struct source *s = open_file(ld, name.p, at, &fresh);
    if (!s)
        return;
    if (ld->open[s->index])
        diag_token(ld->c.diags, at, NULL, NULL,
                   "\"%s\" includes itself, through this line or by way of other files", s->name);
    else if (fresh)
        load_statements(ld, s, depth + 1);
}

static void keep_item(struct loader *ld, const struct tree_statement *st, const struct source *s) {
    struct item *item = arena_alloc(&ld->c.scratch, sizeof *item);
    if (!item)
        return;
    if (st->kind == TREE_RULE && ++ld->nrules > POLICY_RULES_MAX) {
        if (!ld->too_many)
            diag_token(ld->c.diags, &st->rule.keyword, NULL, NULL, "more than %d rules", POLICY_RULES_MAX);
        ld->too_many = true;
        return;
    }
    *item = (struct item){.statement = st, .source = s};
    *ld->last = item;
    ld->last = &item->next;
}

static void load_statements(struct loader *ld, struct source *s, unsigned depth) {
    ld->open[s->index] = true;
    for (struct tree_statement *st = tree_parse(s, &ld->c.scratch, ld->c.diags); st; st = st->next) {
        if (st->kind == TREE_INCLUDE)
            load_include(ld, &st->name, depth);
        else if (st->kind == TREE_LET)
            vars_let(&ld->c, st);
        else
            keep_item(ld, st, s);
    }
    ld->open[s->index] = false;
}

static void load_files(struct loader *ld) {
    for (size_t i = 0; i < ld->in->nfiles; i++) {
        bool fresh;
        struct source *s = open_file(ld, ld->in->files[i], NULL, &fresh);
        if (!s)
            continue;
        ld->c.p->tops[s->index] = true;
        if (fresh)
            load_statements(ld, s, 0);
    }
}

/* Includes, and includes of includes. */
static bool collect_reach(struct policy *p) {
    size_t n = p->nfiles;
    bool *reach = arena_alloc(&p->arena, n * n);
    if (!reach)
        return false;
    for (size_t i = 0; i < n; i++) {
        reach[i * n + i] = true;
        for (const struct asked *a = p->asked; a; a = a->next)
            if (a->from == p->files[i]->name)
                reach[i * n + a->source->index] = true;
    }
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; reach[i * n + k] && j < n; j++)
                reach[i * n + j] |= reach[k * n + j];
    p->reach = reach;
    return true;
}

static void mention_words(struct loader *ld, const struct tree_words *words) {
    for (size_t i = 0; i < words->n; i++)
        vars_mention(&ld->c, &words->list[i]);
}

static void fill_variables(struct loader *ld) {
    for (struct item *item = ld->items; item; item = item->next) {
        const struct tree_rule *rule = &item->statement->rule;
        vars_mention(&ld->c, &rule->target);
        mention_words(ld, &rule->refs);
        mention_words(ld, &rule->paths);
        mention_words(ld, &rule->push_options);
        mention_words(ld, &rule->authors);
        mention_words(ld, &rule->committers);
        mention_words(ld, &rule->to);
        mention_words(ld, &rule->headers);
        vars_mention(&ld->c, &rule->body);
        for (const struct tree_condition *w = rule->where; w; w = w->next)
            mention_words(ld, &w->values);
    }
    vars_resolve(&ld->c);
}

static bool compile_rules(struct loader *ld) {
    struct policy *p = ld->c.p;
    p->rules_room = ld->nrules + 1;
    p->rules = arena_alloc(&p->arena, p->rules_room * sizeof *p->rules);
    if (!p->rules)
        return false;
    for (struct item *item = ld->items; item; item = item->next) {
        if (item->statement->kind == TREE_RULE)
            compile_rule(&ld->c, &item->statement->rule, item->source);
        else
            expect_check(&ld->c, &item->statement->rule);
    }
    return index_build(p);
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool collect_credentials(struct policy *p) {
    size_t n = 0;
    const char **list = arena_alloc(&p->arena, (p->nrules + 1) * sizeof *list);
    if (!list)
        return false;
    for (size_t i = 0; i < p->nrules; i++)
        if (p->rules[i].credential.n)
            list[n++] = p->rules[i].credential.p;
    qsort(list, n, sizeof *list, compare_names);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(list[i], list[i - 1]) != 0)
            list[p->ncredentials++] = list[i];
    p->credentials = list;
    return true;
}

static void prove(struct loader *ld) {
    const struct policy *p = ld->c.p;
    for (struct item *item = ld->items; item; item = item->next) {
        const struct source *s = item->source;
        if (item->statement->kind == TREE_EXPECT)
            expect_prove(&ld->c, &item->statement->rule,
                         p->tops[s->index] ? NULL : p->reach + s->index * p->nfiles);
    }
}

static bool keep_sets(struct policy *p, const struct policy_input *in) {
    p->sets = arena_alloc(&p->arena, (in->nsets + 1) * sizeof *p->sets);
    for (size_t i = 0; p->sets && i < in->nsets; i++) {
        p->sets[i] = (struct policy_set){.name = arena_copy(&p->arena, slice_str(in->sets[i].name)).p,
                                         .value = arena_copy(&p->arena, slice_str(in->sets[i].value)).p};
    }
    p->nsets = in->nsets;
    return p->sets != NULL;
}

static struct policy *policy_new(const struct policy_input *in) {
    struct policy *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    arena_init(&p->arena, ARENA_MAX);
    p->asked_last = &p->asked;
    p->files = arena_alloc(&p->arena, POLICY_FILES_MAX * sizeof *p->files);
    p->tops = arena_alloc(&p->arena, POLICY_FILES_MAX * sizeof *p->tops);
    if (p->files && p->tops && keep_sets(p, in))
        return p;
    policy_free(p);
    return NULL;
}

void policy_free(struct policy *p) {
    if (!p)
        return;
    regex_release(p);
    arena_release(&p->arena);
    free(p);
}

static int load(struct loader *ld) {
    struct policy *p = ld->c.p;
    struct policy_diags *diags = ld->c.diags;
    size_t before = diag_count(diags);
    vars_set(&ld->c, p->sets, p->nsets);
    load_files(ld);
    fill_variables(ld);
    if (!collect_reach(p) || !compile_rules(ld) || !collect_credentials(p))
        return ERR_NOMEM;
    condition_prepare();
    if (diag_count(diags) == before)
        prove(ld);
    vars_unused(&ld->c, ld->in->sets, ld->in->nsets, !ld->unread);
    diag_sort(diags, p->files, p->nfiles);
    if (p->arena.failed || ld->c.scratch.failed)
        return ERR_NOMEM;
    return diag_count(diags) == before ? 0 : ERR_PARSE;
}

int policy_load(const struct policy_input *in, struct policy **out, struct policy_diags *diags) {
    *out = NULL;
    struct loader *ld = calloc(1, sizeof *ld);
    struct policy *p = policy_new(in);
    int r = ERR_NOMEM;
    if (!ld || !p)
        goto fail;
    ld->in = in;
    ld->last = &ld->items;
    ld->c.p = p;
    ld->c.diags = diags;
    ld->c.vars = &ld->vars;
    arena_init(&ld->c.scratch, ARENA_MAX);
    buf_init(&ld->resolved, POLICY_NAME_MAX);
    buf_init(&ld->text, POLICY_FILE_MAX);
    r = load(ld);
    buf_release(&ld->resolved);
    buf_release(&ld->text);
    arena_release(&ld->c.scratch);
fail:
    free(ld);
    if (r)
        policy_free(p);
    else
        *out = p;
    return r;
}

int policy_set_parse(char *arg, struct policy_set *out, struct errmsg *msg) {
    char *equals = strchr(arg, '=');
    size_t n = equals ? (size_t)(equals - arg) : 0;
    bool good = n > 0 && !ascii_digit(arg[0]);
    for (size_t i = 0; i < n; i++)
        good &= (arg[i] >= 'a' && arg[i] <= 'z') || (arg[i] >= 'A' && arg[i] <= 'Z') || arg[i] == '_' ||
                ascii_digit(arg[i]);
    if (!good)
        return errmsg_set(msg, ERR_USAGE, "'%s' is not NAME=VALUE with a name of letters, digits and '_'",
                          arg);
    *equals = 0;
    *out = (struct policy_set){.name = arg, .value = equals + 1};
    return 0;
}
