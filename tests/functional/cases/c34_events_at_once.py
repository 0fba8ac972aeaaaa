"""C34: what an origin sends is passed on as it comes: events, single bytes, compressed streams.

The origin sends no event before the client has said that it has the one before (by a file in its home folder): what waited for more
data would wait for ever. Each event holds the time; of all of them the fastest tells whether there is a wait of our own.
"""
import os
import re
import time
import zlib

import client
import exeat
import h2
import onehost
import tap
import websocket
import work
from h2server import DATA, END_HEADERS, END_STREAM, FrameServer, HEADERS, OK
from pki import Pki

EVENTS = 8
LIMIT = 0.05  # s, for the fastest


class Pace:
    """One run's: the folder that both ends see."""

    def __init__(self):
        self.home = work.folder("home.", user=exeat.as_user(), mode=0o700)

    def events(self, put):
        for i in range(EVENTS):
            put(b"data: %.6f\n\n" % time.time())
            tap.eventually(lambda i=i: os.path.exists(os.path.join(self.home, "got-%d" % i)), 20)


def at_once(lags, what=""):
    tap.equal(len(lags), EVENTS, what)
    tap.ok(min(lags) < LIMIT, "late by %s s: %s" % (lags, what))


# How late each event was, however the body is framed, compressed or not.
READ = '''
    import re, zlib
    def body_of(raw):
        head, _, body = raw.partition(b"\\r\\n\\r\\n")
        if b"chunked" not in head.lower():
            return body
        out = b""
        while b"\\r\\n" in body:
            size, _, body = body.partition(b"\\r\\n")
            out, body = out + body[:int(size, 16)], body[int(size, 16) + 2:]
        return out
    def lags_of(c, s=None):
        lags, raw = [], b""
        while len(lags) < EVENTS:
            if s is None:
                data = c.recv()
                raw += data
            else:
                data = c.read()
            text = body_of(raw) if s is None else c.answers[s].body
            if text[:2] == b"\\x1f\\x8b":
                text = zlib.decompressobj(31).decompress(text)
            events = re.findall(rb"data: ([0-9.]+)\\n\\n", text)
            while len(lags) < len(events):
                lags.append(time.time() - float(events[len(lags)]))
                open("got-%d" % (len(lags) - 1), "w").close()
            if not data:
                break
        return lags
'''.replace("EVENTS", str(EVENTS))
ASK = 'c.send("GET /ok HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n")\n'
BY_HTTP_1 = 'c = tls("a.test")\n' + ASK + 'report(lags_of(c))\n'
IN_CLEAR = BY_HTTP_1.replace("tls", "tcp")
BY_HTTP_2 = 'c = h2("a.test")\nreport(lags_of(c, c.request("/ok")))\n'


# How an event is cut into pieces: functions that make one of (put, data).
def whole():
    return lambda put, data: put(data)


def byte_by_byte():
    return lambda put, data: [put(bytes([byte])) for byte in data]


def compressed():
    z = zlib.compressobj(6, zlib.DEFLATED, 31)
    return lambda put, data: put(z.compress(data) + z.flush(zlib.Z_SYNC_FLUSH))


def in_chunks(pace, cut=whole, kind=b"text/event-stream"):
    def answer(connection, _request):
        pieces = cut()
        extra = b"Content-Encoding: gzip\r\n" if cut is compressed else b""
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: " + kind + b"\r\n" + extra + b"Transfer-Encoding: chunked\r\n\r\n")
        pace.events(lambda event: pieces(lambda data: connection.send(b"%x\r\n%s\r\n" % (len(data), data)), event))
        connection.send(b"0\r\n\r\n")
    return answer


def until_the_end(pace):
    def answer(connection, _request):
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        pace.events(connection.send)
        connection.close()
    return answer


def of_known_length(pace):
    def answer(connection, _request):
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % (25 * EVENTS))
        pace.events(connection.send)
    return answer


def in_frames(pace, cut=whole):
    def serve(f, _number):
        while True:
            stream_id, pieces = f.request(), cut()
            f.frame(HEADERS, END_HEADERS, stream_id, OK)
            pace.events(lambda event: pieces(lambda data: f.frame(DATA, 0, stream_id, data), event))
            f.frame(DATA, END_STREAM, stream_id)
    return serve


def by_http_1(t, answer, code, what="", **options):
    """Through exeat from an origin of HTTP/1.1; `answer` makes its answer of a Pace."""
    pace = Pace()
    r, _ = onehost.through(t, [h2.CLIENT, websocket.CLIENT, READ, code], answer=answer(pace), home=pace.home, clear=code == IN_CLEAR, **options)
    at_once(r.reports[0], what)


def by_http_2(t, code, cut=whole):
    """The same from one of HTTP/2."""
    pace, pki = Pace(), Pki()
    server = t.use(FrameServer(in_frames(pace, cut), tls=pki.leaf("a.test")))
    r = client.run(onehost.POLICY, [h2.CLIENT, READ, code], home=pace.home, resolve=[server.resolve("a.test")], upstream_ca=pki.ca)
    at_once(r.reports[0], cut.__name__)


@tap.test
def events(t):
    by_http_1(t, in_chunks, BY_HTTP_1)


@tap.test
def any_other_type(t):
    by_http_1(t, lambda pace: in_chunks(pace, kind=b"application/json"), BY_HTTP_1)


@tap.test
def by_either_version_and_in_clear_text_however_it_is_framed(t):
    h2.needed()
    for answer in (in_chunks, until_the_end, of_known_length):
        for code in (BY_HTTP_1, IN_CLEAR, BY_HTTP_2):
            by_http_1(t, answer, code, answer.__name__)


@tap.test
def from_an_origin_of_http_2(t):
    h2.needed()
    for code in (BY_HTTP_1, BY_HTTP_2):
        by_http_2(t, code)


@tap.test
def single_bytes_and_compressed_streams_by_either_version(t):
    h2.needed()
    for cut in (byte_by_byte, compressed):
        for code in (BY_HTTP_1, BY_HTTP_2):
            by_http_1(t, lambda pace, cut=cut: in_chunks(pace, cut), code, cut.__name__)
            by_http_2(t, code, cut)


@tap.test
def through_a_tunnel(t):
    roots = work.write(os.path.join(work.folder("roots."), "roots.pem"), open(onehost.authority().ca, encoding="ascii").read())
    by_http_1(t, until_the_end, BY_HTTP_1, policy="tunnel https://a.test\n", env={"SSL_CERT_FILE": roots})


@tap.test
def messages_of_a_websocket(t):
    def granted(pace):
        def answer(connection, request):
            connection.send(websocket.granted(request))
            pace.events(lambda event: connection.send(websocket.frame(event, 1)))
            connection.close()
        return answer
    by_http_1(t, granted, 'report(lags_of(ask(tls("a.test"))))\n')


# The client's side of an upload; said() waits for the origin.
UPLOAD = '''
    def said(i):
        while not os.path.exists("got-%d" % i):
            spin(0.005)
'''
IN_CHUNKS = '''
    c = tls("a.test")
    c.send("POST /ok HTTP/1.1\\r\\nHost: a.test\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n")
    for i in range(EVENTS):
        event = "data: %.6f\\n\\n" % time.time()
        c.send("%x\\r\\n%s\\r\\n" % (len(event), event))
        said(i)
    c.send("0\\r\\n\\r\\n")
    report(c.answer().status)
'''.replace("EVENTS", str(EVENTS))
IN_FRAMES = '''
    c = h2("a.test")
    s = c.request("/ok", "POST", end=False)
    for i in range(EVENTS):
        c.data(s, b"data: %.6f\\n\\n" % time.time())
        said(i)
    c.data(s, b"", end=True)
    report(c.answer(s).status)
'''.replace("EVENTS", str(EVENTS))


@tap.test
def what_a_client_sends_goes_on_as_it_comes(t):
    """The other way: no piece of an upload is sent before the origin has had the one before."""
    h2.needed()
    for code, clear in ((IN_CHUNKS, False), (IN_CHUNKS.replace("tls(", "tcp("), True), (IN_FRAMES, False)):
        pace, lags = Pace(), []

        def answer(connection, request, pace=pace, lags=lags):
            body = bytes(connection.pending)
            while True:
                events = re.findall(rb"data: ([0-9.]+)\n\n", body)
                while len(lags) < len(events):
                    lags.append(time.time() - float(events[len(lags)]))
                    work.write(os.path.join(pace.home, "got-%d" % (len(lags) - 1)), "")
                if body.endswith(b"0\r\n\r\n"):
                    break
                connection.fill()
                body = bytes(connection.pending)
            request.body = body
            connection.pending = bytearray()
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        r, _ = onehost.through(t, [h2.CLIENT, UPLOAD, code], answer=answer, clear=clear, home=pace.home)
        tap.equal(r.reports, [200])
        at_once(lags, code)


tap.main()
