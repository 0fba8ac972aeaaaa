/* Private to netns/: what supervisor and init say to each other (base/msg.h), and the specification as it travels. */
#ifndef NETNS_WIRE_H
#define NETNS_WIRE_H

#include "base/buf.h"
#include "netns/sandbox.h"

enum wire_type {
    WIRE_UP = 1, /* init -> supervisor: cloned, ids not mapped yet */
    WIRE_MAPPED, /* supervisor -> init: ids are mapped, go on */
    WIRE_SPEC,   /* supervisor -> init: u8 root; descriptor of the specification (sealed memfd) */
    WIRE_TRUST,  /* supervisor -> init: descriptor of what is trusted (sealed memfd) */
    WIRE_READY, /* init -> supervisor: u8 ipv6; descriptors tcp4, dns_udp4, dns_tcp4 [, tcp6, dns_udp6, dns_tcp6] */
    WIRE_FAILED, /* init -> supervisor: u32 error, string */
    WIRE_EXEC,   /* supervisor -> init: let the command run */
    WIRE_EVENT,  /* init -> supervisor: u8 kind, u32 value */
    WIRE_SIGNAL, /* supervisor -> init: u8 signal */
};

/* A message without more than fits into this many bytes; WIRE_FAILED is the longest. */
#define WIRE_MAX (ERRMSG_MAX + 64)

/* The specification on init's side: strings point into the mapped memfd. */
struct wire_spec {
    bool root;
    struct sandbox_inherit inherit;
    const char *cwd;
    const char *state_dir;
    uint8_t prefix6[8];
    char **argv;
    const char **cover;
    const char **sockets; /* unix sockets of the host, by path */
    struct slice map;     /* private: the mapped memfd */
};

/* What is trusted, likewise. */
struct wire_trust {
    struct slice ca_pem, bundle_pem;
    uint32_t ca_hash;
    const char **bundle_paths;
    struct sandbox_overlay *overlays;
    size_t noverlays;
    struct slice map; /* private */
};

/* Encodes into a sealed memfd. Adds working directory and the host's sockets. */
int wire_spec_write(const struct sandbox_spec *spec, int *memfd, struct errmsg *msg);

/* Maps and decodes. ERR_PEER when it is not one; then *out holds nothing. */
int wire_spec_read(int memfd, struct wire_spec *out, struct errmsg *msg);
void wire_spec_release(struct wire_spec *spec);

int wire_trust_write(const struct sandbox_trust *trust, int *memfd, struct errmsg *msg);
int wire_trust_read(int memfd, struct wire_trust *out, struct errmsg *msg);
void wire_trust_release(struct wire_trust *trust);

#endif
