/*
 * /etc/hosts, read once: names to addresses. Lines that can't be understood are passed over, as the C
 * library does.
 */
#ifndef PROXY_UPSTREAM_HOSTS_FILE_H
#define PROXY_UPSTREAM_HOSTS_FILE_H

#include "base/addr.h"
#include "base/err.h"
#include "base/slice.h"

#define HOSTS_FILE_MAX  (4u << 20) /* bytes; what is beyond is not read */
#define HOSTS_NAMES_MAX 65536

struct hosts_file;

/* Reads the text of such a file. NULL when memory is short. */
struct hosts_file *hosts_file_parse(struct slice text);
/* Opens and reads `path`; a file that is not there is an empty one. */
struct hosts_file *hosts_file_load(const char *path);
void hosts_file_free(struct hosts_file *h);

/* Addresses of a canonical name, in the order of the file, without a port. Returns how many of `max`. */
size_t hosts_file_find(const struct hosts_file *h, struct slice name, struct addr *out, size_t max);

#endif
