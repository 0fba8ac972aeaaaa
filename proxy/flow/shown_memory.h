/*
 * The memory of shown.h, for its two files alone: shown.c, which looks things up, and shown_memory.c, which makes and shares it (and
 * which the supervisor needs without the other one).
 */
#ifndef PROXY_FLOW_SHOWN_MEMORY_H
#define PROXY_FLOW_SHOWN_MEMORY_H

#include <assert.h>
#include <stdatomic.h>

#include "base/shared.h"
#include "proxy/flow/shown.h"
#include "proxy/flow/shown_names.h"

struct table {
    unsigned char key[32];
    _Atomic uint32_t turn; /* lists so far */
    _Atomic uint64_t entries[SHOWN_MAX];
    struct shown_names names;
};

struct shown {
    struct shared memory; /* first */
    struct table *table;
};

static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "shared between processes");

#endif
