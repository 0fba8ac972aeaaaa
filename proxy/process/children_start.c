#include "proxy/process/children_start.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/secret.h"
#include "proxy/process/ipc.h"
#include "proxy/process/sources.h"
#include "proxy/record/ring.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* --- environments --------------------------------------------------------------------------------------------------- */

/* What a role finds in its environment. Workers find this alone; what they need to know is told by message.
 * A handshake of TLS takes and gives back some two thousand pieces of a few sizes, of which malloc has seven each at hand: the rest it
 * would join with their neighbours and split off again. */
static char worker_malloc[] = "GLIBC_TUNABLES=glibc.malloc.tcache_count=32";
static const char *const scribe_variables[] = {"TERM", "NO_COLOR"};
/* What every role gets: in a build with sanitizers, how these are told what to look for. */
static const char *const build_variables[] = {
#ifdef __SANITIZE_ADDRESS__
    "ASAN_OPTIONS",
    "LSAN_OPTIONS",
    "UBSAN_OPTIONS",
#endif
    NULL,
};
static const char *const worker_variables[] = {"https_proxy", "HTTPS_PROXY", "http_proxy",
                                               "HTTP_PROXY",  "all_proxy",   "ALL_PROXY",
                                               "no_proxy",    "NO_PROXY",    "REQUEST_METHOD"};

/* The entry NAME=VALUE of our own environment, or NULL. */
static char *environ_entry(const char *name) {
    size_t n = strlen(name);
    for (char **e = environ; e && *e; e++)
        if (strncmp(*e, name, n) == 0 && (*e)[n] == '=')
            return *e;
    return NULL;
}

/* NULL when memory is short, else a list (its strings are borrowed) to be freed. A keeper that starts helpers gets all: they need
 * HOME, PATH and whatever else their authors thought of. One that does not gets the variables that hold its secrets. */
static char **role_environment(const struct prepared *p, enum role role) {
    size_t n = p->vault ? vault_count(p->vault) : 0, at = 0;
    char **env = calloc(n + COUNT(scribe_variables) + COUNT(build_variables), sizeof *env);
    if (!env)
        return NULL;
    for (size_t i = 0; build_variables[i]; i++)
        if ((env[at] = environ_entry(build_variables[i])))
            at++;
    if (role == ROLE_WORKER)
        env[at++] = worker_malloc;
    for (size_t i = 0; role == ROLE_SCRIBE && i < COUNT(scribe_variables); i++)
        if ((env[at] = environ_entry(scribe_variables[i])))
            at++;
    for (size_t i = 0; role == ROLE_KEEPER && i < n; i++) {
        struct vault_source source = vault_source(p->vault, i);
        if (source.kind == VAULT_FROM_ENV && (env[at] = environ_entry(source.name)))
            at++;
    }
    return env;
}

/* --- start-up --------------------------------------------------------------------------------------------------------- */

/* A role that is gone when it is told something is no error of the telling: why it went is in its own words, or in how it ended,
 * and the loop hears of both. */
static int tell(struct child *child, const struct msg_out *m) {
    int r = channel_send(&child->ctl, m);
    return r == ERR_EOF ? 0 : r;
}

/* `child` is a place in the list that nobody has, or has any more. */
int children_start_at(struct children *c, struct child *child, enum role role, uint32_t number,
                      struct errmsg *msg) {
    bool whole = role == ROLE_KEEPER && prepared_runs_programs(c->prepared);
    char **env = whole ? NULL : role_environment(c->prepared, role);
    if (!whole && !env)
        return errmsg_set(msg, ERR_NOMEM, "out of memory");
    int fd;
    *child = (struct child){.all = c, .role = role, .number = number};
    int r = spawn_role(role, whole ? environ : env, &child->pid, &fd, msg);
    free(env);
    if (r < 0) {
        child_enter(child, CHILD_GONE); /* there is no such process: nobody waits for it, nor kills it */
        return r;
    }
    if (child == &c->list[c->n])
        c->n++;
    if (channel_open(&child->ctl, c->base, fd, false, &children_ctl_ops, child) < 0)
        return errmsg_set(msg, ERR_NOMEM, "out of memory");
    return 0;
}

static int start_child(struct children *c, enum role role, uint32_t number, struct child **out,
                       struct errmsg *msg) {
    *out = &c->list[c->n];
    return children_start_at(c, *out, role, number, msg);
}

/* `ring` is NULL where there is none. */
static int send_peer(struct child *child, uint32_t which, int fd, const struct ring *ring) {
    struct msg_out m;
    msg_begin(&m, msg_room.out, sizeof msg_room.out, IPC_ADD_PEER);
    msg_put_u32(&m, which);
    msg_put_fd(&m, fd);
    if (ring)
        msg_put_fd(&m, ring_fd(ring));
    return tell(child, &m);
}

/* A socket pair between worker `i` and a role, and to the scribe its ring; the role's end is handed over, the worker's kept for
 * it. */
static int connect_worker(struct children *c, struct child *role, uint32_t i, enum ipc_peer which) {
    int pair[2], r = 0;
    if (which == IPC_PEER_SCRIBE && !c->rings[i])
        r = ring_new(&c->rings[i], NULL);
    if (r == 0)
        r = msg_pair(pair);
    if (r < 0)
        return r;
    r = send_peer(role, i, pair[0], which == IPC_PEER_SCRIBE ? c->rings[i] : NULL);
    close(pair[0]);
    if (c->peers[i][which] >= 0) /* of a scribe that followed on another, and was killed as well */
        close(c->peers[i][which]);
    c->peers[i][which] = pair[1];
    return r;
}

static int start_keeper(struct children *c, struct child *keeper) {
    const struct prepared *p = c->prepared;
    struct msg_out m;
    int text_fd = -1;
    if (p->config->vault && (text_fd = memory_file("credentials", buf_slice(&p->vault_text), NULL)) < 0)
        return ERR_IO;
    msg_begin(&m, msg_room.out, sizeof msg_room.out, IPC_START);
    msg_put_fd(&m, p->state_fd);
    msg_put_str(&m, p->config->vault ? p->config->vault : "");
    if (text_fd >= 0)
        msg_put_fd(&m, text_fd);
    int r = tell(keeper, &m);
    if (text_fd >= 0)
        close(text_fd);
    return r;
}

/* `follows`: on one that died. Where Redis is was known to that one alone. */
int children_start_scribe(struct children *c, struct child *scribe, bool follows) {
    const struct prepared *p = c->prepared;
    struct msg_out m;
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < p->config->workers; i++)
        r = connect_worker(c, scribe, i, IPC_PEER_SCRIBE);
    if (r < 0)
        return r;
    msg_begin(&m, msg_room.out, sizeof msg_room.out, IPC_START);
    msg_put_fd(&m, p->log_fd);
    msg_put_u8(&m, (uint8_t)p->config->verbosity);
    msg_put_str(&m, p->config->redis && !follows ? p->config->redis : "");
    msg_put_u8(&m, follows);
    msg_put_u8(&m, p->config->kind == CONFIG_SERVE);
    r = tell(scribe, &m);
    secret_wipe(msg_room.out, m.n);
    return r;
}

static int tell_variables(struct child *worker) {
    int r = 0;
    for (size_t i = 0; r == 0 && i < COUNT(worker_variables); i++) {
        const char *value = getenv(worker_variables[i]);
        if (!value)
            continue;
        struct msg_out m;
        msg_begin(&m, msg_room.out, sizeof msg_room.out, IPC_ADD_VARIABLE);
        msg_put_str(&m, worker_variables[i]);
        msg_put_str(&m, value);
        r = tell(worker, &m);
        secret_wipe(msg_room.out, m.n);
    }
    return r;
}

static int tell_list(struct child *worker, enum ipc_message type, const struct config_list *list) {
    int r = 0;
    for (size_t i = 0; r == 0 && i < list->n; i++) {
        struct msg_out m;
        msg_begin(&m, msg_room.out, sizeof msg_room.out, type);
        msg_put_str(&m, list->list[i]);
        r = tell(worker, &m);
    }
    return r;
}

/* All that a worker can begin with before there is a CA. */
static int tell_worker(struct child *worker, int roots_fd, int extra_fd) {
    struct children *c = worker->all;
    const struct config *config = c->prepared->config;
    struct msg_out m;
    int r = 0;
    for (int which = 0; r == 0 && which < 2; which++) {
        int *fd = &c->peers[worker->number][which];
        r = send_peer(worker, (uint32_t)which, *fd,
                      which == IPC_PEER_SCRIBE ? c->rings[worker->number] : NULL);
        close(*fd); /* from now on only the two ends hold it: its end shows when one of them dies */
        *fd = -1;
    }
    if (r == 0)
        r = tell_list(worker, IPC_ADD_RESOLVE, &config->resolves);
    if (r == 0)
        r = tell_list(worker, IPC_ADD_TIME_LIMIT, &config->time_limits);
    if (r == 0)
        r = tell_variables(worker);
    if (r < 0)
        return r;
    msg_begin(&m, msg_room.out, sizeof msg_room.out, IPC_ROOTS);
    msg_put_fd(&m, roots_fd);
    msg_put_fd(&m, extra_fd);
    return tell(worker, &m);
}

static int start_workers(struct children *c, struct errmsg *msg) {
    int roots_fd = memory_file("roots", buf_slice(&c->prepared->roots), msg);
    int extra_fd = memory_file("roots", buf_slice(&c->prepared->extra), msg);
    int r = roots_fd < 0 || extra_fd < 0 ? ERR_IO : 0;
    for (uint32_t i = 0; r == 0 && i < c->prepared->config->workers; i++) {
        struct child *worker;
        r = start_child(c, ROLE_WORKER, i, &worker, msg);
        if (r == 0 && (r = tell_worker(worker, roots_fd, extra_fd)) < 0)
            errmsg_set(msg, r, "worker: %s", err_text(r));
    }
    if (roots_fd >= 0)
        close(roots_fd);
    if (extra_fd >= 0)
        close(extra_fd);
    return r;
}

int children_start(struct children *c, struct event_base *base, const struct prepared *p,
                   const struct children_ops *ops, void *arg, struct errmsg *msg) {
    struct child *keeper;
    c->base = base;
    c->prepared = p;
    c->ops = ops;
    c->arg = arg;
    for (size_t i = 0; i < CONFIG_WORKERS_MAX; i++)
        c->peers[i][0] = c->peers[i][1] = -1;
    int r = start_child(c, ROLE_KEEPER, 0, &keeper, msg);
    if (r < 0)
        return r;
    for (uint32_t i = 0; r == 0 && i < p->config->workers; i++)
        r = connect_worker(c, keeper, i, IPC_PEER_KEEPER);
    if (r == 0)
        r = start_keeper(c, keeper);
    return r < 0 ? errmsg_set(msg, r, "keeper: %s", err_text(r)) : 0;
}

int children_start_others(struct children *c, struct errmsg *msg) {
    struct child *scribe;
    int r = start_child(c, ROLE_SCRIBE, 0, &scribe, msg);
    if (r < 0)
        return r;
    r = children_start_scribe(c, scribe, false);
    return r < 0 ? errmsg_set(msg, r, "scribe: %s", err_text(r)) : start_workers(c, msg);
}
