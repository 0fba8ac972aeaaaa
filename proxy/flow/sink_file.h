/*
 * Decisions into a file: a JSON line each, one write(2) a line at the file's end (O_APPEND is the opener's
 * duty), nothing buffered.
 *
 * When a line can't be written (disk full, I/O error) nobody waits: it is counted, trouble is said once,
 * later lines are tried as they come, and with the first that succeeds a `gap` is due
 * (sink_file_take_gap). A line that went in by half is closed off by a line break so that the next one
 * stands alone.
 */
#ifndef FLOW_SINK_FILE_H
#define FLOW_SINK_FILE_H

#include "base/err.h"
#include "proxy/flow/record.h"

struct sink_file;

/* Ownership of the descriptor passes. NULL when memory is short. */
struct sink_file *sink_file_new(int fd);
void sink_file_free(struct sink_file *s);

/* `line` ends with a line break. 0 or ERR_IO (counted). */
int sink_file_write(struct sink_file *s, struct slice line, uint64_t time_ms);

/* Whether lines were lost and writing works again (or `force`: the process ends). Fills count, from_ms,
 * to_ms, sink and resets. */
bool sink_file_take_gap(struct sink_file *s, bool force, struct record *gap);

#endif
