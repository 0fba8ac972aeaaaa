"""What the cases about git share: a server, a policy with a credential, and pushes made by hand.

    git = pushes.serve(t)                     # g.test with acme/app.git; only SECRET may in
    r = pushes.run(git, policy, "git ls-remote https://g.test/acme/app.git")
    r = pushes.by_hand(git, policy, 'report(push(command("refs/heads/x", caps=CAPS) + b"0000").status)')
"""
import client
import exeat
import tap
from gitserver import GitServer
from pki import Pki

REPO = "acme/app.git"
SECRET = "SECRET-A"
FETCH = "allow fetch https://g.test/acme/app with forge\n"
PUSH = FETCH + "allow push https://g.test/acme/app refs/heads/fix/* refs/heads/JDK-PACK create delete with forge\n"
VAULT = "credential forge\n    for https://g.test\n    from env FORGE_TOKEN\n    inject basic x-access-token\n"
CLONE = "set -e; cd; git clone -q https://g.test/acme/app.git w; cd w; "
ENV = {"FORGE_TOKEN": SECRET}


def over(version):
    """git's environment that has it speak "HTTP/1.1" or "HTTP/2"."""
    return {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "http.version", "GIT_CONFIG_VALUE_0": version}


HAND = '''
    ZERO, ONE = "0" * 40, "1" * 40
    CAPS = "\\0 report-status side-band-64k agent=x"
    PUSH_TYPE, FETCH_TYPE = "application/x-git-receive-pack-request", "application/x-git-upload-pack-request"
    def pkt(text):
        data = text.encode() if isinstance(text, str) else text
        return b"%04x" % (len(data) + 4) + data
    def command(ref, old=ZERO, new=ONE, caps=""):
        return pkt("%s %s %s%s" % (old, new, ref, caps))
    def push(body, extra="", path="/acme/app.git/git-receive-pack", kind=PUSH_TYPE, piece=None):
        c = tls("g.test")
        head = "POST %s HTTP/1.1\\r\\nHost: g.test\\r\\nContent-Type: %s\\r\\n%s" % (path, kind, extra)
        if piece:
            chunks = [body[i:i + piece] for i in range(0, len(body), piece)]
            body = b"".join(b"%x\\r\\n%s\\r\\n" % (len(p), p) for p in chunks) + b"0\\r\\n\\r\\n"
            c.send((head + "Transfer-Encoding: chunked\\r\\n\\r\\n").encode() + body)
        else:
            c.send((head + "Content-Length: %d\\r\\n\\r\\n" % len(body)).encode() + body)
        return c.answer()
    def named(a):
        """The refs that the answer refuses."""
        data, body = b"", a.body
        while body and body[:4] != b"0000":
            n = int(body[:4], 16)
            data += body[5:n] if body[4:5] == b"\\1" else b""
            body = body[n:]
        return sorted(line.split(b"ng ")[1].split(b" ")[0].decode() for line in data.split(b"\\n") if b"ng refs/" in line)
'''

_pki = None


def pki():
    """What the upstreams of these tests are trusted by."""
    global _pki
    _pki = _pki or Pki()
    return _pki


def serve(t, repo=True, cls=GitServer, **options):
    git = t.use(cls(tls=pki().leaf("g.test"), users={"x-access-token": SECRET}, **options))
    if repo:
        git.create(REPO)
    return git


def options(git, **more):
    """What a sandbox is started with, so that https://g.test/ is this server."""
    return {"vault": VAULT, "resolve": [git.resolve("g.test")], "upstream_ca": pki().ca, **more,
            "env": {**ENV, **more.get("env", {})}}


def run(git, policy, command, **more):
    r = exeat.run(policy, command, **options(git, **{"timeout": 60, **more}))
    for word in ("Username", "Password", "could not read", SECRET):
        tap.lacks(r.err + r.out, word)
    return r


def by_hand(git, policy, code, **more):
    return client.run(policy, [HAND] + ([code] if isinstance(code, str) else code), **options(git, **{"timeout": 60, **more}))


def posts(git, service):
    """The POSTs that reached the server."""
    return [h for h in git.hits if h.method == "POST" and h.path.endswith(service)]


def judged(r, **fields):
    """The verdicts about refs of pushes (a fetch's have refs, too)."""
    return [v for v in r.verdicts(**fields) if (v.get("git") or {}).get("service") == "git-receive-pack" and v["git"].get("refs")]


def refs(r, verdict):
    return [ref for v in judged(r, verdict=verdict) for ref in v["git"]["refs"]]
