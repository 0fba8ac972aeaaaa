/*
 * A worker's engine with one sandbox, for harnesses that drive whole connections: policy, resolver, recorder and all,
 * without a keeper. What the scribe would get is read back and counted, and these must hold at any time: a record can
 * be read, and no outcome comes without its verdict.
 */
#ifndef TESTS_FUZZ_RIG_H
#define TESTS_FUZZ_RIG_H

#include <arpa/inet.h>
#include <event2/event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "policy/policy.h"
#include "proxy/flow/engine.h"
#include "proxy/record/recorder.h"
#include "proxy/record/ring.h"
#include "proxy/upstream/resolve.h"
#include "proxy/upstream/upstream.h"
#include "proxy/record/why.h"
#include "vault/bindings.h"
#include "vault/client.h"
#include "vault/vault.h"

#define RIG_TURNS 400 /* of the event loop, for one input */
#define RIG_QUIET 6   /* turns without anything new: it is over */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct event_base *base;
static struct engine *engine;
static struct recorder *recorder;
static struct ring *records; /* the scribe's end */
static unsigned allowed, verdicts, outcomes;
static uint64_t progress; /* grows with whatever happens */

static void must(bool ok, const char *what) {
    if (!ok) {
        fprintf(stderr, "fuzz: %s\n", what);
        abort();
    }
}

/* ---- the world ---- */

static int rig_read_policy(void *arg, const char *from, const char *name, struct buf *resolved,
                           struct buf *text, struct errmsg *msg) {
    (void)from;
    (void)msg;
    int r = buf_puts(resolved, name);
    return r ? r : buf_puts(text, arg);
}

static struct policy *rig_policy(const char *text) {
    const char *file = "fuzz.policy";
    struct policy_input in = {
        .files = &file, .nfiles = 1, .read = rig_read_policy, .arg = (void *)(uintptr_t)text};
    struct policy_diags diags;
    struct policy *policy = NULL;
    policy_diags_init(&diags);
    must(policy_load(&in, &policy, &diags) == 0, "the policy");
    policy_diags_release(&diags);
    return policy;
}

static struct bindings *rig_bindings(void) {
    static char memory[MSG_MAX];
    struct vault *vault = NULL;
    struct bindings *bindings = NULL;
    struct buf diags;
    struct msg_out out;
    struct msg_in in;
    buf_init(&diags, 4096);
    must(vault_parse("vault", NULL, SLICE(""), &vault, &diags) == 0, "the vault");
    msg_begin(&out, memory, sizeof memory, VAULT_BINDINGS);
    must(bindings_put(vault, &out) == 0, "bindings");
    must(msg_parse(&in, memory, out.n) == 0 && bindings_get(&in, &bindings) == 0, "bindings back");
    vault_free(vault);
    buf_release(&diags);
    return bindings;
}

static int rig_no_keeper(void *arg, const struct msg_out *m) {
    (void)arg;
    (void)m;
    return ERR_IO;
}

static int rig_listen(struct sockaddr_in *at) {
    socklen_t len = sizeof *at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    must(fd >= 0 && bind(fd, (struct sockaddr *)at, sizeof *at) == 0 && listen(fd, 64) == 0, "a listener");
    getsockname(fd, (struct sockaddr *)at, &len);
    return fd;
}

/* `front` is the sandbox's listener, taken; `pin` is --resolve's. */
static void rig_new(const char *policy, int front, const char *pin) {
    struct resolver_config resolving = {
        .resolv_conf = "/dev/null", .hosts = "/dev/null", .pins = &pin, .npins = 1};
    struct resolver *resolver;
    struct vault_client *vault;
    struct why *why;
    int fds[2];
    must(resolver_new(base, &resolving, &resolver, NULL) == 0, "a resolver");
    struct upstream_config up = {.base = base, .resolver = resolver};
    must(msg_pair(fds) == 0, "a pair");
    (void)fds[1]; /* stays open: the scribe lives */
    must(vault_client_new(rig_no_keeper, NULL, &vault) == 0, "a client of the keeper");
    must(ring_new(&records, NULL) == 0, "a ring");
    must((recorder = recorder_new(base, fds[0], dup(ring_fd(records)), NULL, NULL)), "a recorder");
    struct engine_config config = {
        .base = base,
        .vault = vault,
        .upstream = upstream_new(&up),
        .recorder = recorder,
        .ca_pem = SLICE("ca"),
    };
    engine_limits_default(&config.limits);
    config.limits.linger_ms = 20;
    must(engine_new(&config, &engine, NULL) == 0, "an engine");
    engine_set_bindings(engine, rig_bindings());
    must(why_new(&why, NULL) == 0, "a memory of decisions");
    struct engine_sandbox sandbox = {.id = 1,
                                     .name = SLICE("fuzz"),
                                     .policy = rig_policy(policy),
                                     .why = why,
                                     .nlisteners = 1,
                                     .listeners = {{front}}};
    must(engine_add_sandbox(engine, &sandbox, NULL) == 0, "a sandbox");
}

/* ---- records ---- */

static void rig_record(struct msg_in *m) {
    static struct record_ref refs[RECORD_REFS_MAX];
    struct record r;
    must(record_decode(m, &r, refs) == 0, "a record that can't be read");
    verdicts += r.event == RECORD_VERDICT;
    allowed += r.event == RECORD_VERDICT && !r.denied;
    outcomes += r.event == RECORD_OUTCOME;
    must(outcomes <= verdicts, "an outcome without a verdict");
    progress++;
}

static void rig_records(void) {
    static char memory[MSG_MAX];
    struct slice bytes;
    struct msg_in m;
    while (ring_take(records, memory, sizeof memory, &bytes) == 0) {
        must(msg_parse(&m, bytes.p, bytes.n) == 0, "a message that can't be read");
        rig_record(&m);
    }
    ring_done(records);
}

#endif
