#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ulid.h"
#include "netns/names.h"
#include "netns/sandbox.h"
#include "policy/policy.h"
#include "proxy/flow/limits.h"
#include "proxy/flow/nameserver.h"
#include "proxy/flow/shown.h"
#include "proxy/process/ipc.h"
#include "proxy/process/sources.h"
#include "proxy/process/worker.h"
#include "proxy/record/recorder.h"
#include "proxy/record/why.h"

/* A name that can't be a host's: recorded, since somebody may be trying what DNS lets out. */
static void on_name_refused(void *arg, struct slice name, const char *why) {
    struct worker_sandbox *s = arg;
    struct record r = {
        .event = RECORD_VERDICT,
        .id = ulid_new(),
        .time_ms = clock_wall_ms(),
        .sandbox = slice_str(s->name),
        .denied = true,
        .reason = slice_str(why),
        .code = SLICE("name-refused"),
        .method = SLICE("DNS"),
        .url = name,
    };
    recorder_send(s->worker->recorder, &r);
}

/* --- policies --------------------------------------------------------------------------------------------------------- */

static int compile(struct worker_policy *p, struct slice bundle) {
    struct policy_diags diags;
    policy_diags_init(&diags);
    int r = policy_load_bundle(bundle, &p->policy, &diags);
    policy_diags_release(&diags);
    return r;
}

/* A thousand sandboxes may have one policy, and then it is there once. */
static int take_policy(struct worker_process *w, int fd, struct worker_policy **out) {
    unsigned char digest[SHA256_DIGEST_LENGTH];
    struct slice bundle;
    struct worker_policy *p = w->policies;
    int r = memory_file_map(fd, POLICY_BUNDLE_MAX, &bundle);
    if (r < 0)
        return r;
    SHA256((const unsigned char *)bundle.p, bundle.n, digest);
    while (p && memcmp(p->digest, digest, sizeof digest) != 0)
        p = p->next;
    if (!p) {
        p = calloc(1, sizeof *p);
        r = p ? compile(p, bundle) : ERR_NOMEM;
        if (r == 0) {
            memcpy(p->digest, digest, sizeof digest);
            p->next = w->policies;
            w->policies = p;
        } else {
            free(p);
        }
    }
    memory_file_unmap(&bundle);
    if (r < 0)
        return r;
    p->users++;
    *out = p;
    return 0;
}

static void drop_policy(struct worker_process *w, struct worker_policy *p) {
    struct worker_policy **link = &w->policies;
    if (!p || --p->users)
        return;
    while (*link != p)
        link = &(*link)->next;
    *link = p->next;
    policy_free(p->policy);
    free(p);
}

/* --- one begins ------------------------------------------------------------------------------------------------------- */

static void sandbox_free(struct worker_sandbox *s) {
    if (s->worker->engine)
        engine_remove_sandbox(s->worker->engine, s->id);
    if (s->nameserver)
        nameserver_free(s->nameserver);
    names_free(s->names);
    why_free(s->why);
    limits_free(s->limits);
    shown_free(s->shown);
    drop_policy(s->worker, s->policy);
    free(s);
}

/* The listeners of a message: TCP for the engine, the others for the name server. All that is not taken is closed by the channel. */
static int take_listeners(struct worker_sandbox *s, struct msg_in *m, struct engine_sandbox *config) {
    uint32_t n = msg_get_u32(m);
    int r = m->err;
    for (uint32_t i = 0; r == 0 && i < n; i++) {
        uint8_t kind = msg_get_u8(m);
        int fd = msg_get_fd(m);
        if (m->err || netns_listener(fd, kind == IPC_LISTEN_DNS_UDP ? SOCK_DGRAM : SOCK_STREAM) < 0) {
            if (fd >= 0)
                close(fd);
            r = ERR_PEER;
        } else if (kind == IPC_LISTEN_TCP && config->nlisteners < ENGINE_LISTENERS_MAX)
            config->listeners[config->nlisteners++].fd = fd;
        else if (kind == IPC_LISTEN_DNS_UDP)
            r = nameserver_add_udp(s->nameserver, fd);
        else if (kind == IPC_LISTEN_DNS_TCP)
            r = nameserver_add_tcp(s->nameserver, fd);
        else {
            close(fd);
            r = ERR_PEER;
        }
    }
    return r == 0 ? msg_end(m) : r;
}

/* What a sandbox has in memory files, in the order of the message. */
enum { FD_POLICY, FD_NAMES, FD_WHY, FD_LIMITS, FD_SHOWN, FD_COUNT };

/* Descriptors that were taken are -1 then. */
static int attach(struct worker_sandbox *s, int fds[FD_COUNT], struct errmsg *msg) {
    int r = take_policy(s->worker, fds[FD_POLICY], &s->policy);
    if (r < 0)
        return errmsg_set(msg, r, "policy: %s", err_text(r));
    r = names_attach(fds[FD_NAMES], &s->names, msg);
    fds[FD_NAMES] = -1;
    if (r == 0) {
        r = why_attach(fds[FD_WHY], &s->why, msg);
        fds[FD_WHY] = -1;
    }
    if (r == 0) {
        r = limits_attach(fds[FD_LIMITS], policy_rule_count(s->policy->policy), &s->limits, msg);
        fds[FD_LIMITS] = -1;
    }
    if (r == 0) {
        r = shown_attach(fds[FD_SHOWN], &s->shown, msg);
        fds[FD_SHOWN] = -1;
    }
    return r;
}

static int open_sandbox(struct worker_sandbox *s, struct msg_in *m, int fds[FD_COUNT], struct errmsg *msg) {
    int r = attach(s, fds, msg);
    if (r < 0)
        return r;
    s->nameserver = nameserver_new(s->worker->role.base, s->names, on_name_refused, s);
    if (!s->nameserver)
        return errmsg_set(msg, ERR_NOMEM, "out of memory");
    struct engine_sandbox config = {.id = s->id,
                                    .name = slice_str(s->name),
                                    .policy = s->policy->policy,
                                    .names = s->names,
                                    .why = s->why,
                                    .limits = s->limits,
                                    .shown = s->shown};
    r = take_listeners(s, m, &config);
    if (r == 0)
        return engine_add_sandbox(s->worker->engine, &config, msg);
    for (size_t i = 0; i < config.nlisteners; i++)
        close(config.listeners[i].fd);
    return errmsg_set(msg, r, "listeners: %s", err_text(r));
}

static int answer(struct worker_process *w, uint64_t id, const char *why) {
    uint8_t memory[ERRMSG_MAX + 64];
    struct msg_out m;
    msg_begin(&m, memory, sizeof memory, why ? IPC_SANDBOX_REFUSED : IPC_SANDBOX_ENDED);
    msg_put_u64(&m, id);
    if (why)
        msg_put_str(&m, why);
    return channel_send(&w->role.ctl, &m);
}

int worker_add_sandbox(struct worker_process *w, struct msg_in *m) {
    struct worker_sandbox *s = calloc(1, sizeof *s);
    if (!s)
        return ERR_NOMEM;
    s->worker = w;
    s->id = msg_get_u64(m);
    struct slice name = msg_get_slice(m);
    if (m->cut && !m->err) {
        uint64_t id = s->id;
        free(s);
        return answer(w, id, "no descriptor is left for it in a worker (ulimit -n)");
    }
    int fds[FD_COUNT];
    for (size_t i = 0; i < FD_COUNT; i++)
        fds[i] = msg_get_fd(m);
    struct errmsg msg = {""};
    int r = ERR_PEER;
    bool formed = !m->err && name.n < sizeof s->name;
    if (formed) {
        memcpy(s->name, name.p, name.n);
        r = open_sandbox(s, m, fds, &msg);
    }
    for (size_t i = 0; i < FD_COUNT; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    uint64_t id = s->id;
    if (r < 0) {
        sandbox_free(s);
        return formed ? answer(w, id, msg.text[0] ? msg.text : err_text(r)) : ERR_PEER;
    }
    s->next = w->sandboxes;
    w->sandboxes = s;
    role_settle(&w->role); /* a policy is read by way of much that is not kept */
    return 0;
}

/* --- one ends --------------------------------------------------------------------------------------------------------- */

static void on_over(void *arg) {
    struct worker_sandbox *s = arg;
    struct worker_process *w = s->worker;
    struct worker_sandbox **link = &w->sandboxes;
    uint64_t id = s->id;
    while (*link != s)
        link = &(*link)->next;
    *link = s->next;
    sandbox_free(s);
    role_settle(&w->role);
    (void)answer(w, id, NULL); /* a supervisor that is gone is no matter of a sandbox's */
}

int worker_end_sandbox(struct worker_process *w, struct msg_in *m) {
    uint64_t id = msg_get_u64(m);
    if (msg_end(m) < 0)
        return ERR_PEER;
    struct worker_sandbox *s = w->sandboxes;
    while (s && s->id != id)
        s = s->next;
    if (!s) /* it was refused here */
        return answer(w, id, NULL);
    if (s->ending)
        return ERR_PEER;
    s->ending = true;
    nameserver_free(s->nameserver);
    s->nameserver = NULL;
    engine_drain_sandbox(w->engine, id, WORKER_DRAIN_MS, on_over, s);
    return 0;
}

void worker_free_sandboxes(struct worker_process *w) {
    while (w->sandboxes) {
        struct worker_sandbox *s = w->sandboxes;
        w->sandboxes = s->next;
        sandbox_free(s);
    }
}
