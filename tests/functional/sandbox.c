/*
 * A supervisor for tests of netns/: starts a sandbox and serves its listeners by itself.
 *
 *     sandbox STATE-DIR [--cover PATH]... -- COMMAND [ARG...]
 *     sandbox --doctor
 *
 * Every TCP connection is answered with one line, "DST ADDRESS:PORT NAME direct|redirected", and closed. DNS is answered as a worker
 * does. STATE-DIR has root.pem, which serves as our root and as the bundle. Prints the listeners' ports as the line
 * "ports PROXY DNS" when asked for by SANDBOX_SHOW. With SANDBOX_DEAF nobody listens for TCP connections. The exit status is the
 * command's as `exeat run` has it.
 */
#include <errno.h>
#include <openssl/pem.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/addr.h"
#include "netns/dns.h"
#include "netns/doctor.h"
#include "netns/environ.h"
#include "netns/names.h"
#include "netns/sandbox.h"

static struct names *names;

static void die(const char *what) {
    fprintf(stderr, "sandbox: %s\n", what);
    exit(125);
}

static char *slurp(const char *dir, const char *name, size_t *n) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "re");
    char *text = calloc(1, 1 << 20);
    if (!f || !text)
        die(path);
    *n = fread(text, 1, (1 << 20) - 1, f);
    fclose(f);
    return text;
}

static void answer_tcp(int listener) {
    struct addr dst;
    bool direct = false;
    char text[ADDR_TEXT_MAX], line[512];
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    if (netns_original_dst(fd, &dst, &direct)) {
        close(fd);
        return;
    }
    struct slice name = SLICE("-");
    names_lookup(names, &dst, &name);
    int n = snprintf(line, sizeof line, "DST %s %.*s %s\n", addr_text(&dst, true, text), SLICE_ARG(name),
                     direct ? "direct" : "redirected");
    (void)!send(fd, line, (size_t)n, MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    /* the client's bytes are read, or the answer could be lost to a reset */
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (poll(&p, 1, 2000) > 0 && recv(fd, line, sizeof line, 0) > 0) {}
    close(fd);
}

static void answer_dns_udp(int fd, bool ipv6) {
    uint8_t query[4096], out[DNS_ANSWER_MAX];
    struct sockaddr_storage from;
    socklen_t len = sizeof from;
    size_t m;
    ssize_t n = recvfrom(fd, query, sizeof query, 0, (struct sockaddr *)&from, &len);
    if (n >= 0 && dns_answer(slice_make(query, (size_t)n), names, ipv6, out, &m, NULL) == 0)
        (void)!sendto(fd, out, m, 0, (struct sockaddr *)&from, len);
}

static void answer_dns_tcp(int listener, bool ipv6) {
    uint8_t query[4096 + 2], out[DNS_ANSWER_MAX + 2];
    struct slice message;
    size_t have = 0, used, m;
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    while (have < sizeof query) {
        ssize_t n = recv(fd, query + have, sizeof query - have, 0);
        if (n <= 0)
            break;
        have += (size_t)n;
        if (dns_tcp_next(slice_make(query, have), &message, &used) == 0) {
            if (dns_answer(message, names, ipv6, out + 2, &m, NULL) == 0) {
                out[0] = (uint8_t)(m >> 8);
                out[1] = (uint8_t)m;
                (void)!send(fd, out, m + 2, MSG_NOSIGNAL);
            }
            break;
        }
    }
    close(fd);
}

static int serve(struct sandbox *sb) {
    const struct sandbox_listeners *l = &sb->listeners;
    struct pollfd p[7] = {{.fd = sb->fd},      {.fd = l->tcp4},     {.fd = l->tcp6},    {.fd = l->dns_udp4},
                          {.fd = l->dns_udp6}, {.fd = l->dns_tcp4}, {.fd = l->dns_tcp6}};
    for (size_t i = 0; i < 7; i++)
        p[i].events = POLLIN;
    for (;;) {
        struct sandbox_event e;
        if (poll(p, 7, -1) < 0 && errno != EINTR)
            return 125;
        if (p[0].revents && sandbox_event(sb, &e) == 0) {
            switch (e.kind) {
            case SANDBOX_EXITED: return e.value;
            case SANDBOX_KILLED: return 128 + e.value;
            case SANDBOX_EXEC_FAILED: return sandbox_exec_status(e.value);
            case SANDBOX_GONE: return 125;
            case SANDBOX_STOPPED:
                fprintf(stderr, "sandbox: stopped %d\n", e.value);
                sandbox_take_terminal();
                raise(SIGSTOP);
                sandbox_signal(sb, SIGCONT);
                break;
            case SANDBOX_CONTINUED: fprintf(stderr, "sandbox: continued\n"); break;
            }
        }
        for (size_t i = 1; i <= 2; i++)
            if (p[i].revents)
                answer_tcp(p[i].fd);
        for (size_t i = 3; i <= 4; i++)
            if (p[i].revents)
                answer_dns_udp(p[i].fd, sb->ipv6);
        for (size_t i = 5; i <= 6; i++)
            if (p[i].revents)
                answer_dns_tcp(p[i].fd, sb->ipv6);
    }
}

static struct sandbox *forward_to;
static void forward(int signal, siginfo_t *info, void *context) {
    (void)context;
    if (forward_to && info->si_code <= 0)
        sandbox_signal(forward_to, signal);
}

/* As the supervisor's loop does. */
static int start(const struct sandbox_spec *spec, const struct sandbox_trust *trust, struct sandbox *sb,
                 struct errmsg *msg) {
    int r = sandbox_start(spec, sb, msg);
    if (r)
        return r;
    r = sandbox_trust(sb, trust, msg);
    struct pollfd p = {.fd = sb->fd, .events = POLLIN};
    while (r == 0 && (r = sandbox_ready(sb, msg)) == ERR_AGAIN)
        r = poll(&p, 1, SANDBOX_START_MS) == 0 ? errmsg_set(msg, ERR_TIMEOUT, "not ready") : 0;
    if (r)
        sandbox_release(sb);
    return r;
}

static uint32_t subject_hash(const char *pem) {
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    if (!cert)
        die("root.pem");
    uint32_t hash = (uint32_t)X509_subject_name_hash(cert);
    X509_free(cert);
    BIO_free(bio);
    return hash;
}

static int run(const struct sandbox_spec *spec, const struct sandbox_trust *trust) {
    struct sandbox sb;
    struct errmsg msg;
    struct sigaction action = {.sa_sigaction = forward, .sa_flags = SA_SIGINFO | SA_RESTART};
    static const int all[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        sigaction(all[i], &action, NULL);
    signal(SIGTSTP, SIG_IGN);
    signal(SIGTTIN, SIG_IGN);
    signal(SIGTTOU, SIG_IGN);
    if (start(spec, trust, &sb, &msg)) {
        fprintf(stderr, "sandbox: %s\n", msg.text);
        return 125;
    }
    forward_to = &sb;
    struct addr a = {.len = sizeof a.in6}, d = {.len = sizeof d.in6};
    if (getenv("SANDBOX_SHOW") && getsockname(sb.listeners.tcp4, &a.sa, &a.len) == 0 &&
        getsockname(sb.listeners.dns_udp4, &d.sa, &d.len) == 0)
        fprintf(stderr, "ports %u %u init %d ipv6 %d\n", addr_port(&a), addr_port(&d), (int)sb.init, sb.ipv6);
    if (getenv("SANDBOX_DEAF")) {
        close(sb.listeners.tcp4);
        close(sb.listeners.tcp6);
        sb.listeners.tcp4 = sb.listeners.tcp6 = -1;
    }
    int status = sandbox_exec(&sb, &msg) ? 125 : serve(&sb);
    forward_to = NULL;
    sandbox_release(&sb);
    sandbox_take_terminal();
    return status;
}

static int doctor(void) {
    static const char *const words[] = {"ok", "note", "error"};
    struct doctor_report report;
    doctor_check(&report);
    for (size_t i = 0; i < report.n; i++)
        printf("%s: %s\n%s\n%s\n", words[report.list[i].severity], report.list[i].what, report.list[i].why,
               report.list[i].todo);
    return report.errors ? 1 : 0;
}

int main(int argc, char **argv) {
    struct sandbox_spec spec = {0};
    const char *cover[32] = {NULL}, *bundles[] = {"/etc/ssl/certs/ca-certificates.crt", NULL};
    size_t ncover = 0, n;
    char **env;
    struct errmsg msg;
    if (argc == 3 && strcmp(argv[1], SANDBOX_ROLE) == 0)
        return netns_init_main(SANDBOX_ROLE_FD, argv[2]);
    sandbox_inherit_take(&spec.inherit);
    /* as the supervisor is */
    prctl(PR_SET_DUMPABLE, 0);
    if (argc == 2 && strcmp(argv[1], "--doctor") == 0)
        return doctor();
    if (argc < 4)
        die("usage: sandbox STATE-DIR [--cover PATH]... -- COMMAND [ARG...]");
    spec.state_dir = argv[1];
    int at = 2;
    while (argv[at] && strcmp(argv[at], "--")) {
        if (strcmp(argv[at], "--cover") == 0 && argv[at + 1] && ncover < 31)
            cover[ncover++] = argv[at + 1];
        at += 2;
        if (at >= argc)
            die("--");
    }
    spec.argv = argv + at + 1;
    spec.cover = cover;
    char *pem = slurp(spec.state_dir, "root.pem", &n);
    struct sandbox_trust trust = {.ca_hash = subject_hash(pem), .bundle_paths = bundles};
    trust.ca_pem = trust.bundle_pem = slice_make(pem, n);
    struct environ_spec e = {.from = environ, .name = "test", .state_dir = spec.state_dir};
    if (names_new(&names, &msg) || environ_build(&e, &env))
        die("names");
    memcpy(spec.prefix6, names_prefix(names), sizeof spec.prefix6);
    spec.envp = env;
    return run(&spec, &trust);
}
