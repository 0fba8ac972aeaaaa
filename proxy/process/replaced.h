/*
 * Files of secrets that another one is put in the place of. What covers a file inside a sandbox covers that very file: when another one
 * gets its name (by rename, as editors and whatever renews tokens do it, or by a link that leads elsewhere), the kernel takes the cover
 * away, and the new file is there to be read. So they are looked after while sandboxes run: the vault's file, those that its secrets are
 * in, and the state directory.
 */
#ifndef PROXY_PROCESS_REPLACED_H
#define PROXY_PROCESS_REPLACED_H

#include <event2/event.h>

#include "proxy/process/prepare.h"

struct replaced;

/* What the user is told of it; of the path. */
#define REPLACED                                                                                             \
    "%s was replaced or taken away, and what is there now nothing covers in a sandbox: it ends. Write into " \
    "such a file, and put no other in its place while sandboxes run"

/* Begins to look. `is_replaced` is called from the event loop, once, with the path of a file in whose place is another one, or none.
 * Where there is nothing to look after, *out is NULL. 0, or an error with a message: the host has no more of what it takes. */
int replaced_watch(struct event_base *base, const struct prepared *p,
                   void (*is_replaced)(void *arg, const char *path), void *arg, struct replaced **out,
                   struct errmsg *msg);

/* Accepts NULL. */
void replaced_free(struct replaced *r);

#endif
