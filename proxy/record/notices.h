/*
 * Outcomes that the operator has to hear of, since only he can mend what is behind them: a server whose certificate is not
 * accepted, a name that leads nowhere or where it may not, a proxy that says no. The client is told by its answer; the
 * operator by a line on standard error, one for each kind and host: a sandbox may ask for as many names as it likes.
 */
#ifndef PROXY_RECORD_NOTICES_H
#define PROXY_RECORD_NOTICES_H

#include "proxy/record/record.h"

#define NOTICES_MAX 32 /* different ones; what comes then stands in the log alone */

/* All zero at first. */
struct notices {
    uint64_t told[NOTICES_MAX];
    size_t n;
    bool full; /* that there are more was told */
};

enum notice {
    NOTICE_NONE, /* nothing of the kind, or told already */
    NOTICE_TELL, /* record_notice is to be shown */
    NOTICE_MORE, /* … NOTICES_LAST, once */
};

#define NOTICES_LAST "exeat: more names without an answer for such reasons stand in the log alone\n"

/* What is to be shown of a record; it counts as told. */
enum notice notices_take(struct notices *n, const struct record *r);

#endif
