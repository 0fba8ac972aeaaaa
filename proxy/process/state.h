/*
 * The state directory: ca.pem, ca-key.pem, unless --log says otherwise decisions.jsonl, and what a service has there (service_socket.h).
 * Nothing else is ever left there.
 */
#ifndef PROXY_PROCESS_STATE_H
#define PROXY_PROCESS_STATE_H

#include "base/err.h"

#define STATE_LOG_FILE "decisions.jsonl"

/*
 * The directory's path: `named` (--state), else $XDG_STATE_HOME/exeat, else ~/.local/state/exeat; absolute. The caller frees it. NULL and a
 * message if there is no home.
 */
char *state_path(const char *named, struct errmsg *msg);

/* Opens it, made with its parents (mode 0700) where missing. The descriptor, or -1 and a message that says what to do. */
int state_open(const char *path, struct errmsg *msg);

/* Opens the decision log for appending, made with mode 0600: the file `named` (--log), else the one in the state directory `dirfd`. */
int state_open_log(int dirfd, const char *path, const char *named, struct errmsg *msg);

/* A line of the log (a file; of anything else nothing is known) that was cut off, since he who wrote it was killed, gets its end. */
void state_end_line(int log_fd);

#endif
