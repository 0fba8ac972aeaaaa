"""A server of HTTP/2 that says nothing any more: it is sent a PING; who answers that only thinks, and who does not is given up."""
import select
import struct
import subprocess
import time

import netns
netns.enter()

import h2
import tap
from h2server import ACK, END_HEADERS, HEADERS, OK, PING, SETTINGS, WINDOW_UPDATE
from h2upstream import against
from raw import Closed

h2.needed(tap.skip_all)

SHORT = ["--time-limit", "silence=1s"]
LOST = "the upstream says nothing any more, not even to a PING"
UNKNOWN = "; whether it has acted on the request is not known, so it was not sent again"


def until_ping(f):
    """Reads on until a PING comes, which is not answered: its payload."""
    while True:
        kind, flags, _, payload = f.any()
        if kind == PING and not flags & ACK:
            return payload
        if kind == SETTINGS and not flags & ACK:
            f.frame(SETTINGS, ACK, 0)


def mute(f):
    """Takes what comes, and says nothing."""
    try:
        while True:
            f.any()
    except Closed:
        pass


@tap.test
def a_server_that_leaves_a_ping_unanswered_is_given_up_and_what_may_be_sent_again_is(t):
    def serve(f, number):
        f.answer(f.request())
        while number > 0:
            f.answer(f.request(), body=b"again")
        mute(f)
    r, server = against(t, serve, '''
        c = h2("a.test")
        report(c.get("/ok/1").body.decode())
        get = c.request("/ok/2")
        post = c.request("/ok/3", method="POST", end=False, fields=[("content-length", "4")])
        c.data(post, b"body", end=True)
        report(c.answer(get).body.decode(), c.answer(post).status)
        report(c.answers[post].body.decode())
        report(c.get("/ok/4").body.decode())
    ''', flags=SHORT)
    tap.equal(r.reports[:2] + r.reports[3:], ["ok", ["ok", 502], "again"])
    tap.contains(r.reports[2], LOST + UNKNOWN)
    tap.equal([(o["code"], o["reason"]) for o in r.outcomes() if "code" in o], [("upstream-closed", LOST + UNKNOWN)])
    tap.ok(r.events("outcome", code="upstream-closed")[0]["duration_ms"] >= 2900, r.outcomes())
    tap.equal(server.count, 2)


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
        mute(f)
    r, server = against(t, serve, '''
        report(h2("a.test").post("/ok/1", b"abc").status)
    ''', flags=SHORT)
    tap.equal((r.reports, server.count), ([200], 1))


def cut_off(connection):
    """Nothing passes on this connection any more, in neither direction, and nobody is told."""
    ours, theirs = connection.sock.getsockname()[1], connection.sock.getpeername()[1]
    rules = "".join("add rule inet test out tcp sport %d tcp dport %d drop\n" % ports for ports in ((ours, theirs), (theirs, ours)))
    subprocess.run(["nft", "-f", "-"], check=True, text=True, input=rules)


@tap.test
def a_connection_whose_way_has_gone_without_a_word(t):
    # as where a NAT has forgotten it: requests on it, and one in the middle of its answer
    subprocess.run(["nft", "-f", "-"], check=True, text=True,
                   input="table inet test {\n chain out { type filter hook output priority 0; policy accept; }\n}\n")

    def serve(f, number):
        if number > 0:
            while True:
                f.answer(f.request(), body=b"new")
        f.answer(f.request())
        f.frame(HEADERS, END_HEADERS, f.request(), OK)
        f.request()
        cut_off(f.connection)
        mute(f)
    r, server = against(t, serve, '''
        c = h2("a.test")
        report(c.get("/ok/1").body.decode())
        begun = c.request("/ok/2")
        while not c.answers[begun].status and c.read():
            pass
        asked = c.request("/ok/3")
        report(c.answer(asked).body.decode())
        a = c.answer(begun)
        report(a.status, a.whole, a.reset)
        report(c.get("/ok/4").body.decode())
    ''', flags=SHORT)
    tap.equal(r.reports, ["ok", "new", [200, False, 2], "new"])
    tap.equal([(o["code"], o["reason"]) for o in r.outcomes() if "code" in o], [("upstream-truncated", LOST)])
    tap.equal(server.count, 2)


tap.main()
