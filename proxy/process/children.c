#include "proxy/process/children.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/secret.h"
#include "proxy/process/ipc.h"
#include "proxy/process/role.h"
#include "proxy/process/sources.h"
#include "proxy/process/state.h"
#include "proxy/record/ring.h"

#define FOLLOWERS_MAX 3   /* scribes in place of one that was killed */
#define CAUSE_MS      500 /* until the death of a process shows whose sockets have closed */

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
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

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

static void drain_on(struct children *c);
static void fail(struct children *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void fail(struct children *c, const char *format, ...) {
    char text[512];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    c->failed = true;
    c->ops->failed(c->arg, text);
}

/* A role that is gone when it is told something is no error of the telling: why it went is in its own words, or in how it ended,
 * and the loop hears of both. */
static int tell(struct child *child, const struct msg_out *m) {
    int r = channel_send(&child->ctl, m);
    return r == ERR_EOF ? 0 : r;
}

static const char *const child_states[] = {"starting", "ready", "ending", "drained", "gone"};
static_assert(COUNT(child_states) == CHILD_STATES, "a name for each state");

static void child_enter(struct child *child, enum child_state state) {
    static const uint8_t legal[CHILD_STATES] = {
        [CHILD_STARTING] = 1 << CHILD_READY | 1 << CHILD_ENDING | 1 << CHILD_GONE,
        [CHILD_READY] = 1 << CHILD_ENDING | 1 << CHILD_GONE,
        [CHILD_ENDING] = 1 << CHILD_DRAINED | 1 << CHILD_GONE,
        [CHILD_DRAINED] = 1 << CHILD_GONE,
    };
    assert(legal[child->state] & 1 << state);
    log_debug("%s %u: %s -> %s", role_name(child->role), child->number, child_states[child->state],
              child_states[state]);
    child->state = state;
}

/* Its end is no failure from now on. */
static void child_ends(struct child *child) {
    if (child->state < CHILD_ENDING)
        child_enter(child, CHILD_ENDING);
}

static void child_tell_end(struct child *child) {
    if (child->state >= CHILD_ENDING)
        return;
    child_ends(child);
    (void)channel_send_type(&child->ctl, IPC_DRAIN);
}

static const struct channel_ops ctl_ops;

/* `child` is a place in the list that nobody has, or has any more. */
static int start_at(struct children *c, struct child *child, enum role role, uint32_t number,
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
    if (channel_open(&child->ctl, c->base, fd, false, &ctl_ops, child) < 0)
        return errmsg_set(msg, ERR_NOMEM, "out of memory");
    return 0;
}

static int start_child(struct children *c, enum role role, uint32_t number, struct child **out,
                       struct errmsg *msg) {
    *out = &c->list[c->n];
    return start_at(c, *out, role, number, msg);
}

static struct child *find_child(struct children *c, enum role role) {
    for (size_t i = 0; i < c->n; i++)
        if (c->list[i].role == role)
            return &c->list[i];
    return NULL;
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
static int start_scribe(struct children *c, struct child *scribe, bool follows) {
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
    r = start_scribe(c, scribe, false);
    return r < 0 ? errmsg_set(msg, r, "scribe: %s", err_text(r)) : start_workers(c, msg);
}

/* --- messages --------------------------------------------------------------------------------------------------------- */

static int on_ready(struct child *child, struct msg_in *m) {
    struct children *c = child->all;
    if (child->state != CHILD_STARTING && child->state != CHILD_ENDING)
        return ERR_PEER;
    struct slice pem = child->role == ROLE_KEEPER ? msg_get_slice(m) : SLICE_NONE;
    uint32_t hash = child->role == ROLE_KEEPER ? msg_get_u32(m) : 0;
    bool unlocked = child->role == ROLE_KEEPER && msg_get_u8(m);
    struct slice unwatched = child->role == ROLE_KEEPER ? msg_get_slice(m) : SLICE_NONE;
    if (msg_end(m) < 0)
        return ERR_PEER;
    if (child->state == CHILD_ENDING) /* it was told to end before it had begun */
        return 0;
    child_enter(child, CHILD_READY);
    if (unlocked && c->prepared->vault && c->prepared->config->verbosity == IPC_ALL)
        log_warn("secrets can't be locked in memory (limit: ulimit -l): they could be written to swap");
    if (unwatched.n && policy_may_push(c->prepared->sandbox.policy))
        log_warn("not looked for in pushes, since it is too short or too simple: the secret of %.*s",
                 SLICE_ARG(unwatched));
    if (child->role == ROLE_KEEPER) {
        struct msg_out begin;
        msg_begin(&begin, msg_room.out, sizeof msg_room.out, IPC_START);
        msg_put_slice(&begin, pem);
        msg_put_u8(&begin, c->prepared->config->log_query);
        msg_put_u64(&begin, c->prepared->config->push_memory);
        int r = children_send_workers(c, &begin);
        if (r == 0)
            c->ops->keeper_ready(c->arg, pem, hash);
        else if (r != ERR_EOF) /* one is gone: it follows why */
            fail(c, "exeat: the workers can't be started: %s", err_text(r));
    }
    size_t ready = 0;
    for (size_t i = 0; i < c->n; i++)
        ready += c->list[i].state == CHILD_READY;
    if (ready == c->prepared->config->workers + 2)
        c->ops->ready(c->arg);
    return 0;
}

static int on_broken(struct child *child, struct msg_in *m) {
    uint32_t number = msg_get_u32(m);
    struct slice why = msg_get_slice(m);
    if (msg_end(m) < 0)
        return ERR_PEER;
    fail(child->all, "exeat: worker %u broke the protocol with the keeper: %.*s", number, SLICE_ARG(why));
    return 0;
}

static int on_message(struct channel *ctl, struct msg_in *m) {
    struct child *child = ctl->arg;
    switch (m->type) {
    case IPC_READY: return on_ready(child, m);
    case IPC_FAILED: {
        struct slice text = msg_get_slice(m);
        if (msg_end(m) < 0)
            return ERR_PEER;
        child_ends(child);
        child->all->failed = true;
        char *copy = slice_dup(text);
        child->all->ops->failed(child->all->arg, copy ? copy : "exeat: out of memory");
        free(copy);
        return 0;
    }
    case IPC_DRAINED:
        if (msg_end(m) < 0)
            return ERR_PEER;
        if (child->all->draining)
            child_ends(child);
        /* before it was told to, an end is a failure, whatever it says */
        if (child->state == CHILD_ENDING) {
            child_enter(child, CHILD_DRAINED);
            drain_on(child->all);
        }
        return 0;
    case IPC_BROKEN: return child->role == ROLE_KEEPER ? on_broken(child, m) : ERR_PEER;
    default: return ERR_PEER;
    }
}

/* --- the end ---------------------------------------------------------------------------------------------------------- */

/* Whether one of a role still runs. */
static bool running(const struct children *c, enum role role) {
    for (size_t i = 0; i < c->n; i++)
        if (c->list[i].state != CHILD_GONE && c->list[i].role == role)
            return true;
    return false;
}

/* Whether one is left that may have something to record. */
static bool draining_worker(const struct children *c) {
    for (size_t i = 0; i < c->n; i++)
        if (c->list[i].role == ROLE_WORKER && c->list[i].state < CHILD_DRAINED)
            return true;
    return false;
}

/* Next step of draining: scribe and keeper end when all workers have said their last. */
static void drain_on(struct children *c) {
    if (!c->draining)
        return;
    if (!running(c, ROLE_WORKER) && !running(c, ROLE_SCRIBE) && !running(c, ROLE_KEEPER)) {
        c->ops->ended(c->arg);
        return;
    }
    c->ops->going(c->arg);
    if (draining_worker(c))
        return;
    for (size_t i = 0; i < c->n; i++)
        child_tell_end(&c->list[i]);
}

/* Waits for one child, at most `ms`. */
static bool wait_child(pid_t pid, int *status, int ms) {
    struct pollfd p = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
    if (p.fd >= 0) {
        while (poll(&p, 1, ms) < 0 && errno == EINTR)
            continue;
        close(p.fd);
    }
    pid_t r = waitpid(pid, status, WNOHANG);
    return r == pid || (r < 0 && errno == ECHILD);
}

/* A role has ended since another one did: that one's is the failure to be told. What it said of it was sent before its sockets
 * closed, and is here by now; how it ended, if it said nothing, shows a moment later. */
static void tell_cause(struct children *c) {
    for (int ms = CAUSE_MS; !c->failed && ms > 0; ms--) {
        for (size_t i = 0; !c->failed && i < c->n; i++)
            if (c->list[i].state != CHILD_GONE)
                channel_take(&c->list[i].ctl);
        if (!c->failed)
            usleep(1000);
    }
}

/* A scribe that died leaves records in the rings, and the workers put more there until they end, which they do since it is gone.
 * Another one writes them, and if that is killed a further one; not for ever, for a record could be what kills them. */
static void follow_scribe(struct child *scribe, int status) {
    struct children *c = scribe->all;
    struct errmsg msg = {""};
    state_end_line(c->prepared->log_fd);
    int r = c->followers < FOLLOWERS_MAX && WIFSIGNALED(status)
                ? start_at(c, scribe, ROLE_SCRIBE, 0, &msg)
                : errmsg_set(&msg, ERR_LIMIT, "one that followed on it has ended, too");
    c->followers++;
    if (r == 0 && (r = start_scribe(c, scribe, true)) < 0)
        errmsg_set(&msg, r, "%s", err_text(r));
    if (r < 0)
        log_warn("the last decisions may not have been written: no other scribe can be started: %s",
                 msg.text);
}

static void child_gone(struct child *child, int status) {
    struct children *c = child->all;
    enum child_state before = child->state;
    enum role role = child->role;
    bool expected = before >= CHILD_ENDING;
    child_enter(child, CHILD_GONE);
    channel_close(&child->ctl);
    bool left = c->followers || (before != CHILD_STARTING && WIFSIGNALED(status));
    if (role == ROLE_SCRIBE && before != CHILD_DRAINED && left)
        follow_scribe(child, status);
    if (!expected && WIFEXITED(status) && WEXITSTATUS(status) == ROLE_PEER_GONE)
        tell_cause(c);
    expected = expected || c->failed;
    if (!expected && WIFSIGNALED(status))
        fail(c, "exeat: the %s was ended by signal %d (%s)", role_name(role), WTERMSIG(status),
             strsignal(WTERMSIG(status)));
    else if (!expected)
        fail(c, "exeat: the %s has ended (status %d)", role_name(role), WEXITSTATUS(status));
    drain_on(c);
}

/* The socket ends a moment before the process does. A role that closes it and lives on is not ours any more. */
static void on_closed(struct channel *ctl, int err) {
    struct child *child = ctl->arg;
    int status = 0;
    if (err == ERR_PEER)
        fail(child->all, "exeat: a message of the %s is malformed", role_name(child->role));
    if (!wait_child(child->pid, &status, err == ERR_EOF ? CAUSE_MS : 0)) {
        kill(child->pid, SIGKILL);
        while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
            continue;
    }
    child_gone(child, status);
}

static const struct channel_ops ctl_ops = {on_message, on_closed};

void children_drain(struct children *c) {
    if (c->draining)
        return;
    c->draining = true;
    for (size_t i = 0; i < c->n; i++)
        if (c->list[i].role == ROLE_WORKER)
            child_tell_end(&c->list[i]);
    drain_on(c);
}

int children_send_workers(struct children *c, const struct msg_out *m) {
    int r = 0;
    for (size_t i = 0; i < c->n; i++) {
        bool runs = c->list[i].role == ROLE_WORKER && c->list[i].state != CHILD_GONE;
        int one = runs ? channel_send(&c->list[i].ctl, m) : 0;
        r = r < 0 ? r : one;
    }
    return r;
}

int children_send_keeper(struct children *c, const struct msg_out *m) {
    struct child *keeper = find_child(c, ROLE_KEEPER);
    return keeper && keeper->state != CHILD_GONE ? channel_send(&keeper->ctl, m) : ERR_EOF;
}

void children_kill(struct children *c) {
    for (size_t i = 0; i < c->n; i++)
        if (c->list[i].state != CHILD_GONE)
            kill(c->list[i].pid, SIGKILL);
    for (size_t i = 0; i < c->n; i++) {
        struct child *child = &c->list[i];
        if (child->state == CHILD_GONE)
            continue;
        while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
            continue;
        child_enter(child, CHILD_GONE);
        channel_close(&child->ctl);
    }
    for (size_t i = 0; c->base && i < CONFIG_WORKERS_MAX; i++) {
        for (int which = 0; which < 2; which++)
            if (c->peers[i][which] >= 0)
                close(c->peers[i][which]);
        ring_free(c->rings[i]);
    }
    c->base = NULL;
    c->n = 0;
}
