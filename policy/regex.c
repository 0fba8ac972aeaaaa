#include "policy/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "policy/diag.h"

#define STEPS_MAX   20000 /* about a millisecond */
#define DEPTH_MAX   1000
#define HEAP_MAX    1024 /* KiB */
#define PARENS_MAX  50
#define SUBJECT_MAX 65536

struct regex {
    pcre2_code *code;
    struct slice text; /* as compiled: what came out of variables is escaped */
    bool caseless;
    struct regex_memory *memory;
    struct regex *next;
};

/* One for a policy: what matching needs. */
struct regex_memory {
    pcre2_match_context *limits;
    pcre2_match_data *data;
    struct regex *list;
};

static struct regex_memory *memory_of(struct policy *p) {
    if (p->regexes)
        return p->regexes;
    struct regex_memory *m = arena_alloc(&p->arena, sizeof *m);
    if (!m)
        return NULL;
    m->limits = pcre2_match_context_create(NULL);
    m->data = pcre2_match_data_create(1, NULL);
    p->regexes = m;
    if (!m->limits || !m->data) {
        p->arena.failed = true;
        return NULL;
    }
    pcre2_set_match_limit(m->limits, STEPS_MAX);
    pcre2_set_depth_limit(m->limits, DEPTH_MAX);
    pcre2_set_heap_limit(m->limits, HEAP_MAX);
    return m;
}

void regex_release(struct policy *p) {
    struct regex_memory *m = p->regexes;
    if (!m)
        return;
    for (struct regex *re = m->list; re; re = re->next)
        pcre2_code_free(re->code);
    pcre2_match_data_free(m->data);
    pcre2_match_context_free(m->limits);
    p->regexes = NULL;
}

static bool alnum(unsigned c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c >= 0x80;
}

/* The pattern's text; `at` tells which mark each byte came from. Bytes, or -1 if it is too long. */
static int put_pattern(const struct expanded *e, size_t from, size_t to, char *text, uint16_t *at) {
    size_t n = 0;
    for (size_t i = from; i < to; i++) {
        unsigned c = e->c[i].code & 0xff;
        if (n + 2 > REGEX_TEXT_MAX)
            return -1;
        if (e->c[i].code & MARK_LITERAL && !alnum(c)) {
            at[n] = (uint16_t)i;
            text[n++] = '\\';
        }
        at[n] = (uint16_t)i;
        text[n++] = (char)c;
    }
    return (int)n;
}

static pcre2_code *compile(const char *text, size_t n, bool caseless, int *error, PCRE2_SIZE *offset) {
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    uint32_t options = PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_DOLLAR_ENDONLY | PCRE2_DOTALL |
                       PCRE2_NEVER_UTF | PCRE2_NEVER_UCP | PCRE2_NEVER_BACKSLASH_C;
    if (!context) {
        *error = PCRE2_ERROR_NOMEMORY;
        return NULL;
    }
    pcre2_set_parens_nest_limit(context, PARENS_MAX);
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)text, n, options | (caseless ? PCRE2_CASELESS : 0), error, offset, context);
    pcre2_compile_context_free(context);
    return code;
}

bool regex_compile(struct compiler *c, const struct expanded *e, size_t from, size_t to, bool caseless,
                   const struct regex **out) {
    char text[REGEX_TEXT_MAX + 1];
    uint16_t at[REGEX_TEXT_MAX];
    char why[256];
    int error, n = put_pattern(e, from, to, text, at);
    PCRE2_SIZE offset = 0;
    if (n <= 0) {
        diag_marks(c, e, from, to > from ? to - from : 1, NULL, NULL,
                   n < 0 ? "regular expression is too long" : "regular expression is empty");
        return false;
    }
    struct regex_memory *memory = memory_of(c->p);
    struct regex *re = arena_alloc(&c->p->arena, sizeof *re);
    if (!memory || !re)
        return false;
    re->code = compile(text, (size_t)n, caseless, &error, &offset);
    if (!re->code) {
        size_t bad = offset < (size_t)n ? at[offset] : to - 1;
        if (pcre2_get_error_message(error, (PCRE2_UCHAR *)why, sizeof why) < 0)
            why[0] = 0;
        diag_marks(c, e, bad, 1, NULL, NULL, "regular expression: %s", why);
        return false;
    }
    re->text = arena_copy(&c->p->arena, slice_make(text, (size_t)n));
    re->caseless = caseless;
    re->memory = memory;
    re->next = memory->list;
    memory->list = re;
    *out = re;
    return true;
}

bool regex_same(const struct regex *a, const struct regex *b) {
    if (!a || !b)
        return a == b;
    return a->caseless == b->caseless && slice_eq(a->text, b->text);
}

enum tri regex_match(const struct regex *re, struct slice text) {
    if (text.n > SUBJECT_MAX)
        return TRI_UNKNOWN;
    int r = pcre2_match(re->code, (PCRE2_SPTR)(text.n ? text.p : ""), text.n, 0, 0, re->memory->data,
                        re->memory->limits);
    return r >= 0 ? TRI_YES : r == PCRE2_ERROR_NOMATCH ? TRI_NO : TRI_UNKNOWN;
}
