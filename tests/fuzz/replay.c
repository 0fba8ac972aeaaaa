/*
 * Runs a fuzz harness without libFuzzer, so that every seed is replayed by make check with any
 * compiler. For a harness called fuzz_P the seeds are the files of tests/fuzz/corpus/P/. Each is run
 *
 *   - as it is,
 *   - cut off after each of its bytes (at most MAX_CUTS places, evenly spread),
 *   - with single bits turned over (at most MAX_FLIPS of them, the same ones in each run),
 *
 * from a heap block of exactly its size, so that a sanitizer sees a read past its end. Each seed is
 * one TAP test: the harness has not crashed, which only the process's death could tell; the name is
 * therefore printed, as a comment, before the seed is run.
 */
#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_SEEDS 4096
#define MAX_SIZE  (8u << 20)
#define MAX_CUTS  4096
#define MAX_FLIPS 4096
/* Work for one seed is bounded as well: a large seed gets fewer variations. */
#define MAX_WORK (32u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run_copy(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size ? size : 1);

    if (copy == NULL)
        abort();
    if (size)
        memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

/* How many variations of a seed are run: at most `limit`, fewer when it is large. */
static size_t budget(size_t size, size_t limit) {
    size_t n = MAX_WORK / (size + 1);

    return n < limit ? n : limit;
}

static void run_cuts(const uint8_t *data, size_t size) {
    size_t n = budget(size, MAX_CUTS);
    size_t step = size / (n + 1) + 1;

    for (size_t end = 0; end < size; end += step)
        run_copy(data, end);
}

static void run_flips(uint8_t *data, size_t size) {
    size_t bits = size * 8;
    size_t n = budget(size, MAX_FLIPS);
    uint64_t state = 0x9e3779b97f4a7c15u;

    for (size_t i = 0; i < (bits < n ? bits : n); i++) {
        size_t bit = i;

        if (bits > n) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            bit = (size_t)(state >> 20) % bits;
        }
        data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        run_copy(data, size);
        data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
}

/* The file's bytes on the heap, or NULL with a TAP line that says why. */
static uint8_t *read_seed(const char *path, size_t *size) {
    struct stat st;
    uint8_t *data = NULL;
    FILE *f = fopen(path, "rb");

    if (f == NULL || fstat(fileno(f), &st) != 0 || (size_t)st.st_size > MAX_SIZE)
        goto out;
    *size = (size_t)st.st_size;
    data = malloc(*size ? *size : 1);
    if (data != NULL && fread(data, 1, *size, f) != *size) {
        free(data);
        data = NULL;
    }
out:
    if (f != NULL)
        fclose(f);
    return data;
}

static int run_seed(int number, const char *dir, const char *name) {
    char path[4096];
    size_t size = 0;
    uint8_t *data;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    printf("# %s\n", name);
    fflush(stdout);
    data = read_seed(path, &size);
    if (data == NULL) {
        printf("not ok %d - %s: can't be read (or is over %u bytes)\n", number, name, MAX_SIZE);
        return -1;
    }
    run_copy(data, size);
    run_cuts(data, size);
    run_flips(data, size);
    free(data);
    printf("ok %d - %s\n", number, name);
    fflush(stdout);
    return 0;
}

static int is_seed(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

/* The folder of the seeds: the argument, or the one that goes by the program's name. */
static int corpus_of(const char *program, const char *argument, char *dir, size_t size) {
    const char *top = getenv("TOP_SRCDIR");
    const char *base = strrchr(program, '/');
    int n;

    base = base ? base + 1 : program;
    if (argument != NULL)
        n = snprintf(dir, size, "%s", argument);
    else if (strncmp(base, "fuzz_", 5) == 0)
        n = snprintf(dir, size, "%s/tests/fuzz/corpus/%s", top ? top : ".", base + 5);
    else
        return -1;
    return n > 0 && (size_t)n < size ? 0 : -1;
}

int main(int argc, char **argv) {
    char dir[4096];
    struct dirent **seeds = NULL;
    int n, failed = 0;

    if (corpus_of(argv[0], argc > 1 ? argv[1] : NULL, dir, sizeof dir) != 0) {
        printf("Bail out! usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    n = scandir(dir, &seeds, is_seed, alphasort);
    if (n <= 0 || n > MAX_SEEDS) {
        printf("Bail out! %s: %s\n", dir, n < 0 ? strerror(errno) : "no seeds, or too many");
        free(seeds);
        return 2;
    }
    printf("1..%d\n", n + 1);
    run_copy(NULL, 0);
    printf("ok 1 - empty input\n");
    for (int i = 0; i < n; i++) {
        failed += run_seed(i + 2, dir, seeds[i]->d_name) != 0;
        free(seeds[i]);
    }
    free(seeds);
    return failed != 0;
}
