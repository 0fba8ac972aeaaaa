"""A WebSocket whose server speaks HTTP/2 (RFC 8441), and whose client speaks either."""
import struct

import h2
import tap
import websocket
from h2server import DATA, END_HEADERS, END_STREAM, HEADERS, OK, RST_STREAM
from h2upstream import against, through

h2.needed(tap.skip_all)


# ---- WebSocket ----

TALK = websocket.CLIENT + '''
    class Stream(object):
        """A WebSocket that is a stream of HTTP/2."""
        def __init__(self, c, target):
            self.c = c
            self.s = c.request(target, method="CONNECT", end=False, protocol="websocket",
                               fields=[("sec-websocket-version", "13"), ("x-mine", "1")])
        def head(self):
            while not self.c.answers[self.s].status and self.c.read():
                pass
            return self.c.answers[self.s].status
        def exactly(self, n):
            a = self.c.answers[self.s]
            while len(a.body) < n and not a.whole and a.reset is None and self.c.read():
                pass
            taken, a.body = a.body[:n], a.body[n:]
            return taken
        def send(self, data):
            for at in range(0, len(data), 16000):
                while self.room() < 16000 and self.c.read():
                    pass
                self.c.data(self.s, data[at:at + 16000])
                self.sent = getattr(self, "sent", 0) + len(data[at:at + 16000])
        def room(self):
            return 65535 + self.c.updates.get(self.s, 0) - getattr(self, "sent", 0)
        def rest(self):
            self.c.data(self.s, b"", end=True)
            a = self.c.answer(self.s)
            return [a.whole, len(a.body)]
    class Upgrade(object):
        def __init__(self, c, target):
            self.c = ask(c, target, rest=REST + "X-Mine: 1\\r\\n")
            self.exactly, self.send = self.c.exactly, self.c.send
        def head(self):
            return head(self.c)[0]
        def rest(self):
            self.c.shut()
            return [self.c.rest() == b"", 0]
    def talk(w):
        said = [w.head(), get_frame(w)[1].decode()]
        for n in (0, 5, 125, 126, 5000, 60000):
            payload = bytes(bytearray(i % 251 for i in range(n)))
            w.send(frame(payload))
            said.append(get_frame(w) == (2, payload))
        w.send(frame(b"", 9) + frame(b"bye", 8))
        said += [get_frame(w)[0], get_frame(w), w.rest()]
        return said
'''
TALKED = ["first"] + [True] * 6 + [9, [8, "bye"], [True, 0]]
BOTH = '''
    for w in (Upgrade(tls("a.test"), "/ok/one"), Stream(h2("a.test"), "/ok/two")):
        said = talk(w)
        said[9] = [said[9][0], said[9][1].decode()]
        report(said)
'''
MOVED = 3 * 6 + 5 + 125 + 3 * 14 + 126 + 5000 + 60000 + 2 * 6 + 3 # from the client: a mask in each


def check_websockets(r, seen, kinds):
    """Both clients had the whole talk; the server saw requests of these kinds."""
    tap.equal(r.reports, [[101] + TALKED, [200] + TALKED])
    tap.equal([(q["path"], q["version"], q["method"], q["headers"].get(":protocol")) for q in seen],
              [(path, *kind) for path, kind in zip(("/ok/one", "/ok/two"), kinds)])
    tap.equal([q["headers"].get("x-mine") for q in seen], ["1", "1"])
    tap.equal([("sec-websocket-key" in q["headers"]) for q in seen], [kind[1] == "GET" for kind in kinds])
    tap.equal([v["method"] for v in r.verdicts()][-2:], ["GET", "GET"])
    outcomes = r.outcomes(status=101)
    upstream = "h2+websocket" if kinds[0][1] == "CONNECT" else "http/1.1+websocket"
    tap.equal([(o["protocol"], o["upstream_protocol"]) for o in outcomes],
              [("http/1.1+websocket", upstream), ("h2+websocket", upstream)])
    tap.equal([(o.get("code"), o["sent"]) for o in outcomes], [(None, MOVED)] * 2)
    tap.equal(outcomes[0]["received"], outcomes[1]["received"])


@tap.test
def a_websocket_is_a_stream_where_the_server_takes_extended_connect(t):
    r, server = through(t, [TALK, BOTH], "connect", "only")
    check_websockets(r, server.requests(2), [("2.0", "CONNECT", "websocket")] * 2)
    tap.equal({q["session"] for q in server.requests(2)}, {1})


@tap.test
def a_websocket_goes_by_http_1_where_the_server_of_http_2_does_not(t):
    r, server = through(t, [TALK, BOTH])
    check_websockets(r, server.requests(2), [("1.1", "GET", None)] * 2)


@tap.test
def a_websocket_that_a_server_of_http_2_refuses_is_refused(t):
    r, _ = through(t, [TALK, '''
        c = tls("a.test")
        a = ask(c, "/ok/no").answer()
        report(a.status, a.body.decode(), a.header("sec-websocket-accept"))
        c = h2("a.test")
        s = Stream(c, "/ok/no")
        a = c.answer(s.s)
        report(a.status, a.body.decode(), c.get("/ok").status)
    '''], "connect")
    tap.equal(r.reports, [[403, "not this one", None], [403, "not this one", 200]])


@tap.test
def a_websocket_that_breaks_off_on_either_side_ends_on_the_other(t):
    # the server breaks the first one off when it has had a word of it, and answers the last request when the second one is over
    def serve(f, _number):
        over, asked = False, 0
        while not (over and asked):
            kind, _, stream, _ = f.read()
            if kind == HEADERS and stream < 5:
                f.frame(HEADERS, END_HEADERS, stream, OK)
                f.frame(DATA, 0, stream, b"begun")
            elif kind == HEADERS:
                asked = stream
            elif kind == DATA and stream == 1:
                f.frame(RST_STREAM, 0, stream, struct.pack(">I", 2))
            elif kind == RST_STREAM and stream == 3:
                over = True
        f.answer(asked)
        f.request()
    r, _ = against(t, serve, TALK + '''
    w = Upgrade(tls("a.test"), "/ok/one")
    report(w.head(), w.exactly(5).decode())
    w.send(b"x")
    report(w.exactly(1).decode(), w.c.ended)
    w = Upgrade(tls("a.test"), "/ok/two")
    report(w.head(), w.exactly(5).decode())
    w.c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    w.c.close()
    report(h2("a.test").get("/ok/three").status)
    ''', settings=b"\0\x08\0\0\0\1")
    tap.equal(r.reports, [[101, "begun"], ["", "ragged"], [101, "begun"], 200])
    tap.equal([o.get("code") for o in r.outcomes(status=101)], ["upstream-truncated", "client-gone"])


@tap.test
def a_websocket_on_which_nothing_comes_ends(t):
    def serve(f, _number):
        while True:
            kind, _, stream, _ = f.read()
            if kind == HEADERS:
                f.frame(HEADERS, END_HEADERS, stream, OK)
                f.frame(DATA, 0 if stream == 1 else END_STREAM, stream, b"begun")
    r, _ = against(t, serve, TALK + '''
    for target in ("/ok/open", "/ok/half"):
        w = Upgrade(tls("a.test"), target)
        report(w.head(), w.exactly(5).decode())
    hold()
    ''', settings=b"\0\x08\0\0\0\1", flags=["--time-limit", "relay=1s"],
                   until=lambda records: len([o for o in records if o.get("code") == "relay-idle"]) == 2)
    tap.equal(r.reports, [[101, "begun"]] * 2)


@tap.test
def a_rule_with_a_length_permits_none(t):
    """A rule that limits how much is sent permits no stream without an end, and says so"""
    r, server = through(t, TALK + '''
    c = h2("a.test")
    report(Stream(c, "/ok/ws").head())
    report(c.get("/ok").status)
    ''', "connect", policy="allow GET https://a.test/ok** max-body 1KiB\n")
    tap.equal(r.reports, [403, 200])
    tap.equal([q["path"] for q in server.requests(1)], ["/ok"])
    tap.equal([(v["verdict"], v["code"]) for v in r.verdicts()], [("deny", "websocket"), ("allow", "allowed")])


tap.main()
