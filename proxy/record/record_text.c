/*
 * A record as JSON, as Redis fields and as a line for people. One function walks over the keys, in their
 * order; the two writers say what becomes of each.
 */
#include "proxy/record/record.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/json.h"

static const struct slice event_names[] = {SLICE("verdict"), SLICE("outcome"), SLICE("gap"), SLICE("errand")};
_Static_assert(sizeof event_names / sizeof event_names[0] == RECORD_EVENTS, "a name for each event");

/* Where the keys go. One of the two is set. */
struct writer {
    struct json *json;
    struct buf *text;
    struct record_fields *fields;
    const struct record *record;
};

static void field_end(struct writer *w, struct slice key, size_t at) {
    if (w->fields->n == RECORD_FIELDS_MAX) {
        w->text->failed = true;
        return;
    }
    w->fields->f[w->fields->n++] = (struct record_field){key.p, at, buf_len(w->text) - at};
}

static void put_text(struct writer *w, struct slice key, struct slice s) {
    if (s.n == 0)
        return;
    if (w->json) {
        json_pair(w->json, key, s);
        return;
    }
    size_t at = buf_len(w->text);
    buf_put(w->text, s);
    field_end(w, key, at);
}

static void put_number(struct writer *w, struct slice key, uint64_t v) {
    if (w->json) {
        json_member(w->json, key);
        json_u64(w->json, v);
        return;
    }
    size_t at = buf_len(w->text);
    char digits[SLICE_DECIMAL_MAX];
    buf_put(w->text, slice_decimal(v, digits));
    field_end(w, key, at);
}

static void put_time(struct writer *w, struct slice key, uint64_t ms) {
    char text[CLOCK_RFC3339_SIZE];
    clock_rfc3339(ms, text);
    put_text(w, key, slice_make(text, sizeof text - 1));
}

int record_put_options(struct buf *out, const struct slice *options, size_t n) {
    static const struct slice more = SLICE("\n\342\200\246");
    for (size_t i = 0; i < n; i++) {
        struct slice name, value;
        bool valued = slice_cut(options[i], '=', &name, &value);
        if (buf_len(out) + 1 + name.n + 2 + more.n > RECORD_TEXT_MAX) {
            buf_put(out, i ? more : slice_from(more, 1));
            break;
        }
        if (i)
            buf_putc(out, '\n');
        for (size_t k = 0; k < name.n; k++)
            buf_putc(out, name.p[k] == '\n' ? '?' : name.p[k]);
        if (valued)
            buf_puts(out, "=*");
    }
    return out->failed ? ERR_LIMIT : 0;
}

static void json_text(struct json *j, struct slice key, struct slice s) {
    if (s.n)
        json_pair(j, key, s);
}

static void json_git(struct json *j, const struct record *r) {
    json_open_object(j);
    json_text(j, SLICE("service"), r->git_service);
    json_text(j, SLICE("command"), r->git_command);
    if (r->nrefs) {
        json_key(j, "refs");
        json_open_array(j);
        for (size_t i = 0; i < r->nrefs; i++) {
            json_open_object(j);
            json_text(j, SLICE("ref"), r->refs[i].ref);
            json_text(j, SLICE("to"), r->refs[i].to);
            json_text(j, SLICE("old"), r->refs[i].old);
            json_text(j, SLICE("new"), r->refs[i].new);
            json_text(j, SLICE("op"), r->refs[i].op);
            json_text(j, SLICE("proof"), r->refs[i].proof);
            json_text(j, SLICE("outcome"), r->refs[i].outcome);
            json_close(j);
        }
        json_close(j);
    }
    if (r->refs_omitted) {
        json_key(j, "omitted");
        json_u64(j, r->refs_omitted);
    }
    if (r->options.n) {
        struct slice rest = r->options, one;
        json_key(j, "options");
        json_open_array(j);
        for (bool more = true; more;) {
            more = slice_cut(rest, '\n', &one, &rest);
            json_put_string(j, one);
        }
        json_close(j);
    }
    json_text(j, SLICE("unpack"), r->unpack);
    json_close(j);
}

static void json_lfs(struct json *j, const struct record *r) {
    json_open_object(j);
    json_text(j, SLICE("operation"), r->lfs.operation);
    if (r->lfs.batch) {
        json_key(j, "objects");
        json_u64(j, r->lfs.objects);
        json_key(j, "bytes");
        json_u64(j, r->lfs.bytes);
    }
    if (r->lfs.fields) {
        json_key(j, "fields");
        json_u64(j, r->lfs.fields);
    }
    json_close(j);
}

/* An object within the record; a field's value is its text. */
static void put_object(struct writer *w, struct slice key,
                       void (*put)(struct json *j, const struct record *r)) {
    if (w->json) {
        json_member(w->json, key);
        put(w->json, w->record);
        return;
    }
    size_t at = buf_len(w->text);
    struct json j;
    json_init(&j, w->text);
    put(&j, w->record);
    field_end(w, key, at);
}

static void put_gap(struct writer *w) {
    const struct record *r = w->record;
    put_number(w, SLICE("count"), r->count);
    put_time(w, SLICE("from"), r->from_ms);
    put_time(w, SLICE("to"), r->to_ms);
    put_text(w, SLICE("sink"), r->sink);
}

static void walk(struct writer *w) {
    const struct record *r = w->record;
    put_text(w, SLICE("event"), event_names[r->event]);
    put_text(w, SLICE("id"), slice_make(r->id.text, r->id.text[0] ? ULID_LEN : 0));
    put_time(w, SLICE("time"), r->time_ms);
    put_text(w, SLICE("sandbox"), r->sandbox);
    if (r->event == RECORD_VERDICT)
        put_text(w, SLICE("verdict"), r->denied ? SLICE("deny") : SLICE("allow"));
    put_text(w, SLICE("reason"), r->reason);
    put_text(w, SLICE("code"), r->code);
    put_text(w, SLICE("rule"), r->rule);
    put_text(w, SLICE("protocol"), r->protocol);
    put_text(w, SLICE("method"), r->method);
    put_text(w, SLICE("url"), r->url);
    if (r->git_service.n || r->nrefs)
        put_object(w, SLICE("git"), json_git);
    if (r->lfs.batch || r->lfs.fields)
        put_object(w, SLICE("lfs"), json_lfs);
    put_text(w, SLICE("credential"), r->credential);
    put_text(w, SLICE("upstream"), r->upstream);
    put_text(w, SLICE("upstream_protocol"), r->upstream_protocol);
    if (r->has & RECORD_HAS_STATUS)
        put_number(w, SLICE("status"), r->status);
    if (r->has & RECORD_HAS_SENT)
        put_number(w, SLICE("sent"), r->sent);
    if (r->has & RECORD_HAS_RECEIVED)
        put_number(w, SLICE("received"), r->received);
    if (r->has & RECORD_HAS_DURATION)
        put_number(w, SLICE("duration_ms"), r->duration_ms);
    if (r->event == RECORD_GAP)
        put_gap(w);
}

int record_json(const struct record *r, struct buf *out) {
    struct json j;
    json_init(&j, out);
    struct writer w = {.json = &j, .record = r};
    json_open_object(&j);
    walk(&w);
    json_close(&j);
    buf_putc(out, '\n');
    return out->failed ? ERR_LIMIT : 0;
}

int record_fields(const struct record *r, struct buf *text, struct record_fields *fields) {
    fields->n = 0;
    struct writer w = {.text = text, .fields = fields, .record = r};
    walk(&w);
    return text->failed ? ERR_LIMIT : 0;
}

/* --- for people --------------------------------------------------------------------------------------- */

/* Characters that a terminal acts on, or that reorder or hide what is around them. */
static bool terminal_safe(uint32_t c) {
    if (c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad)
        return false;
    return !((c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) ||
             c == 0xfeff || c == 0x061c || (c >= 0xe0000 && c <= 0xe007f));
}

static uint32_t utf8_value(const unsigned char *p, size_t n) {
    if (n == 1)
        return p[0];
    uint32_t c = p[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++)
        c = c << 6 | (p[i] & 0x3fu);
    return c;
}

void record_put_safe(struct buf *out, struct slice s) {
    for (size_t i = 0; i < s.n;) {
        size_t n = utf8_sequence(slice_from(s, i));
        if (n && terminal_safe(utf8_value((const unsigned char *)s.p + i, n))) {
            buf_put(out, slice_sub(s, i, n));
            i += n;
            continue;
        }
        for (size_t end = i + (n ? n : 1); i < end; i++)
            buf_printf(out, "\\x%02x", (unsigned char)s.p[i]);
    }
}

#define LINE_REFS 3

static void line_refs(const struct record *r, struct buf *out) {
    for (size_t i = 0; i < r->nrefs && i < LINE_REFS; i++) {
        bool known = !slice_eq(r->refs[i].ref, SLICE(RECORD_REF_UNKNOWN));
        buf_putc(out, ' ');
        record_put_safe(out, known ? r->refs[i].ref : SLICE("(a ref that is not known)"));
    }
    uint64_t more = r->refs_omitted + (r->nrefs > LINE_REFS ? r->nrefs - LINE_REFS : 0);
    if (more)
        buf_printf(out, " (and %" PRIu64 " more)", more);
}

static struct slice line_action(const struct record *r) {
    if (slice_eq(r->git_service, SLICE("git-receive-pack")))
        return SLICE("push");
    if (r->git_service.n)
        return SLICE("fetch");
    return r->method.n ? r->method : SLICE("connection");
}

static void line_gap(const struct record *r, struct buf *out) {
    char from[CLOCK_RFC3339_SIZE], to[CLOCK_RFC3339_SIZE];
    clock_rfc3339(r->from_ms, from);
    clock_rfc3339(r->to_ms, to);
    const char *place = slice_eq(r->sink, SLICE("redis"))  ? "in Redis"
                        : slice_eq(r->sink, SLICE("file")) ? "in the log file"
                                                           : "everywhere";
    buf_printf(out, "exeat: %" PRIu64 " %s missing %s, %s to %s\n", r->count,
               r->count == 1 ? "record is" : "records are", place, from, to);
}

int record_line(const struct record *r, unsigned style, struct buf *out) {
    if (r->event == RECORD_GAP) {
        line_gap(r, out);
        return out->failed ? ERR_LIMIT : 0;
    }
    const char *word = r->event == RECORD_OUTCOME  ? "answered"
                       : r->event == RECORD_ERRAND ? "asked"
                       : r->denied                 ? "denied"
                                                   : "allowed";
    bool colour = style & RECORD_COLOUR;
    buf_puts(out, "exeat: ");
    if (style & RECORD_SANDBOX && r->sandbox.n) {
        record_put_safe(out, r->sandbox);
        buf_puts(out, ": ");
    }
    if (colour)
        buf_puts(out, r->denied ? "\033[31m" : "\033[32m");
    buf_puts(out, word);
    if (colour)
        buf_puts(out, "\033[0m");
    buf_putc(out, ' ');
    record_put_safe(out, line_action(r));
    if (r->url.n) {
        buf_putc(out, ' ');
        record_put_safe(out, r->url);
    }
    line_refs(r, out);
    bool by_rule =
        r->event == RECORD_VERDICT && !r->denied && r->rule.n; /* then the reason says nothing more */
    if (by_rule || r->reason.n) {
        buf_puts(out, " (");
        record_put_safe(out, by_rule ? r->rule : r->reason);
        if (by_rule && r->credential.n) {
            buf_puts(out, ", with ");
            record_put_safe(out, r->credential);
        }
        buf_putc(out, ')');
    }
    if (r->id.text[0])
        buf_printf(out, " [%s]", r->id.text);
    buf_putc(out, '\n');
    return out->failed ? ERR_LIMIT : 0;
}

int record_notice(const struct record *r, struct buf *out) {
    buf_puts(out, "exeat: no answer: ");
    record_put_safe(out, r->reason);
    buf_printf(out, " [%s]\n", r->id.text);
    return out->failed ? ERR_LIMIT : 0;
}

bool record_shown(const struct record *r, int loudness) {
    if (loudness <= 0 || r->event == RECORD_OUTCOME)
        return false;
    return loudness > 1 || r->event == RECORD_GAP || r->denied;
}
