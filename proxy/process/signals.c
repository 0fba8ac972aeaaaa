#include "proxy/process/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What the command is told, or what must not end the supervisor by itself. SIGPIPE: a gone reader of standard error. */
static const int caught[] = {
    SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGPIPE, SIGTSTP,   SIGTTIN,  SIGTTOU,
    SIGCONT, SIGCHLD, SIGURG,  SIGIO,   SIGPWR,  SIGXCPU, SIGXFSZ, SIGPROF, SIGVTALRM, SIGWINCH,
};
#define CAUGHT (sizeof caught / sizeof caught[0])

struct note {
    int sig;
    pid_t from;
};

static struct {
    int pipe[2];
    struct event *event;
    signals_handler *handler;
    void *arg;
    struct sigaction before[CAUGHT];
    bool ours[CAUGHT];
} state = {.pipe = {-1, -1}};

static void on_signal(int sig, siginfo_t *info, void *context) {
    (void)context;
    int saved = errno;
    struct note note = {sig, info->si_code > 0 ? 0 : info->si_pid ? info->si_pid : -1};
    /* a full pipe holds thousands of signals that are yet to be told: one more is no news */
    ssize_t ignored = write(state.pipe[1], &note, sizeof note);
    (void)ignored;
    errno = saved;
}

static void on_readable(evutil_socket_t fd, short what, void *arg) {
    (void)what;
    (void)arg;
    struct note note;
    while (state.event && read(fd, &note, sizeof note) == (ssize_t)sizeof note)
        state.handler(state.arg, note.sig, note.from);
}

int signals_start(struct event_base *base, signals_handler *handler, void *arg) {
    if (pipe2(state.pipe, O_CLOEXEC | O_NONBLOCK) < 0)
        return ERR_IO;
    state.handler = handler;
    state.arg = arg;
    state.event = event_new(base, state.pipe[0], EV_READ | EV_PERSIST, on_readable, NULL);
    if (!state.event || event_add(state.event, NULL) < 0) {
        signals_stop();
        return ERR_NOMEM;
    }
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < CAUGHT; i++) {
        if (sigaction(caught[i], NULL, &state.before[i]) < 0)
            continue;
        /* an ignored SIGCHLD would reap the roles behind our back */
        if (state.before[i].sa_handler == SIG_IGN && caught[i] != SIGCHLD)
            continue;
        state.ours[i] = sigaction(caught[i], &action, NULL) == 0;
    }
    return 0;
}

static void leave(size_t i) {
    if (state.ours[i])
        sigaction(caught[i], &state.before[i], NULL);
    state.ours[i] = false;
}

void signals_leave(int sig) {
    for (size_t i = 0; i < CAUGHT; i++)
        if (caught[i] == sig)
            leave(i);
}

void signals_stop(void) {
    for (size_t i = 0; i < CAUGHT; i++)
        leave(i);
    if (state.event)
        event_free(state.event);
    state.event = NULL;
    for (int i = 0; i < 2; i++) {
        if (state.pipe[i] >= 0)
            close(state.pipe[i]);
        state.pipe[i] = -1;
    }
}

/* How many pid namespaces deep a process is, as this process's /proc tells it; 0: unknown. */
static int depth(pid_t pid) {
    char path[32], line[256];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "re");
    int n = 0;
    while (f && n == 0 && fgets(line, sizeof line, f))
        if (strncmp(line, "NSpid:", 6) == 0)
            for (char *p = line + 6; *p; p++)
                n += *p == '\t';
    if (f)
        fclose(f);
    return n;
}

bool signals_inside(pid_t pid) {
    return pid > 0 && depth(pid) > depth(getpid());
}
