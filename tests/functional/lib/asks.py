"""A server that exeat asks for history and trees: one with some history, what exeat asked it, and answers in its stead.

    git = asks.serve(t)                   # git.line: commits of main, the oldest first; fix/1 is at the third
    asks.asked(git)                       # the requests that exeat made itself
    asks.instead(git, b"...")             # the answer to its fetches
    asks.lies(git)                        # {name: answer} of servers that lie, fail or go on for ever
"""
import struct
import subprocess
import zlib

import gitserver
import pushes
import raw

REPO = pushes.REPO
UPLOAD = "/acme/app.git/git-upload-pack"
RESULT = [("Content-Type", "application/x-git-upload-pack-result")]


def serve(t, config=None, sha256=False, **options):
    """A server whose main has five commits more than the root; fix/1 is at the second of them."""
    git = pushes.serve(t, repo=False, **options)
    git.create(REPO, config=config, sha256=sha256)
    git.line = [git.refs(REPO)["refs/heads/main"]]
    for i in range(5):
        git.line.append(git.commit(REPO, "refs/heads/main", {"README": "hello\n", "n": "%d\n" % i}, "m%d" % i, parent=git.line[-1]))
    git.git(REPO, "update-ref", "refs/heads/fix/1", git.line[2])
    return git


def asked(git):
    """The fetches that exeat made itself."""
    return [h for h in git.hits if any(v.startswith("exeat/") for v in h.request.all("user-agent"))]


def instead(git, answer, path=UPLOAD, method="POST"):
    """exeat's own requests for this path get this answer (bytes, or a function)."""
    backend = git._backend

    def choose(connection, request, hit):
        if hit.path == path and hit.method == method and hit in asked(git):
            connection.read_body(request)
            hit.status = 200
            if callable(answer):
                answer(connection)
            else:
                connection.send(answer)
        else:
            backend(connection, request, hit)
    git._backend = choose


def pkt(data):
    return b"%04x" % (len(data) + 4) + data


def packed(pack):
    return pkt(b"packfile\n") + b"".join(pkt(b"\1" + pack[i:i + 1000]) for i in range(0, len(pack), 1000)) + b"0000"


def pack_of(git, *ids):
    """A pack of these commits alone."""
    return subprocess.run(["git", "-C", git.path(REPO), "pack-objects", "-q", "--stdout"], input="".join(i + "\n" for i in ids).encode(),
                          env=gitserver.ENV, stdout=subprocess.PIPE, check=True).stdout


def forged(git):
    """A commit that names fix/1's as its parent: it has another id than the one that is pushed."""
    tree = git.git(REPO, "rev-parse", git.line[0] + "^{tree}").strip()
    return git.git(REPO, "commit-tree", tree, "-p", git.line[2], "-m", "forged").strip()


def bomb():
    """A pack of one blob that claims to be of 4 GiB, and goes on for a good part of it."""
    return b"PACK" + struct.pack(">II", 2, 1) + bytes([0xb0, 0x80, 0x80, 0x80, 0x80, 0x01]) + zlib.compress(bytes(400 << 20), 1)


def endless(connection):
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-result\r\n\r\n" + pkt(b"packfile\n"))
    try:
        while True:
            connection.send(pkt(b"\2counting\n") * 1000)
    except (raw.Closed, OSError):
        pass


def cut(connection):
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + pkt(b"packfile\n") + pkt(b"\1PACK"))
    connection.close()


def damaged(pack):
    """Its last byte, which is the checksum's, is another one, whatever it was."""
    return pack[:-1] + bytes([pack[-1] ^ 1])


def lies(git):
    return {
        "garbage": raw.response(200, b"\0\1\2 garbage" * 1000, RESULT),
        "html": raw.response(200, "<html>hello", [("Content-Type", "text/html")]),
        "500": raw.response(500, "oops", reason="No"),
        "401": raw.response(401, "who?", [("WWW-Authenticate", 'Basic realm="x"')], reason="No"),
        "302": raw.response(302, "", [("Location", "https://g.test/elsewhere")], reason="Found"),
        "err": raw.response(200, pkt(b"ERR upload-pack: not our ref"), RESULT),
        "band 3": raw.response(200, pkt(b"packfile\n") + pkt(b"\3no"), RESULT),
        "no pack": raw.response(200, pkt(b"acknowledgments\n") + pkt(b"NAK\n") + b"0000", RESULT),
        "nothing": raw.response(200, b"", RESULT),
        "an empty pack": raw.response(200, packed(pack_of(git)), RESULT),
        "another commit": raw.response(200, packed(pack_of(git, forged(git))), RESULT),
        "the old one": raw.response(200, packed(pack_of(git, git.line[2])), RESULT),
        "a damaged pack": raw.response(200, packed(damaged(pack_of(git, git.line[5]))), RESULT),
        "half a pack": raw.response(200, packed(pack_of(git, git.line[5])[:-30]), RESULT),
        "bytes behind": raw.response(200, packed(pack_of(git) + b"more"), RESULT),
        "endless": endless,
        "a bomb": raw.response(200, packed(bomb()), RESULT),
        "cut": cut,
        "gzip": raw.response(200, b"\x1f\x8b", RESULT + [("Content-Encoding", "gzip")]),
        "not http": b"220 mail.test ready\r\n\r\n",
    }
