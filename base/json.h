/*
 * Writing JSON (RFC 8259) into a buffer. Commas are set by the writer; nesting is at most 16 deep.
 *
 *     struct json j;
 *     json_init(&j, buf);
 *     json_open_object(&j);
 *     json_key(&j, "id");  json_put_string(&j, id);
 *     json_close(&j);
 *
 * A string is taken as bytes: what is not well-formed UTF-8 is written as U+FFFD a byte, and control characters are
 * escaped, so the output is valid whatever came in. Failure shows in buf->failed.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/buf.h"

struct json {
    struct buf *out;
    uint32_t arrays; /* bit d: level d is an array */
    unsigned depth;
    bool comma; /* due before what comes next */
};

void json_init(struct json *j, struct buf *out);
void json_open_object(struct json *j);
void json_open_array(struct json *j);
void json_close(struct json *j); /* the innermost object or array */
/* A key of the program's own, without a character that would have to be escaped. */
void json_member(struct json *j, struct slice key);
static inline void json_key(struct json *j, const char *key) {
    json_member(j, slice_str(key));
}
void json_put_string(struct json *j, struct slice s);
/* A member whose value is a string, in one piece. */
void json_pair(struct json *j, struct slice key, struct slice value);
void json_cstring(struct json *j, const char *s);
void json_u64(struct json *j, uint64_t v);
void json_bool(struct json *j, bool v);
void json_put_null(struct json *j);

/* Whether a text that is to be read as JSON nests no deeper, and has no more values: checked before a parser makes a
 * tree of it. Text that is no JSON may pass: the parser sees that. */
bool json_bounded(struct slice text, size_t depth, size_t values);

/* Length of the well-formed UTF-8 sequence at the start of `s`, 0 if there is none. */
size_t utf8_sequence(struct slice s);

#endif
