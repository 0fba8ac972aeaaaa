/* Private to netns/: the command's process, from fork to exec. */
#ifndef NETNS_COMMAND_H
#define NETNS_COMMAND_H

#include <sys/types.h>

#include "netns/wire.h"

struct command {
    pid_t pid;
    int go;     /* init writes one byte: run */
    int result; /* the child's way to say why exec failed; end of file: it has succeeded */
};

/* Forks the command's process into user and mount namespace B, with its ids mapped and its filter loaded, waiting for
 * command_go. Called with all signals blocked. 0 or an error with a message; nothing is left then. */
int command_fork(const struct wire_spec *spec, struct command *c, struct errmsg *msg);

/* Lets it run. Returns 0 once it is another program, or the errno of exec (its process ends then). */
int command_go(struct command *c);

#endif
