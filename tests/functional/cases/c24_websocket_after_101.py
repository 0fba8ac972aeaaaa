"""C24: a WebSocket: behind the 101 that was asked for every byte is passed on, both ways; nothing else is upgraded."""
import client
import exeat
import h2
import onehost
import tap
import websocket
from raw import RawServer, response

POLICY = "allow GET https://a.test/ok**\nallow POST https://a.test/post\n"


def through(t, code, answer=websocket.echo, policy=POLICY, **options):
    parts = [code] if isinstance(code, str) else code
    return onehost.through(t, [websocket.CLIENT] + parts, answer=answer, policy=policy, **options)


@tap.test
def a_frame_in_the_same_write_as_the_101(t):
    r, server = through(t, '''
        c = ask(tls("a.test"))
        status, fields = head(c)
        report(status, fields.get("upgrade"), fields.get("connection"), fields.get("sec-websocket-accept"))
        report([str(f) for f in (get_frame(c),)])
        c.send(frame(b"hello", 1))
        report([str(f) for f in (get_frame(c),)])
        c.send(frame(b"", 8))
        report([str(f) for f in (get_frame(c), get_frame(c))], c.ended)
    ''')
    tap.equal(r.reports, [[101, "websocket", "Upgrade", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="], ["(2, b'first')"], ["(1, b'hello')"],
                          [["(8, b'')", "None"], "eof"]])
    tap.equal([(q.line, q.header("connection"), q.header("upgrade"), q.header("sec-websocket-version")) for q in server.requests],
              [("GET /ok/ws HTTP/1.1", "Upgrade", "websocket", "13")])
    outcome, = r.outcomes()
    tap.equal((outcome["status"], outcome["sent"], outcome["received"]), (101, 11 + 6, 7 + 7 + 2))
    tap.ok("duration_ms" in outcome, outcome)


@tap.test
def in_clear_text_and_by_a_proxy_too(t):
    clear = [websocket.CLIENT, '''
        for c, target in ((tcp("a.test"), "/ok/ws"), (tcp("proxy.test", 3128), "http://a.test/ok/ws")):
            c = ask(c, target=target)
            report(head(c)[0], str(get_frame(c)))
            data = os.urandom(1 << 20)
            c.pour(frame(data))
            report(get_frame(c) == (2, data))
            c.send(frame(b"", 8))
            report(str(get_frame(c)))
    ''']
    r, server = onehost.through(t, clear, answer=websocket.echo, clear=True, policy=POLICY.replace("https", "http"))
    tap.equal(r.reports, [[101, "(2, b'first')"], True, "(8, b'')"] * 2)
    tap.equal([(q.line, q.header("upgrade")) for q in server.requests], [("GET /ok/ws HTTP/1.1", "websocket")] * 2)
    r, server = through(t, '''
        c = ask(wrap(connect("a.test:443"), "a.test"))
        report(head(c)[0], str(get_frame(c)))
    ''')
    tap.equal(r.reports, [[101, "(2, b'first')"]])


@tap.test
def what_the_client_sends_early_waits_for_the_101(t):
    # … and is a request like any other where the 101 does not come
    heard = []

    def late(connection, request):
        connection.sock.settimeout(1)
        try:
            heard.append(connection.recv())
        except Exception as e:  # pylint: disable=broad-except
            heard.append(type(e).__name__)
        connection.sock.settimeout(20)
        connection.send(websocket.granted(request))
        connection.send(websocket.frame(websocket.get_frame(connection)[1]))
        connection.close()

    r, _ = through(t, '''
        for early in (b"early", b"much " * 400000):
            c = ask(tls("a.test"), behind=frame(early))
            report(head(c)[0])
            report(get_frame(c) == (2, early))
    ''', answer=late)
    tap.equal(heard, ["Closed"] * 2)
    tap.equal(r.reports, [101, True] * 2)
    r, server = through(t, '''
        c = ask(tls("a.test"), behind=b"DELETE /no HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n")
        report(c.answer().status, c.answer().status)
    ''', answer=response(200, "no WebSocket here"))
    tap.equal(r.reports, [[200, 403]])
    tap.equal([q.method for q in server.requests], ["GET"])


@tap.test
def a_mebibyte_each_way(t):
    r, server = through(t, '''
        data = os.urandom(1 << 20)
        c = ask(tls("a.test"))
        report(head(c)[0], str(get_frame(c)))
        c.pour(frame(data))
        report(get_frame(c) == (2, data))
        c.send(frame(b"", 8))
        get_frame(c)
    ''')
    tap.equal(r.reports, [[101, "(2, b'first')"], True])
    outcome, = r.outcomes()
    tap.equal((outcome["sent"], outcome["received"]), ((1 << 20) + 14 + 6, (1 << 20) + 10 + 7 + 2))
    tap.equal(server.errors, [])


@tap.test
def a_101_that_does_not_fit_is_a_bad_answer(t):
    def answer(connection, request):
        how = request.target.rsplit("/", 1)[1]
        good = websocket.granted(request)
        connection.send({
            "accept": websocket.granted(request, accept="s3pPLMBiTxaQ9kYGzzhZRbK+xOO="),
            "none": good.replace(b"Sec-WebSocket-Accept", b"X-Accept"),
            "h2c": good.replace(b"Upgrade: websocket", b"Upgrade: h2c"),
            "two": good.replace(b"Upgrade: websocket", b"Upgrade: websocket\r\nUpgrade: h2c"),
            "second": good.replace(b"Upgrade: websocket", b"Upgrade: h2c\r\nUpgrade: websocket"),
            "bare": good.replace(b"Upgrade: websocket\r\n", b""),
            "connection": good.replace(b"Connection: Upgrade\r\n", b""),
            "old": good.replace(b"HTTP/1.1", b"HTTP/1.0"),
        }[how] + b"SECRET-FRAME")
        connection.recv()
        connection.close()

    kinds = ["accept", "none", "h2c", "two", "second", "connection", "old", "bare"]
    r, server = through(t, '''
        for how in %r:
            a = ask(tls("a.test"), target="/ok/" + how).answer()
            report(how, a.status, "SECRET-FRAME" in a.body.decode("latin-1"))
    ''' % kinds, answer=answer)
    tap.equal(r.reports, [[how, 502, False] for how in kinds])
    tap.equal(len(server.requests), len(kinds))
    tap.equal([o["status"] for o in r.outcomes()], [502] * len(kinds))
    tap.equal([o["reason"] for o in r.outcomes()], ["the upstream's answer does not fit the WebSocket handshake"] * 7 + [
        "the upstream's answer is malformed: the server switches protocols without saying to which (101 without Upgrade)"])


@tap.test
def nobody_asked_for_it(t):
    # neither does the upgrade go up where it is another one, or in a list, or where the request can't have one
    asks = [
        ("plain", "", ""),
        ("h2c", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n", ""),
        ("tls", "Connection: Upgrade\r\nUpgrade: TLS/1.2\r\n", ""),
        ("list", "Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n", "REST"),
        ("two", "Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n", "REST"),
        ("second", "Connection: Upgrade\r\nUpgrade: h2c\r\nUpgrade: websocket\r\n", "REST"),
        ("unnamed", "Upgrade: websocket\r\n", "REST"),
        ("key", "Connection: Upgrade\r\nUpgrade: websocket\r\n", "Sec-WebSocket-Version: 13\r\n"),
        ("no base64", "Connection: Upgrade\r\nUpgrade: websocket\r\n", "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25!ZQ==\r\n"),
        ("17 bytes", "Connection: Upgrade\r\nUpgrade: websocket\r\n", "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZWU=\r\n"),
        ("a bit too many", "Connection: Upgrade\r\nUpgrade: websocket\r\n", "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZR==\r\n"),
        ("version", "Connection: Upgrade\r\nUpgrade: websocket\r\n", "REST8"),
        ("body", "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 3\r\n", "REST"),
    ]
    code = '''
        for name, asks, rest in %r:
            rest = {"REST": REST, "REST8": REST.replace("13", "8")}.get(rest, rest)
            a = ask(tls("a.test"), asks=asks, rest=rest, behind=b"abc" if name == "body" else b"").answer()
            report(name, a.status)
        a = ask(tls("a.test"), method="POST", target="/post").answer()
        report("post", a.status)
    ''' % asks
    names = [name for name, _, _ in asks] + ["post"]
    r, server = through(t, code, answer=response(200, "ok"))
    tap.equal(r.reports, [[name, 200] for name in names])
    for q in server.requests:
        tap.equal((q.all("upgrade"), [v for v in q.all("connection") if "pgrade" in v]), ([], []), q.head)
    r, _ = through(t, code, answer=lambda connection, request: websocket.granted(request))
    tap.equal(r.reports, [[name, 502] for name in names])


@tap.test
def another_answer_is_an_ordinary_one(t):
    r, server = through(t, '''
        c = ask(tls("a.test"))
        a = c.answer()
        report(a.status, a.body.decode(), a.header("upgrade"))
        report(c.get("/ok").status)
    ''', answer=response(426, "no", [("Upgrade", "websocket"), ("Connection", "Upgrade")]))
    tap.equal(r.reports, [[426, "no", None], 426])
    tap.equal([q.header("upgrade") for q in server.requests], ["websocket", None])


@tap.test
def what_no_rule_allows_is_not_asked_for(t):
    r, server = through(t, '''
        report(ask(tls("a.test"), target="/no").answer().status, ask(tls("b.test"), host="b.test").answer().status)
    ''')
    tap.equal(r.reports, [[403, 403]])
    tap.equal(server.requests, [])


@tap.test
def a_rule_with_a_length_allows_no_stream(t):
    r, server = through(t, 'report(ask(tls("a.test")).answer().status)', policy="allow GET https://a.test/ok** max-body 1KiB\n")
    tap.equal(r.reports, [200])
    tap.equal([q.header("upgrade") for q in server.requests], [None])


@tap.test
def the_connection_to_the_upstream_is_its_own(t):
    # a fresh one, though one waits; and none that a request comes on afterwards
    r, server = through(t, '''
        report(tls("a.test").get("/ok").status)
        c = ask(tls("a.test"))
        report(head(c)[0])
        get_frame(c)
        report(tls("a.test").get("/ok").status)
        c.send(frame(b"", 8))
        report(str(get_frame(c)))
        report(tls("a.test").get("/ok").status)
    ''')
    tap.equal(r.reports, [200, 101, 200, "(8, b'')", 200])
    tap.equal(sorted([q.header("upgrade") or "" for q in c.requests] for c in server.connections), [["", "", ""], ["websocket"]])


@tap.test
def a_credential_is_in_the_handshake(t):
    vault = "credential a\n    for https://a.test\n    from env TOKEN\n    inject bearer\n"
    r, server = through(t, '''
        c = ask(tls("a.test"), rest=REST + "Authorization: Bearer mine\\r\\n")
        report(head(c)[0], str(get_frame(c)))
    ''', policy="allow GET https://a.test/ok** with a\n", vault=vault, env={"TOKEN": "SECRET-A"})
    tap.equal(r.reports, [[101, "(2, b'first')"]])
    tap.equal([q.all("authorization") for q in server.requests], [["Bearer SECRET-A"]])


@tap.test
def half_closed_by_either_side(t):
    # in clear text, where an end of one direction is all that it is
    def answer(connection, request):
        connection.send(websocket.granted(request))
        if request.target.endswith("/server"):
            connection.half_close()
            connection.exactly(5)
            connection.close()
            return
        while connection.recv():
            pass
        connection.send(b"late words")
        connection.close()

    server = t.use(RawServer(answer))
    r = client.run("allow GET http://a.test/ok**\n", [websocket.CLIENT, '''
        c = ask(tcp("a.test"), target="/ok/client")
        report(head(c)[0])
        c.shut()
        report(c.rest().decode(), c.ended)
        c = ask(tcp("a.test"), target="/ok/server")
        report(head(c)[0])
        report(c.rest().decode(), c.ended)
        c.send(b"later")
        c.shut()
        hold()
    '''], resolve=[server.resolve("a.test", 80)], until=lambda records: len(exeat.select(records, "outcome")) == 2)
    tap.equal(r.reports, [101, ["late words", "eof"], 101, ["", "eof"]])
    tap.equal(bytes(server.connections[1].received).split(b"\r\n\r\n", 1)[1], b"later")
    tap.equal([(o["status"], o["sent"], o["received"]) for o in r.outcomes()], [(101, 0, 10), (101, 5, 0)])


@tap.test
def broken_off_by_either_side(t):
    def answer(connection, request):
        connection.send(websocket.granted(request))
        connection.recv()
        connection.close("rst" if request.target.endswith("/server") else "fin")

    r, server = through(t, '''
        c = ask(tls("a.test"), target="/ok/server")
        report(head(c)[0])
        c.send("x")
        report(c.rest().decode(), c.ended != "timeout")
        c = ask(tls("a.test"), target="/ok/client")
        report(head(c)[0])
        c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        c.sock.close()
        hold()
    ''', answer=answer, until=lambda records: len(exeat.select(records, "outcome")) == 2)
    tap.equal(r.reports, [101, ["", True], 101])
    tap.eventually(lambda: server.connections[1].ended, message="the server was not told of the client's end")
    tap.equal(sorted((o["status"], o["code"]) for o in r.outcomes()), [(101, "client-gone"), (101, "upstream-truncated")])


@tap.test
def silence_of_both_sides_has_a_limit_of_its_own(t):
    # words of either side keep it: beyond the limits of an ordinary request, and past its own in the sum
    h2.needed()
    words = """
        def words(w):
            got = [get_frame(w)[1].decode()]
            for i in range(4):
                time.sleep(0.7)
                w.send(frame(b"%d" % i))
                got.append(get_frame(w)[1].decode())
            began = time.monotonic()
            w.exactly(1)
            return got, round(time.monotonic() - began, 1)
    """
    r, server = through(t, [h2.CLIENT, words, """
        c = ask(tls("a.test"))
        report(head(c)[0], words(c), c.ended)
        c = h2("a.test")
        class Stream(object):
            def __init__(self):
                self.s = c.request("/ok/ws", "CONNECT", end=False, fields=[("sec-websocket-version", "13")], protocol="websocket")
            def exactly(self, n):
                a = c.answers[self.s]
                while len(a.body) < n and a.reset is None and not a.whole and c.read():
                    pass
                out, a.body = a.body[:n], a.body[n:]
                return out
            def send(self, data):
                c.data(self.s, data)
        w = Stream()
        report(c.answers[w.s].status, words(w), c.answers[w.s].reset)
        report(c.settle())
    """], flags=["--time-limit", "relay=2s"])
    for status, (got, seconds), ended in r.reports[:2]:
        tap.equal(got, ["first", "0", "1", "2", "3"])
        tap.ok(1.7 <= seconds < 60, "ended after %r s of silence: %r" % (seconds, ended))
    tap.equal(r.reports[2], True)
    tap.equal([o["code"] for o in r.outcomes(status=101)], ["relay-idle"] * 2)
    for o in r.outcomes(status=101):
        tap.contains(o["reason"], "(--time-limit relay)")
    tap.eventually(lambda: all(c.ended or c.closed for c in server.connections))


@tap.test
def it_ends_with_the_sandbox(t):
    r, server = through(t, '''
        c = ask(tls("a.test"))
        report(head(c)[0], str(get_frame(c)))
        os._exit(0)
    ''')
    tap.equal(r.reports, [[101, "(2, b'first')"]])
    tap.equal([o["status"] for o in r.outcomes()], [101])
    tap.eventually(lambda: server.connections[0].ended, message="the upstream still waits")


tap.main()
