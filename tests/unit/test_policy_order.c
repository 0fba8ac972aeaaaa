/*
 * policy: properties of random policies. The order of rules never matters to the verdict; the compiled policy agrees
 * with a slow and obvious reading of the same rules; judging allocates nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/chance.h"
#include "tests/unit/policy_support.h"

/* What rules are made of. */
static const char *const verbs[] = {"allow", "allow", "allow", "deny", "ask", "tunnel"};
static const char *const wheres[] = {"",
                                     "",
                                     "where json a == x",
                                     "where json a != x",
                                     "where json a in (x, y)",
                                     "where query q == 1",
                                     "where header h ~ v+"};
static const char *const bodies[] = {"{\"a\":\"x\"}", "{\"a\":\"z\"}",    "{\"a\":1}", "{}",
                                     "no JSON",       "{\"a\":1,\"a\":1}"};
static const char *const queries[] = {"", "q=1", "q=2", "q=1&q=1"};
static const char *const headers[] = {"", "v", "vv", "w"};
static const char *const files[] = {"", "", "", "paths f", "paths d/**"};
static const char *const brings[] = {
    "", "", "", "author a*", "author *>", "signed", "max-size 2KiB", "max-commits 1"};
static const char *const people[] = {"a <x>", "b <x>", "b/b",
                                     "?"}; /* two commits of theirs; 0, 1, 2, ? of them signed */
static const char *const changed[] = {"", "f", "d/e", "?"};
static const char *const methods[] = {"GET", "POST", "GET,POST", "*"};
static const char *const schemes[] = {"https", "https", "http"};
static const char *const hosts[] = {"a.test", "b.test", "*.test", "*.a.test", "x.a.test", "*"};
static const char *const ports[] = {"", "", ":8443", ":*"};
static const char *const paths[] = {"", "/", "/x", "/x/*", "/x/**", "/*/y", "/x/y", "~/x(/.*)?"};
static const char *const limits[] = {"", "", "limit 5/h", "limit 7/h"};
static const char *const refs[] = {"", "refs/heads/main", "refs/heads/*", "refs/heads/**", "refs/tags/v"};
static const char *const also[] = {"", "", "also bundle-uri", "also any-object packfile-uris"};
static const char *const ops[] = {"", "create", "delete", "force", "update", "create update delete force"};
static const char *const words[] = {"", "download", "upload", "lock", "download upload"}; /* of lfs */
#define ANY(list) chance(sizeof(list) / sizeof *(list))

/* Requests to Git LFS; `alike` is the row of `bodies` that conditions on `a` can't tell the body from. */
static const struct {
    const char *method, *tail, *body, *word;
    unsigned alike;
} lfs[] = {
    {"POST", "objects/batch", "{\"operation\":\"download\"}", "download", 3},
    {"POST", "objects/batch", "{\"operation\":\"upload\"}", "upload", 3},
    {"POST", "objects/batch", "{\"operation\":\"upload\",\"Operation\":\"download\"}", NULL, 3},
    {"POST", "objects/batch", "{\"operation\":1}", NULL, 3},
    {"POST", "objects/batch", "{\"operation\":\"upload\",\"operation\":\"download\"}", NULL, 5},
    {"POST", "objects/batch", "", NULL, 4},
    {"GET", "objects/12", "", "download", 4},
    {"PUT", "objects/12", "12", "upload", 4},
    {"POST", "objects/12/verify", "{}", "upload", 3},
    {"POST", "locks/verify", "{}", "upload", 3},
    {"POST", "locks", "{}", "lock", 3},
    {"POST", "locks/7/unlock", "{}", "lock", 3},
    {"PUT", "locks/7", "{}", NULL, 3},
    {"POST", "other", "{}", NULL, 3},
};

enum kind { HTTP, FETCH, PUSH, TUNNEL, LFS };

struct spec {
    enum kind kind;
    unsigned verb, method, scheme, host, port, path, ref, op, where, files, word, also, brings, limit;
};

static struct spec random_spec(void) {
    static const enum kind kinds[] = {HTTP, HTTP, FETCH, FETCH, PUSH, PUSH, LFS};
    struct spec s = {.kind = kinds[ANY(kinds)],
                     .verb = ANY(verbs),
                     .where = ANY(wheres),
                     .files = ANY(files),
                     .also = ANY(also),
                     .brings = ANY(brings),
                     .method = ANY(methods),
                     .scheme = ANY(schemes),
                     .host = ANY(hosts),
                     .port = ANY(ports),
                     .path = ANY(paths),
                     .limit = ANY(limits),
                     .ref = ANY(refs),
                     .op = ANY(ops),
                     .word = ANY(words)};
    if (*verbs[s.verb] == 'd' && s.brings > 4)
        s.brings = 0;
    if (*verbs[s.verb] == 't') { /* of a host alone */
        s.kind = TUNNEL;
        s.scheme = s.path = 0;
    }
    if (*verbs[s.verb] == 'd')
        s.also = 0; /* it permits nothing */
    if (*verbs[s.verb] == 'a' && s.kind == FETCH && verbs[s.verb][1] == 's')
        s.ref = 0; /* a person is asked about the whole */
    return s;
}

static void put_spec(const struct spec *s, struct buf *out) {
    static const char *const git[] = {"", "fetch", "push", "", "lfs"};
    buf_printf(out, "%s %s %s://%s%s%s", verbs[s->verb], s->kind == HTTP ? methods[s->method] : git[s->kind],
               schemes[s->scheme], hosts[s->host], ports[s->port], paths[s->path]);
    if (s->kind == PUSH)
        buf_printf(out, " %s %s %s %s", refs[s->ref], ops[s->op], files[s->files], brings[s->brings]);
    if (s->kind == FETCH)
        buf_printf(out, " %s %s", refs[s->ref], also[s->also]);
    if (s->kind == LFS)
        buf_printf(out, " %s", words[s->word]);
    if (s->kind == HTTP || s->kind == LFS)
        buf_printf(out, " %s", wheres[s->where]);
    if (*verbs[s->verb] != 'd')
        buf_printf(out, " %s", limits[s->limit]);
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

/* One regular expression is enough to be read by hand. */
static bool slow_pattern(const char *p, const char *text) {
    if (*p == '~')
        return strncmp(text, "/x", 2) == 0 && (text[2] == 0 || text[2] == '/');
    return slow_glob(p, text);
}

struct probe {
    enum kind kind;
    const char *method, *scheme, *host, *path, *ref;
    unsigned port;
    enum facts_op op;
    unsigned body, query, header, changed, who, lfs;
    bool whole;             /* of a fetch: the request, not one of its refs */
    enum facts_extra extra; /* … or this */
};

/* yes, no, or '?' for what can't be told: read off the tables above by hand. */
static char slow_where(const struct spec *s, const struct probe *q) {
    static const char *const json[] = {[2] = "yn?n??", [3] = "ny????", [4] = "yn?n??"};
    switch (s->where) {
    case 0:
    case 1: return 'y';
    case 5: return "nyn?"[q->query];
    case 6: return "nyyn"[q->header];
    default: return q->kind == HTTP || q->kind == LFS ? json[s->where][q->body] : 'n';
    }
}

static bool slow_files(const struct spec *s, const struct probe *q, bool loose) {
    const char *file = changed[q->changed];
    if (s->files < 3)
        return true;
    if (q->op == FACTS_DELETE)
        return !loose;
    if (*file == '?')
        return loose;
    if (*file == 0)
        return !loose;
    return *file == files[s->files][6];
}

static bool slow_brings(const struct spec *s, const struct probe *q, bool loose) {
    static const char *const holds[] = {"yyyy", "yyyy", "yyyy", "ynn?", "yyn?", "nny?", "yynn"};
    bool limit = s->brings > 4; /* … of permitting rules */
    char one = s->brings == 7 ? q->who == 3 ? '?' : 'n' : holds[s->brings][q->who];
    if (s->brings < 3)
        return true;
    if (loose && limit)
        return true;
    if (q->op == FACTS_DELETE && s->brings != 6)
        return !loose;
    return one == 'y' || (one == '?' && loose);
}

static bool slow_op(const char *list, bool deny, enum facts_op op) {
    if (*list == 0)
        return deny || op == FACTS_CREATE || op == FACTS_UPDATE;
    if (strstr(list, facts_op_name(op)))
        return true;
    return deny ? op == FACTS_FORCE && strstr(list, "update") : op == FACTS_UPDATE && strstr(list, "force");
}

/* A path that loses its final slash matches a deny as well. */
static bool slow_path(const struct spec *s, const char *path, bool deny) {
    char shorter[64];
    if (*paths[s->path] == 0 || slow_pattern(paths[s->path], path))
        return true;
    size_t n = strlen(path);
    snprintf(shorter, sizeof shorter, "%.*s", n ? (int)n - 1 : 0, path);
    return deny && n && path[n - 1] == '/' && slow_pattern(paths[s->path], shorter);
}

static bool slow_word(const struct spec *s, const struct probe *q, bool loose) {
    const char *word = lfs[q->lfs].word;
    return *words[s->word] == 0 || (word ? strstr(words[s->word], word) != NULL : loose);
}

/* `loose`: as a deny reads it. */
static bool slow_matches(const struct spec *s, const struct probe *q, bool loose) {
    const char *method = methods[s->method], *port = ports[s->port];
    bool deny = *verbs[s->verb] == 'd';
    unsigned number = *port == 0 ? (strcmp(schemes[s->scheme], "https") == 0 ? 443 : 80) : 8443;
    char repository[64];
    if (strcmp(schemes[s->scheme], q->scheme) || !slow_host(hosts[s->host], q->host))
        return false;
    if (strcmp(port, ":*") && number != q->port)
        return false;
    if (q->kind == TUNNEL)
        return loose || s->kind == TUNNEL; /* anything may be inside */
    if (s->kind == HTTP) {
        char holds = slow_where(s, q);
        if (q->kind != HTTP && q->kind != LFS && !loose)
            return false;
        return (*method == '*' || strstr(method, q->method)) && slow_path(s, q->path, loose) &&
               (holds == 'y' || (holds == '?' && loose));
    }
    if (s->kind != q->kind)
        return false;
    snprintf(repository, sizeof repository, "%.*s", (int)(strstr(q->path, ".git/") - q->path), q->path);
    if (*paths[s->path] && strcmp(paths[s->path], "/") && !slow_path(s, repository, loose))
        return false;
    if (strcmp(paths[s->path], "/") == 0 && *repository)
        return false;
    if (s->kind == LFS) {
        char holds = slow_where(s, q);
        return slow_word(s, q, loose) && (holds == 'y' || (holds == '?' && loose));
    }
    if (s->kind == FETCH && q->extra != FACTS_PLAIN)
        return loose || strstr(also[s->also], facts_extra_name(q->extra));
    if (s->kind == FETCH)
        return *refs[s->ref] == 0 || (q->whole ? !loose : slow_glob(refs[s->ref], q->ref));
    return s->kind != PUSH ||
           ((*refs[s->ref] == 0 || slow_glob(refs[s->ref], q->ref)) && slow_op(ops[s->op], deny, q->op) &&
            slow_files(s, q, loose) && slow_brings(s, q, loose));
}

static enum verdict_action slow_judge(const struct spec *rules, size_t n, const struct probe *q) {
    bool allow = false, ask = false, hold = false, tunnel = false;
    for (size_t i = 0; i < n; i++) {
        char verb = verbs[rules[i].verb][1]; /* llow, eny, sk, unnel */
        bool strict = slow_matches(&rules[i], q, false), loose = slow_matches(&rules[i], q, true);
        if (verb == 'e' && loose)
            return VERDICT_DENY;
        allow |= verb == 'l' && strict;
        tunnel |= verb == 'u' && strict;
        ask |= verb == 's' && strict;
        hold |= verb == 's' && loose;
    }
    if (ask || (hold && (allow || tunnel)))
        return VERDICT_ASK;
    return allow ? VERDICT_ALLOW : tunnel ? VERDICT_TUNNEL : VERDICT_DENY;
}

/* The first allow that matches sets the terms. */
static uint32_t slow_limit(const struct spec *rules, size_t n, const struct probe *q) {
    for (size_t i = 0; i < n; i++)
        if (verbs[rules[i].verb][1] == 'l' && slow_matches(&rules[i], q, false))
            return *limits[rules[i].limit] ? (uint32_t)(limits[rules[i].limit][6] - '0') : 0;
    return 0;
}

/* --- the properties ---------------------------------------------------------------------------------------- */

static struct probe random_probe(void) {
    static const char *const one_method[] = {"GET", "POST", "PUT"}, *const scheme[] = {"https", "http"},
                             *const host[] = {"a.test", "x.a.test", "b.test", "y.x.a.test", "c.other"},
                             *const path[] = {"/", "/x", "/x/y", "/x/y/z", "/x/", "/q/y"},
                             *const repository[] = {"/x.git/", "/x/y.git/", "/q/y.git/"},
                             *const ref[] = {"refs/heads/main", "refs/heads/a/b", "refs/tags/v"};
    static char text[64];
    struct probe q = {.kind = (enum kind)chance(5),
                      .body = ANY(bodies),
                      .query = ANY(queries),
                      .header = ANY(headers),
                      .changed = ANY(changed),
                      .who = ANY(people),
                      .lfs = ANY(lfs),
                      .method = one_method[ANY(one_method)],
                      .scheme = scheme[ANY(scheme)],
                      .host = host[ANY(host)],
                      .path = path[ANY(path)],
                      .ref = ref[ANY(ref)],
                      .op = (enum facts_op)chance(4),
                      .whole = chance(3) == 0,
                      .extra = chance(3) ? FACTS_PLAIN : (enum facts_extra)chance(FACTS_EXTRAS)};
    q.whole |= q.extra != FACTS_PLAIN;
    q.port = chance(3) ? (strcmp(q.scheme, "https") == 0 ? 443 : 80) : 8443;
    if (q.kind == TUNNEL)
        q.path = q.method = "";
    else if (q.kind == LFS) {
        snprintf(text, sizeof text, "%sinfo/lfs/%s", repository[ANY(repository)], lfs[q.lfs].tail);
        q.path = text;
        q.method = lfs[q.lfs].method;
        q.body = lfs[q.lfs].alike;
    } else if (q.kind != HTTP) {
        snprintf(text, sizeof text, "%sgit-%s-pack", repository[ANY(repository)],
                 q.kind == FETCH ? "upload" : "receive");
        q.path = text;
        q.method = "POST";
    }
    return q;
}

static bool probe_field(const void *arg, size_t i, struct slice *name, struct slice *value) {
    const struct probe *q = arg;
    const char *const list[] = {"Content-Type", "application/json", "H", headers[q->header]};
    size_t n = *headers[q->header] ? 2 : 1;
    if (i >= n)
        return false;
    *name = slice_str(list[2 * i]);
    *value = slice_str(list[2 * i + 1]);
    return true;
}

static struct verdict ask(const struct policy *p, const struct probe *q) {
    static const enum facts_kind kinds[] = {FACTS_HTTP, FACTS_GIT_FETCH, FACTS_GIT_PUSH, FACTS_TUNNEL,
                                            FACTS_HTTP};
    struct facts_text file = {.text = slice_str(changed[q->changed])},
                      who = {.text = slice_str(people[q->who])};
    struct facts_brought brought = {.paths_known = *changed[q->changed] != '?',
                                    .paths = &file,
                                    .npaths = file.text.n && *changed[q->changed] != '?',
                                    .commits_known = *people[q->who] != '?',
                                    .signed_known = *people[q->who] != '?',
                                    .authors_known = *people[q->who] != '?',
                                    .committers_known = *people[q->who] != '?',
                                    .ncommits = 2,
                                    .nsigned = q->who,
                                    .authors = &who,
                                    .nauthors = 1};
    struct facts_ref ref = {.name = slice_str(q->ref), .op = q->op, .brought = &brought};
    struct facts f = {.kind = kinds[q->kind],
                      .scheme = strcmp(q->scheme, "https") == 0 ? URL_HTTPS : URL_HTTP,
                      .host = slice_str(q->host),
                      .port = (uint16_t)q->port,
                      .method = slice_str(q->method),
                      .path = slice_str(q->path),
                      .query = slice_str(queries[q->query]),
                      .field = probe_field,
                      .field_arg = q,
                      .body_state = FACTS_BODY_WHOLE,
                      .body = slice_str(q->kind == LFS ? lfs[q->lfs].body : bodies[q->body]),
                      .size_known = true,
                      .size = 1024u << q->who,
                      .refs = &ref,
                      .nrefs = q->kind == PUSH || (q->kind == FETCH && !q->whole),
                      .extra = q->kind == FETCH ? q->extra : FACTS_PLAIN};
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
    size_t count[4] = {0}, denied = 0;
    (void)state;
    for (int round = 0; round < 1600; round++) {
        struct spec rules[12] = {{.verb = 0}};
        size_t n = 1 + chance(12);
        for (size_t i = 0; i < n; i++)
            rules[i] = random_spec();
        struct policy *p = load_specs(rules, n);
        struct spec shuffled[12];
        memcpy(shuffled, rules, sizeof rules);
        for (size_t i = n - 1; i > 0; i--) {
            size_t k = chance((unsigned)i + 1);
            struct spec kept = shuffled[i];
            shuffled[i] = shuffled[k];
            shuffled[k] = kept;
        }
        struct policy *other = load_specs(shuffled, n);
        for (int i = 0; i < 300; i++) {
            struct probe q = random_probe();
            struct verdict v = ask(p, &q), w = ask(other, &q);
            enum verdict_action wanted = slow_judge(rules, n, &q);
            bool terms = wanted != VERDICT_ALLOW || v.limit == slow_limit(rules, n, &q);
            if (v.action != wanted || v.action != w.action || v.reason != w.reason || !terms) {
                struct buf text;
                buf_init(&text, 1 << 16);
                policy_describe(p, POLICY_TEXT, &text);
                fail_msg("%d %s %s://%s:%u%s?%s %s %s %s %s %s %s %d: %s, shuffled %s, slow %s\n%s", q.kind,
                         q.method, q.scheme, q.host, q.port, q.path, queries[q.query], q.ref,
                         facts_op_name(q.op), q.kind == LFS ? lfs[q.lfs].body : bodies[q.body],
                         headers[q.header], changed[q.changed], facts_extra_name(q.extra), q.whole,
                         verdict_reason_code(v.reason), verdict_reason_code(w.reason),
                         verdict_action_name(wanted), buf_cstr(&text));
            }
            count[wanted]++;
            denied += v.reason == REASON_DENIED_BY_RULE;
        }
        policy_free(p);
        policy_free(other);
    }
    /* the probes are about something */
    print_message("%zu allowed, %zu asked, %zu tunnelled, %zu denied by a rule\n", count[VERDICT_ALLOW],
                  count[VERDICT_ASK], count[VERDICT_TUNNEL], denied);
    assert_true(count[VERDICT_ALLOW] > 5000 && count[VERDICT_ASK] > 1000 && count[VERDICT_TUNNEL] > 500);
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
    for (size_t i = 0; i < 200; i++) {
        rules[i] = random_spec();
        rules[i].where = 0; /* but for conditions on bodies and regular expressions */
    }
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
