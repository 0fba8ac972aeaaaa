"""Redis for the tests: a real redis-server of our own, and a scripted one that misbehaves.

Named as it is used; the redis package of Python is not needed by any test.
"""
import os
import signal
import socket
import subprocess
import time

import raw
import work


def encode(*words):
    """A command in RESP."""
    out = b"*%d\r\n" % len(words)
    for word in words:
        word = word if isinstance(word, bytes) else str(word).encode()
        out += b"$%d\r\n" % len(word) + word + b"\r\n"
    return out


class Error(Exception):
    """An error that Redis answered."""


def read_reply(stream):
    line = stream.readline()
    if not line:
        raise EOFError()
    kind, rest = line[:1], line[1:].rstrip(b"\r\n")
    if kind == b"+":
        return rest.decode()
    if kind == b"-":
        raise Error(rest.decode())
    if kind == b":":
        return int(rest)
    if kind == b"$":
        size = int(rest)
        if size < 0:
            return None
        return stream.read(size + 2)[:-2]
    if kind == b"*":
        return None if int(rest) < 0 else [read_reply(stream) for _ in range(int(rest))]
    raise AssertionError("no RESP: %r" % line)


class RealRedis:
    """redis-server on a port of 127.0.0.1 and on a UNIX socket that every user may use. One that is durable has after a
    restart what it had confirmed before."""

    def __init__(self, password=None, port=None, durable=False):
        work.need("redis-server")
        self.durable = durable
        self.dir = work.folder("redis.")
        self.socket = os.path.join(self.dir, "redis.sock")
        self.password = password
        self.process = None
        for _ in range(10):
            self.port = port or _free_port()
            if self._start():
                return
        raise AssertionError("redis-server does not start")

    def _start(self):
        args = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--unixsocket", self.socket,
                "--unixsocketperm", "777", "--save", "", "--appendonly", "yes" if self.durable else "no", "--appendfsync", "always", "--dir", self.dir]
        if self.password:
            args += ["--requirepass", self.password]
        self.process = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        for _ in range(6000):
            if self.process.poll() is not None:
                return False  # the port was taken meanwhile
            try:
                return self.command("PING") == "PONG"
            except (OSError, EOFError, Error):  # the last: while it reads what it had
                time.sleep(0.01)
        return False

    def command(self, *words):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
            s.settimeout(10)
            s.connect(self.socket)
            stream = s.makefile("rb")
            if self.password:
                s.sendall(encode("AUTH", self.password))
                read_reply(stream)
            s.sendall(encode(*words))
            return read_reply(stream)

    def stream(self, key="exeat:decisions"):
        """The stream's entries as dicts of text, oldest first."""
        entries = self.command("XRANGE", key, "-", "+") or []
        return [{k.decode(): v.decode("utf-8", "replace") for k, v in zip(f[::2], f[1::2])} for _, f in entries]

    def url(self, database=None):
        user = ":%s@" % self.password if self.password else ""
        return "redis://%s127.0.0.1:%d%s" % (user, self.port, "" if database is None else "/%d" % database)

    def pause(self):
        """Half-open: connections are accepted by the kernel, and nobody answers."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def restart(self):
        self._start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.resume()
        work.end(self.process)


class FakeRedis(raw.Listener):
    """A Redis that misbehaves. `commands` is what it was sent, as lists of bytes. mode:
    "ok", "silent" (reads, never answers), "deaf" (does not even read), "slow" (a byte a second),
    "reset" (RST after the first command), or an error to answer everything with: "-OOM ..."."""

    def __init__(self, mode="ok", **listener):
        self.mode = mode
        self.commands = []
        self.ids = 0
        super().__init__(**listener)

    def url(self):
        return "redis://127.0.0.1:%d" % self.port

    def serve(self, connection):
        while self.mode == "deaf":
            time.sleep(0.05)
            if self.stopped:
                return
        while True:
            command = self._command(connection)
            self.commands.append(command)
            self._answer(connection, command)

    @staticmethod
    def _command(connection):
        count = int(connection.until(raw.CRLF)[1:-2])
        words = []
        for _ in range(count):
            size = int(connection.until(raw.CRLF)[1:-2])
            words.append(connection.exactly(size + 2)[:-2])
        return words

    def _answer(self, connection, command):
        if self.mode == "silent":
            return
        if self.mode == "reset":
            connection.close("rst")
            raise raw.Closed()
        if self.mode.startswith("-"):
            connection.send(self.mode.encode() + b"\r\n")
            return
        self.ids += 1
        name = command[0].upper()
        entry = b"%d-0" % self.ids
        reply = b"$%d\r\n%s\r\n" % (len(entry), entry) if name == b"XADD" else b"+OK\r\n"
        if self.mode == "slow":
            for i in range(len(reply)):
                connection.send(reply[i:i + 1])
                time.sleep(1)
            return
        connection.send(reply)


def _free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
