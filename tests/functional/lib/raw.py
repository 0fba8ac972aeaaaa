"""An upstream that keeps every byte it was sent and answers as it is told.

    with RawServer(tls=pki.leaf("a.test"), answer=response(200, "hello")) as server:
        exeat.run(policy, cmd, resolve=server.resolve("a.test"), upstream_ca=pki.ca)
    server.requests[0].target, server.received     # what came

An answer is one of
    bytes                sent when the request has been read whole
    a function           called with (connection, request); may call the methods of Connection
    a list of steps      each of: bytes; ("sleep", seconds); ("close", "fin" | "rst" | "abrupt");
                         ("body",) reads the request's body; ("wait", threading.Event); a function
`answer` is given to every request, `answers` is a list: one for each request of a connection, in order,
the last for all that follow. A list of steps starts when the head has been read, and reads the body at
its end unless a step has.
"""
import itertools
import socket
import ssl
import struct
import threading
import time

CRLF = b"\r\n"
_count = itertools.count()


def response(status=200, body=b"", headers=(), reason="OK"):
    """The bytes of an answer with a Content-Length."""
    body = body.encode() if isinstance(body, str) else body
    lines = ["HTTP/1.1 %d %s" % (status, reason), "Content-Length: %d" % len(body)]
    lines += ["%s: %s" % h for h in headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


def chunked(*chunks, status=200, headers=(), trailers=()):
    """The bytes of an answer in chunks."""
    head = ["HTTP/1.1 %d OK" % status, "Transfer-Encoding: chunked"] + ["%s: %s" % h for h in headers]
    out = ("\r\n".join(head) + "\r\n\r\n").encode("latin-1")
    for chunk in chunks:
        chunk = chunk.encode() if isinstance(chunk, str) else chunk
        out += b"%x\r\n" % len(chunk) + chunk + CRLF
    return out + b"0\r\n" + "".join("%s: %s\r\n" % t for t in trailers).encode("latin-1") + CRLF


class Request:
    """The head of a request, as it came, and its body once it has been read."""

    def __init__(self, head, connection):
        self.head = head
        self.connection = connection
        self.number = next(_count)
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ")
        self.line = lines[0]
        self.method = words[0]
        self.target = words[1] if len(words) > 1 else ""
        self.version = words[2] if len(words) > 2 else ""
        self.headers = [(n, v.strip(" \t")) for n, _, v in (line.partition(":") for line in lines[1:] if line)]
        self.body = None
        self.trailers = []

    def all(self, name):
        """Every value of a header, in order."""
        return [v for n, v in self.headers if n.lower() == name.lower()]

    def header(self, name):
        """The one value of a header, None if it is not there; more than one is a failure."""
        values = self.all(name)
        if len(values) > 1:
            raise AssertionError("%d times %s in %r" % (len(values), name, self.head))
        return values[0] if values else None

    def __repr__(self):
        return "<%s>" % self.line


class Closed(Exception):
    """The peer is gone, or we have closed."""


class Connection:
    """One connection. `received` is every byte that came (after TLS)."""

    def __init__(self, sock, peer):
        self.sock = sock
        self.peer = peer
        self.received = bytearray()
        self.pending = bytearray()
        self.requests = []
        self.sni = None
        self.tls_error = None
        self.ended = None           # how the peer ended it: "eof", "ragged" (no close_notify), "reset"
        self.closed = False
        self.began = time.monotonic()

    def recv(self, size=65536):
        """What came next; b"" at the end."""
        try:
            data = self.sock.recv(size)
        except ssl.SSLEOFError:
            self.ended = "ragged"
            data = b""
        except (ConnectionResetError, BrokenPipeError):
            self.ended = "reset"
            data = b""
        except OSError as e:
            raise Closed() from e
        if not data:
            self.ended = self.ended or "eof"
        self.received += data
        return data

    def fill(self):
        data = self.recv()
        if not data:
            raise Closed()
        self.pending += data

    def until(self, mark):
        while mark not in self.pending:
            self.fill()
        end = self.pending.index(mark) + len(mark)
        data, self.pending = bytes(self.pending[:end]), self.pending[end:]
        return data

    def exactly(self, size):
        while len(self.pending) < size:
            self.fill()
        data, self.pending = bytes(self.pending[:size]), self.pending[size:]
        return data

    def read_head(self):
        request = Request(self.until(b"\r\n\r\n"), self)
        self.requests.append(request)
        return request

    def read_body(self, request, on_data=None):
        """Reads a request's body whole, once; chunks are put together. on_data gets it piece by
        piece instead, and nothing is kept."""
        if request.body is not None:
            return request.body
        parts = []
        keep = on_data or parts.append
        request.body = b""
        if any(v.lower() == "chunked" for v in request.all("transfer-encoding")):
            while True:
                size = int(self.until(CRLF).split(b";")[0], 16)
                if size == 0:
                    break
                keep(self.exactly(size))
                self.exactly(2)
            while True:
                line = self.until(CRLF)
                if line == CRLF:
                    break
                request.trailers.append(line[:-2].decode("latin-1"))
        else:
            left = int((request.all("content-length") or ["0"])[0])
            while left:
                if not self.pending:
                    self.fill()
                piece = self.exactly(min(left, len(self.pending)))
                left -= len(piece)
                keep(piece)
        request.body = b"".join(parts)
        return request.body

    def send(self, data):
        try:
            self.sock.sendall(data)
        except (OSError, ValueError) as e:
            raise Closed() from e

    def close(self, how="fin"):
        """fin: an orderly end (close_notify, then FIN); abrupt: FIN without close_notify; rst: RST."""
        if self.closed:
            return
        self.closed = True
        try:
            if how == "rst":
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif how == "fin" and isinstance(self.sock, ssl.SSLSocket):
                self.sock.settimeout(0.2)
                self.sock.unwrap()
        except (OSError, ValueError):
            pass
        if how != "rst":
            self.interrupt()
        try:
            self.sock.close()
        except OSError:
            pass

    def interrupt(self):
        """For another thread than the one that serves it, which finds the connection ended and closes it. To close it here would
        give its descriptor's number to the next that is opened, while TLS goes on writing there."""
        try:
            socket.socket.shutdown(self.sock, socket.SHUT_RDWR)
        except OSError:
            pass

    def half_close(self):
        """FIN for what we send; what comes is still read. Plain connections only."""
        self.sock.shutdown(socket.SHUT_WR)


def permit_old_tls(context, version):
    """A version that OpenSSL speaks at its lowest level of security alone."""
    context.minimum_version = version
    context.set_ciphers("ALL:@SECLEVEL=0")


class Listener:
    """Accepts connections on a port of its own, each served by a thread. Subclasses have serve()."""

    def __init__(self, address="127.0.0.1", port=0, tls=None, alpn=None, tls_max=None):
        self.address = address
        self.connections = []
        self.errors = []
        self.lock = threading.Lock()
        self.context = self._tls(tls, alpn, tls_max) if tls else None
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.listener = socket.socket(family, socket.SOCK_STREAM)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind((address, port))
        self.listener.listen(512)
        self.port = self.listener.getsockname()[1]
        self.stopped = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _tls(self, tls, alpn, tls_max):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        if alpn:
            context.set_alpn_protocols(alpn)
        if tls_max:
            context.maximum_version = tls_max
            if tls_max < ssl.TLSVersion.TLSv1_2:
                permit_old_tls(context, tls_max)
        context.sni_callback = self._sni
        return context

    @staticmethod
    def _sni(sock, name, _context):
        sock.exeat_sni = name

    def _accept(self):
        while not self.stopped:
            try:
                sock, peer = self.listener.accept()
            except OSError:
                return
            connection = Connection(sock, peer)
            with self.lock:
                self.connections.append(connection)
            threading.Thread(target=self._run, args=(connection,), daemon=True).start()

    def _run(self, connection):
        try:
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.context is not None and not self._handshake(connection):
                return
            self.serve(connection)
        except Closed:
            pass
        except Exception as e:  # pylint: disable=broad-except
            if not self.stopped:
                self.errors.append(e)
        finally:
            connection.close()

    def _handshake(self, connection):
        plain = connection.sock
        try:
            connection.sock = self.context.wrap_socket(plain, server_side=True,
                                                        do_handshake_on_connect=False, suppress_ragged_eofs=False)
            connection.sock.do_handshake()
            if self.stopped:
                return False
        except (OSError, ValueError) as e:
            connection.tls_error = e
            return False
        connection.sni = getattr(connection.sock, "exeat_sni", None)
        return True

    def serve(self, connection):
        raise NotImplementedError

    @property
    def requests(self):
        """The requests of all connections, in the order in which they came."""
        with self.lock:
            return sorted((r for c in self.connections for r in c.requests), key=lambda r: r.number)

    @property
    def received(self):
        """Every byte of every connection."""
        with self.lock:
            return b"".join(bytes(c.received) for c in self.connections)

    def resolve(self, name, port=443):
        """The value of --resolve that leads name:port here."""
        address = "[%s]" % self.address if ":" in self.address else self.address
        return "%s:%d:%s:%d" % (name, port, address, self.port)

    def stop(self):
        self.stopped = True
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()
        with self.lock:
            connections = list(self.connections)
        for connection in connections:
            connection.interrupt()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class RawServer(Listener):
    """See the top of this file. pipelined=False fails the test's wish in nothing: a request that comes
    before its predecessor was answered is simply answered after it."""

    def __init__(self, answer=response(200, "ok"), answers=None, **listener):
        self.answers = answers if answers is not None else [answer]
        super().__init__(**listener)

    def serve(self, connection):
        count = 0
        while not connection.closed:
            request = connection.read_head()
            step = self.answers[min(count, len(self.answers) - 1)]
            count += 1
            self._answer(connection, request, step)

    def _answer(self, connection, request, answer):
        if isinstance(answer, (bytes, bytearray)):
            connection.read_body(request)
            connection.send(answer)
            return
        if callable(answer):
            result = answer(connection, request)
            if not connection.closed:
                connection.read_body(request)
            if isinstance(result, (bytes, bytearray)):
                connection.send(result)
            return
        for step in answer:
            self._step(connection, request, step)
            if connection.closed:
                return
        connection.read_body(request)

    @staticmethod
    def _step(connection, request, step):
        if isinstance(step, (bytes, bytearray)):
            connection.send(step)
        elif callable(step):
            step(connection, request)
        elif step[0] == "sleep":
            time.sleep(step[1])
        elif step[0] == "close":
            connection.close(step[1] if len(step) > 1 else "fin")
        elif step[0] == "body":
            connection.read_body(request)
        elif step[0] == "wait":
            step[1].wait(30)
        else:
            raise AssertionError("no such step: %r" % (step,))


class SinkServer(Listener):
    """Reads whatever comes and sends `banner`; for upstreams that must not be reached, or speak no HTTP."""

    def __init__(self, banner=b"", **listener):
        self.banner = banner
        super().__init__(**listener)

    def serve(self, connection):
        if self.banner:
            connection.send(self.banner)
        while connection.recv():
            pass


class ProxyServer(Listener):
    """An HTTP proxy (for HTTPS_PROXY): tunnels CONNECT, and notes the targets and credentials it was asked with.
    `route` maps "host:port" to the (address, port) that is connected to instead; others get 502."""

    def __init__(self, route=None, status=200, **listener):
        self.route = route or {}
        self.status = status
        super().__init__(**listener)

    def serve(self, connection):
        request = connection.read_head()
        if request.method != "CONNECT":
            connection.send(response(405, "only CONNECT", reason="No"))
            return
        if self.status != 200 or request.target not in self.route:
            connection.send(response(self.status if self.status != 200 else 502, "no way", reason="No"))
            return
        upstream = socket.create_connection(self.route[request.target], 5)
        upstream.settimeout(None)
        try:
            connection.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
            if connection.pending:
                upstream.sendall(bytes(connection.pending))
            back = threading.Thread(target=self._back, args=(upstream, connection), daemon=True)
            back.start()
            while True:
                data = connection.recv()
                if not data:
                    break
                upstream.sendall(data)
            upstream.shutdown(socket.SHUT_WR)
            back.join(10)
        finally:
            upstream.close()

    @staticmethod
    def _back(upstream, connection):
        try:
            while True:
                data = upstream.recv(65536)
                if not data:
                    break
                connection.send(data)
        except (OSError, Closed):
            pass
        connection.interrupt()
