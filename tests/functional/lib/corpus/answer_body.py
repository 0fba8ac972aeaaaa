"""Bodies of answers: their framing (RFC 9112, 6.3), answers that have none, the chunked coding (7.1), what comes behind
an answer, and ends of every kind (8)."""
from corpus import LATER, answer, bad, in_chunks, passed, spoilt, truncated

OK = answer("Content-Length: 2", body="ok")
EVIL = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
END = "0\r\n\r\n"
GOOD = in_chunks("5\r\nhello\r\n" + END)


def length(name, *values, why="malformed Content-Length"):
    return bad("length: " + name, "9110 8.6", answer(*["Content-Length:" + v for v in values], body="hello"), why)


def coding(name, *values, why="other than chunked"):
    return bad("coding: " + name, "9112 6.1", answer(*["Transfer-Encoding:" + v for v in values], body="5\r\nhello\r\n" + END), why)


def both(name, *fields, why="beside"):
    return bad("both: " + name, "9112 6.3", answer(*fields, body=END + EVIL), why)


def sized(name, body, rule="9112 7.1"):
    return passed("chunks: " + name, rule, in_chunks(body), GOOD)


def chunk(name, body, content="", rule="9112 7.1"):
    """The head has gone on, and so may what content is good."""
    return truncated("chunks: " + name, rule, in_chunks(body), in_chunks(("%X\r\n%s\r\n" % (len(content), content)) if content else ""))


def trailed(name, text, sent=""):
    return passed("trailer: " + name, "9110 6.5.1", in_chunks("5\r\nhello\r\n0\r\n" + text + "\r\n"),
                  in_chunks("5\r\nhello\r\n0\r\n" + sent + "\r\n"))


LENGTHS = [
    passed("length: 0", "9110 8.6", answer("Content-Length: 0")),
    passed("length: leading zeros", "9110 8.6", answer("Content-Length: 002", body="ok"), OK),
    passed("length: spaces around it", "9112 5", answer("Content-Length:  2  ", body="ok"), OK),
    length("empty", ""),
    length("a plus sign", " +5"),
    length("a minus sign", " -5"),
    length("hexadecimal", " 0x5"),
    length("a space within", " 5 5"),
    length("a list", " 5, 5"),
    length("a list of different ones", " 5, 6"),
    length("a fraction", " 5.0"),
    length("a word", " five"),
    length("2^63", " 9223372036854775808"),
    length("2^64 and 5", " 18446744073709551621"),
    length("twenty zeros", " " + "0" * 20 + "5"),
    length("twice, equal", " 5", " 5", why="more than one Content-Length"),
    length("twice, different", " 5", " 6", why="more than one Content-Length"),
    length("twice, the second zero", " 5", " 0", why="more than one Content-Length"),
    coding("empty", ""),
    coding("identity", " identity"),
    coding("gzip", " gzip"),
    coding("gzip and chunked", " gzip, chunked"),
    coding("chunked and gzip", " chunked, gzip"),
    coding("chunked and identity", " chunked, identity"),
    coding("chunked twice in a list", " chunked, chunked"),
    coding("chunked, twice the field", " chunked", " chunked"),
    coding("chunked and identity, twice the field", " chunked", " identity"),
    coding("xchunked", " xchunked"),
    coding("a comma behind it", " chunked,"),
    coding("a parameter", " chunked;q=1"),
    coding("in quotes", ' "chunked"'),
    coding("a vertical tab before it", " \x0bchunked", why="control character"),
    coding("a bare CR behind it", " chunked\r", why="bare CR or LF"),
    coding("folded", "\r\n chunked", why="folded"),
    bad("coding: in HTTP/1.0", "9112 6.1", answer("Transfer-Encoding: chunked", body=END, version="HTTP/1.0"), "in HTTP/1.0"),
    both("length, then chunked", "Content-Length: 5", "Transfer-Encoding: chunked"),
    both("chunked, then length", "Transfer-Encoding: chunked", "Content-Length: 5"),
    both("length 0 and chunked", "Content-Length: 0", "Transfer-Encoding: chunked"),
    both("length and identity", "Content-Length: 5", "Transfer-Encoding: identity"),
    both("a length that is none and chunked", "Content-Length: x", "Transfer-Encoding: chunked", why="malformed Content-Length"),
]

NONE = [
    passed("HEAD with a length", "9110 9.3.2", answer("Content-Length: 1234"), method="HEAD"),
    passed("HEAD in chunks", "9110 9.3.2", answer("Transfer-Encoding: chunked"), method="HEAD"),
    passed("HEAD without a length", "9110 9.3.2", answer("X-One: 1"), method="HEAD"),
    spoilt("HEAD with a body all the same", "9112 6.3", OK, answer("Content-Length: 2"), method="HEAD"),
    spoilt("HEAD with an answer for a body", "9112 6.3", answer("Content-Length: %d" % len(EVIL), body=EVIL), answer("Content-Length: %d" % len(EVIL)),
           method="HEAD"),
    spoilt("HEAD with chunks all the same", "9112 6.3", GOOD, answer("Transfer-Encoding: chunked"), method="HEAD"),
    bad("HEAD with both", "9112 6.3", answer("Content-Length: 2", "Transfer-Encoding: chunked"), "beside", method="HEAD"),
    bad("HEAD with two lengths", "9110 8.6", answer("Content-Length: 2", "Content-Length: 3"), "more than one", method="HEAD"),
    passed("204", "9112 6.3", answer(status="204 No Content")),
    passed("204 with a length", "9110 8.6", answer("Content-Length: 5", status="204 No Content"), answer(status="204 No Content")),
    spoilt("204 with a body", "9112 6.3", answer("Content-Length: 2", body="ok", status="204 No Content"), answer(status="204 No Content")),
    spoilt("204 with an answer for a body", "9112 6.3", answer(body=EVIL, status="204 No Content"), answer(status="204 No Content")),
    spoilt("204 in chunks", "9112 6.1", in_chunks("5\r\nhello\r\n" + END, status="204 No Content"), answer(status="204 No Content")),
    passed("304", "9112 6.3", answer('ETag: "e"', status="304 Not Modified")),
    passed("304 with a length", "9110 8.6", answer("Content-Length: 99", status="304 Not Modified")),
    spoilt("304 with a body", "9112 6.3", answer("Content-Length: 2", body="ok", status="304 Not Modified"),
           answer("Content-Length: 2", status="304 Not Modified")),
    passed("205 with no length, in chunks", "9110 15.3.6", in_chunks(END, status="205 Reset Content")),
    bad("204 with both", "9112 6.3", answer("Content-Length: 0", "Transfer-Encoding: chunked", status="204 No Content"), "beside"),
]

CHUNKS = [
    sized("one", "5\r\nhello\r\n" + END),
    sized("five of one byte", "".join("1\r\n%s\r\n" % c for c in "hello") + END),
    sized("leading zeros", "0005\r\nhello\r\n" + END),
    sized("an extension", "5;a=b\r\nhello\r\n" + END, "9112 7.1.1"),
    sized("an extension in quotes", '5;a="b;c"\r\nhello\r\n' + END, "9112 7.1.1"),
    sized("the last of many zeros", "5\r\nhello\r\n000\r\n\r\n"),
    passed("chunks: no content", "9112 7.1", in_chunks(END)),
    passed("chunks: an answer for content", "9112 7.1", in_chunks("%X\r\n%s\r\n" % (len(EVIL), EVIL) + END)),
    chunk("seventeen digits", "00000000000000005\r\nhello\r\n" + END),
    chunk("2^64 and 5", "10000000000000005\r\nhello\r\n" + END),
    chunk("2^63", "8000000000000000\r\nhello\r\n" + END),
    chunk("no digits", "\r\nhello\r\n" + END),
    chunk("a plus sign", "+5\r\nhello\r\n" + END),
    chunk("0x", "0x5\r\nhello\r\n" + END),
    chunk("no hexadecimal digit", "g\r\nhello\r\n" + END),
    chunk("a space before it", " 5\r\nhello\r\n" + END),
    chunk("a space behind it", "5 \r\nhello\r\n" + END),
    chunk("a tab behind it", "5\t\r\nhello\r\n" + END),
    chunk("a bare LF behind it", "5\nhello\r\n" + END),
    chunk("a bare CR behind it", "5\rhello\r\n" + END),
    chunk("bare LF everywhere", "5\nhello\n0\n\n"),
    chunk("a size too small", "4\r\nhello\r\n" + END, "hell"),
    chunk("a size too large by two", "7\r\nhello\r\n" + END, "hello\r\n"),
    chunk("nothing behind the content", "5\r\nhello" + END, "hello"),
    chunk("a bare LF behind the content", "5\r\nhello\n" + END, "hello"),
    chunk("another byte in the place of the CR behind the content", "5\r\nhelloX\n" + END, "hello"),
    chunk("the last with a bare LF", "5\r\nhello\r\n0\n\r\n", "hello"),
    chunk("the end a bare LF", "5\r\nhello\r\n0\r\n\n", "hello"),
    chunk("an extension with a bare LF", "5;a\nb\r\nhello\r\n" + END, rule="9112 7.1.1"),
    chunk("an extension with a line break in quotes", '5;a="\r\n"\r\nhello\r\n' + END, rule="9112 7.1.1"),
    chunk("an extension without a name", "5;\r\nhello\r\n" + END, rule="9112 7.1.1"),
    chunk("an extension of more than 256 bytes", "5;a=" + "x" * 256 + "\r\nhello\r\n" + END, rule="9112 7.1.1"),
    chunk("a trailer without a colon", "5\r\nhello\r\n0\r\nX-Sum\r\n\r\n", "hello", "9112 7.1.2"),
    chunk("a trailer that is folded", "5\r\nhello\r\n0\r\nX-Sum: 1\r\n 2\r\n\r\n", "hello", "9112 7.1.2"),
    chunk("a trailer with a bare LF", "5\r\nhello\r\n0\r\nX-Sum: 1\n\r\n", "hello", "9112 7.1.2"),
    chunk("a trailer with a NUL", "5\r\nhello\r\n0\r\nX-Sum: \0\r\n\r\n", "hello", "9112 7.1.2"),
    chunk("a trailer of 33 fields", "5\r\nhello\r\n0\r\n" + "X: y\r\n" * 33 + "\r\n", "hello", "9112 7.1.2"),
    chunk("a trailer of more than 8 KiB", "5\r\nhello\r\n0\r\nX: " + "y" * 8192 + "\r\n\r\n", "hello", "9112 7.1.2"),
    chunk("an answer for a trailer", "5\r\nhello\r\n0\r\n" + EVIL, "hello", "9112 7.1.2"),
    trailed("a field", "X-Sum: 1\r\n", "X-Sum: 1\r\n"),
    passed("trailer: announced", "9110 6.6.2", in_chunks("5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n", "Trailer: X-Sum")),
    trailed("Set-Cookie", "Set-Cookie: a=b\r\n"),
    trailed("Content-Length", "Content-Length: 5\r\n"),
    trailed("Transfer-Encoding", "Transfer-Encoding: chunked\r\n"),
    trailed("Content-Encoding", "Content-Encoding: gzip\r\n"),
    trailed("Connection", "Connection: close\r\n"),
    trailed("Alt-Svc", 'Alt-Svc: h3=":443"\r\n'),
    trailed("Location", "Location: https://b.test/\r\n"),
    trailed("WWW-Authenticate", "WWW-Authenticate: Basic\r\n"),
    trailed("Upgrade", "Upgrade: h2c\r\n"),
    trailed("a good one among bad ones", "Set-Cookie: a=b\r\nX-Sum: 1\r\n", "X-Sum: 1\r\n"),
]

BEHIND = [
    spoilt("behind: another answer", "9112 6.3", OK + EVIL, OK),
    spoilt("behind: another answer to chunks", "9112 6.3", GOOD + EVIL, GOOD),
    spoilt("behind: another answer to HEAD", "9112 6.3", answer("Content-Length: 2") + EVIL, answer("Content-Length: 2"), method="HEAD"),
    spoilt("behind: another answer to 204", "9112 6.3", answer(status="204 No Content") + EVIL, answer(status="204 No Content")),
    spoilt("behind: another answer to 304", "9112 6.3", answer(status="304 Not Modified") + EVIL, answer(status="304 Not Modified")),
    spoilt("behind: an interim answer", "9112 6.3", OK + "HTTP/1.1 100 Continue\r\n\r\n", OK),
    spoilt("behind: one byte", "9112 6.3", OK + "x", OK),
    spoilt("behind: an empty line", "9112 2.2", OK + "\r\n", OK),
    spoilt("behind: another answer, later", "9112 6.3", OK + LATER + EVIL, OK, end="later"),
    spoilt("behind: another answer to chunks, later", "9112 6.3", GOOD + LATER + EVIL, GOOD, end="later"),
    spoilt("behind: another answer to HEAD, later", "9112 6.3", answer("Content-Length: 2") + LATER + EVIL, answer("Content-Length: 2"),
           end="later", method="HEAD"),
    spoilt("behind: the body of a HEAD, later", "9112 6.3", answer("Content-Length: %d" % len(EVIL)) + LATER + EVIL,
           answer("Content-Length: %d" % len(EVIL)), end="later", method="HEAD"),
    spoilt("behind: one byte, later", "9112 6.3", OK + LATER + "x", OK, end="later"),
    spoilt("behind: the end of the connection, later", "9112 9.5", OK + LATER, OK, end="later"),
]

ENDS = [
    passed("end: of the connection, by FIN", "9112 6.3", answer(body="ok"), in_chunks("2\r\nok\r\n" + END), end="fin"),
    passed("end: of the connection, without close_notify", "9112 9.8", answer(body="ok"), in_chunks("2\r\nok\r\n" + END), end="abrupt"),
    passed("end: of the connection, which is said", "9112 6.3", answer("Connection: close", body="ok"), in_chunks("2\r\nok\r\n" + END), end="fin"),
    passed("end: of the connection, and no content", "9112 6.3", answer(), in_chunks(END), end="fin"),
    passed("end: of the connection, an answer for content", "9112 6.3", answer(body=EVIL), in_chunks("%X\r\n%s\r\n" % (len(EVIL), EVIL) + END), end="fin"),
    truncated("end: of the connection, by a reset", "9112 8", answer(body="ok"), in_chunks("2\r\nok\r\n"), end="rst"),
    passed("end: FIN behind a whole body", "9112 6.3", OK, end="fin"),
    passed("end: no close_notify behind a whole body", "9112 9.8", OK, end="abrupt"),
    passed("end: FIN behind whole chunks", "9112 6.3", GOOD, end="fin"),
    truncated("end: FIN in a body", "9112 8", answer("Content-Length: 9", body="ok"), end="fin"),
    truncated("end: no close_notify in a body", "9112 8", answer("Content-Length: 9", body="ok"), end="abrupt"),
    truncated("end: a reset in a body", "9112 8", answer("Content-Length: 9", body="ok"), end="rst"),
    truncated("end: FIN before a body", "9112 8", answer("Content-Length: 9"), end="fin"),
    truncated("end: FIN in a chunk", "9112 8", in_chunks("9\r\nhello"), in_chunks("5\r\nhello\r\n"), end="fin"),
    truncated("end: FIN between chunks", "9112 8", in_chunks("5\r\nhello\r\n"), end="fin"),
    truncated("end: FIN before the last chunk's end", "9112 8", in_chunks("5\r\nhello\r\n0\r\n"), in_chunks("5\r\nhello\r\n"), end="fin"),
    truncated("end: FIN in a trailer", "9112 8", in_chunks("5\r\nhello\r\n0\r\nX-Sum: 1\r\n"), in_chunks("5\r\nhello\r\n"), end="fin"),
    truncated("end: no close_notify between chunks", "9112 8", in_chunks("5\r\nhello\r\n"), end="abrupt"),
]

ROWS = LENGTHS + NONE + CHUNKS + BEHIND + ENDS
