/*
 * The scribe's process: what workers report becomes lines of the log, entries of the Redis stream and lines on standard error
 * (proxy/record/sinks.h). It ends when all workers have ended and what they said is written, or the time for that is up; a signal that
 * tells it to end sooner is ignored.
 */
#include <event2/event.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "proxy/record/ring.h"
#include "proxy/record/sinks.h"
#include "proxy/process/config.h"
#include "proxy/process/ipc.h"
#include "proxy/process/role.h"

#define SCRIBE_REST_MS 40          /* what workers record within it is written together */
#define SCRIBE_PIECE   (32u << 10) /* bytes of records that are written to the file at once, at most */
#define SCRIBE_LOOKS   3           /* after so many that find nothing a worker has to wake the scribe */
#define SCRIBE_NICE    5 /* a third of a worker's share of a CPU: some times what its records take */

struct scribe_peer {
    struct channel channel; /* first; a worker's word that there is something, and its end */
    struct ring *ring;
};

struct scribe_process {
    struct role_base role; /* first: the control channel's arg is this */
    struct scribe_peer peers[CONFIG_WORKERS_MAX];
    size_t npeers, open;
    struct sinks *sinks;
    struct event *look;  /* pending: the rings are looked at when it is over */
    unsigned vain;       /* looks in a row that found nothing */
    bool follows;        /* on one that died: the workers know of no other and wake nobody */
    bool stopping, told; /* told: by the supervisor; else all workers have gone by themselves */
};

static void peer_end(struct scribe_process *s, struct scribe_peer *p, int err);

/* What is in the file need not be in the ring: before that, a scribe that comes after this one finds it there. */
static void peer_written(struct scribe_process *s, struct scribe_peer *p) {
    sinks_flush(s->sinks);
    if (p->ring)
        ring_done(p->ring);
}

/* Writes what a worker has recorded: up to a ring full, so that one busy worker doesn't keep the loop from the others. True:
 * there was something. */
static bool peer_take(struct scribe_process *s, struct scribe_peer *p) {
    size_t taken = 0, unwritten = 0;
    while (p->ring && taken < RING_BYTES) {
        struct slice bytes;
        struct msg_in m;
        int r = ring_take(p->ring, msg_room.out, sizeof msg_room.out, &bytes);
        if (r == ERR_AGAIN)
            break;
        if (r == 0)
            r = msg_parse(&m, bytes.p, bytes.n);
        if (r == 0)
            r = sinks_receive(s->sinks, &m);
        if (r) {
            peer_end(s, p, r);
            break;
        }
        taken += bytes.n;
        unwritten += bytes.n;
        if (unwritten > SCRIBE_PIECE) {
            peer_written(s, p);
            unwritten = 0;
        }
    }
    if (unwritten)
        peer_written(s, p);
    return taken > 0;
}

static void look_later(struct scribe_process *s) {
    static const struct timeval rest = {.tv_usec = SCRIBE_REST_MS * 1000};
    if (!event_pending(s->look, EV_TIMEOUT, NULL))
        event_add(s->look, &rest);
}

/* Looks at all rings, and again after a rest; when there was nothing for a while, not before a worker says so. */
static void look(struct scribe_process *s) {
    bool some = false;
    for (size_t i = 0; i < s->npeers; i++)
        some |= peer_take(s, &s->peers[i]);
    s->vain = some ? 0 : s->vain + 1;
    some = s->follows || s->vain < SCRIBE_LOOKS;
    for (size_t i = 0; i < s->npeers && !some; i++)
        some = s->peers[i].ring && !ring_rest(s->peers[i].ring);
    if (some && !s->stopping)
        look_later(s);
}

static void on_look(evutil_socket_t fd, short what, void *arg) {
    (void)fd;
    (void)what;
    look(arg);
}

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
    event_del(s->look);
    for (size_t i = 0; i < s->npeers; i++)
        peer_take(s, &s->peers[i]); /* all that is there now: a worker that writes on and on ends no loop */
    sinks_stop(s->sinks, on_stopped, s);
}

static int on_peer(struct channel *c, struct msg_in *m) {
    struct scribe_process *s = c->arg;
    if (m->type != RECORD_WAKE || msg_end(m) < 0)
        return ERR_PEER;
    if (s->sinks && !s->stopping)
        look(s);
    return 0;
}

static void peer_end(struct scribe_process *s, struct scribe_peer *p, int err) {
    if (err != ERR_EOF)
        log_error("worker %u: a record is malformed", p->channel.number);
    ring_free(p->ring);
    p->ring = NULL;
    /* closed, and thereby told to the worker: it ends, and the supervisor with it */
    channel_close(&p->channel);
    if (--s->open == 0)
        stop(s);
}

static void on_peer_closed(struct channel *c, int err) {
    struct scribe_process *s = c->arg;
    struct scribe_peer *p = (struct scribe_peer *)c;
    if (s->sinks)
        peer_take(s, p); /* all that is there: he who closed it has written nothing since */
    if (p->ring)
        peer_end(s, p, err);
}

static const struct channel_ops peer_ops = {on_peer, on_peer_closed};

static int add_peer(struct scribe_process *s, struct msg_in *m) {
    uint32_t number = msg_get_u32(m);
    int fd = msg_get_fd(m), ring = msg_get_fd(m);
    if (msg_end(m) < 0 || s->npeers == CONFIG_WORKERS_MAX) {
        if (fd >= 0)
            close(fd);
        if (ring >= 0)
            close(ring);
        return ERR_PEER;
    }
    struct scribe_peer *p = &s->peers[s->npeers];
    int r = ring_attach(ring, &p->ring, NULL);
    if (r < 0) {
        close(fd);
        return r;
    }
    s->npeers++;
    s->open++;
    r = channel_open(&p->channel, s->role.base, fd, false, &peer_ops, s);
    p->channel.number = number;
    return r;
}

/* `log_fd` is taken. */
static int open_sinks(struct scribe_process *s, int log_fd, int loudness, unsigned style, struct slice redis,
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
            .style = style | (log_colour(STDERR_FILENO) ? RECORD_COLOUR : 0),
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
    s->follows = msg_get_u8(m);
    unsigned style = msg_get_u8(m) ? RECORD_SANDBOX : RECORD_PLAIN;
    struct errmsg msg = {""};
    if (msg_end(m) < 0) {
        if (log_fd >= 0)
            close(log_fd);
        return ERR_PEER;
    }
    if (open_sinks(s, log_fd, loudness, style, redis, &msg) < 0) {
        errmsg_prefix(&msg, "exeat: decision log");
        return role_failed(&s->role, 0, slice_str(msg.text));
    }
    s->look = event_new(s->role.base, -1, 0, on_look, s);
    if (!s->look)
        return ERR_NOMEM;
    look_later(s);
    return role_ready_plain(&s->role, CONFINE_SCRIBE);
}

/* A sandbox is over, and whoever waits for its end wants to read what it has done. */
static int flush(struct scribe_process *s, struct msg_in *m) {
    uint8_t memory[16];
    struct msg_out out;
    uint64_t number = msg_get_u64(m);
    if (msg_end(m) < 0)
        return ERR_PEER;
    if (!s->stopping)
        look(s);
    msg_begin(&out, memory, sizeof memory, IPC_FLUSHED);
    msg_put_u64(&out, number);
    return channel_send(&s->role.ctl, &out);
}

static int on_supervisor(struct channel *c, struct msg_in *m) {
    struct scribe_process *s = c->arg;
    if (m->type == IPC_FLUSH && s->sinks)
        return flush(s, m);
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

static int scribe_run(void) {
    static struct scribe_process s;
    role_outlives(); /* what workers have to say at their end is still to be written */
    if (role_open(&s.role, &supervisor_ops, &s) < 0)
        return 1;
    role_loop(&s.role);
    for (size_t i = 0; i < s.npeers; i++) {
        channel_close(&s.peers[i].channel);
        ring_free(s.peers[i].ring);
    }
    if (s.look)
        event_free(s.look);
    sinks_free(s.sinks);
    return role_close(&s.role);
}

/*
 * Nobody waits for the scribe, and what it does at once takes longer than a request: a worker that is to run on the same
 * CPU interrupts it. Where the kernel shares CPU time between sessions first (sched(7), autogroups), that is of the session.
 */
static void give_way(void) {
    (void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + SCRIBE_NICE);
    int fd = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        dprintf(fd, "%d", SCRIBE_NICE);
        close(fd);
    }
}

int main(int argc, char **argv) {
    give_way(); /* before it is confined, whereby what is in /proc/self becomes root's */
    return role_main(argc, argv, "scribe", scribe_run);
}
