/* How a secret is sent: the lines "inject" and "remove". */
#include "vault/parse.h"

/* A token of RFC 9110. */
static bool good_field(struct slice s) {
    for (size_t i = 0; i < s.n; i++)
        if (!vault_parse_name_char(s.p[i]) && (s.p[i] == 0 || !strchr("!#$%&'*+^`|~", s.p[i])))
            return false;
    return s.n > 0 && s.n <= 128;
}

/* Fields that say how a message is framed or where it goes: no secret belongs there, and exeat writes them
 * itself. */
static bool framing_field(struct slice s) {
    static const char *const names[] = {"host",
                                        "content-length",
                                        "transfer-encoding",
                                        "connection",
                                        "keep-alive",
                                        "upgrade",
                                        "te",
                                        "trailer",
                                        "expect",
                                        "content-encoding",
                                        "date",
                                        "via",
                                        "content-type",
                                        "range"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (slice_caseeq(s, slice_str(names[i])))
            return true;
    return false;
}

/* --- inject --------------------------------------------------------------------------------------------- */

#define FORMS_EXPECTED "bearer, basic USER, or header NAME [prefix TEXT]"

static bool form_basic(struct parser *p, struct form *f, size_t *i) {
    if (*i == p->line.n || word_is(&p->line.words[*i], "for")) {
        vault_diag_at(&p->d, p->line.words[*i - 1].place, "basic USER", NULL,
                      "the user's name is missing behind 'basic'");
        return false;
    }
    const struct word *w = &p->line.words[(*i)++];
    for (size_t k = 0; k < w->text.n; k++)
        if (w->text.p[k] == ':' || (unsigned char)w->text.p[k] < 0x20 || w->text.p[k] == 0x7f) {
            vault_diag_at(&p->d, w->place, NULL, NULL,
                          "a user's name can hold no colon and no control character");
            return false;
        }
    f->kind = FORM_BASIC;
    f->header = vault_parse_keep(p, SLICE("Authorization"));
    f->before = vault_parse_keep(p, SLICE("Basic "));
    f->user = vault_parse_keep(p, w->text);
    return true;
}

static bool form_header(struct parser *p, struct form *f, size_t *i) {
    struct slice before = SLICE("");
    if (*i == p->line.n) {
        vault_diag_at(&p->d, p->line.end, "header NAME [prefix TEXT]", NULL,
                      "nothing stands behind 'header'");
        return false;
    }
    const struct word *w = &p->line.words[(*i)++];
    if (!good_field(w->text)) {
        vault_diag_at(&p->d, w->place, "a field's name, such as X-Api-Key", NULL,
                      "no name of a header field");
        return false;
    }
    if (framing_field(w->text)) {
        vault_diag_at(&p->d, w->place, "a field's name, such as X-Api-Key", NULL,
                      "no secret can be sent in this field");
        return false;
    }
    if (*i < p->line.n && word_is(&p->line.words[*i], "prefix")) {
        if (++*i == p->line.n) {
            vault_diag_at(&p->d, p->line.end, "prefix TEXT",
                          "quote it if it ends in a blank: prefix \"Token \"",
                          "nothing stands behind 'prefix'");
            return false;
        }
        before = p->line.words[(*i)++].text;
        for (size_t k = 0; k < before.n; k++)
            if ((unsigned char)before.p[k] < 0x20 || (unsigned char)before.p[k] > 0x7e) {
                vault_diag_at(&p->d, p->line.words[*i - 1].place, NULL, NULL,
                              "a character that a header can't carry");
                return false;
            }
    }
    f->kind = FORM_HEADER;
    f->header = vault_parse_keep(p, w->text);
    f->before = vault_parse_keep(p, before);
    return true;
}

static bool form_bearer(struct parser *p, struct form *f, size_t *i) {
    (void)i;
    f->kind = FORM_BEARER;
    f->header = vault_parse_keep(p, SLICE("Authorization"));
    f->before = vault_parse_keep(p, SLICE("Bearer "));
    return true;
}

static const struct form_row {
    const char *word;
    bool (*read)(struct parser *p, struct form *f, size_t *i); /* NULL: not yet */
} form_rows[] = {
    {"bearer", form_bearer}, {"basic", form_basic}, {"header", form_header},
    {"query", NULL},         {"placeholder", NULL}, {"sigv4", NULL},
};

static bool read_form(struct parser *p, struct form *f, size_t *i) {
    if (p->line.n < 2) {
        vault_diag_at(&p->d, p->line.end, FORMS_EXPECTED, NULL, "nothing stands behind 'inject'");
        return false;
    }
    const struct word *w = &p->line.words[1];
    *i = 2;
    for (size_t k = 0; k < sizeof form_rows / sizeof *form_rows; k++) {
        if (!word_is(w, form_rows[k].word))
            continue;
        if (form_rows[k].read)
            return form_rows[k].read(p, f, i);
        vault_diag_at(&p->d, w->place, FORMS_EXPECTED, NULL,
                      "the form '%s' does not work yet in this version", form_rows[k].word);
        return false;
    }
    vault_diag_at(&p->d, w->place, FORMS_EXPECTED, NULL, "unknown form '%.*s'", SLICE_ARG(w->text));
    return false;
}

void vault_parse_inject(struct parser *p) {
    struct credential *c = p->current;
    if (c->nforms == FORMS_MAX) {
        vault_diag_at(&p->d, p->line.words[0].place, NULL, NULL, "more than %d forms", FORMS_MAX);
        return;
    }
    struct form *f = vault_parse_grow(p, &c->forms, &c->nforms, sizeof *f);
    size_t i = 0;
    if (!f)
        return;
    f->place = p->line.words[0].place;
    if (!read_form(p, f, &i) || i == p->line.n)
        return;
    if (word_is(&p->line.words[i], "for"))
        vault_parse_scopes(p, i + 1, &f->scopes, &f->nscopes);
    else
        vault_diag_at(&p->d, p->line.words[i].place, "for ORIGIN..., or the end of the line", NULL,
                      "unexpected word '%.*s'", SLICE_ARG(p->line.words[i].text));
}

/* --- remove --------------------------------------------------------------------------------------------- */

void vault_parse_remove(struct parser *p) {
    if (p->line.n < 2)
        vault_diag_at(&p->d, p->line.end, "one field or more, such as Cookie", NULL,
                      "nothing stands behind 'remove'");
    for (size_t i = 1; i < p->line.n; i++) {
        const struct word *w = &p->line.words[i];
        if (!good_field(w->text) || framing_field(w->text)) {
            vault_diag_at(&p->d, w->place, "a field's name, such as Cookie", NULL,
                          "no field that could be taken off");
            continue;
        }
        char **one = vault_parse_grow(p, &p->current->removes, &p->current->nremoves, sizeof *one);
        if (one)
            *one = vault_parse_keep(p, w->text);
    }
}
