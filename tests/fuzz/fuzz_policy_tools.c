/*
 * Fuzz harness for the tools on policies: the seed is a policy. To format twice is to format once, what was formatted is
 * the same policy, nothing differs from itself, and checking comes to an end.
 */
#include <stdlib.h>

#include "policy/tools.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth) {
    if (!truth)
        abort();
}

static int read_memory(void *arg, const char *from, const char *name, struct buf *resolved, struct buf *text,
                       struct errmsg *msg) {
    if (from)
        return errmsg_set(msg, ERR_NOTFOUND, "no such file");
    buf_puts(resolved, name);
    return buf_put(text, *(const struct slice *)arg);
}

static struct policy *load(struct slice text) {
    static const char *const files[] = {"self"};
    struct policy_input in = {.files = files, .nfiles = 1, .read = read_memory, .arg = &text};
    struct policy_diags diags;
    struct policy *p;
    policy_diags_init(&diags);
    policy_load(&in, &p, &diags);
    policy_diags_release(&diags);
    return p;
}

static int format(struct slice text, struct buf *out) {
    struct policy_diags diags;
    policy_diags_init(&diags);
    buf_init(out, 4 << 20);
    int r = policy_format_text("self", text, out, &diags);
    must((r == ERR_PARSE) == (diags.n > 0));
    policy_diags_release(&diags);
    return r;
}

static void compare(const struct policy *p, const struct policy *q, enum policy_format how) {
    struct buf out;
    size_t findings, unsure;
    buf_init(&out, 8 << 20);
    struct policy_print print = {.format = how, .out = &out};
    must(policy_diff(p, q, &print, &findings, &unsure) == 0 && findings == 0);
    buf_clear(&out);
    must(policy_check(p, NULL, NULL, &print, &findings) == 0);
    buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct slice text = slice_make(data, size);
    struct buf once, twice;
    if (size > 512) /* what the tools look through grows with the square */
        return 0;
    int r = format(text, &once);
    if (r == 0) {
        must(format(buf_slice(&once), &twice) == 0);
        must(slice_eq(buf_slice(&once), buf_slice(&twice)));
        buf_release(&twice);
        struct policy *p = load(text), *q = load(buf_slice(&once));
        must((p != NULL) == (q != NULL));
        if (p) {
            compare(p, q, POLICY_TEXT);
            compare(p, q, POLICY_JSON);
        }
        policy_free(p);
        policy_free(q);
    }
    buf_release(&once);
    return 0;
}
