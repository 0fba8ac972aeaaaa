"""A small TAP runner.

    import tap

    @tap.test
    def a_denied_request_gets_403(t):
        server = t.use(RawServer(...))        # closed when the test ends, however it ends
        tap.equal(code, 403)

    tap.main()

A test's name is its docstring's first line, or the function's name in words. It passes when it
returns, is skipped when it calls tap.skip(reason), and fails on any exception. It has a time limit
(120 s unless @tap.test(timeout=...) says otherwise). Whatever a failing test noted with tap.note() is
printed with it. `python3 test.py WORD` runs only the tests that have WORD in their names.
"""
import atexit
import contextlib
import inspect
import os
import signal
import sys
import threading
import time
import traceback

_tests = []
_notes = []
_skip_all = []


class Skip(Exception):
    """Raised by skip()."""


class TimedOut(BaseException):
    """A test took longer than it may. Not an Exception, so that no helper swallows it."""


class Context(contextlib.ExitStack):
    """What a test is given: holds everything that it has started."""

    def use(self, thing):
        """Enters a context manager; it is left when the test ends."""
        return self.enter_context(thing)

    def after(self, function, *args, **kwargs):
        """Calls a function when the test ends."""
        self.callback(function, *args, **kwargs)


def test(function=None, *, timeout=120, name=None):
    """Registers a test; it may take one argument, a Context."""
    def register(f):
        words = name or (f.__doc__ or "").strip().split("\n")[0] or f.__name__.replace("_", " ").strip()
        _tests.append((words.replace("#", "\\#"), f, timeout))
        return f
    return register(function) if function is not None else register


def skip(reason):
    """Ends the running test; it counts as skipped, for that reason."""
    raise Skip(reason)


def skip_all(reason):
    """Called before main(): no test of this file is run, for that reason."""
    _skip_all.append(reason)


def note(*parts):
    """Is printed if the running test fails."""
    text = " ".join(p.decode("utf-8", "backslashreplace") if isinstance(p, bytes) else str(p) for p in parts)
    _notes.append(text)


def fail(message):
    raise AssertionError(message)


def ok(condition, message="is not so"):
    if not condition:
        raise AssertionError(message)


def equal(got, wanted, message=""):
    if got != wanted:
        raise AssertionError("%sgot %r, wanted %r" % (message + ": " if message else "", got, wanted))


def contains(text, part, message=""):
    if part not in text:
        raise AssertionError("%s%r is not in %r" % (message + ": " if message else "", part, text))


def lacks(text, part, message=""):
    if part in text:
        raise AssertionError("%s%r is in %r" % (message + ": " if message else "", part, text))


def eventually(condition, seconds=30.0, message="has not come about"):
    """Waits until the condition holds, and returns what it gave. The limit is what a busy machine may need; who passes waits no longer
    than the fact needs."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError("%s in %g s" % (message, seconds))
        time.sleep(0.02)


def _on_alarm(_signum, _frame):
    raise TimedOut()


def _on_term(_signum, _frame):
    raise SystemExit(143)


def _diagnostics(lines):
    for text in lines:
        for line in str(text).split("\n"):
            print("#   " + line[:2000])


def _run_one(number, name, function, timeout):
    """True unless the test failed."""
    _notes.clear()
    problem = reason = None
    began = time.monotonic()
    signal.alarm(timeout)
    try:
        with Context() as context:
            try:
                if inspect.signature(function).parameters:
                    function(context)
                else:
                    function()
            finally:
                signal.alarm(0)
                if sys.exc_info()[0] is not None:
                    problem = traceback.format_exc()
    except Skip as e:
        reason = str(e)
    except TimedOut:
        problem = "took longer than %d s\n%s" % (timeout, problem or "")
    except Exception:  # pylint: disable=broad-except
        problem = traceback.format_exc()
    finally:
        signal.alarm(0)
    took = time.monotonic() - began
    if reason is not None:
        print("ok %d - %s # SKIP %s" % (number, name, reason), flush=True)
        return True
    if problem is None:
        print("ok %d - %s" % (number, name), flush=True)
        return True
    print("not ok %d - %s" % (number, name))
    _diagnostics(["after %.2f s" % took, problem.rstrip()] + _notes)
    sys.stdout.flush()
    return False


def _hear_signals():
    """What a shell's background or nohup ignores for this process is ignored here alone: programs that it starts, of which exeat leaves alone
    what is ignored, have it as in the foreground."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


def main():
    """Runs the tests and ends the process."""
    _hear_signals()
    signal.signal(signal.SIGALRM, _on_alarm)
    signal.signal(signal.SIGTERM, _on_term)
    if _skip_all:
        print("1..0 # SKIP " + _skip_all[0])
        sys.exit(0)
    wanted = sys.argv[1:]
    chosen = [t for t in _tests if not wanted or any(w in t[0] for w in wanted)]
    print("1..%d" % len(chosen), flush=True)
    failed = 0
    for number, (name, function, timeout) in enumerate(chosen, 1):
        failed += not _run_one(number, name, function, timeout)
    sys.stdout.flush()
    # Threads of helpers that are still in a blocking call are no reason to wait; what was made goes all the same.
    if threading.active_count() > 1:
        atexit._run_exitfuncs()
        os._exit(1 if failed else 0)
    sys.exit(1 if failed else 0)
