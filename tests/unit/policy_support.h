/* For tests of policy/: policies from strings, requests from URLs. */
#ifndef TESTS_UNIT_POLICY_SUPPORT_H
#define TESTS_UNIT_POLICY_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/url.h"
#include "policy/policy.h"

/* Files in memory: name and text in turn, NULL at the end. */
struct memory {
    const char *const *files;
};

static inline int memory_read(void *arg, const char *from, const char *name, struct buf *resolved,
                              struct buf *text, struct errmsg *msg) {
    const struct memory *m = arg;
    (void)from;
    for (const char *const *f = m->files; *f; f += 2) {
        if (strcmp(f[0], name) != 0)
            continue;
        int r = buf_puts(resolved, name);
        return r ? r : buf_puts(text, f[1]);
    }
    return errmsg_set(msg, ERR_NOTFOUND, "no such file");
}

/* Loads `top` out of `files` with at most one --set. */
static inline int load_files(const char *const *files, const char *top, const struct policy_set *set,
                             struct policy **out, struct policy_diags *diags) {
    struct memory m = {files};
    struct policy_input in = {
        .files = &top, .nfiles = 1, .sets = set, .nsets = set != NULL, .read = memory_read, .arg = &m};
    policy_diags_init(diags);
    return policy_load(&in, out, diags);
}

/* The policy in `text`; the test fails, with the diagnostics, if there is none. */
static inline struct policy *load_set(const char *text, const char *name, const char *value) {
    const char *const files[] = {"t.policy", text, NULL};
    const struct policy_set set = {name, value};
    struct policy *p;
    struct policy_diags diags;
    if (load_files(files, "t.policy", name ? &set : NULL, &p, &diags)) {
        struct buf out;
        buf_init(&out, 1 << 20);
        policy_diags_format(&diags, false, &out);
        fail_msg("%s", buf_cstr(&out));
    }
    policy_diags_release(&diags);
    return p;
}

static inline struct policy *load_text(const char *text) {
    return load_set(text, NULL, NULL);
}

/* The diagnostics of a policy that must not load. The caller frees the text. */
static inline char *load_errors(const char *text, const char *name, const char *value) {
    const char *const files[] = {"t.policy", text, NULL};
    const struct policy_set set = {name, value};
    struct policy *p;
    struct policy_diags diags;
    struct buf out;
    int r = load_files(files, "t.policy", name ? &set : NULL, &p, &diags);
    assert_int_equal(r, ERR_PARSE);
    assert_null(p);
    assert_true(diags.n > 0);
    buf_init(&out, 1 << 20);
    policy_diags_format(&diags, false, &out);
    char *s = strdup(buf_cstr(&out));
    buf_release(&out);
    policy_diags_release(&diags);
    return s;
}

/* A request in the making: facts and what they borrow from. */
struct asking {
    struct facts f;
    struct url_host host;
    struct buf path;
    struct facts_ref refs[64];
};

static inline void asking_init(struct asking *a, enum facts_kind kind, const char *method, const char *url) {
    struct url_parts parts;
    *a = (struct asking){.f = {.kind = kind, .method = slice_str(method)}};
    buf_init(&a->path, 1 << 16);
    assert_int_equal(url_split(slice_str(url), &parts, NULL), 0);
    assert_int_equal(
        url_authority_parse(parts.authority, url_default_port(parts.scheme), &a->host, &a->f.port, NULL), 0);
    assert_int_equal(url_path_canonical(parts.path, &a->path, NULL, NULL), 0);
    a->f.scheme = parts.scheme;
    a->f.host = url_host_slice(&a->host);
    a->f.host_is_address = a->host.kind != URL_HOST_NAME;
    a->f.path = buf_slice(&a->path);
    a->f.query = parts.query;
    a->f.refs = a->refs;
}

static inline void asking_ref(struct asking *a, const char *name, enum facts_op op, bool unproved) {
    a->refs[a->f.nrefs++] = (struct facts_ref){.name = slice_str(name), .op = op, .unproved = unproved};
}

static inline bool asking_json(const void *arg, size_t i, struct slice *name, struct slice *value) {
    (void)arg;
    *name = SLICE("content-type");
    *value = SLICE("application/json");
    return i == 0;
}

/* The body of an example as the tools print it, a word of a policy: `body {"a":1}`, or in quotes. It is cut off. */
static inline void asking_body(struct asking *a, char *line) {
    char *at = strstr(line, " body "), *from, *to;
    a->f.body_state = FACTS_BODY_WHOLE;
    if (!at)
        return;
    *at = 0;
    a->f.field = asking_json;
    from = to = at + strlen(" body ");
    if (*from != '"') {
        a->f.body = slice_str(from);
        return;
    }
    for (from++; *from && *from != '"'; from++) {
        from += *from == '\\' || (*from == '$' && from[1] == '$');
        *to++ = *from;
    }
    a->f.body = slice_make(at + strlen(" body "), (size_t)(to - at) - strlen(" body "));
}

static inline struct verdict ask_http(const struct policy *p, const char *method, const char *url) {
    struct asking a;
    struct verdict v;
    asking_init(&a, FACTS_HTTP, method, url);
    policy_judge(p, &a.f, &v);
    buf_release(&a.path);
    return v;
}

static inline struct verdict ask_fetch(const struct policy *p, const char *url) {
    struct asking a;
    struct verdict v;
    asking_init(&a, FACTS_GIT_FETCH, "POST", url);
    policy_judge(p, &a.f, &v);
    buf_release(&a.path);
    return v;
}

/* A push of one ref; NULL: the discovery. */
static inline struct verdict ask_push(const struct policy *p, const char *url, const char *ref,
                                      enum facts_op op) {
    struct asking a;
    struct verdict v;
    asking_init(&a, FACTS_GIT_PUSH, ref ? "POST" : "GET", url);
    if (ref)
        asking_ref(&a, ref, op, false);
    policy_judge(p, &a.f, &v);
    buf_release(&a.path);
    return v;
}

#endif
