/*
 * Hosts for classes.c. Internal to it.
 */
#ifndef POLICY_CLASSES_HOSTS_H
#define POLICY_CLASSES_HOSTS_H

#include "policy/classes.h"

bool classes_takes_host(const struct target *t, struct slice host);

/* Whether a verdict about the host may hang on the rule that is looked at (c->about): it takes the host, or it is about
 * git, and the host may be that of a forge's API. */
bool classes_looked_at(const struct classes *c, struct slice host);

/* Whether any rule (`git`: about git) before rule i of policy k has the same host pattern: it has been walked. */
bool classes_seen(const struct classes *c, size_t k, size_t i, bool git);

/* A name that the suffix (or `*`) takes and that no rule is about more closely. False: none was found. */
bool classes_fresh_name(const struct classes *c, const struct target *t, char name[URL_HOST_MAX + 1]);

#endif
