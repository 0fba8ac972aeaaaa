"""Temporary folders, users and processes of the tests."""
import atexit
import os
import pwd
import shutil
import signal
import subprocess
import tempfile

# The user that "rootless" means when the tests are run by root. Not nobody: its id is also what a user
# namespace shows for every owner that it has no mapping of, which would hide mistakes.
PLAIN_USER = "games"

_base = None


def base():
    """One folder per test program, readable by everyone, removed at the end."""
    global _base
    if _base is None:
        _base = tempfile.mkdtemp(prefix="exeat-test.", dir=os.environ.get("EXEAT_TEST_TMP", "/tmp"))
        os.chmod(_base, 0o755)
        owner = os.getpid()
        atexit.register(lambda: os.getpid() == owner and shutil.rmtree(_base, ignore_errors=True))
    return _base


def folder(prefix="d.", user=None, mode=0o755):
    """A new folder, of the given user (see account())."""
    path = tempfile.mkdtemp(prefix=prefix, dir=base())
    os.chmod(path, mode)
    give(path, user)
    return path


def replace(path, link=None, text=None):
    """In the place of what is there: a link, a file, or nothing."""
    if os.path.lexists(path):
        os.unlink(path)
    if link:
        os.symlink(link, path)
    elif text is not None:
        write(path, text)


def write(path, content, mode=0o644, user=None):
    """A new file; returns its path."""
    with open(path, "wb") as f:
        f.write(content if isinstance(content, bytes) else content.encode())
    os.chmod(path, mode)
    give(path, user)
    return path


def account(user):
    """(uid, gid) that a command of this user runs with, or None to run as we are."""
    if user is None:
        user = PLAIN_USER if os.getuid() == 0 and _maps_users() else "root"
    if user == "root" or os.getuid() != 0:
        return None
    entry = pwd.getpwnam(user)
    return entry.pw_uid, entry.pw_gid


def _maps_users():
    """Whether other ids than ours exist here (they don't in a user namespace with one id)."""
    with open("/proc/self/uid_map", encoding="ascii") as f:
        return sum(int(line.split()[2]) for line in f) > 1


def give(path, user):
    ids = account(user) if user is not None else None
    if ids is not None:
        os.chown(path, *ids)


def is_root():
    return os.getuid() == 0


def popen(args, user="root", **kwargs):
    """subprocess.Popen as a user; groups are that user's main one alone."""
    ids = account(user)
    if ids is not None:
        kwargs.update(user=ids[0], group=ids[1], extra_groups=[])
    return subprocess.Popen(args, **kwargs)


def end(process, seconds=5):
    """Ends a process that we started, and waits for it."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            try:
                stream.close()
            except OSError:
                pass


def sh(*args, user="root", cwd=None, env=None, stdin=None, timeout=60, check=True):
    """Runs a command outside of any sandbox and returns its output as text."""
    ids = account(user)
    extra = {"user": ids[0], "group": ids[1], "extra_groups": []} if ids is not None else {}
    run = subprocess.run(args, cwd=cwd, env=env, input=stdin, capture_output=True, timeout=timeout,
                         check=False, **extra)
    if check and run.returncode != 0:
        raise AssertionError("%s: exit %d\n%s%s" % (" ".join(map(str, args)), run.returncode,
                                                   run.stdout.decode("utf-8", "replace"),
                                                   run.stderr.decode("utf-8", "replace")))
    return run.stdout.decode("utf-8", "replace")


def need(*programs):
    """Skips the running test if a program is missing."""
    import tap
    for program in programs:
        if shutil.which(program) is None:
            tap.skip("%s is not installed" % program)
