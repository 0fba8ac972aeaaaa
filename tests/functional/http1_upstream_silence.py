"""A server of HTTP/1.1 to which nothing comes any more: it is given up when its kernel acknowledges nothing, and only then."""
import fcntl
import struct
import termios
import threading
import time

import netns
netns.enter()

import client
import tap
from pki import Pki
from servers import RawServer, response

pki = Pki()
POLICY = "allow GET,POST https://a.test/ok**\nallow GET https://b.test/ok\n"
SHORT = ["--time-limit", "silence=1s"]
LOST = "the upstream can't be reached any more"
UNKNOWN = "; whether it has acted on the request is not known, so it was not sent again"
SIZE = 48 << 20     # more than all that kernels and proxy take between client and server
# The connection that the client has used is cut off when b.test answers.
CODE = '''
    def cut():
        assert tls("b.test").get("/ok", host="b.test").status == 200
    def begun(length):
        c = tls("a.test")
        c.send(b"POST /ok HTTP/1.1\\r\\nHost: a.test\\r\\nContent-Length: %d\\r\\n\\r\\n" % length)
        return c
'''


def run(t, answer, code, cut=None):
    """`answer` is a.test's; b.test's waits for `cut`."""
    a = t.use(RawServer(answer, tls=pki.leaf("a.test")))
    b = t.use(RawServer([("wait", cut or threading.Event()), response(200)], tls=pki.leaf("b.test")))
    return client.run(POLICY, [CODE, code], resolve=[a.resolve("a.test"), b.resolve("b.test")], upstream_ca=pki.ca, flags=SHORT)


def received(sock):
    """Until the other side's kernel has all that was sent."""
    tap.eventually(lambda: struct.unpack("i", fcntl.ioctl(sock, termios.TIOCOUTQ, b"\0" * 4))[0] == 0)


@tap.test
def a_server_that_is_there_may_think_for_as_long_as_it_likes(t):
    r = run(t, [("body",), ("sleep", 5), response(200, "thought")], '''
        report(tls("a.test").get("/ok").body.decode())
    ''')
    tap.equal(r.reports, ["thought"])
    tap.ok(r.outcomes()[-1]["duration_ms"] > 5000, r.outcomes())


@tap.test
def a_server_that_is_there_may_read_nothing_for_a_while(t):
    r = run(t, [("sleep", 8), ("body",), response(200, "read")], '''
        c = begun(%d)
        c.timeout(60)
        c.pour(b"x" * %d)
        report(c.answer().body.decode())
    ''' % (SIZE, SIZE))
    tap.equal((r.reports, r.outcomes()[-1]["sent"]), (["read"], SIZE))


@tap.test
def an_idle_connection_whose_way_has_gone_without_a_word(t):
    # what may be said twice is sent again
    cut = threading.Event()

    def answer(connection, _request):
        if cut.is_set():
            return response(200, "new")
        connection.send(response(200, "old", headers=[("Keep-Alive", "timeout=60")]))
        received(connection.sock)
        netns.cut_off(connection.sock)
        cut.set()
        return None
    r = run(t, answer, '''
        c = tls("a.test")
        report(c.get("/ok/1").body.decode())
        cut()
        report(c.get("/ok/2").body.decode())
    ''', cut)
    tap.equal(r.reports, ["old", "new"])
    tap.ok(r.outcomes()[-1]["duration_ms"] >= 2000, r.outcomes())


@tap.test
def a_request_whose_way_goes_while_it_is_sent(t):
    # what may not be said twice is answered by what is known of it
    cut = threading.Event()

    def answer(connection, _request):
        netns.cut_off(connection.sock)
        cut.set()
    r = run(t, answer, '''
        c = begun(4)
        cut()
        c.send(b"body")
        a = c.answer()
        report(a.status, a.body.decode())
    ''', cut)
    tap.equal(r.reports[0][0], 502)
    tap.contains(r.reports[0][1], LOST + UNKNOWN)
    tap.equal([(o["code"], o["reason"]) for o in r.outcomes() if "code" in o], [("upstream-closed", LOST + UNKNOWN)])


@tap.test
def the_rest_of_an_upload_that_was_answered(t):
    cut = threading.Event()

    def answer(connection, _request):
        connection.send(response(200, "early"))
        received(connection.sock)
        netns.cut_off(connection.sock)
        cut.set()
    r = run(t, answer, '''
        c = begun(%d)
        a = c.answer()
        report(a.status, a.body.decode())
        cut()
        try:
            c.pour(b"x" * %d)
        except (OSError, AssertionError):
            pass
        tls("b.test").get("/ok", host="b.test")
    ''' % (SIZE, SIZE), cut)
    tap.equal(r.reports, [[200, "early"]])
    tap.equal([(o["status"], o["code"], o["reason"]) for o in r.outcomes() if "code" in o], [(200, "upstream-closed", LOST)])


tap.main()
