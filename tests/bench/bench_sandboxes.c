/*
 * What a worker's memory grows by with each sandbox that it serves and that does nothing: policy, names, decisions that are remembered,
 * limits, listeners and name server, all that IPC_SANDBOX has it take. The growth of PSS, so what is shared with the supervisor is in it,
 * once; the kernel's part is not.
 */
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/heap.h"
#include "netns/listen.h"
#include "netns/names.h"
#include "policy/policy.h"
#include "proxy/flow/engine.h"
#include "proxy/flow/limits.h"
#include "proxy/flow/nameserver.h"
#include "proxy/flow/shown.h"
#include "proxy/record/recorder.h"
#include "proxy/record/ring.h"
#include "proxy/record/why.h"
#include "proxy/upstream/resolve.h"
#include "proxy/upstream/upstream.h"
#include "vault/client.h"

#define SANDBOXES 300
#define FILES     16 /* descriptors of one, and some */

static struct event_base *base;
static struct engine *engine;

static void check(bool ok, const char *what) {
    if (!ok) {
        fprintf(stderr, "bench_sandboxes: %s\n", what);
        exit(1);
    }
}

static double pss_kib(void) {
    char line[256];
    unsigned long kib = 0;
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    check(f != NULL, "smaps_rollup");
    while (fgets(line, sizeof line, f) && sscanf(line, "Pss: %lu", &kib) != 1)
        continue;
    fclose(f);
    return (double)kib;
}

static int no_keeper(void *arg, const struct msg_out *m) {
    (void)arg, (void)m;
    return ERR_IO;
}

static void make_engine(void) {
    struct resolver_config resolving = {.resolv_conf = "/dev/null", .hosts = "/dev/null"};
    struct upstream_config up = {.base = base};
    struct engine_config config = {.base = base, .ca_pem = SLICE("ca")};
    struct ring *ring;
    int pair[2];
    check(resolver_new(base, &resolving, &up.resolver, NULL) == 0, "resolver");
    check(ring_new(&ring, NULL) == 0 && msg_pair(pair) == 0, "a scribe");
    check(vault_client_new(no_keeper, NULL, &config.vault) == 0, "a keeper");
    check((config.recorder = recorder_new(base, pair[0], dup(ring_fd(ring)), NULL, NULL)) != NULL,
          "recorder");
    check((config.upstream = upstream_new(&up)) != NULL, "upstream");
    engine_limits_default(&config.limits);
    check(engine_new(&config, &engine, NULL) == 0, "engine");
}

/* The policies of the two rows: as that of an agent, and a long one. */
static int read_policy(void *arg, const char *from, const char *name, struct buf *resolved, struct buf *text,
                       struct errmsg *msg) {
    (void)from, (void)msg;
    int r = buf_puts(resolved, name);
    for (int i = 0; r == 0 && i < *(int *)arg; i++)
        r = buf_printf(text, "allow %s https://h%d.example.com/v%d/**\n", i % 3 ? "GET,HEAD" : "POST", i, i);
    return r;
}

static struct policy *new_policy(int rules) {
    const char *file = "bench.policy";
    struct policy_input in = {.files = &file, .nfiles = 1, .read = read_policy, .arg = &rules};
    struct policy_diags diags;
    struct policy *policy = NULL;
    policy_diags_init(&diags);
    check(policy_load(&in, &policy, &diags) == 0, "policy");
    policy_diags_release(&diags);
    return policy;
}

static void add_dns(struct nameserver *server, const struct sandbox_listeners *l) {
    check(nameserver_add_udp(server, l->dns_udp4) == 0 && nameserver_add_tcp(server, l->dns_tcp4) == 0,
          "DNS");
    if (l->tcp6 >= 0)
        check(nameserver_add_udp(server, l->dns_udp6) == 0 && nameserver_add_tcp(server, l->dns_tcp6) == 0,
              "DNS of IPv6");
}

static void add_sandbox(uint64_t id, int rules) {
    struct sandbox_listeners l;
    struct listen_ports ports;
    struct errmsg msg = {""};
    struct engine_sandbox s = {.id = id, .name = SLICE("bench"), .policy = new_policy(rules)};
    check(names_new(&s.names, &msg) == 0 && why_new(&s.why, &msg) == 0 && shown_new(&s.shown, &msg) == 0 &&
              limits_new(policy_rule_count(s.policy), &s.limits, &msg) == 0,
          "shared memory");
    check(listen_open(true, &l, &ports, &msg) == 0 || listen_open(false, &l, &ports, &msg) == 0, msg.text);
    struct nameserver *server = nameserver_new(base, s.names, NULL, NULL);
    check(server != NULL, "name server");
    add_dns(server, &l);
    s.listeners[s.nlisteners++].fd = l.tcp4;
    if (l.tcp6 >= 0)
        s.listeners[s.nlisteners++].fd = l.tcp6;
    check(engine_add_sandbox(engine, &s, &msg) == 0, msg.text);
}

static void settle(void) {
    for (int i = 0; i < 3; i++)
        event_base_loop(base, EVLOOP_NONBLOCK);
    heap_settle();
}

static void measure(uint64_t from, int rules) {
    add_sandbox(from, rules); /* what is made once, with the first */
    settle();
    double before = pss_kib();
    for (uint64_t i = 1; i <= SANDBOXES; i++)
        add_sandbox(from + i, rules);
    settle();
    printf("a further idle sandbox, policy of %5d rules  %8.1f KiB\n", rules,
           (pss_kib() - before) / SANDBOXES);
}

int main(void) {
    struct rlimit files;
    check(getrlimit(RLIMIT_NOFILE, &files) == 0, "limit of descriptors");
    files.rlim_cur = files.rlim_max;
    check(setrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max >= 2 * (SANDBOXES + 1) * FILES,
          "it needs 9,632 descriptors (ulimit -Hn)");
    check((base = event_base_new()) != NULL, "event base");
    make_engine();
    measure(1, 12);
    measure(SANDBOXES + 2, 1000);
    return 0;
}
