"""More connections than descriptors: some are turned away, which the record says; those that are open are served; and
when there is room again, everything is as before."""
import json
import os
import subprocess
import time

import client
import exeat
import onehost
import roles
import tap
import work
from pki import Pki
from servers import RawServer, response

# Inside: told on its standard input what to do. No process of it opens more than it may itself.
CLIENT = '''
    resource_limit = 60
    def holder(n, inbox, outbox):
        """A process that opens n connections, says how many were answered, and holds them until it is told to end."""
        held, served = [], 0  # held: the handshake was done, and an answer came
        for _ in range(n):
            try:
                c = tls("a.test")
                c.timeout(5)
                served += c.get("/ok").status == 200
                held.append(c)
            except (OSError, ValueError, IndexError):
                pass
        os.write(outbox, b"%d " % served)
        os.read(inbox, 1)
        again = 0
        for c in held:
            try:
                again += c.get("/ok").status > 0
            except (OSError, ValueError, IndexError):
                pass
        os.write(outbox, b"%d " % again)
        os.read(inbox, 1)
        os._exit(0)

    def asked_at_once():
        """The statuses of one request on each of those that were only opened."""
        for c in silent:
            c.send("GET /ok HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n")
        return sorted(c.answer().status for c in silent)

    children, silent = [], []
    for line in sys.stdin:
        word, _, n = line.strip().partition(" ")
        if word == "open":
            for _ in range(int(n) // resource_limit):
                (a, b), (c, d) = os.pipe(), os.pipe()
                pid = os.fork()
                if pid == 0:
                    holder(resource_limit, a, d)
                children.append((pid, b, c))
        elif word == "close":
            for pid, inbox, _ in children:
                os.write(inbox, b"xx")  # it may not have been asked again
                os.waitpid(pid, 0)
            children, silent = [], []
        elif word == "connect":
            silent = [tls("a.test") for _ in range(int(n))]
            report(len(silent))
        elif word == "ask":
            report(asked_at_once())
        elif word == "again":
            for _, inbox, _ in children:
                os.write(inbox, b"x")
        if word in ("open", "again"):
            report(sum(int(os.read(outbox, 16)) for _, _, outbox in children))
        elif word == "fresh":
            report(tls("a.test").get("/ok").status)
        elif word == "close":
            report("closed")
'''


ONCE = response(200, "ok", [("Connection", "close")])  # no connection is kept for the next request


class Driven:
    """exeat, with that client inside, and what its worker has open."""

    def __init__(self, t, before=(), answer=response(200, "ok")):
        pki = Pki()
        server = t.use(RawServer(answer, tls=pki.leaf("a.test")))
        path = work.write(os.path.join(work.folder("client."), "client.py"), client.program(CLIENT))
        home = work.folder("home.", user=exeat.as_user(), mode=0o700)
        self.log = os.path.join(home, "decisions.jsonl")
        policy = work.write(os.path.join(home, "test.policy"), onehost.POLICY, 0o644)
        args = [*before, exeat.program(), "run", "-q", "--policy", policy, "--log", self.log, "--upstream-ca", pki.ca,
                "--resolve", server.resolve("a.test"), "--", "python3", path]
        self.process = work.popen(args, user=exeat.as_user(), cwd=home, env=exeat.environment(home),
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        t.after(work.end, self.process)
        tap.equal(self.do("fresh"), 200)
        self.worker = roles.of(self.process.pid)["worker"]
        self.calm = self.files()  # or some less: the request's own are being closed

    def do(self, order):
        self.process.stdin.write((order + "\n").encode())
        self.process.stdin.flush()
        line = self.process.stdout.readline().decode()
        tap.ok(line.startswith("REPORT "), "the client inside said %r" % line)
        return json.loads(line[7:])

    def files(self):
        return len(os.listdir("/proc/%d/fd" % self.worker))

    def limit(self, descriptors):
        """How many the worker may have from now on; returns how many it could at most."""
        run = ["prlimit", "--pid", str(self.worker), "--nofile"]
        most = work.sh(*run, "--raw", "--noheadings", "--output", "HARD", user=exeat.as_user()).strip()
        work.sh(*run[:-1], "--nofile=%s:" % descriptors, user=exeat.as_user())
        return most

    def shed(self, code):
        """How often the record says so; it may say so a moment after the client was told."""
        return len(exeat.select(exeat.read_log(self.log), "verdict", code=code, verdict="deny"))

    def failures(self):
        """What came in the way of requests that were permitted."""
        return [o["code"] for o in exeat.select(exeat.read_log(self.log), "outcome") if o.get("code") and o.get("status") != 403]

    def is_as_before(self):
        """With everything closed: a request is answered, by the same worker, which holds nothing more than at first."""
        tap.equal(self.do("close"), "closed")
        tap.equal(self.do("fresh"), 200)
        tap.eventually(lambda: self.files() <= self.calm, message="%d descriptors instead of %d" % (self.files(), self.calm))
        tap.equal(self.do("fresh"), 200)
        tap.equal(roles.of(self.process.pid)["worker"], self.worker)


@tap.test
def more_connections_than_the_limit_of_descriptors_has_room_for(t):
    d = Driven(t, ["bash", "-c", 'ulimit -n 128; exec "$0" "$@"'])
    began = time.monotonic()
    served = d.do("open 180")
    took = time.monotonic() - began
    tap.ok(20 <= served <= 64, "%d of 180 were served" % served)
    tap.ok(d.files() < 128, d.files())
    notes = tap.eventually(lambda: d.shed("connections"), message="no record says that connections were shed")
    tap.ok(1 <= notes <= took + 2, "%d records of shed connections in %.1f s" % (notes, took))
    tap.equal(d.do("again"), served, "those that are open are answered")
    tap.equal(d.failures(), [], "those that are open are served")
    d.is_as_before()
    tap.equal(d.shed("descriptors"), 0, "descriptors have run out all the same")


@tap.test
def descriptors_that_run_out_under_way(t):
    work.need("prlimit")
    d = Driven(t)
    most = d.limit(d.files() + 20)  # below what the worker counts on: whoever comes meets EMFILE
    served = d.do("open 60")
    tap.ok(1 <= served <= 25, "%d of 60 were served" % served)
    tap.eventually(lambda: d.shed("descriptors") >= 1, message="no record says that descriptors have run out")
    tap.ok(d.do("again") >= served, "those that are open are answered")
    tap.ok(all(f in ("upstream-internal", "upstream-unreachable") for f in d.failures()), d.failures())
    d.is_as_before()
    d.limit(most)
    tap.equal(d.do("open 60"), 60)
    d.is_as_before()


@tap.test
def descriptors_that_run_out_when_servers_are_to_be_reached(t):
    """The clients' connections are there, and stay; their requests are refused, by records, until there is room again."""
    work.need("prlimit")
    d = Driven(t, answer=ONCE)
    tap.equal(d.do("connect 20"), 20)
    tap.eventually(lambda: d.files() <= d.calm + 20, message="what the first request took stays open")
    most = d.limit(d.files())
    statuses = d.do("ask")
    tap.ok(set(statuses) <= {200, 502} and 1 <= statuses.count(502), statuses)
    wanted = ["upstream-internal"] * statuses.count(502)
    tap.eventually(lambda: d.failures() == wanted, message="the record has other reasons, or not all")
    tap.contains(" ".join(o.get("reason", "") for o in exeat.select(exeat.read_log(d.log), "outcome")), "Too many open files")
    d.limit(most)
    tap.equal(d.do("ask"), [200] * 20, "on the same connections")
    d.is_as_before()


@tap.test
def the_limit_of_the_whole_system_is_met(t):
    work.need("strace")
    d = Driven(t, answer=ONCE)
    said = os.path.join(work.folder("strace."), "said")
    fault = "inject=accept4:error=ENFILE:when=1..6", "inject=socket:error=ENFILE:when=1..5"
    args = ["strace", "-o", said, "-p", str(d.worker), "-e", "trace=accept4,socket", "-e", fault[0], "-e", fault[1]]
    strace = subprocess.Popen(args, stderr=subprocess.PIPE)
    t.after(work.end, strace)
    line = strace.stderr.readline()
    if b"attached" not in line:
        tap.skip("the worker can't be traced: %s" % line.decode().strip())
    served = d.do("open 60")
    work.end(strace)
    tap.ok(50 <= served <= 59, "%d of 60 were served" % served)
    tap.eventually(lambda: d.shed("descriptors") >= 1, message="no record says that descriptors have run out")
    tap.eventually(d.failures, message="no record says what came in the way of requests")
    tap.ok(len(d.failures()) <= 5 and set(d.failures()) == {"upstream-internal"}, d.failures())
    tap.ok(d.do("again") >= served, "those that are open are answered")
    d.is_as_before()
    tap.equal(d.do("open 60"), 60)
    d.is_as_before()


tap.main()
