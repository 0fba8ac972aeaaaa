#include "proxy/flow/shown_memory.h"

#include <sys/random.h>

static int shown_hold(int fd, struct shown **out, struct errmsg *msg) {
    struct shared *memory;
    int r = shared_hold(fd, "exeat-shown", "refs shown", sizeof(struct table), sizeof **out, &memory, msg);
    if (r)
        return r;
    *out = (struct shown *)memory;
    (*out)->table = memory->p;
    return 0;
}

int shown_new(struct shown **out, struct errmsg *msg) {
    int r = shown_hold(SHARED_NEW, out, msg);
    if (r == 0 && getrandom((*out)->table->key, sizeof(*out)->table->key, 0) != sizeof(*out)->table->key) {
        r = errmsg_errno(msg, ERR_IO, "refs shown: getrandom");
        shown_free(*out);
        *out = NULL;
    }
    return r;
}

int shown_attach(int fd, struct shown **out, struct errmsg *msg) {
    return shown_hold(fd, out, msg);
}

int shown_fd(const struct shown *s) {
    return s->memory.fd;
}

void shown_free(struct shown *s) {
    shared_free((struct shared *)s);
}
