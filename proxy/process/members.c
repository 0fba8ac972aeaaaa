#include "proxy/process/members.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/version.h"
#include "proxy/process/handover.h"
#include "proxy/process/ipc.h"
#include "proxy/process/service_socket.h"
#include "proxy/process/service_wire.h"
#include "vault/client.h"

/*
 *     MEMBER_NEW --> MEMBER_JOINED --> MEMBER_OPEN --> MEMBER_ENDING --> MEMBER_GONE
 *         +---------------+------------------------------------------------^
 *
 * member_enter() is the one writer.
 */
enum member_state {
    MEMBER_NEW,    /* connected */
    MEMBER_JOINED, /* the keeper knows what it may be lent */
    MEMBER_OPEN,   /* workers have its listeners */
    MEMBER_ENDING, /* … and are to end it */
    MEMBER_GONE,
    MEMBER_STATES
};

struct member {
    LIST_ENTRY(member) link;
    struct members *all;
    struct channel channel;
    uint64_t id;
    enum member_state state;
    bool stranger;    /* another user's: to be told so */
    unsigned waiting; /* MEMBER_ENDING: workers that have not said yet that nothing of it is left */
    char name[CONFIG_NAME_MAX + 1];
};

static void member_enter(struct member *m, enum member_state state) {
    static const uint8_t legal[MEMBER_STATES] = {
        [MEMBER_NEW] = 1 << MEMBER_JOINED | 1 << MEMBER_GONE,
        [MEMBER_JOINED] = 1 << MEMBER_OPEN | 1 << MEMBER_GONE,
        [MEMBER_OPEN] = 1 << MEMBER_ENDING,
        [MEMBER_ENDING] = 1 << MEMBER_GONE,
    };
    assert(legal[m->state] & 1 << state);
    m->state = state;
}

static struct members_bucket *bucket(struct members *all, uint64_t id) {
    return &all->buckets[id % MEMBERS_BUCKETS];
}

static struct member *find(struct members *all, uint64_t id) {
    struct member *m;
    LIST_FOREACH(m, bucket(all, id), link)
    if (m->id == id)
        return m;
    return NULL;
}

static void member_free(struct member *m) {
    LIST_REMOVE(m, link);
    m->all->n--;
    channel_close(&m->channel);
    free(m);
}

/* --- the end ---------------------------------------------------------------------------------------------------------- */

/* The keeper forgets it. */
static void forget(struct member *m) {
    uint8_t memory[32];
    struct msg_out out;
    vault_put_revoke(&out, memory, sizeof memory, m->id);
    (void)children_send_keeper(m->all->children, &out); /* one that is gone ends the service */
}

static void tell_scribe(struct member *m) {
    uint8_t memory[32];
    struct msg_out out;
    msg_begin(&out, memory, sizeof memory, IPC_FLUSH);
    msg_put_u64(&out, m->id);
    (void)children_send_scribe(m->all->children, &out);
}

/* Whoever has joined is gone, says that the sandbox is over, or has to go. A member that is not open yet is freed here, another one when
 * the roles have answered. */
static void member_end(struct member *m) {
    if (m->state == MEMBER_ENDING)
        return;
    if (m->state == MEMBER_OPEN) {
        uint8_t memory[32];
        struct msg_out out;
        member_enter(m, MEMBER_ENDING);
        m->waiting = m->all->prepared->config->workers;
        msg_begin(&out, memory, sizeof memory, IPC_SANDBOX_END);
        msg_put_u64(&out, m->id);
        (void)children_send_workers(m->all->children, &out);
        return;
    }
    if (m->state == MEMBER_JOINED)
        forget(m);
    member_enter(m, MEMBER_GONE);
    member_free(m);
}

void members_ended(struct members *all, uint64_t id) {
    struct member *m = find(all, id);
    if (!m || m->state != MEMBER_ENDING || --m->waiting)
        return;
    forget(m);
    tell_scribe(m);
}

void members_flushed(struct members *all, uint64_t id) {
    struct member *m = find(all, id);
    if (!m || m->state != MEMBER_ENDING)
        return;
    (void)channel_send_type(&m->channel, SERVICE_LEFT);
    member_enter(m, MEMBER_GONE);
    member_free(m);
}

static void refuse(struct member *m, const char *text) {
    struct msg_out out;
    msg_begin(&out, msg_room.out, sizeof msg_room.out, SERVICE_REFUSED);
    msg_put_str(&out, text);
    (void)channel_send(&m->channel, &out);
}

/* Who is not let in has no business here any more: his connection ends, and nothing of him stays. */
static int turn_away(struct member *m, const char *text) {
    refuse(m, text);
    return ERR_EOF;
}

void members_refused(struct members *all, uint64_t id, struct slice why) {
    struct member *m = find(all, id);
    struct errmsg msg;
    if (!m || m->state != MEMBER_OPEN)
        return;
    errmsg_set(&msg, ERR_IO, "exeat: the sandbox gets no way out: %.*s", SLICE_ARG(why));
    refuse(m, msg.text);
    member_end(m);
}

/* --- joining ---------------------------------------------------------------------------------------------------------- */

/* The names of credentials in a message, copied one behind the other. */
struct wanted {
    char *text;
    const char **names;
    uint32_t n;
};

static void wanted_release(struct wanted *w) {
    free(w->text);
    free(w->names);
}

static int get_wanted(struct msg_in *m, struct wanted *w) {
    uint32_t n = msg_get_u32(m);
    if (m->err || n > VAULT_GRANT_MAX)
        return ERR_PEER;
    char *at = w->text = malloc(m->n + 1); /* each has four bytes for its length, and needs one for its end */
    w->names = calloc(n + 1, sizeof *w->names);
    if (!w->text || !w->names)
        return ERR_NOMEM;
    for (; w->n < n; w->n++) {
        struct slice name = msg_get_slice(m);
        if (m->err || name.n == 0 || name.n > VAULT_NAME_MAX || memchr(name.p, 0, name.n))
            return ERR_PEER; /* the keeper would not go on with us */
        memcpy(at, name.p, name.n);
        at[name.n] = 0;
        w->names[w->n] = at;
        at += name.n + 1;
    }
    return 0;
}

/* A credential that the vault does not have is a slip of the pen; without a vault, requests that are to carry it are refused, and say so.
 * False: `msg` says which. */
static bool known(const struct prepared *p, const struct wanted *w, struct errmsg *msg) {
    for (uint32_t i = 0; p->vault && i < w->n; i++) {
        if (vault_has(p->vault, slice_str(w->names[i])))
            continue;
        errmsg_set(
            msg, ERR_NOTFOUND,
            "exeat: the policy lends credential '%s', which is not in the service's %s: add 'credential %s' "
            "there, or take 'with %s' out of the policy",
            w->names[i], p->config->vault, w->names[i], w->names[i]);
        return false;
    }
    return true;
}

static const char *warning(const struct prepared *p, const struct wanted *w) {
    return p->vault || w->n == 0
               ? ""
               : "the policy lends credentials by name, and the service has no --vault: requests that are to "
                 "carry one will be refused";
}

static void put_joined(const struct members *all, const char *warn, struct msg_out *out) {
    msg_begin(out, msg_room.out, sizeof msg_room.out, SERVICE_JOINED);
    msg_put_slice(out, all->ca_pem);
    msg_put_u32(out, all->ca_hash);
    msg_put_str(out, warn);
    hidden_put(&all->prepared->hidden, out);
}

bool members_possible(const struct members *all) {
    const struct wanted wanted = {.n = 1};
    struct msg_out out;
    put_joined(all, warning(all->prepared, &wanted), &out);
    return out.err == 0;
}

static int send_joined(struct member *m, const char *warn) {
    struct msg_out out;
    put_joined(m->all, warn, &out);
    return channel_send(&m->channel, &out);
}

static int grant(struct member *m, const struct wanted *w) {
    struct msg_out out;
    vault_put_grant(&out, msg_room.out, sizeof msg_room.out, m->id, w->names, w->n);
    return children_send_keeper(m->all->children, &out);
}

static int admit(struct member *m, struct slice build, int namespace, const struct wanted *w) {
    struct errmsg msg;
    if (m->stranger) {
        log_warn("a process of another user has tried to join");
        return turn_away(m,
                         "exeat: the service is another user's, and takes sandboxes of its own user alone");
    }
    if (!service_same_namespace(namespace)) {
        log_warn("a process of another user namespace has tried to join");
        return turn_away(
            m,
            "exeat: the service takes nobody from another user namespace: it is for sandboxes, not for use "
            "in one");
    }
    if (!slice_eq(build, slice_str(version_build))) {
        errmsg_set(&msg, ERR_UNSUPPORTED,
                   "exeat: the service is another build (%s): start it anew, or run the exeat that it is of",
                   version_build);
        return turn_away(m, msg.text);
    }
    if (!known(m->all->prepared, w, &msg))
        return turn_away(m, msg.text);
    int r = grant(m, w);
    if (r < 0)
        return r == ERR_EOF ? 0 : r; /* without the keeper the service ends */
    member_enter(m, MEMBER_JOINED);
    return send_joined(m, warning(m->all->prepared, w));
}

static int on_join(struct member *m, struct msg_in *in) {
    if (in->cut)
        return turn_away(m, "exeat: the service has no descriptor left for a sandbox (ulimit -n)");
    struct wanted wanted = {.n = 0};
    struct slice build = msg_get_slice(in);
    int namespace = msg_get_fd(in);
    struct slice name = msg_get_slice(in);
    int r = get_wanted(in, &wanted);
    if (r == 0 && (msg_end(in) < 0 || !config_is_name(name)))
        r = ERR_PEER;
    if (r == 0) {
        memcpy(m->name, name.p, name.n);
        r = admit(m, build, namespace, &wanted);
    }
    wanted_release(&wanted);
    if (namespace >= 0)
        close(namespace);
    return r;
}

static int on_sandbox(struct member *m, struct msg_in *in) {
    struct msg_out out;
    struct errmsg msg;
    if (in->cut)
        return turn_away(m, "exeat: the service has no descriptor left for the sandbox (ulimit -n)");
    msg_begin(&out, msg_room.out, sizeof msg_room.out, IPC_SANDBOX);
    msg_put_u64(&out, m->id);
    msg_put_str(&out, m->name);
    if (handover_pass(in, &out) < 0)
        return ERR_PEER;
    member_enter(m, MEMBER_OPEN);
    int r = children_send_workers(m->all->children, &out);
    if (r < 0 && r != ERR_EOF) { /* without a worker the service ends */
        errmsg_set(&msg, r, "the service can't hand it to its workers: %s",
                   r == ERR_LIMIT ? "no descriptor is left for what waits for them (ulimit -n)"
                                  : err_text(r));
        members_refused(m->all, m->id, slice_str(msg.text));
    }
    return 0;
}

static int on_message(struct channel *c, struct msg_in *in) {
    struct member *m = c->arg;
    switch (in->type) {
    case SERVICE_JOIN: return m->state == MEMBER_NEW ? on_join(m, in) : ERR_PEER;
    case SERVICE_SANDBOX: return m->state == MEMBER_JOINED ? on_sandbox(m, in) : ERR_PEER;
    case SERVICE_LEAVE:
        if (msg_end(in) < 0)
            return ERR_PEER;
        if (m->state < MEMBER_OPEN)
            return ERR_EOF; /* on_closed follows: here the member has to be there still */
        member_end(m);
        return 0;
    default: return ERR_PEER;
    }
}

static void on_closed(struct channel *c, int err) {
    struct member *m = c->arg;
    if (err != ERR_EOF)
        log_warn("sandbox %s is ended: %s", m->name[0] ? m->name : "(no name yet)", err_text(err));
    member_end(m);
}

static const struct channel_ops member_ops = {on_message, on_closed};

int members_take(struct members *all, int fd) {
    struct member *m = all->n < MEMBERS_MAX ? calloc(1, sizeof *m) : NULL;
    if (!m) {
        close(fd);
        return ERR_LIMIT;
    }
    m->all = all;
    m->id = ++all->last;
    m->stranger = !service_same_user(fd);
    LIST_INSERT_HEAD(bucket(all, m->id), m, link);
    all->n++;
    int r = channel_open(&m->channel, all->base, fd, false, &member_ops, m);
    if (r < 0)
        member_free(m);
    return r;
}

void members_close(struct members *all) {
    for (size_t i = 0; i < MEMBERS_BUCKETS; i++)
        while (!LIST_EMPTY(&all->buckets[i]))
            member_free(LIST_FIRST(&all->buckets[i]));
}
