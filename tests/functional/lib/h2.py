"""An HTTP/2 client that says what it is told to, frame by frame; its text goes before a program of client.py's.

    client.run(policy, [h2.CLIENT, '''
        c = h2("a.test")
        report(c.get("/ok").status)
    '''], ...)

Inside: h2(host) is a connection with its preface and settings exchanged (settings={…} of our own; start=False: nothing
was sent). It has
    frame(type, flags, stream, payload), raw(bytes), headers(stream, fields, end=True), data(stream, bytes, end=False),
    request(path, method="GET", end=True, fields=(), **pseudo) -> stream; pseudo: authority, scheme …, None leaves it out
    answer(stream) -> status, headers, body, trailers, interim, reset (an error code), whole
    get(path, …): both
    post(path, *pieces, …): both, with a body
    push(stream, n) -> bytes that have gone on it so far: as the windows permit, which are 65,535 bytes at first
    read() -> (type, flags, stream, payload), None at the end; goaway (an error code) and ended say how it came
    window(stream, n), ping(), settle(): everything sent was understood (a ping came back)
Fields are coded by the hpack package; header lists of our own are never indexed. needed() skips a test without it.
"""
import subprocess

import exeat
import tap


def needed(skip=tap.skip, module="hpack"):
    """The sandbox's Python has to have it; ours may be another."""
    found = subprocess.run(["python3", "-c", "import " + module], env=exeat.environment("/"), check=False,
                           stderr=subprocess.DEVNULL)
    if found.returncode:
        skip("python3-%s is missing" % module.split(".")[0])


CLIENT = '''
import hpack

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS, PADDED, PRIORITIZED, ACK = 1, 4, 8, 32, 1
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR, SETTINGS_TIMEOUT, STREAM_CLOSED, FRAME_SIZE_ERROR, \\
    REFUSED_STREAM, CANCEL, COMPRESSION_ERROR, CONNECT_ERROR, ENHANCE_YOUR_CALM = range(12)
MAGIC = b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n"

def setting(**values):
    ids = {"table": 1, "push": 2, "streams": 3, "window": 4, "frame": 5, "list": 6, "connect": 8}
    return b"".join(struct.pack(">HI", ids[k], v) for k, v in values.items())

class H2(object):
    def __init__(self, connection, settings=None, start=True):
        self.c = connection
        self.c.timeout(15)
        self.encoder, self.decoder = hpack.Encoder(), hpack.Decoder()
        self.decoder.max_header_list_size = 1 << 20
        self.next, self.answers, self.goaway, self.last, self.ended, self.acks = 1, {}, None, None, None, 0
        self.theirs, self.pongs, self.open_windows, self.updates, self.sent = {}, [], True, {}, {}
        if start:
            self.raw(MAGIC + self.packed(SETTINGS, 0, 0, setting(**(settings or {}))))
            while not self.theirs and self.read():
                pass
    def packed(self, kind, flags, stream, payload=b""):
        return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload
    def raw(self, data):
        try:
            self.c.send(data)
        except (OSError, ValueError):
            pass
    def frame(self, kind, flags, stream, payload=b""):
        self.raw(self.packed(kind, flags, stream, payload))
    def block(self, fields):
        return self.encoder.encode([hpack.NeverIndexedHeaderTuple(n, v) for n, v in fields], huffman=False)
    def headers(self, stream, fields, end=True):
        self.answers.setdefault(stream, Answer()).reset = None
        self.frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream, self.block(fields))
    def data(self, stream, data, end=False):
        self.frame(DATA, END_STREAM if end else 0, stream, data)
    def pseudo(self, path, method="GET", **more):
        named = {"method": method, "scheme": "https", "authority": "a.test", "path": path}
        named.update(more)
        return [(":" + n, v) for n, v in named.items() if v is not None]
    def request(self, path, method="GET", end=True, fields=(), **pseudo):
        stream, self.next = self.next, self.next + 2
        self.headers(stream, self.pseudo(path, method, **pseudo) + list(fields), end)
        return stream
    def window(self, stream, n):
        self.frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", n))
    def reset(self, stream, error=8):
        self.frame(RST_STREAM, 0, stream, struct.pack(">I", error))
    def read(self):
        head = self.c.exactly(9)
        if len(head) < 9:
            self.ended = self.c.ended or "eof"
            return None
        n, kind, flags, stream = struct.unpack(">I", b"\\0" + head[:3])[0], head[3], head[4], \\
            struct.unpack(">I", head[5:])[0]
        payload = self.c.exactly(n)
        self.note(kind, flags, stream, payload)
        return kind, flags, stream, payload
    def note(self, kind, flags, stream, payload):
        a = self.answers.get(stream)
        if kind == SETTINGS and not flags & ACK:
            self.theirs.update({-1: 0})
            for i in range(0, len(payload), 6):
                key, value = struct.unpack(">HI", payload[i:i + 6])
                self.theirs[key] = value
            self.frame(SETTINGS, ACK, 0)
        elif kind == SETTINGS:
            self.acks += 1
        elif kind == PING and flags & ACK:
            self.pongs.append(payload)
        elif kind == PING:
            self.frame(PING, ACK, 0, payload)
        elif kind == GOAWAY:
            self.last, self.goaway = struct.unpack(">II", payload[:8])
        elif kind == WINDOW_UPDATE:
            self.updates[stream] = self.updates.get(stream, 0) + struct.unpack(">I", payload)[0]
        elif kind == RST_STREAM and a:
            a.reset = struct.unpack(">I", payload)[0]
        elif kind == DATA and a:
            a.body += payload
            if self.open_windows and payload:
                self.window(stream, len(payload))
                self.window(0, len(payload))
        elif kind == HEADERS:
            fields = self.decoder.decode(payload)
            if a:
                self.fields(a, [(str(n), str(v)) for n, v in fields])
        if a and kind in (DATA, HEADERS) and flags & END_STREAM:
            a.whole = True
    def fields(self, a, fields):
        status = [v for n, v in fields if n == ":status"]
        rest = [(n, v) for n, v in fields if not n.startswith(":")]
        if not status:
            a.trailers = rest
        elif int(status[0]) < 200:
            a.interim.append(int(status[0]))
        else:
            a.status, a.headers = int(status[0]), rest
    def answer(self, stream):
        a = self.answers[stream]
        while not a.whole and a.reset is None and self.read():
            pass
        return a
    def post(self, path, *pieces, **options):
        """A request with that body, a frame for each piece; its answer."""
        stream = self.request(path, options.pop("method", "POST"), end=not pieces, **options)
        for i, piece in enumerate(pieces, 1):
            self.data(stream, piece, end=i == len(pieces))
        return self.answer(stream)
    def push(self, stream, n, seconds=10):
        """Sends n bytes of a body, or as many as the windows let through until nothing more opens for a while."""
        def room():
            return min([65535 + self.updates.get(s, 0) - self.sent.get(s, 0) for s in (stream, 0)] + [16384])
        self.c.timeout(seconds)
        while n > 0:
            while room() <= 0 and self.read():
                pass
            if self.ended:
                break
            size = min(room(), n)
            self.data(stream, b"u" * size)
            for s in (stream, 0):
                self.sent[s] = self.sent.get(s, 0) + size
            n -= size
        self.ended = self.c.ended = None if self.c.ended == "timeout" else self.c.ended
        self.c.timeout(15)
        return self.sent[stream]
    def get(self, path, **options):
        return self.answer(self.request(path, **options))
    def ping(self, payload=b"settled."):
        self.frame(PING, 0, 0, payload)
    def settle(self):
        n = len(self.pongs)
        self.ping()
        while len(self.pongs) == n and self.read():
            pass
        return self.ended is None
    def end(self):
        """Reads to the end of the connection; returns the code of GOAWAY."""
        while self.read():
            pass
        return self.goaway

def h2(host, port=443, sni=True, **options):
    c = tls(host, port, sni, ["h2"])
    if c.sock.selected_alpn_protocol() != "h2":
        raise RuntimeError("no h2: %r" % (c.sock.selected_alpn_protocol(),))
    return H2(c, **options)
'''
