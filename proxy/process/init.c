/*
 * pid 1 of a sandbox (netns/init.c), as a program of its own: it needs hardly a library, and keeps as little in memory as there is.
 */
#include <stdio.h>
#include <string.h>

#include "netns/sandbox.h"

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], SANDBOX_ROLE) == 0)
        return netns_init_main(SANDBOX_ROLE_FD, argv[2]);
    fprintf(stderr, "exeat-init: a part of exeat(1), which starts it\n");
    return 2;
}
