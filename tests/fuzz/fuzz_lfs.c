/*
 * Fuzz harness for Git LFS's batch: the same bytes as a request, as an answer, and as a time. No field's value that the
 * caller was shown may be in what the sandbox sees, unless it is there under another name as well; what is written is
 * read again, and then nothing changes any more.
 */
#include <stdlib.h>

#include "proxy/codec/lfs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth) {
    if (!truth)
        abort();
}

struct seen {
    size_t actions, fields;
};

static bool look(void *arg, const struct lfs_action *a, char *why) {
    struct seen *s = arg;
    must(a->method.n && a->nfields <= LFS_FIELDS_MAX);
    s->actions++;
    for (size_t i = 0; i < a->nfields; i++) {
        must(http_is_token(a->fields[i].name) && http_is_value(a->fields[i].value));
        must(a->fields[i].id != HTTP_F_HOST && a->fields[i].id != HTTP_F_CONTENT_LENGTH &&
             a->fields[i].id != HTTP_F_TRANSFER_ENCODING);
        for (size_t k = 0; k < i; k++)
            must(!http_name_alike(a->fields[i].name, a->fields[k].name));
        s->fields++;
    }
    memcpy(why, "no", 3);
    return !(a->href.n && a->href.p[a->href.n - 1] == '!');
}

/* Of a text that was rewritten: every field's value is the stand-in. */
static bool only_stand_ins(void *arg, const struct lfs_action *a, char *why) {
    struct seen *s = arg;
    (void)why;
    s->actions++;
    for (size_t i = 0; i < a->nfields; i++, s->fields++)
        must(slice_eq(a->fields[i].value, SLICE(LFS_STAND_IN)));
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct slice text = slice_make(data, size);
    struct seen first = {0}, second = {0};
    struct lfs_batch batch;
    struct errmsg msg = {""};
    struct buf out, again;
    int64_t seconds;
    size_t refused;
    lfs_prepare();
    if (lfs_time(text, &seconds))
        must(seconds > -86400 && seconds < 253402400000);
    (void)lfs_read(text, &batch);
    buf_init(&out, LFS_ANSWER_MAX);
    buf_init(&again, LFS_ANSWER_MAX);
    if (lfs_rewrite(text, look, &first, &out, &refused, &msg) == 0) {
        size_t none;
        must(lfs_rewrite(buf_slice(&out), only_stand_ins, &second, &again, &none, &msg) == 0);
        must(none == 0 && second.actions <= first.actions && second.fields <= first.fields);
        must(slice_eq(buf_slice(&out), buf_slice(&again)));
    } else {
        must(msg.text[0] != 0);
    }
    buf_release(&out);
    buf_release(&again);
    return 0;
}
