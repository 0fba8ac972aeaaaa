/* Private to netns/: what the command is kept from by its system calls. */
#ifndef NETNS_GUARD_H
#define NETNS_GUARD_H

#include "base/err.h"

/*
 * Loads a seccomp filter and a Landlock scope, which every process of the sandbox inherits. Namespaces hold all but this:
 *   - sockets of families that are not bound to a net namespace, and so lead out of it: AF_VSOCK to the machine's
 *     host, Bluetooth and others. EAFNOSUPPORT, as if the kernel had none. Unix, IPv4, IPv6, netlink, packet, key, XDP
 *     and crypto sockets remain;
 *   - io_uring, which makes sockets past this filter (ENOSYS: programs take their other way);
 *   - kernel key rings: they are the user's, not the namespace's, and a request for a key makes the host resolve
 *     a name or run a program (ENOSYS);
 *   - signals to processes outside. A pid namespace hides them, but kill(0) reaches the whole process group, of which exeat, and what
 *     the user started beside it, are members (Landlock's scope, where the kernel has it);
 *   - input pushed into the terminal (TIOCSTI, TIOCLINUX), which the shell outside would run (EPERM).
 * 32-bit programs that make sockets by socketcall(2), whose arguments no filter sees, get EAFNOSUPPORT; those by
 * socket(2) work.
 * The caller has CAP_SYS_ADMIN in its user namespace, so no_new_privs is not set and `su` works. 0 or ERR_UNSUPPORTED.
 */
int guard_load(struct errmsg *msg) MUST_CHECK;

#endif
