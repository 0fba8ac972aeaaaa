/*
 * The options of `exeat run`, for commands that run something as it does, and those of them that are not about one sandbox, for
 * `exeat serve`.
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

/* … from the first on that a service has too. */
const struct option_row *serve_rows(size_t *n);

/* Whether an option was given that a service has to be given; then `msg` says which. */
bool run_is_for_service(const struct run *run, struct errmsg *msg);

#endif
