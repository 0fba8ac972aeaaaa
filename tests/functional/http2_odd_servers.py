"""Servers of HTTP/2 that do what no rule forbids, and few do."""
import struct

import h2
import tap
from h2server import DATA, END_HEADERS, END_STREAM, HEADERS, OK, PING, RST_STREAM
from h2upstream import against

h2.needed(tap.skip_all)
ENHANCE_YOUR_CALM = 11


def passed_on(f):
    """What was said before is with exeat's client."""
    f.frame(PING, 0, 0, b"is it so")
    while f.any()[:2] != (PING, 1):
        pass


@tap.test
def an_answer_without_a_body_whose_end_comes_by_itself_is_whole(t):
    # as Apache's and nginx's of an empty body; more of them than a client may begin and give up
    heads = {0: b"\x89", 1: OK + b"\x0f\x0d\x010", 2: OK + b"\x0f\x0d\x012", 3: b"\x8b"}    # 204, lengths of 0 and 2, 304

    def serve(f, _number):
        count = 0
        while True:
            stream = f.request()
            f.frame(HEADERS, END_HEADERS, stream, heads[count % 4])
            passed_on(f)
            f.frame(DATA, END_STREAM, stream)
            count += 1
    r, _ = against(t, serve, '''
        c, one = h2("a.test"), tls("a.test")
        for get in [c.get] * 75 + [one.get]:
            said = [get("/ok", method=m) for m in ("GET", "GET", "HEAD", "GET")]
            assert [(a.status, a.whole, a.body) for a in said] == [(n, True, b"") for n in (204, 200, 200, 304)], said
        report(c.settle(), c.goaway)
    ''')
    tap.equal(r.reports, [[True, None]])
    tap.equal([o for o in r.outcomes() if "code" in o], [])


@tap.test
def an_answer_without_a_body_that_breaks_off_is_not_whole(t):
    def serve(f, _number):
        while True:
            stream = f.request()
            f.frame(HEADERS, END_HEADERS, stream, b"\x89")
            passed_on(f)
            f.frame(RST_STREAM, 0, stream, struct.pack(">I", 2))
    r, _ = against(t, serve, '''
        c = h2("a.test")
        a = c.get("/ok")
        report(a.status, a.whole, a.reset)
    ''')
    tap.equal(r.reports, [[204, False, 2]])
    tap.equal([o["code"] for o in r.outcomes()], ["upstream-truncated"])


@tap.test
def a_connection_whose_server_wants_calm_gets_no_more_requests(t):
    # as node's, to all that comes on a connection on which its memory is used up
    def serve(f, number):
        f.answer(f.request())
        while number == 0:
            f.frame(RST_STREAM, 0, f.request(), struct.pack(">I", ENHANCE_YOUR_CALM))
        while True:
            f.answer(f.request())
    r, _ = against(t, serve, '''
        c = h2("a.test")
        report([c.post("/ok", b"x").status for _ in range(4)])
    ''')
    tap.equal(r.reports, [[200, 502, 200, 200]])


if __name__ == "__main__":
    tap.main()
