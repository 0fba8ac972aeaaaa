/*
 * Where policy files come from on this host: a reader for policy_load, for the supervisor alone (workers compile from a block of
 * bytes that policy_bundle made).
 *
 * A file of the command line is opened as it was named. An included one is looked for in the folder of the file that includes it, then
 * in the folders of EXEAT_POLICY_PATH (separated by colons; for trees that are not installed), then where the ready-made policies are
 * installed. Files are known by their real path, told relative to the working directory where they lie below it.
 */
#ifndef PROXY_PROCESS_SOURCES_H
#define PROXY_PROCESS_SOURCES_H

#include "base/buf.h"
#include "base/err.h"

struct sources {
    char *cwd;        /* real path; NULL: unknown, real paths are told whole */
    const char *path; /* folders, separated by colons; NULL: none. Borrowed */
};

int sources_init(struct sources *s);
void sources_release(struct sources *s);

/* A policy_reader; `arg` is a struct sources. */
int sources_read(void *arg, const char *from, const char *name, struct buf *resolved, struct buf *text,
                 struct errmsg *msg);

/* Bytes as a file in memory that nobody can change any more (sealed). The descriptor, or -1 and a message. */
int memory_file(const char *name, struct slice bytes, struct errmsg *msg);

/* Its bytes, mapped; works in a confined process. 0; ERR_PEER if it is not sealed; ERR_LIMIT if it has more than `max`: nothing in it
 * need be there, so that a terabyte costs who made it nothing, and who reads it all; ERR_IO. */
int memory_file_map(int fd, size_t max, struct slice *out);
void memory_file_unmap(struct slice *mapped);

#endif
