/* Verdicts in words. */
#include "policy/doors.h"
#include "policy/push.h"

#define BROUGHT_ID  12  /* digits of a commit's id that are shown */
#define BROUGHT_MAX 200 /* bytes of a path or an identity */

const char *verdict_action_name(enum verdict_action action) {
    switch (action) {
    case VERDICT_DENY: return "deny";
    case VERDICT_ALLOW: return "allow";
    case VERDICT_ASK: return "ask";
    case VERDICT_TUNNEL: return "tunnel";
    }
    return "deny";
}

const char *verdict_reason_code(enum verdict_reason reason) {
    switch (reason) {
    case REASON_NO_RULES: return "no-rules";
    case REASON_ALLOWED: return "allowed";
    case REASON_DENIED_BY_RULE: return "denied-by-rule";
    case REASON_HOST: return "no-rule-for-host";
    case REASON_SCHEME: return "no-rule-for-scheme";
    case REASON_PORT: return "no-rule-for-port";
    case REASON_METHOD: return "no-rule-for-method";
    case REASON_PATH: return "no-rule-for-path";
    case REASON_ENCODED_SLASH: return "encoded-slash";
    case REASON_FETCH: return "no-rule-for-fetch";
    case REASON_PUSH: return "no-rule-for-push";
    case REASON_REFS: return "no-rule-for-ref";
    case REASON_OPERATION: return "no-rule-for-operation";
    case REASON_UNPROVED: return "update-not-proved";
    case REASON_CREDENTIALS: return "mixed-credentials";
    case REASON_GIT_AS_HTTP: return "git-endpoint";
    case REASON_ADDRESS: return "address-not-named";
    case REASON_ASKED: return "asked";
    case REASON_TUNNELLED: return "tunnelled";
    case REASON_CONDITION: return "condition";
    case REASON_CHANGES: return push_word(STAGE_CHANGES);
    case REASON_SIZE: return push_word(STAGE_SIZE);
    case REASON_OPTIONS: return "push-option";
    case REASON_BLOB: return push_word(STAGE_BLOB);
    case REASON_COMMITS: return push_word(STAGE_COMMITS);
    case REASON_AUTHOR: return push_word(STAGE_AUTHOR);
    case REASON_COMMITTER: return push_word(STAGE_COMMITTER);
    case REASON_SIGNED: return push_word(STAGE_SIGNED);
    case REASON_TUNNEL_ONLY: return "tunnel-only";
    case REASON_NO_TUNNEL: return "no-rule-for-tunnel";
    case REASON_WRITE_UNREADABLE: return "write-unreadable";
    case REASON_WRITE_UNKNOWN: return "write-unknown";
    case REASON_EXTRA: return "no-rule-for-extra";
    case REASON_COUNT: break;
    }
    return "unknown";
}

/* Text that a request brought: what a terminal or a log could trip over is replaced. */
static void put_clean(struct buf *out, struct slice s) {
    for (size_t i = 0; i < s.n; i++)
        buf_putc(out, (unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f ? '?' : s.p[i]);
}

static void put_method(struct buf *out, const struct facts *f) {
    put_clean(out, slice_sub(f->method, 0, 40));
}

/* What of a push decided. */
static void put_brought(const struct verdict *v, struct buf *out) {
    if (v->brought_how && v->brought_by.n) {
        buf_printf(out, ": commit %.*s %s ", SLICE_ARG(slice_sub(v->brought_by, 0, BROUGHT_ID)),
                   v->brought_how);
        put_clean(out, slice_sub(v->brought, 0, BROUGHT_MAX));
    } else if (v->brought_how) {
        buf_printf(out, ": the push %s ", v->brought_how);
        put_clean(out, slice_sub(v->brought, 0, BROUGHT_MAX));
    } else if (v->failed_why) {
        buf_printf(out, ": %s", v->failed_why);
    }
}

/* What was too long; it may have been refused before its end. */
static void put_size(const struct facts *f, const struct verdict *v, struct buf *out) {
    bool blob = v->reason == REASON_BLOB;
    if (!v->failed_why && (blob ? f->blob_known : f->size_known))
        buf_printf(out, ": %s %llu bytes or more", blob ? "a file has" : "it has",
                   (unsigned long long)(blob ? f->blob : f->size));
}

/* Of how many commits. */
static void put_commits(const struct facts *f, const struct verdict *v, struct buf *out) {
    const struct facts_brought *b = v->ref < f->nrefs ? f->refs[v->ref].brought : NULL;
    unsigned long long n = b ? b->ncommits : 0, without = b ? b->ncommits - b->nsigned : 0;
    if (!b || v->failed_why)
        return;
    if (v->reason == REASON_COMMITS)
        buf_printf(out, ": it brings %llu commit%s", n, n == 1 ? "" : "s");
    else if (n == 1)
        buf_puts(out, ": its commit has no signature");
    else
        buf_printf(out, ": %llu of its %llu commits ha%s no signature", without, n,
                   without == 1 ? "s" : "ve");
}

/* The rule that came closest, and what of it failed. */
static void put_failed(const struct facts *f, const struct verdict *v, struct buf *out) {
    buf_printf(out, "%s:%u would permit it, but for `", v->near.file, v->near.line);
    put_clean(out, v->failed);
    buf_putc(out, '`');
    put_brought(v, out);
    if (v->reason == REASON_SIZE || v->reason == REASON_BLOB)
        put_size(f, v, out);
    else if (v->reason == REASON_COMMITS || v->reason == REASON_SIGNED)
        put_commits(f, v, out);
}

static void put_operation(const struct facts *f, struct buf *out) {
    const char *lfs = facts_lfs_name(facts_lfs_operation(f));
    if (f->kind != FACTS_HTTP)
        buf_puts(out, "no rule allows this on the ref");
    else if (lfs)
        buf_printf(out, "no rule allows LFS %s of this repository", lfs);
    else
        buf_puts(out, "no rule allows LFS of this repository whatever is asked of it, and what is asked here "
                      "can't be told");
}

static void put_allowed(const struct verdict *v, struct buf *out) {
    buf_printf(out, "allowed by %s:%u", v->rule.file, v->rule.line);
    if (v->push.index)
        buf_printf(out, ", and what it writes by %s:%u", v->push.file, v->push.line);
}

/* A request to a forge's API that stands for nothing that could be judged. */
static void put_write_reason(const struct verdict *v, struct buf *out) {
    if (v->reason == REASON_WRITE_UNREADABLE)
        buf_printf(out, "what it writes to a repository can't be read for certain: %s", v->failed_why);
    else
        buf_puts(
            out,
            "it may write to a repository that push rules speak of, and exeat does not know what: only a "
            "rule that names it exactly, without a wildcard, permits it");
}

static void put_git_as_http(const struct facts *f, struct buf *out) {
    const char *why = NULL;
    buf_puts(out, "git's endpoints are permitted by fetch and push rules alone");
    if (facts_git_as_http(f, &why) && why)
        buf_printf(out, ", and this is %s", why);
}

/* Fetches and pushes, of which a repository's rules permit a part. */
static void put_git_reason(const struct facts *f, const struct verdict *v, struct buf *out) {
    bool fetch = f->kind == FACTS_GIT_FETCH;
    const char *what = fetch ? "fetch" : "push";
    if (v->reason == REASON_EXTRA)
        buf_printf(out, "no rule about this repository permits `also %s`", facts_extra_name(f->extra));
    else if (v->reason == REASON_CREDENTIALS)
        buf_printf(out, "the refs of this %s are permitted with different credentials: %s them one by one",
                   what, what);
    else
        buf_printf(out, "no rule allows a %s %s this ref", what, fetch ? "of" : "to");
}

/* The reasons that are about the request as a whole. */
static void put_reason(const struct facts *f, const struct verdict *v, struct buf *out) {
    switch (v->reason) {
    case REASON_NO_RULES: buf_puts(out, "the policy has no rules"); break;
    case REASON_ALLOWED: put_allowed(v, out); break;
    case REASON_DENIED_BY_RULE:
        buf_printf(out, "denied by %s:%u", v->rule.file, v->rule.line);
        put_brought(v, out);
        break;
    case REASON_HOST: buf_puts(out, "no rule names this host"); break;
    case REASON_SCHEME:
        buf_printf(out, "rules name this host, but not over %s", url_scheme_name(f->scheme));
        break;
    case REASON_PORT: buf_printf(out, "rules name this host, but not its port %u", f->port); break;
    case REASON_METHOD:
    case REASON_PATH:
        buf_puts(out, "no rule allows ");
        put_method(out, f);
        buf_puts(out, v->reason == REASON_METHOD ? " on this host" : " on this path");
        break;
    case REASON_ENCODED_SLASH: buf_puts(out, "the path has an encoded slash, which no rule spells"); break;
    case REASON_FETCH: buf_puts(out, "no rule allows fetch from this repository"); break;
    case REASON_PUSH: buf_puts(out, "no rule allows push to this repository"); break;
    case REASON_OPERATION: put_operation(f, out); break;
    case REASON_UNPROVED:
        buf_puts(out, "no rule allows force of this ref, and an update counts as force until it is proved a "
                      "fast-forward");
        break;
    case REASON_REFS:
    case REASON_EXTRA:
    case REASON_CREDENTIALS: put_git_reason(f, v, out); break;
    case REASON_GIT_AS_HTTP: put_git_as_http(f, out); break;
    case REASON_ADDRESS: buf_puts(out, "no rule names this address"); break;
    case REASON_ASKED: buf_printf(out, "%s:%u asks a person", v->rule.file, v->rule.line); break;
    case REASON_TUNNELLED:
        buf_printf(out, "passed through unread by %s:%u", v->rule.file, v->rule.line);
        break;
    case REASON_TUNNEL_ONLY:
        buf_puts(out, "rules pass TLS to this host through unread, and permit no request that is read");
        break;
    case REASON_NO_TUNNEL: buf_puts(out, "no rule passes TLS to this host through unread"); break;
    case REASON_WRITE_UNREADABLE:
    case REASON_WRITE_UNKNOWN: put_write_reason(v, out); break;
    default: put_failed(f, v, out); break; /* a part of the rule that came closest */
    }
    if (v->note.n) {
        buf_puts(out, ": ");
        put_clean(out, v->note);
    }
}

int policy_explain_ref(const struct policy *p, const struct facts *f, const struct verdict *v,
                       struct buf *out) {
    (void)p;
    if (v->reason == REASON_OPERATION && v->ref < f->nrefs)
        buf_printf(out, "no rule allows %s of this ref", facts_op_name(f->refs[v->ref].op));
    else
        put_reason(f, v, out);
    return out->failed ? ERR_LIMIT : 0;
}

int explain(const struct policy *p, const struct facts *f, const bool *reach, const struct verdict *v,
            size_t max_refs, struct buf *out) {
    size_t shown = 0;
    if (v->door) {
        doors_explain(p, f, v, out);
        return out->failed ? ERR_LIMIT : 0;
    }
    if (v->bad_refs == 0) {
        put_reason(f, v, out);
        return out->failed ? ERR_LIMIT : 0;
    }
    for (size_t i = v->ref;
         i < f->nrefs && shown < v->bad_refs && (max_refs == 0 || shown < max_refs) && !out->failed; i++) {
        struct verdict one;
        judge_ref(p, f, reach, i, &one);
        if (one.action != VERDICT_DENY)
            continue;
        if (shown++)
            buf_puts(out, "; ");
        put_clean(out, f->refs[i].name);
        buf_puts(out, ": ");
        policy_explain_ref(p, f, &one, out);
    }
    if (shown < v->bad_refs)
        buf_printf(out, "; and %zu more", v->bad_refs - shown);
    return out->failed ? ERR_LIMIT : 0;
}

int policy_explain(const struct policy *p, const struct facts *f, const struct verdict *v, size_t max_refs,
                   struct buf *out) {
    return explain(p, f, NULL, v, max_refs, out);
}
