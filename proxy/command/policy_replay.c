#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/json.h"
#include "base/log.h"
#include "proxy/command/decisions.h"

static const struct option_row rows[] = {TOOL_ROW_SET, TOOL_ROW_JSON, TOOL_ROW_HELP};
#define ROWS (sizeof rows / sizeof rows[0])

#define GROUPS_MAX 10000
#define LOG_MAX    (1u << 30)

/* Decisions that differ in the same way: for the same reasons then and now; or that can't be told for the same. */
struct group {
    bool denied; /* then */
    bool untold; /* `now` is why */
    char *then, *now, *now_rule;
    char *example, *id;
    char *credential_then, *credential_now;
    enum verdict_action action;
    size_t n;
};

struct replay {
    struct tool *t;
    const struct policy *p;
    struct group *groups;
    size_t n, cap;
    size_t judged, differ, untold;
    size_t others; /* refusals for other reasons than a policy's */
};

/* With the ref that the verdict hangs on. */
static void put_example(const struct decision_line *d, const struct verdict *v, struct buf *out) {
    const struct facts *f = &d->request.f;
    const struct facts_ref *ref = v->ref < f->nrefs ? &f->refs[v->ref] : f->refs;
    buf_printf(out, "%.*s %s", SLICE_ARG(f->method), d->url);
    if (f->nrefs)
        buf_printf(out, " %.*s", SLICE_ARG(ref->name));
    if (f->nrefs && f->kind == FACTS_GIT_PUSH)
        buf_printf(out, " %s", facts_op_name(ref->op));
}

static struct group *find(struct replay *r, bool untold, bool denied, enum verdict_action action,
                          const char *then, const char *now, const char *credential_then,
                          struct slice credential_now) {
    for (size_t i = 0; i < r->n; i++) {
        struct group *g = &r->groups[i];
        if (g->untold == untold && g->denied == denied && g->action == action && strcmp(g->then, then) == 0 &&
            strcmp(g->now, now) == 0 && strcmp(g->credential_then, credential_then) == 0 &&
            slice_eq(slice_str(g->credential_now), credential_now))
            return g;
    }
    return NULL;
}

static int add_group(struct replay *r, const struct decision_line *d, bool untold, const struct verdict *v,
                     const char *now) {
    if (r->n == GROUPS_MAX)
        return ERR_LIMIT;
    struct group *groups = array_room(r->groups, r->n, &r->cap, sizeof *groups);
    if (!groups)
        return ERR_NOMEM;
    r->groups = groups;
    struct buf text;
    buf_init(&text, 1 << 16);
    put_example(d, v, &text);
    struct group *g = &r->groups[r->n++];
    *g = (struct group){.untold = untold, .denied = d->denied, .action = v->action, .n = 1};
    g->then = strdup(d->reason);
    g->now = strdup(now);
    g->example = slice_dup(buf_slice(&text));
    g->id = strdup(d->id);
    g->credential_then = strdup(d->credential);
    g->credential_now = v->credential.n ? slice_dup(v->credential) : strdup("");
    buf_clear(&text);
    if (v->rule.index && !untold)
        buf_printf(&text, "%s:%u: %.*s", v->rule.file, v->rule.line, SLICE_ARG(v->rule.text));
    g->now_rule = buf_len(&text) ? slice_dup(buf_slice(&text)) : strdup("");
    buf_release(&text);
    return g->then && g->now && g->example && g->id && g->credential_then && g->credential_now && g->now_rule
               ? 0
               : ERR_NOMEM;
}

static int note(struct replay *r, const struct decision_line *d, bool untold, const struct verdict *v,
                const char *now) {
    struct group *g = find(r, untold, d->denied, v->action, d->reason, now, d->credential, v->credential);
    if (!g)
        return add_group(r, d, untold, v, now);
    g->n++;
    return 0;
}

/* "p.policy:3: allow POST https://… where …, and the log has no bodies and headers" */
static int note_untold(struct replay *r, const struct decision_line *d, const struct verdict *v,
                       const struct verdict_rule *on) {
    struct buf now;
    buf_init(&now, 1 << 16);
    if (on->index)
        buf_printf(&now, "it hangs on what the log does not tell: %s:%u: %.*s", on->file, on->line,
                   SLICE_ARG(on->text));
    else
        buf_puts(&now, d->omitted);
    const char *text = buf_cstr(&now);
    r->untold++;
    int result = note(r, d, true, v, text ? text : "");
    buf_release(&now);
    return result;
}

/* A limit that was used up, a body that was too long, a request that no rule was asked about. */
static bool other_reason(const struct decision_line *d) {
    if (!d->denied || !*d->code || (strcmp(d->code, "fetch-ref") == 0 && d->request.f.nrefs))
        return false;
    for (unsigned reason = REASON_NO_RULES; reason < REASON_COUNT; reason++)
        if (strcmp(d->code, verdict_reason_code((enum verdict_reason)reason)) == 0)
            return false;
    return true;
}

static int judge(void *arg, struct decision_line *d) {
    struct replay *r = arg;
    struct verdict v;
    struct verdict_rule on;
    struct buf now;
    bool told;
    if (other_reason(d)) {
        r->others++;
        return 0;
    }
    int result = policy_judge_logged(r->p, &d->request.f, &v, &told, &on);
    r->judged++;
    bool denied = v.action == VERDICT_DENY;
    if (result == 0 && (!told || (d->omitted && !denied)))
        return note_untold(r, d, &v, &on);
    if (result || (denied == d->denied && (denied || slice_eq(v.credential, slice_str(d->credential)))))
        return result;
    r->differ++;
    buf_init(&now, 1 << 16);
    policy_explain(r->p, &d->request.f, &v, 1, &now);
    const char *text = buf_cstr(&now);
    result = note(r, d, false, &v, text ? text : "");
    buf_release(&now);
    return result;
}

static const char *change_of(const struct group *g) {
    if (g->untold)
        return g->denied ? "denied then, can't be told now" : "permitted then, can't be told now";
    if (g->denied)
        return "denied then, permitted now";
    return g->action == VERDICT_DENY ? "permitted then, denied now" : "permitted with another credential now";
}

static void group_text(struct replay *r, const struct group *g) {
    struct buf *out = &r->t->out;
    buf_printf(out, "%zu %s\n  then: %s\n  now:  %s\n", g->n, change_of(g), g->then, g->now);
    if (*g->now_rule)
        buf_printf(out, "        %s\n", g->now_rule);
    if (!g->untold && !g->denied && g->action != VERDICT_DENY)
        buf_printf(out, "  credential then: %s, now: %s\n", *g->credential_then ? g->credential_then : "none",
                   *g->credential_now ? g->credential_now : "none");
    buf_printf(out, "  for example: %s [%s]\n", g->example, g->id);
}

static void group_json(const struct group *g, struct json *j) {
    json_open_object(j);
    json_key(j, "count");
    json_u64(j, g->n);
    json_key(j, "verdict_then");
    json_cstring(j, g->denied ? "deny" : "allow");
    json_key(j, "verdict_now");
    json_cstring(j, g->untold ? "unknown" : verdict_action_name(g->action));
    json_key(j, "then");
    json_cstring(j, g->then);
    json_key(j, "now");
    json_cstring(j, g->now);
    json_key(j, "credential_then");
    json_cstring(j, g->credential_then);
    json_key(j, "credential_now");
    json_cstring(j, g->credential_now);
    json_key(j, "example");
    json_cstring(j, g->example);
    json_key(j, "id");
    json_cstring(j, g->id);
    json_close(j);
}

static int most_first(const void *a, const void *b) {
    const struct group *x = a, *y = b;
    return x->n != y->n ? (x->n < y->n) - (x->n > y->n) : strcmp(x->example, y->example);
}

static void tell(struct replay *r, const struct decisions *read) {
    if (r->n)
        qsort(r->groups, r->n, sizeof *r->groups, most_first);
    if (!r->t->json) {
        for (size_t i = 0; i < r->n; i++)
            group_text(r, &r->groups[i]);
        buf_printf(&r->t->out, "%zu request%s judged, %zu differ%s, %zu can't be told", r->judged,
                   tool_s(r->judged), r->differ, tool_verb_s(r->differ), r->untold);
        if (read->skipped)
            buf_printf(&r->t->out, "; %zu line%s tell%s of no request", read->skipped, tool_s(read->skipped),
                       tool_verb_s(read->skipped));
        if (r->others)
            buf_printf(&r->t->out, "; %zu refusal%s had other reasons than a policy's", r->others,
                       tool_s(r->others));
        buf_putc(&r->t->out, '\n');
        return;
    }
    struct json j;
    json_init(&j, &r->t->out);
    json_open_object(&j);
    json_key(&j, "judged");
    json_u64(&j, r->judged);
    json_key(&j, "differ");
    json_u64(&j, r->differ);
    json_key(&j, "skipped");
    json_u64(&j, read->skipped);
    json_key(&j, "untold");
    json_u64(&j, r->untold);
    json_key(&j, "others");
    json_u64(&j, r->others);
    json_key(&j, "groups");
    json_open_array(&j);
    for (size_t i = 0; i < r->n; i++)
        group_json(&r->groups[i], &j);
    json_close(&j);
    json_close(&j);
    buf_putc(&r->t->out, '\n');
}

static void release(struct replay *r) {
    for (size_t i = 0; i < r->n; i++) {
        struct group *g = &r->groups[i];
        free(g->then);
        free(g->now);
        free(g->now_rule);
        free(g->example);
        free(g->id);
        free(g->credential_then);
        free(g->credential_now);
    }
    free(r->groups);
}

static int replay(struct tool *t, const char *log, const char *file) {
    struct buf text;
    struct errmsg msg;
    int status = TOOL_TROUBLE;
    if (tool_read_file(log, LOG_MAX, &text, &msg) < 0) {
        log_error("policy replay: %s", msg.text);
        buf_release(&text);
        return status;
    }
    struct policy *p = tool_load(t, &file, 1);
    struct replay r = {.t = t, .p = p};
    struct decisions read = {.verdict = judge, .arg = &r};
    int e = p ? decisions_read(&read, buf_slice(&text)) : 0;
    if (e < 0) {
        log_error("policy replay: %s", err_text(e));
    } else if (p && read.bad && read.bad == read.skipped && r.judged == 0) {
        log_error("policy replay: %s holds no decision", log);
    } else if (p) {
        tell(&r, &read);
        status = r.differ || r.untold ? EXIT_FINDINGS : EXIT_SUCCESS;
    }
    release(&r);
    policy_free(p);
    buf_release(&text);
    return status;
}

int command_policy_replay(int argc, char **argv) {
    static struct tool t;
    int first;
    int status = tool_begin(
        &t, "policy replay",
        "usage: exeat policy replay [OPTION]... LOG POLICY\n"
        "\n"
        "Judges the requests of a decision log (decisions.jsonl) by a policy, and says "
        "which come out otherwise,\n"
        "put together by the reasons. The log has no bodies, headers and values of "
        "queries: where the verdict\n"
        "hangs on them it can't be told, and that is said. Status 1: some differ, or can't be told.\n",
        rows, ROWS, 2, argc, argv, &first);
    if (status >= 0)
        return status;
    if (argc - first > 2) {
        log_error("policy replay: takes a log and a policy, got %d arguments", argc - first);
        return tool_end(&t, TOOL_TROUBLE);
    }
    return tool_end(&t, replay(&t, argv[first], argv[first + 1]));
}
