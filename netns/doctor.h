/*
 * What on this host stands in the way of a sandbox, and what to do about it. `exeat doctor` prints it all; `exeat run`,
 * when sandbox_start failed, prints the errors in the same words. Nothing on the host is changed.
 */
#ifndef NETNS_DOCTOR_H
#define NETNS_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum doctor_severity {
    DOCTOR_OK,    /* looked at and fine */
    DOCTOR_NOTE,  /* works, with less: no IPv6 */
    DOCTOR_ERROR, /* no sandbox can be made */
};

struct doctor_finding {
    enum doctor_severity severity;
    char what[128]; /* "user namespaces: cannot be made" */
    char why[384];  /* the reason, with the setting's name and value; may be empty */
    char todo[768]; /* what to do, one command or sentence a line; may be empty */
};

#define DOCTOR_FINDINGS_MAX 24

struct doctor_report {
    struct doctor_finding list[DOCTOR_FINDINGS_MAX];
    size_t n;
    size_t errors;
};

/* Looks at settings and makes trial namespaces in children (some 50 ms). Never fails: trouble is a finding. */
void doctor_check(struct doctor_report *report);

/* Whether this process is in a sandbox of exeat. */
bool doctor_inside(void);

#endif
