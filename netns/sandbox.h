/*
 * One sandbox: a command in namespaces whose only way out is a handful of listening sockets that its supervisor holds.
 *
 *     supervisor            user namespace A (owns the net, pid, ipc and mount namespaces)
 *         |                     |
 *     sandbox_start  --->   init, pid 1 inside: lo, routes, nft rules, listeners, covers       (netns/init.c)
 *         |                     |
 *     sandbox_trust  --->       roots and names, the rest of the mounts
 *         |                     |
 *     sandbox_exec   --->   the command, in user and mount namespace B beneath A
 *
 * The command is root of B at most. Net namespace and rules belong to A and the mounts of A are locked in B, so
 * it can neither change the rules nor lift what is laid over a file. init has no capability left but CAP_KILL
 * once the command runs, is not dumpable, and reads nothing but its supervisor's socket; at the end of that socket,
 * by whatever death, it ends, and the kernel ends every process of the sandbox with it.
 *
 * Life cycle: sandbox_start - sandbox_trust - sandbox_ready, when `fd` is readable - hand the listeners to the workers - sandbox_exec
 * - sandbox_event… - sandbox_release. Start and trust are two, for the roots are known later than the rest, and most of the work
 * needs none: it is done while the keeper starts.
 *
 * What the program must do for it:
 *   - call sandbox_inherit_take() as the first thing in main(), before any signal handler, umask or limit is changed;
 *   - init is a program of its own (`program`), or itself, executed again: main() with three arguments, the second one SANDBOX_ROLE,
 *     the third one the version of who started it, returns netns_init_main(SANDBOX_ROLE_FD, VERSION) and does nothing else;
 *   - keep the supervisor single-threaded (init is tied to the life of the thread that made it).
 *
 * Terminal and job control: the command stays in exeat's own process group and session, so that a shell's job, pipe
 * line or script sees nothing new. The terminal's signals reach command and supervisor alike; therefore the supervisor
 *   - ignores SIGINT, SIGQUIT, SIGTSTP, SIGTTIN and SIGTTOU that the terminal sends (the command decides what they mean), and hands
 *     on SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, … that somebody sent to it by kill, with sandbox_signal(). A handler with SA_SIGINFO
 *     tells the two apart: si_code is SI_KERNEL for the terminal's, SI_USER or SI_QUEUE for kill's; those are handed on too;
 *   - on SANDBOX_STOPPED makes itself foreground if it has to (sandbox_take_terminal), stops itself by raise(SIGSTOP), and when it
 *     runs again calls sandbox_signal(SIGCONT);
 *   - calls sandbox_take_terminal() after the end: an interactive shell inside has made its own group the foreground one
 *     and can't give the terminal back to a group that its pid namespace does not show.
 */
#ifndef NETNS_SANDBOX_H
#define NETNS_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/slice.h"

#define SANDBOX_ROLE    "--role=init"
#define SANDBOX_ROLE_FD 3

/* What a process inherits and exeat changes for itself: handed on to the command as it was. */
struct sandbox_inherit {
    uint64_t blocked; /* bit N-1: signal N was blocked */
    uint64_t ignored; /* bit N-1: signal N was ignored */
    mode_t umask;
    struct rlimit nofile, core, memlock;
};
void sandbox_inherit_take(struct sandbox_inherit *out);

/* All pointers are borrowed for the time of sandbox_start alone. Lists end with NULL and may be NULL. */
struct sandbox_spec {
    char *const *argv;              /* the command; looked up in the PATH of `envp` */
    char *const *envp;              /* its environment (netns/environ.h) */
    struct sandbox_inherit inherit; /* from sandbox_inherit_take */

    int program; /* what to execute as init: a descriptor, O_PATH is enough; 0: the program that runs here */

    /* Absolute path of the state directory. Inside, a read-only tmpfs lies over it that holds ca.pem and bundle.pem
     * (SANDBOX_CA, SANDBOX_BUNDLE): nothing of what is really in it can be reached. */
    const char *state_dir;

    /* Files and directories that must not be seen: vault files, sources of credentials, the log, policy-external secrets.
     * A file is empty inside, a directory too. Other mounts of the same file system are covered as well. Names that do not exist
     * are ignored, any other trouble ends the start. */
    const char *const *cover;
    /* Unix sockets in use by exeat itself (Redis); those that listen on the host are found by themselves. */
    const char *const *cover_sockets;

    uint8_t prefix6[8]; /* the /64 of synthetic addresses (names_prefix) */
};

/* A file that is laid over another one inside. */
struct sandbox_overlay {
    const char *path;   /* absolute; symbolic links are followed; left out where it does not exist */
    struct slice bytes; /* what is there instead */
};

/* What is trusted inside. Borrowed for the time of sandbox_trust alone. */
struct sandbox_trust {
    struct slice ca_pem;     /* our root alone */
    uint32_t ca_hash;        /* of its subject, as OpenSSL names files by it */
    struct slice bundle_pem; /* the system's roots and ours */
    /* PEM bundles of the system: bundle_pem is laid over them (ca_bundle_paths). NULL-terminated */
    const char *const *bundle_paths;
    const struct sandbox_overlay *overlays; /* Java key stores and the like */
    size_t noverlays;
};

#define SANDBOX_CA     "ca.pem"     /* in state_dir, inside */
#define SANDBOX_BUNDLE "bundle.pem" /* in state_dir, inside */

/* Listening sockets made inside the sandbox, non-blocking, CLOEXEC. -1 where the host has no IPv6. */
struct sandbox_listeners {
    int tcp4, tcp6;         /* every TCP connection that does not go to the sandbox's own loopback */
    int dns_udp4, dns_udp6; /* every datagram to port 53, whatever its address */
    int dns_tcp4, dns_tcp6;
};

struct sandbox {
    pid_t init; /* in the supervisor's pid namespace; its SIGCHLD comes when the sandbox has ended */
    int fd;     /* to init: readable when sandbox_event has something */
    bool ipv6;  /* IPv6 is served inside */
    bool root;  /* all ids of the host are mapped, not the caller's alone */
    struct sandbox_listeners listeners; /* the owner may take one by setting it to -1 */
};

/* Makes the namespaces and sets init to work in them. Blocks until its first process runs: a few ms, SANDBOX_START_MS at most. 0, or:
 *   ERR_UNSUPPORTED  the host forbids what is needed; netns/doctor.h says what and why, in the words to print
 *   ERR_USAGE        the specification can't be served
 *   ERR_IO …         other
 * On failure nothing is left and `sb` needs no release. */
#define SANDBOX_START_MS 20000
int sandbox_start(const struct sandbox_spec *spec, struct sandbox *sb, struct errmsg *msg) MUST_CHECK;

/* Tells init what is to be trusted; it goes on by itself. Once. 0, or ERR_IO, ERR_LIMIT, ERR_EOF. */
int sandbox_trust(struct sandbox *sb, const struct sandbox_trust *trust, struct errmsg *msg) MUST_CHECK;

/* Whether everything up to the command is made, which does not run yet: 0 and `listeners` and `ipv6` are good; ERR_AGAIN (not yet;
 * ask when `fd` is readable); or what went wrong, as for sandbox_start (ERR_USAGE is a working directory that is covered, too). Does
 * not block. The caller waits no longer than SANDBOX_START_MS. */
int sandbox_ready(struct sandbox *sb, struct errmsg *msg) MUST_CHECK;

/* Lets the command run. 0 or ERR_EOF. */
int sandbox_exec(struct sandbox *sb, struct errmsg *msg) MUST_CHECK;

enum sandbox_event_kind {
    SANDBOX_EXITED,      /* value: exit status; the command's processes are gone or about to be */
    SANDBOX_KILLED,      /* value: signal that ended the command */
    SANDBOX_STOPPED,     /* value: signal that stopped it */
    SANDBOX_CONTINUED,   /* value: 0 */
    SANDBOX_EXEC_FAILED, /* value: errno of exec; sandbox_exec_status() has the shell's 126 or 127 */
    SANDBOX_GONE,        /* init has died without any of the above: exit status 125 */
};
struct sandbox_event {
    enum sandbox_event_kind kind;
    int value;
};

/* Reads what init has to say. 0; ERR_AGAIN (nothing now). After EXITED, KILLED, EXEC_FAILED and GONE nothing follows. */
int sandbox_event(struct sandbox *sb, struct sandbox_event *event);

/* 126 (found and not run) or 127 (not found). */
int sandbox_exec_status(int error);

/* Sends a signal to the command (SIGCONT: to its process group). Lost silently when it has ended. */
void sandbox_signal(struct sandbox *sb, int signal);

/* If this process was in the foreground of its terminal at the start and the foreground group is no longer one
 * of this process's, makes it foreground again. Harmless without a terminal. Needs SIGTTOU ignored or blocked. */
void sandbox_take_terminal(void);

/* SIGKILL to init, which takes all with it; does not wait. sandbox_release is due. */
void sandbox_kill(struct sandbox *sb);

/* Ends what still runs (SIGKILL to init, which takes all with it), waits for it, closes what is open. */
void sandbox_release(struct sandbox *sb);

/* What is pid 1 inside: see above. Returns its exit status. */
int netns_init_main(int fd, const char *version);

/* Where an accepted connection wanted to go. `direct` (may be NULL): it was made to the listener itself, so
 * by a client that uses it as an explicit proxy, or by mistake. 0 or ERR_IO. May be called from outside of the namespace. */
struct addr;
int netns_original_dst(int fd, struct addr *dst, bool *direct) MUST_CHECK;

/* What another process gave as a listener is one: a TCP socket that listens (`type`: SOCK_STREAM), or one of UDP (SOCK_DGRAM). It is made
 * non-blocking: who waits at one that is not, waits with all that he serves. 0; ERR_PEER: it is something else. */
int netns_listener(int fd, int type) MUST_CHECK;

#endif
