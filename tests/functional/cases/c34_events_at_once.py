"""C34: what an origin sends is passed on as it comes: events, single bytes, compressed streams."""
import time
import zlib

import onehost
import tap

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


def stream(t, kind, compressed, sender):
    def answer(connection, _request):
        send = sender()
        extra = b"Content-Encoding: gzip\r\n" if compressed else b""
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: " + kind + b"\r\n" + extra + b"Transfer-Encoding: chunked\r\n\r\n")
        for _ in range(6):
            send(connection, b"data: %.6f\n\n" % time.time())
            time.sleep(0.2)
        connection.send(b"0\r\n\r\n")
    # One stall of a busy machine may pass; what waits for more data is late each time.
    lags = []
    while len(lags) < 3 and min(lags, default=1) >= 0.05:
        r, _ = onehost.through(t, READ % compressed, answer=answer)
        lags.append(r.reports[0][0])
    tap.ok(min(lags) < 0.05, "late by %s s" % lags)


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


tap.main()
