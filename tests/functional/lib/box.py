"""A sandbox without a proxy behind it (tests/functional/sandbox.c): what netns/ does, alone.

    r = box.run("ip route", user="root")          # a shell command, or a list
    r = box.python(source, user=None)             # a Python program; None is the plain user

Every TCP connection that leaves is answered with "DST ADDRESS:PORT NAME redirected" by the test's supervisor.
"""
import os
import shutil
import subprocess
import textwrap

import pki
import tap
import work

_program = None
_pki = None
USERS = [None] + (["root"] if work.is_root() else [])


def program():
    """A copy where every user may run it."""
    global _program
    if _program is None:
        top = os.environ.get("TOP_BUILDDIR") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../build")
        built = os.environ.get("SANDBOX") or os.path.join(top, "tests/functional/sandbox")
        _program = os.path.join(work.base(), "sandbox")
        shutil.copy(built, _program)
        os.chmod(_program, 0o755)
    return _program


def ca():
    global _pki
    if _pki is None:
        _pki = pki.Pki("exeat box CA")
    return _pki.ca


class Box:
    """The sandbox, started; a context manager."""

    def __init__(self, command, user=None, cover=(), cwd=None, env=None, before=(), state=None, **popen):
        user = work.PLAIN_USER if user is None and work.account(None) is not None else user or "root"
        self.state = state or work.folder("state.", user=user, mode=0o700)
        shutil.copy(ca(), os.path.join(self.state, "root.pem"))
        work.give(os.path.join(self.state, "root.pem"), user)
        args = [*before, program(), self.state]
        for path in cover:
            args += ["--cover", path]
        args += ["--"] + (["sh", "-c", command] if isinstance(command, str) else list(command))
        popen.setdefault("stdout", subprocess.PIPE)
        popen.setdefault("stderr", subprocess.PIPE)
        popen.setdefault("stdin", subprocess.DEVNULL)
        full = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LANG": "C.UTF-8", "HOME": "/"}
        if os.environ.get("ASAN_OPTIONS"):
            full["ASAN_OPTIONS"] = os.environ["ASAN_OPTIONS"]
        full.update(env or {})
        self.args = args
        self.user = user
        self.process = work.popen(args, user=user, cwd=cwd or "/", env=full, **popen)

    def wait(self, timeout=30):
        try:
            out, err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            raise AssertionError("took longer than %g s: %r %r" % (timeout, out, err)) from None
        return Result(self.process.returncode, (out or b"").decode("utf-8", "replace"),
                      (err or b"").decode("utf-8", "replace"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        work.end(self.process)


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err
        tap.note("exit %d\n%s%s" % (code, out, err))

    def lines(self):
        """{label: what came of it}: lines of the form "label: text"."""
        return dict(line.split(": ", 1) for line in self.out.splitlines() if ": " in line)


def run(command, timeout=30, **options):
    with Box(command, **options) as b:
        return b.wait(timeout)


# Loaded before each program that runs inside.
PRELUDE = textwrap.dedent('''
    import ctypes, errno, os, signal, socket, struct, subprocess, sys, time
    libc = ctypes.CDLL(None, use_errno=True)
    def call(name, *args):
        """A function of libc; its result, or OSError."""
        r = getattr(libc, name)(*args)
        if r < 0:
            e = ctypes.get_errno()
            raise OSError(e, os.strerror(e))
        return r
    def attempt(label, f, *args):
        """Prints what came of it: "did RESULT in MS" or "failed ERRNO in MS"."""
        began = time.monotonic()
        try:
            what = "did %r" % (f(*args),)
        except OSError as e:
            what = "failed " + errno.errorcode.get(e.errno, type(e).__name__)
        except Exception as e:
            what = "failed " + type(e).__name__
        print("%s: %s in %d ms" % (label, what, (time.monotonic() - began) * 1000), flush=True)
    def shell(command):
        r = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
        if r.returncode:
            raise RuntimeError(r.stderr)
        return r.stdout
''')


def python(source, timeout=30, **options):
    return run(["python3", "-c", PRELUDE + textwrap.dedent(source)], timeout, **options)


def each_user(function):
    """Registers the test once for each kind of user: function(t, user)."""
    for user in USERS:
        def one(t, user=user):
            function(t, user)
        words = function.__name__.replace("_", " ").strip() + (", as root" if user == "root" else ", rootless")
        tap.test(one, name=words)
    return function
