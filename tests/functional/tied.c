/*
 * Stands in the place of a part of exeat, for run_tied.py: says which signal the kernel sends it when who started it dies.
 */
#include <stdio.h>
#include <sys/prctl.h>

int main(int argc, char **argv) {
    int number = 0;
    prctl(PR_GET_PDEATHSIG, &number);
    fprintf(stderr, "%s is sent signal %d\n", argc > 1 ? argv[1] : "nothing", number);
    return 0;
}
