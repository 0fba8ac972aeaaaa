"""C32: an origin that ends its connection without close_notify: what was complete is complete, what was cut is cut."""
import onehost
import tap
from servers import response

CURL = '''
    for version in ("--http1.1", "--http2"):
        p = subprocess.run(["curl", "-s", version, "https://a.test/ok"], stdout=subprocess.PIPE)
        report(p.returncode, len(p.stdout))
'''


def curl(t, *steps):
    r, _ = onehost.through(t, CURL, answer=[*steps, ("sleep", 0.1), ("close", "abrupt")])
    return r, r.reports


def cut(r, got):
    """By HTTP/1.1: transfer closed with bytes remaining, or a failure to receive; by HTTP/2 the stream is reset."""
    tap.ok(got[0][0] in (18, 56) and got[1][0] == 92, got)
    tap.equal([o["code"] for o in r.outcomes()], ["upstream-truncated"] * 2)


@tap.test
def a_whole_body_of_known_length(t):
    _, got = curl(t, response(200, "x" * 5000))
    tap.equal(got, [[0, 5000]] * 2)


@tap.test
def half_a_body_of_known_length(t):
    r, got = curl(t, b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + b"x" * 2500)
    cut(r, got)


@tap.test
def half_a_chunked_body(t):
    r, got = curl(t, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
    cut(r, got)


@tap.test
def a_body_that_ends_with_the_connection(t):
    r, got = curl(t, b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + b"x" * 2500)
    tap.equal(got, [[0, 2500]] * 2)
    tap.equal([o["code"] for o in r.outcomes()], ["upstream-unclean"] * 2)


@tap.test
def whatever_the_end_a_cut_body_never_looks_whole(t):
    half = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + b"x" * 50
    open_chunk = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
    to_close = b"HTTP/1.1 200 OK\r\n\r\nall of it"
    for answer, how, whole in ((half, "abrupt", False), (half, "fin", False), (half, "rst", False), (open_chunk, "fin", False),
                               (open_chunk, "abrupt", False), (open_chunk, "rst", False), (response(200, "x" * 100), "abrupt", True),
                               (to_close, "fin", True), (to_close, "abrupt", True)):
        r, _ = onehost.through(t, '''
            c = tls("a.test")
            a = c.get("/ok")
            report(a.status, a.whole, len(a.body), c.ended)
        ''', answer=[answer, ("sleep", 0.1), ("close", how)])
        tap.equal(r.reports[0][1], whole, "%r %s: %s" % (answer[:60], how, r.reports))
        if not whole:
            tap.ok(r.reports[0][3] in ("ragged", "reset"), r)
            tap.equal(r.outcomes()[0]["code"], "upstream-truncated")
        elif answer is to_close and how == "abrupt":
            tap.equal(r.outcomes()[0]["code"], "upstream-unclean")


@tap.test
def our_own_ends_are_announced_on_both_sides(t):
    for extra, answer in (("Connection: close\\r\\n", response(200, "ok")), ("", response(200, "ok", [("Connection", "close")]))):
        r, server = onehost.through(t, '''
            c = tls("a.test")
            report(c.get("/ok", extra="%s").status)
            c.rest() if "%s" else c.close()
            report(c.ended)
            spin(0.3)
        ''' % (extra, extra), answer=answer)
        tap.equal(r.reports, [200, "eof" if extra else None])
        tap.equal([c.ended for c in server.connections], ["eof"], "the upstream's end")


tap.main()
