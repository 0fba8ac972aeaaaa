/*
 * One sandbox's end of the socket to a service (service_wire.h): in place of the roles that it would have for itself (children.h).
 *
 *     service_join - `joined` - service_open - service_leave - `left`
 *         any time: `failed`, with the reason, and nothing follows but `left`
 */
#ifndef PROXY_PROCESS_SERVICE_CLIENT_H
#define PROXY_PROCESS_SERVICE_CLIENT_H

#include "netns/sandbox.h"
#include "proxy/process/channel.h"
#include "proxy/process/prepare.h"

#define SERVICE_ANSWER_S 20 /* for the service to let somebody join */

/*
 *     CLIENT_NONE --> CLIENT_ASKING --> CLIENT_JOINED --> CLIENT_OPEN --> CLIENT_LEAVING --> CLIENT_LEFT
 *                           +---------------+-----------------+-----------------^
 *
 * client_enter() is the one writer.
 */
enum client_state {
    CLIENT_NONE,
    CLIENT_ASKING,  /* for a place */
    CLIENT_JOINED,  /* the sandbox may be made */
    CLIENT_OPEN,    /* … and the workers have its listeners */
    CLIENT_LEAVING, /* it is over, and has been recorded when the service says so */
    CLIENT_LEFT,    /* there is no connection any more */
    CLIENT_STATES
};

struct service_client_ops {
    void (*joined)(void *arg, struct slice ca_pem,
                   uint32_t ca_hash);            /* our root, and the hash of its subject */
    void (*failed)(void *arg, const char *text); /* lines for the user */
    void (*left)(void *arg);
};

struct service_client {
    enum client_state state;
    struct prepared *prepared;
    const struct service_client_ops *ops;
    void *arg;
    struct channel channel;
    struct event *limit; /* until it has joined, and until it has left */
};

/* `c` is zero; `p` is CONFIG_JOIN's, whose `hidden` is filled in before `joined`. 0, or an error with a message: no service is there …
 * Then, too, service_client_release is due. */
int service_join(struct service_client *c, struct event_base *base, struct prepared *p,
                 const struct service_client_ops *ops, void *arg, struct errmsg *msg) MUST_CHECK;

/* Hands the sandbox over to the workers; the descriptors stay the caller's. 0; ERR_EOF: `failed` follows, with the reason; another error. */
int service_open(struct service_client *c, const struct sandbox_listeners *listeners) MUST_CHECK;

/* Nothing runs in the sandbox any more. `left` follows; at once, if there is no service any more, and in CHILDREN_END_MS at the latest,
 * which is told then. */
void service_leave(struct service_client *c);

void service_client_release(struct service_client *c);

#endif
