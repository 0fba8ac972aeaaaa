"""A server of HTTP/1.1 and one of HTTP/2, in one program, that answer by what a request's path asks for: /ok/NAME/WHAT.

    TellServer("python3", hostileserver.PROGRAM, *pki.leaf("a.test"))   # its port is HTTP/1.1's; it tells that of HTTP/2 ("two")

WHAT (the words of MOODS in hostileclient.py) says how: what breaks off, what is malformed, what comes besides. All else is
chosen by the target, so that a seed says it. Of each request it tells the head, and then the length of the body, and whether that
is the one that belongs to the name.

All bodies are made of what is a request to who reads it as one, or an answer: none of these may ever be seen.
"""
# Both sides know these.
BODIES = r'''
def request_body(name, n):
    piece = ("POST /no/evil-%s HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n" % name).encode()
    return (piece * (n // len(piece) + 1))[:n]
def answer_body(name, n):
    piece = ("HTTP/1.1 200 OK\r\nX-Id: evil\r\nContent-Length: 0\r\n\r\n%s\n" % name).encode()
    return (piece * (n // len(piece) + 1))[:n]
'''

PROGRAM = BODIES + r'''
import hpack, json, random, socket, ssl, struct, sys, threading, time
EVIL = b"HTTP/1.1 200 OK\r\nX-Id: evil\r\nContent-Length: 4\r\n\r\nevil"
lock = threading.Lock()
def say(**what):
    with lock:
        sys.stdout.write(json.dumps(what) + "\n")
        sys.stdout.flush()
class Over(Exception):
    pass

class Peer(object):
    def __init__(self, sock):
        self.sock, self.pending = sock, b""
    def send(self, data):
        try:
            self.sock.sendall(data)
        except (OSError, ValueError):
            raise Over()
    def fill(self):
        try:
            data = self.sock.recv(65536)
        except (OSError, ValueError):
            data = b""
        if not data:
            raise Over()
        self.pending += data
    def exactly(self, n):
        while len(self.pending) < n:
            self.fill()
        out, self.pending = self.pending[:n], self.pending[n:]
        return out
    def until(self, mark):
        while mark not in self.pending:
            self.fill()
        out, self.pending = self.pending.split(mark, 1)
        return out
    def cut(self, rnd):
        how = rnd.choice(["rst", "fin", "notify"])
        try:
            if how == "rst":
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif how == "notify":
                self.sock.settimeout(0.2)
                self.sock.unwrap()
        except (OSError, ValueError):
            pass
        raise Over()

def plan(target):
    """(name, what, random) as the client wants it: /ok/ID/WHAT?more"""
    words = target.split("?")[0].split("/")
    name, what = (words[2], words[3]) if len(words) > 3 else ("", "")
    return name, what, random.Random(target)

# -- HTTP/1.1 --

def read_body(p, fields):
    coded, length = fields.get("transfer-encoding"), fields.get("content-length")
    if coded is None:
        return p.exactly(int(length or 0))
    body = b""
    while True:
        n = int(p.until(b"\r\n"), 16)
        if n == 0:
            while p.until(b"\r\n"):
                pass
            return body
        body += p.exactly(n)
        if p.exactly(2) != b"\r\n":
            say(wrong="a chunk without an end")

def pieces(rnd, data):
    while data:
        n = rnd.choice([1, 7, 100, 5000, 100000])
        yield data[:n]
        data = data[n:]

def answer1(p, rnd, method, name, what):
    """True: the connection goes on."""
    n = rnd.choice([0, 0, 1, 50, 3000, 70000])
    if what == "more":
        n = min(n, 3000)    # what is too much comes in one piece with the rest: later it might be another's
    body, head = answer_body(name, n), ("X-Id: %s\r\n" % name).encode()
    bare = method == "HEAD"
    wire = b"HTTP/1.1 200 OK\r\n" + head + b"Content-Length: %d\r\n\r\n" % n + (b"" if bare else body)
    if what == "chunks":
        wire = b"HTTP/1.1 200 OK\r\n" + head + b"Transfer-Encoding: chunked\r\n\r\n"
        if not bare:
            wire += b"".join(b"%x%s\r\n%s\r\n" % (len(x), rnd.choice([b"", b";a=b", b';c="d;\\"e"']), x) for x in pieces(rnd, body))
            wire += b"0\r\n" + rnd.choice([b"", b"X-Sum: 7\r\n", b"Content-Length: 3\r\nSet-Cookie: a=b\r\n"]) + b"\r\n"
    elif what == "toend":
        wire = b"HTTP/1.1 200 OK\r\n" + head + b"\r\n" + (b"" if bare else body)
    elif what == "bare":
        wire = b"HTTP/1.1 %s x\r\n" % rnd.choice([b"204", b"304"]) + head + rnd.choice([b"", b"Content-Length: 500\r\n"]) + b"\r\n"
    elif what == "interim":
        extra = rnd.choice([b"100", b"103", b"102", b"150"])
        wire = (b"HTTP/1.1 %s x\r\nLink: </x>\r\n\r\n" % extra) * rnd.choice([1, 2, 31, 40]) + wire
    elif what == "more":
        wire += rnd.choice([EVIL, b"HTTP/1.1 100 Continue\r\n\r\n", b"\r\n", b"x"])
    elif what == "switch":
        wire = b"HTTP/1.1 101 x\r\n" + head + b"Upgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n" + EVIL
    elif what == "twice":
        wire = b"HTTP/1.1 200 OK\r\n" + head + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + EVIL
    elif what == "nonsense":
        wire = rnd.choice([b"HTTP/1.1 200 OK\r\n" + head + b"X: y\n\r\n" + EVIL, b"HTTP/1.1 99 x\r\n\r\n", b"HTTP/2 200 OK\r\n\r\n", b"\0" * 9,
                           b"HTTP/1.1 200 OK\r\n" + head + b"Transfer-Encoding: chunked\r\n\r\n" + b"zz\r\n" + EVIL,
                           b"HTTP/1.1 200 OK\r\n" + head + b"X: " + b"y" * 70000 + b"\r\n\r\n"])
    elif what == "half":
        wire = wire[:rnd.randrange(len(wire))]
    elif what == "nothing":
        wire = b""
    if what == "drip":
        for x in pieces(rnd, wire[:60]):
            p.send(x)
            time.sleep(0.01)
        wire = wire[60:]
    if what != "more" and rnd.random() < 0.3:
        for x in pieces(rnd, wire[:3000]):
            p.send(x)
        wire = wire[3000:]
    p.send(wire)
    if what in ("toend", "nonsense", "half", "nothing", "twice", "switch") or rnd.random() < 0.05:
        p.cut(rnd)
    if what == "late":
        time.sleep(rnd.random() * 0.05)
        p.cut(rnd)

def serve1(p, host):
    while True:
        lines = p.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        method, target, version = (lines[0].split(" ") + ["", ""])[:3]
        fields = [(n.lower(), v.strip()) for n, _, v in (l.partition(":") for l in lines[1:])]
        name, what, rnd = plan(target)
        say(name=name, method=method, target=target, host=[v for n, v in fields if n == "host"], sni=host, version=version,
            auth=[v for n, v in fields if n in ("authorization", "proxy-authorization", "x-api-key")],
            more=[n for n, v in fields if n in ("x-hop", "te", "upgrade")], lines=len(set(n for n, v in fields)) == len(fields))
        early = rnd.random() < 0.2
        if early and what != "interim":
            answer1(p, rnd, method, name, what)
        if dict(fields).get("expect") and not early:
            if rnd.random() < 0.2:
                p.send(b"HTTP/1.1 417 no\r\nX-Id: %s\r\nContent-Length: 0\r\n\r\n" % name.encode())
                p.cut(rnd)
            p.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        if what == "deaf" and rnd.random() < 0.5:
            time.sleep(0.3)
            p.cut(rnd)
        body = read_body(p, dict(fields))
        say(name=name, body=len(body), good=body == request_body(name, len(body)))
        if not early or what == "interim":
            answer1(p, rnd, method, name, what)

# -- HTTP/2 --

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)

class Two(object):
    def __init__(self, p, host):
        self.p, self.host, self.streams = p, host, {}
        self.encoder, self.decoder = hpack.Encoder(), hpack.Decoder()
        self.rnd = random.Random(host)
        if p.exactly(24) != b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":
            say(wrong="no preface")
        self.frame(SETTINGS, 0, 0, struct.pack(">HI", 4, random.choice([65535, 1, 100, 100000])) if random.random() < 0.4 else b"")
    def frame(self, kind, flags, stream, payload=b""):
        self.p.send(struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload)
    def head(self, s, fields, end, kind=HEADERS):
        block = self.encoder.encode(fields)
        cut = self.rnd.choice([len(block), 0, len(block) // 2])
        self.frame(HEADERS, (4 if cut == len(block) else 0) | end, s, block[:cut])
        if cut < len(block):
            self.frame(CONTINUATION, 4, s, block[cut:])
    def data(self, s, body, end):
        parts = [body[i:i + 16000] for i in range(0, len(body), 16000)] or [b""]
        for i, part in enumerate(parts):
            last = end and i == len(parts) - 1
            pad = self.rnd.choice([-1, -1, 0, 100])
            if pad < 0:
                self.frame(DATA, int(last), s, part)
            else:
                self.frame(DATA, 8 | int(last), s, bytes([pad]) + part + b"\0" * pad)
    def answer(self, s, method, name, what, rnd):
        n = rnd.choice([0, 0, 1, 50, 3000, 70000])
        body, fields = answer_body(name, n), [(":status", "200"), ("x-id", name)]
        told = [("content-length", str(n))] if rnd.random() < 0.5 else []
        bare = method == "HEAD"
        if what == "interim":
            for _ in range(rnd.choice([1, 2, 40])):
                self.head(s, [(":status", "103"), ("link", "</x>")], 0)
        if what == "bare":
            self.head(s, [(":status", rnd.choice(["204", "304"])), ("x-id", name)] + rnd.choice([[], [("content-length", "0")]]), 1)
        elif what == "switch":
            self.head(s, [(":status", "101"), ("x-id", name)], 0)
            self.data(s, EVIL, True)
        elif what == "nonsense":
            self.head(s, fields + rnd.choice([[("X-Upper", "y")], [("connection", "close")], [(":path", "/")], [("transfer-encoding", "chunked")],
                                             [("x", "a\r\nX-Id: evil")]]), 0)
            self.data(s, EVIL, True)
        elif what == "twice":
            self.head(s, fields + [("content-length", str(n + 1))], 0)
            self.data(s, body, True)
        elif what == "half":
            self.head(s, fields, 0)
            self.data(s, body, False)
            self.frame(RST_STREAM, 0, s, struct.pack(">I", rnd.choice([0, 2, 7, 8])))
        elif what == "nothing":
            self.frame(RST_STREAM, 0, s, struct.pack(">I", rnd.choice([0, 2, 7, 7, 7, 8, 11, 13])))
        elif what == "late":
            self.frame(GOAWAY, 0, 0, struct.pack(">II", rnd.choice([0, s - 2 if s > 2 else 0, s, 0x7fffffff]), rnd.choice([0, 0, 2])))
            if rnd.random() < 0.5:
                self.p.cut(rnd)
            self.head(s, fields, 1)
        elif what == "push":
            self.frame(PUSH_PROMISE, 4, s, struct.pack(">I", 2) + self.encoder.encode([(":method", "GET"), (":path", "/no/evil-push")]))
        elif what == "bits":
            self.frame(rnd.randrange(12), rnd.randrange(256), rnd.choice([0, s, s + 2]), bytes(rnd.randrange(256) for _ in range(rnd.randrange(40))))
            self.head(s, fields, 1)
        elif bare or n == 0:
            self.head(s, fields + (told if bare else []), 1)
        else:
            self.head(s, fields + told, 0)
            if what == "chunks":
                self.data(s, body, False)
                self.head(s, rnd.choice([[("x-sum", "7")], [("content-length", "3"), ("x-id", "evil")]]), 1)
            elif what == "more":
                self.data(s, body, True)
                self.data(s, EVIL, True)
            else:
                self.data(s, body, True)
    def one(self, s):
        st = self.streams[s]
        try:
            self.answer(s, st["method"], st["name"], st["what"], st["rnd"])
        except KeyError:
            pass
    def head_came(self, s, block, end):
        fields = self.decoder.decode(block)
        if s in self.streams:
            return
        get = dict(fields).get
        target = get(":path") or ""
        name, what, rnd = plan(target)
        st = self.streams[s] = {"name": name, "what": what, "rnd": rnd, "method": get(":method"), "body": b"", "answered": False}
        say(name=name, method=get(":method"), target=target, host=[v for n, v in fields if n in (":authority", "host")], sni=self.host, version="h2",
            auth=[v for n, v in fields if n in ("authorization", "proxy-authorization", "x-api-key")],
            more=[n for n, v in fields if n in ("x-hop", "connection", "transfer-encoding", "upgrade", "keep-alive")],
            lines=len(set(n for n, v in fields)) == len(fields))
        if rnd.random() < 0.2:
            st["answered"] = True
            self.one(s)
        if what == "deaf":
            self.frame(SETTINGS, 0, 0, struct.pack(">HI", 4, rnd.choice([0, 1, 65535])))
    def end_came(self, s):
        st = self.streams.get(s)
        if not st:
            return
        body = st["body"]
        say(name=st["name"], body=len(body), good=body == request_body(st["name"], len(body)))
        if not st["answered"]:
            st["answered"] = True
            self.one(s)
    def run(self):
        block, of, flags_of = None, 0, 0
        while True:
            head = self.p.exactly(9)
            n, kind, flags, s = struct.unpack(">I", b"\0" + head[:3])[0], head[3], head[4], struct.unpack(">I", head[5:])[0]
            payload = self.p.exactly(n)
            if kind == HEADERS:
                block, of, flags_of = payload[5:] if flags & 32 else payload, s, flags
            elif kind == CONTINUATION:
                block += payload
            elif kind == DATA:
                st = self.streams.get(s)
                if st:
                    st["body"] += payload
                if n:
                    self.frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", n))
                    if st and not flags & 1:
                        self.frame(WINDOW_UPDATE, 0, s, struct.pack(">I", n + st["rnd"].choice([0, 0, 1, 50000])))
                if flags & 1:
                    self.end_came(s)
            elif kind == SETTINGS and not flags & 1:
                self.frame(SETTINGS, 1, 0)
            elif kind == PING and not flags & 1:
                self.frame(PING, 1, 0, payload)
            if kind in (HEADERS, CONTINUATION) and flags & 4:
                self.head_came(of, block, flags_of & 1)
                if flags_of & 1:
                    self.end_came(of)

def serve(sock, context):
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock = context.wrap_socket(sock, server_side=True, suppress_ragged_eofs=False)
        host = getattr(sock, "named", None)
        p = Peer(sock)
        if sock.selected_alpn_protocol() == "h2":
            Two(p, host).run()
        else:
            serve1(p, host)
    except (OSError, Over, ValueError):
        pass
    except Exception as e:
        say(wrong="%s: %s" % (type(e).__name__, e))
    finally:
        try:
            sock.close()
        except OSError:
            pass

def named(sock, name, context):
    sock.named = name

def listen(alpn):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1], sys.argv[2])
    context.set_alpn_protocols(alpn)
    context.sni_callback = named
    l = socket.socket()
    l.bind(("127.0.0.1", 0))
    l.listen(500)
    def accept():
        while True:
            threading.Thread(target=serve, args=(l.accept()[0], context), daemon=True).start()
    threading.Thread(target=accept, daemon=True).start()
    return l.getsockname()[1]

say(port=listen(["http/1.1"]))
say(two=listen(["h2", "http/1.1"]))
threading.Event().wait()
'''
