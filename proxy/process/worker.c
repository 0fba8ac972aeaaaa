/*
 * A worker's process: the engine and all it needs (proxy/flow/engine.h), put together before confinement; sandboxes come and go after
 * it. Everything hostile is read here, and nothing precious is. Whyever it ends, what is under way gets its outcome first.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "base/secret.h"
#include "ca/bundle.h"
#include "ca/openssl.h"
#include "proxy/codec/watch.h"
#include "proxy/flow/engine.h"
#include "proxy/process/ipc.h"
#include "proxy/process/sources.h"
#include "proxy/process/worker.h"
#include "proxy/record/recorder.h"
#include "proxy/upstream/resolve.h"
#include "proxy/upstream/upstream.h"
#include "vault/bindings.h"
#include "vault/client.h"

#define DRAIN_TICK_MS 5
#define DRAIN_TICKS   200 /* for records on their way to the scribe */

static struct worker_process worker; /* proxyenv_load's `get` has no argument */

/* --- start-up ----------------------------------------------------------------------------------------------------- */

static const char *get_variable(const char *name) {
    for (size_t i = 0; i < worker.nvariables; i++)
        if (strcmp(worker.variables[i].name, name) == 0)
            return worker.variables[i].value;
    return NULL;
}

static int add_variable(struct worker_process *w, struct msg_in *m) {
    struct slice name = msg_get_slice(m), value = msg_get_slice(m);
    if (msg_end(m) < 0 || w->nvariables == WORKER_VARIABLES_MAX)
        return ERR_PEER;
    char *n = slice_dup(name), *v = slice_dup(value);
    if (!n || !v) {
        free(n);
        free(v);
        return ERR_NOMEM;
    }
    w->variables[w->nvariables].name = n;
    w->variables[w->nvariables++].value = v;
    return 0;
}

/* A proxy's URL may hold a password; proxyenv keeps it as a secret. */
static void forget_variables(struct worker_process *w) {
    for (size_t i = 0; i < w->nvariables; i++) {
        secret_wipe(w->variables[i].value, strlen(w->variables[i].value));
        free(w->variables[i].value);
        free(w->variables[i].name);
    }
    w->nvariables = 0;
}

static int add_resolve(struct worker_process *w, struct msg_in *m) {
    struct slice text = msg_get_slice(m);
    if (msg_end(m) < 0 || w->nresolves == CONFIG_LIST_MAX)
        return ERR_PEER;
    w->resolves[w->nresolves] = slice_dup(text);
    return w->resolves[w->nresolves++] ? 0 : ERR_NOMEM;
}

static int add_time_limit(struct worker_process *w, struct msg_in *m) {
    struct slice text = msg_get_slice(m);
    return msg_end(m) < 0 || engine_limits_set_time(&w->limits, text, NULL) < 0 ? ERR_PEER : 0;
}

/* Answers of the keeper hold secrets, and what it is to keep: the channel wipes what it has read, and what waited. */
static int send_to_keeper(void *arg, const struct msg_out *m) {
    struct worker_process *w = arg;
    return channel_send(&w->keeper, m);
}

static void expire_soon(struct worker_process *w) {
    static const struct timeval lease = {.tv_sec = VAULT_LEASE_MS / 1000,
                                         .tv_usec = VAULT_LEASE_MS % 1000 * 1000};
    w->expiring = event_add(w->expire, &lease) == 0;
}

/* What was rendered is good for a moment, and wiped then. */
static void on_expire(evutil_socket_t fd, short what, void *arg) {
    struct worker_process *w = arg;
    (void)fd;
    (void)what;
    w->expiring = false;
    if (vault_expire(w->vault))
        expire_soon(w);
}

/* What secrets are recognised by comes first: without it no push could be judged. Then hosts. */
static int on_marks(struct worker_process *w, struct msg_in *m) {
    struct watch_table *watched = NULL;
    int r = marks_get(m, &w->marks);
    if (r == 0 && w->marks.n < w->marks.total)
        return vault_ask_marks(w->vault, w->marks.n);
    if (r == 0 && w->marks.n)
        r = watch_table_new(&w->marks.key, w->marks.list, w->marks.n, &watched);
    if (r == 0)
        engine_set_watched(w->engine, watched);
    marks_told_release(&w->marks);
    return r ? r : vault_ask_bindings(w->vault);
}

static int on_keeper(struct channel *c, struct msg_in *m) {
    struct worker_process *w = c->arg;
    if (m->type == VAULT_MARKS)
        return on_marks(w, m);
    if (m->type != VAULT_BINDINGS) {
        int r = vault_client_feed(w->vault, m);
        if (r == 0 && m->type == VAULT_RENDERED && !w->expiring)
            expire_soon(w);
        return r;
    }
    struct bindings *bindings;
    int r = bindings_get(m, &bindings);
    if (r == 0)
        engine_set_bindings(w->engine, bindings);
    return r;
}

static void end(struct worker_process *w, unsigned ms, int status);

/* Nothing works without the keeper: the process ends, and the supervisor with it. */
static void on_keeper_closed(struct channel *c, int err) {
    struct worker_process *w = c->arg;
    if (err != ERR_EOF)
        log_error("keeper: %s", err_text(err));
    end(w, 0, err == ERR_EOF ? ROLE_PEER_GONE : 1);
}

static const struct channel_ops keeper_ops = {on_keeper, on_keeper_closed};

static int add_peer(struct worker_process *w, struct msg_in *m) {
    uint32_t kind = msg_get_u32(m);
    int fd = msg_get_fd(m), ring_fd = kind == IPC_PEER_SCRIBE ? msg_get_fd(m) : -1;
    if (msg_end(m) == 0 && kind == IPC_PEER_KEEPER && !w->keeper.ops)
        return channel_open(&w->keeper, w->role.base, fd, true, &keeper_ops, w);
    if (msg_end(m) == 0 && kind == IPC_PEER_SCRIBE && w->scribe_fd < 0) {
        w->scribe_fd = fd;
        w->ring_fd = ring_fd;
        return 0;
    }
    if (fd >= 0)
        close(fd);
    if (ring_fd >= 0)
        close(ring_fd);
    return ERR_PEER;
}

/* What is under way is cut off and recorded all the same: another scribe comes for that. */
static void on_scribe_gone(void *arg) {
    end(arg, 0, ROLE_PEER_GONE);
}

static int map_roots(struct worker_process *w, int roots_fd, int extra_fd, struct errmsg *msg) {
    int r = memory_file_map(roots_fd, CA_BUNDLE_MAX, &w->roots);
    if (r == 0)
        r = memory_file_map(extra_fd, CA_BUNDLE_MAX, &w->extra);
    return r < 0 ? errmsg_set(msg, r, "roots: %s", err_text(r)) : 0;
}

/* What reads files, or needs calls that are forbidden later. Of OpenSSL that is the host's settings alone: contexts are made when they are
 * needed. */
static int make_upstream(struct worker_process *w, struct errmsg *msg) {
    openssl_begin(true);
    struct resolver_config resolving = {.pins = (const char *const *)w->resolves, .npins = w->nresolves};
    int r = proxyenv_load(&w->proxies, get_variable, msg);
    forget_variables(w);
    if (r == 0)
        r = resolver_new(w->role.base, &resolving, &w->resolver, msg);
    if (r < 0)
        return r;
    struct upstream_config config = {
        w->role.base,         w->resolver,         w->roots, w->extra, &w->proxies,
        w->limits.connect_ms, w->limits.silence_ms};
    w->upstream = upstream_new(&config);
    return w->upstream ? 0 : errmsg_set(msg, ERR_NOMEM, "out of memory");
}

/* `config` has what the supervisor has told. */
static int make_engine(struct worker_process *w, struct engine_config *config, struct errmsg *msg) {
    w->recorder = recorder_new(w->role.base, w->scribe_fd, w->ring_fd, on_scribe_gone, w);
    w->scribe_fd = w->ring_fd = -1;
    w->expire = event_new(w->role.base, -1, 0, on_expire, w);
    if (!w->recorder || !w->expire || vault_client_new(send_to_keeper, w, &w->vault) < 0)
        return errmsg_set(msg, ERR_NOMEM, "out of memory");
    config->base = w->role.base;
    config->vault = w->vault;
    config->upstream = w->upstream;
    config->recorder = w->recorder;
    return engine_new(config, &w->engine, msg);
}

static int failed(struct worker_process *w, struct errmsg *msg) {
    errmsg_prefix(msg, "exeat");
    return role_failed(&w->role, 0, slice_str(msg->text)); /* told; no protocol was broken */
}

static int load_roots(struct worker_process *w, struct msg_in *m) {
    int roots_fd = msg_get_fd(m), extra_fd = msg_get_fd(m);
    struct errmsg msg = {""};
    int r = msg_end(m);
    if (r == 0) {
        r = map_roots(w, roots_fd, extra_fd, &msg);
        if (r == 0)
            r = make_upstream(w, &msg);
        if (r < 0)
            r = failed(w, &msg);
    }
    if (roots_fd >= 0)
        close(roots_fd);
    if (extra_fd >= 0)
        close(extra_fd);
    return r;
}

static int start(struct worker_process *w, struct msg_in *m) {
    struct engine_config config = {.limits = w->limits};
    config.ca_pem = msg_get_slice(m);
    config.log_query = msg_get_u8(m);
    config.limits.push_memory = msg_get_u64(m);
    config.shared = msg_get_u8(m);
    struct errmsg msg = {""};
    if (msg_end(m) < 0 || !w->upstream || !w->keeper.ops || w->scribe_fd < 0)
        return ERR_PEER;
    if (make_engine(w, &config, &msg) < 0)
        return failed(w, &msg);
    int r = role_ready_plain(&w->role, CONFINE_WORKER);
    if (r == 0 && (r = vault_ask_marks(w->vault, 0)) == ERR_EOF)
        r = 0; /* no end of the supervisor's: on_keeper_closed follows */
    return r;
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

static void on_tick(evutil_socket_t fd, short what, void *arg) {
    struct worker_process *w = arg;
    (void)fd;
    (void)what;
    if (!recorder_empty(w->recorder) && ++w->ticks < DRAIN_TICKS)
        return;
    if (!recorder_empty(w->recorder))
        log_warn("the scribe does not take the last records: they are lost");
    (void)channel_send_type(&w->role.ctl, IPC_DRAINED);
    role_end(&w->role, w->status);
}

static void on_drained(void *arg) {
    struct worker_process *w = arg;
    worker_free_sandboxes(w);
    struct timeval soon = {.tv_usec = DRAIN_TICK_MS * 1000};
    w->tick = event_new(w->role.base, -1, EV_PERSIST, on_tick, w);
    if (!w->tick || event_add(w->tick, &soon) < 0)
        role_end(&w->role, 1);
    else
        on_tick(-1, 0, w);
}

/* What is under way has so many ms to end by itself. */
static void end(struct worker_process *w, unsigned ms, int status) {
    if (w->ending)
        return;
    w->ending = true;
    w->status = status;
    if (w->engine)
        engine_drain(w->engine, ms, on_drained, w);
    else
        role_end(&w->role, status);
}

static void on_told(struct role_base *b) {
    end((struct worker_process *)b, WORKER_DRAIN_MS, 0);
}

static int on_supervisor(struct channel *c, struct msg_in *m) {
    struct worker_process *w = c->arg;
    switch (m->type) {
    case IPC_ADD_PEER: return w->engine ? ERR_PEER : add_peer(w, m);
    case IPC_ADD_RESOLVE: return w->engine ? ERR_PEER : add_resolve(w, m);
    case IPC_ADD_TIME_LIMIT: return w->engine ? ERR_PEER : add_time_limit(w, m);
    case IPC_ADD_VARIABLE: return w->engine ? ERR_PEER : add_variable(w, m);
    case IPC_ROOTS: return w->upstream ? ERR_PEER : load_roots(w, m);
    case IPC_START: return w->engine ? ERR_PEER : start(w, m);
    case IPC_SANDBOX: return w->engine ? worker_add_sandbox(w, m) : ERR_PEER;
    case IPC_SANDBOX_END: return w->engine ? worker_end_sandbox(w, m) : ERR_PEER;
    case IPC_DRAIN: end(w, WORKER_DRAIN_MS, 0); return 0;
    default: return ERR_PEER;
    }
}

static const struct channel_ops supervisor_ops = {on_supervisor, role_supervisor_gone};

/* A connection takes two descriptors or three; what the user's shell grants is little. */
static void raise_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

static int worker_run(void) {
    struct worker_process *w = &worker;
    raise_limit();
    engine_limits_default(&w->limits);
    w->scribe_fd = w->ring_fd = -1;
    if (role_open(&w->role, &supervisor_ops, w) < 0 || role_on_told(&w->role, on_told) < 0)
        return 1;
    role_loop(&w->role);
    worker_free_sandboxes(w);
    if (w->tick)
        event_free(w->tick);
    if (w->engine)
        engine_free(w->engine);
    if (w->expire)
        event_free(w->expire);
    if (w->vault)
        vault_client_free(w->vault);
    if (w->upstream)
        upstream_free(w->upstream);
    resolver_free(w->resolver);
    if (w->recorder)
        recorder_free(w->recorder);
    memory_file_unmap(&w->roots);
    memory_file_unmap(&w->extra);
    proxyenv_release(&w->proxies);
    for (size_t i = 0; i < w->nresolves; i++)
        free(w->resolves[i]);
    channel_close(&w->keeper);
    return role_close(&w->role);
}

int main(int argc, char **argv) {
    return role_main(argc, argv, "worker", worker_run);
}
