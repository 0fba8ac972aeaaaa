/*
 * policy: properties of random policies. The order of rules never matters to the verdict; the compiled policy agrees
 * with a slow and obvious reading of the same rules; judging allocates nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/policy_support.h"

static uint64_t seed = 88172645463325252u;

static unsigned pick(unsigned n) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)(seed >> 11) % n;
}

/* What rules are made of. */
static const char *const verbs[] = {"allow", "allow", "allow", "deny"};
static const char *const methods[] = {"GET", "POST", "GET,POST", "*"};
static const char *const schemes[] = {"https", "https", "http"};
static const char *const hosts[] = {"a.test", "b.test", "*.test", "*.a.test", "x.a.test", "*"};
static const char *const ports[] = {"", "", ":8443", ":*"};
static const char *const paths[] = {"", "/", "/x", "/x/*", "/x/**", "/*/y", "/x/y"};
static const char *const refs[] = {"", "refs/heads/main", "refs/heads/*", "refs/heads/**", "refs/tags/v"};
static const char *const ops[] = {"", "create", "delete", "force", "update", "create update delete force"};
#define PICK(list) pick(sizeof(list) / sizeof *(list))

enum kind { HTTP, FETCH, PUSH };

struct spec {
    enum kind kind;
    unsigned verb, method, scheme, host, port, path, ref, op;
};

static struct spec random_spec(void) {
    static const enum kind kinds[] = {HTTP, HTTP, FETCH, PUSH, PUSH};
    return (struct spec){.kind = kinds[PICK(kinds)],
                         .verb = PICK(verbs),
                         .method = PICK(methods),
                         .scheme = PICK(schemes),
                         .host = PICK(hosts),
                         .port = PICK(ports),
                         .path = PICK(paths),
                         .ref = PICK(refs),
                         .op = PICK(ops)};
}

static void put_spec(const struct spec *s, struct buf *out) {
    static const char *const git[] = {"", "fetch", "push"};
    buf_printf(out, "%s %s %s://%s%s%s", verbs[s->verb], s->kind == HTTP ? methods[s->method] : git[s->kind],
               schemes[s->scheme], hosts[s->host], ports[s->port], paths[s->path]);
    if (s->kind == PUSH)
        buf_printf(out, " %s %s", refs[s->ref], ops[s->op]);
    buf_putc(out, '\n');
}

/* --- the slow reading -------------------------------------------------------------------------------------- */

static bool slow_glob(const char *p, const char *text) {
    if (*p == 0)
        return *text == 0;
    if (*p == '*') {
        bool cross = p[1] == '*';
        for (;; text++) {
            if (slow_glob(p + 1 + cross, text))
                return true;
            if (*text == 0 || (!cross && *text == '/'))
                return false;
        }
    }
    return *p == *text && slow_glob(p + 1, text + 1);
}

static bool slow_host(const char *pattern, const char *host) {
    if (strcmp(pattern, "*") == 0)
        return true;
    if (pattern[0] != '*')
        return strcmp(pattern, host) == 0;
    size_t n = strlen(host), m = strlen(pattern + 1);
    return n > m && strcmp(host + n - m, pattern + 1) == 0;
}

struct probe {
    enum kind kind;
    const char *method, *scheme, *host, *path, *ref;
    unsigned port;
    enum facts_op op;
};

static bool slow_op(const char *list, const char *verb, enum facts_op op) {
    bool deny = *verb == 'd';
    if (*list == 0)
        return deny || op == FACTS_CREATE || op == FACTS_UPDATE;
    if (strstr(list, facts_op_name(op)))
        return true;
    return deny ? op == FACTS_FORCE && strstr(list, "update") : op == FACTS_UPDATE && strstr(list, "force");
}

/* A path that loses its final slash matches a deny as well. */
static bool slow_path(const struct spec *s, const char *path, bool deny) {
    char shorter[64];
    if (*paths[s->path] == 0 || slow_glob(paths[s->path], path))
        return true;
    size_t n = strlen(path);
    snprintf(shorter, sizeof shorter, "%.*s", n ? (int)n - 1 : 0, path);
    return deny && n && path[n - 1] == '/' && slow_glob(paths[s->path], shorter);
}

static bool slow_matches(const struct spec *s, const struct probe *q) {
    const char *method = methods[s->method], *port = ports[s->port];
    bool deny = *verbs[s->verb] == 'd';
    unsigned number = *port == 0 ? (strcmp(schemes[s->scheme], "https") == 0 ? 443 : 80) : 8443;
    char repository[64];
    if (strcmp(schemes[s->scheme], q->scheme) || !slow_host(hosts[s->host], q->host))
        return false;
    if (strcmp(port, ":*") && number != q->port)
        return false;
    if (s->kind == HTTP) {
        if (q->kind != HTTP && !deny)
            return false;
        return (*method == '*' || strstr(method, q->method)) && slow_path(s, q->path, deny);
    }
    if (s->kind != q->kind)
        return false;
    snprintf(repository, sizeof repository, "%.*s", (int)(strstr(q->path, ".git/") - q->path), q->path);
    if (*paths[s->path] && strcmp(paths[s->path], "/") && !slow_path(s, repository, deny))
        return false;
    if (strcmp(paths[s->path], "/") == 0 && *repository)
        return false;
    return s->kind != PUSH || ((*refs[s->ref] == 0 || slow_glob(refs[s->ref], q->ref)) &&
                               slow_op(ops[s->op], verbs[s->verb], q->op));
}

static bool slow_judge(const struct spec *rules, size_t n, const struct probe *q) {
    bool allow = false;
    for (size_t i = 0; i < n; i++) {
        if (!slow_matches(&rules[i], q))
            continue;
        if (*verbs[rules[i].verb] == 'd')
            return false;
        allow = true;
    }
    return allow;
}

/* --- the properties ---------------------------------------------------------------------------------------- */

static struct probe random_probe(void) {
    static const char *const one_method[] = {"GET", "POST", "PUT"}, *const scheme[] = {"https", "http"},
                             *const host[] = {"a.test", "x.a.test", "b.test", "y.x.a.test", "c.other"},
                             *const path[] = {"/", "/x", "/x/y", "/x/y/z", "/x/", "/q/y"},
                             *const repository[] = {"/x.git/", "/x/y.git/", "/q/y.git/"},
                             *const ref[] = {"refs/heads/main", "refs/heads/a/b", "refs/tags/v"};
    static char text[64];
    struct probe q = {.kind = (enum kind)pick(3),
                      .method = one_method[PICK(one_method)],
                      .scheme = scheme[PICK(scheme)],
                      .host = host[PICK(host)],
                      .path = path[PICK(path)],
                      .ref = ref[PICK(ref)],
                      .op = (enum facts_op)pick(4)};
    q.port = pick(3) ? (strcmp(q.scheme, "https") == 0 ? 443 : 80) : 8443;
    if (q.kind != HTTP) {
        snprintf(text, sizeof text, "%sgit-%s-pack", repository[PICK(repository)],
                 q.kind == FETCH ? "upload" : "receive");
        q.path = text;
        q.method = "POST";
    }
    return q;
}

static struct verdict ask(const struct policy *p, const struct probe *q) {
    static const enum facts_kind kinds[] = {FACTS_HTTP, FACTS_GIT_FETCH, FACTS_GIT_PUSH};
    struct facts_ref ref = {.name = slice_str(q->ref), .op = q->op};
    struct facts f = {.kind = kinds[q->kind],
                      .scheme = strcmp(q->scheme, "https") == 0 ? URL_HTTPS : URL_HTTP,
                      .host = slice_str(q->host),
                      .port = (uint16_t)q->port,
                      .method = slice_str(q->method),
                      .path = slice_str(q->path),
                      .refs = &ref,
                      .nrefs = q->kind == PUSH};
    struct verdict v;
    policy_judge(p, &f, &v);
    return v;
}

static struct policy *load_specs(const struct spec *rules, size_t n) {
    struct buf text;
    buf_init(&text, 1 << 16);
    for (size_t i = 0; i < n; i++)
        put_spec(&rules[i], &text);
    struct policy *p = load_text(buf_cstr(&text));
    buf_release(&text);
    return p;
}

static void test_random_policies(void **state) {
    size_t allowed = 0, denied = 0;
    (void)state;
    for (int round = 0; round < 400; round++) {
        struct spec rules[12] = {{.verb = 0}};
        size_t n = 1 + pick(12);
        for (size_t i = 0; i < n; i++)
            rules[i] = random_spec();
        struct policy *p = load_specs(rules, n);
        struct spec shuffled[12];
        memcpy(shuffled, rules, sizeof rules);
        for (size_t i = n - 1; i > 0; i--) {
            size_t k = pick((unsigned)i + 1);
            struct spec kept = shuffled[i];
            shuffled[i] = shuffled[k];
            shuffled[k] = kept;
        }
        struct policy *other = load_specs(shuffled, n);
        for (int i = 0; i < 300; i++) {
            struct probe q = random_probe();
            struct verdict v = ask(p, &q), w = ask(other, &q);
            bool wanted = slow_judge(rules, n, &q);
            if ((v.action == VERDICT_ALLOW) != wanted || v.action != w.action || v.reason != w.reason) {
                struct buf text;
                buf_init(&text, 1 << 16);
                policy_describe(p, POLICY_TEXT, &text);
                fail_msg("%s %s://%s:%u%s %s %s: %s, shuffled %s, slow %d\n%s", q.method, q.scheme, q.host,
                         q.port, q.path, q.ref, facts_op_name(q.op), verdict_reason_code(v.reason),
                         verdict_reason_code(w.reason), wanted, buf_cstr(&text));
            }
            allowed += wanted;
            denied += v.reason == REASON_DENIED_BY_RULE;
        }
        policy_free(p);
        policy_free(other);
    }
    /* the probes are about something */
    assert_true(allowed > 5000);
    assert_true(denied > 1000);
}

/* --- no allocation ----------------------------------------------------------------------------------------- */

static size_t allocations;
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);

void *__wrap_malloc(size_t size) {
    allocations++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size) {
    allocations++;
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size) {
    allocations++;
    return __real_realloc(p, size);
}

static void test_no_allocation(void **state) {
    struct spec rules[200];
    (void)state;
    for (size_t i = 0; i < 200; i++)
        rules[i] = random_spec();
    size_t before = allocations;
    struct policy *p = load_specs(rules, 200);
    assert_true(allocations > before); /* the counter counts */
    before = allocations;
    for (int i = 0; i < 2000; i++) {
        struct probe q = random_probe();
        ask(p, &q);
    }
    assert_int_equal(allocations, before);
    policy_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_policies),
        cmocka_unit_test(test_no_allocation),
    };
    return cmocka_run_group_tests_name("policy_order", tests, NULL, NULL);
}
