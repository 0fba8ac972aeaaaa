/*
 * The processes' main functions, called after confine_begin, with the supervisor's socket at IPC_FD. Each returns the process's exit
 * status when it was told to end or the supervisor is gone.
 */
#ifndef PROXY_PROCESS_ROLES_H
#define PROXY_PROCESS_ROLES_H

/* Exit status of a role that ends because another role is gone: the supervisor tells of the other one. */
#define ROLE_PEER_GONE 3

int keeper_run(void);
int worker_run(void);
int scribe_run(void);

#endif
