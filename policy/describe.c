/* What a policy says, for people and for programs. */
#include "policy/rule.h"

#include "base/json.h"

static const char *verb_name(const struct rule *r) {
    static const char *const names[] = {
        [TREE_ALLOW] = "allow", [TREE_DENY] = "deny", [TREE_ASK] = "ask", [TREE_TUNNEL] = "tunnel"};
    return names[r->verb];
}

static void put_ops(const struct rule *r, void (*put)(void *arg, const char *name), void *arg) {
    for (unsigned op = FACTS_CREATE; r->action == TREE_PUSH && op <= FACTS_FORCE; op++)
        if (r->ops & 1u << op)
            put(arg, facts_op_name((enum facts_op)op));
    for (unsigned op = FACTS_LFS_DOWNLOAD; r->action == TREE_LFS && r->ops_named && op < FACTS_LFS_COUNT;
         op++)
        if (r->ops & 1u << op)
            put(arg, facts_lfs_name((enum facts_lfs)op));
}

static void op_text(void *arg, const char *name) {
    buf_printf(arg, " %s", name);
}

static void op_json(void *arg, const char *name) {
    json_put_string(arg, slice_str(name));
}

static void describe_text(const struct policy *p, struct buf *out) {
    if (p->nrules == 0)
        buf_puts(out, "# no rule: everything is denied\n");
    for (size_t i = 0; i < p->nrules; i++) {
        const struct rule *r = &p->rules[i];
        buf_printf(out, "%s %.*s%s%.*s", verb_name(r), SLICE_ARG(r->methods), r->methods.n ? " " : "",
                   SLICE_ARG(r->target.text));
        if (r->nrefs)
            buf_printf(out, " %.*s", SLICE_ARG(r->refs_text));
        put_ops(r, op_text, out);
        if (r->credential.n)
            buf_printf(out, " with %.*s", SLICE_ARG(r->credential));
        buf_put(out, r->options_text);
        buf_printf(out, "  # %s:%u%s%.*s\n", r->where.file, r->where.line, r->note.n ? ": " : "",
                   SLICE_ARG(r->note));
    }
}

static void words_json(struct json *j, const char *key, struct slice list, char sep) {
    struct slice one;
    bool more = list.n > 0;
    json_key(j, key);
    json_open_array(j);
    while (more) {
        more = slice_cut(list, sep, &one, &list);
        json_put_string(j, one);
    }
    json_close(j);
}

static void rule_json(struct json *j, const struct rule *r) {
    json_open_object(j);
    json_key(j, "verdict");
    json_cstring(j, verb_name(r));
    if (r->action == TREE_HTTP) {
        words_json(j, "methods", r->methods, ',');
    } else if (r->action != TREE_CONNECT) {
        json_key(j, "git");
        json_put_string(j, r->methods);
    }
    json_key(j, "target");
    json_put_string(j, r->target.text);
    if (r->action == TREE_PUSH || r->action == TREE_FETCH)
        words_json(j, "refs", r->nrefs ? r->refs_text : SLICE("refs/**"), ' ');
    if (r->action == TREE_PUSH || (r->action == TREE_LFS && r->ops_named)) {
        json_key(j, "operations");
        json_open_array(j);
        put_ops(r, op_json, j);
        json_close(j);
    }
    if (r->credential.n) {
        json_key(j, "credential");
        json_put_string(j, r->credential);
    }
    if (r->options_text.n) {
        json_key(j, "options");
        json_put_string(j, slice_trim(r->options_text));
    }
    if (r->note.n) {
        json_key(j, "note");
        json_put_string(j, r->note);
    }
    json_key(j, "file");
    json_put_string(j, slice_str(r->where.file));
    json_key(j, "line");
    json_u64(j, r->where.line);
    json_close(j);
}

int policy_describe(const struct policy *p, enum policy_format format, struct buf *out) {
    if (format == POLICY_TEXT) {
        describe_text(p, out);
        return out->failed ? ERR_LIMIT : 0;
    }
    struct json j;
    json_init(&j, out);
    json_open_object(&j);
    json_key(&j, "otherwise");
    json_put_string(&j, SLICE("deny"));
    json_key(&j, "rules");
    json_open_array(&j);
    for (size_t i = 0; i < p->nrules; i++)
        rule_json(&j, &p->rules[i]);
    json_close(&j);
    json_close(&j);
    return out->failed ? ERR_LIMIT : 0;
}

size_t policy_rule_count(const struct policy *p) {
    return p->nrules;
}

bool policy_may_push(const struct policy *p) {
    for (size_t i = 0; i < p->nrules; i++)
        if (p->rules[i].action == TREE_PUSH && !p->rules[i].deny)
            return true;
    return false;
}

size_t policy_credential_count(const struct policy *p) {
    return p->ncredentials;
}

const char *policy_credential(const struct policy *p, size_t i) {
    return i < p->ncredentials ? p->credentials[i] : NULL;
}
