/* Private to netns/: the listening sockets of a sandbox, made inside. */
#ifndef NETNS_LISTEN_H
#define NETNS_LISTEN_H

#include "netns/sandbox.h"

/* Ports are the kernel's choice, the same in both families. */
struct listen_ports {
    uint16_t proxy, dns;
    bool transparent; /* TPROXY may give connections to the proxy's: the caller was permitted to have it so */
};

/* 0 or ERR_IO. On failure nothing stays open. */
int listen_open(bool ipv6, struct sandbox_listeners *out, struct listen_ports *ports,
                struct errmsg *msg) MUST_CHECK;

void listen_close(struct sandbox_listeners *listeners);

#endif
