/*
 * The scribe's process: what workers report becomes lines of the log, entries of the Redis stream and lines on standard error
 * (proxy/record/sinks.h). It ends when all workers have ended and what they said is written, or the time for that is up; a signal that
 * tells it to end sooner is ignored.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "proxy/record/sinks.h"
#include "proxy/process/config.h"
#include "proxy/process/ipc.h"
#include "proxy/process/role.h"
#include "proxy/process/roles.h"

#define SCRIBE_REST_MS 2 /* what workers say within it is written together */

struct scribe_process {
    struct role_base role; /* first: the control channel's arg is this */
    struct channel peers[CONFIG_WORKERS_MAX];
    size_t npeers, open;
    struct sinks *sinks;
    bool stopping, told; /* told: by the supervisor; else all workers have gone by themselves */
};

static void on_stopped(void *arg) {
    struct scribe_process *s = arg;
    (void)channel_send_type(&s->role.ctl, IPC_DRAINED);
    role_end(&s->role, s->told ? 0 : ROLE_PEER_GONE);
}

static void stop(struct scribe_process *s) {
    if (s->stopping)
        return;
    s->stopping = true;
    if (!s->sinks) { /* not even begun */
        role_end(&s->role, ROLE_PEER_GONE);
        return;
    }
    for (size_t i = 0; i < s->npeers; i++)
        channel_take_all(&s->peers[i]);
    sinks_stop(s->sinks, on_stopped, s);
}

static int on_peer(struct channel *c, struct msg_in *m) {
    struct scribe_process *s = c->arg;
    return sinks_receive(s->sinks, m);
}

static void on_peer_closed(struct channel *c, int err) {
    struct scribe_process *s = c->arg;
    if (err != ERR_EOF)
        log_error("worker %u: a record is malformed", c->number);
    /* closed, and thereby told to the worker: it ends, and the supervisor with it */
    channel_close(c);
    if (--s->open == 0)
        stop(s);
}

static const struct channel_ops peer_ops = {on_peer, on_peer_closed};

static int add_peer(struct scribe_process *s, struct msg_in *m) {
    uint32_t number = msg_get_u32(m);
    int fd = msg_get_fd(m);
    if (msg_end(m) < 0 || s->npeers == CONFIG_WORKERS_MAX) {
        if (fd >= 0)
            close(fd);
        return ERR_PEER;
    }
    struct channel *c = &s->peers[s->npeers];
    int r = channel_open(c, s->role.base, fd, false, &peer_ops, s);
    if (r < 0)
        return r;
    c->number = number;
    s->npeers++;
    s->open++;
    return channel_rest(c, SCRIBE_REST_MS);
}

/* `log_fd` is taken. */
static int open_sinks(struct scribe_process *s, int log_fd, int loudness, struct slice redis,
                      struct errmsg *msg) {
    struct redis_url url = {0};
    int r = redis.n ? redis_url_parse(redis, &url, msg) : 0;
    if (r == 0 && redis.n)
        r = sink_redis_resolve(&url, msg);
    if (r < 0) {
        close(log_fd);
    } else {
        struct sinks_config config = {
            .base = s->role.base,
            .log_fd = log_fd,
            .redis = redis.n ? &url : NULL,
            .line_fd = STDERR_FILENO,
            .loudness = loudness,
            .colour = log_colour(STDERR_FILENO),
        };
        s->sinks = sinks_new(&config);
        if (!s->sinks)
            r = errmsg_set(msg, ERR_NOMEM, "out of memory");
    }
    redis_url_release(&url);
    return r;
}

static int start(struct scribe_process *s, struct msg_in *m) {
    int log_fd = msg_get_fd(m);
    int loudness = msg_get_u8(m);
    struct slice redis = msg_get_slice(m);
    struct errmsg msg = {""};
    if (msg_end(m) < 0) {
        if (log_fd >= 0)
            close(log_fd);
        return ERR_PEER;
    }
    if (open_sinks(s, log_fd, loudness, redis, &msg) < 0) {
        errmsg_prefix(&msg, "exeat: decision log");
        return role_failed(&s->role, 0, slice_str(msg.text));
    }
    return role_ready_plain(&s->role, CONFINE_SCRIBE);
}

static int on_supervisor(struct channel *c, struct msg_in *m) {
    struct scribe_process *s = c->arg;
    if (m->type == IPC_ADD_PEER && !s->sinks)
        return add_peer(s, m);
    if (m->type == IPC_START && !s->sinks)
        return start(s, m);
    if (m->type == IPC_DRAIN && s->sinks) {
        s->told = true;
        stop(s);
        return 0;
    }
    return ERR_PEER;
}

static const struct channel_ops supervisor_ops = {on_supervisor, role_supervisor_gone};

int scribe_run(void) {
    static struct scribe_process s;
    role_outlives(); /* what workers have to say at their end is still to be written */
    if (role_open(&s.role, &supervisor_ops, &s) < 0)
        return 1;
    role_loop(&s.role);
    for (size_t i = 0; i < s.npeers; i++)
        channel_close(&s.peers[i]);
    sinks_free(s.sinks);
    return role_close(&s.role);
}
