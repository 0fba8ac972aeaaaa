/*
 * What a service (`exeat serve`) and who joins it (`exeat run --service`) say to each other: one socket for each sandbox, messages of
 * base/msg.h, whose fields stand here in order. `str` is a length and bytes, `fd` a descriptor that travels along.
 *
 *   to the service
 *     SERVICE_JOIN     str build (base/version.h), fd user namespace, str name, u32 n, n × str credential
 *     SERVICE_SANDBOX  what handover.h puts
 *     SERVICE_LEAVE    (nothing): the sandbox is over, nothing runs in it any more. So is the end of the socket
 *   from the service
 *     SERVICE_JOINED   str ca.pem, u32 hash of its subject, str what the user is to be warned of ("": nothing), and the fields of hidden.h
 *     SERVICE_REFUSED  str why, whole lines for the user: there is no way out, or none any more
 *     SERVICE_LEFT     (nothing): all that the sandbox has done is recorded, and nothing of it is left
 *
 * Both are the same user's, and believe each other as the roles do; what is malformed ends one sandbox, not the service. The user
 * namespace is a proof: what runs in a sandbox, and be it of the same user, has no descriptor of the service's own.
 */
#ifndef PROXY_PROCESS_SERVICE_WIRE_H
#define PROXY_PROCESS_SERVICE_WIRE_H

enum service_message {
    SERVICE_JOIN = 0x0300,
    SERVICE_SANDBOX = 0x0301,
    SERVICE_LEAVE = 0x0302,
    SERVICE_JOINED = 0x0310,
    SERVICE_REFUSED = 0x0311,
    SERVICE_LEFT = 0x0312,
};

#endif
