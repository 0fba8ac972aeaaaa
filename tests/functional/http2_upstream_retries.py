"""A server of HTTP/2 that gives a request or the connection up: what is said again, and what is not."""
import struct

import h2
import tap
from h2server import DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, OK, RST_STREAM, WINDOW_UPDATE
from h2upstream import against

h2.needed(tap.skip_all)


@tap.test
def a_refused_stream_is_tried_again_on_a_new_connection(t):
    def serve(f, number):
        while True:
            stream = f.request()
            if number == 0:
                f.frame(RST_STREAM, 0, stream, struct.pack(">I", 7))
            else:
                f.answer(stream)
    r, server = against(t, serve, '''
        c = h2("a.test")
        report(c.get("/ok/1", method="POST").status)
        report(c.post("/ok/2", b"abc", fields=[("content-length", "3")]).status)
    ''')
    tap.equal(r.reports, [200] * 2)
    tap.equal(server.count, 3)


@tap.test
def a_stream_behind_a_goaway_is_tried_again(t):
    def serve(f, number):
        f.answer(f.request())
        while number > 0:
            f.answer(f.request())
        f.frame(GOAWAY, 0, 0, struct.pack(">II", f.request() - 2, 0))
    r, server = against(t, serve, '''
        c = h2("a.test")
        for i in range(1, 6):
            report(c.post("/ok/%d" % i, b"abc", fields=[("content-length", "3")]).status)
    ''')
    tap.equal(r.reports, [200] * 5)
    tap.equal(server.count, 2)


@tap.test
def what_goes_out_as_the_server_ends_the_connection_without_a_goaway_is_repeated_where_that_does_no_harm(t):
    # RFC 9113, 8.7, and RFC 9110, 9.2.2: of a POST nobody knows whether it was acted on, and the reason says so.
    streams = []
    def serve(f, number):
        streams.append((number, f.request()))
        f.answer(streams[-1][1])
        streams.append((number, f.request()))
        if number < 3:
            f.connection.close("fin" if number else "rst")
            return
        f.answer(streams[-1][1])
    r, _ = against(t, serve, '''
        c = h2("a.test")
        def post():
            return c.post("/ok/post", b"abc", fields=[("content-length", "3"), ("accept", "application/json")])
        report(post().status)
        a = post()
        report(a.status, a.body.decode())
        report(c.get("/ok/1").status)
        a = post()
        report(a.status, a.body.decode())
        report(c.get("/ok/2").status, c.get("/ok/3").status, c.get("/ok/4").status)
    ''')
    told = "; whether it has acted on the request is not known, so it was not sent again"
    tap.equal([r.reports[0], r.reports[2], r.reports[4]], [200, 200, [200] * 3])
    for status, text in (r.reports[1], r.reports[3]):
        tap.equal(status, 502)
        tap.contains(text, "the upstream ended the connection" + told)
    tap.equal([o["reason"] for o in r.events("outcome", code="upstream-closed")], ["the upstream ended the connection" + told] * 2)
    tap.equal([number for number, _ in streams], [0, 0, 1, 1, 2, 2, 3, 3])


@tap.test
def a_second_try_has_what_came_between_the_failure_and_it(t):
    """A body that comes while its connection breaks goes whole on the next one, and is no other's."""
    bodies = [bytes(range(65, 91)) * 40] * 60
    def serve(f, number):
        body, stream = b"", 0
        while True:
            kind, flags, of, payload = f.read()
            if kind == HEADERS and stream:
                f.connection.close("rst")
                return
            stream = of
            body += payload if kind == DATA else b""
            if flags & END_STREAM:
                f.answer(stream, body=body)
    r, server = against(t, serve, '''
        c = h2("a.test")
        for body in %r:
            s = c.request("/ok", method="PUT", end=False, fields=[("content-length", str(len(body)))])
            for i in range(0, len(body), 20):
                c.raw(b"".join(c.packed(DATA, int(k == len(body) - 1), s, body[k:k + 1]) for k in range(i, i + 20)))
            a = c.answer(s)
            report(a.status, a.body == body)
    ''' % (bodies,))
    tap.equal(r.reports, [[200, True]] * len(bodies))
    tap.ok(server.count > len(bodies) // 2, server.count)


@tap.test
def a_connection_that_breaks_takes_its_streams_and_nothing_else(t):
    def serve(f, number):
        stream = f.request()
        if number == 0:
            f.frame(HEADERS, END_HEADERS, stream, OK)
            f.frame(DATA, 0, stream, b"half")
            f.request()
            f.connection.close("rst")
            return
        f.answer(stream)
        while True:
            f.answer(f.request())
    r, _ = against(t, serve, '''
        c = h2("a.test")
        first = c.request("/ok/1")
        while c.answers[first].body != b"half" and c.read():
            pass
        second = c.request("/ok/2")
        a = c.answer(first)
        report(a.status, a.body.decode(), a.whole, a.reset)
        report(c.answer(second).status, c.get("/ok/3").status)
    ''')
    tap.equal(r.reports, [[200, "half", False, 2], [200, 200]])
    tap.equal(r.events("outcome", code="upstream-truncated")[0]["received"], 4)


HTTP_1_1_REQUIRED = 13


def asked_by_http1(server):
    return [(r.method, r.target, r.body) for r in server.requests]


@tap.test
def a_server_that_wants_http1_for_a_request_gets_it_so_and_those_that_follow(t):
    # RFC 9113, 7: as IIS where it wants a client's certificate or NTLM; other names' connections are no matter of it
    def serve(f, number):
        f.answer(f.request())
        f.frame(RST_STREAM, 0, f.request(), struct.pack(">I", HTTP_1_1_REQUIRED))
        while True:
            f.answer(f.request(), body=b"by HTTP/2")
    r, server = against(t, serve, '''
        c = h2("a.test")
        report([c.get("/ok/0").body.decode()] + [c.post("/ok/%d" % i, b"body %d" % i).body.decode() for i in range(1, 4)])
    ''')
    tap.equal(r.reports, [["ok", "body 1", "body 2", "body 3"]])
    tap.equal(server.count, 1)
    tap.equal(asked_by_http1(server), [("POST", "/ok/%d" % i, b"body %d" % i) for i in range(1, 4)])
    tap.equal([o for o in r.outcomes() if "code" in o], [])


@tap.test
def a_server_that_ends_a_connection_since_it_wants_http1_gets_it_so(t):
    # behind the last stream that the GOAWAY names nothing was acted on; of what is before it that is not known
    for acted_on, method, get in ((False, "POST", 'c.post("/ok/1", b"body")'), (True, "GET", 'c.get("/ok/1")')):
        def serve(f, _number):
            stream = f.request()
            f.frame(GOAWAY, 0, 0, struct.pack(">II", stream if acted_on else 0, HTTP_1_1_REQUIRED))
        r, server = against(t, serve, '''
            c = h2("a.test")
            report(%s.status, c.get("/ok/2").status)
        ''' % get)
        tap.equal(r.reports, [[200, 200]])
        tap.equal(server.count, 1)
        tap.equal([q[:2] for q in asked_by_http1(server)], [(method, "/ok/1"), ("GET", "/ok/2")])


@tap.test
def what_can_not_be_said_again_to_a_server_that_wants_http1_fails_with_the_reason(t):
    def serve(f, _number):
        f.frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 20))
        stream, got = f.read()[2], 0
        while got < 100000:     # of a body that is longer than what is kept of it
            got += len(f.read()[3])
        f.frame(RST_STREAM, 0, stream, struct.pack(">I", HTTP_1_1_REQUIRED))
        while True:
            f.read()
    r, server = against(t, serve, '''
        def post(path):
            c = tls("a.test")
            c.pour(b"POST " + path + b" HTTP/1.1\\r\\nHost: a.test\\r\\nContent-Length: 200000\\r\\n\\r\\n" + b"x" * 200000)
            return c.answer().status
        report(post(b"/ok/1"), post(b"/ok/2"))
    ''', settings=struct.pack(">HI", 4, 1 << 20))
    tap.equal(r.reports, [[502, 200]])
    tap.equal([o["reason"] for o in r.events("outcome", code="upstream-closed")],
              ["the upstream reset the stream: HTTP_1_1_REQUIRED; it can't be sent once more, but the next request goes by HTTP/1.1"])
    tap.equal([len(q[2]) for q in asked_by_http1(server)], [200000])


@tap.test
def the_reason_names_the_code_of_a_reset_and_of_a_goaway(t):
    # RFC 9113, 7
    codes = [(2, "INTERNAL_ERROR"), (8, "CANCEL"), (11, "ENHANCE_YOUR_CALM"), (14, "a code that RFC 9113 does not define"),
             (0xffffffff, "a code that RFC 9113 does not define")]
    said = [(kind, struct.pack(">I", code)) for code, _ in codes for kind in (RST_STREAM, GOAWAY)]
    def serve(f, number):
        while True:  # one connection for as long as the proxy likes it: to close it would race with the next request
            stream = f.request()
            kind, code = said.pop(0)
            if kind == GOAWAY:
                return f.frame(GOAWAY, 0, 0, struct.pack(">I", stream) + code)
            f.frame(RST_STREAM, 0, stream, code)
    r, _ = against(t, serve, '''
        c = h2("a.test")
        report([c.post("/ok/%%d" %% i, b"x").status for i in range(%d)])
    ''' % (2 * len(codes)))
    tap.equal(r.reports, [[502] * 2 * len(codes)])
    told = "; whether it has acted on the request is not known, so it was not sent again"
    tap.equal([o["reason"] for o in r.events("outcome", code="upstream-closed")],
              [how + name + told for _, name in codes for how in ("the upstream reset the stream: ", "the upstream ended the connection: ")])


tap.main()
