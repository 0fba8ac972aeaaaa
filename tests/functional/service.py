#!/usr/bin/env python3
"""`exeat serve` and `exeat run --service`: many sandboxes with the same processes, and each knows nothing of the others."""
import os
import resource
import signal
import socket
import struct
import subprocess
import threading

import exeat
import leftovers
import roles
import tap
import term
import work
from pki import Pki
from raw import Closed
from servers import RawServer, response

pki = Pki()
VAULT = "credential one\n    for https://a.test\n    from env ONE_TOKEN\n    inject bearer\n" \
        "credential two\n    for https://a.test\n    from env TWO_TOKEN\n    inject bearer\n"
TOKENS = {"ONE_TOKEN": "SECRET-ONE", "TWO_TOKEN": "SECRET-TWO"}


def serving(t, answer=response(200, "ok"), **options):
    server = t.use(RawServer(answer, tls=pki.leaf("a.test", "b.test")))
    pins = [server.resolve("a.test"), server.resolve("b.test")]
    return t.use(exeat.Service(resolve=pins, upstream_ca=pki.ca, **options)), server


def without_outcome(service, name):
    """Requests of a sandbox of which it is not recorded how they ended. (A connection that was refused before there was one has none.)"""
    verdicts = {v["id"] for v in service.decisions(event="verdict", sandbox=name) if "method" in v}
    return verdicts - {o["id"] for o in service.decisions(event="outcome", sandbox=name)}


@tap.test
def each_has_its_own_policy_and_credentials(t):
    """At once, on two workers: what one may do, and is lent, is no matter of the other's; their records are there when they have ended."""
    service, server = serving(t, vault=VAULT, env=TOKENS, workers=2)
    sandboxes = [
        t.use(exeat.Sandbox("allow GET https://a.test/%s/** with %s\n" % (name, name),
                            "for i in 1 2 3 4; do for of in one two; do curl -sS -o /dev/null -w '%%{http_code} ' https://a.test/$of/$i; done; done;"
                            " env | grep -c SECRET; echo %s" % name,
                            service=service, name=name, env=TOKENS))
        for name in ("one", "two")]
    results = {name: sandbox.wait() for name, sandbox in zip(("one", "two"), sandboxes)}
    for name, r in results.items():
        tap.note(r)
        want = "200 403 " if name == "one" else "403 200 "
        tap.equal((r.code, r.out), (0, want * 4 + "0\n%s\n" % name))
        verdicts = r.verdicts(sandbox=name)
        tap.equal(sorted((v["verdict"], v["url"].split("/")[3]) for v in verdicts),
                  sorted([("allow", name)] * 4 + [("deny", "two" if name == "one" else "one")] * 4))
        for v in verdicts:
            tap.ok(r.outcome_of(v), v)
    tap.equal(sorted((q.target.split("/")[1], q.header("authorization")) for q in server.requests),
              [("one", "Bearer SECRET-ONE")] * 4 + [("two", "Bearer SECRET-TWO")] * 4)
    r = service.stop()
    tap.equal(r.code, 0)
    tap.contains(r.err, "exeat: one: denied GET https://a.test/two/1 ")
    tap.contains(r.err, "exeat: two: denied GET https://a.test/one/1 ")
    tap.ok(not os.path.exists(service.socket), "the socket is still there")


@tap.test
def what_a_rule_counts_is_one_sandbox_s(t):
    """Sandboxes with the same policy have one compiled copy of it, and each its own count."""
    service, _ = serving(t)
    for name in ("x", "y"):
        r = exeat.run("allow GET https://a.test/** limit 2/h\n", "for i in 1 2 3; do curl -sS -o /dev/null -w '%{http_code} ' https://a.test/; done",
                      service=service, name=name)
        tap.equal(r.out, "200 200 429 ")


@tap.test
def a_policy_outlives_the_sandbox_that_brought_it(t):
    """Of two with the same policy the first ends before the second asks."""
    service, _ = serving(t)
    policy = "allow GET https://a.test/**\n"
    waiting = t.use(exeat.Sandbox(policy, ": > began; until test -e go; do sleep 0.05; done; curl -sS https://a.test/", service=service))
    first = t.use(exeat.Sandbox(policy, "until test -e go; do sleep 0.05; done; curl -sS https://a.test/", service=service))
    roles.began(waiting)
    work.write(os.path.join(first.home, "go"), "")
    tap.equal(first.wait().out, "ok")
    work.write(os.path.join(waiting.home, "go"), "")
    tap.equal(waiting.wait().out, "ok")


# The server has answered and reads nothing yet: what it has not read lies in buffers, the last of it in exeat's.
UPLOAD = """
import socket, ssl
c = ssl.create_default_context().wrap_socket(socket.create_connection(("a.test", 443)), server_hostname="a.test")
size = %d
c.sendall(b"POST /ok HTTP/1.1\\r\\nHost: a.test\\r\\nContent-Length: %%d\\r\\n\\r\\n" %% size)
answer = b""
while not answer.endswith(b"early"):
    answer += c.recv(4096)
c.sendall(b"x" * size)
c.close()
"""
UPLOAD_SIZE = 6000000


@tap.test
def the_end_of_one_waits_for_what_it_has_sent(t):
    """A server that answered before it had read all gets the rest, though the command is gone, where it takes no more than a second for
    that. On a machine that is too busy it is tried again."""
    told, got = threading.Event(), []

    def reads_late(connection, request):
        connection.send(response(200, "early"))
        told.wait(30)
        pieces = []
        try:
            connection.read_body(request, lambda data: pieces.append(len(data)))
            got.append(sum(pieces))
        except Closed:
            got.append("%s after %d" % (connection.ended, sum(pieces)))
    service, _ = serving(t, reads_late)
    for i in range(8):
        told.clear()
        sandbox = t.use(exeat.Sandbox("allow POST https://a.test/**\n", ["python3", "-c", UPLOAD % UPLOAD_SIZE],
                                      service=service, name="ends%d" % i, env=leftovers.mark()))
        tap.eventually(lambda: service.decisions(event="verdict", sandbox="ends%d" % i))
        tap.eventually(lambda: not [line for line in leftovers.processes().values() if "UPLOAD" in line or line.startswith("python3 -c")])
        told.set()
        tap.note(sandbox.wait())
        tap.eventually(lambda: len(got) > i)
        if got[-1] == UPLOAD_SIZE:
            return
    tap.fail(got)


@tap.test
def a_client_that_is_killed_leaves_nothing(t):
    """Its sandbox ends with it, the workers forget it, and the others go on."""
    service, _ = serving(t)
    keeps = t.use(exeat.Sandbox("allow GET https://a.test/**\n", "curl -sS https://a.test/; until test -e go; do sleep 0.05; done; curl -sS https://a.test/",
                                service=service, name="keeps"))
    tap.eventually(lambda: service.decisions(event="outcome", sandbox="keeps"), message="the worker has nothing of the one that stays")
    worker = roles.of(service.pid)["worker"]

    def files():
        return len(os.listdir("/proc/%d/fd" % worker))
    before = files()
    host = leftovers.Host()
    for name in ("greedy%d" % i for i in range(5)):
        with exeat.Sandbox(None, roles.GREEDY, service=service, name=name, env=leftovers.mark()) as sandbox:
            tap.eventually(lambda: service.decisions(event="verdict", sandbox=name), message="it has tried nothing")
            tap.ok(files() > before, "the worker has nothing of it")
            roles.kill(sandbox.pid)
            sandbox.process.wait(10)
        host.check()
        tap.eventually(lambda: files() <= before, message="the worker has descriptors of a sandbox that is gone")
        tap.eventually(lambda: not without_outcome(service, name), message="no outcome")
    work.write(os.path.join(keeps.home, "go"), "")
    tap.equal(keeps.wait().out, "okok")


@tap.test
def whatever_of_the_service_dies_the_sandboxes_end():
    """With a line that says so, and status 125; nothing is left."""
    host = leftovers.Host()
    for role in ("keeper", "worker", "scribe", "service"):
        with exeat.Service() as service:
            sandboxes = [exeat.Sandbox(None, roles.GREEDY, service=service, env=leftovers.mark()) for _ in range(2)]
            try:
                for sandbox in sandboxes:
                    roles.began(sandbox)
                roles.kill(service.pid if role == "service" else roles.of(service.pid)[role])
                results = [sandbox.wait(30) for sandbox in sandboxes]
            finally:
                for sandbox in sandboxes:
                    work.end(sandbox.process)
            r = service.wait()
        for one in results:
            tap.note(one)
            tap.equal(one.code, 125)
            tap.contains(one.err, "exeat: the service that works with %s has ended\n" % service.state)
            tap.contains(one.err, "the sandbox was ended, since it has no way out without it")
        if role != "service":
            tap.equal(r.code, 125)
            tap.contains(r.err, "exeat: the %s was ended by signal 9" % role)
        roles.gone(host)
    host.check()


@tap.test
def a_service_that_is_told_to_end_ends_all():
    for number in (signal.SIGTERM, signal.SIGINT):
        with exeat.Service() as service:
            with exeat.Sandbox(None, roles.GREEDY, service=service, name="told") as sandbox:
                roles.began(sandbox)
                service.process.send_signal(number)
                r, told = sandbox.wait(30), service.wait()
            tap.equal((r.code, told.code), (125, 0))
            tap.contains(r.err, "has ended")
            tap.equal(without_outcome(service, "told"), set())
            tap.ok(not os.path.exists(service.socket))


@tap.test
def a_shell_has_it_as_a_job(t):
    """It is stopped from the terminal, goes on in the background, and where that may not write (stty tostop) is stopped for writing."""
    home = work.folder("home.", user=exeat.as_user(), mode=0o700)
    env = exeat.environment(home, {"PS1": "PS> ", "TERM": "xterm", "HISTFILE": "", "EXEAT_PROGRAM": exeat.program()})
    shell = t.use(term.Terminal(["bash", "--norc", "--noprofile", "--noediting", "-i"], user=exeat.as_user(), env=env, cwd=home))
    shell.until("PS> ")
    shell.send("$EXEAT_PROGRAM serve\n")
    shell.until("exeat: serving")
    shell.key("z")
    shell.until("Stopped")
    shell.send("bg; $EXEAT_PROGRAM run --service echo i''n\n")
    shell.until("\nin\r\n")
    shell.send("kill %1; wait %1; stty tostop; $EXEAT_PROGRAM serve & until jobs | grep Stop''ped; do sleep 0.1; done\n")
    shell.until("Stopped")
    shell.send("fg\n")
    shell.until("exeat: serving")
    shell.key("c")
    shell.until("PS> ")
    shell.send("echo status $?\n")
    shell.until("status 0")


@tap.test
def the_socket_of_one_that_was_killed_is_no_hindrance():
    with exeat.Service() as service:
        roles.kill(service.pid)
        service.process.wait()
        tap.ok(os.path.exists(service.socket))
        r = exeat.run(None, "true", service=service)
        tap.equal(r.code, 125)
        tap.contains(r.err, "no service works with %s: start one by 'exeat serve'" % service.state)
        again = work.popen([exeat.program(), "serve", "--state", service.state], user=exeat.as_user(), cwd=service.home,
                           env=exeat.environment(service.home), stderr=subprocess.PIPE)
        try:
            tap.contains(again.stderr.readline().decode(), "exeat: serving")
            tap.equal(exeat.run(None, "echo in", service=service).out, "in\n")
        finally:
            work.end(again)


@tap.test
def two_of_one_directory_are_one_too_many():
    with exeat.Service() as service:
        r = exeat.call("serve", "--state", service.state)
        tap.equal(r.code, 125)
        tap.contains(r.err, "another service works with %s already" % service.state)
        tap.equal(exeat.run(None, "echo in", service=service).out, "in\n")


# --- who may join ---------------------------------------------------------------------------------------------------------


def text(value):
    value = value.encode() if isinstance(value, str) else value
    return struct.pack("<I", len(value)) + value


def message(kind, *fields):
    return struct.pack("<BBH", 1, 0, kind) + b"".join(fields)


JOIN, SANDBOX, LEAVE, JOINED, REFUSED, LEFT = 0x300, 0x301, 0x302, 0x310, 0x311, 0x312


def join(build=None, name="raw", credentials=()):
    return message(JOIN, text(build or exeat.build()), text(name), struct.pack("<I", len(credentials)), *map(text, credentials))


def ask(path, sent, namespace="/proc/self/ns/user", files=(), last=REFUSED):
    """What a service answers, until it has said `last` or ended the connection: the types of its messages, and what is in them, as text."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as c:
        c.settimeout(30)
        c.connect(path)
        for one in sent:
            fds = [os.open(namespace, os.O_RDONLY)] if one[2:4] == struct.pack("<H", JOIN) else [os.open(f, os.O_RDONLY) for f in files]
            socket.send_fds(c, [one], fds)
            for fd in fds:
                os.close(fd)
        got = []
        while not got or got[-1][0] != last:
            try:
                data = c.recv(65536)
            except ConnectionError:
                break
            if not data:
                break
            got.append((struct.unpack("<H", data[2:4])[0], data[4:].decode("utf-8", "replace")))
        return got


@tap.test
def who_may_not_join_is_told_why():
    with exeat.Service(user="root", vault=VAULT, env=TOKENS) as service:
        tap.equal([kind for kind, _ in ask(service.socket, [join()], last=JOINED)], [JOINED])
        (kind, words), = ask(service.socket, [join(build="0.0 (build 0123456789abcdef)")])
        tap.equal(kind, REFUSED)
        tap.contains(words, "the service is another build (%s)" % exeat.build())
        (kind, words), = ask(service.socket, [join(credentials=["one", "three"])])
        tap.equal(kind, REFUSED)
        tap.contains(words, "lends credential 'three', which is not in the service's %s/credentials" % service.home)
        # a descriptor that is a namespace, but not the right one; and one that is none
        for other in ("/proc/self/ns/net", "/dev/null"):
            (kind, words), = ask(service.socket, [join()], namespace=other)
            tap.equal(kind, REFUSED)
            tap.contains(words, "takes nobody from another user namespace")
        r = exeat.run("allow GET https://a.test/ with three\n", "true", service=service, user="root")
        tap.equal(r.code, 125)
        tap.contains(r.err, "lends credential 'three', which is not in the service's")
    with exeat.Service(user="root") as service:  # without a vault
        r = exeat.run("allow GET https://a.test/ with three\n", "curl -sS https://a.test/", service=service, user="root")
        tap.equal(r.code, 0)
        tap.contains(r.err, "the service has no --vault")


@tap.test
def a_vault_that_is_too_large_for_a_message_starts_nothing():
    folder = os.path.join(work.folder("vault.", user=exeat.as_user()), "x" * 200)
    os.mkdir(folder)
    names = ["n%d" % i for i in range(400)]
    for name in names:
        work.write(os.path.join(folder, name), "SECRET-OF-" + name, mode=0o600, user=exeat.as_user())
    vault = "".join("credential %s\n    for https://a.test\n    from file %s/%s\n    inject bearer\n" % (name, folder, name) for name in names)
    try:
        exeat.Service(vault=vault)
    except AssertionError as e:
        tap.contains(str(e), "more files and variables than a service can tell of")
    else:
        tap.fail("it serves")


@tap.test
def a_vault_of_many_is_no_hindrance():
    names = ["n%d" % i for i in range(2000)]
    vault = "".join("credential %s\n    for https://a.test\n    from env ONE_TOKEN\n    inject bearer\n" % name for name in names)
    with exeat.Service(vault=vault, env=TOKENS) as service:
        tap.equal(exeat.run("allow GET https://a.test/ with n1999\n", "echo in", service=service).out, "in\n")


@tap.test
def another_user_s_is_not_joined():
    if not work.is_root() or exeat.as_user() == "root":
        tap.skip("there is one user here alone")
    with exeat.Service() as service:
        r = exeat.run(None, "true", service=service, user="root")
        tap.equal(r.code, 125)
        tap.contains(r.err, "%s is another user's" % service.socket)
        (kind, words), = ask(service.socket, [join()])
        tap.equal(kind, REFUSED)
        tap.contains(words, "the service is another user's")
        tap.contains(service.err(), "another user has tried to join")
    with exeat.Service(user="root") as service:
        r = exeat.run(None, "true", service=service)
        tap.equal(r.code, 125)


# A socket in a folder where others may write, which says of each connection what it has read of it.
LISTENS = """
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(sys.argv[1])
s.listen()
print("listens", flush=True)
print(s.accept()[0].recv(65536), flush=True)
"""


@tap.test
def another_user_s_is_told_nothing():
    if not work.is_root() or exeat.as_user() == "root":
        tap.skip("there is one user here alone")
    folder = work.folder("anyone.", mode=0o777)
    other = work.popen(["python3", "-c", LISTENS, os.path.join(folder, "service.sock")], user=exeat.as_user(),
                       env=exeat.environment("/"), cwd="/", stdout=subprocess.PIPE)
    try:
        tap.equal(other.stdout.readline(), b"listens\n")
        r = exeat.call("run", "--service", "--state", folder, "true", user="root")
        tap.equal(r.code, 125)
        tap.contains(r.err, "is another user's, which would see all that the sandbox sends")
        tap.equal(other.stdout.readline(), b"b''\n")
    finally:
        work.end(other)


@tap.test
def from_within_a_sandbox_nobody_joins():
    """Neither where the socket is covered, nor where it is not and the namespace tells."""
    with exeat.Service() as service:
        inside = "exec python3 -c \"import socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect('%s')\"" % service.socket
        for options in ({"service": service}, {}):
            r = exeat.run(None, inside, **options)
            tap.ok(r.code == 1, r)
            tap.ok("FileNotFoundError" in r.err or "ConnectionRefusedError" in r.err or "PermissionError" in r.err, r.err)
        home = work.folder("home.", user=exeat.as_user(), mode=0o700)
        process = work.popen(["unshare", "--user", "--map-root-user", exeat.program(), "run", "--service", "--state", service.state, "true"],
                             user=exeat.as_user(), cwd=home, env=exeat.environment(home), stderr=subprocess.PIPE)
        _, err = process.communicate(timeout=30)
        tap.equal(process.returncode, 125)
        tap.contains(err.decode(), "the service takes nobody from another user namespace")
        tap.equal(exeat.run(None, "echo in", service=service).out, "in\n")


@tap.test
def what_is_malformed_ends_one_and_not_the_service():
    with exeat.Service(user="root") as service:
        good = join()
        wires = [
            [b"\1"], [message(0x999)], [message(LEAVE)], [message(SANDBOX)], [message(JOIN)], [good[:-1]], [good + b"x"],
            [join(name="")], [join(name="a b")], [join(name="x" * 65)], [good, good], [good, message(LEAVE, b"x")],
            [good, message(SANDBOX)], [good, message(SANDBOX, struct.pack("<I", 7))], [good, message(SANDBOX, struct.pack("<I", 2 ** 32 - 1))],
            [join(credentials=[""])], [join(credentials=["a\0b"])], [join(credentials=["x" * 5000])],
            [message(JOIN, text(exeat.build()), text("raw"), struct.pack("<I", 513))],
            [message(JOIN, text(exeat.build()), text("raw"), struct.pack("<I", 2 ** 32 - 1))],
        ]
        for wire in wires:
            answers = ask(service.socket, wire)
            tap.ok(all(kind == JOINED for kind, _ in answers), (wire, answers))
        # what a worker can't take: no policy, no tables, no listeners
        answers = ask(service.socket, [good, message(SANDBOX, struct.pack("<I", 1), b"\0")], files=["/dev/null"] * 6, last=LEFT)
        tap.equal([kind for kind, _ in answers], [JOINED, REFUSED, LEFT])
        words = answers[1][1]
        tap.contains(words, "the sandbox gets no way out: policy: ")
        tap.equal(exeat.run(None, "echo in", service=service, user="root").out, "in\n")
        tap.equal(service.process.poll(), None)


@tap.test
def descriptors_that_run_out_are_one_sandbox_s_trouble():
    """Who finds none left is told so, and those who are there stay; when they have gone there is room again."""
    with exeat.Service(few_files=120) as service:
        first = exeat.Sandbox(None, ": > began; until test -e go; do sleep 0.05; done; curl -s -o /dev/null -w '%{http_code}' http://x.test/", service=service)
        others = [exeat.Sandbox(None, ": > began; until test -e go; do sleep 0.05; done", service=service) for _ in range(25)]
        try:
            roles.began(first)
            tap.eventually(lambda: all(o.process.poll() is not None or os.path.exists(os.path.join(o.home, "began")) for o in others))
            tap.eventually(lambda: any(o.process.poll() is not None for o in others))
            for sandbox in others + [first]:
                work.write(os.path.join(sandbox.home, "go"), "")
            ended = [o.wait() for o in others]
            turned_away = [r for r in ended if r.code]
            tap.ok(0 < len(turned_away) < len(others), [r.code for r in ended])
            for r in turned_away:
                tap.equal(r.code, 125)
                tap.contains(r.err, "descriptor")
                tap.contains(r.err, "ulimit -n")
            tap.equal(first.wait().out, "403")
        finally:
            for sandbox in others + [first]:
                work.end(sandbox.process)
        tap.equal(exeat.run(None, "echo in", service=service).out, "in\n")
        tap.equal(service.stop().code, 0)


@tap.test
def they_begin_while_a_worker_takes_none():
    """However many: what is on its way to it is more than their own shells permit each of them to have open."""
    with exeat.Service() as service:
        worker = roles.of(service.pid)["worker"]
        os.kill(worker, signal.SIGSTOP)
        sandboxes = []
        try:
            for _ in range(12):
                sandboxes.append(exeat.Sandbox(
                    None, ": > began; until test -e go; do sleep 0.05; done; ulimit -n; curl -s -o /dev/null -w '%{http_code}' http://x.test/", service=service,
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))))
                roles.began(sandboxes[-1])
            os.kill(worker, signal.SIGCONT)
            for sandbox in sandboxes:
                work.write(os.path.join(sandbox.home, "go"), "")
            tap.equal([sandbox.wait().out for sandbox in sandboxes], ["64\n403"] * 12)
        finally:
            os.kill(worker, signal.SIGCONT)
            for sandbox in sandboxes:
                work.end(sandbox.process)


@tap.test
def what_is_on_its_way_to_a_worker_has_a_limit(t):
    """The kernel's, which holds for all of a user's descriptors; what it does not take waits as long as there are any, and comes."""
    if exeat.as_user() == "root":
        tap.skip("root has no such limit")
    service = t.use(exeat.Service(few_files=120))
    worker = roles.of(service.pid)["worker"]
    os.kill(worker, signal.SIGSTOP)
    try:
        sandboxes = [t.use(exeat.Sandbox(None, "until test -e go; do sleep 0.05; done; curl -s -o /dev/null -w '%{http_code}' http://x.test/", service=service))
                     for _ in range(30)]
        tap.eventually(lambda: any(s.process.poll() is not None for s in sandboxes))
    finally:
        os.kill(worker, signal.SIGCONT)
    for sandbox in sandboxes:
        work.write(os.path.join(sandbox.home, "go"), "")
    results = [s.wait() for s in sandboxes]
    turned_away = [r for r in results if r.code]
    tap.ok(0 < len(turned_away) < len(results), [r.code for r in results])
    for r in turned_away:
        tap.equal(r.code, 125)
        tap.contains(r.err, "no descriptor")
        tap.contains(r.err, "(ulimit -n)")
    tap.equal({r.out for r in results if not r.code}, {"403"})


@tap.test
def one_that_holds_all_it_can_leaves_room(t):
    """Connections of one sandbox, as many as it gets, are not all that there may be: another one begins, and is served."""
    service, _ = serving(t, few_files=200)
    holds = t.use(exeat.Sandbox(None, ["python3", "-c", HOLDS], service=service))
    tap.eventually(lambda: service.decisions(code="connections"))
    r = exeat.run("allow GET https://a.test/**\n", "curl -sS https://a.test/", service=service)
    tap.equal((r.code, r.out), (0, "ok"))
    tap.equal(holds.process.poll(), None)


HOLDS = """
import socket, time
held = []
while True:
    try:
        c = socket.create_connection(("x.test", 80), timeout=5)
        c.sendall(b"GET / HTTP/1.1\\r\\nHost: x.test\\r\\n")
        held.append(c)
    except OSError:
        time.sleep(0.05)
"""


@tap.test
def many_come_and_go_at_once(t):
    """Four at a time, on two workers; each gets what is its own, and nothing of them is left."""
    service, _ = serving(t, workers=2)
    wrong = []

    def come_and_go(who):
        for i in range(6):
            name = "c%d-%d" % (who, i)
            with exeat.Sandbox("allow GET https://a.test/%s/**\n" % name,
                               "for of in %s other; do curl -sS -o /dev/null -w '%%{http_code} ' https://a.test/$of/x; done" % name,
                               service=service, name=name) as sandbox:
                r = sandbox.wait()
            if (r.code, r.out, len(r.verdicts(sandbox=name)), len(r.outcomes(sandbox=name))) != (0, "200 403 ", 2, 2):
                wrong.append(r)
    threads = [threading.Thread(target=come_and_go, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tap.equal([str(r) for r in wrong], [])


@tap.test
def options_of_the_service_are_not_a_sandbox_s():
    for option in (["--vault", "x"], ["--log", "x"], ["--log-query"], ["--redis", "redis://127.0.0.1"], ["--upstream-ca", "x"],
                   ["--resolve", "a.test:443:127.0.0.1"], ["--time-limit", "head=1s"], ["--workers", "2"], ["--push-memory", "1"], ["-q"], ["-v"]):
        r = exeat.call("run", "--service", *option, "true")
        tap.equal(r.code, 125)
        tap.contains(r.err, "is for the service: give it to 'exeat serve'")
    for option in (["--policy", "x"], ["--set", "a=b"], ["--name", "x"], ["--service"]):
        r = exeat.call("serve", *option)
        tap.equal(r.code, 125)
        tap.contains(r.err, "unknown option %s" % option[0])
    r = exeat.call("serve", "true")
    tap.equal(r.code, 125)
    tap.contains(r.err, "run by 'exeat run --service'")
    r = exeat.call("serve", "--state", os.path.join(work.folder("long.", user=exeat.as_user()), "x" * 100))
    tap.equal(r.code, 125)
    tap.contains(r.err, "too long for a socket")


tap.main()
