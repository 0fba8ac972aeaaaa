/*
 * What a process of ours says to the operator on standard error: "exeat: text" or "exeat worker: text".
 *
 * This is for trouble of exeat itself. Decisions are no log lines: they are records (proxy/record/record.h). Nothing secret is
 * passed to these functions at any level. Control characters are printed as \xHH, so that hostile bytes can't draw on a terminal;
 * but line breaks are not: a message may have several lines. Of a sandbox's words a host's name in canonical form may be in one.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>

#include "base/err.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_DEBUG };

/* `role` is NULL in the process that the user started, else a string that lives for ever ("worker"). */
void log_setup(const char *role, enum log_level level);
enum log_level log_level(void);

void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_debug(...)                                                                                       \
    do {                                                                                                     \
        if (log_level() >= LOG_LEVEL_DEBUG)                                                                  \
            log_write(LOG_LEVEL_DEBUG, __VA_ARGS__);                                                         \
    } while (0)

/* Whether text for this descriptor is to be coloured: a terminal, NO_COLOR unset or empty, and TERM not "dumb". */
bool log_colour(int fd);

#endif
