/* `policy check`: requests to a forge's API that the rules about HTTP permit, and those about pushes refuse. */
#include "policy/check.h"
#include "policy/classes_doors.h"
#include "policy/doors.h"
#include "policy/overlap.h"

/* Where the rows of a forge lie, below the host of a rule. */
static const struct {
    unsigned forges;
    const char *api; /* the API's own host; NULL: any that rules about git speak of */
    const char *root;
} places[] = {
    {FORGE_GITHUB, "api.github.com", ""},
    {FORGE_GITHUB, NULL, "/api/v3"},
    {FORGE_GITLAB, NULL, "/api/v4"},
    {FORGE_GITEA, NULL, "/api/v1"},
};

static bool json_field(const void *arg, size_t i, struct slice *name, struct slice *value) {
    (void)arg;
    *name = SLICE("content-type");
    *value = SLICE("application/json");
    return i == 0;
}

/* Whether the rules about HTTP permit it, and those about pushes do not. */
static bool contradicted(const struct check *c, const struct rule *r, struct slice method, struct slice path,
                         struct slice body) {
    struct facts f = {.kind = FACTS_HTTP,
                      .scheme = r->target.scheme,
                      .host = r->target.host,
                      .host_is_address = r->target.host_is_address,
                      .port = r->target.port,
                      .method = method,
                      .path = path,
                      .field = json_field,
                      .body_state = FACTS_BODY_WHOLE,
                      .body = body};
    struct body_view view = {.read = false};
    struct verdict v;
    judge_rules(c->p, &f, NULL, &view, &v);
    bool permitted = v.action == VERDICT_ALLOW;
    body_view_release(&view);
    policy_judge(c->p, &f, &v);
    return permitted && v.action == VERDICT_DENY;
}

static void warn(struct check *c, const struct rule *r, struct slice method, struct slice pattern) {
    check_warn(
        c, r, "writes-past-push",
        "a narrower path, a push rule for what it is to write, or an `expect deny` if it is meant",
        "permits %.*s %.*s, but the push rules refuse what that may write, a branch like refs/heads/main",
        SLICE_ARG(method), SLICE_ARG(pattern));
}

/* A body that names main wherever the row looks for a ref. */
static void put_body(struct buf *out, const struct forge_row *row) {
    bool named = row->ref[0] && row->ref[0] != '{';
    bool whole = named && row->space == FORGE_WHOLE;
    if (named)
        buf_printf(out, "{\"%s\":\"%smain\"}", row->ref, whole ? "refs/heads/" : "");
}

/* One row against one allow. True if it was spoken of. */
static bool check_row(struct check *c, const struct rule *r, const char *root, const struct forge_row *row) {
    uint16_t units[DOOR_UNITS_MAX];
    struct glob pattern = {.units = units, .n = classes_doors_row(root, row, SLICE_NONE, SLICE_NONE, units)};
    static const uint16_t all[] = {GLOB_STARSTAR};
    static const struct glob every = {.units = all, .n = 1};
    struct slice rest = slice_str(row->methods), method, one;
    struct overlap o;
    struct buf path, body;
    bool told = false;
    overlap_init(&o);
    buf_init(&path, 1 << 16);
    buf_init(&body, 1024);
    put_body(&body, row);
    for (size_t i = 0; i < (r->target.npaths ? r->target.npaths : 1); i++)
        overlap_globs(&o, r->target.npaths ? &r->target.paths[i] : &every, &pattern, false);
    for (bool more = true; more && !told;) {
        struct slice texts = buf_slice(&o.text);
        more = slice_cut(rest, ',', &method, &rest);
        while (!told && texts.n && slice_cut(texts, 0, &one, &texts)) {
            buf_clear(&path);
            classes_doors_fill(&path, one);
            told = contradicted(c, r, method, buf_slice(&path), buf_slice(&body));
            if (told)
                warn(c, r, method, one);
        }
    }
    overlap_release(&o);
    buf_release(&path);
    buf_release(&body);
    return told;
}

/* GraphQL: one mutation that writes stands for all. */
static bool check_graphql(struct check *c, const struct rule *r, const char *path) {
    struct slice body =
        SLICE("{\"query\":\"mutation{createCommitOnBranch(input:{branch:{repositoryNameWithOwner:"
              "\\\"7/7\\\",branchName:\\\"main\\\"}}){clientMutationId}}\"}");
    bool told = contradicted(c, r, SLICE("POST"), slice_str(path), body);
    if (told)
        warn(c, r, SLICE("POST"), slice_str(path));
    return told;
}

static bool check_table(struct check *c, const struct rule *r, size_t place, const struct forge_row *rows,
                        size_t n) {
    for (size_t i = 0; i < n; i++)
        if ((rows[i].forges & places[place].forges) && rows[i].does != FORGE_NOTHING &&
            check_row(c, r, places[place].root, &rows[i]))
            return true;
    return false;
}

void check_writes(struct check *c, const struct rule *r) {
    size_t n, m;
    const struct forge_row *hub = forge_rows(&n), *lab = forge_gitlab_rows(&m);
    if (r->deny || r->refusal_proved || r->action != TREE_HTTP || r->target.host_kind != RULE_HOST_EXACT ||
        !doors_has_push_rules(c->p, r->target.host, r->target.host_is_address))
        return;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        bool api = slice_eq(r->target.host, SLICE("api.github.com"));
        if (api != (places[i].api != NULL))
            continue;
        if (check_table(c, r, i, hub, n) || check_table(c, r, i, lab, m) ||
            check_graphql(c, r, api ? "/graphql" : "/api/graphql"))
            return; /* one is enough to look at */
    }
}
