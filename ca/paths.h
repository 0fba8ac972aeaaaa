/* Adding to struct ca_paths. Internal to ca/. */
#ifndef CA_PATHS_H
#define CA_PATHS_H

#include "ca/bundle.h"

/* Adds the real path of a regular file, once; nothing if there is none, or no room. */
void paths_add(struct ca_paths *paths, const char *path);

#endif
