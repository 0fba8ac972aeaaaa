/* What a delta makes of its base. */
#include <stdlib.h>

#include "proxy/codec/git_objects_internal.h"

/* A number of seven bits a byte, the lowest first. */
static bool delta_number(struct slice *in, uint64_t *out) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 56; shift += 7) {
        if (in->n == 0)
            return false;
        uint8_t c = (uint8_t)in->p[0];
        *in = slice_from(*in, 1);
        value |= (uint64_t)(c & 0x7f) << shift;
        if (!(c & 0x80)) {
            *out = value;
            return true;
        }
    }
    return false;
}

/* Offset and length of a copy: the low bits of its first byte say which bytes of them follow. */
static bool delta_copy(uint8_t bits, struct slice *in, size_t *offset, size_t *length) {
    *offset = *length = 0;
    for (unsigned i = 0; i < 7; i++) {
        if (!(bits & 1u << i))
            continue;
        if (in->n == 0)
            return false;
        size_t c = (uint8_t)in->p[0];
        *in = slice_from(*in, 1);
        if (i < 4)
            *offset |= c << 8 * i;
        else
            *length |= c << 8 * (i - 4);
    }
    if (*length == 0)
        *length = 0x10000;
    return true;
}

static bool delta_run(struct slice base, struct slice in, char *out, size_t size) {
    size_t made = 0;
    while (in.n) {
        uint8_t c = (uint8_t)in.p[0];
        size_t offset, length = c;
        in = slice_from(in, 1);
        struct slice from;
        if (c & 0x80) {
            if (!delta_copy(c, &in, &offset, &length))
                return false;
            from = slice_sub(base, offset, length);
        } else {
            from = slice_sub(in, 0, length);
            in = slice_from(in, length);
        }
        if (length == 0 || from.n != length || length > size - made)
            return false;
        memcpy(out + made, from.p, length);
        made += length;
    }
    return made == size;
}

bool git_delta_sizes(struct slice *delta, uint64_t *from, uint64_t *to) {
    return delta_number(delta, from) && delta_number(delta, to);
}

int git_delta_apply(struct slice base, struct slice delta, size_t most, char **out, size_t *size) {
    uint64_t from, to;
    if (!git_delta_sizes(&delta, &from, &to) || from != base.n)
        return ERR_PARSE;
    if (to > most)
        return ERR_LIMIT;
    char *data = malloc((size_t)to + 1);
    if (!data)
        return ERR_NOMEM;
    if (!delta_run(base, delta, data, (size_t)to)) {
        free(data);
        return ERR_PARSE;
    }
    *out = data;
    *size = (size_t)to;
    return 0;
}
