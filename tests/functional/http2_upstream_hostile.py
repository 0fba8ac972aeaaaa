"""Servers of HTTP/2 that answer in a malformed way, break the rules or only make work: what becomes of it, and what is told."""
import struct

import h2
import tap
from h2server import (ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, OK, PING, PRIORITY, RST_STREAM, SETTINGS,
                      WINDOW_UPDATE)
from h2upstream import against

h2.needed(tap.skip_all)


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
        while f.connection.recv():
            pass
        ended.append(stream)
    r, _ = against(t, serve, '''
        c = h2("a.test")
        first, second = (c.request("/ok/%d" % i, method="POST") for i in (1, 2))
        report(c.answer(first).status, c.answer(second).status)
    ''')
    tap.equal(r.reports, [[502, 502]])
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
def interim_heads_have_an_end(t):
    def serve(f, number):
        stream = f.request()
        try:
            while number == 0:
                f.frame(HEADERS, END_HEADERS, stream, b"\x08\x03103")
        except Exception:  # pylint: disable=broad-except
            return
        f.answer(stream)
    r, server = against(t, serve, """
        c = h2("a.test")
        first = c.get("/ok", method="POST")
        report(first.status, set(first.interim) == {103}, len(first.interim) <= 32, c.get("/ok").status)
    """)
    tap.equal((r.reports, server.count), ([[502, True, True, 200]], 2))
    tap.equal([o["reason"] for o in r.outcomes(status=502)], ["the upstream's answer is malformed: too many interim answers (1xx), or too long ones"])


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
            f.frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 3))
            f.frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", 3))
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


tap.main()
