/*
 * seccomp filters, one for each kind of process, as the kernel takes them. What they permit is written down in
 * base/filter_rules.c. libseccomp makes programs of that when exeat is built (base/filter_make.c), for it takes longer to
 * load and to do that than all the rest of a role's confinement, in each process of each start.
 */
#ifndef BASE_FILTER_H
#define BASE_FILTER_H

#include <linux/filter.h>

enum filter {
    FILTER_WORKER,
    FILTER_KEEPER,
    FILTER_SCRIBE,
    FILTER_COMMAND, /* of the sandbox, and whatever it starts */
    FILTER_COUNT,
};

/* The program, static. */
struct sock_fprog filter_program(enum filter which);

/* Loads it for this process and all that it starts, for good. Needs no_new_privs or CAP_SYS_ADMIN. 0, or -1 with errno. */
int filter_load(enum filter which);

#endif
