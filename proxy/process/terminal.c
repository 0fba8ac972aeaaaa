#include "proxy/process/terminal.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "netns/sandbox.h"

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

void terminal_suspend(void) {
    pid_t group = terminal >= 0 ? tcgetpgrp(terminal) : -1;
    terminal_take_back();
    kill(getpid(), SIGSTOP);
    /* continued */
    pid_t now = terminal >= 0 ? tcgetpgrp(terminal) : -1;
    if (group > 0 && group != getpgrp() && now == getpgrp() && kill(-group, 0) == 0)
        (void)tcsetpgrp(terminal, group);
}
