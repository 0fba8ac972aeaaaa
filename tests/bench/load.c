/*
 * A TLS client for benchmarks.
 *
 *     load MODE ADDRESS PORT NAME CONNECTIONS AMOUNT [BYTES]
 *
 * MODE is one of
 *     keep    AMOUNT requests for /BYTES in all, over CONNECTIONS connections that are kept
 *     new     AMOUNT connections one after the other on each of CONNECTIONS threads together, each with a full handshake
 *             and one request for /BYTES
 *     upload  like keep, but each request brings BYTES bytes and gets none
 *     idle    CONNECTIONS connections that ask once and then wait
 *     idle2   the same over HTTP/2
 *
 * ADDRESS "-" asks the resolver for NAME. A '*' in NAME is the number of the connection: each has a name of its own. If
 * LOAD_CONNECT is set, a proxy is at ADDRESS and is asked to CONNECT to the name and that port. Certificates are verified
 * against the usual store (SSL_CERT_FILE), so the proxy's authority must be there. It prints "ready" when its connections
 * stand (not for new), waits for a line, does the work, prints one line of JSON, waits for a line again, and ends: whoever
 * measures reads the proxy's figures in between.
 */
#include <netdb.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 65536

static SSL_CTX *context;
static struct sockaddr_storage to;
static socklen_t to_len;
static const char *mode, *name, *tunnel;
static bool asks_resolver;
static unsigned long long amount, bytes;
static const char *port;
static unsigned connections;
static int http2;
static atomic_ullong next_one, failed;
static float *times; /* microseconds, one for each request */
static pthread_barrier_t barrier;
static char zeros[BLOCK];

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int resolve(const char *host, const char *service, struct sockaddr_storage *out, socklen_t *len) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
    if (getaddrinfo(host, service, &hints, &list) != 0)
        return -1;
    memcpy(out, list->ai_addr, list->ai_addrlen);
    *len = list->ai_addrlen;
    freeaddrinfo(list);
    return 0;
}

/* The name of connection `i`. */
static const char *name_of(unsigned long long i, char *out, size_t cap) {
    const char *star = strchr(name, '*');
    if (!star)
        return name;
    snprintf(out, cap, "%.*s%llu%s", (int)(star - name), name, i, star + 1);
    return out;
}

static int ask_proxy(int fd, const char *host) {
    char buf[1024];
    int n = snprintf(buf, sizeof buf, "CONNECT %s:%s HTTP/1.1\r\nHost: %s:%s\r\n\r\n", host, tunnel, host,
                     tunnel),
        have = 0;
    if (write(fd, buf, (size_t)n) != n)
        return -1;
    do {
        ssize_t r = read(fd, buf + have, sizeof buf - 1 - (size_t)have);
        if (r <= 0)
            return -1;
        have += (int)r;
        buf[have] = 0;
    } while (!strstr(buf, "\r\n\r\n"));
    return strncmp(buf, "HTTP/1.1 200", 12) == 0 ? 0 : -1;
}

static int dial_tcp(const char *host) {
    struct sockaddr_storage own = to;
    socklen_t len = to_len;
    if (asks_resolver && host != name && resolve(host, port, &own, &len))
        return -1;
    int fd = socket(own.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1;
    if (fd < 0)
        return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, (struct sockaddr *)&own, len) == 0 && (!tunnel || ask_proxy(fd, host) == 0))
        return fd;
    close(fd);
    return -1;
}

static SSL *dial(unsigned long long i) {
    char memory[256];
    const char *host = name_of(i, memory, sizeof memory);
    int fd = dial_tcp(host);
    if (fd < 0)
        return NULL;
    SSL *ssl = SSL_new(context);
    SSL_set_fd(ssl, fd);
    SSL_set_tlsext_host_name(ssl, host);
    SSL_set1_host(ssl, host);
    if (SSL_connect(ssl) != 1) {
        SSL_free(ssl);
        close(fd);
        return NULL;
    }
    return ssl;
}

static void hang_up(SSL *ssl) {
    if (!ssl)
        return;
    int fd = SSL_get_fd(ssl);
    SSL_shutdown(ssl);
    SSL_free(ssl);
    close(fd);
}

/* ---- HTTP/2: as much as one request needs ---- */

enum { H2_DATA = 0, H2_HEADERS = 1, H2_SETTINGS = 4, H2_END_STREAM = 1, H2_ACK = 1, H2_END_HEADERS = 4 };

static size_t h2_head(unsigned char *at, size_t n, int type, int flags, int stream) {
    const unsigned char head[9] = {
        0, (unsigned char)(n >> 8), (unsigned char)n, (unsigned char)type, (unsigned char)flags, 0, 0,
        0, (unsigned char)stream};
    memcpy(at, head, sizeof head);
    return sizeof head;
}

/* A literal with a name of the static table (RFC 7541 6.2.1). */
static size_t h2_field(unsigned char *at, int index, const char *value) {
    size_t n = strlen(value);
    at[0] = (unsigned char)(0x40 | index);
    at[1] = (unsigned char)n;
    memcpy(at + 2, value, n);
    return 2 + n;
}

static int h2_read(SSL *ssl, unsigned char *p, size_t n) {
    for (size_t have = 0; have < n;) {
        int r = SSL_read(ssl, p + have, (int)(n - have));
        if (r <= 0)
            return -1;
        have += (size_t)r;
    }
    return 0;
}

/* One request and its whole answer, on a connection where nothing was said before. */
static int ask_http2(SSL *ssl) {
    static const char magic[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    unsigned char buf[BLOCK];
    char path[32];
    size_t n = sizeof magic - 1;
    snprintf(path, sizeof path, "/%llu", bytes);
    memcpy(buf, magic, n);
    n += h2_head(buf + n, 0, H2_SETTINGS, 0, 0);
    size_t fields = 2 + 2 + strlen(name) + 2 + strlen(path);
    n += h2_head(buf + n, fields, H2_HEADERS, H2_END_STREAM | H2_END_HEADERS, 1);
    buf[n++] = 0x82; /* :method GET */
    buf[n++] = 0x87; /* :scheme https */
    n += h2_field(buf + n, 1, name);
    n += h2_field(buf + n, 4, path);
    if (SSL_write(ssl, buf, (int)n) != (int)n)
        return -1;
    for (;;) {
        unsigned char head[9];
        if (h2_read(ssl, head, sizeof head))
            return -1;
        n = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
        if (n > sizeof buf || h2_read(ssl, buf, n))
            return -1;
        if (head[3] == H2_SETTINGS && !(head[4] & H2_ACK)) {
            h2_head(buf, 0, H2_SETTINGS, H2_ACK, 0);
            if (SSL_write(ssl, buf, 9) != 9)
                return -1;
        } else if (head[3] == H2_HEADERS && buf[0] != 0x88) { /* :status 200 */
            return -1;
        } else if ((head[3] == H2_HEADERS || head[3] == H2_DATA) && head[4] & H2_END_STREAM) {
            return 0;
        } else if (head[3] > H2_HEADERS && head[3] != H2_SETTINGS && head[3] != 6 && head[3] != 8) {
            return -1; /* RST_STREAM, GOAWAY */
        }
    }
}

/* ---- HTTP/1.1 ---- */

/* One request and its whole answer. */
static int ask(SSL *ssl) {
    char buf[BLOCK];
    const char *host = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    int upload = strcmp(mode, "upload") == 0;
    int n = upload ? snprintf(buf, sizeof buf, "POST /0 HTTP/1.1\r\nHost: %s\r\nContent-Length: %llu\r\n\r\n",
                              host, bytes)
                   : snprintf(buf, sizeof buf, "GET /%llu HTTP/1.1\r\nHost: %s\r\n\r\n", bytes, host);
    if (SSL_write(ssl, buf, n) != n)
        return -1;
    for (unsigned long long left = upload ? bytes : 0; left;) {
        int w = SSL_write(ssl, zeros, left > BLOCK ? BLOCK : (int)left);
        if (w <= 0)
            return -1;
        left -= (unsigned long long)w;
    }
    size_t have = 0;
    char *end = NULL;
    while (!end) {
        int r = SSL_read(ssl, buf + have, (int)(sizeof buf - 1 - have));
        if (r <= 0)
            return -1;
        have += (size_t)r;
        buf[have] = 0;
        end = strstr(buf, "\r\n\r\n");
    }
    const char *field = strcasestr(buf, "\r\ncontent-length:");
    if (strncmp(buf, "HTTP/1.1 200", 12) != 0 || !field)
        return -1;
    unsigned long long left = strtoull(field + 17, NULL, 10), got = have - (size_t)(end + 4 - buf);
    while (got < left) {
        int r = SSL_read(ssl, buf, sizeof buf);
        if (r <= 0)
            return -1;
        got += (unsigned long long)r;
    }
    return 0;
}

static void *work(void *arg) {
    (void)arg;
    int fresh = strcmp(mode, "new") == 0, idle = strncmp(mode, "idle", 4) == 0;
    SSL *ssl = fresh ? NULL : dial(0);
    if (!fresh && (!ssl || (http2 ? ask_http2(ssl) : ask(ssl))))
        failed++;
    pthread_barrier_wait(&barrier); /* all stand */
    pthread_barrier_wait(&barrier); /* begin */
    while (!idle) {
        unsigned long long i = next_one++;
        if (i >= amount)
            break;
        double begin = now();
        if (fresh)
            ssl = dial(i);
        if (!ssl || ask(ssl))
            failed++;
        times[i] = (float)((now() - begin) * 1e6);
        if (fresh)
            hang_up(ssl);
    }
    pthread_barrier_wait(&barrier); /* done */
    pthread_barrier_wait(&barrier); /* end */
    if (!fresh)
        hang_up(ssl);
    return NULL;
}

static int by_size(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void wait_line(void) {
    int c;
    while ((c = getchar()) != '\n' && c != EOF)
        ;
}

static void open_many_files(void) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
}

int main(int argc, char **argv) {
    if (argc < 7) {
        fprintf(stderr,
                "usage: load keep|new|upload|idle|idle2 ADDRESS PORT NAME CONNECTIONS AMOUNT [BYTES]\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    open_many_files();
    mode = argv[1];
    name = argv[4];
    port = argv[3];
    tunnel = getenv("LOAD_CONNECT");
    asks_resolver = strcmp(argv[2], "-") == 0;
    connections = (unsigned)strtoul(argv[5], NULL, 10);
    amount = strtoull(argv[6], NULL, 10);
    bytes = argc > 7 ? strtoull(argv[7], NULL, 10) : 1024;
    times = calloc(amount + 1, sizeof *times);
    context = SSL_CTX_new(TLS_client_method());
    if (!times || !context ||
        (!(asks_resolver && strchr(name, '*')) &&
         resolve(asks_resolver ? name : argv[2], port, &to, &to_len)) ||
        SSL_CTX_set_default_verify_paths(context) != 1) {
        fprintf(stderr, "load: can't start\n");
        return 1;
    }
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    http2 = strcmp(mode, "idle2") == 0;
    if (http2)
        SSL_CTX_set_alpn_protos(context, (const unsigned char *)"\x02h2", 3);
    pthread_barrier_init(&barrier, NULL, connections + 1);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 512 * 1024);
    pthread_t *threads = calloc(connections, sizeof *threads);
    for (unsigned i = 0; i < connections; i++)
        if (pthread_create(&threads[i], &small, work, NULL) != 0) {
            fprintf(stderr, "load: no thread\n");
            return 1;
        }
    pthread_barrier_wait(&barrier);
    printf("ready\n");
    fflush(stdout);
    wait_line();
    double begin = now();
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    double seconds = now() - begin;
    qsort(times, amount, sizeof *times, by_size);
    printf("{\"requests\": %llu, \"failed\": %llu, \"seconds\": %.6f, \"p50_us\": %.1f, \"p99_us\": %.1f}\n",
           amount, (unsigned long long)failed, seconds, (double)times[amount / 2],
           (double)times[amount ? amount - amount / 100 - 1 : 0]);
    fflush(stdout);
    wait_line();
    pthread_barrier_wait(&barrier);
    for (unsigned i = 0; i < connections; i++)
        pthread_join(threads[i], NULL);
    return failed ? 1 : 0;
}
