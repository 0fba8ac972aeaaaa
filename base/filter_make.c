/* Writes base/filter_table.h: the rules of base/filter_rules.c as the kernel takes them. Run by make. */
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/filter_rules.h"

/* How many instructions; 0 when something fails. By a file, for that is how libseccomp exports. */
static size_t write_program(enum filter which) {
    struct sock_filter i;
    size_t count = 0;
    ssize_t n = 0;
    scmp_filter_ctx ctx = filter_rules(which);
    int fd = memfd_create("filter", MFD_CLOEXEC);
    if (ctx && fd >= 0 && seccomp_export_bpf(ctx, fd) == 0 && lseek(fd, 0, SEEK_SET) == 0)
        for (; (n = read(fd, &i, sizeof i)) == sizeof i; count++)
            printf("    {0x%02x, %u, %u, 0x%08x},\n", i.code, i.jt, i.jf, i.k);
    if (ctx)
        seccomp_release(ctx);
    if (fd >= 0)
        close(fd);
    return n == 0 ? count : 0;
}

int main(void) {
    size_t lengths[FILTER_COUNT];
    bool ok = true;
    printf("/* Made by base/filter_make from base/filter_rules.c. */\n"
           "static const struct sock_filter instructions[] = {\n");
    for (int which = 0; ok && which < FILTER_COUNT; which++) {
        lengths[which] = write_program((enum filter)which);
        ok = lengths[which] != 0;
    }
    printf("};\nstatic const unsigned short lengths[FILTER_COUNT] = {");
    for (int which = 0; ok && which < FILTER_COUNT; which++)
        printf("%zu, ", lengths[which]);
    printf("};\n");
    if (ok && fflush(stdout) == 0)
        return 0;
    fprintf(stderr, "filter_make: the filters can't be made\n");
    return 1;
}
