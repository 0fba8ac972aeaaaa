"""C19: a folded line and a bare CR hide what another parser finds; a token from a file brings no line of its own."""
import os

import exeat
import h2
import onehost
import tap
import work
from pki import Pki
from servers import RawServer

POST = "POST /ok HTTP/1.1\r\nHost: a.test\r\n"


@tap.test
def nothing_hides_in_a_field(t):
    wires = [
        "GET /ok HTTP/1.1\r\nHost: a.test\r\nX: a\r\n Content-Length: 3\r\n\r\n",
        "GET /ok HTTP/1.1\r\nHost: a.test\r\nX: a\r\n\tb\r\n\r\n",
        "GET /ok HTTP/1.1\r\n Host: a.test\r\nHost: a.test\r\n\r\n",
        POST + "X-Abc: \rxTransfer-Encoding: chunked\r\n\r\n1\r\nA\r\n0\r\n\r\n",
        POST + "X-Abc: \rTransfer-Encoding: chunked\r\n\r\n1\r\nA\r\n0\r\n\r\n",
        POST + "X: a\x00b\r\nContent-Length: 0\r\n\r\n",
        POST + "X: a\x01b\r\nContent-Length: 0\r\n\r\n",
        POST + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        POST + "Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n",
        POST + "Transfer_Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + ": x\r\n\r\n",
        POST + "no colon here\r\n\r\n",
    ]
    for clear in (False, True):
        onehost.bad(t, wires, clear=clear)


@tap.test
def nor_in_one_of_http_2(t):
    h2.needed()
    fields = [("x", "a\r\n b"), ("x", "a\r\n\tcontent-length: 3"), ("x", "a\rtransfer-encoding: chunked"), ("x", "a\nb: c"), ("x", "a\0b"), ("x", "a\1b"),
              ("x\r\ny", "a"), ("x\ny", "a"), ("x: a\r\ny", "b"), ("x ", "a"), ("transfer_encoding", "chunked"), ("", "a")]
    r, server = onehost.through(t, [h2.CLIENT, '''
        c = h2("a.test")
        for field in %r:
            report(c.post("/ok", b"a", fields=[field]).status)
        for name in ("method", "path", "authority"):
            for bad in ("\\r\\nX: y", "\\n", "\\r", "\\0", " HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n"):
                s, c.next = c.next, c.next + 2
                good = {"method": "GET", "path": "/ok", "authority": "a.test"}
                good[name] += bad
                c.headers(s, c.pseudo(**good))
                a = c.answer(s)
                report(a.status or "reset")
    ''' % (fields,)])
    tap.equal(r.reports[:len(fields)], [400] * len(fields))
    tap.ok(set(r.reports[len(fields):]) <= {400, "reset"} and len(r.reports) == len(fields) + 15, r.reports)
    tap.equal(server.requests, [])


@tap.test
def nor_in_an_answer(t):
    h2.needed()
    fields = ["X: a\r\n Content-Length: 3", "X: a\r\n\tb", "X: \rTransfer-Encoding: chunked", "X: a\rb", "X: a\x00b", "X: a\x01b", "X : a",
              "Transfer-Encoding\t: chunked", ": a", "no colon here", " X: a"]
    r, _ = onehost.through(t, [h2.CLIENT, '''
        for i in range(%d):
            report(tls("a.test").get("/ok/%%d" %% i).status, h2("a.test").get("/ok/%%d" %% i).status)
    ''' % len(fields)], answer=lambda c, q: ("HTTP/1.1 200 OK\r\n%s\r\nContent-Length: 2\r\n\r\nok" % fields[int(q.target.split("/")[2])]).encode("latin-1"))
    tap.equal(len(r.reports), len(fields))
    for field, got in zip(fields, r.reports):
        tap.equal(got, [502, 502], field)


@tap.test
def framing_is_said_once_and_in_one_way(t):
    onehost.bad(t, [
        POST + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /ok HTTP/1.1\r\nHost: a.test\r\n\r\n",
        POST + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        POST + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
        POST + "Content-Length: 3, 3\r\n\r\nabc",
        POST + "Content-Length: +3\r\n\r\nabc",
        POST + "Content-Length: 0x3\r\n\r\nabc",
        POST + "Content-Length: 3 \r\nContent-Length:\r\n\r\nabc",
        POST + "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        POST + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        POST + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        POST + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        "POST /ok HTTP/1.0\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + "Connection: content-length\r\nContent-Length: 3\r\n\r\nabc",
    ], statuses=(400, 501))


@tap.test
def a_body_s_framing_is_taken_to_the_letter(t):
    """A chunk that two parsers could read differently never reaches the upstream as a whole body."""
    chunks = ["1 \r\na\r\n0\r\n\r\n", "1\na\n0\n\n", "1;x\na\r\n0\r\n\r\n", "+1\r\na\r\n0\r\n\r\n", "0x1\r\na\r\n0\r\n\r\n",
              "1\r\nab\r\n0\r\n\r\n", "10000000000000001\r\na\r\n0\r\n\r\n", "1\r\na\r\n0\r\nX: y\n\r\n", "1\r\na\r\n0\r\nX\r\n\r\n"]
    r, server = onehost.through(t, '''
        for body in %r:
            c = tls("a.test")
            c.send("POST /ok HTTP/1.1\\r\\nHost: a.test\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n" + body)
            a = c.answer()
            c.rest()
            report(body, a.status, c.ended)
    ''' % chunks)
    for body, status, _ in r.reports:
        tap.ok(status in (0, 400, 502), "%r: %r" % (body, status))
    tap.equal([q for q in server.requests if q.body], [])


@tap.test
def trailers_carry_no_routing_and_no_credential(t):
    r, server = onehost.through(t, '''
        c = tls("a.test")
        c.send("POST /ok HTTP/1.1\\r\\nHost: a.test\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n1\\r\\na\\r\\n0\\r\\n"
               "Host: b.test\\r\\nAuthorization: Bearer x\\r\\nX-HTTP-Method-Override: DELETE\\r\\nX-Sum: 1\\r\\nCookie: c\\r\\n\\r\\n")
        report(c.answer().status)
    ''')
    tap.equal(r.reports, [200])
    tap.equal([q.body for q in server.requests], [b"a"])
    sent = bytes(server.connections[0].received)
    tap.ok(sent.endswith(b"0\r\nX-Sum: 1\r\n\r\n"), sent)


VAULT = "credential a\n    for https://a.test\n    from file token\n    inject header X-Token\n"


def run_with(t, token):
    authority = Pki()
    server = t.use(RawServer(tls=authority.leaf("a.test")))
    home = work.folder("home.", user=exeat.as_user(), mode=0o700)
    work.write(os.path.join(home, "token"), token, 0o600, exeat.as_user())
    r = exeat.run("allow GET https://a.test/** with a\n", ["curl", "-sS", "https://a.test/x"], vault=VAULT, home=home,
                  resolve=server.resolve("a.test"), upstream_ca=authority.ca)
    return r, server


@tap.test
def the_final_line_break_is_no_part_of_it(t):
    for end in ("", "\n", "\r\n"):
        r, server = run_with(t, "SECRET-A" + end)
        tap.equal(r.code, 0)
        tap.equal(server.requests[0].header("x-token"), "SECRET-A")
        tap.contains(server.requests[0].head.lower(), b"x-token: secret-a\r\n")


@tap.test
def any_other_starts_nothing(t):
    for token in ("SECRET-A\n\n", "SECRET-A\nX-Evil: 1", "SECRET\r-A", "SECRET-A\r", "\n", "", "SECRET\0-A"):
        r, server = run_with(t, token)
        tap.equal(r.code, 125, repr(token))
        tap.contains(r.err, "credentials:3:10: error: credential 'a': the secret ")
        tap.contains(r.err, "from file token")
        tap.lacks(r.err + r.out, "SECRET")
        tap.equal(server.requests, [])


tap.main()
