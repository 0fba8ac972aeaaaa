#!/usr/bin/env python3
"""A process of exeat's that is told to end (SIGTERM …) while requests are under way: each verdict has its one outcome, in the file
and in Redis, and what was broken off says why."""
import os
import signal

import exeat
import roles
import tap
from pki import Pki
from raw import Closed
from redis import RealRedis
from servers import RawServer, response

pki = Pki()
POLICY = "allow * https://a.test/**\ntunnel https://t.test\n"

# Held in every state that there is, by either protocol; and one after the other that is not, from several clients.
COMMAND = """
for v in --http1.1 --http2; do
    curl -s $v -o /dev/null https://a.test/headless &
    curl -s $v -o /dev/null https://a.test/half &
    curl -s $v -o /dev/null -H Expect: -T big https://a.test/upload &
done
curl -s -k -o /dev/null https://t.test/half &
for i in 1 2 3; do
    setsid sh -c 'while :; do curl -s https://a.test/quick https://b.test/ >/dev/null; done' &
done
while :; do test -e end && exit 3; sleep 0.05; done
"""
HELD = 7
# Where the sandbox is ended as well, either may be first; a tunnel of which both sides have ended is over in an orderly way.
ANYHOW = ("exeat-ended", "client-gone", "request-truncated", None)


def origin(connection, request):
    if request.target.startswith("/quick"):
        connection.send(response(200, "ok"))
        return
    if request.target == "/half":
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf of it")
    if request.target == "/upload":
        connection.exactly(100000)
    tap.eventually(lambda: connection.recv() == b"" or connection.closed, 60)
    raise Closed()


def under_way(t, redis, act, **options):
    """What is left of a run in which `act(sandbox)` happened while all of COMMAND was under way."""
    server = t.use(RawServer(origin, tls=pki.leaf("a.test", "t.test")))
    pins = [server.resolve("a.test"), server.resolve("t.test")]
    command = "head -c 9000000 /dev/zero > big\n" + COMMAND
    with exeat.Sandbox(POLICY, command, redis=redis.url(), resolve=pins, upstream_ca=pki.ca, flags=["-q"], **options) as sandbox:
        def begun():
            held = [q for q in server.requests if not q.target.startswith("/quick")]
            quick = exeat.select(sandbox.decisions(), "outcome", status=200)
            return len(held) == HELD and len(quick) > 20
        tap.eventually(begun)
        act(sandbox)
        return sandbox.wait(30)


def complete(r, redis, codes):
    """Each verdict on a request once, with one outcome; the held ones with one of these codes. In the file as in the stream."""
    for records in (r.decisions, redis.stream()):
        # a client that is ended with the sandbox in the middle of its handshake has made no request
        requests = exeat.select(records, "verdict", code=lambda code: code != "handshake-ended")
        verdicts = sorted(d["id"] for d in requests)
        outcomes = sorted(d["id"] for d in exeat.select(records, "outcome"))
        tap.ok(len(verdicts) > 20, len(verdicts))
        tap.equal(len(set(verdicts)), len(verdicts))
        tap.equal(outcomes, verdicts)
        tap.equal(exeat.select(records, "gap"), [])
        broken = {d["id"]: d.get("code") for d in exeat.select(records, "outcome")}
        held = [d for d in exeat.select(records, "verdict") if d["url"].endswith(("/headless", "/half", "/upload", "t.test"))]
        tap.equal(len(held), HELD)
        for d in held:
            tap.ok(broken[d["id"]] in codes, "%s: %r" % (d, [o for o in records if o["id"] == d["id"]]))


def told(role, number=signal.SIGTERM):
    def act(sandbox):
        os.kill(roles.of(sandbox.pid)[role], number)
    return act


@tap.test
def a_worker(t):
    """It ends by the signal, once it has said what it broke off; the rest as if it had died."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        with RealRedis() as redis:
            r = under_way(t, redis, told("worker", number))
            tap.equal(r.code, 125)
            tap.contains(r.err, "exeat: the worker was ended by signal %d" % number)
            complete(r, redis, ("exeat-ended",))


@tap.test
def one_worker_of_three(t):
    with RealRedis() as redis:
        r = under_way(t, redis, told("worker"), workers=3)
        tap.equal(r.code, 125)
        complete(r, redis, ANYHOW)


@tap.test
def the_keeper(t):
    with RealRedis() as redis:
        r = under_way(t, redis, told("keeper"))
        tap.equal(r.code, 125)
        tap.contains(r.err, "exeat: the keeper was ended by signal 15")
        complete(r, redis, ANYHOW)


@tap.test
def the_scribe_outlives_it(t):
    """It is the last to go, by itself: the command runs on, and all that comes is written."""
    def act(sandbox):
        scribe = roles.of(sandbox.pid)["scribe"]
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            os.kill(scribe, number)
        before = len(sandbox.decisions())
        tap.eventually(lambda: len(sandbox.decisions()) > before + 10)
        tap.equal(roles.of(sandbox.pid)["scribe"], scribe)
        open(os.path.join(sandbox.home, "end"), "w", encoding="ascii").close()
    with RealRedis() as redis:
        r = under_way(t, redis, act)
        tap.equal(r.code, 3)
        complete(r, redis, ANYHOW)


@tap.test
def a_scribe_that_is_killed_is_not_said_to_be_slow(t):
    with RealRedis() as redis:
        r = under_way(t, redis, told("scribe", signal.SIGKILL))
        tap.equal(r.code, 125)
        tap.contains(r.err, "exeat: the scribe was ended by signal 9")
        tap.lacks(r.err, "keep up")


@tap.test
def the_supervisor(t):
    """The command is told; what runs on beside it ends with the sandbox."""
    with RealRedis() as redis:
        r = under_way(t, redis, lambda sandbox: os.kill(sandbox.pid, signal.SIGTERM))
        tap.equal(r.code, 128 + signal.SIGTERM)
        complete(r, redis, ANYHOW)


@tap.test
def all_at_once(t):
    """As a service manager tells all that runs in a unit."""
    def act(sandbox):
        for pid in [*roles.of(sandbox.pid).values(), sandbox.pid]:
            roles.kill(pid, signal.SIGTERM)
    with RealRedis() as redis:
        r = under_way(t, redis, act)
        tap.ok(r.code in (125, 128 + signal.SIGTERM), r.code)
        complete(r, redis, ANYHOW)


tap.main()
