/* Files of the state directory, opened with the suspicion that a private key deserves. Internal to ca/. */
#ifndef CA_FILES_H
#define CA_FILES_H

#include <sys/types.h>

#include "base/err.h"
#include "base/secret.h"

/* Locks the directory itself against another first user, waiting for him. *lock is closed to unlock. 0 or
 * ERR_IO. */
int files_lock(int dirfd, int *lock, struct errmsg *msg) MUST_CHECK;

/* The directory is ours, and nobody else may write to it. 0, ERR_DENIED or ERR_IO. */
int files_check_dir(int dirfd, struct errmsg *msg) MUST_CHECK;

/* Reads a regular file of ours that nobody else may write to and, if `private`, nobody else may read. No
 * symbolic link is followed. 0, ERR_NOTFOUND (without a message), ERR_DENIED, ERR_IO, ERR_LIMIT or ERR_NOMEM.
 * */
int files_read(int dirfd, const char *name, size_t max, bool private, struct secret *out,
               struct errmsg *msg) MUST_CHECK;

/* Puts `bytes` into the file `name` with that mode, durably and at once: written beside it and renamed. Call
 * it with the lock held. 0 or ERR_IO. */
int files_write(int dirfd, const char *name, mode_t mode, struct slice bytes, struct errmsg *msg) MUST_CHECK;

#endif
