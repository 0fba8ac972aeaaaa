"""Time limits: who stops in the middle of its part is ended, by a record that says which part; who only thinks for long
is not. Each limit is set short (--time-limit) and the others are left long, so that no other can have ended it."""
import time

import client
import exeat
import h2
import onehost
import tap
from raw import Listener
from servers import RawServer, SinkServer, response

# Inside: how long until the connection ends, or None.
HELPERS = '''
    def until_end(c, most=25):
        began = time.monotonic()
        c.timeout(most)
        while c.recv():
            pass
        return None if c.ended == "timeout" else round(time.monotonic() - began, 1)

    def drip(c, data, gap=0.2):
        """One byte after the other, until nobody takes them; how long that took."""
        began = time.monotonic()
        c.timeout(gap)
        try:
            for byte in data:
                c.send(bytes([byte]))
                if not c.recv() and c.ended != "timeout":
                    break
                c.ended = None
        except OSError:
            pass
        return round(time.monotonic() - began, 1)
'''


def limited(t, code, *limits, answer=response(200, "ok"), **options):
    flags = [x for limit in limits for x in ("--time-limit", limit)]
    parts = [HELPERS] + ([code] if isinstance(code, str) else code)
    return onehost.through(t, parts, answer=answer, flags=flags,
                           policy="allow * https://a.test/ok**\nallow * http://a.test/ok**\n", **options)


def around(seconds, got, message=""):
    """The limit, or a while later on a busy machine."""
    tap.ok(got is not None and seconds - 0.3 <= got <= seconds + 20, "%s %r s, wanted %r" % (message, got, seconds))


def denials(r):
    return sorted(v["code"] for v in r.verdicts(verdict="deny"))


# ---- the beginning ----

@tap.test
def first_bytes_and_a_handshake(t):
    r, _ = limited(t, '''
        out, bio = ssl.MemoryBIO(), ssl.MemoryBIO()
        try:
            ssl.create_default_context().wrap_bio(bio, out, server_hostname="a.test").do_handshake()
        except ssl.SSLWantReadError:
            pass
        hello = out.read()
        for first in (b"GE", hello[:3], hello[:60], hello):
            c = tcp("a.test", 443)
            c.send(first)
            report(until_end(c))
        report(drip(tcp("a.test", 443), hello))
    ''', "handshake=1s")
    for got in r.reports:
        around(1, got)
    tap.equal(denials(r), ["handshake-timeout"] * 5)
    for d in r.verdicts(verdict="deny"):
        tap.contains(d["reason"], " within 1s (--time-limit handshake)")


@tap.test
def heads_that_come_byte_by_byte(t):
    r, _ = limited(t, '''
        head = b"GET /ok HTTP/1.1\\r\\nHost: a.test\\r\\n" + b"X: y\\r\\n" * 20
        for c in (tls("a.test"), tcp("a.test")):
            c.send(head[:10])
            report(drip(c, head[10:]))
        c = tls("a.test")
        report(c.get("/ok").status)
        report(drip(c, head))
    ''', "head=1s")
    tap.equal(r.reports.pop(2), 200)
    for got in r.reports:
        around(1, got)
    tap.equal(denials(r), ["head-timeout"] * 3)
    tap.equal({d["reason"] for d in r.verdicts(verdict="deny")}, {"the request's head did not end within 1s (--time-limit head)"})


@tap.test
def a_hundred_slow_heads_at_once_keep_nobody_waiting(t):
    r, server = limited(t, '''
        slow = [tls("a.test") for _ in range(100)]
        for c in slow:
            c.send("GET /ok HTTP/1.1\\r\\nHost: a.test\\r\\n")
        c = tls("a.test")
        began = time.monotonic()
        report(sum(c.get("/ok").status == 200 for _ in range(20)), time.monotonic() - began)
        report(sum(until_end(c) is not None for c in slow))
        report(tls("a.test").get("/ok").status)
    ''', "head=8s", timeout=90)
    tap.equal((r.reports[0][0], r.reports[1:]), (20, [100, 200]))
    tap.ok(r.reports[0][1] < 8, r.reports)
    tap.equal(denials(r), ["head-timeout"] * 100)
    tap.equal(len(server.requests), 21)


@tap.test
def an_idle_connection(t):
    r, _ = limited(t, '''
        c = tls("a.test")
        report(c.get("/ok").status)
        report(until_end(c), c.ended)
        report(until_end(tcp("a.test")))
    ''', "idle=1s")
    tap.equal((r.reports[0], r.reports[1][1]), (200, "eof"))
    around(1, r.reports[1][0])
    around(1, r.reports[2])
    tap.equal(denials(r), [])


# ---- bodies and answers ----

@tap.test
def a_body_that_stops(t):
    r, server = limited(t, '''
        for framing in ("Content-Length: 10\\r\\n\\r\\nabc", "Transfer-Encoding: chunked\\r\\n\\r\\n3\\r\\nabc\\r\\n"):
            c = tls("a.test")
            c.send("POST /ok HTTP/1.1\\r\\nHost: a.test\\r\\n" + framing)
            report(until_end(c))
    ''', "body=1s")
    for got in r.reports:
        around(1, got)
    tap.equal([(o["code"], o["reason"]) for o in r.outcomes()], [("client-timeout", "the client sent no more of its request for 1s (--time-limit body)")] * 2)
    tap.equal([q.body for q in server.requests], [b"", b""])


@tap.test
def an_answer_that_nobody_takes(t):
    r, _ = limited(t, '''
        c = tls("a.test")
        c.send("GET /ok HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n")
        time.sleep(8)
        report(len(c.rest()) < 64 << 20, c.ended != "timeout")
    ''', "body=1s", answer=response(200, "x" * (64 << 20)))
    tap.equal(r.reports, [[True, True]])
    tap.equal([(o["code"], o["reason"]) for o in r.outcomes()], [("client-timeout", "the client took no more of its answer for 1s (--time-limit body)")])
    tap.ok(r.outcomes()[0]["duration_ms"] < 7500, r.outcomes())


@tap.test
def who_only_takes_its_time_is_not_ended(t):
    large = response(200, "x" * (48 << 20))

    def think(connection, request):
        if request.target.endswith("slow"):
            time.sleep(4)
        return large if request.target.endswith("large") else response(200, request.target)
    r, server = limited(t, '''
        c = tls("a.test")
        report(c.get("/ok/slow").body.decode(), c.get("/ok/then").body.decode())
        time.sleep(4)
        report(c.get("/ok/idle").status)
        c.send("POST /ok HTTP/1.1\\r\\nHost: a.test\\r\\nContent-Length: 10\\r\\n\\r\\n")
        for _ in range(5):
            time.sleep(1.1)
            c.send("xx")
        report(c.answer().status)
        c.send("GET /ok/large HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n")
        c.until(b"\\r\\n\\r\\n")
        for _ in range(20):
            time.sleep(0.3)
            c.exactly(1 << 20)
        report(sum(len(c.exactly(1 << 20)) for _ in range(28)))
    ''', "head=3s", "handshake=3s", "body=5s", answer=think)
    tap.equal(r.reports, [["/ok/slow", "/ok/then"], 200, 200, 28 << 20])
    tap.equal(len(server.requests), 5)
    tap.equal(denials(r) + [o for o in r.outcomes() if o.get("code")], [])


@tap.test
def an_upstream_that_is_silent_or_stops(t):
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"
    answers = {"silent": [("sleep", 8)], "half": [b"HTTP/1.1 200 OK\r\nContent-", ("sleep", 8)], "stops": [head + b"abc", ("sleep", 8)]}

    def one(connection, request):
        for step in answers[request.target.split("/")[2]]:
            RawServer._step(connection, request, step)  # pylint: disable=protected-access
    r, _ = limited(t, '''
        for name in ("silent", "half", "stops"):
            c = tls("a.test")
            began = time.monotonic()
            a = c.get("/ok/" + name)
            took = time.monotonic() - began
            id = a.header("X-Exeat-Decision") if a.status == 504 else None
            why = tcp("exeat.internal").get("/why/" + id, host="exeat.internal").body.decode() if id else ""
            report(a.status, a.whole, round(took, 1), why)
    ''', "answer=1s", answer=one)
    tap.equal([x[:2] for x in r.reports], [[504, True], [504, True], [200, False]])
    for got in r.reports:
        around(1, got[2])
    for got, outcome in zip(r.reports[:2], r.outcomes()):
        tap.contains(got[3], outcome["reason"])
    tap.equal([(o["code"], o["reason"]) for o in r.outcomes()],
              [("upstream-timeout", "nothing of the upstream's answer came for 1s (--time-limit answer)"),
               ("upstream-timeout", "the upstream began its answer, and no more of its head came for 1s (--time-limit answer)"),
               ("upstream-timeout", "after 3 bytes of the answer's body no more came from the upstream for 1s (--time-limit answer)")])


class Dripping(Listener):
    """Its ServerHello comes byte by byte, and never all of it."""

    def serve(self, connection):
        for byte in b"\x16\x03\x03\x40\x00" + b"\x02" * 300:
            connection.send(bytes([byte]))
            time.sleep(0.1)


@tap.test
def an_upstream_whose_handshake_does_not_end(t):
    h2.needed()
    silent, slow = t.use(SinkServer()), t.use(Dripping())
    r = client.run("allow GET https://silent.test/ok\nallow GET https://slow.test/ok\n", [HELPERS, h2.CLIENT, '''
        for host in ("silent.test", "slow.test"):
            c = tls(host)
            began = time.monotonic()
            c.send("GET /ok HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n" % host)
            a = c.answer()
            report(a.status, round(time.monotonic() - began, 1), a.body.decode())
        c = h2("silent.test")
        began = time.monotonic()
        streams = [c.request("/ok", authority="silent.test") for _ in range(3)]
        report([c.answer(s).status for s in streams], round(time.monotonic() - began, 1))
    '''], resolve=[silent.resolve("silent.test"), slow.resolve("slow.test")], flags=["--time-limit", "connect=1s"])
    for status, seconds, body in r.reports[:2]:
        tap.equal(status, 504)
        around(1, seconds)
        tap.contains(body, "within 1 seconds")
    tap.equal(r.reports[2][0], [504] * 3)
    around(1, r.reports[2][1])
    tap.equal([o["code"] for o in r.outcomes()], ["upstream-timeout"] * 5)
    tap.ok(silent.received and len(slow.connections) == 1, "nobody came there")


# ---- HTTP/2 ----

def limited2(t, code, *limits, **options):
    h2.needed()
    return limited(t, [h2.CLIENT, code], *limits, **options)


@tap.test
def http_2_without_a_preface_or_a_word_on_settings(t):
    r, _ = limited2(t, '''
        def mute(*wire):
            c = h2("a.test", start=False)
            c.raw(b"".join(wire))
            began = time.monotonic()
            while True:
                head = c.c.exactly(9)
                if len(head) < 9:
                    return c.goaway, round(time.monotonic() - began, 1)
                payload = c.c.exactly(int.from_bytes(head[:3], "big"))
                if head[3] == GOAWAY:
                    c.goaway = int.from_bytes(payload[4:8], "big")
        c = h2("a.test", start=False)
        settings = c.packed(SETTINGS, 0, 0)
        request = c.packed(HEADERS, END_HEADERS | END_STREAM, 1, c.block(c.pseudo("/ok")))
        c.c.close()
        for wire in ((), (MAGIC[:10],), (MAGIC,), (MAGIC, settings), (MAGIC, settings, request)):
            report(*mute(*wire))
        c = h2("a.test")
        time.sleep(2)
        report(c.get("/ok").status)
    ''', "handshake=1s")
    tap.equal(r.reports.pop(), 200)
    for code, seconds in r.reports:
        around(1, seconds)
        tap.equal(code, 4, "SETTINGS_TIMEOUT")
    tap.equal(denials(r), ["handshake-timeout"] * 5)
    for d in r.verdicts(verdict="deny"):
        tap.contains(d["reason"], " within 1s (--time-limit handshake)")


@tap.test
def http_2_half_a_header_block(t):
    r, server = limited2(t, '''
        c = h2("a.test")
        report(c.get("/ok").status)
        block = c.block(c.pseudo("/ok/half"))
        c.frame(HEADERS, END_STREAM, 3, block[:5])
        began = time.monotonic()
        c.end()
        report(round(time.monotonic() - began, 1))
        c = h2("a.test")
        began = time.monotonic()
        c.raw(c.packed(HEADERS, END_STREAM, 1, block)[:7])  # half a frame's head is no block yet
        c.c.timeout(2)
        c.end()
        report(c.ended == "timeout")
    ''', "head=1s")
    tap.equal((r.reports[0], r.reports[2]), (200, True))
    around(1, r.reports[1])
    tap.equal(denials(r), ["head-timeout"])
    tap.equal([q.target for q in server.requests], ["/ok"])


@tap.test
def http_2_a_body_that_stops_ends_its_stream_alone(t):
    r, server = limited2(t, '''
        c = h2("a.test")
        stalled = c.request("/ok/stalled", "POST", end=False)
        c.data(stalled, b"abc")
        began = time.monotonic()
        others = 0
        while c.answers[stalled].reset is None and time.monotonic() - began < 25:
            others += c.get("/ok/other").status == 200
            time.sleep(0.1)
        report(round(time.monotonic() - began, 1), c.answers[stalled].reset, others > 0)
        report(c.get("/ok/after").status)
    ''', "body=1s")
    around(1, r.reports[0][0])
    tap.equal((r.reports[0][1] is not None, r.reports[0][2], r.reports[1]), (True, True, 200))
    tap.equal([o["code"] for o in r.outcomes() if o.get("code")], ["client-timeout"])
    tap.equal([q.body for q in server.requests if q.target == "/ok/stalled"], [b""])


@tap.test
def http_2_a_window_that_stays_shut_ends_its_stream_alone(t):
    r, _ = limited2(t, '''
        for size in ("small", "large"):
            c = h2("a.test", settings={"window": 0})
            shut = c.request("/ok/" + size)
            began = time.monotonic()
            others = 0
            while c.answers[shut].reset is None and time.monotonic() - began < 25:
                other = c.request("/ok/other")
                c.window(other, 1000)
                others += c.answer(other).status == 200
                time.sleep(0.1)
            report(round(time.monotonic() - began, 1), c.answers[shut].reset, len(c.answers[shut].body), others > 0)
            s = c.request("/ok/other")
            c.window(s, 1000)
            report(c.answer(s).status)
    ''', "body=1s", answer=lambda c, q: response(200, "x" * {"/ok/small": 10, "/ok/large": 1 << 20}.get(q.target, 10)))
    for got, after in (r.reports[:2], r.reports[2:]):
        around(1, got[0])
        tap.ok(got[1] is not None and got[2:] == [0, True] and after == 200, r.reports)
    tap.equal([(o["code"], o["reason"]) for o in r.outcomes() if o.get("code")],
              [("client-timeout", "the client took no more of its answer for 1s (--time-limit body)")])  # the small one had all that it needs of us


@tap.test
def http_2_a_window_that_stays_shut_after_a_request_with_a_body(t):
    r, _ = limited2(t, '''
        c = h2("a.test", settings={"window": 0})
        s = c.request("/ok", "POST", end=False)
        c.data(s, b"abc")
        time.sleep(0.3)                      # the body is being taken
        c.data(s, b"def", end=True)
        began = time.monotonic()
        while c.answers[s].reset is None and time.monotonic() - began < 25:
            c.settle()
            time.sleep(0.1)
        report(round(time.monotonic() - began, 1), c.answers[s].reset is not None, len(c.answers[s].body))
    ''', "body=1s", answer=response(200, "x" * (1 << 20)))
    around(1, r.reports[0][0])
    tap.equal(r.reports[0][1:], [True, 0])
    tap.equal([(o["code"], o["reason"]) for o in r.outcomes()],
              [("client-timeout", "the client took no more of its answer for 1s (--time-limit body)")])


@tap.test
def http_2_a_slow_reader_is_not_ended(t):
    r, _ = limited2(t, '''
        c = h2("a.test", settings={"window": 20000})
        c.open_windows = False
        s = c.request("/ok")
        for _ in range(20):
            time.sleep(0.3)
            c.window(s, 10000)
            c.window(0, 10000)
        c.window(s, 1 << 20)
        c.window(0, 1 << 20)
        a = c.answer(s)
        report(a.status, a.whole, len(a.body))
    ''', "body=4s", answer=response(200, "x" * 500000))
    tap.equal(r.reports, [[200, True, 500000]])


@tap.test
def http_2_a_client_that_reads_nothing_at_all(t):
    r, _ = limited2(t, '''
        c = h2("a.test", settings={"window": (1 << 31) - 1})
        c.window(0, (1 << 31) - 1 - 65535)
        c.request("/ok")
        time.sleep(4)
        c.c.timeout(5)
        c.open_windows = False
        n = 0
        while True:
            data = c.c.recv()
            if not data:
                break
            n += len(data)
        report(n < 64 << 20, c.c.ended)
    ''', "body=1s", answer=response(200, "x" * (64 << 20)))
    tap.ok(r.reports[0][0] and r.reports[0][1] != "timeout", r.reports)
    tap.equal([o["code"] for o in r.outcomes()], ["client-timeout"])


@tap.test
def http_2_idle(t):
    r, _ = limited2(t, '''
        c = h2("a.test")
        report(c.get("/ok").status)
        began = time.monotonic()
        stop = began + 25
        while c.ended is None and time.monotonic() < stop:          # pings keep nothing alive
            c.settle()
            time.sleep(0.1)
        report(c.goaway, round(time.monotonic() - began, 1))
    ''', "idle=1s")
    tap.equal((r.reports[0], r.reports[1][0]), (200, 0))
    around(1, r.reports[1][1])
    tap.equal(denials(r), [])


# ---- the option ----

@tap.test
def a_limit_that_is_none_starts_nothing(_):
    for text in ("", "head", "head=", "head=0s", "head=5", "head=-1s", "head=25h", "head=1.5s", "head=5d", "heads=5s", "linger=5s", "=5s"):
        r = exeat.call("run", "--time-limit", text, "--", "true")
        tap.equal(r.code, 125, text)
        tap.contains(r.err, "the value is empty" if not text else "there are limits for" if text in ("heads=5s", "linger=5s", "=5s") else
                     "a time is written as")


tap.main()
