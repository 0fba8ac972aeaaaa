"""Bodies: how their length is said (RFC 9112, 6) and the chunked coding to the letter (7.1)."""
from corpus import HOST, broken, chunks, closes, get, head, passes, post, refused

NEXT_ONE = "GET /ok/smuggled HTTP/1.1\r\n" + HOST + "\r\n"
END = "0\r\n\r\n"
GOOD = chunks("5\r\nhello\r\n" + END)


def length(name, *values):
    return refused("length: " + name, "9110 8.6", post(*["Content-Length:" + v for v in values], body="hello"), 400,
                   "length-malformed" if len(values) == 1 else "length-repeated")


def coding(name, *values, code="transfer-coding", status=501):
    fields = ["Transfer-Encoding:" + v for v in values]
    return refused("coding: " + name, "9112 6.1", post(*fields, body=END + NEXT_ONE), status, code)


def both(name, *fields, code="length-and-coding", status=400):
    return refused("both: " + name, "9112 6.3", post(*fields, body=END + NEXT_ONE), status, code)


def sized(name, body, rule="9112 7.1"):
    """Chunks that mean "hello", in one way or another; they go on in one."""
    return passes("chunks: " + name, rule, chunks(body), GOOD)


def chunk(name, body, code="chunk", whole=""):
    return broken("chunks: " + name, "9112 7.1", body, code, whole)


def extension(name, text, code="chunk-extension"):
    return broken("extension: " + name, "9112 7.1.1", "5%s\r\nhello\r\n" % text + END, code)


def extended(name, text):
    return sized("with an extension, " + name, "5%s\r\nhello\r\n" % text + END, "9112 7.1.1")


def trailer(name, text):
    return broken("trailer: " + name, "9112 7.1.2", "5\r\nhello\r\n0\r\n" + text + "\r\n", "trailer", "5\r\nhello\r\n")


def trailed(name, text, sent=""):
    return passes("trailer: " + name, "9110 6.5.1", chunks("5\r\nhello\r\n0\r\n" + text + "\r\n"),
                  chunks("5\r\nhello\r\n0\r\n" + sent + "\r\n"))


LENGTHS = [
    passes("length: of a body", "9110 8.6", post("Content-Length: 5", body="hello")),
    passes("length: 0", "9110 8.6", post("Content-Length: 0")),
    passes("length: none, with POST", "9112 6.3", post()),
    passes("length: of a body of GET", "9110 9.3.1", get("Content-Length: 5") + "hello"),
    passes("length: of a body of DELETE", "9110 9.3.5", get("Content-Length: 5", method="DELETE") + "hello"),
    passes("length: of a body of HEAD", "9110 9.3.2", get("Content-Length: 5", method="HEAD") + "hello", answers=("200 head",)),
    passes("length: of a body of OPTIONS", "9110 9.3.7", get("Content-Length: 5", method="OPTIONS") + "hello"),
    passes("length: spaces around it", "9112 5", post("Content-Length:  5  ", body="hello"), post("Content-Length: 5", body="hello")),
    passes("length: a tab before it", "9112 5", post("Content-Length:\t5", body="hello"), post("Content-Length: 5", body="hello")),
    refused("length: a tab behind it", "two readings", post("Content-Length: 5\t", body="hello"), 400, "second-opinion"),
    passes("length: leading zeros", "9110 8.6", post("Content-Length: 0000005", body="hello"), post("Content-Length: 5", body="hello")),
    passes("length: leading zeros, which are no octal", "9110 8.6", post("Content-Length: 010", body="0123456789"),
           post("Content-Length: 10", body="0123456789")),
    closes("length: in HTTP/1.0", "9112 6.3", head("POST /ok HTTP/1.0", "Host: a.test", "Content-Length: 5") + "hello",
           post("Content-Length: 5", body="hello")),
    length("empty", ""),
    length("spaces alone", "  "),
    length("a plus sign", " +5"),
    length("a minus sign", " -5"),
    length("minus zero", " -0"),
    length("hexadecimal", " 0x5"),
    length("hexadecimal digits", " a"),
    length("a fraction", " 5.0"),
    length("an exponent", " 5e0"),
    length("a space within", " 5 5"),
    length("a list", " 5, 5"),
    length("a list without spaces", " 5,5"),
    length("a list of different ones", " 5, 6"),
    length("a comma behind it", " 5,"),
    length("a comma before it", " ,5"),
    length("a semicolon behind it", " 5;"),
    length("in quotes", ' "5"'),
    length("a separator of thousands", " 5_0"),
    length("a word", " five"),
    length("digits of another script", " \xd9\xa5"),
    length("a superscript digit", " \xb2"),
    length("2^63", " 9223372036854775808"),
    length("2^64", " 18446744073709551616"),
    length("2^64 and 5", " 18446744073709551621"),
    length("2^32 and a digit too many", " 42949672960000000000"),
    length("forty digits", " " + "9" * 40),
    length("twenty zeros", " " + "0" * 20 + "5"),
    length("twice, equal", " 5", " 5"),
    length("twice, different", " 5", " 6"),
    length("twice, the second empty", " 5", ""),
    length("twice, the second zero", " 5", " 0"),
    length("three times", " 5", " 5", " 5"),
    refused("length: a vertical tab behind it", "9110 5.5", post("Content-Length: 5\x0b", body="hello"), 400, "control-character"),
    refused("length: a space before the colon", "9112 5.1", post("Content-Length : 5", body="hello"), 400, "field-name-space"),
    refused("length: a NUL in the name", "9112 5.1", post("Content-Length\0: 5", body="hello"), 400, "control-character"),
    refused("length: folded", "9112 5.2", post("Content-Length:\r\n 5", body="hello"), 400, "length-malformed"),
    refused("length: twice in different cases", "9110 8.6", post("content-length: 5", "CONTENT-LENGTH: 5", body="hello"), 400, "length-repeated"),
    refused("length: more than there is, and the end", "9112 8", post("Content-Length: 10", body="hello"), 400, "request-truncated",
            over="tcp", shut=True, cut=post("Content-Length: 10", body="hello")),
]

CODINGS = [
    passes("coding: chunked", "9112 7.1", GOOD),
    passes("coding: in upper case", "9112 7", post("TRANSFER-ENCODING: CHUNKED", body="5\r\nhello\r\n" + END), GOOD),
    passes("coding: spaces around it", "9112 5", post("Transfer-Encoding:  chunked  ", body="5\r\nhello\r\n" + END), GOOD),
    passes("coding: a tab before it", "9112 5", post("Transfer-Encoding:\tchunked", body="5\r\nhello\r\n" + END), GOOD),
    coding("a tab behind it", " chunked\t", code="second-opinion", status=400),
    passes("coding: chunked, with GET", "9112 6.1", get("Transfer-Encoding: chunked") + "5\r\nhello\r\n" + END),
    passes("coding: chunked, no content", "9112 7.1", chunks(END)),
    coding("empty", ""),
    coding("identity", " identity"),
    coding("chunked and identity", " chunked, identity"),
    coding("identity and chunked", " identity, chunked"),
    coding("gzip", " gzip"),
    coding("gzip and chunked", " gzip, chunked"),
    coding("chunked and gzip", " chunked, gzip"),
    coding("chunked twice in a list", " chunked, chunked"),
    coding("chunked, twice the field", " chunked", " chunked"),
    coding("chunked and identity, twice the field", " chunked", " identity"),
    coding("gzip and chunked, twice the field", " gzip", " chunked"),
    coding("identity and chunked, twice the field", " identity", " chunked"),
    coding("a field that is empty and one of chunked", "", " chunked"),
    coding("xchunked", " xchunked"),
    coding("chunkedx", " chunkedx"),
    coding("x-chunked", " x-chunked"),
    coding("chunk", " chunk"),
    coding("a comma behind it", " chunked,"),
    coding("a comma before it", " ,chunked"),
    coding("a parameter", " chunked;q=1"),
    coding("a semicolon behind it", " chunked;"),
    coding("in quotes", ' "chunked"'),
    coding("in single quotes", " 'chunked'"),
    coding("a space within", " chunk ed"),
    coding("two words", " chunked chunked"),
    coding("a colon before it", " : chunked"),
    coding("a letter that folds to k", " chun\xe2\x84\xaaed"),
    coding("a no-break space before it", " \xa0chunked"),
    coding("a vertical tab before it", " \x0bchunked", code="control-character", status=400),
    coding("a vertical tab behind it", " chunked\x0b", code="control-character", status=400),
    coding("a form feed before it", " \x0cchunked", code="control-character", status=400),
    coding("a NUL behind it", " chunked\0", code="control-character", status=400),
    coding("a bare CR behind it", " chunked\r", code="line-end", status=400),
    coding("a bare LF before it", "\n chunked", code="line-end", status=400),
    coding("folded", "\r\n chunked", code="folded-line", status=400),
    refused("coding: a space before the colon", "9112 5.1", post("Transfer-Encoding : chunked", body=END), 400, "field-name-space"),
    refused("coding: a tab before the colon", "9112 5.1", post("Transfer-Encoding\t: chunked", body=END), 400, "field-name-space"),
    refused("coding: a space before the name", "9112 5.2", post(" Transfer-Encoding: chunked", body=END), 400, "folded-line"),
    refused("coding: behind a bare LF", "9112 2.2", post("X: y\nTransfer-Encoding: chunked", body=END), 400, "line-end"),
    refused("coding: behind a bare CR", "9112 2.2", post("X: \rTransfer-Encoding: chunked", body=END), 400, "line-end"),
    refused("coding: in HTTP/1.0", "9112 6.1", head("POST /ok HTTP/1.0", "Host: a.test", "Transfer-Encoding: chunked") + END, 400,
            "transfer-coding-1.0"),
    refused("coding: in HTTP/1.0 that is kept alive", "9112 6.1",
            head("POST /ok HTTP/1.0", "Host: a.test", "Connection: keep-alive", "Transfer-Encoding: chunked") + END, 400, "transfer-coding-1.0"),
    both("length, then chunked", "Content-Length: 5", "Transfer-Encoding: chunked"),
    both("chunked, then length", "Transfer-Encoding: chunked", "Content-Length: 5"),
    both("length 0 and chunked", "Content-Length: 0", "Transfer-Encoding: chunked"),
    both("length and identity", "Content-Length: 5", "Transfer-Encoding: identity"),
    both("length and an empty coding", "Content-Length: 5", "Transfer-Encoding:"),
    both("length and xchunked", "Content-Length: 5", "Transfer-Encoding: xchunked"),
    both("length and chunked in different cases", "content-length: 5", "TRANSFER-ENCODING: Chunked"),
    both("length between two codings", "Transfer-Encoding: chunked", "Content-Length: 5", "Transfer-Encoding: chunked"),
    both("a length that is none and chunked", "Content-Length: x", "Transfer-Encoding: chunked", code="length-malformed"),
    both("two lengths and chunked", "Content-Length: 5", "Content-Length: 5", "Transfer-Encoding: chunked", code="length-repeated"),
    both("a length named by Connection and chunked", "Connection: Content-Length", "Content-Length: 5", "Transfer-Encoding: chunked",
         code="connection"),
    refused("both: in HTTP/1.0", "9112 6.3",
            head("POST /ok HTTP/1.0", "Host: a.test", "Content-Length: 5", "Transfer-Encoding: chunked") + END, 400, "length-and-coding"),
]

SIZES = [
    sized("one", "5\r\nhello\r\n" + END),
    passes("chunks: five of one byte", "9112 7.1", chunks("".join("1\r\n%s\r\n" % c for c in "hello") + END),
           chunks("".join("1\r\n%s\r\n" % c for c in "hello") + END)),
    sized("leading zeros", "0005\r\nhello\r\n" + END),
    sized("sixteen digits", "0000000000000005\r\nhello\r\n" + END),
    sized("the last of many zeros", "5\r\nhello\r\n0000\r\n\r\n"),
    passes("chunks: lower-case digits", "9112 7.1", chunks("a\r\n0123456789\r\n" + END), chunks("A\r\n0123456789\r\n" + END)),
    passes("chunks: what looks like an end", "9112 7.1", chunks("5\r\n" + END + "\r\n" + END)),
    chunk("seventeen digits", "00000000000000005\r\nhello\r\n" + END),
    chunk("2^64 and 5", "10000000000000005\r\nhello\r\n" + END),
    chunk("2^63", "8000000000000000\r\nhello\r\n" + END),
    chunk("the greatest of 64 bits", "FFFFFFFFFFFFFFFF\r\nhello\r\n" + END),
    chunk("no digits", "\r\nhello\r\n" + END),
    chunk("a plus sign", "+5\r\nhello\r\n" + END),
    chunk("a minus sign", "-5\r\nhello\r\n" + END),
    chunk("0x", "0x5\r\nhello\r\n" + END),
    chunk("no hexadecimal digit", "g\r\nhello\r\n" + END),
    chunk("digits of another script", "\xd9\xa5\r\nhello\r\n" + END),
    chunk("an h behind it", "5h\r\nhello\r\n" + END),
    chunk("a comma", "5,\r\nhello\r\n" + END),
    chunk("an underscore", "0_5\r\nhello\r\n" + END),
    chunk("a dot", "5.\r\nhello\r\n" + END),
    chunk("a space before it", " 5\r\nhello\r\n" + END),
    chunk("a space behind it", "5 \r\nhello\r\n" + END),
    chunk("a tab behind it", "5\t\r\nhello\r\n" + END),
    chunk("a space and an extension", "5 ;a\r\nhello\r\n" + END),
    chunk("a vertical tab behind it", "5\x0b\r\nhello\r\n" + END),
    chunk("a NUL behind it", "5\0\r\nhello\r\n" + END),
    chunk("a bare LF behind it", "5\nhello\r\n" + END),
    chunk("a bare CR behind it", "5\rhello\r\n" + END),
    chunk("two CR behind it", "5\r\r\nhello\r\n" + END),
    chunk("bare LF everywhere", "5\nhello\n0\n\n"),
    chunk("an empty line before it", "\r\n5\r\nhello\r\n" + END),
    chunk("a size too small", "4\r\nhello\r\n" + END, whole="4\r\nhell\r\n"),
    chunk("a size too large by two", "7\r\nhello\r\n" + END, whole="7\r\nhello\r\n\r\n"),
    chunk("nothing behind the content", "5\r\nhello" + END, whole="5\r\nhello\r\n"),
    chunk("a bare LF behind the content", "5\r\nhello\n" + END, whole="5\r\nhello\r\n"),
    chunk("another byte in the place of the CR behind the content", "5\r\nhelloX\n" + END, whole="5\r\nhello\r\n"),
    chunk("a bare CR behind the content", "5\r\nhello\r" + END, whole="5\r\nhello\r\n"),
    chunk("a space behind the content", "5\r\nhello \r\n" + END, whole="5\r\nhello\r\n"),
    chunk("the last with a space", "5\r\nhello\r\n0 \r\n\r\n", whole="5\r\nhello\r\n"),
    chunk("the last with a bare LF", "5\r\nhello\r\n0\n\r\n", whole="5\r\nhello\r\n"),
    chunk("the end a bare LF", "5\r\nhello\r\n0\r\n\n", "trailer", "5\r\nhello\r\n"),
    chunk("the end a bare CR", "5\r\nhello\r\n0\r\n\rX", whole="5\r\nhello\r\n"),
    refused("chunks: no end", "9112 8", chunks("5\r\nhello\r\n"), 400, "request-truncated", over="tcp", shut=True, cut=chunks("5\r\nhello\r\n")),
    refused("chunks: no end line", "9112 8", chunks("5\r\nhello\r\n0\r\n"), 400, "request-truncated", over="tcp", shut=True, cut=chunks("5\r\nhello\r\n")),
]

EXTENSIONS = [
    extended("a name", ";a"),
    extended("a name and a value", ";a=b"),
    extended("two of them", ";a=b;c=d"),
    extended("a value in quotes", ';a="b c"'),
    extended("a quoted semicolon and an escape", ';a="b;\\"c"'),
    extended("of 250 bytes", ";a=" + "x" * 250),
    extension("a bare LF behind it", ";a\n0\r\n\r\n"),
    extension("a bare LF within", ";a\nb"),
    extension("a bare CR within", ";a\rb", code="chunk"),
    extension("a bare LF in quotes", ';a="\n"'),
    extension("a bare CR in quotes", ';a="\r"'),
    extension("a CRLF in quotes", ';a="\r\n"'),
    extension("no name", ";"),
    extension("two semicolons", ";;a"),
    extension("an empty value", ";a="),
    extension("no name and a value", ";=b"),
    extension("a space before the name", "; a"),
    extension("a space behind the name", ";a =b"),
    extension("a space before the value", ";a= b"),
    extension("a space behind the value", ";a=b "),
    extension("a tab", ";\ta"),
    extension("a NUL", ";a\0"),
    extension("beyond ASCII", ";\xe9"),
    extension("a comma", ";a,b"),
    extension("a quote that does not end", ';a="b'),
    extension("something behind a quote", ';a="b"c'),
    extension("of more than 256 bytes", ";a=" + "x" * 256),
    broken("extensions of more than 64 KiB in all", "9112 7.1.1", ("1;a=%s\r\nx\r\n" % ("x" * 240)) * 280 + END, "chunk-extension",
           "1\r\nx\r\n" * 280),
]

TRAILERS = [
    trailed("a field", "X-Sum: 1\r\n", "X-Sum: 1\r\n"),
    trailed("two fields", "X-A: 1\r\nX-B:2 \r\n", "X-A: 1\r\nX-B: 2\r\n"),
    passes("trailer: announced", "9110 6.6.2", chunks("5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n", "Trailer: X-Sum")),
    trailed("Host", "Host: b.test\r\n"),
    trailed("Authorization", "Authorization: Basic c2VjcmV0\r\n"),
    trailed("Cookie", "Cookie: a=b\r\n"),
    trailed("Content-Length", "Content-Length: 5\r\n"),
    trailed("content_length", "content_length: 5\r\n"),
    trailed("Transfer-Encoding", "Transfer-Encoding: chunked\r\n"),
    trailed("Content-Encoding", "Content-Encoding: gzip\r\n"),
    trailed("Content-Type", "Content-Type: text/plain\r\n"),
    trailed("Connection", "Connection: close\r\n"),
    trailed("Upgrade", "Upgrade: h2c\r\n"),
    trailed("Trailer", "Trailer: Host\r\n"),
    trailed("TE", "TE: trailers\r\n"),
    trailed("Expect", "Expect: 100-continue\r\n"),
    trailed("an API key", "X-Api-Key: k\r\n"),
    trailed("the method's override", "X-HTTP-Method-Override: DELETE\r\n"),
    trailed("the target's override", "X-Original-URL: /admin\r\n"),
    trailed("a hint at another host", "X-Forwarded-Host: b.test\r\n"),
    trailed("a good one among bad ones", "Host: b.test\r\nX-Sum: 1\r\nCookie: c\r\n", "X-Sum: 1\r\n"),
    trailer("no colon", "X-Sum\r\n"),
    trailer("a space before the colon", "X-Sum : 1\r\n"),
    trailer("folded", "X-Sum: 1\r\n 2\r\n"),
    trailer("a space in front", " X-Sum: 1\r\n"),
    trailer("a bare LF", "X-Sum: 1\n"),
    trailer("a bare CR", "X-Sum: 1\rX: y\r\n"),
    trailer("a NUL", "X-Sum: \0\r\n"),
    trailer("a control character", "X-Sum: \x01\r\n"),
    trailer("33 fields", "X: y\r\n" * 33),
    trailer("of more than 8 KiB", "X: " + "y" * 8192 + "\r\n"),
    trailer("a request line", NEXT_ONE),
]

ROWS = LENGTHS + CODINGS + SIZES + EXTENSIONS + TRAILERS
