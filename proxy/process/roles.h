/*
 * What the roles have to say to each other by how they end, and the one that is a part of the program exeat itself.
 */
#ifndef PROXY_PROCESS_ROLES_H
#define PROXY_PROCESS_ROLES_H

/* Exit status of a role that ends because another role is gone: the supervisor tells of the other one. */
#define ROLE_PEER_GONE 3

/* The scribe's process, for role_main: returns its exit status when it was told to end or the supervisor is gone. */
int scribe_run(void);

#endif
