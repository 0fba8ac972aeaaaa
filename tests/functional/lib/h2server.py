"""Upstreams of HTTP/2.

    with NodeServer(pki.leaf("a.test")) as server:      # node's own, which answers by path
        exeat.run(..., resolve=[server.resolve("a.test")])
    server.requests()       # [{"path", "method", "headers", "body", "version", "session"}], as they ended

    /echo   the request's body      /trailers  a body and trailers     /only  trailers alone
    /slow   nothing until /go       /reset     RST_STREAM              /early 403 before the body has come
    /big    1 MB                    /length    a Content-Length        /interim 103 first
    else    "ok"

    NodeServer(leaf, "strict")          # 421 to who asks for another name than that of the TLS connection (/interim: after 103);
                                        # "never": to all; "errands": to exeat's own requests alone; "late": always after 103
    NodeServer(leaf, "connect")         # takes a WebSocket as a stream (RFC 8441); "only": HTTP/2 and nothing else
    NodeServer(leaf, "only", "to=%d" % port)    # … in front of a server with TLS at that port, which answers by HTTP/1.1
    A WebSocket, by a stream or by HTTP/1.1, gets a frame "first", then its own frames back.

    FrameServer(serve)      # serve(connection) says what it wants: frames in, frames out; see Frames
"""
import struct

import tap
from raw import Closed, Listener, response
from tellserver import TellServer

PROGRAM = r'''
const http2 = require("http2"), https = require("https"), fs = require("fs");
const crypto = require("crypto");
const [cert, key, port, ...words] = process.argv.slice(2);
const waiting = [];
let sessions = 0, aborted = 0;
const say = what => process.stdout.write(JSON.stringify(what) + "\n");
const server = http2.createSecureServer({cert: fs.readFileSync(cert), key: fs.readFileSync(key),
    allowHTTP1: !words.includes("only"), settings: words.includes("connect") ? {enableConnectProtocol: true} : {}});
function frame(opcode, body) {
    const head = Buffer.alloc(body.length < 126 ? 2 : 10);
    head[0] = 0x80 | opcode;
    if (body.length < 126) head[1] = body.length; else { head[1] = 127; head.writeBigUInt64BE(BigInt(body.length), 2); }
    return Buffer.concat([head, body]);
}
function echo(s, early) {
    let got = early;
    const parse = () => {
        while (got.length >= 2) {
            const short = got[1] & 127, at = short < 126 ? 2 : short == 126 ? 4 : 10;
            if (got.length < at + 4) return;
            const n = short < 126 ? short : short == 126 ? got.readUInt16BE(2) : Number(got.readBigUInt64BE(2));
            if (got.length < at + 4 + n) return;
            const mask = got.subarray(at, at + 4), body = Buffer.from(got.subarray(at + 4, at + 4 + n));
            for (let i = 0; i < n; i++) body[i] ^= mask[i & 3];
            s.write(frame(got[0] & 15, body));
            if ((got[0] & 15) == 8) s.end();
            got = got.subarray(at + 4 + n);
        }
    };
    s.write(frame(2, Buffer.from("first")));
    s.on("data", d => { got = Buffer.concat([got, d]); parse(); });
    s.on("end", () => s.end());
    s.on("error", () => {});
    parse();
}
server.on("upgrade", (q, socket, head) => {
    const proof = crypto.createHash("sha1").update(q.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    say({path: q.url, method: q.method, headers: q.headers, version: q.httpVersion});
    socket.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
                 "Sec-WebSocket-Accept: " + proof.digest("base64") + "\r\n\r\n");
    echo(socket, head);
});
server.on("connect", (q, r) => { // without this node refuses the method
    say({path: q.url, method: q.method, headers: q.headers, version: q.httpVersion, session: q.stream.session.number});
    if (q.url.endsWith("/no")) { r.writeHead(403); r.end("not this one"); return; }
    r.stream.respond({":status": 200, "x-version": q.httpVersion});
    echo(r.stream, Buffer.alloc(0));
});
const behind = Number((words.find(w => w.startsWith("to=")) || "").slice(3));
function forward(q, r) {
    const plain = fields => Object.fromEntries(Object.entries(fields).filter(([n]) => n[0] != ":" &&
        !["connection", "keep-alive", "transfer-encoding"].includes(n)));
    const up = https.request({port: behind, method: q.method, path: q.url, rejectUnauthorized: false,
        headers: {...plain(q.headers), host: q.headers[":authority"]}}, a => { r.writeHead(a.statusCode, plain(a.headers)); a.pipe(r); });
    say({path: q.url, method: q.method, headers: q.headers, version: q.httpVersion, session: q.stream.session.number});
    up.on("error", () => r.stream.close(2));
    q.on("error", () => up.destroy());
    r.on("error", () => up.destroy());
    q.pipe(up);
}
server.on("session", s => { s.number = ++sessions; });
server.on("request", (q, r) => {
    const path = q.url.split("?")[0], parts = [], session = q.stream && q.stream.session && q.stream.session.number;
    const strict = words.includes("errands") ? String(q.headers["user-agent"]).startsWith("exeat/") : words.includes("strict");
    const misdirected = strict && session && (words.includes("never") || q.stream.session.socket.servername != q.headers[":authority"]);
    const interim = () => r.stream.additionalHeaders({":status": 103, link: "</x>"});
    if (behind && !misdirected) return forward(q, r);
    let length = 0;
    q.on("data", d => { length += d.length; if (length < 100000) parts.push(d); });
    const done = how => say({path: q.url, method: q.method, headers: q.headers, length, how,
                             body: Buffer.concat(parts).toString("latin1").slice(0, 1000), trailers: q.trailers,
                             version: q.httpVersion, session});
    q.on("end", () => done("end"));
    q.on("aborted", () => { aborted++; done("aborted"); });
    q.on("error", () => {});
    r.on("error", () => {});
    if (path.endsWith("/early")) { r.writeHead(403, {"x-early": "1"}); r.end("early"); return; }
    if (path.endsWith("/slow")) { r.writeHead(200); r.write("begun "); waiting.push(r); return; }
    if (path.endsWith("/reset")) { r.writeHead(200); r.write("half"); setTimeout(() => r.stream.close(2), 200); return; }
    if (path.endsWith("/echo")) { r.writeHead(200); q.pipe(r); return; }
    q.on("end", () => {
        if (misdirected) {
            if (path.endsWith("/interim") || words.includes("late")) interim();
            r.writeHead(421); r.end("not here"); return;
        }
        if (path.endsWith("/go")) { waiting.forEach(w => w.end("done")); waiting.length = 0; }
        if (path.endsWith("/trailers")) { r.writeHead(200, {trailer: "x-sum"}); r.addTrailers({"x-sum": "7"}); r.end("a body"); }
        else if (path.endsWith("/only") && r.stream) r.stream.respond({":status": 200, "grpc-status": "5"}, {endStream: true});
        else if (path.endsWith("/big")) { r.writeHead(200); r.end(Buffer.alloc(1000000, "x")); }
        else if (path.endsWith("/aborted")) { r.writeHead(200); r.end(String(aborted)); }
        else if (path.endsWith("/length")) { r.writeHead(200, {"content-length": 5, "alt-svc": "h3=\":443\""}); r.end("12345"); }
        else if (path.endsWith("/interim") && r.stream) {
            interim(); r.writeHead(200); r.end("late"); }
        else { r.writeHead(200, {"x-version": q.httpVersion}); r.end("ok"); }
    });
});
server.listen(Number(port || 0), "127.0.0.1", () => say({port: server.address().port}));
'''


class NodeServer(TellServer):
    def __init__(self, leaf, *words):
        super().__init__("node", PROGRAM, *leaf, "0", *words)

    def requests(self, n=0):
        """Waits for n of them."""
        tap.eventually(lambda: len(self.seen) >= n, message="only %d requests came" % len(self.seen))
        return list(self.seen)


DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS, ACK = 1, 4, 1
OK = b"\x88"        # :status 200, from the static table


class Frames:
    """What a connection of HTTP/2 says, frame by frame."""

    def __init__(self, connection, settings=b""):
        self.connection = connection
        self.magic = connection.exactly(24)
        self.frame(SETTINGS, 0, 0, settings)

    @staticmethod
    def packed(kind, flags, stream, payload=b""):
        return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload

    def frame(self, kind, flags, stream, payload=b""):
        self.connection.send(self.packed(kind, flags, stream, payload))

    def mute(self):
        """Takes what comes until the connection ends, and says nothing."""
        try:
            while True:
                self.any()
        except Closed:
            pass

    def any(self):
        """(type, flags, stream, payload), whatever it is."""
        head = self.connection.exactly(9)
        n, stream = struct.unpack(">I", b"\0" + head[:3])[0], struct.unpack(">I", head[5:])[0]
        return head[3], head[4], stream, self.connection.exactly(n)

    def read(self):
        """The same; settings and pings are answered, and are not told, nor are windows that open."""
        while True:
            kind, flags, stream, payload = self.any()
            if kind in (SETTINGS, PING) and not flags & ACK:
                self.frame(kind, ACK, 0, payload if kind == PING else b"")
            elif kind not in (SETTINGS, PING, WINDOW_UPDATE):
                return kind, flags, stream, payload

    def request(self):
        """The next request's stream, its body read if it has one."""
        while True:
            kind, flags, stream, _ = self.read()
            if kind == HEADERS:
                while not flags & END_STREAM:
                    kind, flags, of, _ = self.read()
                    if kind == RST_STREAM and of == stream:
                        raise Closed()
                return stream

    def answer(self, stream, block=OK, body=b"ok"):
        self.frame(HEADERS, END_HEADERS | (0 if body else END_STREAM), stream, block)
        if body:
            self.frame(DATA, END_STREAM, stream, body)


class FrameServer(Listener):
    """serve(frames, number) for each connection of HTTP/2; number counts from 0. By HTTP/1.1 a request gets its own body."""

    def __init__(self, serve, settings=b"", **listener):
        self.say = serve
        self.settings = settings
        self.count = 0
        super().__init__(alpn=["h2", "http/1.1"], **listener)

    def serve(self, connection):
        while connection.sock.selected_alpn_protocol() != "h2":
            connection.send(response(200, connection.read_body(connection.read_head())))
        with self.lock:
            number, self.count = self.count, self.count + 1
        self.say(Frames(connection, self.settings), number)
