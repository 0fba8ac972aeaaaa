/* Memory that a process keeps without a use for it. */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

/*
 * Gives back to the system what is free in the heap, where that is a good part of it. What many connections needed at the same
 * time is free afterwards, but lies between what a few of them still hold, and malloc returns by itself only what lies at the end.
 * It takes some milliseconds for a heap of some hundred MiB: not to be done often.
 */
void heap_give_back(void);

/*
 * Gives back all that is free, where a process has begun and most of what it will need is there: of the heap, of blocks (base/block.h) and
 * room for messages (base/msg.h), and of the stack, which a start needs deeper than a loop does. To be called from the loop, when the
 * start has been over for a while: nobody is to wait for it, and a sandbox that is gone by then has saved the time.
 */
#define HEAP_SETTLE_MS 500 /* that while */
void heap_settle(void);

/* Threads that begin from now on have no heaps of their own, of which more stays than of the one that all have. */
void heap_one(void);

#endif
