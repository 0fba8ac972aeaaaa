#include "proxy/process/supervisor.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "netns/doctor.h"
#include "proxy/process/cage.h"
#include "proxy/process/children.h"
#include "proxy/process/handover.h"
#include "proxy/process/ipc.h"
#include "proxy/process/prepare.h"
#include "proxy/process/replaced.h"
#include "proxy/process/service_client.h"
#include "proxy/process/signals.h"
#include "proxy/process/terminal.h"
#include "vault/client.h"

/*
 *     PHASE_STARTING --> PHASE_RUNNING --> PHASE_ENDING --> PHASE_OVER
 *             +--------------------------------^
 *
 * enter() is the one writer. It goes on in one direction only.
 */
enum phase {
    PHASE_STARTING, /* roles are being started; there is no sandbox */
    PHASE_RUNNING,  /* the command runs */
    PHASE_ENDING,   /* it has ended, or must not run: the roles end */
    PHASE_OVER,     /* nobody is waited for any more */
};

struct supervisor {
    struct event_base *base;
    struct config *config;
    const struct sandbox_inherit *inherit;
    struct prepared prepared;
    struct children children;     /* of its own, or … */
    struct service_client client; /* … those of a service (CONFIG_JOIN) */
    struct replaced *replaced;    /* NULL: nothing is looked after, or a service does */
    struct cage_trust *trust;     /* until the sandbox has it */
    struct sandbox sandbox;
    bool sandboxed;       /* `sandbox` has to be released */
    bool made;            /* … and waits for sandbox_exec */
    bool confined;        /* all roles are */
    struct event *making; /* until it is made */
    struct event *sandbox_event;
    enum phase phase;
    int status; /* exit status, once decided */
};

static void enter(struct supervisor *s, enum phase phase) {
    assert(phase > s->phase && (phase != PHASE_OVER || s->phase == PHASE_ENDING));
    s->phase = phase;
}

static bool joins(const struct supervisor *s) {
    return s->config->kind == CONFIG_JOIN;
}

static void say(const char *text) {
    size_t n = strlen(text);
    fprintf(stderr, "%s%s", text, n && text[n - 1] == '\n' ? "" : "\n");
}

/* --- the end -------------------------------------------------------------------------------------------------------- */

/* After this nothing of the sandbox is left, and the terminal is ours. Once is enough. */
static void clear_away(struct supervisor *s) {
    if (!s->sandboxed)
        return;
    sandbox_release(&s->sandbox);
    s->sandboxed = false;
    terminal_take_back();
}

/* May be said more than once, by whoever has ended last. */
static void over(struct supervisor *s) {
    if (s->phase == PHASE_OVER)
        return;
    clear_away(s);
    enter(s, PHASE_OVER);
    event_base_loopbreak(s->base);
}

/* The one way to the end. The sandbox is ended first: whatever happened, nothing in it runs on. The roles end while the kernel clears it
 * away. */
static void end(struct supervisor *s, int status) {
    if (s->phase >= PHASE_ENDING)
        return;
    bool started = s->phase == PHASE_RUNNING;
    enter(s, PHASE_ENDING);
    s->status = status;
    if (s->making)
        event_del(s->making);
    if (s->sandbox_event)
        event_del(s->sandbox_event);
    if (s->sandboxed)
        sandbox_kill(&s->sandbox);
    /* where no command ran there is nothing to be recorded, and nobody to wait for */
    if (!started)
        over(s);
    else if (joins(s))
        service_leave(&s->client);
    else
        children_drain(&s->children);
}

/* The same where there is something to be said of it, which comes after all that the sandbox may have said. */
static void finish(struct supervisor *s, int status) {
    end(s, status);
    clear_away(s);
}

static void on_ended(void *arg) {
    over(arg);
}

/* The service has recorded the sandbox's end, or is gone itself, of which on_failed has told. */
static void on_left(void *arg) {
    struct supervisor *s = arg;
    if (s->phase == PHASE_ENDING)
        over(s);
}

/* A role can't work, or is gone. What follows from the first failure is not told too. */
static void on_failed(void *arg, const char *text) {
    struct supervisor *s = arg;
    if (s->phase >= PHASE_ENDING && s->status == STATUS_FAILED)
        return;
    bool running = s->phase == PHASE_RUNNING;
    /* first the end of the sandbox, then words about it */
    if (s->phase == PHASE_ENDING)
        s->status = STATUS_FAILED;
    finish(s, STATUS_FAILED);
    say(text);
    if (running)
        say("exeat: the sandbox was ended, since it has no way out without it");
}

/* --- the sandbox ------------------------------------------------------------------------------------------------------ */

static void on_stopped(struct supervisor *s, int sig) {
    terminal_suspend(sig);
    sandbox_signal(&s->sandbox, SIGCONT);
}

static void on_sandbox(evutil_socket_t fd, short what, void *arg) {
    struct supervisor *s = arg;
    struct sandbox_event event;
    (void)fd;
    (void)what;
    while (s->phase == PHASE_RUNNING && sandbox_event(&s->sandbox, &event) == 0) {
        switch (event.kind) {
        case SANDBOX_EXITED: end(s, event.value); break;
        case SANDBOX_KILLED: end(s, 128 + event.value); break;
        case SANDBOX_STOPPED: on_stopped(s, event.value); break;
        case SANDBOX_CONTINUED: break;
        case SANDBOX_EXEC_FAILED:
            finish(s, sandbox_exec_status(event.value));
            log_error("%s: %s", s->config->sandbox.argv[0], strerror(event.value));
            break;
        case SANDBOX_GONE:
            finish(s, STATUS_FAILED);
            log_error("the sandbox's first process is gone, and all others with it");
            break;
        }
    }
}

static int send_sandbox(struct supervisor *s) {
    const struct prepared_sandbox *p = &s->prepared.sandbox;
    uint8_t memory[512];
    struct msg_out m;
    if (joins(s))
        return service_open(&s->client, &s->sandbox.listeners);
    msg_begin(&m, memory, sizeof memory, IPC_SANDBOX);
    msg_put_u64(&m, p->id);
    msg_put_str(&m, p->config->name);
    handover_put(&m, p, &s->sandbox.listeners);
    return children_send_workers(&s->children, &m);
}

/* After this the workers alone hold the listeners: with the last worker the way out is gone. */
static int hand_over(struct supervisor *s) {
    struct sandbox_listeners *l = &s->sandbox.listeners;
    int *fds[] = {&l->tcp4, &l->tcp6, &l->dns_udp4, &l->dns_udp6, &l->dns_tcp4, &l->dns_tcp6};
    int r = send_sandbox(s);
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
    return r;
}

static int grant(struct supervisor *s) {
    const struct policy *policy = s->prepared.sandbox.policy;
    size_t n = policy_credential_count(policy);
    const char **names = calloc(n + 1, sizeof *names);
    if (!names)
        return ERR_NOMEM;
    for (size_t i = 0; i < n; i++)
        names[i] = policy_credential(policy, i);
    struct msg_out m;
    vault_put_grant(&m, msg_room.out, sizeof msg_room.out, s->prepared.sandbox.id, names, n);
    free(names);
    return children_send_keeper(&s->children, &m);
}

/* Why no sandbox can be made here: what the doctor finds, in its words; else what went wrong. */
static void say_why(int err, const struct errmsg *msg) {
    struct doctor_report *report = err == ERR_UNSUPPORTED ? calloc(1, sizeof *report) : NULL;
    log_error("no sandbox can be made: %s", msg->text);
    if (report) {
        doctor_check(report);
        for (size_t i = 0; i < report->n; i++) {
            const struct doctor_finding *f = &report->list[i];
            if (f->severity != DOCTOR_ERROR)
                continue;
            fprintf(stderr, "%s%s%s\n", f->what, f->why[0] ? ": " : "", f->why);
            if (f->todo[0])
                fprintf(stderr, "%s\n", f->todo);
        }
        say("('exeat doctor' says more about this host)");
    }
    free(report);
}

static void no_sandbox(struct supervisor *s, int err, const struct errmsg *msg) {
    finish(s, STATUS_FAILED);
    say_why(err, msg);
}

static int run_command(struct supervisor *s, struct errmsg *msg) {
    s->sandbox_event = event_new(s->base, s->sandbox.fd, EV_READ | EV_PERSIST, on_sandbox, s);
    if (!s->sandbox_event || event_add(s->sandbox_event, NULL) < 0)
        return errmsg_set(msg, ERR_NOMEM, "out of memory");
    int r = hand_over(s);
    if (r == ERR_EOF)
        return r;
    if (r < 0)
        return errmsg_set(msg, r, "listeners can't be handed over: %s", err_text(r));
    return sandbox_exec(&s->sandbox, msg);
}

/* No listener leaves this process before all roles are confined. */
static void run_if_ready(struct supervisor *s) {
    struct errmsg msg = {""};
    if (s->phase != PHASE_STARTING || !s->made || !s->confined)
        return;
    int r = run_command(s, &msg);
    if (r == 0) {
        enter(s, PHASE_RUNNING);
        prepare_settle(&s->prepared, s->base);
    }
    if (r == 0 || !msg.text[0]) /* a worker is gone: on_failed follows with the reason */
        return;
    finish(s, STATUS_FAILED);
    log_error("%s", msg.text);
}

static void on_making(evutil_socket_t fd, short what, void *arg) {
    struct supervisor *s = arg;
    struct errmsg msg = {""};
    (void)fd;
    if (s->phase != PHASE_STARTING)
        return;
    int r = what & EV_TIMEOUT
                ? errmsg_set(&msg, ERR_TIMEOUT, "sandbox: not ready after %d s", SANDBOX_START_MS / 1000)
                : sandbox_ready(&s->sandbox, &msg);
    if (r == ERR_AGAIN)
        return;
    event_del(s->making);
    s->made = r == 0;
    if (r < 0)
        no_sandbox(s, r, &msg);
    else
        run_if_ready(s);
}

/* The keeper was made with the environment that it needs: nothing of that stays in this process,
 * nor comes into the one that is forked here. */
static void begin_sandbox(struct supervisor *s) {
    static const struct timeval limit = {SANDBOX_START_MS / 1000, 0};
    struct errmsg msg = {""};
    if (s->prepared.vault)
        vault_wipe_env(s->prepared.vault);
    int r = cage_start(&s->prepared, environ, s->inherit, &s->sandbox, &msg);
    s->sandboxed = r == 0;
    if (r == 0) {
        s->making = event_new(s->base, s->sandbox.fd, EV_READ | EV_PERSIST, on_making, s);
        if (!s->making || event_add(s->making, &limit) < 0)
            r = errmsg_set(&msg, ERR_NOMEM, "out of memory");
    }
    if (r < 0)
        no_sandbox(s, r, &msg);
}

/* The sandbox learns our root; all else that it trusts has been gathered. */
static void give_trust(struct supervisor *s, int r, struct slice ca_pem, uint32_t ca_hash,
                       struct errmsg *msg) {
    if (r == 0)
        r = cage_trust(s->trust, ca_pem, ca_hash, &s->sandbox, msg);
    cage_trust_free(s->trust);
    s->trust = NULL;
    if (r < 0)
        no_sandbox(s, r, msg);
}

static void on_keeper_ready(void *arg, struct slice ca_pem, uint32_t ca_hash) {
    struct supervisor *s = arg;
    struct errmsg msg = {""};
    if (s->phase != PHASE_STARTING)
        return;
    int r = grant(s);
    if (r == ERR_EOF)
        return; /* it is gone: on_failed follows with the reason */
    if (r < 0)
        errmsg_set(&msg, r, "credentials can't be granted: %s", err_text(r));
    give_trust(s, r, ca_pem, ca_hash, &msg);
}

static void on_ready(void *arg) {
    struct supervisor *s = arg;
    s->confined = true;
    run_if_ready(s);
}

static void on_refused(void *arg, uint64_t id, struct slice why) {
    struct supervisor *s = arg;
    struct errmsg msg;
    (void)id;
    if (s->phase >= PHASE_ENDING)
        return;
    errmsg_set(&msg, ERR_IO, "exeat: the sandbox gets no way out: %.*s", SLICE_ARG(why));
    on_failed(s, msg.text);
}

/* These are told to services. */
static void on_sandbox_ended(void *arg, uint64_t id) {
    (void)arg;
    (void)id;
}

static const struct children_ops children_ops = {
    .keeper_ready = on_keeper_ready,
    .ready = on_ready,
    .failed = on_failed,
    .ended = on_ended,
    .sandbox_refused = on_refused,
    .sandbox_ended = on_sandbox_ended,
    .flushed = on_sandbox_ended,
};

/* --- with a service ----------------------------------------------------------------------------------------------------- */

/* Its roles are there already: the sandbox is all that is missing. */
static void on_joined(void *arg, struct slice ca_pem, uint32_t ca_hash) {
    struct supervisor *s = arg;
    struct errmsg msg = {""};
    if (s->phase != PHASE_STARTING)
        return;
    begin_sandbox(s);
    if (s->phase != PHASE_STARTING)
        return;
    int r = prepare_roots(&s->prepared, &msg);
    if (r == 0)
        r = cage_gather(&s->prepared, environ, &s->trust, &msg);
    give_trust(s, r, ca_pem, ca_hash, &msg);
    on_ready(s);
}

static const struct service_client_ops client_ops = {on_joined, on_failed, on_left};

/* --- files of secrets ---------------------------------------------------------------------------------------------------- */

static void on_replaced(void *arg, const char *path) {
    struct supervisor *s = arg;
    if (s->phase >= PHASE_ENDING)
        return;
    finish(s, STATUS_FAILED);
    log_error(REPLACED, path);
}

/* A host that has nothing left to watch files by is no reason to have no sandbox: only who puts a file in the place of another does harm. */
static void watch_files(struct supervisor *s) {
    struct errmsg msg = {""};
    if (replaced_watch(s->base, &s->prepared, on_replaced, s, &s->replaced, &msg) < 0)
        log_warn("a secret's file that is replaced while the sandbox runs could be read in it: %s", msg.text);
}

/* --- signals ---------------------------------------------------------------------------------------------------------- */

static bool deadly(int sig) {
    return sig == SIGHUP || sig == SIGINT || sig == SIGQUIT || sig == SIGTERM;
}

static void on_signal(void *arg, int sig, pid_t from) {
    struct supervisor *s = arg;
    if (s->phase == PHASE_STARTING && deadly(sig)) {
        finish(s, 128 + sig);
        return;
    }
    if (s->phase != PHASE_RUNNING || sig == SIGCHLD || sig == SIGPIPE || sig == SIGURG || sig == SIGWINCH)
        return;
    /* The terminal's reach the command by themselves, as do those that it sent to its own process group. A hang-up is told to the
     * session's leader alone, which may be this process. */
    if ((from == 0 && sig != SIGHUP) || from == getpid() || signals_inside(from))
        return;
    sandbox_signal(&s->sandbox, sig);
}

/* ------------------------------------------------------------------------------------------------------------------------ */

/* A password on the command line is there for all who can list processes, until here. */
static void hide(char *text) {
    if (text)
        memset(text, '*', strlen(text));
}

/* The keeper first, then the sandbox, since whatever else there is to do goes on beside these two. */
static int start(struct supervisor *s, struct errmsg *msg) {
    if (joins(s))
        return service_join(&s->client, s->base, &s->prepared, &client_ops, s, msg);
    watch_files(s);
    int r = children_start(&s->children, s->base, &s->prepared, &children_ops, s, msg);
    if (r == 0)
        begin_sandbox(s);
    if (r == 0 && s->phase == PHASE_STARTING && (r = prepare_roots(&s->prepared, msg)) == 0)
        r = children_start_others(&s->children, msg);
    if (r == 0 && s->phase == PHASE_STARTING)
        r = cage_gather(&s->prepared, environ, &s->trust, msg);
    hide(s->config->redis);
    return r;
}

static int supervise(struct supervisor *s) {
    struct errmsg msg = {""};
    s->base = event_base_new();
    if (!s->base || signals_start(s->base, on_signal, s) < 0) {
        log_error("the event loop can't be made");
        return STATUS_FAILED;
    }
    terminal_note();
    if (start(s, &msg) < 0) {
        log_error("%s", msg.text);
        return STATUS_FAILED;
    }
    while (s->phase != PHASE_OVER)
        if (event_base_loop(s->base, EVLOOP_ONCE) != 0)
            break;
    return s->phase == PHASE_OVER ? s->status : STATUS_FAILED;
}

static void supervisor_release(struct supervisor *s) {
    if (s->sandboxed)
        sandbox_release(&s->sandbox);
    children_kill(&s->children);
    service_client_release(&s->client);
    if (s->making)
        event_free(s->making);
    if (s->sandbox_event)
        event_free(s->sandbox_event);
    replaced_free(s->replaced);
    signals_stop();
    if (s->base)
        event_base_free(s->base);
    cage_trust_free(s->trust);
    prepare_release(&s->prepared);
}

int supervisor_run(struct config *config, const struct sandbox_inherit *inherit) {
    static struct supervisor s;
    s.config = config;
    s.inherit = inherit;
    s.status = STATUS_FAILED;
    /* not to be read by others of the same user: environment, descriptors, memory */
    prctl(PR_SET_DUMPABLE, 0);
    umask(077);
    struct buf text;
    buf_init(&text, PREPARE_TEXT_MAX);
    int status = STATUS_FAILED;
    if (prepare(config, &s.prepared, &text) < 0)
        fwrite(buf_slice(&text).p, 1, buf_len(&text), stderr);
    else
        status = supervise(&s);
    buf_release(&text);
    supervisor_release(&s);
    return status;
}
