#include "proxy/process/channel.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/secret.h"

#define TAKE_MAX 64

/* The kernel takes no message, though there is room: it has no memory, or too many descriptors are on their way. */
#define REST_MS    20
#define RESTS_TOLD 50 /* in a row */

struct channel_item {
    struct channel_item *next;
    struct secret secret;
    uint8_t *plain;
    struct msg_out m;
};

static void item_free(struct channel_item *item) {
    for (size_t i = 0; i < item->m.nfds; i++)
        close(item->m.fds[i]);
    secret_release(&item->secret);
    free(item->plain);
    free(item);
}

static void channel_end(struct channel *c, int err) {
    if (c->ended)
        return;
    c->ended = true;
    if (c->in)
        event_del(c->in);
    if (c->out)
        event_del(c->out);
    if (c->rest)
        event_del(c->rest);
    c->ops->closed(c, err);
}

void channel_take(struct channel *c) {
    int fd = c->fd;
    for (int n = 0; n < TAKE_MAX && c->fd == fd && !c->ended; n++) {
        struct msg_in m;
        int r = msg_recv(fd, &m, msg_room.in, sizeof msg_room.in);
        if (r == ERR_AGAIN)
            break;
        if (r == 0) {
            bool secret = c->secret;
            size_t length = m.n;
            r = c->ops->message(c, &m);
            msg_close_fds(&m);
            if (secret)
                secret_wipe(msg_room.in, length);
        }
        if (r < 0) {
            if (c->fd == fd)
                channel_end(c, r);
            break;
        }
    }
}

static void channel_on_in(evutil_socket_t fd, short what, void *arg) {
    (void)fd;
    (void)what;
    channel_take(arg);
}

static void channel_on_rested(evutil_socket_t fd, short what, void *arg) {
    struct channel *c = arg;
    (void)fd;
    (void)what;
    event_add(c->out, NULL);
}

/* It would be writable at once, and again and again. */
static void channel_rest(struct channel *c) {
    static const struct timeval rest = {.tv_usec = REST_MS * 1000};
    if (!c->rest)
        c->rest = evtimer_new(event_get_base(c->out), channel_on_rested, c);
    if (c->rest && event_add(c->rest, &rest) == 0)
        event_del(c->out);
    if (++c->rests == RESTS_TOLD)
        log_warn("what one process has for another waits: the kernel has no memory for it, or too many "
                 "descriptors of this user's are on their way (ulimit -n)");
}

/* ERR_AGAIN: not now. Descriptors that are on their way are counted for the user, all channels together: they come down. */
static int send_now(int fd, const struct msg_out *m) {
    int r = msg_send(fd, m);
    return r == ERR_LIMIT && !m->err ? ERR_AGAIN : r;
}

static void channel_on_out(evutil_socket_t fd, short what, void *arg) {
    struct channel *c = arg;
    (void)what;
    for (bool some = false; c->head; some = true) {
        struct channel_item *item = c->head;
        int r = send_now(fd, &item->m);
        if (r == ERR_AGAIN && some)
            return;
        if (r == ERR_AGAIN) {
            channel_rest(c);
            return;
        }
        if (r < 0) {
            channel_end(c, r);
            return;
        }
        c->head = item->next;
        if (!c->head)
            c->tail = &c->head;
        c->queued -= item->m.n;
        c->rests = 0;
        item_free(item);
    }
    event_del(c->out);
}

int channel_open(struct channel *c, struct event_base *base, int fd, bool secret,
                 const struct channel_ops *ops, void *arg) {
    *c = (struct channel){.fd = fd, .secret = secret, .ops = ops, .arg = arg};
    c->tail = &c->head;
    c->in = event_new(base, fd, EV_READ | EV_PERSIST, channel_on_in, c);
    c->out = event_new(base, fd, EV_WRITE | EV_PERSIST, channel_on_out, c);
    if (!c->in || !c->out || event_add(c->in, NULL) < 0) {
        channel_close(c);
        return ERR_NOMEM;
    }
    return 0;
}

void channel_close(struct channel *c) {
    if (!c->ops)
        return;
    if (c->in)
        event_free(c->in);
    if (c->out)
        event_free(c->out);
    if (c->rest)
        event_free(c->rest);
    while (c->head) {
        struct channel_item *item = c->head;
        c->head = item->next;
        item_free(item);
    }
    if (c->fd >= 0)
        close(c->fd);
    *c = (struct channel){.fd = -1, .ended = true};
}

static int item_new(const struct channel *c, const struct msg_out *m, struct channel_item **out) {
    struct channel_item *item = calloc(1, sizeof *item);
    if (!item)
        return ERR_NOMEM;
    if (c->secret ? secret_set(&item->secret, slice_make(m->p, m->n)) < 0 : !(item->plain = malloc(m->n))) {
        free(item);
        return ERR_NOMEM;
    }
    item->m = (struct msg_out){
        .p = c->secret ? (uint8_t *)item->secret.bytes : item->plain, .n = m->n, .cap = m->n};
    if (!c->secret)
        memcpy(item->plain, m->p, m->n);
    for (size_t i = 0; i < m->nfds; i++) {
        int fd = fcntl(m->fds[i], F_DUPFD_CLOEXEC, 0);
        if (fd < 0) {
            item_free(item);
            return ERR_LIMIT;
        }
        item->m.fds[item->m.nfds++] = fd;
    }
    *out = item;
    return 0;
}

int channel_send(struct channel *c, const struct msg_out *m) {
    if (c->fd < 0 || c->ended)
        return ERR_EOF;
    if (!c->head) {
        int r = send_now(c->fd, m);
        if (r != ERR_AGAIN)
            return r;
    }
    if (m->err)
        return m->err;
    if (m->n > CHANNEL_QUEUE_MAX - c->queued)
        return ERR_LIMIT;
    struct channel_item *item;
    int r = item_new(c, m, &item);
    if (r < 0)
        return r;
    *c->tail = item;
    c->tail = &item->next;
    c->queued += m->n;
    return event_add(c->out, NULL) < 0 ? ERR_NOMEM : 0;
}

int channel_send_type(struct channel *c, uint16_t type) {
    uint8_t memory[16];
    struct msg_out m;
    msg_begin(&m, memory, sizeof memory, type);
    return channel_send(c, &m);
}
