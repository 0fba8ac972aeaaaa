"""C85: whatever Redis does, requests keep their pace, exeat ends in time, and what is missing is counted."""
import os
import threading
import time

import client
import exeat
import tap
import work
from pki import Pki
from redis import FakeRedis, RealRedis
from servers import RawServer, response

pki = Pki()
POLICY = "allow GET https://a.test/**\n"

# How long the slowest took, without what the whole machine stood still meanwhile: by that a clock's ticks are late, too.
PACE = '''
    late = 0
    def tick():
        global late
        while True:
            before = time.monotonic()
            time.sleep(0.02)
            late = max(late, time.monotonic() - before)
    threading.Thread(target=tick, daemon=True).start()
    c = tls("a.test")
    slowest = 0
    for i in range(%d):
        start = time.monotonic()
        status = c.get("/x").status
        slowest = max(slowest, time.monotonic() - start)
        if status != 200:
            report("status", status)
        time.sleep(%g)
    report("slowest", slowest - late)
'''


def pace(t, redis_url, count=100, pause=0.01, code=None, timeout=60, **options):
    """Requests at an even pace; asserts that none was slow; returns the result and how long the end took."""
    server = t.use(RawServer(response(200, "ok"), tls=pki.leaf("a.test")))
    marks = work.folder("marks.", mode=0o777)
    done = os.path.join(marks, "done")
    text = (code or PACE % (count, pause)) + "\n    open(%r, 'w').close()\n" % done
    r = client.run(POLICY, text, resolve=[server.resolve("a.test")], upstream_ca=pki.ca, redis=redis_url, timeout=timeout,
                   **options)
    end = time.time() - os.stat(done).st_mtime
    kinds = [x[0] for x in r.reports]
    tap.equal(kinds, ["slowest"])
    tap.ok(r.reports[0][1] < 5.0, "a request took %.3f s" % r.reports[0][1])
    tap.ok(end < 25.0, "exeat took %.2f s to end" % end)
    tap.equal(len(r.verdicts(verdict="allow")), count)
    return r


def gap(r):
    """How many records the file says that the stream lacks."""
    return sum(int(g["count"]) for g in r.events("gap", sink="redis"))


@tap.test
def a_good_one_has_it_all(t):
    redis = t.use(RealRedis())
    r = pace(t, redis.url(3) + "?maxlen=100000")
    with_id = [(e["event"], e["id"]) for e in r.events()]
    redis.command("SWAPDB", 0, 3)
    stream = redis.stream()
    tap.equal([(e["event"], e["id"]) for e in stream], with_id)
    for line, entry in zip(r.events(), stream):
        tap.equal({k: str(v) for k, v in line.items()}, entry)
    tap.equal(gap(r), 0)


@tap.test
def by_a_unix_socket_and_with_a_password(t):
    redis = t.use(RealRedis(password="SECRET-P"))
    r = pace(t, "unix:%s?password=SECRET-P" % redis.socket, 20)
    tap.equal(len(redis.stream()), len(r.events()))
    r = pace(t, redis.url(), 20)
    tap.equal(gap(r), 0)


def misbehaving(t, mode):
    redis = t.use(FakeRedis(mode))
    r = pace(t, redis.url(), 50)
    if mode not in ("reset",):
        tap.ok(redis.connections, "it was connected to")
    tap.equal(gap(r), 100)
    tap.equal(r.err.count("redis: "), 1, "trouble is said once: %s" % r.err)


for _mode in ("silent", "deaf", "slow", "reset", "-OOM command not allowed when used memory > 'maxmemory'.",
              "-READONLY You can't write against a read only replica.", "-NOAUTH Authentication required.",
              "-LOADING Redis is loading the dataset in memory", "-MOVED 3999 127.0.0.1:6381"):
    tap.test(lambda t, mode=_mode: misbehaving(t, mode), name="a Redis that answers: " + _mode.split(" ")[0].lower())


@tap.test
def nobody_there(t):
    r = pace(t, "redis://127.0.0.1:1", 50)
    tap.equal(gap(r), 100)


@tap.test
def stopped_in_the_middle_and_going_on(t):
    redis = t.use(RealRedis())
    threading.Timer(0.5, redis.pause).start()
    threading.Timer(3.0, redis.resume).start()
    r = pace(t, redis.url(), 300, 0.015)
    ids = [(e["event"], e["id"]) for e in redis.stream()]
    tap.equal(sorted(set(ids)), sorted((e["event"], e["id"]) for e in r.events()))
    tap.equal(gap(r), 0)
    tap.ok(len(ids) - len(set(ids)) <= 256, "more was sent again than was on its way")


@tap.test
def killed_and_started_again(t):
    redis = t.use(RealRedis())
    threading.Timer(0.5, redis.kill).start()
    threading.Timer(1.5, redis.restart).start()
    r = pace(t, redis.url(), 300, 0.015)
    tap.equal(gap(r), 0)
    late = [e["id"] for e in r.events()][-100:]
    tap.ok(set(late) <= {e["id"] for e in redis.stream()}, "what came after the restart is there")


@tap.test
def stopped_for_good(t):
    redis = t.use(RealRedis())
    threading.Timer(0.5, redis.pause).start()
    r = pace(t, redis.url(), 100, 0.015)
    redis.resume()

    def missing():
        there = {(e["event"], e["id"]) for e in redis.stream()}
        return len([e for e in r.events() if e["event"] != "gap" and (e["event"], e["id"]) not in there])
    # what it had been sent, it takes now
    tap.eventually(lambda: missing() <= gap(r), message="more is missing than the %d that were counted" % gap(r))
    tap.ok(missing() > 0, "nothing is missing")


@tap.test
def sigterm_ends_it_in_time(t):
    redis = t.use(FakeRedis("silent"))
    server = t.use(RawServer(response(200, "ok"), tls=pki.leaf("a.test")))
    with exeat.Sandbox(POLICY, "curl -s https://a.test/; sleep 60", resolve=server.resolve("a.test"), upstream_ca=pki.ca,
                       redis=redis.url()) as sandbox:
        tap.eventually(sandbox.decisions)
        sandbox.process.terminate()
        sandbox.wait(25)  # the command would sleep on


def resident(pid):
    """Kilobytes of every process below a supervisor."""
    sizes = {}
    parents = {}
    for name in os.listdir("/proc"):
        try:
            with open("/proc/%s/status" % int(name), encoding="utf-8") as f:
                fields = dict(line.split(":\t", 1) for line in f if ":\t" in line)
        except (ValueError, OSError):
            continue
        parents[int(name)] = int(fields["PPid"])
        sizes[int(name)] = (fields["Name"].strip(), int(fields.get("VmRSS", "0 kB").split()[0]))
    out = {}
    for process in sizes:
        at = process
        while at in parents and at != pid:
            at = parents[at]
        if at == pid and sizes[process][0] in ("exeat", "keeper", "scribe", "worker"):
            out[process] = sizes[process][1]
    return out


@tap.test
def memory_stays_what_it_is(t):
    # many more records than the queue holds, with a Redis that takes none
    if os.environ.get("ASAN_OPTIONS"):
        tap.skip("a sanitizer's own memory is not exeat's")
    redis = t.use(FakeRedis("silent"))
    server = t.use(RawServer(response(200, "ok"), tls=pki.leaf("a.test")))
    # denied requests are the quickest to make: two threads of pipelined ones
    code = client.program('''
    def flood(n):
        c = tls("a.test")
        one = b"DELETE /x HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n"
        for _ in range(n // 50):
            c.send(one * 50)
            for _ in range(50):
                assert c.answer().status == 403
    threads = [threading.Thread(target=flood, args=(25000,)) for _ in range(2)]
    for th in threads: th.start()
    for th in threads: th.join()
    print("DONE", flush=True)
    sys.stdin.readline()
    ''')
    path = work.write(os.path.join(work.folder("flood."), "flood.py"), code)
    with exeat.Sandbox(POLICY, ["python3", path], resolve=server.resolve("a.test"), upstream_ca=pki.ca, redis=redis.url(),
                       flags=["-q"], stdin=-1) as sandbox:
        line = sandbox.process.stdout.readline()
        tap.equal(line, b"DONE\n")
        sizes = resident(sandbox.pid)
        sandbox.process.stdin.write(b"\n")
        sandbox.process.stdin.flush()
        r = sandbox.wait(30)
    tap.note(sizes)
    tap.ok(sizes and max(sizes.values()) < 80 * 1024, "too large: %s" % sizes)
    tap.equal(len(r.verdicts()), 50000)
    tap.equal(gap(r), len([e for e in r.events() if e["event"] != "gap"]))


tap.main()
