"""gRPC by its own library, client and server: unary, streams either way, trailers, errors, deadlines, cancellation."""

import client
import h2
import tap
from pki import Pki
from tellserver import TellServer

h2.needed(tap.skip_all, "grpc")
pki = Pki()
POLICY = "allow POST https://a.test/test.Echo/*\ndeny POST https://a.test/test.Echo/Secret\n"

SERVER = '''
import json, sys, time
from concurrent import futures
import grpc

def say(**what):
    print(json.dumps(what), flush=True)

def unary(request, context):
    context.send_initial_metadata((("x-initial", "1"),))
    context.set_trailing_metadata((("x-trailing", "2"), ("x-data-bin", b"\\x00\\xff")))
    say(method="Unary", metadata={k: v for k, v in context.invocation_metadata() if isinstance(v, str)},
        left=context.time_remaining())
    return request

def fails(request, context):
    context.abort(grpc.StatusCode.NOT_FOUND, "no such thing")

def down(request, context):
    for i in range(int(request)):
        yield b"%d" % i

def up(requests, context):
    n = total = 0
    for request in requests:
        n, total = n + 1, total + len(request)
    return b"%d %d" % (n, total)

def both(requests, context):
    for request in requests:
        yield b"<" + request + b">"

def hangs(request, context):
    context.add_callback(lambda: say(method="Hangs", ended=True))
    yield b"begun"
    while context.is_active():
        time.sleep(0.02)

def early(requests, context):
    context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "enough")
    yield b""

handlers = grpc.method_handlers_generic_handler("test.Echo", {
    "Unary": grpc.unary_unary_rpc_method_handler(unary),
    "Fails": grpc.unary_unary_rpc_method_handler(fails),
    "Down": grpc.unary_stream_rpc_method_handler(down),
    "Up": grpc.stream_unary_rpc_method_handler(up),
    "Both": grpc.stream_stream_rpc_method_handler(both),
    "Hangs": grpc.unary_stream_rpc_method_handler(hangs),
    "Early": grpc.stream_stream_rpc_method_handler(early),
})
server = grpc.server(futures.ThreadPoolExecutor(max_workers=40), handlers=(handlers,))
cert, key = (open(p, "rb").read() for p in sys.argv[1:3])
say(port=server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, cert)])))
server.start()
server.wait_for_termination()
'''

CLIENT = '''
import threading, time
import grpc
channel = grpc.secure_channel("a.test:443", grpc.ssl_channel_credentials())
def method(kind, name):
    return getattr(channel, kind)("/test.Echo/" + name)
def failure(f):
    try:
        f()
        return "nothing failed"
    except grpc.RpcError as e:
        return [e.code().name, e.details()]
'''


def run(t, code, policy=POLICY, **options):
    server = t.use(TellServer("python3", SERVER, *pki.leaf("a.test")))
    r = client.run(policy, [CLIENT, code], resolve=[server.resolve("a.test")], upstream_ca=pki.ca,
                   timeout=60, **options)
    return r, server


@tap.test
def unary_calls_with_metadata_and_trailers(t):
    r, server = run(t, '''
        for i in range(3):
            answer, call = method("unary_unary", "Unary").with_call(b"hello %d" % i, metadata=(("x-mine", "m"),), timeout=20)
            trailing = dict(call.trailing_metadata())
            report(answer.decode(), dict(call.initial_metadata()).get("x-initial"), trailing.get("x-trailing"),
                   trailing.get("x-data-bin") == b"\\0\\xff", call.code().name)
        report(len(method("unary_unary", "Unary")(b"x" * 3000000)))
    ''')
    tap.equal(r.reports, [["hello %d" % i, "1", "2", True, "OK"] for i in range(3)] + [3000000])
    tap.equal(server.seen[0]["metadata"]["x-mine"], "m")
    tap.ok(10 < server.seen[0]["left"] <= 20, server.seen[0])
    tap.equal(len(r.verdicts(verdict="allow")), 4)


@tap.test
def streams_either_way(t):
    r, _ = run(t, '''
        report([x.decode() for x in method("unary_stream", "Down")(b"500")] == [str(i) for i in range(500)])
        report(method("stream_unary", "Up")(b"y" * 10000 for _ in range(300)).decode())
        gate, got = threading.Semaphore(1), []
        def asks():
            for i in range(50):
                gate.acquire()
                yield b"%d" % i
        for answer in method("stream_stream", "Both")(asks()):
            got.append(answer.decode())
            gate.release()
        report(got == ["<%d>" % i for i in range(50)])
        calls = [method("stream_stream", "Both")(iter([b"a", b"b"])) for _ in range(30)]
        report([b"".join(c).decode() for c in calls] == ["<a><b>"] * 30)
    ''')
    tap.equal(r.reports, [True, "300 3000000", True, True])


@tap.test
def errors_and_early_ends(t):
    r, _ = run(t, '''
        report(failure(lambda: method("unary_unary", "Fails")(b"x")))
        report(failure(lambda: method("unary_unary", "Missing")(b"x")))
        report(failure(lambda: list(method("stream_stream", "Early")(b"z" * 1000 for _ in range(100000)))))
        report(method("unary_unary", "Unary")(b"then").decode())
    ''')
    tap.equal(r.reports, [["NOT_FOUND", "no such thing"], ["UNIMPLEMENTED", "Method not found!"],
                          ["RESOURCE_EXHAUSTED", "enough"], "then"])


@tap.test
def deadlines_and_cancellation_reach_the_server(t):
    r, server = run(t, '''
        method("unary_unary", "Unary")(b"the connection is there")
        report(failure(lambda: list(method("unary_stream", "Hangs")(b"x", timeout=3)))[0])
        call = method("unary_stream", "Hangs")(b"x")
        report(next(iter(call)).decode())
        call.cancel()
        report(call.code().name)
        time.sleep(1)
        report(method("unary_unary", "Unary")(b"then").decode())
    ''')
    tap.equal(r.reports, ["DEADLINE_EXCEEDED", "begun", "CANCELLED", "then"])
    tap.eventually(lambda: [s for s in server.seen if s["method"] == "Hangs"] == [{"method": "Hangs", "ended": True}] * 2,
                   message="the server was not told: %r" % server.seen)


@tap.test
def a_call_that_is_denied_says_so(t):
    r, server = run(t, '''
        report(failure(lambda: method("unary_unary", "Secret")(b"x")))
        report(failure(lambda: list(method("stream_stream", "Secret")(iter([b"x"] * 10)))))
        report(method("unary_unary", "Unary")(b"then").decode())
    ''')
    refused = r.verdicts(verdict="deny")
    tap.equal(r.reports, [["PERMISSION_DENIED", "exeat: denied: %s [%s]" % (v["reason"], v["id"])] for v in refused] + ["then"])
    tap.equal(len(refused), 2)
    tap.contains(refused[0]["reason"], "test.policy:2")
    for v in refused:
        tap.equal(r.outcome_of(v)["status"], 200)
    tap.equal([s["method"] for s in server.seen], ["Unary"])


@tap.test
def what_else_exeat_says_is_a_status_of_grpc_too(t):
    """A hint in its message; a limit that is used up; a server that is not there."""
    r, server = run(t, '''
        report(failure(lambda: channel.unary_unary("/test.Other/x")(b"x")))
        report(method("unary_unary", "Unary")(b"one").decode())
        report(failure(lambda: method("unary_unary", "Unary")(b"two")))
        gone = grpc.secure_channel("gone.test:443", grpc.ssl_channel_credentials())
        report(failure(lambda: gone.unary_unary("/x")(b"x")))
    ''', policy="allow POST https://a.test/test.Echo/* limit 1/d\nallow POST https://gone.test/**\n")
    none, limit = r.verdicts(verdict="deny")
    tap.equal(r.reports[0][0], "PERMISSION_DENIED")
    tap.contains(r.reports[0][1], "exeat: denied: %s; to permit: allow POST https://a.test/" % none["reason"])
    tap.equal(r.reports[1], "one")
    tap.equal(r.reports[2][0], "RESOURCE_EXHAUSTED")
    tap.contains(r.reports[2][1], limit["reason"])
    tap.equal(r.reports[3][0], "UNAVAILABLE")
    tap.contains(r.reports[3][1], "exeat: no answer from the upstream: no address is known for gone.test")


if __name__ == "__main__":
    tap.main()
