/*
 * The options of `exeat run`, for commands that run something as it does.
 */
#ifndef PROXY_COMMAND_RUN_H
#define PROXY_COMMAND_RUN_H

#include "proxy/command/options.h"
#include "proxy/process/config.h"

/* What the rows fill in; config_init first. A command with options of its own has this as the first member of its target. */
struct run {
    struct config config;
    bool help;
};

extern const struct option_row run_rows[];
extern const size_t run_nrows;

#endif
