/*
 * What supervisor and roles say to each other, on the socket at descriptor IPC_FD of a role. Everything is a message of
 * base/msg.h; the fields stand here, in order. `str` is a length and bytes, `fd` a descriptor that travels along.
 *
 * Start-up of a role: the supervisor sends any number of the IPC_ADD_… messages, then IPC_START; the role reads what it needs,
 * confines itself and answers IPC_READY, or IPC_FAILED with the reason. There is no time at which a role that is not confined has
 * met a byte of a sandbox's: listeners are sent to workers after all roles are ready.
 *
 *   to every role
 *     IPC_START           fields by role, below
 *     IPC_DRAIN           finish what is under way, then end
 *   to the keeper
 *     IPC_ADD_PEER        u32 worker, fd socket
 *     IPC_START           fd state directory, str path of the credentials file ("": none), fd its text (sealed; only with a path)
 *     and the supervisor's messages of vault/wire.h, as they stand there
 *   to a worker
 *     IPC_ADD_PEER        u32 IPC_PEER_KEEPER or IPC_PEER_SCRIBE, fd socket; to the scribe also fd ring (proxy/record/ring.h)
 *     IPC_ADD_RESOLVE     str as given on the command line
 *     IPC_ADD_TIME_LIMIT  the same
 *     IPC_ADD_VARIABLE    str name, str value: of the few variables that a worker reads (HTTPS_PROXY …)
 *     IPC_ROOTS           fd the host's roots, fd further roots (PEM, sealed). It takes a while to read them: this comes before the
 *                         keeper is ready, after the three above
 *     IPC_START           str ca.pem, u8 1 if values of queries are recorded, u64 bytes that looking through a push may take,
 *                         u8 1 if more than one sandbox may come
 *     IPC_SANDBOX         u64 sandbox, str name, fd policy (a bundle, sealed), fd names (netns/names.h), fd why (proxy/record/why.h),
 *                         fd limits (proxy/flow/limits.h), fd shown (proxy/flow/shown.h), u32 n,
 *                         n × (u8 enum ipc_listener, fd socket)
 *     IPC_SANDBOX_END     u64 sandbox: it is over. What is under way may end, for a second; IPC_SANDBOX_ENDED follows
 *   to the scribe
 *     IPC_ADD_PEER        u32 worker, fd socket, fd ring
 *     IPC_START           fd log (append), u8 verbosity, str redis ("": none), u8 1 if it follows on a scribe that died,
 *                         u8 1 if lines for people say which sandbox they are of
 *     IPC_FLUSH           u64 a number: all that is in the rings is to be written; IPC_FLUSHED follows
 *   from every role
 *     IPC_READY           keeper: str ca.pem, u32 hash of its subject, u8 1 if secrets could not be locked in
 *                         memory, str the names of credentials whose secrets can't be looked for; others nothing.
 *                         It is confined
 *     IPC_FAILED          str what was wrong, whole lines, for the user
 *     IPC_DRAINED         (nothing): it ends now
 *   from the keeper
 *     IPC_BROKEN          u32 worker, str why: that peer was closed
 *   from a worker
 *     IPC_SANDBOX_REFUSED u64 sandbox, str why: it has no way out here
 *     IPC_SANDBOX_ENDED   u64 sandbox: all of its outcomes are recorded, and nothing of it is left
 *   from the scribe
 *     IPC_FLUSHED         u64 the number
 */
#ifndef PROXY_PROCESS_IPC_H
#define PROXY_PROCESS_IPC_H

#define IPC_FD 3

enum ipc_message {
    IPC_START = 0x0100,
    IPC_DRAIN = 0x0101,
    IPC_ADD_PEER = 0x0102,
    IPC_ADD_RESOLVE = 0x0104,
    IPC_ADD_VARIABLE = 0x0105,
    IPC_SANDBOX = 0x0106,
    IPC_SANDBOX_END = 0x0107,
    IPC_ROOTS = 0x0108,
    IPC_ADD_TIME_LIMIT = 0x0109,
    IPC_READY = 0x0110,
    IPC_FAILED = 0x0111,
    IPC_DRAINED = 0x0112,
    IPC_BROKEN = 0x0113,
    IPC_SANDBOX_REFUSED = 0x0114,
    IPC_SANDBOX_ENDED = 0x0115,
    IPC_FLUSH = 0x0116,
    IPC_FLUSHED = 0x0117,
};

enum ipc_peer { IPC_PEER_KEEPER, IPC_PEER_SCRIBE };

enum ipc_listener { IPC_LISTEN_TCP, IPC_LISTEN_DNS_UDP, IPC_LISTEN_DNS_TCP };

#define IPC_TEXT_MAX 60000 /* of IPC_FAILED; what is longer is cut */

/* What goes to standard error of the decisions. */
enum ipc_verbosity { IPC_QUIET, IPC_DENIALS, IPC_ALL };

#endif
