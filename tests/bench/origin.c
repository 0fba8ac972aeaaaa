/*
 * A TLS origin for benchmarks: as little work as possible, so that what is measured is the proxy before it.
 *
 *     origin CERTIFICATE KEY
 *
 * Prints its port, serves until it is ended. GET /N is answered with N bytes (Content-Length), on a connection that
 * is kept. A body that a request brings (Content-Length) is read and thrown away. A thread a connection, blocking.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define BLOCK 65536

static SSL_CTX *context;
static char zeros[BLOCK];

static int write_all(SSL *ssl, const char *p, size_t n) {
    while (n) {
        int w = SSL_write(ssl, p, n > BLOCK ? BLOCK : (int)n);
        if (w <= 0)
            return -1;
        p += w;
        n -= (size_t)w;
    }
    return 0;
}

/* Reads a head; what came behind it is counted in *extra. NULL at the end of the stream. */
static char *read_head(SSL *ssl, char *buf, size_t cap, size_t *extra) {
    size_t n = 0;
    while (n < cap - 1) {
        int r = SSL_read(ssl, buf + n, (int)(cap - 1 - n));
        if (r <= 0)
            return NULL;
        n += (size_t)r;
        buf[n] = 0;
        char *end = strstr(buf, "\r\n\r\n");
        if (end) {
            *extra = n - (size_t)(end + 4 - buf);
            end[2] = 0;
            return buf;
        }
    }
    return NULL;
}

static int skip_body(SSL *ssl, const char *head, size_t extra) {
    const char *field = strcasestr(head, "\r\ncontent-length:");
    unsigned long long left = field ? strtoull(field + 17, NULL, 10) : 0;
    left = left > extra ? left - extra : 0;
    char *block = malloc(BLOCK);
    while (left) {
        int r = SSL_read(ssl, block, left > BLOCK ? BLOCK : (int)left);
        if (r <= 0)
            break;
        left -= (unsigned long long)r;
    }
    free(block);
    return left ? -1 : 0;
}

static int answer(SSL *ssl, const char *head) {
    unsigned long long left = strtoull(strchr(head, '/') + 1, NULL, 10);
    char out[BLOCK];
    int n = snprintf(
        out, sizeof out,
        "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %llu\r\n\r\n", left);
    /* a small answer goes out in one record, as servers do it */
    size_t first = sizeof out - (size_t)n;
    if (first > left)
        first = (size_t)left;
    memset(out + n, 0, first);
    if (write_all(ssl, out, (size_t)n + first))
        return -1;
    left -= first;
    while (left) {
        size_t now = left > BLOCK ? BLOCK : (size_t)left;
        if (write_all(ssl, zeros, now))
            return -1;
        left -= now;
    }
    return 0;
}

static void *serve(void *arg) {
    int fd = (int)(intptr_t)arg;
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    SSL *ssl = SSL_new(context);
    SSL_set_fd(ssl, fd);
    char buf[16384];
    size_t extra;
    if (SSL_accept(ssl) == 1)
        while (read_head(ssl, buf, sizeof buf, &extra) && strchr(buf, '/'))
            if (skip_body(ssl, buf, extra) || answer(ssl, buf))
                break;
    SSL_free(ssl);
    close(fd);
    return NULL;
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN);
    context = SSL_CTX_new(TLS_server_method());
    if (argc != 3 || !context || SSL_CTX_use_certificate_chain_file(context, argv[1]) != 1 ||
        SSL_CTX_use_PrivateKey_file(context, argv[2], SSL_FILETYPE_PEM) != 1) {
        fprintf(stderr, "usage: origin CERTIFICATE KEY\n");
        return 2;
    }
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&a, sizeof a) < 0 || listen(listener, 4096) < 0 ||
        getsockname(listener, (struct sockaddr *)&a, &len) < 0) {
        perror("origin");
        return 1;
    }
    printf("%d\n", ntohs(a.sin_port));
    fflush(stdout);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 512 * 1024);
    pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        pthread_t t;
        if (fd >= 0 && pthread_create(&t, &small, serve, (void *)(intptr_t)fd) != 0)
            close(fd);
    }
}
