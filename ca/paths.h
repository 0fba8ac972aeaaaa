/* Adding to struct ca_paths. Internal to ca/. */
#ifndef CA_PATHS_H
#define CA_PATHS_H

#include "ca/bundle.h"

/* Adds the real path of a regular file that exists, once. 0 also when there is none; ERR_LIMIT, ERR_NOMEM. */
int paths_add(struct ca_paths *paths, const char *path);

#endif
