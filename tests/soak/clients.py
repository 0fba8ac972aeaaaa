# The clients of the soak, all of them inside of one sandbox. Not a program by itself: it goes behind the texts of client.py,
# h2.py and websocket.py, and behind NOTES, SEED, AT_ONCE (how many clients) and HOME.
#
# Each session is a process that does a few things of one kind, chosen by its own seed; many are killed while they do. What a
# session asks for goes by an id that stands in the URL, and into the notes:
#
#     I ID KIND [NUMBER]      is about to be asked for (of git and others: any number of requests)
#     A ID STATUS DECISION    the head of its answer has come; DECISION is what a refusal named, or -
#     T ID NUMBER             git has ended by itself, and has sent so many requests
#     K SESSION               was killed
#
# Lines on standard input: "go" begins, "stop" ends the sessions, "exit" the program.
import random
import re
import select
import shutil
import signal

notes = os.open(NOTES, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
ULID = re.compile(r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b")


# Made once: to read the roots costs more than a connection does. A session inherits them.
contexts = {}


def context_for(alpn):
    if alpn not in contexts:
        contexts[alpn] = ssl.create_default_context()
        contexts[alpn].options &= ~0x80  # see client.py
        contexts[alpn].set_alpn_protocols([alpn] if alpn else [])
        contexts[alpn].check_hostname = False
    return contexts[alpn]


def wrap(connection, sni, alpn=None):
    connection.sock = context_for(alpn[0] if alpn else "").wrap_socket(connection.sock, server_hostname=sni, suppress_ragged_eofs=False)
    return connection


def note(*words):
    os.write(notes, (" ".join(str(w) for w in words) + "\n").encode())


class Session(object):
    def __init__(self, number):
        self.number = number
        self.rnd = random.Random("%d/%d" % (SEED, number))
        self.count = 0

    def new(self, kind):
        self.count += 1
        name = "q%d-%d" % (self.number, self.count)
        note("I", name, kind)
        return name

    def answered(self, name, status, body=b"", more=""):
        found = ULID.search(more) or (ULID.search(body.decode("latin-1")) if status >= 400 else None)
        note("A", name, status, found.group() if found else "-")

    def chance(self, p):
        return self.rnd.random() < p

    def leave(self, c):
        """An end of the connection that is not an orderly one, or is."""
        how = self.rnd.choice(["rst", "half", "stay", "close", "notify"])
        sock = c.sock
        if how == "rst":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif how == "half":
            socket.socket.shutdown(sock, socket.SHUT_WR)
            c.timeout(2)
            c.rest()
        elif how == "stay":
            time.sleep(self.rnd.random() * 3)
        elif how == "notify":
            c.timeout(1)
            c.shut()
        c.close()


# ---- HTTP/1.1 ----

GOOD = ["ok", "size/0", "size/3000", "chunks/40000", "trailers", "204", "304", "interim", "last", "size/100000"]
BAD = ["nothing", "half", "halfhead", "twolengths", "nonsense", "badchunk", "early", "toend", "switch"]


def path_of(s, name):
    mood = s.rnd.random()
    if mood < 0.12:
        return "/no/%s" % name
    if mood < 0.3:
        return "/ok/%s/%s" % (name, s.rnd.choice(BAD))
    if mood < 0.32:
        return "/ok/%s/slow" % name
    if mood < 0.34:
        return "/ok/%s/size/2000000" % name
    return "/ok/%s/%s?x=%d" % (name, s.rnd.choice(GOOD), s.number)


def request_of(s, host, name):
    """(method, bytes, whether its body is whole) of one request."""
    mood, head = s.rnd.random(), "Host: %s\r\n" % host
    path = path_of(s, name)
    if mood < 0.5:
        return "GET", ("GET %s HTTP/1.1\r\n%s\r\n" % (path, head)).encode(), True
    if mood < 0.55:
        return "HEAD", ("HEAD %s HTTP/1.1\r\n%s\r\n" % (path, head)).encode(), True
    if mood < 0.6:
        return "GET", ("GET %s HTTP/1.0\r\n%s\r\n" % (path, head)).encode(), True
    if mood < 0.65:
        return "DELETE", ("DELETE %s HTTP/1.1\r\n%s\r\n" % (path, head)).encode(), True
    if s.chance(0.6):
        path = "/ok/%s/echo" % name
    size = s.rnd.choice([0, 5, 3000, 20000, 300000])
    body = b"u" * size
    expect = "Expect: 100-continue\r\n" if s.chance(0.1) else ""
    if s.chance(0.4):
        step = s.rnd.choice([7, 4096, 65536]) if size < 100000 else 65536
        wire = b"".join(b"%x\r\n%s\r\n" % (len(body[i:i + step]), body[i:i + step]) for i in range(0, size, step)) + b"0\r\n\r\n"
        head += "Transfer-Encoding: chunked\r\n"
    else:
        wire = body
        head += "Content-Length: %d\r\n" % size
    whole = s.chance(0.85)
    if not whole:
        wire = wire[:s.rnd.randrange(len(wire) + 1)]
    return "POST", ("POST %s HTTP/1.1\r\n%s%s\r\n" % (path, head, expect)).encode() + wire, whole


def read_answer(s, c, name, method, seconds=6):
    c.timeout(seconds)
    a = Answer()
    try:
        a = c.answer(method)
    finally:
        if a.status:
            s.answered(name, a.status, a.body, a.line)
    return a.whole and (a.header("connection") or "").lower() != "close"


def http1(s):
    host, port = s.rnd.choice([("a.test", 443), ("a.test", 443), ("a.test", 80), ("h2.test", 443), ("frames.test", 443), ("down.test", 443)])
    c = tcp(host, port) if port == 80 else tls(host)
    for _ in range(s.rnd.randrange(1, 9)):
        asked, whole = [], True
        for _ in range(s.rnd.randrange(2, 6) if s.chance(0.1) else 1):
            name = s.new("http1")
            method, wire, whole = request_of(s, host, name)
            asked.append((name, method, wire))
            if not whole:  # what came behind it would be taken for its body
                break
        c.timeout(5)
        if s.chance(0.05):
            for i in range(0, 200, 20):  # a slow one, whose head may not get there
                c.send(asked[0][2][i:i + 20])
                time.sleep(0.05)
            c.send(asked[0][2][200:])
            asked = asked[:1]
            whole = False
        else:
            c.send(b"".join(wire for _, _, wire in asked))
        if s.chance(0.12):
            break
        # one that was cut short has no answer, unless it is an early one
        if not all(read_answer(s, c, name, method) for name, method, _ in asked) or not whole:
            break
    s.leave(c)


MALFORMED = [
    "GET /ok/%s HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
    "POST /ok/%s HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST /ok/%s HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "POST /ok/%s HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n",
    "POST /ok/%s/echo HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n0\r\n\r\n",
    "GET /ok/%s HTTP/1.1\nHost: a.test\n\n",
    "GET /ok/%s HTTP/1.1\r\nHost: a.test\r\nX: 1\r\n folded\r\n\r\n",
    "GET /ok/%s HTTP/1.1\r\n\r\n",
    "GET /ok/%s HTTP/1.1\r\nHost: b.test\r\n\r\n",
    "GET /ok/%s HTTP/1.1\r\nHost: a.test\r\nHost: a.test\r\n\r\n",
    "GET https://b.test/ok/%s HTTP/1.1\r\nHost: a.test\r\n\r\n",
    "GET /ok/%s/\0 HTTP/1.1\r\nHost: a.test\r\n\r\n",
    "GET /ok/%s\r\n\r\n",
    "GET /ok/%s HTTP/3.0\r\nHost: a.test\r\n\r\n",
    "CONNECT %s.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n",
    "G\x01T /ok/%s HTTP/1.1\r\nHost: a.test\r\n\r\n",
    "GET /ok/%s/%%2e%%2e/%%2E%%2e/x HTTP/1.1\r\nHost: a.test\r\n\r\n",
    "GET /ok/%s HTTP/1.1\r\nHost: a.test\r\nX: " + "y" * 200000 + "\r\n\r\n",
    "GET /ok/%s/" + "z" * 100000 + " HTTP/1.1\r\nHost: a.test\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n%s",
    "GET /ok/%s HTTP/1.1\r\nHost: a.test\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
]


def malformed(s):
    c = tls("a.test") if s.chance(0.7) else tcp("a.test")
    name = s.new("malformed")
    c.send(s.rnd.choice(MALFORMED) % name)
    if s.chance(0.8):
        read_answer(s, c, name, "GET")
    s.leave(c)


def denied_hosts(s):
    """Names that no rule has, each with a leaf of its own; no more of them than are soon in every cache."""
    number = s.rnd.randrange(100)
    host = "x%d.other.test" % number
    c = tls(host) if s.chance(0.8) else tcp(host)
    name = s.new("denied")
    c.send("GET /ok/%s HTTP/1.1\r\nHost: %s\r\n\r\n" % (name, host))
    if s.chance(0.8):
        read_answer(s, c, name, "GET")
    s.leave(c)


def handshakes(s):
    """Connections that end before there is a request, or ask for what can't be."""
    s.new("connection")
    mood = s.rnd.randrange(7)
    c = tcp("a.test", 443 if mood < 6 else 80)
    if mood == 0:
        outgoing = ssl.MemoryBIO()
        half = context_for("").wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="a.test")
        try:
            half.do_handshake()
        except ssl.SSLWantReadError:
            pass
        data = outgoing.read()
        c.send(data[:s.rnd.randrange(1, len(data) + 1)])
        time.sleep(s.rnd.random())
    elif mood == 1:
        c.send(bytes(s.rnd.randrange(256) for _ in range(s.rnd.randrange(1, 300))))
    elif mood == 2:
        wrap(c, "b.test")
    elif mood == 3:
        wrap(c, None)
    elif mood == 4:
        c.send("GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n")
    elif mood == 5:
        wrap(c, "a.test")
    else:
        c.send("GET /slow")
        time.sleep(s.rnd.random() * 2)
    if s.chance(0.3):
        c.timeout(2)
        c.rest()
    s.leave(c)


# ---- HTTP/2 ----

def h2_answer(s, c, stream, name):
    try:
        a = c.answer(stream)
    finally:
        a = c.answers[stream]
        if a.status:
            s.answered(name, a.status, a.body)


def h2_requests(s, c, host):
    open_streams = []
    for _ in range(s.rnd.randrange(1, 11)):
        name = s.new("http2")
        if s.chance(0.35):
            size = s.rnd.choice([0, 10, 3000, 60000])
            stream = c.request("/ok/%s/echo" % name, method="POST", end=False, authority=host)
            for i in range(0, size, 16384):
                c.data(stream, b"d" * min(16384, size - i))
            if s.chance(0.85):
                c.data(stream, b"", end=True)
            else:
                c.reset(stream)
        else:
            stream = c.request(path_of(s, name), authority=host)
            if s.chance(0.1):
                c.reset(stream)
        open_streams.append((stream, name))
        if s.chance(0.2):
            c.ping()
    return open_streams


def h2_games(s, c, host):
    """What a client must not do, or not that often."""
    mood = s.rnd.randrange(8)
    if mood == 0:
        for _ in range(300):
            name = s.new("http2")
            c.reset(c.request("/ok/%s" % name, authority=host))
    elif mood == 1:
        for _ in range(3000):
            c.frame(SETTINGS, 0, 0, setting(window=65535))
    elif mood == 2:
        c.window(0, 0x7fffffff)
    elif mood == 3:
        c.frame(HEADERS, 0, c.next, c.block([("x", "y" * 1000)]))
        for _ in range(200):
            c.frame(CONTINUATION, 0, c.next, b"\0" * 16000)
    elif mood == 4:
        for _ in range(3000):
            c.frame(PING, 0, 0, b"12345678")
    elif mood == 5:
        c.frame(s.rnd.randrange(256), s.rnd.randrange(256), s.rnd.randrange(50), bytes(s.rnd.randrange(256) for _ in range(100)))
    elif mood == 6:
        c.request("/ok/" + s.new("http2"), authority="b.test")
    else:
        c.next += 2
        c.headers(c.next - 2, [(":method", "GET"), (":path", "/ok/" + s.new("malformed")), ("X-Upper", "1"), ("connection", "close")])


def http2(s):
    host = s.rnd.choice(["a.test", "h2.test", "h2.test", "frames.test"])
    c = h2(host, settings={"window": s.rnd.choice([1, 1000, 65535, 1000000])} if s.chance(0.2) else None)
    c.c.timeout(6)
    for _ in range(s.rnd.randrange(1, 4)):
        asked = h2_requests(s, c, host)
        if s.chance(0.2):
            h2_games(s, c, host)
        if s.chance(0.15):
            break
        for stream, name in asked:
            h2_answer(s, c, stream, name)
        if c.ended:
            break
    s.leave(c.c)


# ---- WebSocket, tunnels ----

def frames_both_ways(s, c):
    for _ in range(s.rnd.randrange(1, 20)):
        c.send(frame(b"w" * s.rnd.choice([0, 10, 1000, 100000])))
        if not get_frame(c):
            return
        if s.chance(0.1):
            time.sleep(0.3)
    if s.chance(0.5):
        c.send(frame(b"\x03\xe8", 8))
        get_frame(c)


def websockets(s):
    name = s.new("websocket")
    if s.chance(0.3):
        c = h2("a.test")
        stream = c.request("/ok/%s/ws" % name, method="CONNECT", end=False, protocol="websocket", fields=[("sec-websocket-version", "13")])
        while not c.answers[stream].status and c.answers[stream].reset is None and c.read():
            pass
        if c.answers[stream].status:
            s.answered(name, c.answers[stream].status)
        for _ in range(s.rnd.randrange(5)):
            c.data(stream, frame(b"over h2"))
            c.read()
        s.leave(c.c)
        return
    c = ask(tls("a.test") if s.chance(0.7) else tcp("a.test"), "/%s/%s/ws" % (s.rnd.choice(["ok", "ok", "ok", "no"]), name))
    status, fields = head(c)
    if status:
        rest = c.exactly(int(fields.get("content-length", 0))) if status != 101 else b""
        s.answered(name, status, rest)
    if status == 101:
        frames_both_ways(s, c)
    s.leave(c)


def tunnels(s):
    name = s.new("tunnel")
    context = ssl._create_unverified_context()
    c = tcp("t.test", 443)
    c.sock = context.wrap_socket(c.sock, server_hostname="t.test")
    for _ in range(s.rnd.randrange(1, 5)):
        c.send("POST /ok/%s/echo HTTP/1.1\r\nHost: t.test\r\nContent-Length: 50000\r\n\r\n" % name + "t" * 50000)
        if s.chance(0.2):
            break
        c.answer()
    s.leave(c)


# ---- programs ----

def run_program(s, command, env, seconds=40):
    """A child of this session, in its process group; None if it was given up."""
    process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        out, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return None, b""
    return process.returncode, out


GIT = {
    "list": "git ls-remote $U",
    "clone": "git clone -q $U w",
    "shallow": "git clone -q --depth 1 $U w",
    "hidden": "git fetch -q $U refs/heads/hidden",
    "push": "git clone -q $U w; cd w; date > new; git add .; git commit -qm new; git push -q origin HEAD:refs/heads/fix/$N; "
            "git commit -q --allow-empty -m more; git push -q origin HEAD:refs/heads/fix/$N",
    "delete": "git clone -q $U w; cd w; git push -q origin HEAD:refs/heads/fix/$N; git push -q origin :refs/heads/fix/$N",
    "refused": "git clone -q $U w; cd w; git commit -q --allow-empty -m x; git push -q origin HEAD:refs/heads/main",
    "paths": "git clone -q $U w; cd w; mkdir .github; date > .github/ci; git add .; git commit -qm ci; git push -q origin HEAD:refs/heads/fix/$N",
    "big": "git clone -q $U w; cd w; head -c 400000 /dev/urandom > big; git add .; git commit -qm big; git push -q origin HEAD:refs/heads/fix/$N",
}
LFS = "git lfs install --skip-repo >/dev/null; git clone -q $U w; cd w; git lfs install --local >/dev/null; git checkout -q -b fix/$N; " \
      "git lfs track '*.bin' >/dev/null; head -c 100000 /dev/urandom > big.bin; git add .; git commit -qm big; git push -q origin fix/$N"


def with_git(s, script, kind):
    name = s.new(kind)
    home = os.path.join(HOME, name)
    os.mkdir(home)
    trace = os.path.join(home, "trace")
    env = dict(os.environ, HOME=home, GIT_TRACE_CURL=trace, GIT_TRACE_CURL_NO_DATA="1", U="https://g.test/soak/%s/app.git" % name, N=name,
               GIT_TERMINAL_PROMPT="0")
    code, _ = run_program(s, ["sh", "-c", "set -e; cd; git init -q; " + script], env)
    if code is not None and kind == "git":
        with open(trace, encoding="latin-1") as f:
            note("T", name, sum(1 for line in f if re.search(r"Send header: (GET|POST) /", line)))
    shutil.rmtree(home, ignore_errors=True)


def git(s):
    with_git(s, GIT[s.rnd.choice(sorted(GIT))], "git")


def lfs(s):
    with_git(s, LFS, "lfs")


RPC = '''
import sys, grpc
names = iter(sys.argv[1:])
channel = grpc.secure_channel("grpc.test:443", grpc.ssl_channel_credentials())
def call(kind, method, argument, **options):
    name = next(names)
    code = "OK"
    try:
        got = getattr(channel, kind)("/test.Echo/%s-%s" % (method, name))(argument, timeout=8, **options)
        if kind.endswith("stream"):
            list(got)
    except grpc.RpcError as e:
        code = e.code().name
    print(name, code, flush=True)
call("unary_unary", "Unary", b"hello")
call("unary_stream", "Down", b"")
call("unary_unary", "Fails", b"")
call("stream_unary", "Up", iter([b"x" * 20000] * 5))
call("stream_stream", "Both", iter([b"a", b"b"]))
call("unary_unary", "Secret", b"")
call("unary_stream", "Hangs", b"")
'''


def rpc(s):
    names = [s.new("grpc") for _ in range(7)]
    _, out = run_program(s, ["python3", "-c", RPC] + names, os.environ)
    for line in out.decode("latin-1").splitlines():
        words = line.split()
        if len(words) == 2 and words[0] in names and words[1] in ("OK", "NOT_FOUND", "PERMISSION_DENIED"):
            note("A", words[0], 200, "-")


# ---- sessions ----

KINDS = [(http1, 40), (http2, 18), (malformed, 10), (denied_hosts, 8), (handshakes, 8), (websockets, 8), (tunnels, 5), (git, 6)]
if os.access("/usr/bin/git-lfs", os.X_OK):
    KINDS.append((lfs, 1))
if GRPC:
    KINDS.append((rpc, 1))


def session(number):
    """In the child: never returns."""
    os.setsid()
    s = Session(number)
    function = s.rnd.choices([k for k, _ in KINDS], [w for _, w in KINDS])[0]
    try:
        function(s)
    except (OSError, ValueError, RuntimeError, IndexError, hpack.HPACKError):
        pass
    finally:
        os._exit(0)


class Controller(object):
    def __init__(self):
        self.rnd = random.Random(SEED)
        self.live = {}
        self.number = self.killed = 0

    def start(self):
        self.number += 1
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            session(self.number)
        # most would end by themselves long before
        limit = self.rnd.random() * 1.5 if self.rnd.random() < 0.35 else 60
        self.live[pid] = (self.number, time.monotonic() + limit)

    def kill(self, pid):
        number, _ = self.live.pop(pid)
        try:
            os.killpg(pid, signal.SIGKILL)
        except OSError:
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self.killed += 1
        note("K", number)
        for left in os.listdir(HOME):
            if left.startswith("q%d-" % number):
                shutil.rmtree(os.path.join(HOME, left), ignore_errors=True)

    def reap(self):
        while self.live:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            self.live.pop(pid, None)

    def round(self, more):
        self.reap()
        now = time.monotonic()
        for pid in [p for p, (_, limit) in self.live.items() if limit < now]:
            self.kill(pid)
        while more and len(self.live) < AT_ONCE:
            self.start()


def line_of_stdin(seconds):
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    return sys.stdin.readline().strip() if ready else None


def main():
    controller, more = Controller(), False
    context_for(""), context_for("h2")
    report("ready")
    while True:
        word = line_of_stdin(0.02)
        if word in ("go", "stop"):
            more = word == "go"
        if word == "stop":
            until = time.monotonic() + 3
            while controller.live and time.monotonic() < until:
                controller.round(False)
                time.sleep(0.05)
            for pid in list(controller.live):
                controller.kill(pid)
            report("stopped", controller.number, controller.killed)
        if word in ("exit", ""):
            return
        controller.round(more)


main()
