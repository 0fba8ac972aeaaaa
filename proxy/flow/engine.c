#include "proxy/flow/engine.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/heap.h"
#include "ca/leaf.h"
#include "proxy/codec/lfs.h"
#include "proxy/codec/watch.h"
#include "proxy/flow/state.h"
#include "proxy/flow/tunnel.h"
#include "proxy/flow/xchg.h"
#include "vault/client.h"

#define ENGINE_RETRY_MS  200  /* after descriptors ran out */
#define ENGINE_OWN_FILES 24   /* descriptors of the worker itself */
#define ENGINE_SHED_NOTE 1000 /* one record about connections that were shed, in so many ms */

/* ---- memory that waits ---- */

void engine_reap(struct engine *engine) {
    while (engine->dead_xchgs) {
        struct xchg *x = engine->dead_xchgs;
        engine->dead_xchgs = x->next;
        xchg_recycle(x);
    }
    while (engine->dead_conns) {
        struct conn *conn = engine->dead_conns;
        engine->dead_conns = conn->next;
        if (conn->h2)
            conn_http2_free(conn->h2);
        tunnel_free(conn->tunnel);
        free(conn);
    }
}

/* ---- leaves: the keeper mints ---- */

struct mint {
    struct mint *next, **link;
    struct vault_request request;
    struct engine *engine;
    size_t n;
    char name[];
};

static void engine_minted(struct vault_request *r, struct vault_answer *answer) {
    struct mint *mint = r->arg;
    struct engine *engine = mint->engine;
    struct slice name = slice_make(mint->name, mint->n);
    char why[256];
    engine_reap(engine);
    *mint->link = mint->next;
    if (mint->next)
        mint->next->link = mint->link;
    snprintf(why, sizeof why, "%.*s", SLICE_ARG(answer->why));
    if (answer->err)
        leaf_cache_fail(engine->leaves, name, answer->err, why);
    else
        leaf_cache_put(engine->leaves, name, answer->der, (int64_t)(clock_wall_ms() / 1000));
    free(mint);
}

static int engine_ask_leaf(void *arg, struct slice name, struct slice spki) {
    struct engine *engine = arg;
    struct mint *mint = calloc(1, sizeof *mint + name.n);
    if (!mint)
        return ERR_NOMEM;
    mint->engine = engine;
    mint->n = name.n;
    memcpy(mint->name, name.p, name.n);
    mint->request.done = engine_minted;
    mint->request.arg = mint;
    int r = vault_ask_mint(engine->config.vault, &mint->request, name, spki);
    if (r) {
        free(mint);
        return r;
    }
    mint->next = engine->mints;
    mint->link = &engine->mints;
    if (mint->next)
        mint->next->link = &mint->next;
    engine->mints = mint;
    return 0;
}

/* ---- memory ---- */

#define ENGINE_TIDY_S 3

static void engine_on_tidy(evutil_socket_t fd, short what, void *arg) {
    (void)fd;
    (void)what;
    (void)arg;
    heap_give_back();
}

static void engine_tidy_later(struct engine *engine) {
    static const struct timeval wait = {.tv_sec = ENGINE_TIDY_S};
    if (!event_pending(&engine->tidy, EV_TIMEOUT, NULL))
        event_add(&engine->tidy, &wait);
}

/* ---- life ---- */

static void engine_on_retry(evutil_socket_t fd, short what, void *arg);
static void engine_on_drain_end(evutil_socket_t fd, short what, void *arg);
static void box_on_drain_end(evutil_socket_t fd, short what, void *arg);

/* Each exchange takes two descriptors: no more clients are let in than could be served. */
static void engine_fit_limits(struct engine_limits *limits) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur == RLIM_INFINITY)
        return;
    rlim_t room = files.rlim_cur > ENGINE_OWN_FILES ? (files.rlim_cur - ENGINE_OWN_FILES) / 2 : 1;
    if (limits->connections > room)
        limits->connections = (unsigned)room;
}

int engine_new(const struct engine_config *config, struct engine **out, struct errmsg *msg) {
    struct engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return errmsg_set(msg, ERR_NOMEM, "out of memory");
    lfs_prepare();
    engine->config = *config;
    engine_fit_limits(&engine->config.limits);
    engine->proof_memory.limit = 2 * engine->config.limits.push_memory;
    buf_init(&engine->text, 65536);
    buf_init(&engine->text2, 65536);
    buf_init(&engine->ca_pem, config->ca_pem.n + 1);
    event_assign(&engine->retry, config->base, -1, 0, engine_on_retry, engine);
    event_assign(&engine->tidy, config->base, -1, 0, engine_on_tidy, engine);
    event_assign(&engine->drain.timer, config->base, -1, 0, engine_on_drain_end, engine);
    engine->reserve_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    struct leaf_config leaves = {.ask = engine_ask_leaf, .setup = conn_tls_setup, .arg = engine};
    int r = buf_put(&engine->ca_pem, config->ca_pem);
    engine->config.ca_pem = buf_slice(&engine->ca_pem);
    if (r == 0)
        r = leaf_cache_new(&leaves, &engine->leaves, msg);
    if (r) {
        engine_free(engine);
        return r;
    }
    *out = engine;
    return 0;
}

static void box_close_listeners(struct box *box) {
    for (size_t i = 0; i < box->nlisteners; i++) {
        event_del(&box->listeners[i].event);
        close(box->listeners[i].fd);
    }
    box->nlisteners = 0;
}

/* All that is under way ends. */
static void box_cut(struct box *box) {
    box->cutting = true;
    while (box->conns)
        conn_close(box->conns);
    while (!LIST_EMPTY(&box->tails))
        xchg_conn_gone(LIST_FIRST(&box->tails));
}

static void box_free(struct box *box) {
    box_close_listeners(box);
    box_cut(box);
    engine_reap(box->engine);
    upstream_pool_free(box->pool);
    event_del(&box->drain.timer); /* what ended just now may have made it active */
    io_memory_drop(box->memory);
    *box->link = box->next;
    if (box->next)
        box->next->link = box->link;
    free(box);
}

void engine_free(struct engine *engine) {
    if (!engine)
        return;
    while (engine->boxes)
        box_free(engine->boxes);
    io_end_lingering();
    while (engine->mints) {
        struct mint *mint = engine->mints;
        engine->mints = mint->next;
        vault_cancel(&mint->request);
        free(mint);
    }
    event_del(&engine->retry);
    event_del(&engine->tidy);
    event_del(&engine->drain.timer);
    while (engine->spare_xchgs) {
        struct xchg *x = engine->spare_xchgs;
        engine->spare_xchgs = x->next;
        free(x);
    }
    leaf_cache_free(engine->leaves);
    bindings_free(engine->bindings);
    watch_table_free(engine->watched);
    buf_release(&engine->text);
    buf_release(&engine->text2);
    buf_release(&engine->ca_pem);
    if (engine->reserve_fd >= 0)
        close(engine->reserve_fd);
    free(engine);
}

/* ---- accepting ---- */

static void engine_set_accepting(struct engine *engine, bool on) {
    for (struct box *box = engine->boxes; box; box = box->next)
        for (size_t i = 0; i < box->nlisteners; i++) {
            if (on)
                event_add(&box->listeners[i].event, NULL);
            else
                event_del(&box->listeners[i].event);
        }
}

static bool engine_may_accept(const struct engine *engine) {
    return engine->bindings && !engine->drain.on && !engine->accept_paused;
}

void engine_set_bindings(struct engine *engine, struct bindings *bindings) {
    bool first = !engine->bindings;
    bindings_free(engine->bindings);
    engine->bindings = bindings;
    if (first && engine_may_accept(engine))
        engine_set_accepting(engine, true);
}

void engine_set_watched(struct engine *engine, struct watch_table *watched) {
    watch_table_free(engine->watched);
    engine->watched = watched;
}

/* A connection was turned away for want of room: said once in a while, so that it does not become a flood. */
bool box_takes(struct box *box, const struct verdict *v, unsigned *wait_s) {
    return v->limit == 0 ||
           limits_take(box->limits, v->limit_id, v->limit, v->limit_seconds, clock_monotonic_ms(), wait_s);
}

void box_shed(struct box *box, const char *code, const char *why) {
    uint64_t now = clock_monotonic_ms();
    if (box->shed_noted && now - box->shed_noted < ENGINE_SHED_NOTE)
        return;
    box->shed_noted = now ? now : 1;
    struct decision decision;
    decision_begin(&decision);
    struct record r = {.denied = true, .code = slice_str(code), .reason = slice_str(why)};
    decision_verdict(box, &decision, &r, SLICE_NONE);
}

static void engine_pause_accepting(struct engine *engine) {
    struct timeval tv = {.tv_usec = ENGINE_RETRY_MS * 1000};
    engine->accept_paused = true;
    engine_set_accepting(engine, false);
    event_add(&engine->retry, &tv);
}

static void engine_on_retry(evutil_socket_t fd, short what, void *arg) {
    struct engine *engine = arg;
    (void)fd;
    (void)what;
    engine->accept_paused = false;
    if (engine->reserve_fd < 0)
        engine->reserve_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    if (engine_may_accept(engine))
        engine_set_accepting(engine, true);
}

/* No descriptor is left: one client is accepted on the reserve and turned away, so that it need not wait for nothing;
 * then accepting rests. */
static void engine_out_of_descriptors(struct box *box, int listener) {
    struct engine *engine = box->engine;
    if (engine->reserve_fd >= 0) {
        close(engine->reserve_fd);
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            close(fd);
        engine->reserve_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    }
    box_shed(box, "descriptors", "no descriptor is left for another connection");
    engine_pause_accepting(engine);
}

/* Of what the worker has, a sandbox that shares it with others leaves as much as it takes: however many of them hold on to theirs,
 * there is something left for the next. */
static bool box_has_room(const struct box *box) {
    const struct engine *engine = box->engine;
    const struct engine_limits *limits = &engine->config.limits;
    size_t left = engine->nconns < limits->connections ? limits->connections - engine->nconns : 0;
    bool alone = !engine->config.shared && !engine->boxes->next;
    return left && box->nconns < limits->sandbox_connections && (alone || box->nconns < left);
}

static void engine_on_accept(evutil_socket_t listener, short what, void *arg) {
    struct box_listener *l = arg;
    struct box *box = l->box;
    struct engine *engine = box->engine;
    (void)what;
    engine_reap(engine);
    for (unsigned i = 0; i < engine->config.limits.accept_burst; i++) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
                engine_out_of_descriptors(box, listener);
            else if (errno == EINVAL) /* it listens no more, and would be readable for ever */
                event_del(&l->event);
            return;
        }
        if (!box_has_room(box)) {
            close(fd);
            box_shed(box, "connections", "too many connections are open");
            continue;
        }
        engine_tidy_later(engine);
        if (box->nconns >= IO_CROWD)
            io_crowded(fd);
        if (!conn_new(box, fd))
            box_shed(box, "memory",
                     "there is no memory for another connection, or the kernel watches no more");
    }
}

/* ---- sandboxes ---- */

/* What is accepted has these from the listener, without a system call of its own. A client that said that its request has ended may
 * wait for the answer, or be gone: the kernel inside knows, and is asked. */
static void listener_options(int fd) {
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    io_keepalive(fd);
}

/* Takes them all, so that box_free closes them all, whatever becomes of one. */
static int box_listen(struct box *box, const struct engine_sandbox *sandbox) {
    int r = 0;
    for (size_t i = 0; i < sandbox->nlisteners; i++) {
        struct box_listener *l = &box->listeners[box->nlisteners++];
        l->box = box;
        l->fd = sandbox->listeners[i].fd;
        listener_options(l->fd);
        event_assign(&l->event, box->engine->config.base, l->fd, EV_READ | EV_PERSIST, engine_on_accept, l);
        if (r == 0 && engine_may_accept(box->engine) && event_add(&l->event, NULL))
            r = ERR_IO;
    }
    return r;
}

static struct box *engine_find(struct engine *engine, uint64_t id) {
    struct box *box = engine->boxes;
    while (box && box->id != id)
        box = box->next;
    return box;
}

static int engine_refuse_sandbox(const struct engine_sandbox *sandbox, int err, struct errmsg *msg,
                                 const char *why) {
    for (size_t i = 0; i < sandbox->nlisteners; i++)
        close(sandbox->listeners[i].fd);
    return errmsg_set(msg, err, "%s", why);
}

int engine_add_sandbox(struct engine *engine, const struct engine_sandbox *sandbox, struct errmsg *msg) {
    if (engine_find(engine, sandbox->id))
        return engine_refuse_sandbox(sandbox, ERR_EXISTS, msg, "there is a sandbox of that id");
    if (sandbox->name.n > ENGINE_NAME_MAX || sandbox->nlisteners > ENGINE_LISTENERS_MAX)
        return engine_refuse_sandbox(sandbox, ERR_LIMIT, msg, "the sandbox's name or listeners are too many");
    struct box *box = calloc(1, sizeof *box);
    struct io_memory *memory = io_memory_new(engine->config.limits.sandbox_memory);
    struct upstream_pool *pool = box && memory ? upstream_pool_new(engine->config.upstream, memory) : NULL;
    if (!pool) {
        io_memory_drop(memory);
        free(box);
        return engine_refuse_sandbox(sandbox, ERR_NOMEM, msg, "out of memory");
    }
    box->engine = engine;
    box->id = sandbox->id;
    box->policy = sandbox->policy;
    box->names = sandbox->names;
    box->why = sandbox->why;
    box->limits = sandbox->limits;
    box->shown = sandbox->shown;
    box->pool = pool;
    box->memory = memory;
    memcpy(box->name, sandbox->name.p, sandbox->name.n);
    event_assign(&box->drain.timer, engine->config.base, -1, 0, box_on_drain_end, box);
    box->next = engine->boxes;
    box->link = &engine->boxes;
    if (box->next)
        box->next->link = &box->next;
    engine->boxes = box;
    int r = box_listen(box, sandbox);
    if (r) {
        box_free(box);
        return errmsg_set(msg, r, "a listener can't be watched");
    }
    return 0;
}

void engine_remove_sandbox(struct engine *engine, uint64_t id) {
    struct box *box = engine_find(engine, id);
    if (box)
        box_free(box);
}

/* ---- draining ---- */

static void drain_settle(struct drain *drain, size_t under_way) {
    if (under_way == 0 && drain->done)
        event_active(&drain->timer, EV_TIMEOUT, 0);
}

void box_settle(struct box *box) {
    struct engine *engine = box->engine;
    drain_settle(&box->drain, box->nconns + box->nxchgs);
    drain_settle(&engine->drain, engine->nconns + engine->nxchgs);
}

static void drain_begin(struct drain *drain, unsigned ms, void (*done)(void *arg), void *arg) {
    struct timeval tv = {.tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000) * 1000};
    drain->on = true;
    drain->done = done;
    drain->arg = arg;
    event_add(&drain->timer, &tv);
}

/* `done` may free what the drain is a part of. */
static void drain_end(struct drain *drain) {
    void (*done)(void *) = drain->done;
    drain->done = NULL;
    if (done)
        done(drain->arg);
}

static void engine_on_drain_end(evutil_socket_t fd, short what, void *arg) {
    struct engine *engine = arg;
    (void)fd;
    (void)what;
    for (struct box *box = engine->boxes; box; box = box->next)
        box_cut(box);
    engine_reap(engine);
    drain_end(&engine->drain);
}

static void box_on_drain_end(evutil_socket_t fd, short what, void *arg) {
    struct box *box = arg;
    (void)fd;
    (void)what;
    box_cut(box);
    engine_reap(box->engine);
    drain_end(&box->drain);
}

/* Connections on which nothing is under way end; those of HTTP/2 are told that no more streams are taken. */
static void box_end_idle(struct box *box) {
    for (struct conn *conn = box->conns, *next; conn; conn = next) {
        next = conn->next;
        if (conn->h2)
            conn_http2_drain(conn);
        else if (conn->state != CONN_TUNNEL && !conn->x && conn->phase == H1_HEAD && buf_len(&conn->in) == 0)
            conn_linger(conn, 0);
    }
}

void engine_drain(struct engine *engine, unsigned ms, void (*done)(void *arg), void *arg) {
    drain_begin(&engine->drain, ms, done, arg);
    engine_set_accepting(engine, false);
    for (struct box *box = engine->boxes; box; box = box->next)
        box_end_idle(box);
    drain_settle(&engine->drain, engine->nconns + engine->nxchgs);
}

void engine_drain_sandbox(struct engine *engine, uint64_t id, unsigned ms, void (*done)(void *arg),
                          void *arg) {
    struct box *box = engine_find(engine, id);
    assert(box && !box->drain.on);
    drain_begin(&box->drain, ms, done, arg);
    box_close_listeners(box);
    box_end_idle(box);
    box_settle(box);
}
