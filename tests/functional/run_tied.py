#!/usr/bin/env python3
"""Each process is tied to the life of the one that started it twice: before it is another program, and by that program itself.

Either alone is enough once both are done, so that no death shows that one is missing (run_death.py and C84 are about what they are
for): the first is for what dies between, the second for who is started otherwise.
"""
import os
import resource
import shutil
import signal
import socket

import exeat
import tap
import work

BUILD = os.environ.get("TOP_BUILDDIR") or os.path.join(exeat.TOP, "build")
PARTS = tuple(part[1:] for part in exeat.PARTS[1:])


@tap.test
def before_it_is_another_program():
    for part in PARTS:
        program = exeat.copy()
        shutil.copy(os.path.join(BUILD, "tests/functional/tied"), "%s-%s" % (program, part))
        with exeat.Sandbox(None, [], program_args=[program, "run", "-q", "--", "echo", "ran"]) as sandbox:
            r = sandbox.wait(30)
        tap.note(r)
        tap.equal((r.code, r.out), (125, ""))
        tap.contains(r.err, "--role=%s is sent signal %d\n" % (part, signal.SIGKILL))


def start(part, socket_fd):
    """A process that starts the part as exeat does, but for that tie, and then waits: the pids of both. The kernel calls the part "part"
    until it gives itself a name."""
    path = os.path.join(work.folder("part."), "part")
    os.symlink("%s-%s" % (exeat.program(), part), path)
    told, tell = os.pipe()
    parent = os.fork()
    if parent == 0:
        try:
            child = os.fork()
            if child == 0:
                os.dup2(socket_fd, 3)
                os.set_inheritable(3, True)
                most = resource.getrlimit(resource.RLIMIT_CORE)[1]
                resource.setrlimit(resource.RLIMIT_CORE, (most, most))
                supervisor = [] if part == "init" else [str(os.getppid())]
                os.execv(path, ["exeat", "--role=" + part, *supervisor, exeat.build()])
            os.write(tell, b"%d" % child)
            signal.pause()
        finally:
            os._exit(1)
    os.close(tell)
    with os.fdopen(told, "rb", buffering=0) as f:
        return parent, int(f.read(20))


def look(pid):
    """Its name, its state, and whether it leaves no core; None: it is no more."""
    try:
        with open("/proc/%d/stat" % pid, encoding="ascii") as f:
            name, _, rest = f.read().partition("(")[2].rpartition(")")
        with open("/proc/%d/limits" % pid, encoding="ascii") as f:
            core = next(line for line in f if line.startswith("Max core file size")).split()[-2]
    except (FileNotFoundError, ProcessLookupError):
        return None
    return name, rest.split()[0], core == "0"


def waits(part, pid):
    """It has tied itself, and waits for a word: init takes its name right behind that; the others leave no core right before it."""
    name, state, no_core = look(pid)
    return state == "S" and (name == "exeat-init" if part == "init" else name == part and no_core)


@tap.test
def by_the_program_itself(t):
    """By the program itself, which hears nothing of that death by its socket"""
    for part in PARTS:
        theirs, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        t.use(theirs)
        t.use(ours)
        parent, pid = start(part, theirs.fileno())
        t.after(end, pid)
        tap.eventually(lambda part=part, pid=pid: waits(part, pid), message="the %s does not wait" % part)
        os.kill(parent, signal.SIGKILL)
        os.waitpid(parent, 0)
        tap.eventually(lambda pid=pid: look(pid) is None or look(pid)[1] == "Z", message="the %s has outlived it" % part)


def end(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


tap.main()
