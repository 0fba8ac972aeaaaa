#include "proxy/codec/git_ids.h"

#include <stdlib.h>

#define IDS_ROOM 64

bool git_id_from_hex(struct slice hex, unsigned id_size, uint8_t *id) {
    if (hex.n != 2 * (size_t)id_size)
        return false;
    for (unsigned i = 0; i < id_size; i++) {
        int byte = slice_hex_pair(hex, 2 * (size_t)i);
        if (byte < 0)
            return false;
        id[i] = (uint8_t)byte;
    }
    return true;
}

void git_id_to_hex(const uint8_t *id, unsigned id_size, char out[2 * GIT_ID_MAX + 1]) {
    for (unsigned i = 0; i < id_size; i++) {
        out[2 * i] = "0123456789abcdef"[id[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[id[i] & 15];
    }
    out[2 * id_size] = 0;
}

void git_ids_init_in(struct git_ids *set, unsigned id_size, struct git_memory *memory) {
    *set = (struct git_ids){.id_size = id_size, .memory = memory};
}

void git_ids_init(struct git_ids *set, unsigned id_size) {
    git_ids_init_in(set, id_size, NULL);
}

void git_ids_release(struct git_ids *set) {
    free(set->bytes);
    free(set->table);
    git_memory_give(set->memory, set->room * set->id_size + set->slots * sizeof *set->table);
    git_ids_init_in(set, set->id_size, set->memory);
}

static size_t ids_slot(const struct git_ids *set, const uint8_t *id) {
    uint64_t start;
    memcpy(&start, id, sizeof start);
    size_t at = (size_t)start & (set->slots - 1);
    while (set->table[at] && memcmp(git_ids_at(set, set->table[at] - 1), id, set->id_size) != 0)
        at = (at + 1) & (set->slots - 1);
    return at;
}

size_t git_ids_find(const struct git_ids *set, const uint8_t *id) {
    if (!set->slots)
        return GIT_IDS_NONE;
    size_t at = ids_slot(set, id);
    return set->table[at] ? set->table[at] - 1 : GIT_IDS_NONE;
}

static size_t ids_next_room(const struct git_ids *set) {
    return set->n < set->room ? set->room : set->room ? set->room * 2 : IDS_ROOM;
}

static size_t ids_next_slots(const struct git_ids *set) {
    return (set->n + 1) * 2 <= set->slots ? set->slots : set->slots ? set->slots * 2 : 4 * IDS_ROOM;
}

size_t git_ids_cost(const struct git_ids *set) {
    return (ids_next_room(set) - set->room) * set->id_size +
           (ids_next_slots(set) - set->slots) * sizeof *set->table;
}

static bool ids_grow(struct git_ids *set) {
    size_t room = ids_next_room(set), slots = ids_next_slots(set);
    if (room != set->room) {
        if (!git_memory_take(set->memory, (room - set->room) * set->id_size))
            return false;
        uint8_t *bytes = reallocarray(set->bytes, room, set->id_size);
        if (!bytes) {
            git_memory_give(set->memory, (room - set->room) * set->id_size);
            return false;
        }
        set->bytes = bytes;
        set->room = room;
    }
    if (slots == set->slots)
        return true;
    if (!git_memory_take(set->memory, (slots - set->slots) * sizeof *set->table))
        return false;
    uint32_t *table = calloc(slots, sizeof *table);
    if (!table) {
        git_memory_give(set->memory, (slots - set->slots) * sizeof *table);
        return false;
    }
    free(set->table);
    set->table = table;
    set->slots = slots;
    for (size_t i = 0; i < set->n; i++)
        table[ids_slot(set, git_ids_at(set, i))] = (uint32_t)i + 1;
    return true;
}

size_t git_ids_add(struct git_ids *set, const uint8_t *id) {
    size_t found = git_ids_find(set, id);
    if (found != GIT_IDS_NONE)
        return found;
    if (set->n >= UINT32_MAX - 1 || !ids_grow(set))
        return GIT_IDS_NONE;
    memcpy(set->bytes + set->n * set->id_size, id, set->id_size);
    set->table[ids_slot(set, id)] = (uint32_t)set->n + 1;
    return set->n++;
}
