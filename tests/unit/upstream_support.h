/*
 * Servers for the tests of the upstream side, each a process of its own with counters in shared memory.
 */
#ifndef TESTS_UNIT_UPSTREAM_SUPPORT_H
#define TESTS_UNIT_UPSTREAM_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"

enum server_kind {
    SERVER_ORIGIN,       /* answers each request, keeps the connection */
    SERVER_CLOSES,       /* answers, then closes at once */
    SERVER_CLOSES_RST,   /* … with RST */
    SERVER_CHATTY,       /* answers, then says more than it was asked for */
    SERVER_PROXY,        /* CONNECT to `behind`, whatever is asked for */
    SERVER_PROXY_STATUS, /* answers CONNECT with `status` */
    SERVER_NOISE,        /* says something that is neither TLS nor HTTP */
    SERVER_HANGS_UP,     /* closes at once */
};

struct server_counters {
    unsigned accepted, shaken, resumed, requests;
    char first[1024]; /* of the first bytes above TLS, or of CONNECT's head */
};

struct server {
    enum server_kind kind;
    SSL_CTX *tls; /* NULL: clear */
    unsigned behind;
    const char *status;
    int max_version;                           /* 0: the newest */
    void (*serve)(struct server *s, SSL *ssl); /* instead of HTTP/1.1, to the connection's end */

    unsigned port;
    pid_t pid;
    struct server_counters *count;
};

static inline int server_get(SSL *ssl, int fd, char *p, size_t n) {
    return ssl ? SSL_read(ssl, p, (int)n) : (int)read(fd, p, n);
}

static inline int server_put(SSL *ssl, int fd, const char *p, size_t n) {
    return ssl ? SSL_write(ssl, p, (int)n) : (int)write(fd, p, n);
}

/* Reads up to an empty line. False: the end. */
static inline bool server_head(SSL *ssl, int fd, char *head, size_t cap) {
    size_t n = 0;
    while (n < cap - 1) {
        int got = server_get(ssl, fd, head + n, 1);
        if (got <= 0)
            return false;
        head[++n] = 0;
        if (n >= 4 && memcmp(head + n - 4, "\r\n\r\n", 4) == 0)
            return true;
    }
    return false;
}

static inline void server_relay(int a, unsigned port) {
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int b = socket(AF_INET, SOCK_STREAM, 0);
    char bytes[4096];
    if (connect(b, (struct sockaddr *)&to, sizeof to) < 0)
        _exit(1);
    for (;;) {
        struct pollfd p[2] = {{.fd = a, .events = POLLIN}, {.fd = b, .events = POLLIN}};
        poll(p, 2, -1);
        for (int i = 0; i < 2; i++) {
            if (!p[i].revents)
                continue;
            ssize_t n = read(p[i].fd, bytes, sizeof bytes);
            if (n <= 0 || write(p[!i].fd, bytes, (size_t)n) != n)
                _exit(0);
        }
    }
}

static inline void server_connection(struct server *s, int fd) {
    char head[8192];
    SSL *ssl = NULL;
    if (s->kind == SERVER_HANGS_UP)
        return;
    if (s->kind == SERVER_NOISE) {
        (void)!write(fd, "220 mail.test ready\r\n", 21);
        (void)!read(fd, head, sizeof head);
        return;
    }
    if (s->tls) {
        ssl = SSL_new(s->tls);
        SSL_set_fd(ssl, fd);
        if (s->max_version)
            SSL_set_max_proto_version(ssl, s->max_version);
        if (SSL_accept(ssl) != 1)
            return;
        s->count->shaken++;
        s->count->resumed += SSL_session_reused(ssl) != 0;
    }
    if (s->serve) {
        s->serve(s, ssl);
        return;
    }
    while (server_head(ssl, fd, head, sizeof head)) {
        if (s->count->requests++ == 0)
            snprintf(s->count->first, sizeof s->count->first, "%s", head);
        if (s->kind == SERVER_PROXY_STATUS) {
            server_put(ssl, fd, s->status, strlen(s->status));
            return;
        }
        if (s->kind == SERVER_PROXY) {
            server_put(ssl, fd, "HTTP/1.1 200 Connected\r\nX: y\r\n\r\n", 32);
            server_relay(fd, s->behind);
        }
        server_put(ssl, fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 40);
        struct linger now = {.l_onoff = 1};
        if (s->kind == SERVER_CLOSES_RST)
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        if (s->kind == SERVER_CLOSES || s->kind == SERVER_CLOSES_RST) {
            usleep(100000); /* so that the answer has been read */
            return;
        }
        if (s->kind == SERVER_CHATTY) {
            usleep(50000);
            server_put(ssl, fd, "HTTP/1.1 200 OK\r\n\r\n", 19);
        }
    }
}

/* Listens on a free port of 127.0.0.1 and serves, a process for each connection. */
static inline void server_start(struct server *s) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof a;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    s->count = mmap(NULL, sizeof *s->count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(listener, 64), 0);
    getsockname(listener, (struct sockaddr *)&a, &n);
    s->port = ntohs(a.sin_port);
    s->pid = fork();
    if (s->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGPIPE, SIG_IGN);
        signal(SIGCHLD, SIG_IGN);
        for (;;) {
            int fd = accept(listener, NULL, NULL);
            if (fd < 0)
                continue;
            s->count->accepted++;
            if (fork() == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                server_connection(s, fd);
                _exit(0);
            }
            close(fd);
        }
    }
    close(listener);
}

static inline void server_stop(struct server *s) {
    kill(s->pid, SIGKILL);
    waitpid(s->pid, NULL, 0);
    munmap(s->count, sizeof *s->count);
}

#endif
