"""Clients that are hostile at random, for a program of client.py's behind h2.CLIENT and SEED, SESSIONS, SECRET.

Each session is a connection or a few requests on one, chosen by the seed and its number. It tells of each request that it is
about to ask for it ("ask"), and how it was answered ("status"; "own": by exeat itself, and which decision), and what is "wrong" at
sight: an answer that is not to its request, the secret.
"""
from hostileserver import BODIES

PROGRAM = BODIES + r'''
import random
MOODS = ["plain"] * 6 + ["chunks", "toend", "bare", "interim", "more", "switch", "twice", "nonsense", "half", "nothing", "drip", "late", "deaf", "push", "bits"]
told = threading.Lock()
def tell(**what):
    with told:
        report(what)

class Session(object):
    def __init__(self, number):
        self.rnd = random.Random("%s/%d" % (SEED, number))
        self.number, self.count = number, 0
        self.host = self.rnd.choice(["a.test", "b.test"])
    def chance(self, p):
        return self.rnd.random() < p
    def new(self):
        """(name, method, path, length of a body or None) of a request."""
        self.count += 1
        name = "q%d-%d" % (self.number, self.count)
        method = self.rnd.choice(["GET", "GET", "HEAD", "POST", "POST", "PUT", "DELETE"])
        path = "/%s/%s/%s" % (self.rnd.choice(["ok", "ok", "cred", "cred", "no"]), name, self.rnd.choice(MOODS))
        if self.chance(0.2):
            path += "?x=%d" % self.rnd.randrange(9)
        size = self.rnd.choice([0, 1, 70, 3000, 40000, 150000]) if method in ("POST", "PUT") else None
        return name, method, path, size
    def fields(self):
        """Fields of one's own that must not go up, or not change anything."""
        out = []
        if self.chance(0.3):
            out.append((self.rnd.choice(["authorization", "proxy-authorization", "x-api-key", "Authorization", "x_api_key"]), "Bearer mine"))
        if self.chance(0.1):
            out.append(("x-forwarded-host", "evil.test"))
        if self.chance(0.1):
            out.append(("te", "trailers"))
        return out
    def got(self, name, status, fields, body, whole, method):
        """An answer, as far as it came."""
        own = [v for n, v in fields if n.lower() == "x-exeat-decision"]
        ids = [v for n, v in fields if n.lower() == "x-id"]
        text = repr((name, status, fields, body[:200]))
        if any(SECRET in v for n, v in fields) or SECRET.encode() in body:
            tell(wrong="the secret: " + text)
        if not own and ids != [name]:
            tell(wrong="another's answer: " + text)
        if not own and answer_body(name, len(body)) != body:
            tell(wrong="another's body: " + text)
        if own and "evil" in repr(fields):
            tell(wrong="evil in an answer of exeat's: " + text)
        tell(name=name, status=status, own=own[:1], whole=whole)

# -- HTTP/1.1 --

BROKEN = [
    ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", b"0\r\n\r\n"),
    ("Content-Length: 5\r\nContent-Length: 6\r\n", b"12345"),
    ("Content-Length: 5, 5\r\n", b"12345"),
    ("Content-Length: +5\r\n", b"12345"),
    ("Content-Length: 0x5\r\n", b"12345"),
    ("Content_Length: 5\r\n", b"12345"),
    ("Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n"),
    ("Transfer-Encoding: chunked, identity\r\n", b"0\r\n\r\n"),
    ("Transfer-Encoding : chunked\r\n", b"0\r\n\r\n"),
    ("Transfer-Encoding:\x0bchunked\r\n", b"0\r\n\r\n"),
    (" Transfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
    ("X: y\rTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
    ("X: y\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\n", b"5\n12345\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\n", b"5 \r\n12345\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\n", b"-5\r\n12345\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\n", b"5;\n12345\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\n", b"10000000000000005\r\n12345\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\n", b"5\r\n12345XX0\r\n\r\n"),
    ("Connection: close, Host\r\n", b""),
    ("Connection: authorization\r\nAuthorization: Bearer mine\r\n", b""),
    ("Connection: Content-Length\r\nContent-Length: 5\r\n", b"12345"),
    ("Host: b.test\r\n", b""),
    ("X-HTTP-Method-Override: PUT\r\n", b""),
    ("X-Original-URL: /no/evil-x\r\n", b""),
    ("X: y\0z\r\n", b""),
]

def wire_of(s, name, method, path, size):
    """(bytes, kind): whole, cut (it ends early), broken (malformed)."""
    head = "%s %s HTTP/1.1\r\nHost: %s\r\n" % (method, path, s.host)
    head += "".join("%s: %s\r\n" % f for f in s.fields() if f[0] != "te")
    if s.chance(0.06):
        head += "Connection: x-hop\r\nX-Hop: 1\r\n"
    if s.chance(0.08):
        more, body = s.rnd.choice(BROKEN)
        if s.chance(0.5):
            body += request_body(name, 300)
        return (head + more + "\r\n").encode("latin-1") + body, "broken"
    body = b"" if size is None else request_body(name, size)
    if size is not None and s.chance(0.15):
        head += "Expect: 100-continue\r\n"
    if size is not None and s.chance(0.5):
        head += "Transfer-Encoding: chunked\r\n"
        parts, left = [], body
        while left:
            n = s.rnd.choice([1, 30, 4000, 70000])
            parts.append(b"%x%s\r\n%s\r\n" % (len(left[:n]), s.rnd.choice([b"", b"", b";a=b"]), left[:n]))
            left = left[n:]
            if len(parts) > 300:
                parts.append(b"%x\r\n%s\r\n" % (len(left), left)) if left else None
                break
        body = b"".join(parts) + b"0\r\n" + s.rnd.choice([b"", b"X-Trailer: 1\r\n", b"Authorization: Bearer mine\r\n", b"Host: evil.test\r\n"]) + b"\r\n"
    elif size is not None:
        head += "Content-Length: %d\r\n" % size
    wire = (head + "\r\n").encode() + body
    if s.chance(0.06):
        return wire[:s.rnd.randrange(len(wire))], "cut"
    return wire, "whole"

def send_in_pieces(s, c, wire):
    mood = s.rnd.random()
    if mood < 0.6:
        c.pour(wire)
    elif mood < 0.9:
        for _ in range(s.rnd.randrange(1, 6)):
            n = s.rnd.randrange(len(wire) + 1)
            c.pour(wire[:n])
            wire = wire[n:]
            time.sleep(s.rnd.random() * 0.005)
        c.pour(wire)
    else:
        for i in range(60):
            c.pour(wire[i:i + 1])
        c.pour(wire[60:])
    c.said = True

def leave(s, sock):
    if s.chance(0.4):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()

def one(s):
    c = tls(s.host)
    c.timeout(2)
    try:
        for _ in range(s.rnd.randrange(1, 6)):
            asked, wire = [], b""
            for _ in range(s.rnd.choice([1, 1, 1, 2, 4])):
                name, method, path, size = s.new()
                piece, kind = wire_of(s, name, method, path, size)
                tell(ask=name, method=method, path=path, host=s.host, size=size, kind=kind)
                asked.append((name, method))
                wire += piece
                if kind != "whole":
                    break
            c.said, leaves = False, s.chance(0.08)
            if leaves:
                wire = wire[:s.rnd.randrange(2 * len(wire))]
            quiet(send_in_pieces, s, c, wire)
            if leaves:
                time.sleep(s.rnd.random() * 0.02)
                return
            for name, method in asked:
                a = c.answer(method)
                if a.status < 200:
                    return
                s.got(name, a.status, a.headers, a.body, a.whole, method)
                if not a.whole or (a.header("connection") or "").lower() == "close":
                    return
            if kind != "whole" or not c.said:  # what comes next would be taken for a body's rest
                return
    finally:
        leave(s, c.sock)

def quiet(f, *args):
    try:
        return f(*args)
    except (OSError, ValueError, RuntimeError):
        return None

# -- HTTP/2 --

TWISTS = [
    [("transfer-encoding", "chunked")], [("connection", "close")], [("te", "gzip")], [("X-Upper", "1")], [("host", "b.test")],
    [(":path", "/no/evil-x")], [("content-length", "5"), ("content-length", "6")], [("content-length", "999999")], [("x", "a\r\nAuthorization: b")],
    [("content_length", "5")], [("x-http-method-override", "PUT")], [("upgrade", "websocket")], [("", "x")], [(" x", "y")],
]

def block_out(s, c, stream, fields, end):
    """HEADERS, perhaps padded, with a priority, in pieces."""
    c.answers.setdefault(stream, Answer()).reset = None
    block, flags = c.block(fields), END_STREAM if end else 0
    cut = s.rnd.choice([len(block)] * 4 + [0, len(block) // 2])
    payload = block[:cut]
    if s.chance(0.1):
        flags, payload = flags | PRIORITIZED, struct.pack(">IB", 0, 15) + payload
    if s.chance(0.1):
        flags, payload = flags | PADDED, b"\x07" + payload + b"\0" * 7
    c.frame(HEADERS, flags | (END_HEADERS if cut == len(block) else 0), stream, payload)
    if cut < len(block):
        c.frame(CONTINUATION, END_HEADERS, stream, block[cut:])

def stream_out(s, c):
    name, method, path, size = s.new()
    kind = "whole"
    fields = c.pseudo(path, method, authority=s.host) + [(n.lower(), v) for n, v in s.fields()]
    if s.chance(0.08):
        fields += s.rnd.choice(TWISTS)
        kind = "broken"
    if size is not None and s.chance(0.4):
        fields.append(("content-length", str(size)))
    tell(ask=name, method=method, path=path, host=s.host, size=size, kind=kind)
    stream, c.next = c.next, c.next + 2
    block_out(s, c, stream, fields, size is None)
    return stream, name, method, request_body(name, size or 0) if size is not None else None

def two(s):
    c = h2(s.host, settings={"window": s.rnd.choice([0, 1, 1000, 65535, 1000000])} if s.chance(0.3) else None)
    c.c.timeout(2)
    try:
        for _ in range(s.rnd.randrange(1, 4)):
            live = [stream_out(s, c) for _ in range(s.rnd.choice([1, 2, 5, 12]))]
            for i in range(400):
                if not live or c.ended:
                    break
                k = s.rnd.randrange(len(live))
                stream, name, method, body = live[k]
                room = min(65535 + c.updates.get(x, 0) - c.sent.get(x, 0) for x in (stream, 0))
                a = c.answers[stream]
                if body is not None and not a.whole and a.reset is None:
                    n = min(s.rnd.choice([0, 1, 100, 16384]), room, len(body))
                    end = n == len(body) and s.chance(0.7)
                    if end and s.chance(0.15):
                        c.data(stream, body[:n])
                        block_out(s, c, stream, s.rnd.choice([[("x-trailer", "1")], [("authorization", "Bearer mine")], [(":path", "/no/evil-t")]]), True)
                    elif n or end:
                        c.data(stream, body[:n], end)
                    for x in (stream, 0):
                        c.sent[x] = c.sent.get(x, 0) + n
                    live[k] = (stream, name, method, None if end else body[n:])
                    if not end and n == 0:
                        c.read() if room <= 0 else None
                else:
                    c.read()
                if s.chance(0.01):
                    c.reset(stream, s.rnd.choice([0, 1, 8]))
                    del live[k]
                elif a.whole or a.reset is not None:
                    if a.status:
                        s.got(name, a.status, a.headers, a.body, a.whole, method)
                    del live[k]
                elif s.chance(0.02):
                    c.frame(*s.rnd.choice([(PING, 0, 0, b"12345678"), (SETTINGS, 0, 0, setting(window=s.rnd.choice([0, 100, 65535]))), (PRIORITY, 0, stream, b"\0\0\0\0\1"),
                                           (0xfa, 7, stream, b"x"), (WINDOW_UPDATE, 0, stream, struct.pack(">I", 100000)), (WINDOW_UPDATE, 0, 0, struct.pack(">I", 100000))]))
            if s.chance(0.1):
                return
            for stream, name, method, body in live:
                a = c.answers[stream]
                if a.status:
                    s.got(name, a.status, a.headers, a.body, a.whole, method)
            if live:
                return
    finally:
        leave(s, c.c.sock)

# -- a WebSocket that nobody grants, or somebody does --

def upgrade(s):
    name = s.new()[0]
    path = "/%s/%s/%s" % (s.rnd.choice(["ok", "cred", "no"]), name, s.rnd.choice(MOODS))
    tell(ask=name, method="GET", path=path, host=s.host, size=None, kind="upgrade")
    if s.chance(0.5):
        c = tls(s.host)
        c.timeout(2)
        c.send("GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Version: 13\r\n"
               "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n" % (path, s.host))
        if s.chance(0.3):
            c.send(request_body(name, 200))
        a = c.answer()
        if a.status >= 200 and 101 not in a.interim:
            s.got(name, a.status, a.headers, a.body, a.whole, "GET")
        leave(s, c.sock)
        return
    c = h2(s.host)
    c.c.timeout(2)
    stream, c.next = c.next, c.next + 2
    c.headers(stream, c.pseudo(path, "CONNECT", authority=s.host, protocol="websocket") + [("sec-websocket-version", "13")], False)
    c.data(stream, request_body(name, s.rnd.choice([0, 200, 60000])), s.chance(0.2))
    a = c.answer(stream)
    if a.status:
        s.got(name, a.status, a.headers, a.body, a.whole, "GET")
        if a.status == 200:
            tell(wrong="granted by nobody: %r" % name)
    leave(s, c.c.sock)

def worker(first):
    for number in range(first, SESSIONS, THREADS):
        s = Session(number)
        kind = s.rnd.choice([one, one, two, two, two, upgrade])
        try:
            kind(s)
        except (OSError, ValueError, RuntimeError, KeyError, hpack.exceptions.HPACKError) as e:
            tell(note="%s %s: %r" % (kind.__name__, s.number, e))

THREADS = 12
threads = [threading.Thread(target=worker, args=(i,)) for i in range(THREADS)]
for x in threads:
    x.start()
for x in threads:
    x.join()
c = tls("a.test")
tell(ask="last", method="GET", path="/ok/last/plain", host="a.test", size=None, kind="whole")
c.get("/ok/last/plain")
'''
