#include "proxy/process/terminal.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "netns/sandbox.h"
#include "proxy/process/signals.h"

static int terminal = -1;

void terminal_note(void) {
    terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
}

/* tcsetpgrp from the background would stop us. */
static void with_ttou_blocked(sigset_t *before) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTTOU);
    sigprocmask(SIG_BLOCK, &set, before);
}

void terminal_take_back(void) {
    sigset_t before;
    with_ttou_blocked(&before);
    sandbox_take_terminal();
    sigprocmask(SIG_SETMASK, &before, NULL);
}

/* As the rest of the group in one system call: were this process to stop a moment after it, the shell could have continued the
 * group in between, and nothing would wake this process again. */
static void stop_group(void) {
    struct sigaction before, action = {.sa_handler = SIG_DFL};
    sigaction(SIGTSTP, &action, &before);
    kill(0, SIGTSTP);
    sigaction(SIGTSTP, &before, NULL);
}

void terminal_suspend(int sig) {
    pid_t group = terminal >= 0 ? tcgetpgrp(terminal) : -1;
    /* a job that was stopped for being in the background, and is in the foreground by now */
    if ((sig == SIGTTIN || sig == SIGTTOU) && group == getpgrp())
        return;
    terminal_take_back();
    if (sig == SIGTSTP)
        stop_group();
    else
        kill(getpid(), SIGSTOP);
    /* continued */
    pid_t now = terminal >= 0 ? tcgetpgrp(terminal) : -1;
    /* a shell's inside: were it the shell's outside, this was a job in the background, and the terminal is its own by now */
    if (now == getpgrp() && group != now && signals_inside(group))
        (void)tcsetpgrp(terminal, group);
}
