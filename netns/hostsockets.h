/* Private to netns/: unix sockets of the host. */
#ifndef NETNS_HOSTSOCKETS_H
#define NETNS_HOSTSOCKETS_H

#include "base/err.h"

/*
 * Calls `each` with the path of every unix socket of this net namespace that somebody could connect or send to; with some twice.
 * Relative names can't be placed, and are left out; nobody binds a service that way. Stops at the first call that returns other than
 * 0, and returns that. 0, or ERR_IO.
 */
int hostsockets_each(int (*each)(void *arg, const char *path), void *arg, struct errmsg *msg);

/* The same by /proc/net/unix alone, which is the way on kernels without unix_diag. */
int hostsockets_read(int (*each)(void *arg, const char *path), void *arg, struct errmsg *msg);

#endif
