"""HTTP/2 towards the client: heads, bodies, windows, ends, refusals, each stream judged by itself."""
import base64
import hashlib
import os
import threading
import time

import client
import exeat
import h2
import onehost
import tap
from memory import resident
from pki import Pki
from servers import RawServer, chunked, response

h2.needed(tap.skip_all)
pki = Pki()
POLICY = "allow GET,HEAD,POST,PUT https://a.test/ok**\n"


def through(t, code, answer=response(200, "ok"), policy=POLICY, **options):
    """Runs the client's code with its HTTP/2 against an upstream of HTTP/1.1."""
    server = t.use(RawServer(tls=pki.leaf("a.test"), answer=answer))
    r = client.run(policy, [h2.CLIENT, code], resolve=[server.resolve("a.test")], upstream_ca=pki.ca, **options)
    return r, server


# ---- requests and answers ----

@tap.test
def a_request_arrives_as_one_of_http_1_with_all_of_its_fields(t):
    r, server = through(t, '''
        c = h2("a.test")
        a = c.get("/ok/%6f?x=%2F&y", fields=[("x-one", "1"), ("cookie", "a=1"), ("te", "trailers"), ("cookie", "b=2"),
                                            ("x-two", ""), ("expect", "100-continue")])
        report(a.status, a.body.decode(), a.headers)
    ''', answer=response(200, "body", [("X-Up", "One"), ("Alt-Svc", "h3=:443"), ("Connection", "x-hop"), ("X-Hop", "1")]))
    tap.equal(r.reports, [[200, "body", [["content-length", "4"], ["x-up", "One"]]]])
    q = server.requests[0]
    tap.equal(q.line, "GET /ok/%6f?x=%2F&y HTTP/1.1")
    tap.equal([q.header(n) for n in ("host", "x-one", "x-two", "cookie", "te", "expect")],
              ["a.test", "1", "", "a=1; b=2", "trailers", "100-continue"])
    tap.equal(q.header("content-length"), None)
    tap.equal(q.header("transfer-encoding"), None)


@tap.test
def a_hundred_streams_at_once_are_answered_each_with_its_own(t):
    r, server = through(t, '''
        c = h2("a.test")
        streams = [c.request("/ok/%d" % i) for i in range(100)]
        report([c.answer(s).body.decode() for s in streams])
    ''', answer=lambda c, q: response(200, q.target))
    tap.equal(r.reports[0], ["/ok/%d" % i for i in range(100)])
    tap.equal(len(server.requests), 100)


@tap.test
def who_opened_all_windows_gets_all_without_another_word(t):
    r, _ = through(t, '''
        c = h2("a.test", settings={"window": 1 << 20})
        c.open_windows = False
        c.window(0, 1 << 30)
        streams = [c.request("/ok/%d" % i) for i in range(60)]
        time.sleep(1)  # until nothing more fits into the connection
        report([len(c.answer(s).body) for s in streams])
    ''', answer=response(200, "x" * 400000))
    tap.equal(r.reports, [[400000] * 60])


@tap.test
def bodies_go_up_with_their_length_or_chunked_and_with_trailers(t):
    r, server = through(t, '''
        c = h2("a.test")
        report(c.post("/ok/1", b"abc", b"def", fields=[("content-length", "6")]).status)
        s = c.request("/ok/2", method="POST", end=False)
        c.data(s, b"abc"); c.data(s, b""); c.data(s, b"def")
        c.headers(s, [("x-sum", "6"), ("authorization", "no")])
        report(c.answer(s).status)
        report(c.get("/ok/3", method="POST").status)
        report(c.post("/ok/4", b"", method="PUT", fields=[("content-length", "0")]).status)
    ''')
    tap.equal(r.reports, [200] * 4)
    one, two, three, four = server.requests
    tap.equal((one.body, one.header("content-length")), (b"abcdef", "6"))
    tap.equal((two.body, two.header("transfer-encoding"), two.trailers), (b"abcdef", "chunked", ["x-sum: 6"]))
    tap.equal((three.body, three.header("content-length")), (b"", "0"))
    tap.equal((four.body, four.header("content-length")), (b"", "0"))


@tap.test
def answers_without_a_body_interim_ones_and_trailers(t):
    answers = {"/ok/head": response(200, "12345"), "/ok/204": b"HTTP/1.1 204 No Content\r\n\r\n",
               "/ok/304": b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n",
               "/ok/early": b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + response(200, "late"),
               "/ok/trailers": chunked("one ", "two", trailers=[("X-Sum", "7"), ("Set-Cookie", "a=b")]),
               "/ok/close": b"HTTP/1.1 200 OK\r\n\r\nuntil the end"}

    def answer(connection, request):
        connection.send(answers["/ok/head"][:-5] if request.method == "HEAD" else answers[request.target])
        if request.target == "/ok/close":
            connection.close("fin")
    r, _ = through(t, '''
        c = h2("a.test")
        for path, method in (("head", "HEAD"), ("204", "GET"), ("304", "GET"), ("early", "GET"), ("trailers", "GET"),
                             ("close", "GET")):
            a = c.get("/ok/" + path, method=method)
            report(a.status, a.body.decode(), dict(a.headers).get("content-length"), a.interim, a.trailers, a.whole)
    ''', answer=answer)
    tap.equal(r.reports, [
        [200, "", "5", [], [], True],
        [204, "", None, [], [], True],
        [304, "", "99", [], [], True],
        [200, "late", "4", [103], [], True],
        [200, "one two", None, [], [["x-sum", "7"]], True],
        [200, "until the end", None, [], [], True],
    ])


@tap.test
def an_answer_that_is_cut_off_resets_its_stream_and_no_other(t):
    seen = threading.Event()

    def answer(connection, request):
        if request.target == "/ok/cut":
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
            seen.wait(30)
            connection.close("abrupt")
            return
        seen.set()
        connection.send(response(200, "x"))
    r, _ = through(t, '''
        c = h2("a.test")
        first = c.request("/ok/cut")
        while not c.answers[first].body:
            c.read()
        second = c.get("/ok/2")
        a = c.answer(first)
        report(a.status, a.body.decode(), a.whole, a.reset == INTERNAL_ERROR, second.status, c.get("/ok/3").status)
    ''', answer=answer)
    tap.equal(r.reports, [[200, "half", False, True, 200, 200]])


@tap.test
def an_upload_that_is_refused_gets_the_reason_and_the_rest_is_not_wanted(t):
    r, server = through(t, '''
        c = h2("a.test")
        s = c.request("/no", method="POST", end=False)
        a = c.answer(s)
        while a.reset is None and c.read():
            pass
        report(a.status, a.whole, a.reset, c.get("/ok").status)
    ''')
    tap.equal(r.reports, [[403, True, 0, 200]])
    tap.equal([q.target for q in server.requests], ["/ok"])


@tap.test
def a_client_that_gives_a_request_up_ends_it_on_the_other_side_too(t):
    gone = threading.Event()

    def endless(connection, request):
        connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
        while connection.recv():
            pass
        gone.set()
    r, _ = through(t, '''
        c = h2("a.test")
        s = c.request("/ok/endless")
        while not c.answers[s].body:
            c.read()
        c.reset(s)
        report(c.settle(), c.get("/ok/then").status)
    ''', answer=lambda c, q: endless(c, q) if q.target == "/ok/endless" else response(200, "x"))
    tap.equal(r.reports, [[True, 200]])
    tap.ok(gone.wait(30), "the upstream's connection was not ended")
    tap.ok(r.events("outcome", code="client-reset"), r)


# ---- windows ----

@tap.test
def one_slow_download_stalls_no_other_and_stops_the_upstream(t):
    sent = [0]

    def big(connection, request):
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
        for _ in range(1000):
            connection.send(b"x" * 100000)
            sent[0] += 100000
    r, _ = through(t, '''
        c = h2("a.test")
        c.open_windows = False
        s = c.request("/ok/big")
        while len(c.answers[s].body) < 65535:
            c.read()
        c.window(0, 1 << 30)
        c.open_windows = False
        time.sleep(1)
        report([c.get("/ok/%d" % i).body.decode() for i in range(20)])
        report(len(c.answers[s].body))
        c.reset(s)
        c.settle()
    ''', answer=lambda c, q: big(c, q) if q.target == "/ok/big" else response(200, q.target))
    tap.equal(r.reports, [["/ok/%d" % i for i in range(20)], 65535])
    tap.ok(sent[0] < 20_000_000, "the upstream sent %d bytes to a client that takes none" % sent[0])


@tap.test
def one_stalled_upload_stalls_no_other_and_its_window_stays_shut(t):
    release = threading.Event()

    def slow(connection, request):
        release.wait(30)
        connection.read_body(request)
        connection.send(response(200, "%d" % len(request.body)))

    def answer(connection, request):
        if request.target == "/ok/slow":
            return slow(connection, request)
        if request.target == "/ok/go":
            release.set()
        connection.read_body(request)
        return response(200, "%d" % len(request.body or b""))
    r, _ = through(t, '''
        c = h2("a.test")
        s = c.request("/ok/slow", method="POST", end=False)
        stuck = c.push(s, 200_000_000, 1)
        other = c.request("/ok/other", method="POST", end=False)
        c.push(other, 1_000_000)
        c.data(other, b"", end=True)
        report(c.answer(other).body.decode(), 65535 <= stuck < 40_000_000)
        c.get("/ok/go")
        c.push(s, 1_000_000)
        c.data(s, b"", end=True)
        report(int(c.answer(s).body) == c.sent[s])
    ''', answer=answer)
    tap.equal(r.reports, [["1000000", True], True])


@tap.test
def windows_of_a_few_bytes_make_an_answer_slow_and_not_wrong(t):
    r, _ = through(t, '''
        c = h2("a.test", settings={"window": 7})
        a = c.get("/ok")
        report(a.status, a.body.decode(), a.whole)
    ''', answer=response(200, "0123456789" * 50))
    tap.equal(r.reports, [[200, "0123456789" * 50, True]])


# ---- idle ----

@tap.test
def a_connection_that_slept_knows_what_was_said_before(t):
    # fields in the compression's table, windows, streams: after more than H2_AWAKE_MS all goes on
    r, server = through(t, '''
        c = h2("a.test", settings={"window": 5})
        c.open_windows = False
        blocks, sizes = [], []
        def block(fields):
            blocks.append(c.encoder.encode(fields))
            return blocks[-1]
        c.block = block
        c.window(0, 100000)
        for i in range(4):
            fields = [("x-long", "l" * 300), ("x-round", "r" * 90 + str(i // 2))]
            s = c.request("/ok/%d" % (i // 2), fields=fields)
            while len(c.answers[s].body) < 5 and c.read():
                pass
            sizes.append(len(c.answers[s].body))
            c.window(s, 100)
            report(c.answer(s).body.decode())
            time.sleep(1.4)
            c.window(0, 10)
            if i == 2:
                report(c.settle())
                time.sleep(1.4)
        report(sizes, len(blocks[0]) > 200, len(blocks[3]) < 20)
    ''', answer=lambda c, q: response(200, q.target + " " + q.header("x-round")[-1]))
    tap.equal(r.reports, ["/ok/0 0", "/ok/0 0", "/ok/1 1", True, "/ok/1 1", [[5] * 4, True, True]])
    tap.equal([q.header("x-long") for q in server.requests], ["l" * 300] * 4)


@tap.test(timeout=300)
def an_idle_connection_costs_little(t):
    if os.environ.get("ASAN_OPTIONS"):
        tap.skip("a sanitizer's own memory is not exeat's")
    many = 300 # 26 KiB of each are libnghttp2's, as long as it is awake
    server = t.use(RawServer(tls=pki.leaf("a.test"), answer=response(200, "ok")))
    code = client.program([h2.CLIENT, '''
        import os
        def until(name):
            while not os.path.exists(name):
                time.sleep(0.05)
        context = ssl.create_default_context()
        context.set_alpn_protocols(["h2"])
        def connect():
            c = tcp("a.test", 443)
            c.sock = context.wrap_socket(c.sock, server_hostname="a.test")
            return H2(c)
        one = connect()
        one.get("/ok")
        open("one", "w").close()
        until("more")
        all = [connect() for _ in range(%d)]
        for c in all:
            c.get("/ok")
        open("many", "w").close()
        until("done")
        print([c.get("/ok").status for c in all] == [200] * len(all))
    ''' % many])
    with exeat.Sandbox(POLICY, ["python3", "-c", code], resolve=[server.resolve("a.test")], upstream_ca=pki.ca) as sandbox:
        def there(name):
            return os.path.exists(os.path.join(sandbox.home, name)) or sandbox.process.poll() is not None

        def touch(name):
            with open(os.path.join(sandbox.home, name), "w", encoding="ascii"):
                pass
        tap.eventually(lambda: there("one"))
        time.sleep(1.5)
        before = resident(sandbox.pid)
        touch("more")
        tap.eventually(lambda: there("many"), 150)
        tap.eventually(lambda: resident(sandbox.pid) - before < many * 28)
        print("# %.1f KiB each" % ((resident(sandbox.pid) - before) / many))
        touch("done")
        r = sandbox.wait(30)
    tap.equal((r.code, r.out), (0, "True\n"), str(r))


# ---- whom it is for ----

@tap.test
def each_streams_authority_is_held_against_the_connections_name(t):
    r, server = through(t, '''
        c = h2("a.test")
        report([c.get("/ok", authority=x).status for x in ("a.test", "A.TEST", "a.test:443", "a.test.", "b.test",
                                                           "a.test:8443", "b.test:443", "user@a.test", "a.test/x", "")])
        report(c.get("/ok", authority=None, fields=[("host", "a.test")]).status)
        report(c.get("/ok", authority=None, fields=[("host", "b.test")]).status)
        report(c.get("/ok", authority="a.test", fields=[("host", "b.test")]).status)
        report(c.get("/ok", authority=None).status)
        report(c.get("/ok", scheme="http").status)
    ''')
    tap.equal(r.reports, [[200, 200, 200, 200, 421, 421, 421, 400, 400, 400], 200, 421, 400, 400, 400])
    tap.equal(len(server.requests), 5)
    tap.equal({q.header("host") for q in server.requests}, {"a.test"})


@tap.test
def h2_is_not_spoken_in_clear_text_nor_by_upgrade(t):
    r, server = onehost.through(t, '''
        c = tcp("a.test", 80)
        c.send(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n\\0\\0\\0\\4\\0\\0\\0\\0\\0")
        report(c.rest().decode(), c.ended)
        c = tls("a.test")
        c.send("GET /ok HTTP/1.1\\r\\nHost: a.test\\r\\nConnection: Upgrade, HTTP2-Settings\\r\\nUpgrade: h2c\\r\\n"
               "HTTP2-Settings: AAMAAABkAAQAAP__\\r\\n\\r\\n")
        report(c.answer().status)
    ''')
    tap.equal(r.reports[0][0], "")
    tap.equal(r.reports[1], 200)
    tap.equal([v["code"] for v in r.verdicts(verdict="deny")], ["http2-clear"])
    tap.ok(all(q.header("upgrade") is None and q.header("http2-settings") is None for q in server.requests))


@tap.test
def only_who_asks_for_h2_by_alpn_gets_it(t):
    r, _ = through(t, '''
        report([tls("a.test", alpn=x).sock.selected_alpn_protocol()
                for x in (None, ["http/1.1"], ["h2"], ["http/1.1", "h2"], ["h3", "spdy/3"])])
        def old(ciphers):
            context = ssl.create_default_context()
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            context.set_ciphers(ciphers)
            context.set_alpn_protocols(["h2", "http/1.1"])
            return context.wrap_socket(socket.create_connection(("a.test", 443)),
                                       server_hostname="a.test").selected_alpn_protocol()
        report([old("ECDHE-ECDSA-AES128-GCM-SHA256"), old("ECDHE-ECDSA-AES128-SHA256:@SECLEVEL=0")])
        c = h2("a.test")
        report(c.get("/ok").status)
    ''')
    tap.equal(r.reports, [[None, "http/1.1", "h2", "h2", None], ["h2", "http/1.1"], 200])


# ---- WebSocket (RFC 8441) ----

def websocket(connection, request):
    """Grants the upgrade and sends back what comes, in capitals; says "hello" with the head."""
    key = request.header("sec-websocket-key")
    proof = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
    connection.send(("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                     "Sec-WebSocket-Accept: %s\r\nSec-WebSocket-Protocol: chat\r\n\r\nhello" % proof).encode())
    while True:
        data = connection.recv()
        if not data:
            connection.send(b"bye")
            connection.close()
            return
        connection.send(data.upper())


CONNECT = '''
    def connect(c, path="/ok/ws", fields=(("sec-websocket-version", "13"), ("sec-websocket-protocol", "chat")), **pseudo):
        pseudo = dict({"protocol": "websocket"}, **pseudo)
        return c.request(path, method="CONNECT", end=False, fields=fields, **pseudo)
    def until(c, s, text):
        while text not in c.answers[s].body and c.read():
            pass
'''


@tap.test
def a_websocket_by_extended_connect(t):
    r, server = through(t, CONNECT + '''
    c = h2("a.test")
    report(c.theirs.get(8))
    s = connect(c)
    c.data(s, b"early ")
    until(c, s, b"hello")
    a = c.answers[s]
    report(a.status, dict(a.headers))
    c.data(s, b"words")
    until(c, s, b"WORDS")
    report(c.get("/ok/beside").status)
    c.data(s, b"x" * 10000)
    c.data(s, b"", end=True)
    a = c.answer(s)
    report(a.body == b"helloEARLY WORDS" + b"X" * 10000 + b"bye", a.whole)
    ''', answer=lambda c, q: websocket(c, q) if q.target == "/ok/ws" else response(200, "x"))
    tap.equal(r.reports, [1, [200, {"sec-websocket-protocol": "chat"}], 200, [True, True]])
    q = server.requests[0]
    tap.equal([q.method, q.target, q.header("upgrade"), q.header("connection"), q.header("sec-websocket-version"),
               q.header("content-length"), q.header("transfer-encoding")],
              ["GET", "/ok/ws", "websocket", "Upgrade", "13", None, None])
    tap.equal(r.verdicts(url="https://a.test/ok/ws")[0]["method"], "GET")
    tap.equal(r.outcomes(status=101)[0]["sent"], 10011)


@tap.test
def an_extended_connect_that_is_not_permitted_or_not_granted(t):
    r, server = through(t, CONNECT + '''
    c = h2("a.test")
    report(c.answer(connect(c, "/no")).status)
    report(c.answer(connect(c, "/ok/plain")).status, c.answer(connect(c, "/ok/gone")).status)
    report(c.answer(connect(c, protocol="bytestream")).status)
    report(c.answer(connect(c, fields=[("sec-websocket-version", "8")])).status)
    report(c.answer(connect(c, authority="b.test")).status)
    report(c.answer(connect(c, authority=None)).status)
    report(c.get("/ok/ws", protocol="websocket").status)
    s = connect(c)
    until(c, s, b"hello")
    c.reset(s)
    report(c.settle(), c.get("/ok/then").status)
    ''', answer=lambda c, q: websocket(c, q) if q.target == "/ok/ws" else response(410 if q.target == "/ok/gone" else 200, "x"))
    tap.equal(r.reports, [403, [502, 410], 501, 501, 421, 400, 400, [True, 200]])
    tap.eventually(lambda: all(c.ended or c.closed for c in server.connections if c.requests[0].target == "/ok/ws"))


# ---- credentials and records ----

VAULT = """credential token
    for     https://a.test
    from    env TOKEN
    inject  bearer
"""


@tap.test
def credentials_are_lent_and_the_sandboxs_own_taken_off(t):
    r, server = through(t, '''
        c = h2("a.test")
        report(c.get("/ok", fields=[("authorization", "Bearer mine"), ("x-api-key", "mine")]).status)
    ''', policy="allow GET https://a.test/ok** with token\n", vault=VAULT, env={"TOKEN": "SECRET-A"})
    tap.equal(r.reports, [200])
    tap.equal(server.requests[0].all("authorization"), ["Bearer SECRET-A"])
    tap.lacks(server.received.decode("latin-1"), "mine")


# ---- real clients ----

@tap.test
def curl_nghttp_and_h2load(t):
    server = t.use(RawServer(tls=pki.leaf("a.test"), answer=lambda c, q: (c.read_body(q), response(
        200, "%s %s %d" % (q.method, q.target, len(q.body))))[1]))
    r = exeat.run(POLICY, ["sh", "-c", """
        set -e
        curl -sS -w ' %{http_version} ' https://a.test/ok/1 https://a.test/ok/2
        head -c 3000000 /dev/zero | curl -sS -w ' %{http_version}\n' -T - https://a.test/ok/3
        head -c 3000000 /dev/zero | curl -sS -o /dev/null -w '%{http_code}\n' -T - https://a.test/no
        nghttp https://a.test/ok/4; echo
        h2load -n 500 -c 4 -m 25 https://a.test/ok/5 | grep succeeded
    """], resolve=[server.resolve("a.test")], upstream_ca=pki.ca)
    tap.equal(r.code, 0, str(r))
    tap.contains(r.out, "GET /ok/1 0 2 GET /ok/2 0 2 PUT /ok/3 3000000 2\n403\nGET /ok/4 0\n")
    tap.contains(r.out, "500 succeeded, 0 failed, 0 errored")


@tap.test
def node(t):
    server = t.use(RawServer(tls=pki.leaf("a.test"), answer=lambda c, q: (c.read_body(q), response(
        200, "%s %s %d" % (q.method, q.target, len(q.body))))[1]))
    r = exeat.run(POLICY, ["node", "-e", """
        const http2 = require("http2"), fs = require("fs");
        const c = http2.connect("https://a.test", {ca: fs.readFileSync(process.env.NODE_EXTRA_CA_CERTS)});
        let left = 3;
        for (const path of ["/ok/1", "/ok/2", "/no"]) {
            const s = c.request({":path": path, ":method": "POST"});
            let text = "", status;
            s.on("response", h => status = h[":status"]);
            s.on("data", d => text += d);
            s.on("close", () => { console.log(path, status, status == 200 ? text : ""); if (--left == 0) c.close(); });
            s.end("x".repeat(200000));
        }
    """], resolve=[server.resolve("a.test")], upstream_ca=pki.ca)
    tap.equal(r.code, 0, str(r))
    tap.equal(sorted(r.out.split("\n")), ["", "/no 403 ", "/ok/1 200 POST /ok/1 200000", "/ok/2 200 POST /ok/2 200000"])


@tap.test
def hosts_that_git_goes_to_have_it_too(t):
    server = t.use(RawServer(tls=pki.leaf("a.test"), answer=response(200, "ok")))
    r = exeat.run(POLICY + "allow fetch https://a.test/r\nallow push https://a.test/r refs/heads/*\n",
                  ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_version}", "https://a.test/ok"],
                  resolve=[server.resolve("a.test")], upstream_ca=pki.ca)
    tap.equal(r.out, "2")


if __name__ == "__main__":
    tap.main()
