"""Fields: names, values, folding (RFC 9112, 5), Host (9112, 3.2), the connection's own (9110, 7.6), and those that make
servers see another request than was judged."""
from corpus import HOST, closes, denied, dropped, get, head, passes, post, refused

SAME = get()
NEXT_ONE = "GET /ok/smuggled HTTP/1.1\r\n" + HOST + "\r\n"


def with_host(value):
    return "GET /ok HTTP/1.1\r\nHost:" + value + "\r\n\r\n"


def host_bad(name, value, rule="9112 3.2"):
    return refused("Host: " + name, rule, with_host(value), 400, "host-malformed")


def elsewhere(name, value, code="sni-differs"):
    return refused("Host: " + name, "9110 7.4", with_host(value), 421, code)


def stripped(name, *fields, rule="9110 7.6.1"):
    """Fields that are the connection's own: the request goes on without them."""
    return passes(name, rule, get(*fields), SAME)


def named(name, *fields):
    return refused("Connection names " + name, "9110 7.6.1", get(*fields), 400, "connection")


def name_bad(name, field, code="field-name"):
    return refused("name: " + name, "9112 5.1", get(field), 400, code)


def value_bad(name, value, code="control-character"):
    return refused("value: " + name, "9110 5.5", get("X-One: " + value), 400, code)


def value(name, text, sent=None):
    return passes("value: " + name, "9110 5.5", get("X-One:" + text), get("X-One: " + (text.strip(" \t") if sent is None else sent)))


HOSTS = [
    refused("Host: none", "9112 3.2", "GET /ok HTTP/1.1\r\nX: y\r\n\r\n", 400, "host-missing"),
    refused("Host: no field at all", "9112 3.2", "GET /ok HTTP/1.1\r\n\r\n", 400, "host-missing"),
    refused("Host: twice, equal", "9112 3.2", get("Host: a.test"), 400, "host-repeated"),
    refused("Host: twice, different", "9112 3.2", get("Host: b.test"), 400, "host-repeated"),
    refused("Host: twice, in different cases, fields between", "9112 3.2", get("X: y", "HOST: b.test"), 400, "host-repeated"),
    refused("Host: twice, the second empty", "9112 3.2", get("Host:"), 400, "host-repeated"),
    refused("Host: twice in HTTP/1.0", "9112 3.2", head("GET /ok HTTP/1.0", "Host: a.test", "Host: b.test"), 400, "host-repeated"),
    passes("Host: in upper case", "9110 4.2.3", with_host(" A.TEST"), SAME),
    passes("Host: the name of the field in upper case", "9110 5.1", "GET /ok HTTP/1.1\r\nHOST: a.test\r\n\r\n", SAME),
    passes("Host: without a space", "9112 5", with_host("a.test"), SAME),
    passes("Host: spaces and tabs around it", "9112 5", with_host(" \t a.test\t "), SAME),
    passes("Host: with its port", "9110 7.2", with_host(" a.test:443"), SAME),
    passes("Host: with leading zeros before its port", "3986 3.2.3", with_host(" a.test:00443"), SAME),
    passes("Host: a final dot", "3986 3.2.2", with_host(" a.test."), SAME),
    passes("Host: last of the fields", "9110 7.2", "GET /ok HTTP/1.1\r\nX: y\r\nHost: a.test\r\n\r\n", get("X: y")),
    host_bad("empty", ""),
    host_bad("spaces alone", "  \t "),
    host_bad("a list", " a.test, b.test"),
    host_bad("a list without spaces", " a.test,b.test"),
    host_bad("two names and a space", " a.test b.test"),
    host_bad("two names and a tab", " a.test\tb.test"),
    host_bad("userinfo", " u@a.test"),
    host_bad("another name before an at sign", " b.test@a.test"),
    host_bad("a path", " a.test/ok"),
    host_bad("a URL", " https://a.test"),
    host_bad("a query", " a.test?x"),
    host_bad("a fragment", " a.test#b.test"),
    host_bad("a backslash", " a.test\\b.test"),
    host_bad("a semicolon", " a.test;b.test"),
    host_bad("quotes", ' "a.test"'),
    host_bad("percent-encoded", " a%2etest"),
    host_bad("an empty port", " a.test:", "two readings"),
    host_bad("port 0", " a.test:0"),
    host_bad("port 65536", " a.test:65536"),
    host_bad("port 65979, which is 443 and 2^16", " a.test:65979"),
    host_bad("a port with a sign", " a.test:+443"),
    host_bad("a port in words", " a.test:https"),
    host_bad("two ports", " a.test:443:443"),
    host_bad("beyond ASCII", " a.t\xe9st"),
    host_bad("a full stop of another script", " a\xe3\x80\x82test"),
    host_bad("an asterisk", " *.test"),
    host_bad("a bracket alone", " [a.test"),
    host_bad("a zone", " [fe80::1%25eth0]"),
    host_bad("empty brackets", " []"),
    host_bad("something behind the brackets", " [::1]a.test"),
    refused("Host: a NUL", "9110 5.5", with_host(" a.test\0b.test"), 400, "control-character"),
    refused("Host: folded", "9112 5.2", "GET /ok HTTP/1.1\r\nHost:\r\n a.test\r\n\r\n", 400, "folded-line"),
    refused("Host: a space before the colon", "9112 5.1", "GET /ok HTTP/1.1\r\nHost : a.test\r\n\r\n", 400, "field-name-space"),
    refused("Host: an empty label", "9110 7.2", with_host(" a..test"), 400, "host-malformed"),
    refused("Host: a dot in front", "9110 7.2", with_host(" .a.test"), 400, "host-malformed"),
    refused("Host: two final dots", "9110 7.2", with_host(" a.test.."), 400, "host-malformed"),
    elsewhere("another name", " b.test"),
    elsewhere("a name below", " x.a.test"),
    elsewhere("the name above", " test"),
    elsewhere("a name that ends alike", " ba.test"),
    elsewhere("a name that begins alike", " a.test.b.test"),
    elsewhere("an address", " 127.0.0.1"),
    elsewhere("an IPv6 address", " [::1]"),
    elsewhere("localhost", " localhost"),
    elsewhere("exeat's own name", " exeat.internal"),
    elsewhere("another port", " a.test:8443", "port-differs"),
    elsewhere("the port of clear text", " a.test:80", "port-differs"),
    refused("Host: an address in one number", "two readings", with_host(" 2130706433"), 400, "host-malformed"),
    refused("Host: an address in hexadecimal", "two readings", with_host(" 0x7f.0.0.1"), 400, "host-malformed"),
    refused("Host: an address with zeros", "two readings", with_host(" 0177.0.0.1"), 400, "host-malformed"),
    refused("Host: another name, in clear text", "9110 7.4", with_host(" b.test"), 421, "address-differs", over="tcp"),
    refused("Host: another port, in clear text", "9110 7.4", with_host(" a.test:443"), 421, "port-differs", over="tcp"),
    refused("Host: twice, in clear text", "9112 3.2", get("Host: a.test"), 400, "host-repeated", over="tcp"),
]

NAMES = [
    name_bad("a space before the colon", "X-One : 1", "field-name-space"),
    name_bad("a tab before the colon", "X-One\t: 1", "field-name-space"),
    name_bad("a space within", "X One: 1"),
    name_bad("empty", ": 1"),
    name_bad("no colon", "X-One"),
    name_bad("an equals sign for the colon", "X-One=1"),
    name_bad("beyond ASCII", "X-\xe9: 1"),
    name_bad("UTF-8", "X-\xc3\xa9: 1"),
    name_bad("a vertical tab before the colon", "X-One\x0b: 1"),
    name_bad("a control character within", "X\x01One: 1"),
    name_bad("parentheses", "X(One): 1"),
    name_bad("a slash", "X/One: 1"),
    name_bad("a comma", "X,One: 1"),
    name_bad("an at sign", "X@One: 1"),
    name_bad("brackets", "X[One]: 1"),
    name_bad("quotes", '"X-One": 1'),
    name_bad("a pseudo-field of HTTP/2", ":authority: b.test"),
    name_bad("a NUL", "X\0One: 1", "control-character"),
    name_bad("a space in front", " X-One: 1", "folded-line"),
    name_bad("a folded line behind a value", "X-One: a\r\n b", "folded-line"),
    name_bad("a line folded by a tab", "X-One: a\r\n\tb", "folded-line"),
    name_bad("a folded line that hides a length", "X-One: a\r\n Content-Length: 3", "folded-line"),
    name_bad("a folded line of spaces alone", "X-One: a\r\n  ", "folded-line"),
    refused("name: the first line folded", "9112 2.2", "GET /ok HTTP/1.1\r\n Host: a.test\r\n" + HOST + "\r\n", 400, "folded-line"),
    refused("name: content_length", "two readings", post("content_length: 5", body="hello"), 400, "field-name-alike"),
    refused("name: Content_Length beside a length", "two readings", post("Content_Length: 5", "Content-Length: 0"), 400, "field-name-alike"),
    refused("name: Transfer_Encoding", "two readings", post("Transfer_Encoding: chunked", body="0\r\n\r\n"), 400, "field-name-alike"),
    refused("name: Content_Type", "two readings", get("Content_Type: text/plain"), 400, "field-name-alike"),
    refused("name: Content_Encoding", "two readings", get("Content_Encoding: gzip"), 400, "field-name-alike"),
    passes("name: every character that may stand there", "9110 5.6.2", get("!#$%&'*+-.^_`|~09azAZ: 1")),
    passes("name: one character", "9110 5.6.2", get("X: 1")),
]

VALUES = [
    value("empty", "", ""),
    value("spaces around it", "  1  "),
    value("tabs around it", "\t1\t"),
    value("a tab within", " a\tb"),
    value("Latin-1", " caf\xe9"),
    value("UTF-8", " caf\xc3\xa9"),
    value("colons", " a: b: c"),
    value("quotes and a comma", ' "a,b", c'),
    value("what looks like a line break", " a\\r\\nb"),
    value_bad("a NUL", "a\0b"),
    value_bad("a bell", "a\x07b"),
    value_bad("DEL", "a\x7fb"),
    value_bad("an escape character", "a\x1bb"),
    value_bad("a vertical tab", "a\x0bb"),
    value_bad("a form feed at its end", "a\x0c"),
    value_bad("a bare CR", "a\rb", "line-end"),
    value_bad("a bare CR in front", "\rb", "line-end"),
    value_bad("a bare CR at its end", "a\r", "line-end"),
    value_bad("a bare CR and a field", "\rTransfer-Encoding: chunked", "line-end"),
    value_bad("a bare LF and a field", "a\nTransfer-Encoding: chunked", "line-end"),
    value_bad("a request behind a bare LF", "a\n\n" + NEXT_ONE, "line-end"),
    refused("the last line ends in a bare LF", "9112 2.2", "GET /ok HTTP/1.1\r\nHost: a.test\n\r\n", 400, "line-end"),
    refused("the empty line is a bare LF", "9112 2.2", "GET /ok HTTP/1.1\r\nHost: a.test\r\n\n", 400, "line-end"),
    refused("the empty line is a bare CR", "9112 2.2", "GET /ok HTTP/1.1\r\nHost: a.test\r\n\r" + NEXT_ONE, 400, "line-end"),
    passes("126 fields", "design", get(*["X-%d: %d" % (i, i) for i in range(126)])),
    refused("129 fields", "6585 5", get(*["X-%d: %d" % (i, i) for i in range(128)]), 431, "too-many-fields"),
    refused("129 equal fields", "6585 5", get(*["X: 1"] * 128), 431, "too-many-fields"),
    refused("1000 fields", "6585 5", get(*["X-%d: %d" % (i, i) for i in range(1000)]), 431, "too-many-fields"),
    passes("a field of 60 KiB", "design", get("X-One: " + "x" * 61440)),
    refused("a field of 70 KB", "6585 5", get("X-One: " + "x" * 70000), 431, "head-too-long"),
    refused("a name of 70 KB", "6585 5", get("x" * 70000 + ": 1"), 431, "head-too-long"),
    refused("fields of 1 MB", "6585 5", get(*["X-%d: %s" % (i, "x" * 10000) for i in range(100)]), 431, "head-too-long"),
]

CONNECTION = [
    stripped("Connection: keep-alive", "Connection: keep-alive"),
    closes("Connection: close", "9112 9.6", get("Connection: close"), SAME),
    closes("Connection: close in upper case", "9112 9.6", get("Connection: CLOSE"), SAME),
    closes("Connection: keep-alive and close", "9112 9.6", get("Connection: keep-alive, close"), SAME),
    closes("Connection: close, twice the field", "9112 9.6", get("Connection: x", "Connection: close"), SAME),
    stripped("Connection: empty", "Connection:"),
    stripped("Connection: nothing but commas", "Connection: ,, ,"),
    stripped("Connection names a field", "Connection: X-Hop", "X-Hop: 1"),
    stripped("Connection names a field before it", "X-Hop: 1", "Connection: x-hop"),
    stripped("Connection names a field that comes twice", "Connection: X-Hop", "X-Hop: 1", "x-hop: 2"),
    stripped("Connection names a field in another spelling", "Connection: X_Hop", "X-Hop: 1"),
    stripped("Connection names a field that is not there", "Connection: X-Hop"),
    stripped("Keep-Alive", "Keep-Alive: timeout=5"),
    stripped("Proxy-Connection", "Proxy-Connection: close"),
    stripped("Proxy-Authorization", "Proxy-Authorization: Basic c2VjcmV0"),
    stripped("Proxy-Authenticate", "Proxy-Authenticate: Basic"),
    stripped("Proxy-Authentication-Info", "Proxy-Authentication-Info: x"),
    stripped("TE with a coding", "TE: gzip", rule="9110 10.1.4"),
    stripped("TE: chunked", "TE: chunked", "Connection: TE", rule="9110 10.1.4"),
    passes("TE: trailers", "9110 10.1.4", get("TE: trailers", "Connection: TE"), get("TE: trailers", "Connection: TE")),
    passes("TE: trailers among codings", "9110 10.1.4", get("TE: gzip;q=0.5, trailers"), get("TE: trailers", "Connection: TE")),
    stripped("Upgrade without Connection", "Upgrade: websocket", rule="9110 7.8"),
    stripped("Upgrade to another protocol", "Connection: Upgrade", "Upgrade: foo/2", rule="9110 7.8"),
    stripped("Upgrade to HTTP/2", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__", rule="9113 3.1"),
    stripped("Upgrade to HTTP/2 without its settings", "Connection: Upgrade", "Upgrade: h2c", rule="9113 3.1"),
    stripped("HTTP2-Settings alone", "HTTP2-Settings: AAMAAABkAAQAAP__", rule="9113 3.1"),
    stripped("Upgrade to TLS", "Connection: Upgrade", "Upgrade: TLS/1.2", rule="9110 7.8"),
    stripped("Upgrade: a list", "Connection: Upgrade", "Upgrade: h2c, websocket", rule="9110 7.8"),
    stripped("Upgrade to HTTP/2 in HTTP/1.1 of clear text", "Connection: Upgrade", "Upgrade: h2c", rule="9113 3.1")._replace(over="tcp"),
    named("Host", "Connection: Host"),
    named("Authorization", "Connection: Authorization", "Authorization: Basic c2VjcmV0"),
    named("Cookie", "Connection: cookie", "Cookie: a=b"),
    named("Content-Length", "Connection: Content-Length", "Content-Length: 0"),
    named("Content-Type", "Connection: content-type"),
    named("Content-Encoding", "Connection: content_encoding"),
    named("Expect", "Connection: Expect"),
    named("an API key", "Connection: close, X-Api-Key", "X-Api-Key: k"),
    named("Range", "Connection: Range"),
    named("33 fields", "Connection: " + ", ".join("x%d" % i for i in range(33))),
    named("what is no token", "Connection: a b"),
    named("a name in quotes", 'Connection: "close"'),
    named("a name with a semicolon", "Connection: close;x"),
    named("a name beyond ASCII", "Connection: cl\xf6se"),
    passes("Connection names Transfer-Encoding", "9110 7.6.1", post("Connection: Transfer-Encoding", "Transfer-Encoding: chunked",
                                                                       body="1\r\na\r\n0\r\n\r\n"),
           post("Transfer-Encoding: chunked", body="1\r\na\r\n0\r\n\r\n")),
]

MEANING = [
    refused("X-HTTP-Method-Override", "two readings", get("X-HTTP-Method-Override: DELETE"), 400, "method-override"),
    refused("X-HTTP-Method", "two readings", get("X-HTTP-Method: DELETE"), 400, "method-override"),
    refused("X-Method-Override", "two readings", get("X-Method-Override: DELETE"), 400, "method-override"),
    refused("X_HTTP_Method_Override", "two readings", get("X_HTTP_Method_Override: DELETE"), 400, "field-name-alike"),
    refused("X-Original-URL", "two readings", get("X-Original-URL: /admin"), 400, "target-override"),
    refused("X-Rewrite-URL", "two readings", get("X-Rewrite-URL: /admin"), 400, "target-override"),
    refused("Content-Type twice", "two readings", get("Content-Type: text/plain", "Content-Type: application/json"), 400, "field-repeated"),
    refused("Content-Encoding twice", "two readings", get("Content-Encoding: gzip", "Content-Encoding: identity"), 400, "field-repeated"),
    stripped("X-Forwarded-Host", "X-Forwarded-Host: b.test", rule="two readings"),
    stripped("Forwarded", "Forwarded: host=b.test", rule="two readings"),
    stripped("X-Host", "X-Host: b.test", rule="two readings"),
    stripped("X-Original-Host", "X-Original-Host: b.test", rule="two readings"),
    stripped("X-Forwarded-Server", "X-Forwarded-Server: b.test", rule="two readings"),
    stripped("X-HTTP-Host-Override", "X-HTTP-Host-Override: b.test", rule="two readings"),
    stripped("X_Forwarded_Host", "X_Forwarded_Host: b.test", rule="two readings"),
    stripped("X-Forwarded-Prefix", "X-Forwarded-Prefix: /admin", rule="two readings"),
    passes("Authorization where no credential is bound", "design", get("Authorization: Bearer x")),
    passes("Cookie", "9110 5.5", get("Cookie: a=b", "Cookie: c=d")),
    passes("Max-Forwards", "9110 7.6.2", get("Max-Forwards: 0")),
    passes("Via", "9110 7.6.3", get("Via: 1.1 x")),
    passes("Accept twice", "9110 5.3", get("Accept: a/b", "Accept: c/d")),
    passes("Expect: 100-continue without a body", "9110 10.1.1", get("Expect: 100-continue")),
    passes("Expect: 100-continue with a body that does not wait", "9110 10.1.1",
           post("Expect: 100-continue", "Content-Length: 5", body="hello"), post("Expect: 100-continue", "Content-Length: 5", body="hello")),
    passes("Expect: 100-Continue", "9110 10.1.1", get("Expect: 100-Continue"), get("Expect: 100-continue")),
    refused("Expect: something else", "9110 10.1.1", get("Expect: 200-ok"), 417, "expect"),
    refused("Expect: a list", "9110 10.1.1", get("Expect: 100-continue, x"), 417, "expect"),
    refused("Expect: empty", "9110 10.1.1", get("Expect:"), 417, "expect"),
    closes("Expect: 100-continue in HTTP/1.0", "9110 10.1.1",
           head("POST /ok HTTP/1.0", "Host: a.test", "Expect: 100-continue", "Content-Length: 5") + "hello",
           post("Content-Length: 5", body="hello")),
]

PIPELINED = [
    passes("two requests in one write", "9112 9.3.2", SAME + SAME, answers=("200", "200")),
    passes("ten requests in one write", "9112 9.3.2", SAME * 10, answers=("200",) * 10),
    passes("an empty line between requests", "9112 2.2", SAME + "\r\n" + SAME, SAME * 2, answers=("200", "200")),
    closes("a request behind one that closes", "9112 9.6", get("Connection: close") + NEXT_ONE, SAME),
    closes("a good request and a bad one", "9112 9.3.2", SAME + "GET /ok\n\n" + NEXT_ONE, SAME, ("200", "400 line-end")),
    passes("a good request and a denied one", "9112 9.3.2", SAME + get(target="/no") + SAME, SAME * 2, ("200", "403 no-rule-for-path", "200")),
    closes("a good request and one for another host", "9110 7.4", SAME + with_host(" b.test") + SAME, SAME, ("200", "421 sni-differs")),
    closes("a body that looks like a request, and one behind it", "9112 6.3",
           post("Content-Length: %d" % len(NEXT_ONE), body=NEXT_ONE) + get("Connection: close"),
           post("Content-Length: %d" % len(NEXT_ONE), body=NEXT_ONE) + SAME, ("200", "200")),
    denied("a denied request with a body that looks like one", "9112 6.3",
           "POST /no HTTP/1.1\r\n" + HOST + "Content-Length: %d\r\n\r\n" % len(NEXT_ONE) + NEXT_ONE, 403, "no-rule-for-path"),
    refused("a denied request in chunks that look like one", "9112 7.1",
           "POST /no HTTP/1.1\r\n" + HOST + "Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(NEXT_ONE), NEXT_ONE), 403, "no-rule-for-path"),
    dropped("a head that ends with the connection", "9112 8", "GET /ok HTTP/1.1\r\nHost: a.test\r\n", over="tcp", shut=True),
]

ROWS = HOSTS + NAMES + VALUES + CONNECTION + MEANING + PIPELINED
