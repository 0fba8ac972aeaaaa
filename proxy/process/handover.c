#include "proxy/process/handover.h"

#include "netns/names.h"
#include "proxy/flow/limits.h"
#include "proxy/flow/shown.h"
#include "proxy/process/ipc.h"
#include "proxy/record/why.h"

#define LISTENERS_MAX 6

void handover_put(struct msg_out *m, const struct prepared_sandbox *s, const struct sandbox_listeners *l) {
    const struct {
        enum ipc_listener kind;
        int fd;
    } list[LISTENERS_MAX] = {
        {IPC_LISTEN_TCP, l->tcp4},         {IPC_LISTEN_TCP, l->tcp6},
        {IPC_LISTEN_DNS_UDP, l->dns_udp4}, {IPC_LISTEN_DNS_UDP, l->dns_udp6},
        {IPC_LISTEN_DNS_TCP, l->dns_tcp4}, {IPC_LISTEN_DNS_TCP, l->dns_tcp6},
    };
    uint32_t n = 0;
    for (size_t i = 0; i < LISTENERS_MAX; i++)
        n += list[i].fd >= 0;
    msg_put_fd(m, s->policy_fd);
    msg_put_fd(m, names_fd(s->names));
    msg_put_fd(m, why_fd(s->why));
    msg_put_fd(m, limits_fd(s->limits));
    msg_put_fd(m, shown_fd(s->shown));
    msg_put_u32(m, n);
    for (size_t i = 0; i < LISTENERS_MAX; i++) {
        if (list[i].fd < 0)
            continue;
        msg_put_u8(m, (uint8_t)list[i].kind);
        msg_put_fd(m, list[i].fd);
    }
}

int handover_pass(struct msg_in *in, struct msg_out *out) {
    uint32_t n = msg_get_u32(in);
    if (in->err || n > LISTENERS_MAX || in->nfds != HANDOVER_FDS + n)
        return ERR_PEER;
    for (size_t i = 0; i < HANDOVER_FDS; i++)
        msg_put_fd(out, in->fds[i]);
    msg_put_u32(out, n);
    for (uint32_t i = 0; i < n; i++) {
        msg_put_u8(out, msg_get_u8(in));
        msg_put_fd(out, in->fds[HANDOVER_FDS + i]);
    }
    return in->err || in->at != in->n ? ERR_PEER : out->err;
}
