#!/usr/bin/env python3
"""The helpers of the functional tests, tried without exeat: a test that trusts them is only as good."""
import base64
import os
import socket
import ssl
import struct
import time

import dnsserver
import leftovers
import pki
import redis
import servers
import tap
import term
import work
from servers import GitServer, RawServer

PKI = pki.Pki()
OTHER = pki.Pki("another CA")


def client(server, name="a.test", tls=True):
    sock = socket.create_connection((server.address, server.port), 5)
    if not tls:
        return sock
    context = ssl.create_default_context(cafile=PKI.ca)
    return context.wrap_socket(sock, server_hostname=name, suppress_ragged_eofs=False)


def read_all(sock):
    data = b""
    while True:
        piece = sock.recv(65536)
        if not piece:
            return data
        data += piece


def curl(server, path, *args, ca=PKI.ca, name="a.test", check=True):
    return work.sh("curl", "-sS", "--cacert", ca, "--connect-to", "::127.0.0.1:%d" % server.port, *args,
                   "https://%s%s" % (name, path), check=check)


@tap.test
def raw_server_keeps_what_it_was_sent(t):
    server = t.use(RawServer(tls=PKI.leaf("a.test"), answer=servers.response(200, "hello")))
    tap.equal(curl(server, "/x?y=1", "-H", "X-A: b", "-d", "body"), "hello")
    request, = server.requests
    tap.equal((request.method, request.target, request.header("x-a"), request.body), ("POST", "/x?y=1", "b", b"body"))
    tap.contains(server.received, b"POST /x?y=1 HTTP/1.1\r\n")
    tap.equal(server.connections[0].sni, "a.test")
    tap.equal(server.errors, [])


@tap.test
def raw_server_answers_by_script_on_one_connection(t):
    server = t.use(RawServer(tls=PKI.leaf("a.test"), answers=[
        servers.response(200, "1"), [("sleep", 0.1), servers.chunked("2", "2"), ("close", "fin")]]))
    sock = client(server)
    sock.sendall(b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nPOST /2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
                 b"\r\n3\r\nabc\r\n0\r\nT: x\r\n\r\n")
    data = read_all(sock)
    tap.contains(data, b"\r\n\r\n1HTTP/1.1 200")
    tap.contains(data, b"1\r\n2\r\n1\r\n2\r\n0\r\n\r\n")
    tap.equal(server.requests[1].line, "POST /2 HTTP/1.1")


@tap.test
def raw_server_closes_in_three_ways(t):
    whole = servers.response(200, "x")
    fin = t.use(RawServer(tls=PKI.leaf("a.test"), answer=[whole, ("close", "fin")]))
    abrupt = t.use(RawServer(tls=PKI.leaf("a.test"), answer=[whole, ("close", "abrupt")]))
    rst = t.use(RawServer(answer=[("close", "rst")]))
    get = b"GET / HTTP/1.1\r\n\r\n"
    sock = client(fin)
    sock.sendall(get)
    tap.equal(read_all(sock), whole)
    sock = client(abrupt)
    sock.sendall(get)
    try:
        read_all(sock)
        tap.fail("an end without close_notify passed as one with it")
    except ssl.SSLEOFError:
        pass
    sock = client(rst, tls=False)
    sock.sendall(get)
    try:
        read_all(sock)
        tap.fail("no reset")
    except ConnectionResetError:
        pass


@tap.test
def certificates_that_curl_refuses(t):
    for leaf, word in ((PKI.leaf("a.test", expired=True), "expired"), (PKI.leaf("a.test", future=True), "not yet valid"),
                       (PKI.leaf("a.test", self_signed=True), "self-signed"), (PKI.leaf("b.test"), "subject name"),
                       (OTHER.leaf("a.test"), "unable to get local issuer|self-signed")):
        server = t.use(RawServer(tls=leaf))
        try:
            curl(server, "/")
            tap.fail("curl took a certificate that is %s" % word)
        except AssertionError as e:
            tap.ok(any(w in str(e) for w in word.split("|")), str(e))
        tap.equal(server.requests, [])


@tap.test
def dns_server_answers_and_rotates(t):
    dns = t.use(dnsserver.DnsServer({
        "a.test": ["10.0.0.1", "fd00::1"], "r.test": dnsserver.rotate(["10.0.0.2"], ["127.0.0.1"]),
        "c.test": "cname:a.test", "big.test": "truncate"}, over_tcp={"big.test": ["10.0.0.3"]}))

    def ask(name, qtype, tcp=False):
        query = struct.pack(">HHHHHH", 7, 0x0100, 1, 0, 0, 0) + dnsserver.encode_name(name) + struct.pack(">HH", qtype, 1)
        if tcp:
            with socket.create_connection(("127.0.0.1", dns.port), 5) as s:
                s.sendall(struct.pack(">H", len(query)) + query)
                return s.recv(4096)[2:]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(5)
            s.sendto(query, ("127.0.0.1", dns.port))
            return s.recv(4096)

    tap.equal(ask("a.test", 1)[-4:], bytes([10, 0, 0, 1]))
    tap.equal(ask("a.test", 28)[-16:], socket.inet_pton(socket.AF_INET6, "fd00::1"))
    tap.equal([ask("r.test", 1)[-4:] for _ in range(3)], [bytes([10, 0, 0, 2])] + [bytes([127, 0, 0, 1])] * 2)
    tap.equal(ask("c.test", 1)[-4:], bytes([10, 0, 0, 1]))
    tap.equal(ask("none.test", 1)[3] & 15, 3)
    tap.ok(ask("big.test", 1)[2] & 2, "not truncated")
    tap.equal(ask("big.test", 1, tcp=True)[-4:], bytes([10, 0, 0, 3]))
    tap.equal(dns.queries[-1], ("big.test", 1, "tcp"))


def git_client(server, *args, cwd=None, token="SECRET-A"):
    basic = base64.b64encode(("x-access-token:" + token).encode()).decode()
    env = {"PATH": os.environ["PATH"], "HOME": work.base(), "GIT_TERMINAL_PROMPT": "0", "GIT_SSL_CAINFO": PKI.ca,
           "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "http.extraHeader",
           "GIT_CONFIG_VALUE_0": "Authorization: Basic " + basic, "GIT_AUTHOR_NAME": "C",
           "GIT_AUTHOR_EMAIL": "c@example.com", "GIT_COMMITTER_NAME": "C", "GIT_COMMITTER_EMAIL": "c@example.com"}
    return work.sh("git", "-c", "http.curloptResolve=g.test:%d:127.0.0.1" % server.port, *args, cwd=cwd, env=env)


def git_round(t, sha256):
    server = t.use(GitServer(tls=PKI.leaf("g.test"), users={"x-access-token": "SECRET-A"}))
    server.create("acme/app.git", sha256=sha256)
    for i in range(130):
        server.git("acme/app.git", "update-ref", "refs/heads/n%d" % i, "refs/heads/main")
    copy = work.folder("copy.")
    git_client(server, "clone", "-q", "https://g.test:%d/acme/app" % server.port, copy)
    work.write(os.path.join(copy, "big"), os.urandom(2 << 20))
    git_client(server, "add", "big", cwd=copy)
    git_client(server, "commit", "-q", "-m", "big", cwd=copy)
    git_client(server, "push", "-q", "origin", "HEAD:refs/heads/fix/1", cwd=copy)
    new = git_client(server, "rev-parse", "HEAD", cwd=copy).strip()
    tap.equal(server.refs("acme/app.git").get("refs/heads/fix/1"), new)
    tap.equal(len(new), 64 if sha256 else 40)
    requests = [h.request for h in server.hits]
    tap.ok(any(r.all("content-encoding") == ["gzip"] for r in requests), "nothing was compressed")
    tap.ok(any(r.all("transfer-encoding") == ["chunked"] for r in requests), "nothing came in chunks")
    tap.equal({h.status for h in server.hits}, {200})
    try:
        git_client(server, "ls-remote", "https://g.test:%d/acme/app" % server.port, token="wrong")
        tap.fail("a wrong token was taken")
    except AssertionError as e:
        tap.contains(str(e), "Authentication failed" if "Authentication" in str(e) else "could not read Username")
    tap.equal(server.hits[-1].status, 401)


@tap.test
def git_server_takes_a_clone_and_a_large_push(t):
    git_round(t, False)


@tap.test
def git_server_with_sha256(t):
    git_round(t, True)


@tap.test
def real_redis(t):
    server = t.use(redis.RealRedis(password="pw"))
    server.command("XADD", "exeat:decisions", "*", "event", "verdict", "method", "GET")
    tap.equal(server.stream(), [{"event": "verdict", "method": "GET"}])
    server.pause()
    server.resume()
    tap.equal(server.command("PING"), "PONG")


@tap.test
def fake_redis(t):
    for mode, wanted in (("ok", b"+OK\r\n"), ("-OOM no memory", b"-OOM no memory\r\n"), ("silent", None)):
        server = t.use(redis.FakeRedis(mode))
        with socket.create_connection(("127.0.0.1", server.port), 5) as s:
            s.settimeout(0.3)
            s.sendall(redis.encode("SET", "k", "v"))
            try:
                tap.equal(s.recv(100), wanted)
            except TimeoutError:
                tap.equal(wanted, None)
        tap.equal(server.commands, [[b"SET", b"k", b"v"]])


@tap.test
def http_proxy(t):
    server = t.use(RawServer(tls=PKI.leaf("a.test"), answer=servers.response(200, "through")))
    proxy = t.use(servers.ProxyServer({"a.test:443": ("127.0.0.1", server.port)}))
    out = work.sh("curl", "-sS", "--cacert", PKI.ca, "-x", "http://127.0.0.1:%d" % proxy.port, "https://a.test/")
    tap.equal(out, "through")
    tap.equal(proxy.requests[0].target, "a.test:443")


@tap.test
def processes_of_another_user_end_with_the_test():
    if not work.is_root():
        tap.skip("only root can run as another user")
    process = work.popen(["sleep", "100"], user=None)
    time.sleep(0.1)
    with open("/proc/%d/status" % process.pid, encoding="ascii") as f:
        status = f.read()
    work.end(process)
    ids = work.account(None)
    tap.contains(status, "Uid:\t%d\t" % ids[0])
    tap.contains(status, "CapEff:\t0000000000000000")


INHERITS = """
import subprocess, sys
sys.path.insert(0, %r)
import tap
@tap.test
def ignored():
    out = subprocess.run(["grep", "SigIgn", "/proc/self/status"], capture_output=True).stdout
    tap.equal(int(out.split()[1], 16) & 7, 0)
tap.main()
"""


@tap.test
def in_a_shell_s_background_programs_start_as_in_the_foreground():
    out = work.sh("sh", "-c", "trap '' HUP INT QUIT; exec python3 -c \"$1\"", "sh", INHERITS % os.path.dirname(tap.__file__))
    tap.contains(out, "ok 1 - ignored")


@tap.test
def terminal(t):
    shell = t.use(term.Terminal(["sh"], rows=31, columns=97, env={"PATH": os.environ["PATH"], "PS1": "> "}))
    shell.until("> ")
    shell.send("stty size\n")
    shell.until("31 97")
    shell.resize(40, 100)
    # What says that it is there is the very process that the key is meant for.
    shell.send("stty size; sh -c 'echo he''re; exec sleep 50'\n")
    shell.until("40 100")
    shell.until("here")
    shell.key("c")
    shell.until("> ")
    shell.send("exit 7\n")
    tap.equal(shell.wait(), 7)


@tap.test
def leftovers_are_seen(t):
    before = leftovers.Host(program="/nonexistent")
    before.check(0)
    process = work.popen(["sleep", "100"], user=None, env={**os.environ, **leftovers.mark()})
    t.after(work.end, process)
    try:
        before.check(0.2)
        tap.fail("a process was overlooked")
    except AssertionError as e:
        tap.contains(str(e), "sleep 100")
    work.end(process)
    before.check()


tap.main()
