#include "base/lines.h"

struct lines_skip lines_skip_blanks(struct slice rest) {
    struct lines_skip s = {0, 0, NULL};
    for (;;) {
        int c = lines_peek(rest, s.n);
        if (lines_blank(c)) {
            s.n++;
        } else if (c == '\\' && lines_break(rest, s.n + 1)) {
            s.n += 1 + lines_break(rest, s.n + 1);
            s.joined++;
        } else if (c == '\\' && lines_blank(lines_peek(rest, s.n + 1))) {
            size_t end = s.n + 1;
            while (lines_blank(lines_peek(rest, end)))
                end++;
            if (!lines_break(rest, end))
                return s;
            if (!s.bad)
                s.bad = rest.p + s.n;
            s.n = end + lines_break(rest, end);
            s.joined++;
        } else if (c == '#') {
            while (lines_peek(rest, s.n) >= 0 && !lines_break(rest, s.n))
                s.n++;
            return s;
        } else {
            return s;
        }
    }
}

unsigned lines_characters(const char *from, const char *to) {
    unsigned n = 0;
    for (; from < to; from++)
        n += ((unsigned char)*from & 0xc0) != 0x80;
    return n;
}
