#!/usr/bin/env python3
"""What exeat reads in a push is what git reads, and what exeat answers is what git shows.

receive-pack is fed command lists, honest ones and thousands of spoilt ones. Of each that exeat's codec takes,
git must see the very same commands and push options, or refuse it; a list that means one thing to the judge and
another to the server must not exist. Then real pushes are answered with the codec's refusal.
"""
import http.server
import os
import random
import struct
import subprocess
import threading
import urllib.parse

import tap
import work

TOP = os.environ.get("TOP_BUILDDIR") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build")
READER = os.environ.get("PUSH_READER") or os.path.join(TOP, "tests/functional/push_reader")
SPOILT = 1500
TARGET_COUNT = 700

A, B, ZERO = b"a0" * 20, b"b1" * 20, b"0" * 40
CAPS = b"\0 report-status-v2 side-band-64k object-format=sha1 agent=git/2.39.5"
OPTIONS = b"\0 report-status push-options atomic"
FLUSH, DELIM = "flush", "delim"
BEGIN = b"-----BEGIN SSH SIGNATURE-----\n"
SIGNATURE = [BEGIN, b"U1NI\n", b"-----END SSH SIGNATURE-----\n", b"push-cert-end\n"]
CERTIFICATE = [b"push-cert" + CAPS, b"certificate version 0.1\n", b"pusher t@example.com 1 +0000\n", b"nonce 1-2\n", b"\n"]


def delete(ref, old=A):
    """Deletions need no pack and no object, so git's hook is reached with any id."""
    return old + b" " + ZERO + b" " + ref


HONEST = [
    [delete(b"refs/heads/a") + CAPS, delete(b"refs/heads/b"), FLUSH],
    [delete(b"refs/heads/a") + OPTIONS, delete(b"refs/heads/b") + b"\n", FLUSH, b"opt.a", b"opt.b\n", FLUSH],
    [b"shallow " + A, b"shallow " + B + b"\n", delete(b"refs/heads/a") + CAPS, FLUSH],
    CERTIFICATE + [delete(b"refs/heads/a") + b"\n", delete(b"refs/heads/b") + b"\n"] + SIGNATURE + [FLUSH],
    [delete(b"refs/heads/a"), delete(b"refs/heads/b", B), FLUSH],
]
PACKETS = [
    delete(b"refs/heads/z"), delete(b"refs/heads/z") + CAPS, delete(b"refs/heads/z") + OPTIONS,
    delete(b"refs/heads/z") + b"\n", delete(b"refs/heads/z", B) + b" x", b"shallow " + B, b"push-cert" + CAPS,
    b"push-cert-end\n", b"\n", BEGIN, b"-----BEGIN PGP SIGNATURE-----\n", b"nonce 2\n", b"certificate version 0.1\n",
    b"", FLUSH, DELIM,
]
PIECES = [b"\0", b"\n", b" ", b"0", b"a", b"A", b"\t", b"\r", b"=", b"refs/", b"push-options", b"\0push-options", BEGIN]


def serialise(packets):
    special = {FLUSH: b"0000", DELIM: b"0001"}
    return b"".join(special[p] if isinstance(p, str) else b"%04x" % (len(p) + 4) + p for p in packets)


def spoil_packets(r, packets):
    for _ in range(r.choice([1, 1, 2, 3])):
        i, what = r.randrange(len(packets)), r.randrange(5)
        if what == 0:
            packets.insert(i, r.choice(PACKETS))
        elif what == 1 and len(packets) > 1:
            del packets[i]
        elif what == 2:
            packets.insert(r.randrange(len(packets) + 1), packets[i])
        elif what == 3:
            k = r.randrange(len(packets))
            packets[i], packets[k] = packets[k], packets[i]
        else:
            packets.insert(i, r.choice(r.choice(HONEST)))


def spoil_bytes(r, packets):
    i = r.randrange(len(packets))
    if isinstance(packets[i], str):
        return
    text = bytearray(packets[i])
    for _ in range(r.choice([1, 1, 2])):
        at, what = r.randrange(len(text) + 1), r.randrange(3)
        piece = r.choice(PIECES + [bytes([r.randrange(256)])])
        if what == 0:
            text[at:at] = piece
        elif what == 1:
            text[at:at + 1] = piece
        else:
            del text[at:at + r.randrange(1, 4)]
    packets[i] = bytes(text)


def spoil(r):
    packets = list(r.choice(HONEST))
    kind = r.random()
    if kind < 0.55:
        spoil_packets(r, packets)
    if kind > 0.4:
        spoil_bytes(r, packets)
    body = bytearray(serialise(packets))
    if r.random() < 0.08:
        body[r.randrange(len(body))] ^= 1 << r.randrange(8)
    return bytes(body)


class Reader:
    """exeat's reading."""

    def __enter__(self):
        self.process = subprocess.Popen([READER, "commands"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(30)

    def read(self, body):
        """(commands, number of push options or None) or None if it is refused."""
        self.process.stdin.write(struct.pack("<I", len(body)) + body)
        self.process.stdin.flush()
        result, options, asked = self.process.stdout.readline().split()
        commands = []
        while (line := self.process.stdout.readline()) != b".\n":
            commands.append(line.rstrip(b"\n"))
        return (sorted(commands), int(options) if asked == b"1" else None) if result == b"0" else None


class Git:
    """git's reading, as its pre-receive hook is told it."""

    def __init__(self):
        self.folder = work.folder()
        self.repo, self.seen = os.path.join(self.folder, "r.git"), os.path.join(self.folder, "seen")
        self.env = dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_NOSYSTEM="1", HOME=self.folder)
        self.git("init", "-q", "--bare", "--object-format=sha1", self.repo)
        for key, value in (("receive.advertisePushOptions", "true"), ("receive.certNonceSeed", "seed"),
                           ("receive.denyDeletes", "false")):
            self.git("-C", self.repo, "config", key, value)
        hook = f'#!/bin/sh\ncat >"{self.seen}"\necho "$GIT_PUSH_OPTION_COUNT" >>"{self.seen}"\nexit 1\n'
        os.makedirs(os.path.join(self.repo, "hooks"), exist_ok=True)
        work.write(os.path.join(self.repo, "hooks/pre-receive"), hook, 0o755)

    def git(self, *words):
        subprocess.run(["git", *words], env=self.env, check=True, timeout=30)

    def read(self, body):
        """The same, or None if the hook was not reached."""
        if os.path.exists(self.seen):
            os.unlink(self.seen)
        subprocess.run(["git", "receive-pack", "--stateless-rpc", self.repo], input=body, env=self.env, check=False,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=30)
        if not os.path.exists(self.seen):
            return None
        with open(self.seen, "rb") as f:
            lines = f.read().split(b"\n")
        count = lines[-2]
        return sorted(lines[:-2]), int(count) if count else 0


def same(ours, gits):
    return ours[0] == gits[0] and (ours[1] or 0) == gits[1]


@tap.test
def honest_lists_are_read_alike(t):
    reader, git = t.use(Reader()), Git()
    for packets in HONEST:
        body = serialise(packets)
        ours, gits = reader.read(body), git.read(body)
        tap.note(f"{body!r}: {ours} {gits}")
        assert ours is not None and gits is not None and same(ours, gits)


@tap.test(timeout=240)
def spoilt_lists_are_read_alike_or_refused(t):
    reader, git, r = t.use(Reader()), Git(), random.Random(20)
    taken = compared = 0
    for _ in range(SPOILT):
        body = spoil(r)
        ours = reader.read(body)
        if ours is None:
            continue
        taken += 1
        gits = git.read(body)
        if gits is None:
            continue
        compared += 1
        assert same(ours, gits), f"{body!r}: exeat reads {ours}, git {gits}"
    tap.note(f"{taken} taken, {compared} compared")
    assert taken > SPOILT // 10 and compared > SPOILT // 10


# ---- endpoints ----

PUSH, FETCH = "application/x-git-receive-pack-request", "application/x-git-upload-pack-request"
TARGETS = [
    ("GET", "/r.git/info/refs?service=git-upload-pack", "-"), ("GET", "/r.git/info/refs?service=git-receive-pack", "-"),
    ("GET", "/r.git/info/refs", "-"), ("POST", "/r.git/git-upload-pack", FETCH), ("POST", "/r.git/git-receive-pack", PUSH),
]
PARTS = ["/", "//", "/./", "/../", ".", ";", ";x", "%2f", "%2F", "%2e", "%20", "+", "?", "&", "=", "%26", "%3d", "service",
         "service=git-receive-pack", "&service=git-receive-pack", "service=git-upload-pack&", "%73ervice=git-receive-pack&",
         "git-receive-pack", "%67it-receive-pack", "info", "refs", "x", "A", "%41", "%2573", "%252f", "[]", "r.git", "R.git"]


def spoil_target(r):
    method, target, kind = r.choice(TARGETS)
    for _ in range(r.choice([1, 1, 2, 3])):
        at, what = r.randrange(1, len(target) + 1), r.randrange(4)
        if what == 0:
            target = target[:at] + r.choice(PARTS) + target[at:]
        elif what == 1:
            target = target[:at] + r.choice(PARTS) + target[at + r.randrange(1, 4):]
        elif what == 2:
            c = target[at - 1]
            target = target[:at - 1] + "%%%02x" % ord(c) + target[at:]
        else:
            target = target[:at - 1] + target[at - 1].swapcase() + target[at:]
    if r.random() < 0.2:
        kind = r.choice([PUSH, FETCH, "text/plain", "-"])
    if r.random() < 0.1:
        method = r.choice(["GET", "POST", "HEAD", "PUT"])
    return method, target, kind


def served(git, method, target, kind):
    """What git http-backend takes a request for, behind a web server that decodes the path once."""
    path, _, query = target.partition("?")
    env = dict(git.env, GIT_PROJECT_ROOT=git.folder, GIT_HTTP_EXPORT_ALL="1", REQUEST_METHOD=method, QUERY_STRING=query,
               PATH_INFO=urllib.parse.unquote(path), CONTENT_TYPE="" if kind == "-" else kind, REMOTE_USER="u",
               CONTENT_LENGTH="4")
    out = subprocess.run(["git", "http-backend"], input=b"0000", env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                         check=False, timeout=30).stdout
    head = out.partition(b"\r\n\r\n")[0].decode("latin-1").lower()
    if "status:" in head:
        return None
    for word, kinds in (("receive-pack-advertisement", "discover-push"), ("upload-pack-advertisement", "discover-fetch"),
                        ("receive-pack-result", "push"), ("upload-pack-result", "fetch"), ("content-type: text/plain", "dumb")):
        if word in head:
            return kinds
    return None


@tap.test(timeout=240)
def spoilt_targets_are_taken_alike_or_refused(t):
    git, r = Git(), random.Random(7)
    git.git("-C", git.repo, "config", "http.receivepack", "true")
    reader = subprocess.Popen([READER, "classify"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    t.after(reader.wait, 10)
    t.after(reader.stdout.close)
    t.after(reader.stdin.close)
    counts = {}
    for i in range(TARGET_COUNT):
        method, target, kind = TARGETS[i] if i < len(TARGETS) else spoil_target(r)
        if any(c in target for c in "\0\t\n"):
            continue
        gits = served(git, method, target, kind)
        reader.stdin.write(f"{method}\t{target}\t{kind}\n")
        reader.stdin.flush()
        ours = reader.stdout.readline().strip()
        counts[gits] = counts.get(gits, 0) + 1
        if gits is not None:
            assert ours in (gits, "refused"), f"{method} {target} {kind}: exeat {ours}, git {gits}"
        assert i >= len(TARGETS) or gits is not None, f"{method} {target}: git does not serve it"
    tap.note(str(counts))
    assert len(counts) == 6, counts


# ---- what git shows ----

class Refusing(http.server.BaseHTTPRequestHandler):
    """git http-backend for the discovery, the codec's refusal for the push."""
    protocol_version = "HTTP/1.1"
    git = None

    def log_message(self, *_):
        pass

    def answer(self, content_type, body):
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        out = subprocess.run(["git", "receive-pack", "--stateless-rpc", "--http-backend-info-refs", self.git.repo],
                             env=self.git.env, stdout=subprocess.PIPE, check=True, timeout=30).stdout
        self.answer("application/x-git-receive-pack-advertisement", b"001f# service=git-receive-pack\n0000" + out)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        out = subprocess.run([READER, "refuse"], input=body, stdout=subprocess.PIPE, check=True, timeout=30).stdout
        self.answer("application/x-git-receive-pack-result", out)


@tap.test
def a_refusal_is_shown_for_each_ref(t):
    """git shows a refusal for each ref, and the message"""
    git = Git()
    handler = type("Handler", (Refusing,), {"git": git})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    t.after(server.server_close)
    t.after(server.shutdown)
    tree = os.path.join(git.folder, "w")
    git.git("init", "-q", "-b", "main", tree)
    git.git("-C", tree, "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "--allow-empty", "-m", "m")
    url = f"http://127.0.0.1:{server.server_address[1]}/r.git"
    for words in ([], ["--atomic"], ["-q"], ["-o", "ci.skip"]):
        push = subprocess.run(["git", "-C", tree, "push", *words, url, "main:refs/heads/one", "main:refs/heads/two"],
                              env=git.env, stderr=subprocess.PIPE, text=True, check=False, timeout=30)
        tap.note(push.stderr)
        tap.equal(push.returncode, 1)
        for line in ("remote: exeat: refused by a rule", "remote: exeat: decision ID",
                     "! [remote rejected] main -> one (exeat: first reason [ID])",
                     "! [remote rejected] main -> two (exeat: other reason [ID])"):
            assert line in push.stderr, line


tap.main()
