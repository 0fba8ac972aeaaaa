"""HTTP/2 towards servers: chosen by ALPN, each side for itself; heads, bodies, trailers, windows, resets."""
import os
import struct

import h2
import tap
from h2server import ACK, DATA, END_HEADERS, END_STREAM, HEADERS, OK, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE
from h2upstream import against, through

h2.needed(tap.skip_all)


@tap.test
def each_side_chooses_for_itself(t):
    r, server = through(t, '''
        c = h2("a.test")
        report(c.get("/ok/1").body.decode())
        c = tls("a.test")
        a = c.get("/ok/2")
        report(a.body.decode(), a.line, a.header("x-version"), a.header("transfer-encoding"))
        c.send("POST /ok/echo HTTP/1.1\\r\\nHost: a.test\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n"
               "5\\r\\nhello\\r\\n0\\r\\nX-Sum: 5\\r\\n\\r\\n")
        report(c.answer().body.decode())
        c.send("POST /ok/echo HTTP/1.1\\r\\nHost: a.test\\r\\nContent-Length: 5\\r\\n\\r\\nhello")
        report(c.answer().body.decode())
    ''')
    tap.equal(r.reports, ["ok", ["ok", "HTTP/1.1 200 OK", "2.0", "chunked"], "hello", "hello"])
    seen = server.requests(4)
    tap.equal([q["version"] for q in seen], ["2.0"] * 4)
    tap.equal({q["session"] for q in seen}, {1})
    tap.equal({q["headers"][":authority"] for q in seen}, {"a.test"})
    tap.equal(seen[2]["trailers"], {"x-sum": "5"})
    tap.equal(seen[3]["headers"]["content-length"], "5")
    tap.equal([v["protocol"] for v in r.verdicts()], ["h2"] + ["http/1.1"] * 3)
    tap.equal([(o["protocol"], o["upstream_protocol"]) for o in r.outcomes()], [("h2", "h2")] + [("http/1.1", "h2")] * 3)


@tap.test
def heads_are_what_they_were(t):
    r, server = through(t, '''
        c = h2("a.test")
        report(c.get("/ok/%6f?x=%2F&y", fields=[("x-one", "1"), ("cookie", "a=1"), ("te", "trailers"), ("cookie", "b=2")]).status)
        c = tls("a.test")
        report(c.get("/ok", extra="X-Two: 2\\r\\nConnection: x-hop\\r\\nX-Hop: h\\r\\nKeep-Alive: timeout=5\\r\\n").status)
    ''')
    tap.equal(r.reports, [200, 200])
    one, two = server.requests(2)
    tap.equal(one["path"], "/ok/%6f?x=%2F&y")
    tap.equal([one["headers"].get(n) for n in (":scheme", "x-one", "cookie", "te", "host")],
              ["https", "1", "a=1; b=2", "trailers", None])
    tap.equal([two["headers"].get(n) for n in ("x-two", "x-hop", "connection", "keep-alive", "host", "transfer-encoding")],
              ["2"] + [None] * 5)


@tap.test
def a_body_as_long_as_the_servers_window(t):
    """A body as long as the server's window: its end goes with the last byte, since nobody opens a window for no more"""
    def serve(f, _number):
        came = {}
        while True:
            kind, flags, stream, payload = f.read()
            if kind == DATA:
                came[stream] = came.get(stream, 0) + len(payload)
                if came[stream] == 65534:
                    f.frame(HEADERS, END_HEADERS, stream, b"\x08\x03103")
                    f.frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 65535))
                if flags & END_STREAM:
                    f.answer(stream, body=b"%d" % came[stream])
    r, _ = against(t, serve, '''
        c = tls("a.test")
        c.send(b"POST /ok HTTP/1.1\\r\\nHost: a.test\\r\\nContent-Length: 65535\\r\\n\\r\\n" + b"u" * 65534)
        interim = c.until(b"\\r\\n\\r\\n")
        c.send(b"u")
        report(interim.decode()[9:12], c.answer().body.decode())
        c = h2("a.test")
        s = c.request("/ok", method="POST", end=False, fields=[("content-length", "65535")])
        c.push(s, 65534)
        while not c.answers[s].interim and c.read():
            pass
        c.data(s, b"u")
        c.settle()
        c.data(s, b"", end=True)
        a = c.answer(s)
        report(a.interim, a.body.decode())
    ''')
    tap.equal(r.reports, [["103", "65535"], [[103], "65535"]])


@tap.test
def answers_of_every_kind(t):
    r, _ = through(t, '''
        for c, get in ((h2("a.test"), "h2"), (tls("a.test"), "h1")):
            for path, method in (("trailers", "GET"), ("only", "GET"), ("length", "GET"), ("length", "HEAD"), ("interim", "GET"),
                                 ("big", "GET")):
                a = c.get("/ok/" + path, method=method)
                names = dict((n.lower(), v) for n, v in a.headers)
                report(path, a.status, a.body.decode()[:20], len(a.body), names.get("content-length"), a.trailers, a.interim,
                       a.whole, names.get("alt-svc"), names.get("grpc-status"))
    ''')
    wanted = [["trailers", 200, "a body", 6, None, [["x-sum", "7"]], [], True, None, None],
              ["only", 200, "", 0, None, [], [], True, None, "5"],
              ["length", 200, "12345", 5, "5", [], [], True, None, None],
              ["length", 200, "", 0, "5", [], [], True, None, None],
              ["interim", 200, "late", 4, None, [], [103], True, None, None],
              ["big", 200, "x" * 20, 1000000, None, [], [], True, None, None]]
    tap.equal(r.reports[:6], wanted)
    wanted[0][5] = ["x-sum: 7"]
    wanted[1][4] = "0"
    tap.equal(r.reports[6:], wanted)


@tap.test
def many_streams_share_a_connection_and_one_that_waits_stops_no_other(t):
    r, server = through(t, '''
        c = h2("a.test")
        c.get("/ok/first")
        slow = c.request("/ok/slow")
        streams = [c.request("/ok/%d" % i) for i in range(80)]
        report([c.answer(s).status for s in streams] == [200] * 80)
        report(len(c.post("/ok/echo", *[b"x" * 15000] * 4).body))
        c.get("/ok/go")
        report(c.answer(slow).body.decode())
    ''')
    tap.equal(r.reports, [True, 60000, "begun done"])
    tap.equal({q["session"] for q in server.requests(83)}, {1})


@tap.test
def a_download_that_nobody_takes_stops_its_server_and_no_other_stream(t):
    sent = [0]

    def serve(f, _number):
        # as much as the windows are open for; the client takes no more than its own of 65,535 bytes
        big, rooms = 0, {0: 65535}
        while True:
            kind, flags, stream, payload = f.any()
            if kind == WINDOW_UPDATE:
                rooms[stream] = rooms.get(stream, 0) + struct.unpack(">I", payload)[0]
            elif kind == SETTINGS and not flags & ACK:
                initial = struct.unpack(">I", payload[payload.index(b"\0\4") + 2:][:4])[0]
                f.frame(SETTINGS, ACK, 0)
            elif kind == PING and not flags & ACK:
                f.frame(PING, ACK, 0, payload)
            elif kind == HEADERS and not big:
                big, rooms[stream] = stream, initial
                f.frame(HEADERS, END_HEADERS, big, OK)
            elif kind == HEADERS:
                f.answer(stream)
            while big and min(rooms[0], rooms[big]) >= 16384 and sent[0] < 1 << 24:
                f.frame(DATA, 0, big, b"x" * 16384)
                sent[0] += 16384
                rooms[0] -= 16384
                rooms[big] -= 16384
    r, _ = against(t, serve, '''
        c = h2("a.test")
        c.open_windows = False
        big = c.request("/ok/big")
        while len(c.answers[big].body) < 65535:
            c.read()
        c.window(0, 1 << 30)
        report([c.get("/ok/%d" % i).status for i in range(5)], len(c.answers[big].body))
        c.reset(big)
        report(c.settle())
    ''')
    tap.equal(r.reports, [[[200] * 5, 65535], True])
    tap.ok(65535 < sent[0] < 1 << 20, "the server has sent %d bytes" % sent[0])


@tap.test
def an_upload_that_its_server_does_not_take_stalls_no_other_stream_of_its_connections(t):
    # one connection on each side; the server opens the windows of all streams but the first one's, until a fourth GET
    came = []

    def serve(f, number):
        came.append(number)
        got, gets = {}, 0
        while True:
            kind, flags, stream, payload = f.read()
            stalled = min([stream, *got])
            if kind == HEADERS and flags & END_STREAM:
                gets += 1
                f.answer(stream, body=b"got")
                if gets == 4:
                    f.frame(WINDOW_UPDATE, 0, stalled, struct.pack(">I", 1 << 20))
            elif kind == HEADERS:
                got[stream] = 0
            elif kind == DATA:
                got[stream] += len(payload)
                for window in [0] + [stream] * (stream != stalled or gets >= 4) if payload else []:
                    f.frame(WINDOW_UPDATE, 0, window, struct.pack(">I", len(payload)))
                if flags & END_STREAM:
                    f.answer(stream, body=b"%d" % got[stream])
    r, _ = against(t, serve, '''
        c = h2("a.test")
        stalled = c.request("/ok/stalled", method="POST", end=False)
        stuck = c.push(stalled, 200_000_000, 1)
        fast = c.request("/ok/fast", method="POST", end=False)
        c.push(fast, 3_000_000)
        c.data(fast, b"", end=True)
        report(c.answer(fast).body.decode(), 65535 <= stuck < 10_000_000)
        report([c.get("/ok").body.decode() for _ in range(3)], c.answers[stalled].status)
        c.get("/ok/go")
        c.push(stalled, 1_000_000)
        c.data(stalled, b"", end=True)
        report(int(c.answer(stalled).body) == c.sent[stalled])
    ''')
    tap.equal(r.reports, [["3000000", True], [["got"] * 3, 0], True])
    tap.equal(came, [0])


@tap.test
def an_upload_goes_no_faster_than_its_server_takes_it(t):
    over = []

    def serve(f, _number):
        # the windows are opened by a piece when all that they were open for has come, and by then no more has
        stream, got, room, ended = f.read()[2], 0, 65535, 0
        while not ended:
            while got < room and not ended:
                kind, flags, _, payload = f.read()
                got, ended = got + len(payload), kind == DATA and flags & END_STREAM
            over.append(got - room)
            f.frame(PING, 0, 0, b"no more?")
            while not ended and kind != PING:
                kind, _, _, payload = f.any()
                over.append(len(payload) if kind == DATA else 0)
            for of in (0, stream):
                f.frame(WINDOW_UPDATE, 0, of, struct.pack(">I", 100000))
            room += 100000
        f.answer(stream, body=b"%d" % got)
    r, _ = against(t, serve, '''
        p = subprocess.run(["sh", "-c", "head -c 3000000 /dev/zero | curl -sS -T - https://a.test/ok"], capture_output=True)
        report(p.stdout.decode(), p.stderr.decode())
    ''')
    tap.equal(r.reports, [["3000000", ""]])
    tap.ok(len(over) >= 29 and max(over) <= 0, over)


@tap.test
def resets_and_early_answers_of_the_server(t):
    r, _ = through(t, '''
        c = h2("a.test")
        a = c.get("/ok/reset")
        report(a.status, a.body.decode(), a.whole, a.reset)
        s = c.request("/ok/early", method="POST", end=False)
        a = c.answer(s)
        report(a.status, a.body.decode(), a.whole)
        c = tls("a.test")
        a = c.get("/ok/reset")
        report(a.status, a.body.decode(), a.whole)
    ''')
    tap.equal(r.reports, [[200, "half", False, 2], [403, "early", True], [200, "half", False]])


@tap.test
def a_reset_right_behind_the_head_or_a_piece_of_an_answer_takes_neither_away(t):
    # all in one packet, so that exeat hears of it at one go
    def serve(f, _number):
        for body in (b"", b"half"):
            stream = f.request()
            f.connection.send(f.packed(HEADERS, END_HEADERS, stream, OK) + (f.packed(DATA, 0, stream, body) if body else b"") +
                              f.packed(RST_STREAM, 0, stream, struct.pack(">I", 2)))
        f.mute()
    for client in ("h2", "tls"):
        r, _ = against(t, serve, '''
            for _ in range(2):
                a = %s("a.test")
                a = a.get("/ok")
                report(a.status, a.body.decode(), a.whole)
        ''' % client)
        tap.equal(r.reports, [[200, "", False], [200, "half", False]], client)


@tap.test
def what_a_server_does_not_want_any_more_is_not_counted_as_sent(t):
    # the client is told of the reset when it has taken what came before, and sends on until then
    def serve(f, _number):
        stream, got = f.read()[2], 0
        while got < 3:
            got += len(f.read()[3])
        f.frame(HEADERS, END_HEADERS, stream, OK)
        for _ in range(9):
            f.frame(DATA, 0, stream, b"x" * 16384)
        f.answer(f.request())
        other = f.request()
        f.frame(RST_STREAM, 0, stream, struct.pack(">I", 0))
        f.answer(other)
        f.answer(f.request())
        f.mute()
    r, _ = against(t, serve, '''
        c = h2("a.test")
        c.open_windows = False
        s = c.request("/ok/1", method="POST", end=False)
        c.data(s, b"abc")
        while len(c.answers[s].body) < 65535:
            c.read()
        c.window(0, 1 << 20)
        report(c.get("/ok/2").status, c.get("/ok/3").status)
        for _ in range(5):
            c.data(s, b"y" * 10000)
        report(c.get("/ok/4").status)
        c.window(s, 1 << 20)
        a = c.answer(s)
        report(a.status, len(a.body), a.whole)
    ''')
    tap.equal(r.reports, [[200, 200], 200, [200, 9 * 16384, False]])
    tap.equal([o["sent"] for o in r.outcomes() if o.get("code")], [3])


@tap.test
def a_client_that_gives_up_resets_the_stream_and_leaves_the_connection(t):
    r, server = through(t, '''
        c = h2("a.test")
        s = c.request("/ok/slow", method="POST", end=False)
        c.data(s, b"abc")
        while not c.answers[s].body:
            c.read()
        c.reset(s)
        report(c.get("/ok/then").status)
        other = tls("a.test")
        other.send("POST /ok/slow HTTP/1.1\\r\\nHost: a.test\\r\\nContent-Length: 9\\r\\n\\r\\nabc")
        other.until(b"begun")
        other.close()
        late = time.monotonic() + 30
        while c.get("/ok/aborted").body != b"2" and time.monotonic() < late:
            pass
        report(c.get("/ok/again").status)
    ''')
    tap.equal(r.reports, [200, 200])
    seen = server.requests(5)
    tap.equal(sorted(q["path"] for q in seen if q["how"] == "aborted"), ["/ok/slow", "/ok/slow"])
    tap.equal({q["session"] for q in seen}, {1})


VAULT = """credential token
    for     https://a.test
    from    env TOKEN
    inject  bearer
"""


@tap.test
def the_credential_goes_up_and_is_gone_afterwards(t):
    if os.getuid() != 0:
        tap.skip("the memory of confined processes is root's to see")
    r, server = through(t, '''
        c = h2("a.test")
        report([c.get("/ok/%d" % i, fields=[("authorization", "Bearer mine")]).status for i in range(20)])
    ''', policy="allow GET https://a.test/ok** with token\n", vault=VAULT, env={"TOKEN": "SECRET-A"})
    tap.equal(r.reports, [[200] * 20])
    tap.equal({q["headers"]["authorization"] for q in server.requests(20)}, {"Bearer SECRET-A"})


tap.main()
