/*
 * Between the store of objects and the pack parser only.
 */
#ifndef PROXY_CODEC_GIT_OBJECTS_INTERNAL_H
#define PROXY_CODEC_GIT_OBJECTS_INTERNAL_H

#include "proxy/codec/git_objects.h"

#define GIT_NONE UINT32_MAX

/*
 * A delta that waits. Its base is an id that deltas wait for (o->bases), or another delta that waits. Those that wait for
 * the same are chained by `next`; those that wait for this one begin with `first`. When its base is there it becomes an
 * object, and `object` says which; its data is gone then.
 */
struct git_delta {
    char *data;
    uint32_t size;
    uint32_t next, first;
    uint32_t object;
    bool pushed;
};

/* An object, and the first of a chain of deltas that are to be made of it. */
struct git_due {
    uint32_t object, first;
};

/* What an object of a pack became: an object, a delta that waits, or nothing that is kept. */
enum git_place_kind { GIT_PLACE_LOST, GIT_PLACE_OBJECT, GIT_PLACE_DELTA };

struct git_place {
    enum git_place_kind kind;
    uint32_t number;
};

/* Counts `more` bytes. ERR_LIMIT: there is no room for them. */
int git_objects_account(struct git_objects *o, size_t more);
void git_objects_unaccount(struct git_objects *o, size_t less);

/* *list: a list with room for one more than `n`, in place of `given` (the same, after an error), counted. 0, ERR_LIMIT,
 * ERR_NOMEM. */
int git_objects_room(struct git_objects *o, void *given, size_t size, size_t n, size_t *room, void **list);

/* The id of an object with these contents. 0, ERR_CRYPTO. */
int git_objects_hash(struct git_objects *o, enum git_type type, struct slice data, uint8_t *id);

/* Takes `data` (malloc'd) whatever comes of it. The deltas that waited for it are made. 0: *number is the object's.
 * Else o->error says why. */
int git_objects_take(struct git_objects *o, enum git_type type, char *data, size_t size, bool pushed,
                     uint32_t *number);

/* The same for a delta: of the object or delta at `base`, or, if that is lost, of whatever has the id `base_id` (NULL:
 * of nothing). *place says what became of it: an object, if its base is there. */
int git_objects_take_delta(struct git_objects *o, struct git_place base, const uint8_t *base_id, char *data,
                           size_t size, bool pushed, struct git_place *place);

/* What a delta's base is: what the parser knows of it, brought up to date. What is to be waited for is GIT_PLACE_DELTA,
 * an id with the number GIT_NONE. */
enum git_place_kind git_objects_base(struct git_objects *o, struct git_place *base, const uint8_t *base_id);

/* ---- git_pending.c ---- */

/* May a delta of this size wait? */
bool git_pending_room(const struct git_objects *o, uint64_t size);

/* Takes `data` whatever comes of it. Without room for it it is lost, which is no error. */
int git_pending_add(struct git_objects *o, struct git_place base, const uint8_t *base_id, char *data,
                    size_t size, bool pushed, struct git_place *place);

/* A delta that has become an object is one. */
void git_pending_place(const struct git_objects *o, struct git_place *place);

/* The object is there, either a new one, or what `delta` has become (else GIT_NONE): what waits for it is due. */
int git_pending_wake(struct git_objects *o, uint32_t object, uint32_t delta);

/* Gives up the data (to be freed by the caller) of a delta that is made now. Returns the next of its chain. */
uint32_t git_pending_take(struct git_objects *o, uint32_t delta, struct slice *data, bool *pushed);

void git_pending_release(struct git_objects *o);

/* ---- git_delta.c ---- */

/* What the delta makes of the base, at most `most` bytes: *out is malloc'd. 0, ERR_PARSE, ERR_LIMIT, ERR_NOMEM. */
int git_delta_apply(struct slice base, struct slice delta, size_t most, char **out, size_t *size);

/* The sizes of base and result at the head of a delta. False: it is cut short or malformed. */
bool git_delta_sizes(struct slice *delta, uint64_t *from, uint64_t *to);

#endif
