"""A server of HTTP/2 that says nothing any more: it is sent a PING, and given up when not even its kernel takes that."""
import select
import struct
import time

import netns
netns.enter()

import h2
import tap
from h2server import ACK, DATA, END_HEADERS, HEADERS, OK, PING, SETTINGS, WINDOW_UPDATE
from h2upstream import against

h2.needed(tap.skip_all)

INITIAL_WINDOW_SIZE = 4     # a setting
WIDE = 1 << 28
SIZE = 48 << 20             # more than all that kernels and proxy take between client and server
SHORT = ["--time-limit", "silence=1s"]
LOST = "the upstream can't be reached any more"
UNKNOWN = "; whether it has acted on the request is not known, so it was not sent again"


def until_ping(f):
    """Reads on until a PING comes, which is not answered: its payload."""
    while True:
        kind, flags, _, payload = f.any()
        if kind == PING and not flags & ACK:
            return payload
        if kind == SETTINGS and not flags & ACK:
            f.frame(SETTINGS, ACK, 0)


@tap.test
def a_server_that_is_there_may_leave_a_ping_without_a_word(t):
    # as one does whose only thread computes
    def serve(f, _number):
        f.answer(f.request())
        stream = f.request()
        until_ping(f)
        time.sleep(5)
        f.answer(stream)
        f.mute()
    r, server = against(t, serve, '''
        c = h2("a.test")
        report(c.get("/ok/1").status, c.post("/ok/2", b"abc").status)
    ''', flags=SHORT)
    tap.equal((r.reports, server.count), ([[200, 200]], 1))
    tap.ok(r.outcomes()[-1]["duration_ms"] > 5000, r.outcomes())


@tap.test
def a_server_that_is_there_may_read_nothing_for_a_while(t):
    # its window in TCP is shut, and the PING does not reach it
    def serve(f, _number):
        f.frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", WIDE))
        stream = f.any()[2]
        while stream == 0:
            stream = f.any()[2]
        time.sleep(8)
        got = 0
        while got < SIZE:
            kind, _, _, payload = f.any()
            got += len(payload) if kind == DATA else 0
        f.answer(stream, body=b"%d" % got)
        f.mute()
    r, server = against(t, serve, '''
        c = h2("a.test")
        post = c.request("/ok/1", method="POST", end=False)
        report(c.push(post, %d, seconds=60))
        c.data(post, b"", end=True)
        report(c.answer(post).body.decode())
    ''' % SIZE, settings=struct.pack(">HI", INITIAL_WINDOW_SIZE, WIDE), flags=SHORT)
    tap.equal((r.reports, server.count), ([SIZE, str(SIZE)], 1))


@tap.test
def a_server_that_answers_pings_may_think_for_as_long_as_it_likes_and_is_not_asked_again(t):
    # servers of gRPC end a connection for the third PING within five minutes each ("too_many_pings")
    came = []

    def serve(f, _number):
        stream = f.request()
        payload = until_ping(f)
        f.frame(PING, ACK, 0, payload)
        if select.select([f.connection.sock], [], [], 6)[0]:    # longer than all of the silence that is borne
            came.append(f.any())
        f.answer(stream)
        while True:
            f.answer(f.request())
    r, server = against(t, serve, '''
        c = h2("a.test")
        report(c.post("/ok/1", b"abc").status, c.get("/ok/2").status)
    ''', flags=SHORT)
    tap.equal((r.reports, came, server.count), ([[200, 200]], [], 1))
    tap.ok(r.outcomes()[0]["duration_ms"] > 6000, r.outcomes())


@tap.test
def anything_that_comes_is_a_sign_of_life(t):
    def serve(f, _number):
        stream = f.request()
        for i in range(5):
            if i == 0:
                until_ping(f)
            f.frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1))
            time.sleep(0.8)
        f.answer(stream)
        f.mute()
    r, server = against(t, serve, '''
        report(h2("a.test").post("/ok/1", b"abc").status)
    ''', flags=SHORT)
    tap.equal((r.reports, server.count), ([200], 1))


@tap.test
def a_connection_whose_way_has_gone_without_a_word(t):
    # as where a NAT has forgotten it: requests on it, and one in the middle of its answer
    def serve(f, number):
        if number > 0:
            while True:
                f.answer(f.request(), body=b"new")
        f.answer(f.request())
        f.frame(HEADERS, END_HEADERS, f.request(), OK)
        f.request()
        f.request()
        netns.cut_off(f.connection.sock)
        f.mute()
    r, server = against(t, serve, '''
        c = h2("a.test")
        report(c.get("/ok/1").body.decode())
        begun = c.request("/ok/2")
        while not c.answers[begun].status and c.read():
            pass
        asked = c.request("/ok/3")
        post = c.request("/ok/5", method="POST", end=False, fields=[("content-length", "4")])
        c.data(post, b"body", end=True)
        report(c.answer(asked).body.decode())
        report(c.answer(post).status, c.answer(post).body.decode())
        a = c.answer(begun)
        report(a.status, a.whole, a.reset)
        report(c.get("/ok/4").body.decode())
    ''', flags=SHORT)
    tap.equal(r.reports[:2] + r.reports[3:], ["ok", "new", [200, False, 2], "new"])
    tap.equal(r.reports[2][0], 502)
    tap.contains(r.reports[2][1], LOST + UNKNOWN)
    tap.equal({(o["code"], o["reason"]) for o in r.outcomes() if "code" in o},
              {("upstream-truncated", LOST), ("upstream-closed", LOST + UNKNOWN)})
    tap.equal(server.count, 2)


tap.main()
