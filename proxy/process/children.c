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
#include "proxy/process/children_start.h"
#include "proxy/process/ipc.h"
#include "proxy/process/role.h"
#include "proxy/process/state.h"
#include "proxy/record/ring.h"

#define FOLLOWERS_MAX 3   /* scribes in place of one that was killed */
#define CAUSE_MS      500 /* until the death of a process shows whose sockets have closed */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* --- states ----------------------------------------------------------------------------------------------------------- */

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

static const char *const child_states[] = {"starting", "ready", "ending", "drained", "gone"};
static_assert(COUNT(child_states) == CHILD_STATES, "a name for each state");

void child_enter(struct child *child, enum child_state state) {
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

static struct child *find_child(struct children *c, enum role role) {
    for (size_t i = 0; i < c->n; i++)
        if (c->list[i].role == role)
            return &c->list[i];
    return NULL;
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
    const struct policy *policy = c->prepared->sandbox.policy; /* a service learns of policies later */
    if (unwatched.n && (!policy || policy_may_push(policy)))
        log_warn("not looked for in pushes, since it is too short or too simple: the secret of %.*s",
                 SLICE_ARG(unwatched));
    if (child->role == ROLE_KEEPER) {
        struct msg_out begin;
        msg_begin(&begin, msg_room.out, sizeof msg_room.out, IPC_START);
        msg_put_slice(&begin, pem);
        msg_put_u8(&begin, c->prepared->config->log_query);
        msg_put_u64(&begin, c->prepared->config->push_memory);
        msg_put_u8(&begin, c->prepared->config->kind == CONFIG_SERVE);
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

static int on_sandbox(struct child *worker, struct msg_in *m) {
    bool refused = m->type == IPC_SANDBOX_REFUSED;
    uint64_t id = msg_get_u64(m);
    struct slice why = refused ? msg_get_slice(m) : SLICE_NONE;
    if (msg_end(m) < 0)
        return ERR_PEER;
    if (refused)
        worker->all->ops->sandbox_refused(worker->all->arg, id, why);
    else
        worker->all->ops->sandbox_ended(worker->all->arg, id);
    return 0;
}

static int on_flushed(struct child *scribe, struct msg_in *m) {
    uint64_t number = msg_get_u64(m);
    if (msg_end(m) < 0)
        return ERR_PEER;
    scribe->all->ops->flushed(scribe->all->arg, number);
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
    case IPC_SANDBOX_REFUSED:
    case IPC_SANDBOX_ENDED: return child->role == ROLE_WORKER ? on_sandbox(child, m) : ERR_PEER;
    case IPC_FLUSHED: return child->role == ROLE_SCRIBE ? on_flushed(child, m) : ERR_PEER;
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

static int give_time(struct children *c) {
    static const struct timeval limit = {CHILDREN_END_MS / 1000, CHILDREN_END_MS % 1000 * 1000};
    return event_add(c->deadline, &limit);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg) {
    struct children *c = arg;
    (void)fd;
    (void)what;
    log_warn(CHILDREN_LATE);
    c->ops->ended(c->arg);
}

/* Next step of draining: scribe and keeper end when all workers have said their last. */
static void drain_on(struct children *c) {
    if (!c->draining || !c->deadline)
        return;
    if (!running(c, ROLE_WORKER) && !running(c, ROLE_SCRIBE) && !running(c, ROLE_KEEPER)) {
        c->ops->ended(c->arg);
        return;
    }
    give_time(c);
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
                ? children_start_at(c, scribe, ROLE_SCRIBE, 0, &msg)
                : errmsg_set(&msg, ERR_LIMIT, "one that followed on it has ended, too");
    c->followers++;
    if (r == 0 && (r = children_start_scribe(c, scribe, true)) < 0)
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

const struct channel_ops children_ctl_ops = {on_message, on_closed};

void children_drain(struct children *c) {
    if (c->draining)
        return;
    c->draining = true;
    c->deadline = event_new(c->base, -1, 0, on_deadline, c);
    if (!c->deadline || give_time(c) < 0) {
        c->ops->ended(c->arg);
        return;
    }
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

int children_send_scribe(struct children *c, const struct msg_out *m) {
    struct child *scribe = find_child(c, ROLE_SCRIBE);
    return scribe && scribe->state != CHILD_GONE ? channel_send(&scribe->ctl, m) : ERR_EOF;
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
    if (c->deadline)
        event_free(c->deadline);
    c->deadline = NULL;
    c->base = NULL;
    c->n = 0;
}
