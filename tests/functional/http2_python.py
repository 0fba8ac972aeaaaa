"""Python's h2, a client and a server that raise at every breach of the rules: bodies both ways, trailers, 1xx, resets."""

import client
import h2
import tap
from pki import Pki
from tellserver import TellServer

h2.needed(tap.skip_all, "h2.connection")
pki = Pki()
POLICY = "allow GET,POST https://a.test/ok/**\n"

SERVER = '''
import json, socket, ssl, sys, threading
import h2.config, h2.connection, h2.events as ev

def say(**what):
    print(json.dumps(what), flush=True)

class Session:
    def __init__(self, sock):
        self.sock, self.bodies, self.paths = sock, {}, {}
        self.left = {}
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
    def run(self):
        self.h2.initiate_connection()
        self.flush()
        while True:
            data = self.sock.recv(65536)
            if not data:
                return
            for event in self.h2.receive_data(data):
                self.on(event)
            self.flush()
    def flush(self):
        self.sock.sendall(self.h2.data_to_send())
    def on(self, event):
        if isinstance(event, ev.RequestReceived):
            self.bodies[event.stream_id], self.paths[event.stream_id] = 0, dict(event.headers)[":path"]
        elif isinstance(event, ev.DataReceived):
            self.bodies[event.stream_id] += len(event.data)
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, ev.TrailersReceived):
            say(trailers=dict(event.headers))
        elif isinstance(event, ev.StreamEnded):
            self.answer(event.stream_id)
        elif isinstance(event, ev.StreamReset):
            say(reset=event.error_code, path=self.paths[event.stream_id])
            self.left.pop(event.stream_id, None)
        elif isinstance(event, ev.WindowUpdated):
            for stream in list(self.left):
                self.pour(stream)
    def answer(self, stream):
        path = self.paths[stream]
        if path.endswith("/hints"):
            self.h2.send_headers(stream, [(":status", "103"), ("link", "</x>")])
        self.h2.send_headers(stream, [(":status", "200"), ("x-path", path), ("x-body", str(self.bodies[stream]))])
        self.left[stream] = 1000000 if path.endswith("/big") else 3
        self.pour(stream)
    def pour(self, stream):
        while self.left[stream]:
            n = min(self.left[stream], self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
            if n <= 0:
                return
            self.h2.send_data(stream, b"x" * n)
            self.left[stream] -= n
        del self.left[stream]
        self.h2.send_headers(stream, [("x-sum", "7")], end_stream=True)

def serve(sock):
    try:
        Session(context.wrap_socket(sock, server_side=True)).run()
    except Exception as e:
        say(error=repr(e))

context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(*sys.argv[1:3])
context.set_alpn_protocols(["h2"])
listener = socket.create_server(("127.0.0.1", 0))
say(port=listener.getsockname()[1])
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
'''

CLIENT = '''
import h2.config, h2.connection, h2.events as ev
class Client:
    def __init__(self):
        context = ssl.create_default_context()
        context.set_alpn_protocols(["h2"])
        self.sock = context.wrap_socket(socket.create_connection(("a.test", 443), 20), server_hostname="a.test")
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.flush()
        self.got, self.left = {}, {}
    def flush(self):
        self.sock.sendall(self.h2.data_to_send())
    def begin(self, path, method="GET", body=0, trailers=None):
        stream = self.h2.get_next_available_stream_id()
        self.got[stream] = {"status": None, "body": 0, "trailers": {}, "interim": [], "ended": False, "reset": None}
        self.h2.send_headers(stream, [(":method", method), (":scheme", "https"), (":authority", "a.test"), (":path", path)],
                             end_stream=not body)
        if body:
            self.left[stream] = (body, trailers)
            self.pour(stream)
        self.flush()
        return stream
    def pour(self, stream):
        left, trailers = self.left[stream]
        while left:
            n = min(left, self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
            if n <= 0:
                self.left[stream] = (left, trailers)
                return
            left -= n
            self.h2.send_data(stream, b"y" * n, end_stream=not left and not trailers)
        del self.left[stream]
        if trailers:
            self.h2.send_headers(stream, trailers, end_stream=True)
    def turn(self):
        data = self.sock.recv(65536)
        if not data:
            raise EOFError
        for event in self.h2.receive_data(data):
            self.on(event)
        self.flush()
    def on(self, event):
        a = self.got.get(getattr(event, "stream_id", None))
        if isinstance(event, ev.InformationalResponseReceived):
            a["interim"].append(dict(event.headers)[":status"])
        elif isinstance(event, ev.ResponseReceived):
            a["headers"] = dict(event.headers)
            a["status"] = a["headers"][":status"]
        elif isinstance(event, ev.DataReceived):
            a["body"] += len(event.data)
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, ev.TrailersReceived):
            a["trailers"] = dict(event.headers)
        elif isinstance(event, ev.StreamEnded):
            a["ended"] = True
        elif isinstance(event, ev.StreamReset):
            a["reset"] = event.error_code
            self.left.pop(event.stream_id, None)
        elif isinstance(event, ev.WindowUpdated):
            for stream in list(self.left):
                self.pour(stream)
    def answer(self, stream):
        while not self.got[stream]["ended"] and self.got[stream]["reset"] is None:
            self.turn()
        return self.got[stream]
'''


def run(t, code):
    server = t.use(TellServer("python3", SERVER, *pki.leaf("a.test")))
    r = client.run(POLICY, [CLIENT, code], resolve=[server.resolve("a.test")], upstream_ca=pki.ca)
    tap.equal([s for s in server.seen if "error" in s], [], "what the server took for a breach")
    return r, server


@tap.test
def both_ends_find_nothing_to_object_to(t):
    r, server = run(t, '''
        c = Client()
        streams = [c.begin("/ok/1"), c.begin("/ok/up", "POST", 500000, [("x-mine", "5")]), c.begin("/ok/big"), c.begin("/ok/hints"),
                   c.begin("/no"), c.begin("/ok/last", "POST", 10)]
        for a in [c.answer(s) for s in streams]:
            report(a["status"], a["interim"], a["headers"].get("x-body"), a["body"], a["trailers"], a["reset"])
    ''')
    trailers = {"x-sum": "7"}
    tap.equal(r.reports[:4] + r.reports[5:], [
        ["200", [], "0", 3, trailers, None], ["200", [], "500000", 3, trailers, None], ["200", [], "0", 1000000, trailers, None],
        ["200", ["103"], "0", 3, trailers, None], ["200", [], "10", 3, trailers, None]])
    tap.equal((r.reports[4][0], r.reports[4][4]), ("403", {}))
    tap.equal([s for s in server.seen if "trailers" in s], [{"trailers": {"x-mine": "5"}}])


@tap.test
def what_one_end_gives_up_the_other_hears_of(t):
    r, server = run(t, '''
        c = Client()
        s = c.begin("/ok/big")
        while not c.got[s]["body"]:
            c.turn()
        c.h2.reset_stream(s, 8)
        c.flush()
        report(c.answer(c.begin("/ok/then"))["status"])
        c.h2.close_connection()
        c.flush()
    ''')
    tap.equal(r.reports, ["200"])
    # unless all of it had gone before
    tap.ok([s for s in server.seen if "reset" in s] in ([], [{"reset": 8, "path": "/ok/big"}]), server.seen)
    tap.equal([o["code"] for o in r.outcomes() if "code" in o], ["client-reset"])


if __name__ == "__main__":
    tap.main()
