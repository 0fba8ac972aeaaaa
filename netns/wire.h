/* Private to netns/: what supervisor and init say to each other (base/msg.h), and the specification as it travels. */
#ifndef NETNS_WIRE_H
#define NETNS_WIRE_H

#include "base/buf.h"
#include "netns/sandbox.h"

enum wire_type {
    WIRE_UP = 1, /* init -> supervisor: cloned, ids not mapped yet */
    WIRE_MAPPED, /* supervisor -> init: ids are mapped, go on */
    WIRE_SPEC,   /* supervisor -> init: u8 root; descriptor of the specification (sealed memfd) */
    WIRE_READY, /* init -> supervisor: u8 ipv6; descriptors tcp4, dns_udp4, dns_tcp4 [, tcp6, dns_udp6, dns_tcp6] */
    WIRE_FAILED, /* init -> supervisor: u32 error, string */
    WIRE_EXEC,   /* supervisor -> init: let the command run */
    WIRE_EVENT,  /* init -> supervisor: u8 kind, u32 value */
    WIRE_SIGNAL, /* supervisor -> init: u8 signal */
};

/* A message without more than fits into this many bytes; WIRE_FAILED is the longest. */
#define WIRE_MAX (ERRMSG_MAX + 64)

/* The specification on init's side: strings point into the mapped memfd. init needs it as long as it lives. */
struct wire_spec {
    bool root;
    struct sandbox_inherit inherit;
    const char *cwd;
    const char *state_dir;
    struct slice ca_pem, bundle_pem;
    uint32_t ca_hash; /* subject hash of our root, as OpenSSL names files by it */
    uint8_t prefix6[8];
    char **argv;
    const char **bundle_paths;
    const char **cover;
    const char **sockets; /* unix sockets of the host, by path */
    struct sandbox_overlay *overlays;
    size_t noverlays;
    const char *map; /* private: the mapped memfd */
    size_t map_size;
};

/* Encodes into a sealed memfd. Adds working directory, hash and the host's sockets. */
int wire_spec_write(const struct sandbox_spec *spec, int *memfd, struct errmsg *msg);

/* Maps and decodes. ERR_PEER when it is not one; then *out holds nothing. */
int wire_spec_read(int memfd, struct wire_spec *out, struct errmsg *msg);
void wire_spec_release(struct wire_spec *spec);

#endif
