"""Runs the built program.

    r = exeat.run("allow GET https://a.test/ok\\n", ["curl", "-s", "https://a.test/ok"],
                  resolve=[server.resolve("a.test")], upstream_ca=[pki.ca])
    r.code, r.out, r.err        # exit status, text of stdout and stderr
    r.decisions                 # every record of the log, in order
    r.verdict(url="https://a.test/ok")["rule"]
    with exeat.Service(resolve=..., upstream_ca=...) as service:      # `exeat serve`
        r = exeat.run(policy, command, service=service)               # `exeat run --service`

By default the program runs as an unprivileged user, even if the tests are run by root (user="root" runs
it as root), with a home folder of its own and an environment that has nothing of ours in it.
"""
import datetime
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time

import work

TOP = os.environ.get("TOP_SRCDIR") or os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
PARTS = ("", "-init", "-keeper", "-worker", "-scribe")  # the programs that belong together, by what stands behind "exeat"
_program = None


def program():
    """The program's path, where every user can run it."""
    global _program
    if _program is None:
        built = os.environ.get("EXEAT") or os.path.join(TOP, "build", "exeat")
        if not os.access(built, os.X_OK):
            raise AssertionError("no program at %s: make, or set EXEAT" % built)
        _program = os.path.join(work.base(), "exeat")
        for part in PARTS:
            shutil.copy(built + part, _program + part)
            os.chmod(_program + part, 0o755)
    return _program


def copy(mode=0o755):
    """A folder with all programs, which a test may change; the path of exeat in it."""
    path = os.path.join(work.folder("programs.", mode=mode), "exeat")
    for part in PARTS:
        shutil.copy2(program() + part, path + part)
    return path


def build():
    """The version and the build, as the programs tell each other."""
    version = call("--version").out.split()[1]
    with open(program(), "rb") as f:
        return re.search(re.escape(version) + r" \(build [0-9a-f]{16}\)", f.read().decode("latin-1")).group()


class Result:
    """What a run has left."""

    def __init__(self, code, out, err, log, home, seconds, cut=0):
        self.code = code
        self.raw_out = out
        self.raw_err = err
        self.out = out.decode("utf-8", "replace")
        self.err = err.decode("utf-8", "replace")
        self.decisions = read_log(log, cut)
        self.home = home
        self.log = log
        self.seconds = seconds

    def events(self, event=None, **fields):
        """The records of that event whose fields have these values (a callable is asked)."""
        return select(self.decisions, event, **fields)

    def verdicts(self, **fields):
        return self.events("verdict", **fields)

    def outcomes(self, **fields):
        return self.events("outcome", **fields)

    def verdict(self, **fields):
        """The one verdict with these fields; anything but one is a failure."""
        found = self.verdicts(**fields)
        if len(found) != 1:
            raise AssertionError("%d verdicts with %r in %r" % (len(found), fields, self.decisions))
        return found[0]

    def outcome_of(self, record):
        """The outcome with the id of a verdict, or None."""
        found = self.events("outcome", id=record["id"])
        return found[0] if found else None

    def __str__(self):
        return "exit %d in %.2f s\n--- stdout\n%s\n--- stderr\n%s\n--- decisions\n%s" % (
            self.code, self.seconds, self.out[-4000:], self.err[-8000:],
            "\n".join(json.dumps(d) for d in self.decisions[-40:]))


def select(records, event=None, **fields):
    def fits(record):
        if event is not None and record.get("event") != event:
            return False
        return all((want(record.get(key)) if callable(want) else record.get(key) == want)
                   for key, want in fields.items())
    return [r for r in records if fits(r)]


def when(record):
    """The time that a record bears, in seconds since the epoch."""
    return datetime.datetime.fromisoformat(record["time"].replace("Z", "+00:00")).timestamp()


def read_log(path, cut=0):
    """The complete lines of a log of decisions. Up to `cut` of them may be cut off: who wrote them was killed."""
    if not os.path.exists(path):
        return []
    with open(path, "rb") as f:
        lines = f.read().split(b"\n")
    found = []
    for line in lines[:-1]:
        try:
            found.append(json.loads(line))
        except ValueError:
            cut -= 1
            if cut < 0:
                raise
    return found


def environment(home, extra=None):
    env = {
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
        "HOME": home, "LANG": "C.UTF-8", "XDG_STATE_HOME": os.path.join(home, "state"),
        "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "T", "GIT_AUTHOR_EMAIL": "t@example.com",
        "GIT_COMMITTER_NAME": "T", "GIT_COMMITTER_EMAIL": "t@example.com",
    }
    if os.environ.get("ASAN_OPTIONS"):
        env["ASAN_OPTIONS"] = os.environ["ASAN_OPTIONS"]
    env.update(extra or {})
    return {k: v for k, v in env.items() if v is not None}


def _file(home, name, content, user, mode=0o644):
    """A file's path as it is, or that of a new file with this content."""
    if "\n" not in content and os.path.isabs(content):
        return content
    return work.write(os.path.join(home, name), content, mode, _user(user))


def _serving(home, user, vault, redis, state, workers, log, upstream_ca, resolve):
    """The options of what serves a sandbox."""
    args = []
    if vault is not None:
        args += ["--vault", _file(home, "credentials", vault, user, 0o600)]
    for option, value in (("--redis", redis), ("--state", state), ("--workers", workers), ("--log", log)):
        if value is not None:
            args += [option, str(value)]
    for path in [upstream_ca] if isinstance(upstream_ca, str) else upstream_ca:
        args += ["--upstream-ca", path]
    for entry in [resolve] if isinstance(resolve, str) else resolve:
        args += ["--resolve", entry]
    return args


class Service:
    """`exeat serve`, which is ready when this is made. Use as a context manager."""

    def __init__(self, *, vault=None, redis=None, workers=None, upstream_ca=(), resolve=(), flags=(), user=None, env=None,
                 few_files=None):
        self.home = work.folder("home.", user=_user(user), mode=0o700)
        self.state = os.path.join(self.home, "state")
        self.log = os.path.join(self.home, "decisions.jsonl")
        self.socket = os.path.join(self.state, "service.sock")
        self.errors = os.path.join(self.home, "errors")
        args = [program(), "serve"] + _serving(self.home, user, vault, redis, self.state, workers, self.log, upstream_ca, resolve)
        self.began = time.monotonic()
        with open(self.errors, "wb") as errors:
            self.process = work.popen(args + list(flags), user=_user(user), cwd=self.home, env=environment(self.home, env),
                                      stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
                                      preexec_fn=few_files and (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (few_files, few_files))))
        while "exeat: serving" not in self.err():  # the socket is there a moment before it takes anybody
            if self.process.poll() is not None or time.monotonic() > self.began + 60:
                work.end(self.process)
                raise AssertionError("no service: %s" % self.err())
            time.sleep(0.01)

    @property
    def pid(self):
        return self.process.pid

    def err(self):
        with open(self.errors, encoding="utf-8", errors="replace") as f:
            return f.read()

    def decisions(self, **fields):
        return select(read_log(self.log), **fields)

    def wait(self, timeout=30):
        """Its end, which somebody has brought about."""
        self.process.wait(timeout)
        for word in ("Sanitizer", "runtime error"):
            if word in self.err():
                raise AssertionError(self.err())
        return Result(self.process.returncode, b"", self.err().encode(), self.log, self.home, time.monotonic() - self.began)

    def stop(self):
        self.process.terminate()
        return self.wait()

    def __enter__(self):
        return self

    def __exit__(self, failed, *_):
        work.end(self.process)
        if failed:
            self._tell()

    def _tell(self):
        """With a test that failed: what there is of it."""
        import tap
        tap.note("$ exeat serve\n" + self.err())
        tap.note("\n".join(json.dumps(d) for d in read_log(self.log)[-20:]))


class Sandbox:
    """`exeat run`, started. Use as a context manager, or through run()."""

    def __init__(self, policy, command, *, vault=None, sets=None, name=None, log=None, redis=None,
                 upstream_ca=(), resolve=(), state=None, workers=None, flags=(), user=None, env=None,
                 home=None, cwd=None, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                 stderr=subprocess.PIPE, program_args=None, service=None, **popen):
        self.home = home or work.folder("home.", user=_user(user), mode=0o700)
        self.log = service.log if service else log or os.path.join(self.home, "decisions.jsonl")
        if isinstance(command, str):
            command = ["sh", "-c", command]
        args = [program(), "run"]
        for path in self._policies(policy, user):
            args += ["--policy", path]
        for key, value in (sets or {}).items():
            args += ["--set", "%s=%s" % (key, value)]
        if name is not None:
            args += ["--name", name]
        if service:
            args += ["--service", "--state", service.state]
        else:
            args += _serving(self.home, user, vault, redis, state, workers, self.log, upstream_ca, resolve)
        args += list(flags) + ["--"] + list(command)
        self.args = program_args or args
        self.cut = 0  # for read_log
        self.began = time.monotonic()
        self.process = work.popen(self.args, user=_user(user), cwd=cwd or self.home, env=environment(self.home, env),
                                  stdin=stdin, stdout=stdout, stderr=stderr, **popen)

    def _policies(self, policy, user):
        if policy is None:
            return []
        if isinstance(policy, str):
            policy = [policy]
        return [_file(self.home, "test%d.policy" % i if i else "test.policy", p, user) for i, p in enumerate(policy)]

    @property
    def pid(self):
        return self.process.pid

    def decisions(self):
        return read_log(self.log)

    def wait(self, timeout=60, stdin=None):
        """Waits for the end; a run that takes longer is killed, and the test fails."""
        try:
            out, err = self.process.communicate(stdin, timeout=timeout)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGKILL)
            out, err = self.process.communicate()
            r = Result(-9, out or b"", err or b"", self.log, self.home, time.monotonic() - self.began)
            raise AssertionError("exeat run took longer than %g s: %s" % (timeout, r)) from None
        return Result(self.process.returncode, out or b"", err or b"", self.log, self.home,
                      time.monotonic() - self.began, self.cut)

    def __enter__(self):
        return self

    def __exit__(self, failed, *_):
        work.end(self.process)
        if failed:
            self._tell()

    def _tell(self):
        """With a test that failed: what there is of it."""
        import tap
        try:
            out, err = self.process.communicate(timeout=1)
        except (subprocess.TimeoutExpired, ValueError):
            return
        tap.note("$ " + " ".join(self.args[1:]))
        tap.note(Result(self.process.returncode, out or b"", err or b"", self.log, self.home, time.monotonic() - self.began, self.cut))


def _user(user):
    """A user's name as work.account() has it: "root" unless root runs the tests."""
    if user is None:
        return work.PLAIN_USER if work.account(None) is not None else "root"
    return user


def run(policy, command, *, timeout=60, stdin=None, **options):
    """Runs a command under a policy (its text, or the path of a file, or a list of these, or None)."""
    import tap
    source = subprocess.PIPE if stdin is not None else subprocess.DEVNULL
    with Sandbox(policy, command, stdin=source, **options) as sandbox:
        result = sandbox.wait(timeout, stdin.encode() if isinstance(stdin, str) else stdin)
    tap.note("$ " + " ".join(sandbox.args[1:]))
    tap.note(result)
    return result


def call(*args, user=None, env=None, timeout=60, stdin=None, home=None):
    """Any other command of the program: exeat.call("--version")."""
    import tap
    home = home or work.folder("home.", user=_user(user), mode=0o700)
    process = work.popen([program(), *args], user=_user(user), cwd=home, env=environment(home, env),
                         stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    began = time.monotonic()
    try:
        out, err = process.communicate(stdin.encode() if isinstance(stdin, str) else stdin, timeout=timeout)
    finally:
        work.end(process)
    result = Result(process.returncode, out, err, os.path.join(home, "decisions.jsonl"), home,
                    time.monotonic() - began)
    tap.note("$ exeat " + " ".join(args))
    tap.note(result)
    return result


def as_user(user=None):
    """Name of the user that run(user=user) runs as."""
    return _user(user)


def user_namespaces():
    """None if the host lets the tests' user make namespaces, else the reason why not."""
    process = work.popen(["unshare", "--user", "--map-root-user", "--net", "true"], user=_user(None),
                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd="/")
    _, err = process.communicate(timeout=10)
    return None if process.returncode == 0 else err.decode("utf-8", "replace").strip()
