"""One server of the soak, in a process of its own that may be killed at any time: upstreams.py KIND PORT CERTIFICATE KEY NOTES.

Each request that comes is a line of NOTES ("KIND TARGET"), written before anything is done about it. What a server does is said
by the request's path, so that the client's seed says it: /ok/ID/WHAT/…
"""
import os
import random
import struct
import sys
import time

import h2server
import websocket
from gitserver import GitServer
from lfsserver import LfsServer
from raw import Closed, RawServer, chunked, response

KIND, PORT, CERT, KEY, NOTES = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5]
notes = os.open(NOTES, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
ENDS = ("fin", "rst", "abrupt")


def note(target):
    os.write(notes, ("%s %s\n" % (KIND, target)).encode())


def wait_for_end(connection):
    connection.sock.settimeout(20)
    while connection.recv():
        pass


# ---- HTTP/1.1 ----

def good(what, connection, request):
    """Answers that are as they should be."""
    size = int(what[1]) if len(what) > 1 and what[1].isdigit() else 10
    if what[0] == "echo":
        if request.all("expect"):
            connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        return response(200, connection.read_body(request))
    connection.read_body(request)
    bodies = {
        "chunks": chunked("a" * size, "b", "c" * (size // 2)),
        "trailers": chunked("one", trailers=[("X-Sum", "7")]),
        "204": b"HTTP/1.1 204 No Content\r\n\r\n",
        "304": b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n",
        "interim": b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + response(200, "late"),
        "last": response(200, "last", [("Connection", "close")]),
    }
    if what[0] in bodies:
        return bodies[what[0]]
    whole = response(200, "x" * size)
    return whole[:-size] if request.method == "HEAD" and size else whole


def slow(connection, request):
    connection.read_body(request)
    connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(20):
        connection.send(b"5\r\nhello\r\n")
        time.sleep(0.1)
    connection.send(b"0\r\n\r\n")


def bad(what, connection, request):
    """Answers that break off or make no sense; all of them end the connection. What was said is True."""
    half = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * 300
    said = {
        "nothing": b"",
        "half": half,
        "halfhead": half[:25],
        "twolengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        "nonsense": b"nonsense\r\n\r\n",
        "badchunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "early": response(413, "early"),
        "toend": b"HTTP/1.1 200 OK\r\n\r\n" + b"y" * 20000,
        "switch": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nbytes",
    }.get(what[0])
    if said is None:
        return False
    if what[0] == "toend":
        connection.read_body(request)
    connection.send(said)
    connection.close("fin" if what[0] in ("early", "toend") else random.choice(ENDS))
    return True


def answer(connection, request):
    note(request.target)
    what = request.target.split("/")[3:] or ["ok"]
    if what[0] == "ws":
        return websocket.echo(connection, request)
    if what[0] == "slow":
        return slow(connection, request)
    if what[0] == "hang":
        return wait_for_end(connection)
    return None if bad(what, connection, request) else good(what, connection, request)


# ---- HTTP/2 that is hostile ----

def frames(f, number):
    del number
    while True:
        stream = f.request()
        note("-")
        mood = random.random()
        if mood < 0.4:
            f.answer(stream)
        elif mood < 0.5:
            f.frame(h2server.RST_STREAM, 0, stream, struct.pack(">I", random.choice([0, 1, 2, 7, 8, 11, 13])))
        elif mood < 0.6:
            f.frame(h2server.GOAWAY, 0, 0, struct.pack(">II", random.choice([0, stream, 0x7fffffff]), 0))
        elif mood < 0.7:
            f.frame(h2server.HEADERS, 4, stream, h2server.OK)
            f.frame(h2server.DATA, 0, stream, b"x" * random.randrange(16384))
            f.connection.close(random.choice(ENDS))
            return
        elif mood < 0.8:
            f.answer(stream, b"\xff\xff\xff\xff", b"")
        elif mood < 0.9:
            f.frame(random.randrange(256), random.randrange(256), random.randrange(100), os.urandom(random.randrange(200)))
        else:
            f.frame(h2server.WINDOW_UPDATE, 0, random.choice([0, stream]), struct.pack(">I", 0x7fffffff))
            f.frame(h2server.WINDOW_UPDATE, 0, random.choice([0, stream]), struct.pack(">I", 0x7fffffff))


# ---- git ----

class SoakGit(LfsServer):
    """Any /soak/ID/app is the one repository."""

    def _one(self, connection, request):
        note(request.target)
        path = request.target.split("?")[0]
        if "/info/lfs" not in path and not path.startswith("/store/"):
            words = request.target.split("/", 3)
            if words[1] == "soak":
                request.target = "/acme/app.git/" + words[3].split("/", 1)[1]
            GitServer._one(self, connection, request)
        else:
            super()._one(connection, request)


def git():
    server = SoakGit(tls=(CERT, KEY), users={"x-access-token": "SECRET-soak-4Kq7Lm2Xz8Rt5Vb1Nc6Pw"}, port=PORT)
    first = server.create("acme/app.git", empty=True)
    server.commit("acme/app.git", "refs/heads/main", {"README": "hello\n"})
    server.commit("acme/app.git", "refs/heads/hidden", {"README": "hidden\n", "big": "0123456789" * 40000})
    return first


# ---- gRPC ----

def grpc_server():
    from concurrent import futures
    import grpc  # pylint: disable=import-error

    def hangs(request, context):
        yield b"begun"
        while context.is_active():
            time.sleep(0.1)

    methods = {
        "Unary": grpc.unary_unary_rpc_method_handler(lambda request, context: request),
        "Fails": grpc.unary_unary_rpc_method_handler(lambda request, context: context.abort(grpc.StatusCode.NOT_FOUND, "no")),
        "Down": grpc.unary_stream_rpc_method_handler(lambda request, context: (b"%d" % i for i in range(100))),
        "Up": grpc.stream_unary_rpc_method_handler(lambda requests, context: b"%d" % sum(len(r) for r in requests)),
        "Both": grpc.stream_stream_rpc_method_handler(lambda requests, context: (b"<" + r + b">" for r in requests)),
        "Hangs": grpc.unary_stream_rpc_method_handler(hangs),
    }

    class Handler(grpc.GenericRpcHandler):
        def service(self, handler_call_details):
            note(handler_call_details.method)
            return methods.get(handler_call_details.method.rsplit("/", 1)[1].partition("-")[0])

    server = grpc.server(futures.ThreadPoolExecutor(max_workers=20), handlers=(Handler(),))
    pair = [open(p, "rb").read() for p in (KEY, CERT)]
    if not server.add_secure_port("127.0.0.1:%d" % PORT, grpc.ssl_server_credentials([tuple(pair)])):
        raise SystemExit("no port")
    server.start()
    return server


def main():
    tls = (CERT, KEY)
    kinds = {
        "http1": lambda: RawServer(answer, tls=tls, port=PORT),
        "plain": lambda: RawServer(answer, port=PORT),
        "tunnel": lambda: RawServer(answer, tls=tls, port=PORT),
        "frames": lambda: h2server.FrameServer(frames, tls=tls, port=PORT),
        "git": git,
        "grpc": grpc_server,
    }
    keep = kinds[KIND]()
    while keep:
        time.sleep(3600)


if __name__ == "__main__":
    try:
        main()
    except Closed:
        pass
