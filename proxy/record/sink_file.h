/*
 * Decisions into a file: a JSON line each, in one write(2) for all lines of a turn of the loop, at the file's end
 * (O_APPEND is the opener's duty).
 *
 * When lines can't be written (disk full, I/O error) nobody waits: they are counted, trouble is said once, later ones are
 * tried as they come, and with the first that succeeds a `gap` is due (sink_file_take_gap). A line that went in by
 * half is closed off by a line break, so that the next one stands alone.
 */
#ifndef PROXY_RECORD_SINK_FILE_H
#define PROXY_RECORD_SINK_FILE_H

#include "base/err.h"
#include "proxy/record/record.h"

struct sink_file;

/* Ownership of the descriptor passes. NULL when memory is short. */
struct sink_file *sink_file_new(int fd);
void sink_file_free(struct sink_file *s);

/* Whole lines, each with its line break; the times of the first and of the last. 0 or ERR_IO (what is missing is counted). */
int sink_file_write(struct sink_file *s, struct slice lines, uint64_t from_ms, uint64_t to_ms);

/* Whether lines were lost and writing works again (or `force`: the process ends). Fills count, from_ms,
 * to_ms, sink and resets. */
bool sink_file_take_gap(struct sink_file *s, bool force, struct record *gap);

#endif
