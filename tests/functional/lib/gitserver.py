"""A git server over HTTP(S): `git http-backend` behind the listener of raw.py.

    git = t.use(GitServer(tls=pki.leaf("g.test"), users={"x-access-token": "SECRET-A"}))
    git.create("acme/app.git")                  # bare, with one commit on main
    git.refs("acme/app.git")                    # {"refs/heads/main": "<id>"}
    git.hits                                    # what was asked: method, path, query, user, password, status;
                                                # request.start is the beginning of the body

`users` are those that may in (Basic); without it everybody may. `private=False` lets everybody fetch, so
that only pushes need a user. A request's body that ends too early has the backend killed, as web servers do;
`careless=True` passes on what came, and then its end, so that git has to notice by itself.
"""
import base64
import os
import subprocess
import threading
from urllib.parse import unquote

import raw
import work

ENV = {
    "PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "S", "GIT_AUTHOR_EMAIL": "s@example.com", "GIT_COMMITTER_NAME": "S",
    "GIT_COMMITTER_EMAIL": "s@example.com", "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
    "GIT_CONFIG_KEY_1": "init.defaultBranch", "GIT_CONFIG_VALUE_1": "main",
}

KEPT = 65536  # bytes of a request's body


def backend():
    """The program itself: `git http-backend` is a parent of it, and to kill that one would leave it running, which for a
    body that ended too early it does for ever."""
    return os.path.join(work.sh("git", "--exec-path").strip(), "git-http-backend")


class Hit:
    """One request that the server answered."""

    def __init__(self, request, user, password):
        self.method = request.method
        self.path, _, self.query = request.target.partition("?")
        self.request = request
        self.authorization = request.all("authorization")
        self.user = user
        self.password = password
        self.status = None

    def __repr__(self):
        return "<%s %s?%s %s %s>" % (self.method, self.path, self.query, self.user, self.status)


class GitServer(raw.Listener):
    def __init__(self, users=None, private=True, careless=False, **listener):
        self.root = work.folder("git.")
        self.careless = careless
        self.users = users
        self.private = private
        self.hits = []
        super().__init__(**listener)

    # -- repositories

    def path(self, repo):
        return os.path.join(self.root, repo)

    def git(self, repo, *args, stdin=None):
        return work.sh("git", "-C", self.path(repo), *args, env=ENV, stdin=stdin)

    def create(self, repo, sha256=False, empty=False, config=None):
        """A bare repository that takes pushes; main has one commit unless it is to be empty."""
        path = self.path(repo)
        os.makedirs(path)
        work.sh("git", "init", "-q", "--bare", *(["--object-format=sha256"] if sha256 else []), path, env=ENV)
        settings = {"http.receivepack": "true", "receive.advertisePushOptions": "true",
                    "uploadpack.allowFilter": "true", "receive.shallowUpdate": "true", **(config or {})}
        for key, value in settings.items():
            self.git(repo, "config", key, value)
        if not empty:
            self.commit(repo, "refs/heads/main", {"README": "hello\n"})
        return path

    def commit(self, repo, ref, files, message="a commit", parent=None):
        """Makes a commit with exactly these files and points ref at it; returns its id."""
        tree = ""
        for name, content in sorted(files.items()):
            blob = self.git(repo, "hash-object", "-w", "--stdin", stdin=content.encode()).strip()
            tree += "100644 blob %s\t%s\n" % (blob, name)
        tree = self.git(repo, "mktree", stdin=tree.encode()).strip()
        parents = ["-p", parent] if parent else []
        new = self.git(repo, "commit-tree", tree, *parents, "-m", message).strip()
        self.git(repo, "update-ref", ref, new)
        return new

    def refs(self, repo):
        lines = self.git(repo, "for-each-ref", "--format=%(refname) %(objectname)").split("\n")
        return dict(line.split(" ") for line in lines if line)

    # -- serving

    def serve(self, connection):
        while not connection.closed:
            self._one(connection, connection.read_head())

    def _credentials(self, request):
        for value in request.all("authorization"):
            kind, _, rest = value.partition(" ")
            if kind.lower() == "basic":
                user, _, password = base64.b64decode(rest).decode("latin-1").partition(":")
                return user, password
        return None, None

    def _may(self, hit):
        writes = "git-receive-pack" in hit.path or "git-receive-pack" in hit.query
        if self.users is None or (not self.private and not writes):
            return True
        return hit.user is not None and self.users.get(hit.user) == hit.password

    def _one(self, connection, request):
        hit = Hit(request, *self._credentials(request))
        request.start = b""
        self.hits.append(hit)
        if not self._may(hit):
            connection.read_body(request)
            hit.status = 401
            connection.send(raw.response(401, "who are you?", [("WWW-Authenticate", 'Basic realm="git"')], "No"))
            return
        if any(v.lower() == "100-continue" for v in request.all("expect")):
            connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._backend(connection, request, hit)

    def _environment(self, request, hit):
        env = dict(ENV)
        env.update({
            "GIT_PROJECT_ROOT": self.root, "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": unquote(hit.path),
            "QUERY_STRING": hit.query, "REQUEST_METHOD": hit.method, "REMOTE_USER": hit.user or "anyone",
            "REMOTE_ADDR": "127.0.0.1", "SERVER_PROTOCOL": "HTTP/1.1",
            "CONTENT_TYPE": (request.all("content-type") or [""])[0],
        })
        for header, variable in (("content-encoding", "HTTP_CONTENT_ENCODING"), ("git-protocol", "GIT_PROTOCOL")):
            if request.all(header):
                env[variable] = request.all(header)[0]
        # Chunks have been put together by then: the backend reads to the end of its input.
        if request.all("content-length") and not request.all("transfer-encoding"):
            env["CONTENT_LENGTH"] = request.all("content-length")[0]
        return env

    def _backend(self, connection, request, hit):
        process = subprocess.Popen([backend()], env=self._environment(request, hit),
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        feeder = threading.Thread(target=self._feed, args=(connection, request, process), daemon=True)
        feeder.start()
        try:
            status, headers = "200 OK", []
            while True:
                line = process.stdout.readline().decode("latin-1").rstrip("\r\n")
                if not line:
                    break
                name, _, value = line.partition(":")
                if name.lower() == "status":
                    status = value.strip()
                else:
                    headers.append(line)
            if not headers:
                # Killed by _feed(): no answer to a request that did not come whole.
                feeder.join()
                connection.close("abrupt")
                return
            hit.status = int(status.split(" ")[0])
            if hit.status == 200:
                self._stream(connection, process, status, headers, feeder)
            else:
                feeder.join()
                connection.send(raw.response(hit.status, process.stdout.read(), reason="No"))
        finally:
            if self.careless:
                process.stdout.read()
            work.end(process)

    def _feed(self, connection, request, process):
        def give(data):
            if len(request.start) < KEPT:
                request.start += data
            try:
                process.stdin.write(data)
            except (OSError, ValueError):
                pass
        try:
            connection.read_body(request, on_data=give)
        except (raw.Closed, ValueError):
            if not self.careless:
                process.kill()
        finally:
            try:
                process.stdin.close()
            except (OSError, ValueError):
                pass

    @staticmethod
    def _stream(connection, process, status, headers, feeder):
        head = ["HTTP/1.1 " + status, "Transfer-Encoding: chunked"] + headers
        connection.send(("\r\n".join(head) + "\r\n\r\n").encode("latin-1"))
        while True:
            data = process.stdout.read1(65536)
            if not data:
                break
            connection.send(b"%x\r\n" % len(data) + data + b"\r\n")
        feeder.join()
        process.wait()
        if process.returncode != 0:
            connection.close("abrupt")
            return
        connection.send(b"0\r\n\r\n")


class Narrow(GitServer):
    """It wants another user for a push than for what comes before it."""

    def _may(self, hit):
        return super()._may(hit) and not (hit.method == "POST" and hit.path.endswith("git-receive-pack"))
