/*
 * A whole connection: what a sandbox sends in the clear, judged, passed on to an origin on loopback, and its answer.
 *
 * Input: the client's bytes, a line "----", the origin's bytes (both may be anything). Beyond not crashing, this must
 * hold: the origin gets a byte only after a verdict that allows; what it gets begins with a permitted method and names
 * its host once; no outcome comes without its verdict.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "policy/policy.h"
#include "proxy/flow/engine.h"
#include "proxy/flow/io.h"
#include "proxy/flow/recorder.h"
#include "proxy/flow/resolve.h"
#include "proxy/flow/upstream.h"
#include "proxy/flow/why.h"
#include "vault/bindings.h"
#include "vault/client.h"
#include "vault/vault.h"

#define TURNS     400 /* of the event loop, for one input */
#define QUIET     6   /* turns without anything new: it is over */
#define ORIGIN_IN 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char policy_text[] = "allow GET,HEAD,POST http://a.test/ok**\n"
                                  "allow fetch http://a.test/acme/app\n"
                                  "allow push http://a.test/acme/app refs/heads/fix/*\n";

static struct event_base *base;
static struct engine *engine;
static struct resolver *resolver;
static int records; /* the scribe's end */
static int front, origin;
static struct sockaddr_in front_at;
static unsigned allowed, verdicts, outcomes;

static struct slice answer;
static char origin_in[ORIGIN_IN];
static size_t origin_n;
static uint64_t progress;

static void read_records(void);

static void must(bool ok, const char *what) {
    if (!ok) {
        fprintf(stderr, "fuzz_conn: %s\n", what);
        abort();
    }
}

/* ---- the world ---- */

static int read_policy(void *arg, const char *from, const char *name, struct buf *resolved, struct buf *text,
                       struct errmsg *msg) {
    (void)arg;
    (void)from;
    (void)msg;
    int r = buf_puts(resolved, name);
    return r ? r : buf_puts(text, policy_text);
}

static struct policy *make_policy(void) {
    const char *file = "fuzz.policy";
    struct policy_input in = {.files = &file, .nfiles = 1, .read = read_policy};
    struct policy_diags diags;
    struct policy *policy = NULL;
    policy_diags_init(&diags);
    must(policy_load(&in, &policy, &diags) == 0, "the policy");
    policy_diags_release(&diags);
    return policy;
}

static struct bindings *make_bindings(void) {
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

static int no_keeper(void *arg, const struct msg_out *m) {
    (void)arg;
    (void)m;
    return ERR_IO;
}

static int listen_on_loopback(struct sockaddr_in *at) {
    socklen_t len = sizeof *at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    must(fd >= 0 && bind(fd, (struct sockaddr *)at, sizeof *at) == 0 && listen(fd, 64) == 0, "a listener");
    getsockname(fd, (struct sockaddr *)at, &len);
    return fd;
}

static void on_origin_bytes(evutil_socket_t fd, short what, void *arg) {
    struct event *event = *(struct event **)arg;
    char bytes[4096];
    (void)what;
    ssize_t n = recv(fd, bytes, sizeof bytes, 0);
    if (n <= 0) {
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        event_free(event);
        free(arg);
        close(fd);
        return;
    }
    read_records();
    must(allowed > 0, "bytes at the origin without a verdict that allows");
    bool first = origin_n == 0;
    size_t room = ORIGIN_IN - origin_n, take = (size_t)n < room ? (size_t)n : room;
    memcpy(origin_in + origin_n, bytes, take);
    origin_n += take;
    progress++;
    if (first && answer.n && send(fd, answer.p, answer.n, MSG_NOSIGNAL) < 0)
        shutdown(fd, SHUT_RDWR);
    if (first)
        shutdown(fd, SHUT_WR);
}

static void on_origin(evutil_socket_t listener, short what, void *arg) {
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    (void)what;
    (void)arg;
    if (fd < 0)
        return;
    struct event **slot = malloc(sizeof *slot);
    *slot = event_new(base, fd, EV_READ | EV_PERSIST, on_origin_bytes, slot);
    event_add(*slot, NULL);
    progress++;
}

static void make_world(void) {
    struct sockaddr_in origin_at;
    int fds[2];
    char pin[64];
    struct vault_client *vault;
    base = event_base_new();
    origin = listen_on_loopback(&origin_at);
    front = listen_on_loopback(&front_at);
    snprintf(pin, sizeof pin, "a.test:80:127.0.0.1:%u", ntohs(origin_at.sin_port));
    const char *pins[] = {pin};
    struct resolver_config resolving = {
        .resolv_conf = "/dev/null", .hosts = "/dev/null", .pins = pins, .npins = 1};
    must(resolver_new(base, &resolving, &resolver, NULL) == 0, "a resolver");
    SSL_CTX *tls = SSL_CTX_new(TLS_client_method());
    struct upstream_config up = {.base = base, .resolver = resolver, .tls = tls};
    must(msg_pair(fds) == 0, "a pair");
    records = fds[1];
    must(vault_client_new(no_keeper, NULL, &vault) == 0, "a client of the keeper");
    struct engine_config config = {
        .base = base,
        .vault = vault,
        .upstream = upstream_new(&up),
        .recorder = recorder_new(base, fds[0], NULL, NULL),
        .ca_pem = SLICE("ca"),
    };
    engine_limits_default(&config.limits);
    config.limits.linger_ms = 20;
    must(engine_new(&config, &engine, NULL) == 0, "an engine");
    engine_set_bindings(engine, make_bindings());
    struct why *why;
    must(why_new(&why, NULL) == 0, "a memory of decisions");
    struct engine_sandbox sandbox = {.id = 1,
                                     .name = SLICE("fuzz"),
                                     .policy = make_policy(),
                                     .why = why,
                                     .nlisteners = 1,
                                     .listeners = {{front}}};
    must(engine_add_sandbox(engine, &sandbox, NULL) == 0, "a sandbox");
    event_add(event_new(base, origin, EV_READ | EV_PERSIST, on_origin, NULL), NULL);
}

/* ---- one input ---- */

static void take_record(struct msg_in *m) {
    static struct record_ref refs[RECORD_REFS_MAX];
    struct record r;
    must(record_decode(m, &r, refs) == 0, "a record that can't be read");
    verdicts += r.event == RECORD_VERDICT;
    allowed += r.event == RECORD_VERDICT && !r.denied;
    outcomes += r.event == RECORD_OUTCOME;
    must(outcomes <= verdicts, "an outcome without a verdict");
    progress++;
}

static void read_records(void) {
    static char memory[MSG_MAX];
    struct msg_in m, one;
    while (msg_recv(records, &m, memory, sizeof memory) == 0) {
        if (m.type != RECORD_BATCH) {
            take_record(&m);
            continue;
        }
        while (m.at < m.n) {
            struct slice bytes = msg_get_slice(&m);
            must(msg_parse(&one, bytes.p, bytes.n) == 0, "a batch that can't be read");
            take_record(&one);
        }
    }
}

/* One request at least went up: is it one that the policy permits? */
static void check_origin(void) {
    struct slice got = slice_make(origin_in, origin_n);
    bool method = slice_starts(got, SLICE("GET /")) || slice_starts(got, SLICE("HEAD /")) ||
                  slice_starts(got, SLICE("POST /"));
    must(origin_n < 6 || method, "a method that no rule allows");
    char *end = memmem(got.p, got.n, "\r\n\r\n", 4);
    if (!end)
        return;
    size_t hosts = 0;
    for (const char *p = got.p; p < end; p++)
        hosts += end - p > 7 && strncasecmp(p, "\r\nHost:", 7) == 0;
    must(hosts == 1, "a head with more or less than one Host");
    must(memmem(got.p, (size_t)(end - got.p), "\r\nHost: a.test", 14), "another Host");
}

static void talk(struct slice client) {
    struct linger now = {.l_onoff = 1};
    char bytes[4096];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(connect(fd, (struct sockaddr *)&front_at, sizeof front_at) == 0, "to connect");
    evutil_make_socket_nonblocking(fd);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    size_t sent = 0, quiet = 0;
    bool over = false;
    for (int i = 0; i < TURNS && quiet < QUIET; i++) {
        uint64_t before = progress;
        ssize_t n = sent < client.n ? send(fd, client.p + sent, client.n - sent, MSG_NOSIGNAL) : 0;
        if (n > 0) {
            sent += (size_t)n;
            progress++;
        }
        event_base_loop(base, EVLOOP_NONBLOCK);
        read_records();
        while (!over && (n = recv(fd, bytes, sizeof bytes, 0)) >= 0) {
            over = n == 0;
            progress++;
        }
        quiet = progress == before ? quiet + 1 : 0;
    }
    close(fd);
    for (int i = 0; i < 4; i++)
        event_base_loop(base, EVLOOP_NONBLOCK);
    read_records();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char mark[] = "\n----\n";
    if (!base)
        make_world();
    if (size > 65536)
        return 0;
    struct slice all = slice_make(data, size), client = all;
    char *cut = size ? memmem(data, size, mark, sizeof mark - 1) : NULL;
    answer = SLICE_NONE;
    if (cut) {
        client = slice_sub(all, 0, (size_t)(cut - all.p));
        answer = slice_from(all, client.n + sizeof mark - 1);
    }
    allowed = verdicts = outcomes = 0;
    origin_n = 0;
    talk(client);
    if (origin_n)
        check_origin();
    return 0;
}
