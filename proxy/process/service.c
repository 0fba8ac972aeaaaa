#include "proxy/process/service.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "proxy/process/children.h"
#include "proxy/process/members.h"
#include "proxy/process/replaced.h"
#include "proxy/process/service_socket.h"
#include "proxy/process/signals.h"

#define ACCEPT_BURST 32
#define ACCEPT_MS    200 /* after descriptors ran out */

/*
 *     SERVICE_STARTING --> SERVICE_SERVING --> SERVICE_ENDING --> SERVICE_OVER
 *             +-----------------------------------^
 *
 * enter() is the one writer. It goes on in one direction only.
 */
enum service_phase {
    SERVICE_STARTING, /* roles are being started; nobody can join */
    SERVICE_SERVING,
    SERVICE_ENDING, /* nobody is there any more; the roles end */
    SERVICE_OVER,   /* nobody is waited for any more */
};

struct service {
    struct event_base *base;
    struct config *config;
    struct prepared prepared;
    struct children children;
    struct members members;
    struct buf ca_pem;
    int lock, fd;
    struct event *joining, *retry;
    struct replaced *replaced;
    enum service_phase phase;
    int status;
};

static void enter(struct service *s, enum service_phase phase) {
    assert(phase > s->phase && (phase != SERVICE_OVER || s->phase == SERVICE_ENDING));
    s->phase = phase;
}

/* --- the end ---------------------------------------------------------------------------------------------------------- */

static void over(struct service *s) {
    if (s->phase == SERVICE_OVER)
        return;
    enter(s, SERVICE_OVER);
    event_base_loopbreak(s->base);
}

static void end(struct service *s, int status) {
    if (s->phase >= SERVICE_ENDING)
        return;
    bool served = s->phase == SERVICE_SERVING;
    enter(s, SERVICE_ENDING);
    s->status = status;
    if (s->joining)
        event_del(s->joining);
    if (s->fd >= 0)
        service_unlisten(s->prepared.state_fd, s->lock);
    /* who has joined ends its sandbox; what is under way in it is recorded by the workers at their end */
    members_close(&s->members);
    if (!served)
        over(s);
    else
        children_drain(&s->children);
}

static void on_ended(void *arg) {
    over(arg);
}

/* A role can't work, or is gone. What follows from the first failure is not told too. */
static void on_failed(void *arg, const char *text) {
    struct service *s = arg;
    if (s->phase >= SERVICE_ENDING && s->status == STATUS_FAILED)
        return;
    size_t n = strlen(text);
    fprintf(stderr, "%s%s", text, n && text[n - 1] == '\n' ? "" : "\n");
    if (s->phase == SERVICE_SERVING && s->members.n)
        fprintf(stderr, "exeat: the sandboxes are ended, since they have no way out without it\n");
    s->status = STATUS_FAILED;
    end(s, STATUS_FAILED);
}

/* --- joining ---------------------------------------------------------------------------------------------------------- */

static void on_retry(evutil_socket_t fd, short what, void *arg) {
    struct service *s = arg;
    (void)fd;
    (void)what;
    if (s->phase == SERVICE_SERVING)
        event_add(s->joining, NULL);
}

/* Who waits in the socket's queue goes on waiting. */
static void rest(struct service *s) {
    static const struct timeval wait = {.tv_usec = ACCEPT_MS * 1000};
    log_warn("nobody can join for a moment: %s", strerror(errno));
    event_del(s->joining);
    event_add(s->retry, &wait);
}

static void on_joining(evutil_socket_t listener, short what, void *arg) {
    struct service *s = arg;
    (void)what;
    for (int i = 0; i < ACCEPT_BURST && s->phase == SERVICE_SERVING; i++) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
                rest(s);
            return;
        }
        int r = members_take(&s->members, fd);
        if (r < 0)
            log_warn("who has tried to join was turned away: %s", err_text(r));
    }
}

static void on_keeper_ready(void *arg, struct slice ca_pem, uint32_t ca_hash) {
    struct service *s = arg;
    if (buf_put(&s->ca_pem, ca_pem) < 0) {
        on_failed(s, "exeat: out of memory");
        return;
    }
    s->members.ca_pem = buf_slice(&s->ca_pem);
    s->members.ca_hash = ca_hash;
}

static void on_ready(void *arg) {
    struct service *s = arg;
    struct errmsg msg;
    if (s->phase != SERVICE_STARTING)
        return;
    if (!members_possible(&s->members)) {
        on_failed(s, "exeat: the vault has more files and variables than a service can tell of to whoever "
                     "joins: their names may "
                     "take 60,000 bytes");
        return;
    }
    s->fd = service_listen(s->prepared.state_dir, s->prepared.state_fd, &s->lock, &msg);
    if (s->fd >= 0) {
        s->joining = event_new(s->base, s->fd, EV_READ | EV_PERSIST, on_joining, s);
        s->retry = event_new(s->base, -1, 0, on_retry, s);
        if (!s->joining || !s->retry || event_add(s->joining, NULL) < 0)
            errmsg_set(&msg, ERR_NOMEM, "out of memory");
        else
            enter(s, SERVICE_SERVING);
    }
    if (s->phase == SERVICE_SERVING) {
        prepare_settle(&s->prepared, s->base);
        if (s->config->verbosity != IPC_QUIET)
            fprintf(stderr, "exeat: serving; run sandboxes by: exeat run --service --state %s ...\n",
                    s->prepared.state_dir);
        return;
    }
    errmsg_prefix(&msg, "exeat");
    on_failed(s, msg.text);
}

static void on_refused(void *arg, uint64_t id, struct slice why) {
    struct service *s = arg;
    members_refused(&s->members, id, why);
}

static void on_sandbox_ended(void *arg, uint64_t id) {
    struct service *s = arg;
    members_ended(&s->members, id);
}

static void on_flushed(void *arg, uint64_t id) {
    struct service *s = arg;
    members_flushed(&s->members, id);
}

static const struct children_ops children_ops = {
    .keeper_ready = on_keeper_ready,
    .ready = on_ready,
    .failed = on_failed,
    .ended = on_ended,
    .sandbox_refused = on_refused,
    .sandbox_ended = on_sandbox_ended,
    .flushed = on_flushed,
};

/* ------------------------------------------------------------------------------------------------------------------------ */

/* A shell has a service as any job: no command of ours is to be told of that first. */
static void leave_job_control(void) {
    static const int stops[] = {SIGTSTP, SIGTTIN, SIGTTOU};
    for (size_t i = 0; i < sizeof stops / sizeof stops[0]; i++)
        signals_leave(stops[i]);
}

static void on_replaced(void *arg, const char *path) {
    struct service *s = arg;
    if (s->phase >= SERVICE_ENDING)
        return;
    log_error(REPLACED, path);
    end(s, STATUS_FAILED);
}

static void on_signal(void *arg, int sig, pid_t from) {
    (void)from;
    if (sig == SIGTERM || sig == SIGINT || sig == SIGHUP || sig == SIGQUIT)
        end(arg, 0);
}

static int start(struct service *s, struct errmsg *msg) {
    int r = replaced_watch(s->base, &s->prepared, on_replaced, s, &s->replaced, msg);
    if (r == 0)
        r = children_start(&s->children, s->base, &s->prepared, &children_ops, s, msg);
    if (r == 0 && s->prepared.vault)
        vault_wipe_env(s->prepared.vault); /* the keeper has what it needs */
    if (r == 0)
        r = prepare_roots(&s->prepared, msg);
    if (r == 0)
        r = children_start_others(&s->children, msg);
    if (s->config->redis)
        memset(s->config->redis, '*',
               strlen(s->config->redis)); /* it may hold a password, and all can list it */
    return r;
}

static int serve(struct service *s) {
    struct errmsg msg = {""};
    s->base = event_base_new();
    if (!s->base || signals_start(s->base, on_signal, s) < 0) {
        log_error("the event loop can't be made");
        return STATUS_FAILED;
    }
    leave_job_control();
    s->members.base = s->base;
    if (start(s, &msg) < 0) {
        log_error("%s", msg.text);
        return STATUS_FAILED;
    }
    while (s->phase != SERVICE_OVER)
        if (event_base_loop(s->base, EVLOOP_ONCE) != 0)
            break;
    return s->phase == SERVICE_OVER ? s->status : STATUS_FAILED;
}

static void service_release(struct service *s) {
    struct event *events[] = {s->joining, s->retry};
    members_close(&s->members);
    children_kill(&s->children);
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++)
        if (events[i])
            event_free(events[i]);
    replaced_free(s->replaced);
    signals_stop();
    if (s->base)
        event_base_free(s->base);
    if (s->fd >= 0)
        close(s->fd);
    if (s->lock >= 0)
        close(s->lock);
    buf_release(&s->ca_pem);
    prepare_release(&s->prepared);
}

int service_run(struct config *config) {
    static struct service s;
    s.config = config;
    s.status = STATUS_FAILED;
    s.lock = s.fd = -1;
    s.members.prepared = &s.prepared;
    s.members.children = &s.children;
    /* not to be read by others of the same user: environment, descriptors, memory */
    prctl(PR_SET_DUMPABLE, 0);
    umask(077);
    struct buf text;
    buf_init(&text, PREPARE_TEXT_MAX);
    buf_init(&s.ca_pem, CA_BUNDLE_MAX);
    int status = STATUS_FAILED;
    if (prepare(config, &s.prepared, &text) < 0)
        fwrite(buf_slice(&text).p, 1, buf_len(&text), stderr);
    else
        status = serve(&s);
    buf_release(&text);
    service_release(&s);
    return status;
}
