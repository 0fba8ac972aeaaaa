#include "proxy/process/role.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "base/heap.h"
#include "base/log.h"
#include "base/version.h"
#include "proxy/process/ipc.h"

/* The supervisor's process, or 0 if somebody else has started this. */
static pid_t started_by(int argc, char **argv, const char *name) {
    int type = 0;
    socklen_t n = sizeof type;
    uint64_t parent;
    if (argc != 4 || strncmp(argv[1], ROLE_OPTION, strlen(ROLE_OPTION)) != 0 ||
        strcmp(argv[1] + strlen(ROLE_OPTION), name) != 0 ||
        getsockopt(IPC_FD, SOL_SOCKET, SO_TYPE, &type, &n) < 0 || type != SOCK_SEQPACKET ||
        !slice_u64(slice_str(argv[2]), INT_MAX, &parent))
        return 0;
    return (pid_t)parent;
}

int role_main(int argc, char **argv, const char *name, int (*run)(void)) {
    struct errmsg msg;
    pid_t parent = started_by(argc, argv, name);
    if (parent == 0) {
        fprintf(stderr, "exeat-%s: a part of exeat(1), which starts it\n", name);
        return 2;
    }
    prctl(PR_SET_NAME, name);
    fcntl(IPC_FD, F_SETFD, FD_CLOEXEC);
    log_setup(name, LOG_LEVEL_WARN);
    int r = version_check(argv[3], &msg);
    if (r == 0)
        r = confine_begin(parent, &msg);
    if (r == 0)
        return run();
    log_error("%s", msg.text);
    return 1;
}

/* The library runs what asks for its next turn from within a turn until there is nothing of that kind, before it looks at sockets
 * again: who asked for ever would be the last one that is served. */
static struct event_base *role_base_new(void) {
    struct event_config *config = event_config_new();
    struct event_base *base = NULL;
    if (config && event_config_set_max_dispatch_interval(config, NULL, ROLE_TURNS, 0) == 0)
        base = event_base_new_with_config(config);
    if (config)
        event_config_free(config);
    return base;
}

static void on_settle(evutil_socket_t fd, short what, void *arg) {
    (void)fd;
    (void)what;
    (void)arg;
    heap_settle();
}

void role_settle(struct role_base *b) {
    static const struct timeval rest = {.tv_usec = HEAP_SETTLE_MS * 1000};
    (void)event_add(b->settle, &rest);
}

int role_open(struct role_base *b, const struct channel_ops *ops, void *arg) {
    *b = (struct role_base){.base = role_base_new()};
    if (!b->base || !(b->settle = evtimer_new(b->base, on_settle, NULL)))
        return ERR_NOMEM;
    return channel_open(&b->ctl, b->base, IPC_FD, false, ops, arg);
}

static const int tells[ROLE_SIGNALS] = {SIGTERM, SIGINT, SIGHUP};
static void (*on_told)(struct role_base *b); /* one role a process */

static void role_told(evutil_socket_t sig, short what, void *arg) {
    struct role_base *b = arg;
    (void)what;
    if (b->told_by)
        return;
    b->told_by = (int)sig;
    on_told(b);
}

int role_on_told(struct role_base *b, void (*told)(struct role_base *b)) {
    on_told = told;
    for (size_t i = 0; i < ROLE_SIGNALS; i++) {
        b->told[i] = evsignal_new(b->base, tells[i], role_told, b);
        if (!b->told[i] || event_add(b->told[i], NULL) < 0)
            return ERR_NOMEM;
    }
    return 0;
}

void role_outlives(void) {
    for (size_t i = 0; i < ROLE_SIGNALS; i++)
        signal(tells[i], SIG_IGN);
}

void role_loop(struct role_base *b) {
    if (event_base_dispatch(b->base) < 0)
        b->status = 1;
}

int role_close(struct role_base *b) {
    channel_close(&b->ctl);
    for (size_t i = 0; i < ROLE_SIGNALS; i++)
        if (b->told[i])
            event_free(b->told[i]);
    event_free(b->settle);
    event_base_free(b->base);
    if (b->told_by) {
        signal(b->told_by, SIG_DFL);
        raise(b->told_by);
    }
    return b->status;
}

void role_end(struct role_base *b, int status) {
    b->status = status;
    event_base_loopbreak(b->base);
}

int role_failed(struct role_base *b, int err, struct slice text) {
    struct msg_out m;
    msg_begin(&m, msg_room.out, sizeof msg_room.out, IPC_FAILED);
    msg_put_slice(&m, slice_sub(text, 0, IPC_TEXT_MAX));
    (void)channel_send(&b->ctl, &m);
    role_end(b, 1);
    return err;
}

int role_ready(struct role_base *b, enum confine_role confine, const struct msg_out *ready) {
    struct errmsg msg;
    /* a reader of standard error that is gone ends nobody; helpers of the keeper have run by now and did not inherit this */
    signal(SIGPIPE, SIG_IGN);
    /* a log that reaches the user's limit for files is a gap that is counted, not an end */
    signal(SIGXFSZ, SIG_IGN);
    int r = confine_role(confine, &msg);
    if (r < 0)
        return role_failed(b, r, slice_str(msg.text));
    if (ready->err)
        return role_failed(b, ready->err, SLICE("a message to the supervisor is too long"));
    role_settle(b);
    return channel_send(&b->ctl, ready);
}

int role_ready_plain(struct role_base *b, enum confine_role confine) {
    uint8_t memory[16];
    struct msg_out m;
    msg_begin(&m, memory, sizeof memory, IPC_READY);
    return role_ready(b, confine, &m);
}

void role_supervisor_gone(struct channel *c, int err) {
    struct role_base *b = c->arg;
    if (b->status) /* it ends already, and why is known: what was sent meanwhile is no matter */
        return;
    if (err == ERR_PEER)
        log_error("a message of the supervisor is malformed");
    role_end(b, err == ERR_EOF ? 0 : 1);
}
