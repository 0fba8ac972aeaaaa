#include "proxy/process/service_client.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/version.h"
#include "proxy/process/children.h"
#include "proxy/process/handover.h"
#include "proxy/process/service_socket.h"
#include "proxy/process/service_wire.h"

static void client_enter(struct service_client *c, enum client_state state) {
    static const uint8_t legal[CLIENT_STATES] = {
        [CLIENT_NONE] = 1 << CLIENT_ASKING,
        [CLIENT_ASKING] = 1 << CLIENT_JOINED | 1 << CLIENT_LEFT,
        [CLIENT_JOINED] = 1 << CLIENT_OPEN | 1 << CLIENT_LEFT,
        [CLIENT_OPEN] = 1 << CLIENT_LEAVING | 1 << CLIENT_LEFT,
        [CLIENT_LEAVING] = 1 << CLIENT_LEFT,
    };
    assert(legal[c->state] & 1 << state);
    c->state = state;
}

/* The end of the connection, whoever wanted it. `text`: what the user is told, if it was not we. */
static void client_left(struct service_client *c, const char *text) {
    if (c->state == CLIENT_LEFT)
        return;
    client_enter(c, CLIENT_LEFT);
    event_del(c->limit);
    channel_close(&c->channel);
    if (text)
        c->ops->failed(c->arg, text);
    c->ops->left(c->arg);
}

static int on_joined(struct service_client *c, struct msg_in *m) {
    struct slice ca_pem = msg_get_slice(m);
    uint32_t ca_hash = msg_get_u32(m);
    struct slice warning = msg_get_slice(m);
    int r = hidden_get(&c->prepared->hidden, m);
    if (r < 0 || (r = msg_end(m)) < 0)
        return r;
    /* the room of messages is used for others while the sandbox is made */
    char *pem = slice_dup(ca_pem);
    if (!pem)
        return ERR_NOMEM;
    event_del(c->limit);
    client_enter(c, CLIENT_JOINED);
    if (warning.n)
        log_warn("%.*s", SLICE_ARG(warning));
    c->ops->joined(c->arg, slice_str(pem), ca_hash);
    free(pem);
    return 0;
}

static int on_refused(struct service_client *c, struct msg_in *m) {
    struct slice why = msg_get_slice(m);
    if (msg_end(m) < 0)
        return ERR_PEER;
    char *text = slice_dup(why);
    client_left(c, text ? text : "exeat: out of memory");
    free(text);
    return 0;
}

static int on_message(struct channel *channel, struct msg_in *m) {
    struct service_client *c = channel->arg;
    switch (m->type) {
    case SERVICE_JOINED: return c->state == CLIENT_ASKING ? on_joined(c, m) : ERR_PEER;
    case SERVICE_REFUSED: return on_refused(c, m);
    case SERVICE_LEFT:
        if (c->state != CLIENT_LEAVING || msg_end(m) < 0)
            return ERR_PEER;
        client_left(c, NULL);
        return 0;
    default: return ERR_PEER;
    }
}

static void on_closed(struct channel *channel, int err) {
    struct service_client *c = channel->arg;
    struct errmsg msg;
    const char *state = c->prepared->state_dir;
    if (err == ERR_EOF)
        errmsg_set(&msg, err, "exeat: the service that works with %s has ended", state);
    else
        errmsg_set(&msg, err, "exeat: the service that works with %s: %s", state, err_text(err));
    client_left(c, msg.text);
}

static const struct channel_ops client_ops = {on_message, on_closed};

static void on_limit(evutil_socket_t fd, short what, void *arg) {
    struct service_client *c = arg;
    (void)fd;
    (void)what;
    if (c->state == CLIENT_LEAVING)
        log_warn(CHILDREN_LATE);
    client_left(c, c->state == CLIENT_LEAVING ? NULL : "exeat: the service does not answer");
}

static int ask(struct service_client *c, struct errmsg *msg) {
    const struct prepared_sandbox *s = &c->prepared->sandbox;
    int namespace = service_namespace();
    if (namespace < 0)
        return errmsg_errno(msg, ERR_IO, "this process's user namespace");
    struct msg_out m;
    size_t n = policy_credential_count(s->policy);
    msg_begin(&m, msg_room.out, sizeof msg_room.out, SERVICE_JOIN);
    msg_put_str(&m, version_build);
    msg_put_fd(&m, namespace);
    msg_put_str(&m, s->config->name);
    msg_put_u32(&m, (uint32_t)n);
    for (size_t i = 0; i < n; i++)
        msg_put_str(&m, policy_credential(s->policy, i));
    int r = channel_send(&c->channel, &m);
    close(namespace);
    if (r == ERR_EOF) /* on_closed tells */
        return 0;
    return r < 0 ? errmsg_set(msg, r, "the service can't be asked: %s", err_text(r)) : 0;
}

int service_join(struct service_client *c, struct event_base *base, struct prepared *p,
                 const struct service_client_ops *ops, void *arg, struct errmsg *msg) {
    static const struct timeval limit = {.tv_sec = SERVICE_ANSWER_S};
    c->prepared = p;
    c->ops = ops;
    c->arg = arg;
    c->limit = event_new(base, -1, 0, on_limit, c);
    if (!c->limit || event_add(c->limit, &limit) < 0)
        return errmsg_set(msg, ERR_NOMEM, "out of memory");
    int fd = service_connect(p->state_dir, msg);
    if (fd < 0)
        return ERR_IO;
    if (channel_open(&c->channel, base, fd, false, &client_ops, c) < 0)
        return errmsg_set(msg, ERR_NOMEM, "out of memory");
    client_enter(c, CLIENT_ASKING);
    return ask(c, msg);
}

int service_open(struct service_client *c, const struct sandbox_listeners *listeners) {
    struct msg_out m;
    if (c->state != CLIENT_JOINED)
        return ERR_EOF;
    msg_begin(&m, msg_room.out, sizeof msg_room.out, SERVICE_SANDBOX);
    handover_put(&m, &c->prepared->sandbox, listeners);
    client_enter(c, CLIENT_OPEN);
    return channel_send(&c->channel, &m);
}

void service_leave(struct service_client *c) {
    static const struct timeval limit = {CHILDREN_END_MS / 1000, CHILDREN_END_MS % 1000 * 1000};
    if (c->state == CLIENT_OPEN && event_add(c->limit, &limit) == 0 &&
        channel_send_type(&c->channel, SERVICE_LEAVE) == 0)
        client_enter(c, CLIENT_LEAVING);
    else
        client_left(c, NULL);
}

void service_client_release(struct service_client *c) {
    if (c->limit)
        event_free(c->limit);
    channel_close(&c->channel);
}
