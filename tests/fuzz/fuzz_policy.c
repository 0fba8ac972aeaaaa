/*
 * Fuzz harness for policy/: the seed is a policy, then a line "====", then requests to judge, one a line:
 * METHOD URL, or fetch URL, or push URL REF OP... A file of its own name can be included. What loads must be judged
 * alike after a trip through a bundle, and every hint must be a policy that, added to it, permits what it was given for.
 */
#include <stdlib.h>

#include "policy/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth) {
    if (!truth)
        abort();
}

static int read_memory(void *arg, const char *from, const char *name, struct buf *resolved, struct buf *text,
                       struct errmsg *msg) {
    const struct slice *policy = arg;
    if (from && strcmp(name, "self") != 0)
        return errmsg_set(msg, ERR_NOTFOUND, "no such file");
    buf_puts(resolved, name);
    return buf_put(text, *policy);
}

static struct policy *load(struct slice text) {
    static const char *const files[] = {"self"};
    const struct policy_set set = {"v", "x/*"};
    struct policy_input in = {
        .files = files, .nfiles = 1, .sets = &set, .nsets = 1, .read = read_memory, .arg = &text};
    struct policy_diags diags;
    struct policy *p;
    struct buf out;
    policy_diags_init(&diags);
    buf_init(&out, 1 << 20);
    int r = policy_load(&in, &p, &diags);
    must((r == 0) == (p != NULL) && (r != ERR_PARSE || diags.n > 0));
    policy_diags_format(&diags, false, &out);
    policy_diags_release(&diags);
    buf_release(&out);
    return p;
}

static struct policy *reload(const struct policy *p) {
    struct policy_diags diags;
    struct policy *other;
    struct buf bundle;
    policy_diags_init(&diags);
    buf_init(&bundle, 64 << 20);
    must(policy_bundle(p, &bundle) == 0);
    must(policy_load_bundle(buf_slice(&bundle), &other, &diags) == 0);
    policy_diags_release(&diags);
    buf_release(&bundle);
    return other;
}

static struct slice word(struct slice *line) {
    struct slice w;
    slice_cut(*line, ' ', &w, line);
    return w;
}

static struct slice whole; /* the policy's text */

/* A policy whose expectations what is added contradicts does not load. */
static void check_added(struct slice rules, const struct facts *f) {
    struct buf text;
    struct verdict v;
    buf_init(&text, 1 << 24);
    buf_put(&text, whole);
    buf_putc(&text, '\n');
    buf_put(&text, rules);
    struct policy *p = load(buf_slice(&text));
    if (p) {
        policy_judge(p, f, &v);
        must(v.action == VERDICT_ALLOW || v.reason == REASON_WRITE_UNREADABLE);
    }
    policy_free(p);
    buf_release(&text);
}

static void check(const struct policy *p, const struct policy *other, const struct facts *f) {
    struct verdict v, w;
    struct buf out;
    policy_judge(p, f, &v);
    policy_judge(other, f, &w);
    must(v.action == w.action && v.reason == w.reason && v.rule.index == w.rule.index);
    must((v.action == VERDICT_ALLOW) == (v.reason == REASON_ALLOWED) &&
         (v.action == VERDICT_ALLOW || !v.credential.n));
    buf_init(&out, 1 << 20);
    policy_explain(p, f, &v, 0, &out);
    must(buf_len(&out) > 0);
    buf_clear(&out);
    policy_hint(p, f, &v, &out);
    if (buf_len(&out)) {
        static const char *const files[] = {"hint"};
        struct slice text = buf_slice(&out);
        struct policy_input in = {.files = files, .nfiles = 1, .read = read_memory, .arg = &text};
        struct policy_diags diags;
        struct policy *hint;
        policy_diags_init(&diags);
        must(policy_load(&in, &hint, &diags) == 0);
        policy_free(hint);
        check_added(text, f);
        policy_diags_release(&diags);
    }
    buf_release(&out);
}

static enum facts_op op_of(struct slice w) {
    for (enum facts_op op = FACTS_CREATE; op <= FACTS_FORCE; op++)
        if (slice_eq(w, slice_str(facts_op_name(op))))
            return op;
    return FACTS_FORCE;
}

static void request(const struct policy *p, const struct policy *other, struct slice line) {
    struct facts f = {.method = word(&line)};
    struct url_parts parts;
    struct url_host host;
    struct facts_ref refs[8];
    struct buf path;
    f.kind = slice_eq(f.method, SLICE("push"))    ? FACTS_GIT_PUSH
             : slice_eq(f.method, SLICE("fetch")) ? FACTS_GIT_FETCH
                                                  : FACTS_HTTP;
    if (url_split(word(&line), &parts, NULL) ||
        url_authority_parse(parts.authority, url_default_port(parts.scheme), &host, &f.port, NULL))
        return;
    buf_init(&path, 1 << 16);
    if (!url_path_canonical(parts.path, &path, NULL, NULL)) {
        f.scheme = parts.scheme;
        f.host = url_host_slice(&host);
        f.host_is_address = host.kind != URL_HOST_NAME;
        f.path = buf_slice(&path);
        f.query = parts.query;
        f.refs = refs;
        while (f.kind == FACTS_GIT_PUSH && line.n && f.nrefs < 8) {
            refs[f.nrefs] = (struct facts_ref){.name = word(&line)};
            refs[f.nrefs].op = op_of(word(&line));
            refs[f.nrefs++].unproved = true;
        }
        check(p, other, &f);
    }
    buf_release(&path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct slice all = slice_make(data, size), text = all, line;
    const char *mark = size ? memmem(data, size, "\n====\n", 6) : NULL;
    if (mark)
        text = slice_sub(all, 0, (size_t)(mark - all.p) + 1);
    struct policy *p = load(text);
    if (!p)
        return 0;
    whole = text;
    struct policy *other = reload(p);
    struct buf out;
    buf_init(&out, 1 << 22);
    policy_describe(p, POLICY_TEXT, &out);
    policy_describe(p, POLICY_JSON, &out);
    buf_release(&out);
    struct slice rest = mark ? slice_from(all, text.n + 5) : SLICE_NONE;
    while (rest.n) {
        slice_cut(rest, '\n', &line, &rest);
        request(p, other, line);
    }
    policy_free(p);
    policy_free(other);
    return 0;
}
