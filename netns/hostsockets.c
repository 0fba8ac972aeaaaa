#include "netns/hostsockets.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

struct listing {
    int (*each)(void *arg, const char *path);
    void *arg;
    int r; /* what it has returned */
};

/* --- the kernel is asked for those that have a use -------------------------------------------------------------------- */

/* In binary, for where many sandboxes run there are thousands of sockets without a name: of these /proc/net/unix, which lists all,
 * takes the kernel and us several times as long. A datagram socket counts as connected when another one is connected to it. */
#define STATES (1u << TCP_LISTEN | 1u << TCP_CLOSE | 1u << TCP_ESTABLISHED)

static int on_socket(const struct nlmsghdr *h, void *arg) {
    struct listing *l = arg;
    const struct nlattr *a;
    /* the kernel counts its own zero, which stands behind sun_path where a name fills that: such a name has one byte more */
    char path[sizeof((struct sockaddr_un *)0)->sun_path + 2];
    const struct unix_diag_msg *m = mnl_nlmsg_get_payload(h);
    if (mnl_nlmsg_get_payload_len(h) < sizeof *m)
        return MNL_CB_OK;
    /* the end that accept made has the listener's name */
    if (m->udiag_state == TCP_ESTABLISHED && m->udiag_type != SOCK_DGRAM)
        return MNL_CB_OK;
    mnl_attr_for_each(a, h, sizeof *m) {
        size_t n = mnl_attr_get_payload_len(a);
        if (mnl_attr_get_type(a) != UNIX_DIAG_NAME || n == 0 || n >= sizeof path)
            continue;
        memcpy(path, mnl_attr_get_payload(a), n);
        path[n] = 0;
        if (path[0] == '/' && (l->r = l->each(l->arg, path)))
            return MNL_CB_ERROR;
    }
    return MNL_CB_OK;
}

static bool ask(struct mnl_socket *s) {
    char memory[128];
    struct nlmsghdr *h = mnl_nlmsg_put_header(memory);
    h->nlmsg_type = SOCK_DIAG_BY_FAMILY;
    h->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    struct unix_diag_req *request = mnl_nlmsg_put_extra_header(h, sizeof *request);
    request->sdiag_family = AF_UNIX;
    request->udiag_states = STATES;
    request->udiag_show = UDIAG_SHOW_NAME;
    return mnl_socket_bind(s, 0, MNL_SOCKET_AUTOPID) == 0 && mnl_socket_sendto(s, h, h->nlmsg_len) >= 0;
}

/* False where the kernel does not tell all that way. */
static bool list_by_diag(struct listing *l) {
    char answer[32768];
    struct mnl_socket *s = mnl_socket_open2(NETLINK_SOCK_DIAG, SOCK_CLOEXEC);
    if (!s)
        return false;
    int r = ask(s) ? MNL_CB_OK : MNL_CB_ERROR;
    while (r > MNL_CB_STOP) {
        ssize_t n = mnl_socket_recvfrom(s, answer, sizeof answer);
        if (n >= 0)
            r = mnl_cb_run(answer, (size_t)n, 0, mnl_socket_get_portid(s), on_socket, l);
        else if (errno != EINTR)
            r = MNL_CB_ERROR;
    }
    mnl_socket_close(s);
    return r == MNL_CB_STOP;
}

/* --- or reads all of them --------------------------------------------------------------------------------------------- */

/* The path in a line of /proc/net/unix, if somebody could connect to it; else NULL. The end that accept made has the listener's name
 * too, but is connected. */
static const char *socket_path(char *line) {
    unsigned type, state;
    int at = 0;
    if (sscanf(line, "%*s %*s %*s %*s %x %x %*s %n", &type, &state, &at) != 2 || line[at] != '/')
        return NULL;
    if (state == 3 && type != SOCK_DGRAM)
        return NULL;
    line[at + (int)strcspn(line + at, "\n")] = 0;
    return line + at;
}

int hostsockets_read(int (*each)(void *arg, const char *path), void *arg, struct errmsg *msg) {
    FILE *f = fopen("/proc/self/net/unix", "re");
    if (!f) {
        /* a kernel without unix sockets has none to cover */
        return errno == ENOENT ? 0 : errmsg_errno(msg, ERR_IO, "/proc/self/net/unix");
    }
    char *line = NULL;
    size_t cap = 0;
    int r = 0;
    while (r == 0 && getline(&line, &cap, f) > 0) {
        const char *path = socket_path(line);
        if (path)
            r = each(arg, path);
    }
    free(line);
    fclose(f);
    return r;
}

int hostsockets_each(int (*each)(void *arg, const char *path), void *arg, struct errmsg *msg) {
    struct listing l = {each, arg, 0};
    if (list_by_diag(&l) || l.r)
        return l.r;
    return hostsockets_read(each, arg, msg);
}
