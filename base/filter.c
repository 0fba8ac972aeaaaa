#include "base/filter.h"

#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/* `instructions`, program after program in the order of the enum, and of each how many in `lengths`. */
#include "base/filter_table.h"

struct sock_fprog filter_program(enum filter which) {
    size_t from = 0;
    for (size_t i = 0; i < (size_t)which; i++)
        from += lengths[i];
    /* the kernel only reads them */
    return (struct sock_fprog){lengths[which], (struct sock_filter *)&instructions[from]};
}

int filter_load(enum filter which) {
    struct sock_fprog program = filter_program(which);
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}
