/*
 * The processes' main functions, called after confine_begin, with the supervisor's socket at IPC_FD. Each returns the process's exit
 * status when it was told to end or the supervisor is gone.
 */
#ifndef PROCESS_ROLES_H
#define PROCESS_ROLES_H

int keeper_run(void);
int worker_run(void);
int scribe_run(void);

#endif
