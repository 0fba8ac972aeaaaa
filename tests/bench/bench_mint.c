/*
 * What a leaf costs: minting it beside the bare signature that is in it, and reading it. Each is
 * measured in turns with the others, in CPU time, so that a busy machine disturbs all alike.
 */
#include <fcntl.h>
#include <malloc.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "ca/leaf.h"
#include "ca/root.h"

#define ROUNDS 20
#define EACH   200
#define NOW    1800000000

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int on_ask(void *arg, struct slice name, struct slice spki) {
    (void)arg, (void)name, (void)spki;
    return 0;
}

static void on_done(struct leaf_waiter *w, X509 *cert, int err, const char *why) {
    (void)w, (void)cert, (void)why;
    if (err)
        abort();
}

static void check(bool ok, const char *what) {
    if (!ok) {
        fprintf(stderr, "bench_mint: %s\n", what);
        exit(1);
    }
}

/* One round of each; adds to the three sums. */
static void round_of(struct ca_root *root, struct leaf_cache *cache, EVP_PKEY *key, int number,
                     double sum[3]) {
    static struct leaf_waiter waiters[EACH];
    struct buf der[EACH];
    char name[64];
    X509 *cert;
    EVP_MD_CTX *signer = EVP_MD_CTX_new();
    double t = seconds();
    for (int i = 0; i < EACH; i++) {
        buf_init(&der[i], CA_DER_MAX);
        snprintf(name, sizeof name, "h%d-%d.example.com", number, i);
        check(ca_mint(root, slice_str(name), leaf_cache_spki(cache), NOW, &der[i], NULL) == 0, "mint");
    }
    sum[0] += seconds() - t;
    t = seconds();
    for (int i = 0; i < EACH; i++) {
        unsigned char signature[128];
        size_t n = sizeof signature;
        check(EVP_DigestSignInit(signer, NULL, EVP_sha256(), NULL, key) == 1 &&
                  EVP_DigestSign(signer, signature, &n, (const unsigned char *)der[i].data, 350) == 1,
              "sign");
    }
    sum[1] += seconds() - t;
    t = seconds();
    for (int i = 0; i < EACH; i++) {
        snprintf(name, sizeof name, "h%d-%d.example.com", number, i);
        waiters[i] = (struct leaf_waiter){.done = on_done};
        check(leaf_cache_get(cache, slice_str(name), NOW, &waiters[i], &cert) == ERR_AGAIN, "get");
        check(leaf_cache_put(cache, slice_str(name), buf_slice(&der[i]), NOW) == 0, "put");
    }
    sum[2] += seconds() - t;
    for (int i = 0; i < EACH; i++)
        buf_release(&der[i]);
    EVP_MD_CTX_free(signer);
}

int main(void) {
    char dir[] = "/tmp/exeat-bench-XXXXXX";
    const struct leaf_config config = {.capacity = 1000, .ask = on_ask};
    struct leaf_cache *cache;
    struct ca_root *root;
    double sum[3] = {0};
    check(mkdtemp(dir) != NULL, "mkdtemp");
    int fd = open(dir, O_RDONLY | O_DIRECTORY);
    check(ca_root_open(fd, NOW, &root, NULL) == 0, "a root");
    check(leaf_cache_new(&config, &cache, NULL) == 0, "a cache");
    EVP_PKEY *key = EVP_EC_gen("P-256");
    size_t before = mallinfo2().uordblks;
    for (int i = 0; i < ROUNDS; i++)
        round_of(root, cache, key, i, sum);
    double n = ROUNDS * EACH;
    printf("mint                %8.1f us   %8.0f /s per core\n", sum[0] / n * 1e6, n / sum[0]);
    printf("signature alone     %8.1f us   ratio %.2f\n", sum[1] / n * 1e6, sum[0] / sum[1]);
    printf("reading a leaf      %8.1f us   (once for a name)\n", sum[2] / n * 1e6);
    printf("memory of a leaf    %8.1f KiB\n",
           (double)(mallinfo2().uordblks - before) / 1024 / (double)config.capacity);
    EVP_PKEY_free(key);
    leaf_cache_free(cache);
    ca_root_free(root);
    unlinkat(fd, CA_CERT_FILE, 0);
    unlinkat(fd, CA_KEY_FILE, 0);
    close(fd);
    rmdir(dir);
    return 0;
}
