"""C32: an origin that ends its connection without close_notify: what was complete is complete, what was cut is cut."""
import h2
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
def in_clear_text_it_is_the_same(t):
    half = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + b"x" * 50
    open_chunk = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
    to_close = b"HTTP/1.1 200 OK\r\n\r\nall of it"
    for answer, how, whole in ((half, "fin", False), (half, "rst", False), (open_chunk, "fin", False), (open_chunk, "rst", False),
                               (response(200, "x" * 100), "fin", True), (to_close, "fin", True), (to_close, "rst", False)):
        r, _ = onehost.through(t, '''
            c = tcp("a.test")
            a = c.get("/ok")
            report(a.status, a.whole, c.ended, a.header("transfer-encoding"))
        ''', answer=[answer, ("sleep", 0.1), ("close", how)], clear=True)
        tap.equal(r.reports[0][:2], [200, whole], "%r %s: %s" % (answer[:60], how, r.reports))
        if not whole:
            tap.equal(r.outcomes()[0]["code"], "upstream-truncated")
            # chunks say by themselves that there is no end; nothing else does in clear text
            tap.ok(r.reports[0][2] == "reset" or r.reports[0][3] == "chunked", r)
    r, _ = onehost.through(t, '''
        c = tcp("a.test")
        c.send("GET /ok HTTP/1.0\\r\\nHost: a.test\\r\\n\\r\\n")
        a = c.answer()
        report(a.status, a.whole, a.body.decode(), c.ended)
    ''', answer=[open_chunk, ("sleep", 0.1), ("close", "fin")], clear=True)
    tap.equal(r.reports, [[200, False, "hello", "reset"]])


@tap.test
def an_upload_that_is_cut_never_looks_whole(t):
    """The other way: however the client ends in the midst of a body, the origin is not told of an end."""
    h2.needed()
    ends = '''
        seen = {"begun": 0, "cut": 0}
        def origin(what):
            """Waits until the origin has met one more of these."""
            seen[what] += 1
            late = time.monotonic() + 30
            while int(asks.get("/ok/" + what).body) < seen[what] and time.monotonic() < late:
                spin(0.01)
        BODIES = (("Content-Length: 100", "x" * 50), ("Transfer-Encoding: chunked", "5\\r\\nhello\\r\\n"),
                  ("Transfer-Encoding: chunked", "5\\r\\nhel"), ("Transfer-Encoding: chunked", "5\\r\\nhello\\r\\n0\\r\\n"))
        def cut(c, end, framing, body):
            c.send("POST /ok HTTP/1.1\\r\\nHost: a.test\\r\\n%s\\r\\n\\r\\n%s" % (framing, body))
            origin("begun")
            end(c)
        def close_notify(c):
            c.sock.settimeout(0.3)
            try:
                c.sock.unwrap()
            except OSError:
                pass
            c.sock.close()
        def fin(c):
            socket.socket.shutdown(c.sock, socket.SHUT_WR)
            origin("cut")
            seen["cut"] -= 1
            c.sock.close()
        def rst(c):
            c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            c.sock.close()
    '''
    tls_code = [h2.CLIENT, ends, '''
        asks = tls("a.test")
        for end in (close_notify, fin, rst):
            for framing, body in BODIES:
                cut(tls("a.test"), end, framing, body)
                origin("cut")
            for fields in ([("content-length", "100")], []):
                c = h2("a.test")
                c.data(c.request("/ok", "POST", end=False, fields=fields), b"x" * 50)
                origin("begun")
                end(c.c)
                origin("cut")
        c = h2("a.test")
        for fields in ([("content-length", "100")], []):
            s = c.request("/ok", "POST", end=False, fields=fields)
            c.data(s, b"x" * 50)
            origin("begun")
            c.reset(s)
            origin("cut")
        report(c.settle())
    ''']
    clear_code = [ends, '''
        asks = tcp("a.test")
        for end in (fin, rst):
            for framing, body in BODIES:
                cut(tcp("a.test"), end, framing, body)
                origin("cut")
    ''']
    for code, count, clear in ((tls_code, 20, False), (clear_code, 8, True)):
        whole, met = [], {"begun": 0, "cut": 0}

        def answer(connection, request, whole=whole, met=met):
            if request.method == "GET":
                return response(200, str(met[request.target.split("/")[2]]))
            met["begun"] += 1
            try:
                connection.read_body(request)
            finally:
                met["cut"] += 1
            whole.append(request.head)
            return response(200, "ok")
        r, _ = onehost.through(t, code, answer=answer, clear=clear)
        tap.equal((whole, met), ([], {"begun": count, "cut": count}))
        posts = {v["id"] for v in r.verdicts(method="POST")}
        tap.equal([o.get("status") == 200 for o in r.outcomes() if o["id"] in posts], [False] * count)


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
        tap.eventually(lambda server=server: [c.ended for c in server.connections] == ["eof"], message="the upstream's end was another")


tap.main()
