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

#define SUPERVISOR_FAILED 125 /* exit status when exeat itself fails */
/* For all to end after the command has. On a machine that is too busy (a thousand sandboxes end together) each role that does end gives
 * the others as much again: what workers have said is not lost for want of the processor. */
#define SUPERVISOR_END_MS 4800

/* Runs one sandbox; returns the program's exit status. Prints what the user must know. */
int supervisor_run(struct config *config, const struct sandbox_inherit *inherit);

#endif
