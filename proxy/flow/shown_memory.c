#include "proxy/flow/shown_memory.h"

#include <stdlib.h>
#include <sys/random.h>

static int make(struct shown **out, int fd, struct errmsg *msg) {
    struct shared *memory;
    int r = shared_hold(fd, "exeat-shown", "refs shown", sizeof(struct table), sizeof **out, &memory, msg);
    if (r)
        return r;
    *out = (struct shown *)memory;
    (*out)->table = memory->p;
    return 0;
}

int shown_new(struct shown **out, struct errmsg *msg) {
    int r = make(out, -1, msg);
    if (r == 0 && getrandom((*out)->table->key, sizeof(*out)->table->key, 0) != sizeof(*out)->table->key) {
        r = errmsg_errno(msg, ERR_IO, "refs shown: getrandom");
        shown_free(*out);
        *out = NULL;
    }
    return r;
}

int shown_attach(int fd, struct shown **out, struct errmsg *msg) {
    return make(out, fd, msg);
}

int shown_fd(const struct shown *s) {
    return s->memory.fd;
}

void shown_free(struct shown *s) {
    if (!s)
        return;
    shared_release(&s->memory);
    free(s);
}
