"""A raw HTTP client inside of the sandbox: a Python program whose text is put together here.

    r = client.run(policy, '''
        c = tls("a.test")
        c.send("GET / HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n")
        report(c.answer().status)
    ''', resolve=...)
    r.reports       # what report() was called with, in order

Inside there are: tls(host, port=443, sni=host, alpn=None), tcp(host, port=80), wrap(connection, sni),
connect(authority) (by CONNECT; `granted` is its answer); a connection has send(text or bytes), pour(bytes) (the same, and what comes
meanwhile is taken in: for who answers before all was sent; TLS of a connection is one thread's), answer(method="GET") (status,
headers, body, interim, whole), rest() (everything to the end), ended (how: "eof", "ragged", "reset"), shut(), close(),
timeout(seconds). hold() waits for what run() is told to wait for.
"""
import json
import os
import subprocess
import textwrap

import exeat
import tap
import work

PRELUDE = '''
import json, os, select, socket, ssl, struct, subprocess, sys, threading, time

def report(*what):
    print("REPORT " + json.dumps(what[0] if len(what) == 1 else list(what)), flush=True)

class Answer:
    def __init__(self):
        self.status, self.line, self.headers, self.body, self.trailers = 0, "", [], b"", []
        self.interim, self.whole = [], False
    def all(self, name):
        return [v for n, v in self.headers if n.lower() == name.lower()]
    def header(self, name):
        found = self.all(name)
        return found[0] if found else None

class Connection:
    def __init__(self, sock):
        self.sock, self.pending, self.ended = sock, b"", None
        sock.settimeout(30)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    def timeout(self, seconds):
        self.sock.settimeout(seconds)
    def send(self, data):
        self.sock.sendall(data.encode("latin-1") if isinstance(data, str) else data)
    def pour(self, data):
        patience, listens = self.sock.gettimeout(), True
        self.sock.setblocking(False)
        try:
            while data:
                try:
                    data = data[self.sock.send(data[:65536]):]
                    continue
                except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    pass
                ready = select.select([self.sock] if listens else [], [self.sock], [], patience)
                if not any(ready):
                    raise TimeoutError("nothing is taken")
                if ready[0]:
                    try:
                        got = self.sock.recv(65536)
                        self.pending, listens = self.pending + got, bool(got)
                    except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                        pass
        finally:
            self.sock.settimeout(patience)
    def recv(self):
        try:
            data = self.sock.recv(65536)
        except (socket.timeout, TimeoutError):
            self.ended, data = "timeout", b""
        except ConnectionError:
            self.ended, data = "reset", b""
        except ssl.SSLError as e:
            self.ended, data = "ragged" if "EOF" in str(e).upper() else "broken", b""
        if not data and not self.ended:
            self.ended = "eof"
        return data
    def until(self, mark):
        while mark not in self.pending:
            data = self.recv()
            if not data:
                return None
            self.pending += data
        head, self.pending = self.pending.split(mark, 1)
        return head
    def exactly(self, n):
        while len(self.pending) < n:
            data = self.recv()
            if not data:
                out, self.pending = self.pending, b""
                return out
            self.pending += data
        out, self.pending = self.pending[:n], self.pending[n:]
        return out
    def rest(self):
        while self.recv_more():
            pass
        out, self.pending = self.pending, b""
        return out
    def recv_more(self):
        data = self.recv()
        self.pending += data
        return bool(data)
    def answer(self, method="GET"):
        a = Answer()
        while True:
            head = self.until(b"\\r\\n\\r\\n")
            if head is None:
                return a
            lines = head.decode("latin-1").split("\\r\\n")
            a.line, a.status = lines[0], int(lines[0].split(" ")[1])
            a.headers = [(n, v.strip()) for n, _, v in (l.partition(":") for l in lines[1:])]
            if a.status >= 200:
                break
            a.interim.append(a.status)
        if method == "HEAD" or a.status in (204, 304):
            a.whole = True
        elif "chunked" in (a.header("transfer-encoding") or ""):
            self.chunks(a)
        elif a.header("content-length") is not None:
            n = int(a.header("content-length"))
            a.body = self.exactly(n)
            a.whole = len(a.body) == n
        else:
            a.body = self.rest()
            a.whole = self.ended == "eof"
        return a
    def chunks(self, a):
        while True:
            line = self.until(b"\\r\\n")
            if line is None:
                return
            n = int(line.split(b";")[0], 16)
            if n == 0:
                break
            data = self.exactly(n + 2)
            a.body += data[:n]
            if len(data) < n + 2:
                return
        while True:
            line = self.until(b"\\r\\n")
            if line is None:
                return
            if not line:
                a.whole = True
                return
            a.trailers.append(line.decode("latin-1"))
    def get(self, target, host="a.test", method="GET", extra=""):
        self.send("%s %s HTTP/1.1\\r\\nHost: %s\\r\\n%s\\r\\n" % (method, target, host, extra))
        return self.answer(method)
    def shut(self):
        if isinstance(self.sock, ssl.SSLSocket):
            self.sock = self.sock.unwrap()
        else:
            self.sock.shutdown(socket.SHUT_WR)
    def close(self):
        self.sock.close()

contexts = {}

def context_for(sni, alpn):
    """Reading the store of certificates takes longer than a handshake: once for each kind."""
    kind = (sni is None, tuple(alpn or ()))
    if kind not in contexts:
        context = contexts[kind] = ssl.create_default_context()
        context.options &= ~0x80  # SSL_OP_IGNORE_UNEXPECTED_EOF: a FIN without close_notify is told apart
        if alpn:
            context.set_alpn_protocols(alpn)
        if sni is None:
            context.check_hostname = False
    return contexts[kind]

def wrap(connection, sni, alpn=None):
    context = context_for(sni, alpn)
    connection.sock = context.wrap_socket(connection.sock, server_hostname=sni, suppress_ragged_eofs=False)
    return connection

def tcp(host, port=80):
    return Connection(socket.create_connection((host, port), 30))

def tls(host, port=443, sni=True, alpn=None):
    return wrap(tcp(host, port), host if sni is True else sni, alpn)

def connect(authority, proxy=("proxy.test", 3128)):
    """A proxy asked by CONNECT: the connection behind it; its `granted` is the proxy's answer."""
    c = tcp(*proxy)
    c.send("CONNECT %s HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n" % (authority, authority))
    c.granted = c.answer("HEAD")
    return c

def spin(seconds):
    time.sleep(seconds)

def hold():
    sys.stdin.read()
'''


def program(code):
    parts = [code] if isinstance(code, str) else code
    return "\n".join([PRELUDE] + [textwrap.dedent(part) for part in parts])


def _held(policy, command, until, timeout=60, **options):
    with exeat.Sandbox(policy, command, stdin=subprocess.PIPE, **options) as sandbox:
        try:
            tap.eventually(lambda: sandbox.process.poll() is not None or until(sandbox.decisions()), timeout, "what the client waits for has not come")
        finally:
            r = sandbox.wait(timeout)
            tap.note(r)
    return r


def run(policy, code, until=None, **options):
    """exeat.run() of that code (a text, or several); the result has `reports`. A program that fails is a failure. `until`, if given,
    is asked with the records so far until it is content: as long hold() waits inside."""
    command = ["python3", work.write(os.path.join(work.folder("client."), "client.py"), program(code))]
    r = _held(policy, command, until, **options) if until else exeat.run(policy, command, **options)
    r.reports = [json.loads(line[7:]) for line in r.out.split("\n") if line.startswith("REPORT ")]
    if r.code != 0:
        raise AssertionError("the client inside failed: %s" % r)
    return r
