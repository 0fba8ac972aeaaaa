#include "proxy/command/decisions.h"

#include <stdlib.h>
#include <string.h>

static const char *text_of(json_t *object, const char *key) {
    const char *s = json_string_value(json_object_get(object, key));
    return s ? s : "";
}

static bool read_refs(struct decision_line *d, json_t *git) {
    json_t *list = json_object_get(git, "refs");
    size_t n = json_array_size(list);
    if (d->request.f.kind == FACTS_GIT_PUSH && json_object_get(git, "omitted"))
        d->omitted = "the log does not tell all refs of the push";
    if (n == 0 || n > DECISIONS_REFS_MAX)
        return n == 0;
    d->refs = calloc(n, sizeof *d->refs);
    if (!d->refs)
        return false;
    for (size_t i = 0; i < n; i++) {
        json_t *one = json_array_get(list, i);
        const char *op = text_of(one, "op");
        d->refs[i].name = slice_str(text_of(one, "ref"));
        d->refs[i].old = slice_str(text_of(one, "old"));
        d->refs[i].new = slice_str(text_of(one, "new"));
        if (!facts_op_of(slice_str(op), &d->refs[i].op))
            d->refs[i].op = FACTS_FORCE;
        d->refs[i].unproved = d->refs[i].op == FACTS_FORCE && strcmp(text_of(one, "proof"), "none") == 0;
    }
    d->request.f.refs = d->refs;
    d->request.f.nrefs = n;
    return true;
}

/* A POST that says nothing of refs may be about any, but for the commands that are about none. */
static void read_fetch(struct decision_line *d, json_t *git) {
    struct facts *f = &d->request.f;
    const char *command = text_of(git, "command");
    bool fetches = strcmp(command, "fetch") == 0 || strcmp(command, "object-info") == 0;
    bool posted = f->kind == FACTS_GIT_FETCH && slice_eq(f->method, SLICE("POST"));
    f->refs_untold = posted && (json_object_get(git, "omitted") || (f->nrefs == 0 && (fetches || !*command)));
}

static bool read_options(struct decision_line *d, json_t *git) {
    json_t *list = json_object_get(git, "options");
    size_t n = json_array_size(list);
    if (n > DECISIONS_REFS_MAX)
        return false;
    d->options = n ? calloc(n, sizeof *d->options) : NULL;
    if (n && !d->options)
        return false;
    for (size_t i = 0; i < n; i++) {
        const char *s = json_string_value(json_array_get(list, i));
        d->options[i] = slice_str(s ? s : "");
        if (slice_eq(d->options[i], SLICE("\342\200\246")))
            d->omitted = "the log does not tell all options of the push";
    }
    if (n == 0 && strcmp(d->code, verdict_reason_code(REASON_OPTIONS)) == 0)
        d->omitted = "the log does not tell the options of the push";
    d->request.f.options = d->options;
    d->request.f.noptions = n;
    return true;
}

/* The request of a verdict. False if it tells of none. */
static bool read_request(struct decision_line *d) {
    json_t *git = json_object_get(d->json, "git");
    const char *method = text_of(d->json, "method"), *service = text_of(git, "service");
    enum facts_kind kind = FACTS_HTTP;
    if (strcmp(service, "git-receive-pack") == 0)
        kind = FACTS_GIT_PUSH;
    else if (strncmp(service, "git-", 4) == 0)
        kind = FACTS_GIT_FETCH;
    else if (strcmp(method, "tunnel") == 0)
        kind = FACTS_TUNNEL;
    if (!*method || !*d->url)
        return false;
    if (request_url(&d->request, FACTS_HTTP, slice_str(method), slice_str(d->url), NULL))
        return false;
    d->request.f.kind = kind;
    if (strcmp(service, "git-upload-archive") == 0)
        d->request.f.extra = FACTS_ARCHIVE;
    const char *operation = text_of(json_object_get(d->json, "lfs"), "operation");
    if (!facts_lfs_of(slice_str(operation), &d->request.f.lfs) || d->request.f.lfs == FACTS_LFS_LOCK)
        d->request.f.lfs = FACTS_LFS_UNKNOWN; /* a batch locks nothing */
    if (d->request.f.extra == FACTS_PLAIN && strcmp(d->code, verdict_reason_code(REASON_EXTRA)) == 0)
        d->omitted = "the log does not tell what was fetched beside refs";
    if (kind == FACTS_HTTP)
        return true;
    bool read = read_refs(d, git) && read_options(d, git);
    read_fetch(d, git);
    return read;
}

static int read_verdict(struct decisions *r, json_t *json, unsigned line) {
    struct decision_line d = {.line = line,
                              .json = json,
                              .id = text_of(json, "id"),
                              .url = text_of(json, "url"),
                              .rule = text_of(json, "rule"),
                              .reason = text_of(json, "reason"),
                              .code = text_of(json, "code"),
                              .credential = text_of(json, "credential")};
    int result = 0;
    d.denied = strcmp(text_of(json, "verdict"), "deny") == 0;
    if (read_request(&d))
        result = r->verdict(r->arg, &d);
    else
        r->skipped++;
    request_release(&d.request);
    free(d.refs);
    free(d.options);
    return result;
}

int decisions_read(struct decisions *r, struct slice text) {
    int result = 0;
    struct slice line;
    for (unsigned number = 1; result == 0 && text.n; number++) {
        slice_cut(text, '\n', &line, &text);
        line = slice_trim(line);
        if (line.n == 0)
            continue;
        json_t *json = json_loadb(line.p, line.n, 0, NULL);
        const char *event = text_of(json, "event");
        if (!*event) {
            r->bad++;
            r->skipped++;
        } else if (strcmp(event, "verdict") == 0) {
            result = read_verdict(r, json, number);
        } else if (strcmp(event, "outcome") == 0 && r->outcome) {
            result = r->outcome(r->arg, text_of(json, "id"), json);
        }
        json_decref(json);
    }
    return result;
}
