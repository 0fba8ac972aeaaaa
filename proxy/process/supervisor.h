/*
 * The process that the user started: it starts the rest, runs the sandbox, and ends all of it.
 *
 *     prepare -> keeper, scribe, workers begin -> the keeper is ready: the sandbox is made -> all are ready: listeners are handed over,
 *     the command runs -> it ends -> workers, scribe, keeper end
 *         any error or death on the way: the sandbox is killed first, then the same end, status 125
 *
 * It parses nothing that a sandbox sent and holds no secret. Its own death, however sudden, is the death of all (PDEATHSIG, and the end
 * of every socket).
 */
#ifndef PROXY_PROCESS_SUPERVISOR_H
#define PROXY_PROCESS_SUPERVISOR_H

#include "netns/sandbox.h"
#include "proxy/process/config.h"

/* Runs one sandbox; returns the program's exit status. Prints what the user must know. */
int supervisor_run(struct config *config, const struct sandbox_inherit *inherit);

#endif
