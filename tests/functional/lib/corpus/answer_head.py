"""Heads of answers: status lines (RFC 9112, 4), fields (5), interim answers (RFC 9110, 15.2), the connection's own
fields (7.6.1)."""
from corpus import answer, bad, in_chunks, passed, spoilt

OK = answer("Content-Length: 2", body="ok")
LONG_HINTS = "HTTP/1.1 103 Early Hints\r\nLink: %s\r\n\r\n" % ("x" * 3000)
EVIL = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"


def status(name, line, rule="9112 4", why="malformed status line"):
    return bad("status line: " + name, rule, line + "\r\nContent-Length: 2\r\n\r\nok", why)


def version(name, text):
    """Of a version that is none of ours: refused by the line's first bytes or by the whole of it."""
    return bad("version: " + name, "9112 2.3", text + " 200 OK\r\nContent-Length: 2\r\n\r\nok", "")


def named(name, line):
    return passed("status: " + name, "9110 15", answer("Content-Length: 2", body="ok", status=line))


def field(name, text, sent=None):
    return passed("field: " + name, "9110 5.5", answer(text, "Content-Length: 2", body="ok"),
                  answer(text if sent is None else sent, "Content-Length: 2", body="ok"))


def field_bad(name, text, why="", rule="9112 5"):
    return bad("field: " + name, rule, answer(text, "Content-Length: 2", body="ok"), why)


def removed(name, *fields, rule="9110 7.6.1", reused=True):
    return passed("removed: " + name, rule, answer(*fields, "Content-Length: 2", body="ok"), OK, reused=reused)


LINES = [
    passed("the plain answer", "9112 4", OK),
    passed("no reason, but its space", "9112 4", "HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok"),
    passed("no reason and no space", "9112 4", "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok"),
    passed("a reason of several words", "9112 4", answer("Content-Length: 2", body="ok", status="200 All is well")),
    passed("a reason in Latin-1", "9112 4", answer("Content-Length: 2", body="ok", status="200 Tr\xe8s bien")),
    passed("a reason that looks like a status line", "9112 4", answer("Content-Length: 2", body="ok", status="200 HTTP/1.1 500 No")),
    named("201", "201 Created"),
    named("226", "226 IM Used"),
    named("299, which nobody knows", "299 Odd"),
    named("301", "301 Moved"),
    named("404", "404 Not Found"),
    named("418", "418 Teapot"),
    named("500", "500 Oops"),
    named("599", "599 Odd"),
    named("999, of no class, which clients take for a 5xx", "999 Request denied"),
    status("two spaces behind the version", "HTTP/1.1  200 OK"),
    status("a tab behind the version", "HTTP/1.1\t200 OK"),
    status("a tab behind the status", "HTTP/1.1 200\tOK"),
    status("no status", "HTTP/1.1"),
    status("a space and no status", "HTTP/1.1 "),
    status("a status of two digits", "HTTP/1.1 20 OK"),
    status("a status of one digit", "HTTP/1.1 2 OK"),
    status("a status of four digits", "HTTP/1.1 2000 OK"),
    status("a status below 100", "HTTP/1.1 099 OK"),
    status("status 000", "HTTP/1.1 000 OK"),
    status("a status with a sign", "HTTP/1.1 +20 OK"),
    status("a negative status", "HTTP/1.1 -20 OK"),
    status("a status in hexadecimal", "HTTP/1.1 0xC8 OK"),
    status("a status in letters", "HTTP/1.1 two OK"),
    status("a status with a fraction", "HTTP/1.1 200.1 OK"),
    status("a status and a comma", "HTTP/1.1 200, OK"),
    status("a space in front", " HTTP/1.1 200 OK"),
    status("an empty line in front", "\r\nHTTP/1.1 200 OK"),
    status("a byte order mark in front", "\xef\xbb\xbfHTTP/1.1 200 OK"),
    status("the protocol in lower case", "http/1.1 200 OK"),
    status("the protocol of another", "ICY 200 OK"),
    status("a request", "GET /ok HTTP/1.1"),
    status("HTTP/0.9: no status line at all", "<html>hello</html>"),
    status("a NUL in the reason", "HTTP/1.1 200 O\0K", why="control character"),
    status("a control character in the reason", "HTTP/1.1 200 O\x01K", why="control character"),
    status("DEL in the reason", "HTTP/1.1 200 O\x7fK", why="control character"),
    status("a bare CR in the reason", "HTTP/1.1 200 O\rK", "9112 2.2", "bare CR or LF"),
    bad("status line: ends in a bare LF", "9112 2.2", "HTTP/1.1 200 OK\nContent-Length: 2\r\n\r\nok", "bare CR or LF"),
    bad("status line: all lines end in bare LF", "9112 2.2", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", "bare CR or LF"),
    bad("status line: of more than 64 KiB", "design", "HTTP/1.1 200 " + "x" * 70000 + "\r\nContent-Length: 2\r\n\r\nok", "too long"),
    version("HTTP/0.9", "HTTP/0.9"),
    version("HTTP/1.2", "HTTP/1.2"),
    version("HTTP/1.10", "HTTP/1.10"),
    version("HTTP/1.", "HTTP/1."),
    version("HTTP/1", "HTTP/1"),
    version("HTTP/2.0", "HTTP/2.0"),
    version("HTTP/2", "HTTP/2"),
    version("HTTP/11", "HTTP/11"),
    passed("HTTP/1.0 with a length, kept alive", "9112 9.3", answer("Connection: keep-alive", "Content-Length: 2", body="ok", version="HTTP/1.0"), OK),
    spoilt("HTTP/1.0 with a length", "9112 9.3", answer("Content-Length: 2", body="ok", version="HTTP/1.0"), OK),
    passed("HTTP/1.0 without a length", "9112 6.3", answer(body="ok", version="HTTP/1.0"), in_chunks("2\r\nok\r\n0\r\n\r\n"), end="fin"),
    bad("the preface of HTTP/2 without having been asked for", "9113 3.4", "\0\0\0\x04\0\0\0\0\0", "malformed"),
    bad("nothing at all", "9112 8", "", "without an answer", end="fin"),
    bad("nothing at all, and a reset", "9112 8", "", "without an answer", end="rst"),
    bad("half a status line", "9112 8", "HTTP/1.1 20", "without an answer", end="fin"),
    bad("half a head", "9112 8", "HTTP/1.1 200 OK\r\nContent-Le", "without an answer", end="fin"),
    bad("a head without its empty line", "9112 8", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n", "without an answer", end="abrupt"),
]

FIELDS = [
    field("spaces around a value", "X-One:   1  ", "X-One: 1"),
    field("no space", "X-One:1", "X-One: 1"),
    field("an empty value", "X-One:", "X-One: "),
    field("Latin-1 in a value", "X-One: caf\xe9"),
    field("a hundred cookies", "\r\n".join("Set-Cookie: c%d=%d" % (i, i) for i in range(100))),
    field("a cookie with a comma and a date", "Set-Cookie: a=b; Expires=Wed, 21 Oct 2026 07:28:00 GMT"),
    field("126 fields", "\r\n".join("X-%d: 1" % i for i in range(126))),
    field("of 60 KiB", "X-One: " + "x" * 61440),
    field("x_one, with an underscore", "x_one: 1"),
    field("Content_Type, which means nothing in an answer", "Content_Type: text/plain"),
    field("Content-Type twice", "Content-Type: text/plain\r\nContent-Type: text/html"),
    field("Content-Encoding: gzip", "Content-Encoding: gzip"),
    field("Content-Encoding twice", "Content-Encoding: gzip\r\nContent-Encoding: br"),
    field("Content-Encoding of an unknown name", "Content-Encoding: frobnicate, identity"),
    field("Host in an answer", "Host: b.test"),
    field("Via and Age", "Via: 1.1 x\r\nAge: 5"),
    field("Location elsewhere", "Location: https://b.test/"),
    field("X-HTTP-Method-Override in an answer", "X-HTTP-Method-Override: DELETE"),
    field_bad("folded", "X-One: a\r\n b", "folded"),
    field_bad("folded with a tab", "X-One: a\r\n\tb", "folded"),
    field_bad("the first folded", " X-One: a", "folded"),
    field_bad("a space before the colon", "X-One : 1", "space before"),
    field_bad("a tab before the colon", "X-One\t: 1", "space before"),
    field_bad("a length with a space before the colon", "Content-Length : 4", "space before"),
    field_bad("an empty name", ": 1", "field name"),
    field_bad("no colon", "X-One", "field name"),
    field_bad("a space in the name", "X One: 1", "field name"),
    field_bad("a name beyond ASCII", "X-\xe9: 1", "field name"),
    field_bad("a NUL in the name", "X\0One: 1", "control character"),
    field_bad("a pseudo-field of HTTP/2", ":status: 200", "field name"),
    field_bad("a NUL in the value", "X-One: a\0b", "control character", "9110 5.5"),
    field_bad("a control character in the value", "X-One: a\x07b", "control character", "9110 5.5"),
    field_bad("DEL in the value", "X-One: a\x7fb", "control character", "9110 5.5"),
    field_bad("a bare CR in the value", "X-One: a\rb", "bare CR or LF", "9112 2.2"),
    field_bad("a bare CR and a field", "X-One: a\rSet-Cookie: evil=1", "bare CR or LF", "9112 2.2"),
    field_bad("a bare LF and a field", "X-One: a\nSet-Cookie: evil=1", "bare CR or LF", "9112 2.2"),
    field_bad("an answer behind a bare LF", "X-One: a\n\n" + EVIL, "bare CR or LF", "9112 2.2"),
    field_bad("129 fields", "\r\n".join("X-%d: 1" % i for i in range(128)), "too many header fields", "design"),
    field_bad("1000 cookies", "\r\n".join("Set-Cookie: c%d=%d" % (i, i) for i in range(1000)), "too many header fields", "design"),
    field_bad("of 70 KB", "X-One: " + "x" * 70000, "too long", "design"),
    field_bad("content_length", "content_length: 4", "take for another", "two readings"),
    field_bad("transfer_encoding", "transfer_encoding: chunked", "take for another", "two readings"),
]

REMOVED = [
    removed("Alt-Svc", 'Alt-Svc: h3=":443"; ma=86400', rule="design"),
    removed("Alt-Svc in lower case, twice", 'alt-svc: h2="b.test:443"', "alt-svc: clear", rule="design"),
    removed("Keep-Alive", "Keep-Alive: timeout=5, max=100", "Connection: keep-alive"),
    removed("a field that Connection names", "X-Hop: 1", "Connection: x-hop"),
    removed("a field that Connection names before it", "Connection: x-hop", "X-Hop: 1", "x-hop: 2"),
    removed("Proxy-Connection", "Proxy-Connection: keep-alive"),
    removed("Proxy-Authenticate", "Proxy-Authenticate: Basic realm=x"),
    removed("Proxy-Authentication-Info", "Proxy-Authentication-Info: x"),
    removed("Upgrade", "Upgrade: h2c, h3", "Connection: Upgrade"),
    removed("TE", "TE: trailers"),
    removed("Trailer, where none can come", "Trailer: X-Sum", rule="9110 6.6.2"),
    removed("Connection: close", "Connection: close", reused=False),
    removed("Connection: close among others", "Connection: keep-alive, close", reused=False),
    removed("Connection: close, twice the field", "Connection: x", "Connection: CLOSE", reused=False),
    bad("removed: Connection with what is no token", "9110 7.6.1", answer("Connection: a b", "Content-Length: 2", body="ok"), "Connection"),
    passed("Connection names Set-Cookie", "9110 7.6.1", answer("Connection: Set-Cookie", "Set-Cookie: a=b", "Content-Length: 2", body="ok"),
           answer("Set-Cookie: a=b", "Content-Length: 2", body="ok")),
    passed("Connection names Content-Length", "9110 7.6.1", answer("Connection: Content-Length", "Content-Length: 2", body="ok"), OK),
]

INTERIM = [
    passed("100 without having been asked for", "9110 15.2.1", "HTTP/1.1 100 Continue\r\n\r\n" + OK),
    passed("103 with a field", "8297 2", "HTTP/1.1 103 Early Hints\r\nLink: </s>\r\n\r\n" + OK),
    passed("102 twice", "9110 15.2", "HTTP/1.1 102 Processing\r\n\r\n" * 2 + OK),
    passed("199, which nobody knows", "9110 15.2", "HTTP/1.1 199 Odd\r\n\r\n" + OK),
    passed("32 interim answers", "design", "HTTP/1.1 103 Early Hints\r\n\r\n" * 32 + OK),
    passed("interim answers of nearly 64 KiB", "design", LONG_HINTS * 21 + OK),
    bad("interim answers of more than 64 KiB", "design", LONG_HINTS * 22 + OK, "too many interim answers (1xx), or too long ones"),
    bad("33 interim answers", "design", "HTTP/1.1 103 Early Hints\r\n\r\n" * 33 + OK, "too many interim answers"),
    passed("103 with Alt-Svc", "design", 'HTTP/1.1 103 Early Hints\r\nAlt-Svc: h3=":443"\r\n\r\n' + OK, "HTTP/1.1 103 Early Hints\r\n\r\n" + OK),
    passed("103 with the connection's own", "9110 7.6.1",
           "HTTP/1.1 103 Early Hints\r\nConnection: x\r\nX: 1\r\nKeep-Alive: timeout=1\r\n\r\n" + OK, "HTTP/1.1 103 Early Hints\r\n\r\n" + OK),
    bad("101 without having been asked for", "9110 15.2.2", "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "without having been asked"),
    bad("101 to HTTP/2", "9110 15.2.2", "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", "without having been asked",
        fields="Connection: Upgrade\r\nUpgrade: h2c\r\n"),
    bad("101 without Upgrade", "9110 15.2.2", "HTTP/1.1 101 Switching\r\n\r\n", "without having been asked"),
    bad("interim answers and the end", "9112 8", "HTTP/1.1 103 Early Hints\r\n\r\n", "without an answer", end="fin"),
]

ROWS = LINES + FIELDS + REMOVED + INTERIM
