#include "proxy/process/prepare.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/log.h"
#include "netns/doctor.h"
#include "netns/names.h"
#include "proxy/flow/engine.h"
#include "proxy/upstream/proxyenv.h"
#include "proxy/upstream/resolve.h"
#include "proxy/record/sink_redis.h"
#include "proxy/flow/limits.h"
#include "proxy/flow/shown.h"
#include "proxy/record/why.h"
#include "proxy/process/sources.h"
#include "proxy/process/state.h"
#include "vault/wire.h"

/* Descriptors of the supervisor: measured, a start takes 27 and 3 a worker; what was open before has room beside them. */
#define FILES_OWN        60
#define FILES_PER_WORKER 4

/* One complaint that is not about a line of a file. */
static int complain(struct buf *out, int err, const struct errmsg *msg) {
    buf_printf(out, "exeat: %s\n", msg->text);
    return err;
}

/* Libraries end the process where they get no descriptor. A service has one for each sandbox, and who joins it sends some to a worker that may
 * have much to do: of those that are on their way the kernel permits each user as many as this process may have open. So both take all
 * that they may. The command gets the limits that its user has. */
static int check_files(const struct config *c, struct buf *out) {
    rlim_t need = FILES_OWN + FILES_PER_WORKER * c->workers;
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || (files.rlim_cur >= need && c->kind == CONFIG_RUN))
        return 0;
    if (files.rlim_max >= need) {
        files.rlim_cur = c->kind == CONFIG_RUN ? need : files.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &files) == 0)
            return 0;
    }
    buf_printf(
        out,
        "exeat: a process may have %llu files open here, and exeat needs %llu: raise that limit (ulimit -n; "
        "in a container or a service, its limit of open files)\n",
        (unsigned long long)files.rlim_max, (unsigned long long)need);
    return ERR_LIMIT;
}

static int prepare_policy(struct prepared_sandbox *s, struct buf *out) {
    const struct config_sandbox *c = s->config;
    struct sources sources;
    struct policy_diags diags;
    struct errmsg msg;
    int r = sources_init(&sources);
    if (r < 0)
        return r;
    policy_diags_init(&diags);
    struct policy_input in = {
        .files = c->policies.list,
        .nfiles = c->policies.n,
        .sets = c->sets,
        .nsets = c->nsets,
        .read = sources_read,
        .arg = &sources,
    };
    r = policy_load(&in, &s->policy, &diags);
    if (r < 0 && policy_diags_format(&diags, log_colour(STDERR_FILENO), out) < 0)
        buf_puts(out, "exeat: the policy has too many errors to show\n");
    policy_diags_release(&diags);
    sources_release(&sources);
    if (r < 0)
        return r;
    struct buf bundle;
    buf_init(&bundle, POLICY_BUNDLE_MAX);
    r = policy_bundle(s->policy, &bundle);
    if (r < 0) {
        errmsg_set(&msg, r, "policy: %s", err_text(r));
    } else {
        s->policy_fd = memory_file("policy", buf_slice(&bundle), &msg);
        r = s->policy_fd < 0 ? ERR_IO : 0;
    }
    buf_release(&bundle);
    return r < 0 ? complain(out, r, &msg) : 0;
}

static int prepare_vault(struct prepared *p, struct buf *out) {
    struct errmsg msg;
    if (!p->config->vault)
        return 0;
    int r = vault_read(p->config->vault, &p->vault_text, &msg);
    if (r < 0) {
        errmsg_prefix(&msg, "--vault");
        return complain(out, r, &msg);
    }
    return vault_parse(p->config->vault, NULL, buf_slice(&p->vault_text), &p->vault, out);
}

/* With a vault at hand a credential that it does not have is a slip of the pen. Without one, a request that would be lent the
 * credential is refused, and says so. */
static int check_credentials(const struct prepared *p, struct buf *out) {
    size_t n = policy_credential_count(p->sandbox.policy);
    struct errmsg msg;
    int r = 0;
    if (n > VAULT_GRANT_MAX) {
        r = errmsg_set(&msg, ERR_LIMIT, "the policy lends %zu credentials, and a sandbox can be lent %d", n,
                       VAULT_GRANT_MAX);
        return complain(out, r, &msg);
    }
    for (size_t i = 0; p->vault && i < n; i++) {
        const char *name = policy_credential(p->sandbox.policy, i);
        if (vault_has(p->vault, slice_str(name)))
            continue;
        r = errmsg_set(&msg, ERR_NOTFOUND,
                       "the policy lends credential '%s', which is not in %s: add 'credential %s' there, or "
                       "take 'with %s' out of the policy",
                       name, p->config->vault, name, name);
        complain(out, r, &msg);
    }
    return r;
}

/* Who forgot --vault wants to know before the first request is refused for it. */
static void warn_of_no_vault(const struct prepared *p) {
    const struct policy *policy = p->sandbox.policy;
    size_t n = policy_credential_count(policy);
    struct buf names;
    if (p->vault || n == 0)
        return;
    buf_init(&names, 1024);
    for (size_t i = 0; i < n; i++)
        buf_printf(&names, "%s'%s'", i ? ", " : "", policy_credential(policy, i));
    const char *list = buf_cstr(&names);
    log_warn("the policy lends %s %s, and there is no --vault: requests that are to carry %s will be refused",
             n > 1 ? "credentials" : "credential", list ? list : "by name", n > 1 ? "them" : "it");
    buf_release(&names);
}

/* Options that roles will read again are read here first, so that a mistake starts nothing. */
static int check_options(struct prepared *p, struct buf *out) {
    const struct config *c = p->config;
    struct errmsg msg;
    int worst = 0;
    for (size_t i = 0; i < c->resolves.n; i++) {
        struct resolve_pin pin;
        int r = resolve_pin_parse(slice_str(c->resolves.list[i]), &pin, &msg);
        if (r < 0)
            worst = complain(out, r, &msg);
    }
    struct engine_limits limits;
    engine_limits_default(&limits);
    for (size_t i = 0; i < c->time_limits.n; i++) {
        int r = engine_limits_set_time(&limits, slice_str(c->time_limits.list[i]), &msg);
        if (r < 0)
            worst = complain(out, r, &msg);
    }
    if (c->redis) {
        struct redis_url url;
        int r = redis_url_parse(slice_str(c->redis), &url, &msg);
        _Static_assert(sizeof p->hidden.redis_path == sizeof url.path, "a path fits");
        memcpy(p->hidden.redis_path, url.path, sizeof p->hidden.redis_path);
        redis_url_release(&url);
        if (r < 0)
            worst = complain(out, r, &msg);
    }
    return worst;
}

static const char *get_variable(const char *name) {
    return getenv(name);
}

static int check_proxies(struct buf *out) {
    struct errmsg msg;
    struct proxyenv *env = calloc(1, sizeof *env);
    if (!env)
        return ERR_NOMEM;
    int r = proxyenv_load(env, get_variable, &msg);
    if (r < 0)
        complain(out, r, &msg);
    proxyenv_release(env);
    free(env);
    return r;
}

/* Those of --upstream-ca, for a mistake in an option is told before anything starts. */
static int prepare_extra(struct prepared *p, struct buf *out) {
    struct errmsg msg;
    int r = 0;
    for (size_t i = 0; i < p->config->upstream_cas.n; i++) {
        int one = ca_file_roots(p->config->upstream_cas.list[i], &p->extra, NULL, &msg);
        if (one < 0) {
            errmsg_prefix(&msg, "--upstream-ca");
            r = complain(out, one, &msg);
        }
    }
    return r;
}

int prepare_roots(struct prepared *p, struct errmsg *msg) {
    int r = ca_system_roots(&p->roots, &p->read, NULL, msg);
    /* who joins a service speaks to no server itself */
    bool serves =
        p->config->kind == CONFIG_SERVE || (p->config->kind == CONFIG_RUN && p->config->sandbox.policies.n);
    if (r == 0 && serves && buf_len(&p->roots) == 0 && buf_len(&p->extra) == 0)
        log_warn("this host has no root certificates (Debian's are in the package ca-certificates), and "
                 "--upstream-ca names none: no server's certificate will be accepted");
    return r;
}

/* The outer one's state directory is covered in its sandbox. Log and authority fail one after the other there. */
static int check_inside(const struct prepared *p, struct buf *out) {
    if (p->config->state || faccessat(p->state_fd, ".", W_OK, AT_EACCESS) == 0 || !doctor_inside())
        return 0;
    buf_printf(out,
               "exeat: this is a sandbox of exeat already, and %s can't be written in it: give a state "
               "directory for the inner one by --state DIR, and to its rules `to private`, since names "
               "lead to addresses of the outer one\n",
               p->state_dir);
    return ERR_IO;
}

static int prepare_state(struct prepared *p, struct buf *out) {
    struct errmsg msg;
    p->state_dir = state_path(p->config->state, &msg);
    if (!p->state_dir)
        return complain(out, ERR_NOTFOUND, &msg);
    p->state_fd = state_open(p->state_dir, &msg);
    if (p->state_fd < 0)
        return complain(out, ERR_IO, &msg);
    if (check_inside(p, out) < 0)
        return ERR_IO;
    if (p->config->kind == CONFIG_JOIN) /* the log is the service's */
        return 0;
    p->log_fd = state_open_log(p->state_fd, p->state_dir, p->config->log, &msg);
    return p->log_fd < 0 ? complain(out, ERR_IO, &msg) : 0;
}

/* Of the processes that serve sandboxes. Every step complains for itself; none is left out for another's error. */
static int prepare_serving(struct prepared *p, struct buf *out) {
    int (*const steps[])(struct prepared *, struct buf *) = {prepare_vault, prepare_extra, check_options};
    int worst = 0;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        int r = steps[i](p, out);
        worst = worst < 0 ? worst : r;
    }
    int r = check_proxies(out);
    return worst < 0 ? worst : r;
}

/* The memory that it shares with the workers. */
static int prepare_shared(struct prepared_sandbox *s, struct buf *out) {
    struct errmsg msg;
    int r = names_new(&s->names, &msg);
    if (r == 0)
        r = why_new(&s->why, &msg);
    if (r == 0)
        r = limits_new(policy_rule_count(s->policy), &s->limits, &msg);
    if (r == 0)
        r = shown_new(&s->shown, &msg);
    return r < 0 ? complain(out, r, &msg) : 0;
}

static int prepare_hidden(struct prepared *p, struct buf *out) {
    struct errmsg msg;
    int r = hidden_collect(&p->hidden, p->config->vault, p->vault, p->config->log, &msg);
    return r < 0 ? complain(out, r, &msg) : 0;
}

/* What there is depends on what begins. */
static int prepare_all(struct prepared *p, struct buf *out) {
    bool sandbox = p->config->kind != CONFIG_SERVE, serving = p->config->kind != CONFIG_JOIN;
    int r = sandbox ? prepare_policy(&p->sandbox, out) : 0;
    int other = serving ? prepare_serving(p, out) : 0;
    r = r < 0 ? r : other;
    if (r == 0 && sandbox)
        r = check_credentials(p, out);
    /* made on disk only once all the rest is good */
    if (r == 0)
        r = prepare_state(p, out);
    if (r == 0 && serving)
        r = prepare_hidden(p, out);
    if (r == 0 && sandbox)
        r = prepare_shared(&p->sandbox, out);
    if (r == 0 && sandbox && serving)
        warn_of_no_vault(p);
    return r;
}

int prepare(const struct config *config, struct prepared *p, struct buf *out) {
    *p = (struct prepared){.config = config, .state_fd = -1, .log_fd = -1};
    p->sandbox = (struct prepared_sandbox){.id = 1, .config = &config->sandbox, .policy_fd = -1};
    buf_init(&p->vault_text, VAULT_FILE_MAX);
    buf_init(&p->roots, CA_BUNDLE_MAX);
    buf_init(&p->extra, CA_BUNDLE_MAX);
    int r = check_files(config, out);
    if (r == 0)
        r = prepare_all(p, out);
    if (r < 0 && buf_len(out) == 0)
        buf_printf(out, "exeat: %s\n", err_text(r));
    return r;
}

static void on_settle(evutil_socket_t fd, short what, void *arg) {
    (void)fd;
    (void)what;
    (void)arg;
    heap_settle();
}

void prepare_settle(struct prepared *p, struct event_base *base) {
    static const struct timeval rest = {.tv_usec = HEAP_SETTLE_MS * 1000};
    policy_free(p->sandbox.policy);
    p->sandbox.policy = NULL;
    if (p->config->kind != CONFIG_SERVE) { /* which tells whoever joins what is not in it */
        vault_free(p->vault);
        p->vault = NULL;
    }
    buf_release(&p->vault_text);
    buf_release(&p->extra);
    (void)event_base_once(base, -1, EV_TIMEOUT, on_settle, NULL, &rest);
}

void prepare_release(struct prepared *p) {
    if (p->state_fd >= 0)
        close(p->state_fd);
    if (p->log_fd >= 0)
        close(p->log_fd);
    if (p->sandbox.policy_fd >= 0)
        close(p->sandbox.policy_fd);
    policy_free(p->sandbox.policy);
    names_free(p->sandbox.names);
    why_free(p->sandbox.why);
    limits_free(p->sandbox.limits);
    shown_free(p->sandbox.shown);
    vault_free(p->vault);
    hidden_release(&p->hidden);
    buf_release(&p->vault_text);
    buf_release(&p->roots);
    buf_release(&p->extra);
    free(p->state_dir);
}

bool prepared_runs_programs(const struct prepared *p) {
    for (size_t i = 0; p->vault && i < vault_count(p->vault); i++) {
        enum vault_source_kind kind = vault_source(p->vault, i).kind;
        if (kind == VAULT_FROM_EXEC || kind == VAULT_FROM_GIT_CREDENTIAL)
            return true;
    }
    return false;
}
