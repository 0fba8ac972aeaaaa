/*
 * Requests to the API of a forge, which an HTTP rule permits and the push rules judge as well (doors.h): for the tools
 * that compare policies. Internal to policy/.
 *
 * A request of every row of the tables is made, for each repository that the rules tell apart and each ref that it may
 * name, below whatever the HTTP rules take; beside them requests that are in no table. That finds examples, not all
 * that there is: what a request holds beside its method, path and ref is not followed. So where two policies would
 * judge writes differently, and an HTTP rule reaches one, that is said (`unsure`).
 */
#ifndef POLICY_CLASSES_DOORS_H
#define POLICY_CLASSES_DOORS_H

#include "policy/classes.h"
#include "policy/forge.h"

#define DOOR_UNITS_MAX 256

/* Hands over the requests to the API that `origin` serves (host, scheme and port of it are looked at), if it is one.
 * Returns as classes_walk does. What it costs is taken from `effort`. */
int classes_doors(const struct classes *c, const struct facts *origin, uint64_t *effort);

/* The path of a row as a pattern, below `root` ("/api/v4"). An empty repository, or ref, is a wildcard. */
size_t classes_doors_row(const char *root, const struct forge_row *row, struct slice repository,
                         struct slice ref, uint16_t units[DOOR_UNITS_MAX]);

/* Writes a path that the pattern takes. A number does for every part. */
void classes_doors_fill(struct buf *out, struct slice pattern);

#endif
