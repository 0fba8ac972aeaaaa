"""HTTP/2 towards servers: chosen by ALPN, each side for itself; streams, windows, trailers, resets, GOAWAY."""
import os
import struct
import threading
import time

import client
import h2
import tap
import websocket
from h2server import (ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, FrameServer, GOAWAY, HEADERS, NodeServer, OK, PING, PRIORITY,
                      RST_STREAM, SETTINGS, WINDOW_UPDATE)
from pki import Pki

h2.needed(tap.skip_all)
pki = Pki()
POLICY = "allow GET,HEAD,POST,PUT https://a.test/ok**\n"


def through(t, code, policy=POLICY, **options):
    server = t.use(NodeServer(pki.leaf("a.test")))
    r = client.run(policy, [h2.CLIENT] + ([code] if isinstance(code, str) else code), resolve=[server.resolve("a.test")], upstream_ca=pki.ca, **options)
    return r, server


def against(t, serve, code, policy=POLICY, settings=b"", **options):
    server = t.use(FrameServer(serve, settings, tls=pki.leaf("a.test")))
    r = client.run(policy, [h2.CLIENT, code], resolve=[server.resolve("a.test")], upstream_ca=pki.ca, **options)
    tap.equal(server.errors, [])
    return r, server


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
        big = f.request()
        f.frame(HEADERS, END_HEADERS, big, OK)
        f.connection.sock.settimeout(1)
        window = 262144

        def pour():
            while sent[0] + 16384 <= window:
                f.frame(DATA, 0, big, b"x" * 16384)
                sent[0] += 16384
        pour()
        while True:
            f.answer(f.request())
    r, _ = against(t, serve, '''
        c = h2("a.test")
        c.open_windows = False
        big = c.request("/ok/big")
        while len(c.answers[big].body) < 65535:
            c.read()
        c.window(0, 1 << 30)
        time.sleep(0.5)
        report([c.get("/ok/%d" % i).status for i in range(5)], len(c.answers[big].body))
        c.reset(big)
        report(c.settle())
    ''')
    tap.equal(r.reports, [[[200] * 5, 65535], True])
    tap.equal(sent[0], 262144)


@tap.test
def an_upload_that_its_server_does_not_take_stalls_no_other_stream_of_its_connections(t):
    # one connection on each side; the server opens the windows of all streams but the first one's, until a fourth GET
    came = []

    def serve(f, number):
        came.append(number)
        got, gets = {}, 0
        f.connection.sock.settimeout(30)
        while True:
            kind, flags, stream, payload = f.read()
            stalled = min([stream, *got])
            if kind == HEADERS and flags & END_STREAM:
                gets += 1
                f.answer(stream, body=b"got")
                if gets == 4:
                    f.frame(8, 0, stalled, struct.pack(">I", 1 << 20))
            elif kind == HEADERS:
                got[stream] = 0
            elif kind == DATA:
                got[stream] += len(payload)
                for window in [0] + [stream] * (stream != stalled or gets >= 4) if payload else []:
                    f.frame(8, 0, window, struct.pack(">I", len(payload)))
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
    def serve(f, _number):
        kind, flags, stream, payload = f.read()
        got = 0
        while kind != DATA or got < 65535:
            kind, flags, _, payload = f.read()
            got += len(payload)
        time.sleep(1)
        f.connection.sock.settimeout(20)
        while not flags & END_STREAM:
            f.frame(8, 0, 0, struct.pack(">I", max(len(payload), 16384)))
            f.frame(8, 0, stream, struct.pack(">I", max(len(payload), 16384)))
            kind, flags, _, payload = f.read()
            got += len(payload)
        f.answer(stream, body=b"%d" % got)
    r, _ = against(t, serve, '''
        p = subprocess.run(["sh", "-c", "head -c 3000000 /dev/zero | curl -sS -T - https://a.test/ok"], capture_output=True)
        report(p.stdout.decode(), p.stderr.decode())
    ''')
    tap.equal(r.reports, [["3000000", ""]])


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
            time.sleep(0.3)
            f.connection.close("rst")
            return
        f.answer(stream)
        while True:
            f.answer(f.request())
    r, _ = against(t, serve, '''
        c = h2("a.test")
        a = c.get("/ok/1")
        report(a.status, a.body.decode(), a.whole, a.reset)
        report(c.get("/ok/2").status)
    ''')
    tap.equal(r.reports, [[200, "half", False, 2], 200])
    tap.equal(r.events("outcome", code="upstream-truncated")[0]["received"], 4)


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
        time.sleep(0.3)
        report(c.get("/ok/again").status)
    ''')
    tap.equal(r.reports, [200, 200])
    seen = server.requests(4)
    tap.equal(sorted(q["path"] for q in seen if q["how"] == "aborted"), ["/ok/slow", "/ok/slow"])
    tap.equal({q["session"] for q in seen}, {1})


def bad_answers():
    """name, what the server says behind a request"""
    status = b"\x48\x03" # a literal :status follows
    return [
        ("upper case", OK + b"\x00\x01X\x01y"),
        ("a line break", OK + b"\x00\x01x\x03a\nb"),
        ("connection", OK + b"\x00\x0aconnection\x05close"),
        ("no status", b"\x00\x01x\x01y"),
        ("two statuses", OK + OK),
        ("a status of letters", status + b"abc"),
        ("101", status + b"101"),
        ("a pseudo-header field behind", OK + b"\x00\x01x\x01y" + OK),
        ("a request's field", OK + b"\x84"),
        ("a length and more", OK + b"\x0f\x0d\x011"),
    ]


@tap.test
def malformed_answers_are_no_answers(t):
    wanted = bad_answers()

    def serve(f, _number):
        for _name, block in wanted:
            stream = f.request()
            f.frame(HEADERS, END_HEADERS, stream, block)
            f.frame(DATA, END_STREAM, stream, b"body")
        f.answer(f.request())
    r, server = against(t, serve, '''
        c = h2("a.test")
        said = []
        for i in range(%d):
            a = c.get("/ok/%%d" %% i)
            said.append([a.status, a.reset])
        report(said, c.get("/ok/last").status)
    ''' % len(wanted))
    said, last = r.reports[0]
    for (name, _), got in zip(wanted[:-1], said):
        tap.equal(got, [502, None], name)
    # the head was good, and goes before the reset if it came by itself
    tap.ok(said[-1] in ([200, 2], [0, 2]), "%r" % (said[-1],))
    tap.equal(last, 200)


@tap.test
def a_server_that_breaks_the_rules_and_stays_is_left_with_all_of_its_streams(t):
    ended = []

    def serve(f, _number):
        f.request()
        stream = f.request()
        f.frame(HEADERS, END_HEADERS, stream, b"\xff\xff\xff\xff\xff\xff\xff\xff")
        f.connection.sock.settimeout(10)
        while f.connection.recv():
            pass
        ended.append(stream)
    r, _ = against(t, serve, '''
        c = h2("a.test")
        began = time.monotonic()
        first, second = (c.request("/ok/%d" % i, method="POST") for i in (1, 2))
        report([c.answer(first).status, c.answer(second).status], time.monotonic() - began < 20)
    ''')
    tap.equal(r.reports, [[[502, 502], True]])
    tap.eventually(lambda: len(ended) == 1, message="the connection was kept")


@tap.test
def a_server_that_only_makes_work_is_left(t):
    def serve(f, number):
        stream = f.request()
        if number == 0:
            try:
                while True:
                    for _ in range(100):
                        f.frame(PING, 0, 0, b"12345678")
            except Exception:  # pylint: disable=broad-except
                return
        f.answer(stream)
    r, _ = against(t, serve, '''
        c = tls("a.test")
        report(c.get("/ok").status)
        report(c.get("/ok").status)
    ''')
    tap.equal(r.reports[0] in (200, 502) and r.reports[1], 200)


IDLE = ": of no use there may be 2000 frames at once, and 500 a second"
FLOODS = [
    (lambda f, s: f.frame(PING, 0, 0, b"12345678"), "too many PING frames" + IDLE),
    (lambda f, s: f.frame(SETTINGS, 0, 0), "too many SETTINGS frames" + IDLE),
    (lambda f, s: f.frame(DATA, 0, s), "too many empty DATA frames" + IDLE),
    (lambda f, s: f.frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)), "too many WINDOW_UPDATE frames for so little data" + IDLE),
    (lambda f, s: f.frame(PRIORITY, 0, 1, b"\0\0\0\0\1"), "too many PRIORITY frames" + IDLE),
    (lambda f, s: f.frame(GOAWAY, 0, 0, struct.pack(">II", 99, 0)), "too many frames of no meaning" + IDLE),
    (lambda f, s: f.frame(0xb, 0, s, b"x"), "too many frames of unknown types" + IDLE),
    (lambda f, s: f.frame(0xa, 0, 0, b"\0\0clear"), "too many frames of unknown types" + IDLE),
    (lambda f, s: f.frame(CONTINUATION, 0, s), "a header block in more than 7 CONTINUATION frames"),
    (lambda f, s: f.frame(SETTINGS, 0, 0, struct.pack(">HI", 0x99, 1) * 33), "SETTINGS: too many setting entries"),
]


@tap.test
def what_a_server_floods_its_connection_with_is_told(t):
    """In the refusal as in the record: which limit, and how much of it there is."""
    def serve(f, number):
        stream = f.request()
        send, why = FLOODS[number]
        if "DATA" in why:
            f.frame(HEADERS, END_HEADERS, stream, OK)
        elif "CONTINUATION" in why:
            f.frame(HEADERS, 0, stream, OK)
        try:
            while True:
                send(f, stream)
        except Exception:  # pylint: disable=broad-except
            return
    r, _ = against(t, serve, """
        for i in range(%d):
            c = tls("a.test")
            c.send("GET /ok/%%d HTTP/1.1\\r\\nHost: a.test\\r\\nAccept: application/json\\r\\n\\r\\n" %% i)
            report(c.answer().body.decode())
    """ % len(FLOODS), timeout=50)
    for i, (_, why) in enumerate(FLOODS):
        told = "the upstream floods its connection: " + why
        outcome = r.outcome_of(r.verdict(url="https://a.test/ok/%d" % i))
        tap.equal(outcome["reason"], told)
        if outcome["status"] == 502:
            tap.contains(r.reports[i], told)
        else:
            tap.contains(why, "DATA")


@tap.test
def a_server_that_resets_all_it_is_asked_is_told_so(t):
    def serve(f, _number):
        while True:
            f.frame(RST_STREAM, 0, f.request(), struct.pack(">I", 8))
    r, _ = against(t, serve, """
        c = h2("a.test")
        for _ in range(12):  # many at a time: a slow machine would earn them back one by one
            for s in [c.request("/ok", method="POST") for _ in range(50)]:
                c.answer(s)
    """, timeout=50)
    tap.ok(any("too many streams were begun and reset: 200 at once, and 20 a second" in o["reason"] for o in r.outcomes()),
           {o["reason"] for o in r.outcomes()})


@tap.test
def what_rule_a_server_broke_is_told(t):
    def serve(f, _number):
        f.request()
        f.frame(SETTINGS, ACK, 0, b"123456")
        while f.connection.recv():
            pass
    r, _ = against(t, serve, 'report(tls("a.test").get("/ok").status)')
    tap.equal(r.reports, [502])
    tap.equal(r.outcomes()[0]["reason"], "the upstream broke the rules of HTTP/2: FRAME_SIZE_ERROR")


@tap.test
def a_server_that_opens_its_windows_after_each_small_request_is_kept(t):
    # as that of Go did for long; the budget is earned back by what came to its end
    def serve(f, _number):
        while True:
            stream = f.request()
            f.frame(8, 0, 0, struct.pack(">I", 3))
            f.frame(8, 0, stream, struct.pack(">I", 3))
            f.answer(stream)
    r, server = against(t, serve, '''
        c = tls("a.test")
        wire = "POST /ok HTTP/1.1\\r\\nHost: a.test\\r\\nContent-Length: 3\\r\\n\\r\\nabc"
        said = []
        for _ in range(25):
            c.send(wire * 100)
            said += [c.answer().status for _ in range(100)]
        report(said == [200] * 2500)
    ''', timeout=50)
    tap.equal(r.reports, [True])
    tap.equal(server.count, 1)


VAULT = """credential token
    for     https://a.test
    from    env TOKEN
    inject  bearer
"""


@tap.test
def the_credential_goes_up_and_is_gone_afterwards(t):
    if os.getuid() != 0:
        tap.skip("the memory of confined processes is root's to see")
    server = t.use(NodeServer(pki.leaf("a.test")))
    r = client.run("allow GET https://a.test/ok** with token\n", [h2.CLIENT, '''
        c = h2("a.test")
        report([c.get("/ok/%d" % i, fields=[("authorization", "Bearer mine")]).status for i in range(20)])
    '''], resolve=[server.resolve("a.test")], upstream_ca=pki.ca, vault=VAULT, env={"TOKEN": "SECRET-A"})
    tap.equal(r.reports, [[200] * 20])
    tap.equal({q["headers"]["authorization"] for q in server.requests(20)}, {"Bearer SECRET-A"})


# ---- WebSocket ----

TALK = websocket.CLIENT + '''
    class Stream(object):
        """A WebSocket that is a stream of HTTP/2."""
        def __init__(self, c, target):
            self.c = c
            self.s = c.request(target, method="CONNECT", end=False, protocol="websocket",
                               fields=[("sec-websocket-version", "13"), ("x-mine", "1")])
        def head(self):
            while not self.c.answers[self.s].status and self.c.read():
                pass
            return self.c.answers[self.s].status
        def exactly(self, n):
            a = self.c.answers[self.s]
            while len(a.body) < n and not a.whole and a.reset is None and self.c.read():
                pass
            taken, a.body = a.body[:n], a.body[n:]
            return taken
        def send(self, data):
            for at in range(0, len(data), 16000):
                while self.room() < 16000 and self.c.read():
                    pass
                self.c.data(self.s, data[at:at + 16000])
                self.sent = getattr(self, "sent", 0) + len(data[at:at + 16000])
        def room(self):
            return 65535 + self.c.updates.get(self.s, 0) - getattr(self, "sent", 0)
        def rest(self):
            self.c.data(self.s, b"", end=True)
            a = self.c.answer(self.s)
            return [a.whole, len(a.body)]
    class Upgrade(object):
        def __init__(self, c, target):
            self.c = ask(c, target, rest=REST + "X-Mine: 1\\r\\n")
            self.exactly, self.send = self.c.exactly, self.c.send
        def head(self):
            return head(self.c)[0]
        def rest(self):
            self.c.shut()
            return [self.c.rest() == b"", 0]
    def talk(w):
        said = [w.head(), get_frame(w)[1].decode()]
        for n in (0, 5, 125, 126, 5000, 60000):
            payload = bytes(bytearray(i % 251 for i in range(n)))
            w.send(frame(payload))
            said.append(get_frame(w) == (2, payload))
        w.send(frame(b"", 9) + frame(b"bye", 8))
        said += [get_frame(w)[0], get_frame(w), w.rest()]
        return said
'''
TALKED = ["first"] + [True] * 6 + [9, [8, "bye"], [True, 0]]
BOTH = '''
    for w in (Upgrade(tls("a.test"), "/ok/one"), Stream(h2("a.test"), "/ok/two")):
        said = talk(w)
        said[9] = [said[9][0], said[9][1].decode()]
        report(said)
'''
MOVED = 3 * 6 + 5 + 125 + 3 * 14 + 126 + 5000 + 60000 + 2 * 6 + 3 # from the client: a mask in each


def check_websockets(r, seen, kinds):
    """Both clients had the whole talk; the server saw requests of these kinds."""
    tap.equal(r.reports, [[101] + TALKED, [200] + TALKED])
    tap.equal([(q["path"], q["version"], q["method"], q["headers"].get(":protocol")) for q in seen],
              [(path, *kind) for path, kind in zip(("/ok/one", "/ok/two"), kinds)])
    tap.equal([q["headers"].get("x-mine") for q in seen], ["1", "1"])
    tap.equal([("sec-websocket-key" in q["headers"]) for q in seen], [kind[1] == "GET" for kind in kinds])
    tap.equal([v["method"] for v in r.verdicts()][-2:], ["GET", "GET"])
    outcomes = r.outcomes(status=101)
    upstream = "h2+websocket" if kinds[0][1] == "CONNECT" else "http/1.1+websocket"
    tap.equal([(o["protocol"], o["upstream_protocol"]) for o in outcomes],
              [("http/1.1+websocket", upstream), ("h2+websocket", upstream)])
    tap.equal([(o.get("code"), o["sent"]) for o in outcomes], [(None, MOVED)] * 2)
    tap.equal(outcomes[0]["received"], outcomes[1]["received"])


@tap.test
def a_websocket_is_a_stream_where_the_server_takes_extended_connect(t):
    server = t.use(NodeServer(pki.leaf("a.test"), "connect", "only"))
    r = client.run(POLICY, [h2.CLIENT, TALK, BOTH], resolve=[server.resolve("a.test")], upstream_ca=pki.ca)
    check_websockets(r, server.requests(2), [("2.0", "CONNECT", "websocket")] * 2)
    tap.equal({q["session"] for q in server.requests(2)}, {1})


@tap.test
def a_websocket_goes_by_http_1_where_the_server_of_http_2_does_not(t):
    r, server = through(t, [TALK, BOTH])
    check_websockets(r, server.requests(2), [("1.1", "GET", None)] * 2)


@tap.test
def a_websocket_that_a_server_of_http_2_refuses_is_refused(t):
    server = t.use(NodeServer(pki.leaf("a.test"), "connect"))
    r = client.run(POLICY, [h2.CLIENT, TALK, '''
        c = tls("a.test")
        a = ask(c, "/ok/no").answer()
        report(a.status, a.body.decode(), a.header("sec-websocket-accept"))
        c = h2("a.test")
        s = Stream(c, "/ok/no")
        a = c.answer(s.s)
        report(a.status, a.body.decode(), c.get("/ok").status)
    '''], resolve=[server.resolve("a.test")], upstream_ca=pki.ca)
    tap.equal(r.reports, [[403, "not this one", None], [403, "not this one", 200]])


@tap.test
def a_websocket_that_breaks_off_on_either_side_ends_on_the_other(t):
    def serve(f, _number):
        while True:
            kind, _, stream, _ = f.read()
            if kind == HEADERS and stream < 5:
                f.frame(HEADERS, END_HEADERS, stream, OK)
                f.frame(DATA, 0, stream, b"begun")
            if kind == HEADERS and stream < 3:
                time.sleep(0.3)
                f.frame(RST_STREAM, 0, stream, struct.pack(">I", 2))
            if kind == HEADERS and stream >= 5:
                f.answer(stream)
            if kind == RST_STREAM:
                reset.set()
    reset = threading.Event()
    r, _ = against(t, serve, TALK + '''
    w = Upgrade(tls("a.test"), "/ok/one")
    report(w.head(), w.exactly(6).decode(), w.c.ended)
    w = Upgrade(tls("a.test"), "/ok/two")
    report(w.head(), w.exactly(5).decode())
    w.c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    w.c.close()
    time.sleep(0.3)
    report(h2("a.test").get("/ok/three").status)
    ''', settings=b"\0\x08\0\0\0\1")
    tap.equal(r.reports, [[101, "begun", "ragged"], [101, "begun"], 200])
    tap.ok(reset.wait(30), "the stream was not given up")
    tap.equal([o.get("code") for o in r.outcomes(status=101)], ["upstream-truncated", "client-gone"])


if __name__ == "__main__":
    tap.main()
