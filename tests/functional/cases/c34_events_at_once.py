"""C34: what an origin sends is passed on as it comes: events, single bytes, compressed streams."""
import os
import re
import time
import zlib

import client
import h2
import onehost
import tap
import websocket
import work
from h2server import DATA, END_HEADERS, END_STREAM, FrameServer, HEADERS, OK
from pki import Pki
from servers import RawServer

READ = '''
    c = tls("a.test")
    c.send("GET /ok HTTP/1.1\\r\\nHost: a.test\\r\\nAccept-Encoding: gzip\\r\\n\\r\\n")
    c.until(b"\\r\\n\\r\\n")
    import zlib
    z = zlib.decompressobj(31) if %r else None
    text, lags = "", []
    while len(lags) < 6:
        n = int(c.until(b"\\r\\n"), 16)
        data = c.exactly(n + 2)[:n]
        text += (z.decompress(data) if z else data).decode()
        if text.endswith("\\n\\n"):
            lags.append(time.time() - float(text.split()[1]))
            text = ""
    report(max(lags), min(lags))
'''


def late(once, limit=0.05):
    """Stalls of a busy machine may pass; what waits for more data is late each time, by the 0.2 s until there is more."""
    lags = []
    while len(lags) < 8 and min(lags, default=1) >= limit:
        lags.append(once())
    tap.ok(min(lags) < limit, "late by %s s" % lags)


def stream(t, kind, compressed, sender):
    def answer(connection, _request):
        send = sender()
        extra = b"Content-Encoding: gzip\r\n" if compressed else b""
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: " + kind + b"\r\n" + extra + b"Transfer-Encoding: chunked\r\n\r\n")
        for _ in range(6):
            send(connection, b"data: %.6f\n\n" % time.time())
            time.sleep(0.2)
        connection.send(b"0\r\n\r\n")
    late(lambda: onehost.through(t, READ % compressed, answer=answer)[0].reports[0][0])


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def plain():
    return lambda c, data: c.send(chunk(data))


@tap.test
def events(t):
    stream(t, b"text/event-stream", False, plain)


@tap.test
def any_other_type(t):
    stream(t, b"application/json", False, plain)


@tap.test
def one_byte_a_chunk(t):
    def send(connection, data):
        for byte in data:
            connection.send(chunk(bytes([byte])))
    stream(t, b"text/event-stream", False, lambda: send)


@tap.test
def compressed_with_a_sync_flush(t):
    def sender():
        z = zlib.compressobj(6, zlib.DEFLATED, 31)
        return lambda c, data: c.send(chunk(z.compress(data) + z.flush(zlib.Z_SYNC_FLUSH)))
    stream(t, b"text/event-stream", True, sender)


# Six events, however the body is framed, compressed or not: how late the latest was.
READ_ANY = '''
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
        while len(lags) < 6:
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
            if not data:
                break
        return max(lags) if len(lags) == 6 else 99
'''


def until_the_end(connection, _request):
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
    for _ in range(6):
        connection.send(b"data: %.6f\n\n" % time.time())
        time.sleep(0.2)
    connection.close()


def of_known_length(connection, _request):
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 150\r\n\r\n")
    for _ in range(6):
        connection.send(b"data: %.6f\n\n" % time.time())
        time.sleep(0.2)


def frames(f, _number, send=lambda: lambda put, data: put(data)):
    while True:
        stream_id, pieces = f.request(), send()
        f.frame(HEADERS, END_HEADERS, stream_id, OK)
        for _ in range(6):
            pieces(lambda data: f.frame(DATA, 0, stream_id, data), b"data: %.6f\n\n" % time.time())
            time.sleep(0.2)
        f.frame(DATA, END_STREAM, stream_id)


ASK = 'c.send("GET /ok HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n")\n'
BY_HTTP_1 = 'c = %s("a.test")\n' + ASK + 'report(lags_of(c))\n'
BY_HTTP_2 = 'c = h2("a.test")\nreport(lags_of(c, c.request("/ok")))\n'


@tap.test
def by_either_version_and_in_clear_text_however_it_is_framed(t):
    h2.needed()
    for answer in (until_the_end, of_known_length):
        for code, clear in ((BY_HTTP_1 % "tls", False), (BY_HTTP_1 % "tcp", True), (BY_HTTP_2, False)):
            late(lambda code=code, clear=clear, answer=answer:
                 onehost.through(t, [h2.CLIENT, READ_ANY, code], answer=answer, clear=clear)[0].reports[0], 0.15)


@tap.test
def from_an_origin_of_http_2(t):
    h2.needed()
    pki = Pki()
    server = t.use(FrameServer(frames, tls=pki.leaf("a.test")))
    for code in (BY_HTTP_1 % "tls", BY_HTTP_2):
        late(lambda code=code: client.run(onehost.POLICY, [h2.CLIENT, READ_ANY, code], resolve=[server.resolve("a.test")],
                                          upstream_ca=pki.ca).reports[0], 0.15)


def byte_by_byte():
    return lambda put, data: [put(bytes([byte])) for byte in data]


def compressed():
    z = zlib.compressobj(6, zlib.DEFLATED, 31)
    return lambda put, data: put(z.compress(data) + z.flush(zlib.Z_SYNC_FLUSH))


@tap.test
def single_bytes_and_compressed_streams_by_either_version(t):
    h2.needed()
    pki = Pki()
    for send in (byte_by_byte, compressed):
        def in_chunks(connection, _request, send=send):
            pieces = send()
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in range(6):
                pieces(lambda data: connection.send(chunk(data)), b"data: %.6f\n\n" % time.time())
                time.sleep(0.2)
            connection.send(b"0\r\n\r\n")
        for server, code in ((t.use(RawServer(in_chunks, tls=pki.leaf("a.test"))), BY_HTTP_2),
                             (t.use(FrameServer(lambda f, n, send=send: frames(f, n, send), tls=pki.leaf("a.test"))), BY_HTTP_1 % "tls"),
                             (t.use(FrameServer(lambda f, n, send=send: frames(f, n, send), tls=pki.leaf("a.test"))), BY_HTTP_2)):
            late(lambda server=server, code=code: client.run(onehost.POLICY, [h2.CLIENT, READ_ANY, code], resolve=[server.resolve("a.test")],
                                                             upstream_ca=pki.ca).reports[0], 0.15)


@tap.test
def through_a_tunnel(t):
    roots = work.write(os.path.join(work.folder("roots."), "roots.pem"), open(onehost.authority().ca, encoding="ascii").read())
    late(lambda: onehost.through(t, [READ_ANY, BY_HTTP_1 % "tls"], answer=until_the_end, policy="tunnel https://a.test\n",
                                 env={"SSL_CERT_FILE": roots})[0].reports[0], 0.15)


@tap.test
def messages_of_a_websocket(t):
    def answer(connection, request):
        connection.send(websocket.granted(request))
        for _ in range(6):
            connection.send(websocket.frame(b"data: %.6f\n\n" % time.time(), 1))
            time.sleep(0.2)
        connection.close()
    late(lambda: onehost.through(t, [websocket.CLIENT, READ_ANY, 'report(lags_of(ask(tls("a.test"))))\n'], answer=answer)[0].reports[0], 0.15)


@tap.test
def what_a_client_sends_goes_on_as_it_comes(t):
    """The other way: the origin has each piece of an upload before the next is sent."""
    h2.needed()
    uploads = {
        "chunks": ('''
            c = %s("a.test")
            c.send("POST /ok HTTP/1.1\\r\\nHost: a.test\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n")
            for _ in range(6):
                event = "data: %%.6f\\n\\n" %% time.time()
                c.send("%%x\\r\\n%%s\\r\\n" %% (len(event), event))
                spin(0.2)
            c.send("0\\r\\n\\r\\n")
            report(c.answer().status)
        '''),
        "frames": ('''
            c = h2("a.test")
            s = c.request("/ok", "POST", end=False)
            for _ in range(6):
                c.data(s, b"data: %.6f\\n\\n" % time.time())
                spin(0.2)
            c.data(s, b"", end=True)
            report(c.answer(s).status)
        '''),
    }

    def once(code, clear):
        lags = []

        def answer(connection, request):
            body = bytes(connection.pending)
            while True:
                events = re.findall(rb"data: ([0-9.]+)\n\n", body)
                while len(lags) < len(events):
                    lags.append(time.time() - float(events[len(lags)]))
                if body.endswith(b"0\r\n\r\n"):
                    break
                connection.fill()
                body = bytes(connection.pending)
            request.body = body
            connection.pending = bytearray()
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        r, _ = onehost.through(t, [h2.CLIENT, code], answer=answer, clear=clear)
        tap.equal(r.reports, [200])
        tap.equal(len(lags), 6)
        return max(lags)
    late(lambda: once(uploads["chunks"] % "tls", False), 0.15)
    late(lambda: once(uploads["chunks"] % "tcp", True), 0.15)
    late(lambda: once(uploads["frames"], False), 0.15)


tap.main()
