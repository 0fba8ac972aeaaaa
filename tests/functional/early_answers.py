"""A server may answer before it has read the request, and read on. The client has all then and goes on, or goes away; what it has
sent still comes to the server, whole: by HTTP/1.1 and HTTP/2 on either side."""
import socket
import struct
import threading
import time

import client
import h2
import tap
import websocket
from h2server import DATA, END_HEADERS, END_STREAM, HEADERS, OK, RST_STREAM, WINDOW_UPDATE, FrameServer
from h2upstream import POLICY, pki
from servers import RawServer, response
from raw import Closed

h2.needed(tap.skip_all)


class ByOne:
    """Answers an upload by its head, and reads it when another request has come, which the client sends when all of it was taken;
    one of a given length, which may be more than is taken, a little later."""

    def __init__(self):
        self.got, self.told = [], threading.Event()
        self.server = RawServer(self.answer, tls=pki.leaf("a.test"))

    def answer(self, connection, request):
        if request.target == "/ok/next":
            self.told.set()
            return response(200, "next")
        self.told.clear()
        connection.send(response(200, "early"))
        self.told.wait(1 if request.header("content-length") else 30)
        pieces = []
        try:
            connection.read_body(request, lambda data: pieces.append(len(data)))
            self.got.append(sum(pieces))
        except Closed:
            self.got.append("%s after %d" % (connection.ended, sum(pieces)))
        return None


class ByTwo:
    """The same by frames; it takes all but the last `withheld` bytes, and these when the other request has come. `never`: not even then."""
    SIZE = 2000000

    def __init__(self, withheld, never=False):
        self.got, self.withheld, self.never = [], withheld, never
        self.server = FrameServer(self.serve, b"\0\x08\0\0\0\1", tls=pki.leaf("a.test"))

    def serve(self, f, _number):
        n, upload = 0, None
        f.frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30))
        while True:
            kind, flags, stream, payload = f.read()
            if kind == HEADERS and not flags & END_STREAM:
                upload = stream
                f.frame(HEADERS, END_HEADERS, stream, OK)
                f.frame(DATA, END_STREAM, stream, b"early")
                f.frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", self.SIZE - 65535 - self.withheld))
            elif kind == HEADERS:
                f.answer(stream, body=b"next")
                if upload and not self.never:
                    f.frame(WINDOW_UPDATE, 0, upload, struct.pack(">I", self.withheld))
            elif kind == DATA and stream == upload:
                n += len(payload)
                if flags & END_STREAM:
                    self.got.append(["whole", n])
            elif kind == RST_STREAM and stream == upload:
                self.got.append(["reset %d" % struct.unpack(">I", payload)[0], n])


# All of it was taken where the next request is answered on the same connection.
ONE = '''
    c = tls("a.test")
    c.pour(b"POST /ok HTTP/1.1\\r\\nHost: a.test\\r\\nContent-Length: %(size)d\\r\\n\\r\\n" + b"x" * %(size)d)
    a = c.answer()
    if %(gone)s:
        c.close()
        c = tls("a.test")
    report(a.status, a.body.decode(), a.whole, c.get("/ok/next").body.decode())
    hold()
'''
# What the server does not take yet waits in part for room with exeat, when the stream has ended both ways.
TWO = '''
    c = h2("a.test")
    s = c.request("/ok", method="POST", end=False)
    n = c.push(s, %(size)d)
    c.data(s, b"", end=True)
    a = c.answer(s)
    c.settle()
    if %(gone)s:
        c.c.close()
        c = h2("a.test")
    assert n == %(size)d and a.reset is None, (n, a.reset)
    report(a.status, a.body.decode(), a.whole, c.get("/ok/next").body.decode())
    hold()
'''


def upload(t, up, code, gone=False, **options):
    t.use(up.server)
    r = client.run(POLICY, [h2.CLIENT, code % {"size": up.SIZE, "gone": gone}], resolve=[up.server.resolve("a.test")],
                   upstream_ca=pki.ca, **options)
    tap.equal(r.reports, [[200, "early", True, "next"]])
    return r, [o for o in r.outcomes() if o["sent"]]


def reads_on(t, code, withheld, gone=False):
    up = ByTwo(withheld)
    _, outcomes = upload(t, up, code, gone, until=lambda _: up.got)
    tap.equal(up.got, [["whole", up.SIZE]])
    tap.equal([(o["status"], o["sent"], o.get("code")) for o in outcomes], [(200, up.SIZE, None)])


# What is taken while the server reads nothing is what the kernel keeps, and exeat; by HTTP/2 the client knows how much that is.
FULL = '''
    c = h2("a.test")
    s = c.request("/ok", method="POST", end=False)
    sizes = [c.push(s, 50000000, seconds=1), 6000000]
    c.data(s, b"", end=True)
    a = c.answer(s)
    report(a.status, a.body.decode(), a.whole, a.reset, c.get("/ok/next").body.decode())
    one = tls("a.test")
    one.pour(b"POST /ok HTTP/1.1\\r\\nHost: a.test\\r\\nContent-Length: %d\\r\\n\\r\\n" % sizes[1] + b"x" * sizes[1])
    a = one.answer()
    report(a.status, a.body.decode(), a.whole, None, one.get("/ok/next").body.decode())
    report(sizes)
    hold()
'''


@tap.test
def from_either_to_http_1(t):
    up = ByOne()
    t.use(up.server)
    r = client.run(POLICY, [h2.CLIENT, FULL], resolve=[up.server.resolve("a.test")], upstream_ca=pki.ca,
                   until=lambda _: len(up.got) == 2)
    sizes = r.reports.pop()
    tap.equal(r.reports, [[200, "early", True, None, "next"]] * 2)
    tap.equal(sorted(up.got, key=str), sorted(sizes, key=str))
    outcomes = [o for o in r.outcomes() if o["sent"]]
    tap.equal([(o["status"], o.get("code")) for o in outcomes], [(200, None)] * 2)
    tap.equal(sorted(o["sent"] for o in outcomes), sorted(sizes))


@tap.test
def from_http_1_to_http_2(t):
    reads_on(t, ONE, 10000)


@tap.test
def from_http_2_to_http_2(t):
    reads_on(t, TWO, 70000)


@tap.test
def from_clients_that_go_away_when_they_are_answered(t):
    reads_on(t, ONE, 10000, gone=True)
    reads_on(t, TWO, 70000, gone=True)


@tap.test
def the_last_bytes_of_a_websocket(t):
    ends = {"one": '''
        c = ask(tls("a.test"))
        report(head(c)[0], c.exactly(5).decode())
        c.pour(b"x" * %d)
        c.shut()
        report(h2("a.test").get("/ok/next").body.decode())
        hold()
    ''', "two": '''
        c = h2("a.test")
        s = c.request("/ok/ws", method="CONNECT", end=False, protocol="websocket", fields=[("sec-websocket-version", "13")])
        a = c.answer(s)
        report(a.status, a.body.decode())
        c.push(s, %d)
        c.data(s, b"", end=True)
        report(c.get("/ok/next").body.decode())
        hold()
    '''}
    for name, code in ends.items():
        up = ByTwo(10000 if name == "one" else 70000)
        t.use(up.server)
        r = client.run(POLICY, [h2.CLIENT, websocket.CLIENT, code % up.SIZE], resolve=[up.server.resolve("a.test")],
                       upstream_ca=pki.ca, until=lambda _, up=up: up.got)
        tap.equal(r.reports, [[101 if name == "one" else 200, "early"], "next"])
        tap.equal(up.got, [["whole", up.SIZE]])
        tap.equal([(o["sent"], o.get("code")) for o in r.outcomes(status=101)], [(up.SIZE, None)])


@tap.test
def a_server_that_takes_no_more_is_not_waited_for_without_end(t):
    for code, withheld in ((ONE, 10000), (TWO, 70000)):
        _, outcomes = upload(t, ByTwo(withheld, never=True), code, flags=["--time-limit", "answer=2s"],
                             until=lambda records: [o for o in records if o.get("code") == "upstream-timeout"])
        tap.equal([(o["status"], o["sent"], o.get("code")) for o in outcomes], [(200, ByTwo.SIZE - withheld, "upstream-timeout")])


@tap.test
def the_end_of_exeat_is_recorded_with_what_was_sent(t):
    _, outcomes = upload(t, ByTwo(10000, never=True), ONE.replace("hold()", ""))
    tap.equal([(o["status"], o["sent"], o.get("code")) for o in outcomes], [(200, ByTwo.SIZE - 10000, "exeat-ended")])


# What no server of these takes: a stream's window is 0, and the answer comes with its settings before anything was sent.
CLOSED = b"\0\4\0\0\0\0"

# More than exeat keeps the ends of (XCHG_TAILS): the client, who was answered, is not waited with.
MANY = '''
    for i in range(5):
        c = h2("a.test")
        streams = [c.request("/ok", method="POST", end=False) for _ in range(60)]
        for s in streams:
            c.answer(s)
        for s in streams:
            c.data(s, b"x" * 1000, end=True)
        report(c.settle(), [a.reset for a in c.answers.values()] == [None] * 60)
    hold()
'''


def at_once(f, _number):
    while True:
        kind, flags, stream, _ = f.read()
        if kind == HEADERS:
            f.answer(stream)


@tap.test
def more_ends_than_are_kept_are_told_as_that(t):
    up = FrameServer(at_once, CLOSED, tls=pki.leaf("a.test"))
    t.use(up)
    r = client.run(POLICY, [h2.CLIENT, MANY], resolve=[up.resolve("a.test")], upstream_ca=pki.ca,
                   flags=["--time-limit", "answer=10s"], until=lambda records: len([o for o in records if o["event"] == "outcome"]) == 300)
    tap.equal(r.reports, [[True, True]] * 5)
    tap.equal(sorted((o["status"], o["sent"], o["code"]) for o in r.outcomes()),
              [(200, 0, "tails")] * 44 + [(200, 0, "upstream-timeout")] * 256)


@tap.test
def a_batch_that_is_answered_early_was_not_sent(t):
    def batch(f, _number):
        while True:
            kind, _, stream, _ = f.read()
            if kind == HEADERS:
                f.answer(stream, body=b'{"objects": []}')
    up = FrameServer(batch, CLOSED, tls=pki.leaf("a.test"))
    t.use(up)
    r = client.run(POLICY, [h2.CLIENT, '''
        c = h2("a.test")
        c.get("/ok")
        report(c.post("/ok/info/lfs/objects/batch", b'{"operation": "download", "objects": []}').status)
    '''], resolve=[up.resolve("a.test")], upstream_ca=pki.ca)
    tap.equal((r.reports, [o["sent"] for o in r.outcomes()]), ([200], [0, 0]))


class Deaf:
    """Opens all windows, reads nothing for so long that there is no room left anywhere, and ends its side; then it reads what has come."""

    def __init__(self):
        self.got = []
        self.server = FrameServer(self.serve, b"\0\4\x7f\xff\xff\xff", tls=pki.leaf("a.test"))

    def serve(self, f, _number):
        f.frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30))
        n = 0
        while f.read()[0] != HEADERS:
            pass
        time.sleep(2)
        socket.socket.shutdown(f.connection.sock, socket.SHUT_WR)
        time.sleep(1)
        try:
            while True:
                kind, _, _, payload = f.any()
                n += len(payload) if kind == DATA else 0
        finally:
            self.got.append(n + len(f.connection.pending)) # of the last frame the end may be missing


@tap.test
def what_waits_with_a_connection_of_http_2_that_breaks_was_not_sent(t):
    up = Deaf()
    t.use(up.server)
    r = client.run(POLICY, [h2.CLIENT, '''
        c = h2("a.test")
        s = c.request("/ok", method="POST", end=False)
        c.push(s, 100000000)
        report(c.answer(s).status)
        hold()
    '''], resolve=[up.server.resolve("a.test")], upstream_ca=pki.ca, until=lambda _: up.got)
    sent = r.outcomes()[0]["sent"]
    tap.ok(up.got[0] - 1000 < sent <= up.got[0], "%d sent, %d came" % (sent, up.got[0]))


tap.main()
