/*
 * `exeat serve`: keeper, workers and scribe for many sandboxes, which come and go (members.h). Who runs them joins by the socket in the
 * state directory (service_socket.h), makes the sandbox by himself and hands its listeners over; so a further sandbox costs its own first
 * process and whoever waits for it, and no role.
 *
 *     prepare -> keeper, scribe, workers begin -> all are ready: the socket is there -> SIGTERM, SIGINT, SIGHUP: the socket is
 *     gone, all who have joined end their sandboxes, workers, scribe and keeper end, status 0
 *         any error or death on the way: the same end, status 125
 */
#ifndef PROXY_PROCESS_SERVICE_H
#define PROXY_PROCESS_SERVICE_H

#include "proxy/process/config.h"

/* Serves until it is told to end; returns the program's exit status. Prints what the operator must know. */
int service_run(struct config *config);

#endif
