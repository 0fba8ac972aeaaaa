#!/usr/bin/env python3
"""C78: IPv6 is no way round. Every attempt is met by the exit or refused at once; a listener on the host sees nothing."""
import socket
import threading

import exeat
import netns
import tap
import without
import work
from pki import Pki
from servers import RawServer, response

netns.enter(addresses=["fd00:9::1/64", "10.9.0.1/24"])

ATTEMPTS = '''
import errno, socket
def attempt(label, f):
    try:
        what = "did %r" % (f(),)
    except TimeoutError:
        what = "was silent"
    except OSError as e:
        what = "failed %s" % errno.errorcode.get(e.errno, type(e).__name__)
    print("%s: %s" % (label, what), flush=True)
def udp(address, port):
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    s.settimeout(20)
    s.connect(socket.getaddrinfo(address, port)[0][4])
    s.send(b"x")
    return s.recv(100)
def tcp(address, port):
    s = socket.create_connection((address, port), 20)
    s.settimeout(20)
    s.send(b"GET / HTTP/1.1\\r\\nHost: [fd00:9::1]:%d\\r\\n\\r\\n" % port)
    return s.recv(12)
for address in ("fd00:9::1", "fe80::1%lo", "::ffff:10.9.0.1"):
    attempt("udp " + address, lambda: udp(address, PORT))
    attempt("tcp " + address, lambda: tcp(address, PORT))
def ping():
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM, socket.IPPROTO_ICMPV6)
    s.settimeout(20)
    s.connect(("fd00:9::1", 0))
    s.send(b"\\x80\\0\\0\\0\\0\\1\\0\\1")
    return s.recv(100)
attempt("icmp", ping)
attempt("multicast", lambda: udp("ff02::1%lo", PORT))
attempt("multicast of a site", lambda: udp("ff05::1", PORT))
def raw(protocol):
    s = socket.socket(socket.AF_INET6, socket.SOCK_RAW, protocol)
    s.settimeout(20)
    s.sendto(b"\\x80\\0\\0\\0\\0\\1\\0\\1", ("fd00:9::1", 0))
    return s.recv(100)
for protocol in (58, 41, 47, 17, 6, 255):
    attempt("raw %d" % protocol, lambda: raw(protocol))
for kind, protocol in ((socket.SOCK_STREAM, 132), (socket.SOCK_SEQPACKET, 132), (6, 33), (socket.SOCK_DGRAM, 136)):
    def other():
        s = socket.socket(socket.AF_INET6, kind, protocol)
        s.settimeout(20)
        s.connect(("fd00:9::1", PORT))
        s.send(b"x")
        return s.recv(100)
    attempt("protocol %d of kind %d" % (protocol, kind), other)
attempt("packets", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x86dd)).bind(("lo", 0)))
'''

# As root of an inner user namespace: what may be changed there opens nothing either.
CHANGES = '''
for c in "ip -6 addr add fd00:9::77/64 dev lo" "ip -6 route add fd00:9::/64 dev lo" "ip -6 route replace default dev lo" "ip link add v0 type veth peer name v1" \\
        "ip link add d0 type dummy" "ip tunnel add t0 mode sit remote 10.9.0.1" "ip -6 rule add pref 1 lookup main" "nft flush ruleset" "ip6tables -F" \\
        "sysctl -qw net.ipv6.conf.all.disable_ipv6=0" "sysctl -qw net.ipv6.conf.all.forwarding=1"; do $c 2>/dev/null && echo "changed: $c"; done
python3 -c "$0"
'''


def nothing_got_out(watch, r, count):
    got = dict(line.split(": ", 1) for line in r.out.splitlines() if not line.startswith("changed"))
    tap.equal(len(got), count, r)
    for label, text in got.items():
        if label.startswith("tcp"):
            tap.ok("did b'HTTP/1.1 4" in text or "failed " in text, label + " " + text)
        else:
            tap.contains(text, "failed ", label)
    tap.equal(watch.seen, [])


class Watch:
    """Ports of the host, and what came to them."""

    def __init__(self, t):
        self.seen = []
        self.udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        self.udp.bind(("::", 0))
        self.port = self.udp.getsockname()[1]
        self.tcp = socket.socket(socket.AF_INET6)
        self.tcp.bind(("::", self.port))
        self.tcp.listen()
        t.after(self.udp.close)
        t.after(self.tcp.close)
        for wait in (lambda: self.udp.recvfrom(100), self.tcp.accept):
            threading.Thread(target=self._wait, args=(wait,), daemon=True).start()

    def _wait(self, wait):
        try:
            self.seen.append(wait())
        except OSError:
            pass


@tap.test
def nothing_goes_out_by_ipv6(t):
    watch = Watch(t)
    r = exeat.run("allow GET http://a.test/**\n", ["python3", "-c", ATTEMPTS.replace("PORT", str(watch.port))])
    nothing_got_out(watch, r, 20)
    # the host reaches itself there: the watch would have seen it
    socket.create_connection(("fd00:9::1", watch.port), 2).close()
    tap.eventually(lambda: watch.seen)


@tap.test
def nothing_goes_out_whatever_is_changed_inside(t):
    watch = Watch(t)
    attempts = ATTEMPTS.replace("PORT", str(watch.port))
    for before in ([], ["unshare", "-Ur"], ["unshare", "-Urn"]):
        r = exeat.run("allow GET http://a.test/**\n", before + ["sh", "-c", CHANGES, attempts])
        if before and not r.out:
            continue  # there are no namespaces of its own inside: nothing to change either
        if "-Urn" in before:
            # a network with nothing in it
            tap.equal(watch.seen, [])
        else:
            tap.lacks(r.out, "changed: ")
            nothing_got_out(watch, r, 20)


@tap.test
def clients_that_want_ipv6_meet_the_policy(t):
    watch = Watch(t)
    urls = ["%s://[%s]:%d/" % (scheme, address, watch.port) for scheme in ("http", "https") for address in ("fd00:9::1", "::ffff:10.9.0.1", "fd00::1")]
    r = exeat.run("allow * http://*.test/**\nallow * https://*.test/**\n",
                  "for u in %s; do curl -gksS -6 -m 5 -o /dev/null -w '%%{http_code}\\n' $u; curl -gksS -m 5 -x http://[2001:db8::1]:3128 -o /dev/null -w '%%{http_code}\\n' $u; "
                  "python3 -c 'import sys, urllib.request as u; u.urlopen(sys.argv[1], timeout=5)' $u || echo no; "
                  "wget -6 -q -T 5 -t 1 --no-check-certificate -O /dev/null $u || echo no; done" % " ".join("'%s'" % u for u in urls))
    lines = r.out.split()
    tap.equal(len(lines), 4 * len(urls), r)
    for line in lines:
        tap.ok(line in ("no", "000", "403", "421", "400", "502"), r)
    tap.equal({v["verdict"] for v in r.verdicts()}, {"deny"})
    tap.equal(watch.seen, [])


@tap.test
def an_upstream_that_has_ipv6_alone_is_reached_by_either(t):
    pki = Pki()
    origin = t.use(RawServer(lambda _c, _r: response(200, "here\n"), tls=pki.leaf("a.test"), address="fd00:9::1"))
    for version in ("-4", "-6"):
        r = exeat.run("allow GET https://a.test/**\n", ["curl", "-sS", version, "https://a.test/x"],
                      resolve=origin.resolve("a.test"), upstream_ca=pki.ca)
        tap.equal((r.code, r.out), (0, "here\n"), version)


@tap.test
def a_name_is_reached_by_either(t):
    pki = Pki()
    origin = t.use(RawServer(lambda _c, _r: response(200, "here\n"), tls=pki.leaf("a.test")))
    for version in ("-4", "-6"):
        r = exeat.run("allow GET https://a.test/**\n", ["curl", "-sS", version, "https://a.test/x"],
                      resolve=origin.resolve("a.test"), upstream_ca=pki.ca)
        tap.equal((r.code, r.out), (0, "here\n"), version)


@tap.test
def a_host_without_ipv6_is_served_by_ipv4(t):
    pki = Pki()
    origin = t.use(RawServer(lambda _c, _r: response(200, "here\n"), tls=pki.leaf("a.test")))
    policy = work.write(work.folder("p.") + "/p", "allow GET https://a.test/**\n")
    home = work.folder("home.", user=exeat.as_user(), mode=0o700)
    args = [exeat.program(), "run", "--policy", policy, "--state", home + "/state", "--log", home + "/decisions.jsonl",
            "--upstream-ca", pki.ca, "--resolve", origin.resolve("a.test"), "--", "sh", "-c",
            "curl -sS https://a.test/x; getent ahosts a.test; curl -6 -sS https://a.test/x"]
    r = exeat.run(None, [], home=home, program_args=without.ipv6() + args)
    tap.contains(r.out, "here\n")
    tap.contains(r.out, "198.19.")
    tap.lacks(r.out, "::")
    tap.ok(r.code != 0, "curl -6 found something")


tap.main()
