/* Tokens of GraphQL (October 2021, "Lexical Tokens"), read without a choice: see graphql.c. */
#include "policy/graphql_lex.h"

static bool name_start(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool name_char(char c) {
    return name_start(c) || ascii_digit(c);
}

static char peek(const struct gql *r, size_t ahead) {
    return r->at + ahead < r->s.n ? r->s.p[r->at + ahead] : 0;
}

/* Over blanks and comments. False: a comment that may be read in two ways. */
static bool skip(struct gql *r) {
    while (r->at < r->s.n) {
        char c = peek(r, 0);
        if (c == '#') {
            for (; r->at < r->s.n && (c = peek(r, 0)) != '\n' && c != '\r'; r->at++)
                if ((unsigned char)c >= 0x7f || ((unsigned char)c < 0x20 && c != '\t'))
                    return false;
        } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ',') {
            r->at++;
        } else {
            return true;
        }
    }
    return true;
}

static bool block_string(struct gql *r) {
    for (r->at += 3; r->at < r->s.n; r->at++) {
        char c = peek(r, 0);
        if (c == '"') {
            bool end = peek(r, 1) == '"' && peek(r, 2) == '"' && peek(r, 3) != '"';
            r->at += 3;
            return end;
        }
        if (c == '\\' || ((unsigned char)c < 0x20 && c != '\t' && c != '\n' && c != '\r'))
            return false;
    }
    return false;
}

static bool string(struct gql *r) {
    if (peek(r, 1) == '"' && peek(r, 2) == '"')
        return block_string(r);
    for (r->at++; r->at < r->s.n; r->at++) {
        char c = peek(r, 0);
        if (c == '"') {
            r->at++;
            return true;
        }
        if ((unsigned char)c < 0x20 && c != '\t')
            return false;
        if (c != '\\')
            continue;
        r->at++;
        c = peek(r, 0);
        if (c == 'u')
            for (size_t i = 1; i <= 4; i++)
                if (ascii_hex(peek(r, i)) < 0)
                    return false;
        if (!c || !strchr("\"\\/bfnrtu", c))
            return false;
    }
    return false;
}

static size_t digits(struct gql *r) {
    size_t from = r->at;
    while (ascii_digit(peek(r, 0)))
        r->at++;
    return r->at - from;
}

static bool number(struct gql *r) {
    r->at += peek(r, 0) == '-';
    bool zero = peek(r, 0) == '0';
    size_t n = digits(r);
    bool good = n > 0 && (!zero || n == 1);
    if (peek(r, 0) == '.') {
        r->at++;
        good &= digits(r) > 0;
    }
    if (peek(r, 0) == 'e' || peek(r, 0) == 'E') {
        r->at++;
        r->at += peek(r, 0) == '+' || peek(r, 0) == '-';
        good &= digits(r) > 0;
    }
    return good && !name_start(peek(r, 0)) && peek(r, 0) != '.';
}

void gql_next(struct gql *r) {
    r->kind = GQL_BAD;
    if (!skip(r))
        return;
    size_t from = r->at;
    char c = peek(r, 0);
    if (r->at == r->s.n) {
        r->kind = GQL_END;
    } else if (name_start(c)) {
        while (name_char(peek(r, 0)))
            r->at++;
        r->kind = GQL_NAME;
    } else if (c == '.') {
        r->kind = peek(r, 1) == '.' && peek(r, 2) == '.' ? GQL_SPREAD : GQL_BAD;
        r->at += 3;
    } else if (c && strchr("!$&():=@[]{|}", c)) {
        r->kind = GQL_PUNCTUATOR;
        r->punctuator = c;
        r->at++;
    } else if (c == '"') {
        r->kind = string(r) ? GQL_VALUE : GQL_BAD;
    } else if (c == '-' || ascii_digit(c)) {
        r->kind = number(r) ? GQL_VALUE : GQL_BAD;
    }
    if (r->kind != GQL_BAD)
        r->text = slice_sub(r->s, from, r->at - from);
}

bool gql_is(const struct gql *r, char c) {
    return r->kind == GQL_PUNCTUATOR && r->punctuator == c;
}

bool gql_word(const struct gql *r, const char *word) {
    return r->kind == GQL_NAME && slice_eq(r->text, slice_str(word));
}

bool gql_name(struct gql *r, struct slice *out) {
    if (r->kind != GQL_NAME)
        return false;
    *out = r->text;
    gql_next(r);
    return true;
}
