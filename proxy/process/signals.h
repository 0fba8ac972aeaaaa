/*
 * Signals of the supervisor, or of a service, as events of its loop.
 *
 * Handlers, not SIG_IGN and no blocked mask: both would be inherited by the command. For the same reason a signal that was ignored when
 * exeat was started (nohup, a shell's background job) is left alone: the command ignores it too.
 */
#ifndef PROXY_PROCESS_SIGNALS_H
#define PROXY_PROCESS_SIGNALS_H

#include <event2/event.h>
#include <signal.h>
#include <stdbool.h>

#include "base/err.h"

/* `from`: the process that sent it (kill); 0: the kernel did (terminal, resource); -1: a process that is not to be seen. */
typedef void signals_handler(void *arg, int sig, pid_t from);

/* One per process. 0, ERR_IO or ERR_NOMEM. */
int signals_start(struct event_base *base, signals_handler *handler, void *arg);

/* Restores what was before: of one of them, of all. */
void signals_leave(int sig);
void signals_stop(void);

/* Whether a process lives in a pid namespace below this process's own: it is a sandbox's, and has signalled the whole process group. */
bool signals_inside(pid_t pid);

#endif
