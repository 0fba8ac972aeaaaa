#!/usr/bin/env python3
"""The sandbox's network, without a proxy behind it, and what a host may lack for one."""
import re
import subprocess

import box
import tap
import without
import work

NETWORK = '''
    def tcp(host, port):
        s = socket.create_connection((host, port), 20)
        return s.recv(300).decode().strip()
    def udp(host, port, data=b"x"):
        s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
        s.settimeout(20)
        s.connect((host, port))
        s.send(data)
        return s.recv(600)
    QUERY = bytes.fromhex("123401000001000000000000") + b"\\7example\\3com\\0\\0\\1\\0\\1"
    def dns(host):
        return udp(host, 53, QUERY)[-4:].hex()
    def dns_tcp(host):
        s = socket.create_connection((host, 53), 20)
        for byte in len(QUERY).to_bytes(2, "big") + QUERY:
            s.send(bytes([byte]))
        return s.recv(600)[-4:].hex()
    def local(host):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        server = socket.create_server((host, 0), family=family)
        s = socket.create_connection(server.getsockname()[:2], 20)
        peer, _ = server.accept()
        peer.send(b"own")
        return s.recv(9)
    def low_port():
        return socket.create_server(("127.0.0.1", 81)).getsockname()[1]
    for host, port in (("example.com", 443), ("93.184.216.34", 80), ("2606:4700::1111", 853), ("fe80::1%lo", 22),
                       ("10.0.0.1", 22), ("169.254.169.254", 80)):
        attempt("tcp " + host, tcp, host, port)
    for host in ("127.0.0.1", "127.0.0.2", "::1", "198.18.0.1"):
        attempt("local " + host, local, host)
    attempt("closed", tcp, "127.0.0.1", 1)
    attempt("low", low_port)
    for host in ("127.0.0.1", "127.0.0.53", "127.0.0.11", "8.8.8.8", "::1", "2001:4860:4860::8888"):
        attempt("dns " + host, dns, host)
        attempt("dnstcp " + host, dns_tcp, host)
    for host in ("1.1.1.1", "2606:4700::1111", "224.0.0.251", "255.255.255.255", "ff02::1%lo"):
        attempt("udp " + host, udp, host, 443)
    attempt("ping", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1).sendto(bytes(8) , ("8.8.8.8", 0)))
    attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 47).sendto(b"x", ("8.8.8.8", 0)))
    attempt("localhost", lambda: sorted({a[4][0] for a in socket.getaddrinfo("x.localhost", 80)}))
    attempt("own name", lambda: socket.gethostbyname(socket.gethostname())[:4])
    attempt("again", lambda: socket.gethostbyname("example.com") == socket.gethostbyname("EXAMPLE.com."))
    attempt("bad name", lambda: socket.gethostbyname("a b.example.com"))
'''


def each_way(function):
    """Registers the test once for each way that leads TCP to the exit, and each kind of user: function(user, before)."""
    for user in box.USERS:
        for way in ("TPROXY", "NAT"):
            def one(_t, user=user, way=way):
                function(user, without.tproxy() if way == "NAT" else [])
            tap.test(one, name="%s, by %s, %s" % (function.__name__.replace("_", " "), way, user or "rootless"))
    return function


@each_way
def every_packet_meets_the_exit_or_nothing(user, before):
    got = box.python(NETWORK, user=user, before=before, timeout=90).lines()
    for host, port in (("93.184.216.34", 80), ("10.0.0.1", 22), ("169.254.169.254", 80)):
        tap.contains(got["tcp " + host], "DST %s:%d - redirected" % (host, port))
    tap.contains(got["tcp 2606:4700::1111"], "DST [2606:4700::1111]:853 - redirected")
    tap.contains(got["tcp fe80::1%lo"], "DST [fe80::1]:22 - redirected")
    tap.contains(got["tcp example.com"], ":443 example.com redirected")
    for host in ("127.0.0.1", "127.0.0.2", "::1", "198.18.0.1"):
        tap.contains(got["local " + host], "did b'own'")
    tap.contains(got["closed"], "failed ECONNREFUSED")
    tap.contains(got["low"], "did 81")
    for host in ("127.0.0.1", "127.0.0.53", "127.0.0.11", "8.8.8.8", "::1", "2001:4860:4860::8888"):
        tap.contains(got["dns " + host], "did 'c613")
        tap.contains(got["dnstcp " + host], "did 'c613")
    for host in ("1.1.1.1", "2606:4700::1111", "224.0.0.251", "255.255.255.255", "ff02::1%lo"):
        tap.contains(got["udp " + host], "failed ")
    for label in ("ping", "raw", "bad name"):
        tap.contains(got[label], "failed ")
    tap.contains(got["localhost"], "['127.0.0.1', '::1']")
    tap.contains(got["own name"], "'127.'")
    tap.contains(got["again"], "did True")
    for label, text in got.items():
        tap.lacks(text, "Timeout", label + " met silence")


# Every address is delivered inside: that must be no way to oneself instead of the exit, nor to a name of somebody else's.
TRICKS = '''
    import threading
    FREEBIND, FREEBIND6 = (0, 15), (41, 78)
    OWN6 = [l.split() for l in open("/proc/net/if_inet6") if not l.startswith("0000")][0][0]
    OWN6 = socket.inet_ntop(socket.AF_INET6, bytes.fromhex(OWN6))
    def family(host):
        return socket.AF_INET6 if ":" in host else socket.AF_INET
    def bound(host, port, free=False):
        s = socket.socket(family(host))
        s.settimeout(0.5)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if ":" in host:
            s.setsockopt(41, socket.IPV6_V6ONLY, 1)
        if free:
            s.setsockopt(*(FREEBIND6 if ":" in host else FREEBIND), 1)
        s.bind((host, port))
        return s
    def serve(host, port, free=False):
        s = bound(host, port, free)
        s.settimeout(None)
        s.listen()
        def loop():
            while True:
                peer, _ = s.accept()
                peer.send(b"own")
                peer.close()
        threading.Thread(target=loop, daemon=True).start()
        return s
    def ask(host, port, s=None):
        s = s or socket.socket(family(host))
        s.settimeout(3 if s.getsockname()[1] == 0 else s.gettimeout())
        s.connect((host, port))
        said = b""
        while b := s.recv(300):
            said += b
        s.close()
        return said.decode().strip()
    def listening(table):
        return sorted(int(l.split()[1].split(":")[1], 16) for l in list(open(table))[1:] if l.split()[3] == "0A")
    FIRST = listening("/proc/net/tcp")
    for host, own in (("1.1.1.1", "198.18.0.1"), ("2606:4700::1111", OWN6)):
        # one of the sandbox's own is at the very place where the exit's would be
        def squat():
            port = bound(own, 0).getsockname()[1]
            mine = bound(host, at, free=True)
            mine.setblocking(False)
            mine.connect_ex((own, port))
            return ask(host, at, bound(own, port))
        for at in (443, 7443):
            attempt("squat %s %d" % (host, at), squat)
    for host, wild in (("1.1.1.1", "0.0.0.0"), ("2606:4700::1111", "::")):
        for port in (443, 8443):
            serve(wild, port)
            attempt("wild %s %d" % (host, port), ask, host, port)
        attempt("bind " + host, bound, host, 0)
        for port in (80, 9443):
            serve(host, port, free=True)
            attempt("listen %s %d" % (host, port), ask, host, port)
        for source in (host[:-1] + "2", host):
            attempt("from %s %s" % (source, host), lambda: ask(host, 443, bound(source, 0, free=True)))
    for host in ("127.0.0.1", "198.18.0.1", "::1", OWN6):
        attempt("inside " + host.replace(OWN6, "own6"), ask, host, 443)
    # the exit's own listeners, by other addresses and by their own
    for port in FIRST:
        for host in ("1.1.1.1", "2606:4700::1111", "198.18.0.1", "198.18.0.2"):
            attempt("port %s %d" % (host, FIRST.index(port)), ask, host, port)
        for host in ("127.0.0.1", "127.0.0.2", "::1"):
            attempt("port %s %d" % (host, FIRST.index(port)), lambda: ask(host, port, bound(host, 0)))
        serve("198.18.0.1", port)
        attempt("port mine %d" % FIRST.index(port), ask, "198.18.0.1", port)
    print("ports: %d %d" % (*FIRST,) if len(FIRST) == 2 else "ports: %r" % FIRST)
    attempt("loopback", lambda: ask("1.1.1.1", 443, bound("127.0.0.1", 0)))
    attempt("loopback6", lambda: ask("2606:4700::1111", 443, bound("::1", 0)))
    for host, own in (("1.1.1.1", "198.18.0.1"), ("2606:4700::1111", OWN6)):
        # answers to this port are answers, not questions to a name server
        attempt("from 53 " + host, lambda: ask(host, 443, bound(own, 53)))
        # the exit closes first, and has the connection in TIME_WAIT when it comes again
        port = bound(own, 0).getsockname()[1]
        for i in "123":
            attempt("again%s %s" % (i, host), lambda: ask(host, 443, bound(own, port)))
    attempt("transparent", lambda: socket.socket().setsockopt(0, 19, 1))
    attempt("transparent6", lambda: socket.socket(socket.AF_INET6).setsockopt(41, 75, 1))
    attempt("mark", lambda: socket.socket().setsockopt(socket.SOL_SOCKET, socket.SO_MARK, 100))
    def original(to):
        s = socket.create_connection(to, 3)
        a = s.getsockopt(0, 80, 16)
        return socket.inet_ntoa(a[4:8]), struct.unpack("!H", a[2:4])[0]
    attempt("route", lambda: [l.split()[:2] for l in open("/proc/net/route")][1:])
    attempt("original", original, ("127.0.0.1", 443))
'''


@each_way
def no_address_leads_round_the_exit(user, before):
    got = box.python(TRICKS, user=user, before=before, timeout=60).lines()
    proxy, dns = sorted(got.pop("ports").split())
    for host, shown in (("1.1.1.1", "1.1.1.1"), ("2606:4700::1111", "[2606:4700::1111]")):
        for port in (443, 8443):
            tap.contains(got["wild %s %d" % (host, port)], "did 'DST %s:%d - redirected'" % (shown, port))
        tap.contains(got["bind " + host], "failed EADDRNOTAVAIL")
        for port in (80, 9443):
            tap.contains(got["listen %s %d" % (host, port)], "did 'DST %s:%d - redirected'" % (shown, port))
        for label in ("from %s %s" % (host[:-1] + "2", host), "from %s %s" % (host, host), "squat %s 443" % host,
                      "squat %s 7443" % host):
            tap.lacks(got[label], "own'")
        for i, port in enumerate((proxy, dns)):
            tap.contains(got["port %s %d" % (host, i)], "did 'DST %s:%s - redirected'" % (shown, port))
        for label in ("from 53 ", "again1 ", "again2 ", "again3 "):
            tap.contains(got[label + host], "did 'DST %s:443 - redirected'" % shown)
    for host in ("127.0.0.1", "198.18.0.1", "::1", "own6"):
        tap.contains(got["inside " + host], "did 'own'")
    for host in ("127.0.0.1", "::1"):
        # the other one is the name server's
        tap.equal(["- direct'" in got["port %s %d" % (host, i)] for i in (0, 1)].count(True), 1)
    for i, port in enumerate((proxy, dns)):
        tap.contains(got["port 198.18.0.2 %d" % i], "did 'DST 198.18.0.2:%s - redirected'" % port)
        tap.contains(got["port mine %d" % i], "did 'own'")
        for host in ("198.18.0.1", "127.0.0.2"):
            tap.contains(got["port %s %d" % (host, i)], "failed ECONNREFUSED")
    tap.contains(got["loopback"], "did 'DST 1.1.1.1:443 - redirected'")
    tap.contains(got["loopback6"], "did 'DST [2606:4700::1111]:443 - redirected'")
    # some look for it to know whether there is a network
    tap.contains(got["route"], "did [['lo', '00000000']]")
    for label in ("transparent", "transparent6", "mark"):
        tap.contains(got[label], "failed EPERM")
    tap.contains(got["original"], "did ('127.0.0.1', 443)")


# What connections to the world leave the sandbox of its own ports.
PORTS = '''
    def family(host):
        return socket.AF_INET6 if ":" in host else socket.AF_INET
    def connect(host, port, first=0, last=0):
        s = socket.socket(family(host))
        s.setsockopt(0, 51, struct.pack("=I", last << 16 | first))  # IP_LOCAL_PORT_RANGE
        s.connect((host, port))
        return s
    def serve(host, port, reuse):
        server = socket.socket(family(host))
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
        if ":" in host:
            server.setsockopt(41, socket.IPV6_V6ONLY, 1)
        server.bind(("::" if ":" in host else "0.0.0.0", port))
        server.listen()
        client = socket.create_connection(("::1" if ":" in host else "127.0.0.1", port), 3)
        peer, _ = server.accept()
        client.close()
        peer.recv(1)
        peer.close()
        server.close()
    def ends():
        return [(*(int(a.split(":")[1], 16) for a in l.split()[1:3]), l.split()[3]) for t in ("tcp", "tcp6")
                for l in list(open("/proc/net/" + t))[1:]]
    def close(s):
        port = s.getsockname()[1]
        s.close()
        while not any(peer == port and state == "06" for _, peer, state in ends()):
            time.sleep(0.01)  # until the exit's end is in TIME_WAIT
    for host in ("1.1.1.1", "2606:4700::1111"):
        for port in (80, 443, 8443):
            s = connect(host, port)
            while s.recv(300):
                pass  # the exit closes first
            for reuse in (1, 0):
                attempt("open %s %d %d" % (host, port, reuse), serve, host, port, reuse)
            close(s)
            for reuse in (1, 0):
                attempt("closed %s %d %d" % (host, port, reuse), serve, host, port, reuse)
    FIRST, LAST = map(int, open("/proc/sys/net/ipv4/ip_local_port_range").read().split())
    SCANNED = 64
    while any(LAST - SCANNED < port <= LAST for port, _, _ in ends()):
        LAST -= 1
    held = [connect(host, port, FIRST, LAST - SCANNED) for host in ("1.1.1.1", "2606:4700::1111")
            for port in range(LAST - SCANNED + 1, LAST + 1)]
    for host in ("1.1.1.1", "2606:4700::1111"):
        attempt("scan " + host, lambda: len([connect(host, 443, LAST - SCANNED + 1, LAST) for _ in range(SCANNED)]))
'''


@each_way
def a_connection_takes_no_port_of_the_sandboxs(user, before):
    got = box.python(PORTS, user=user, before=before, timeout=60).lines()
    tap.equal(len(got), 26)
    for label, text in got.items():
        if label.startswith("scan"):
            tap.contains(text, "did 64 ", label)
        # TPROXY leaves the web's ports to those who let others have them as well
        elif before or label.endswith(" 1") or " 8443 " in label:
            tap.contains(text, "did None ", label)


@each_way
def where_nobody_listens_nothing_is_reached(user, before):
    r = box.python('''
        keep = []
        for host in ("0.0.0.0", "::"):
            keep.append(socket.create_server((host, 443), family=socket.AF_INET6 if ":" in host else socket.AF_INET))
        for host in ("1.1.1.1", "2606:4700::1111", "example.com"):
            attempt(host, socket.create_connection, (host, 443), 3)
    ''', user=user, before=before, env={"SANDBOX_DEAF": "1"})
    got = r.lines()
    tap.equal(len(got), 3)
    for host, text in got.items():
        tap.contains(text, "failed ECONNREFUSED", host)


@box.each_user
def a_host_without_ipv6_is_served(_t, user):
    r = box.python('''
        attempt("v6", socket.socket, socket.AF_INET6, socket.SOCK_STREAM)
        attempt("names", lambda: sorted({a[4][0][:4] for a in socket.getaddrinfo("example.com", 443)}))
        attempt("tcp", lambda: socket.create_connection(("example.com", 443), 3).recv(300))
        attempt("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("1.1.1.1", 443)))
    ''', user=user, before=without.ipv6(), env={"SANDBOX_SHOW": "1"})
    got = r.lines()
    tap.contains(r.err, "ipv6 0")
    tap.contains(got["v6"], "failed EAFNOSUPPORT")
    tap.contains(got["names"], "['198.']")
    tap.contains(got["tcp"], "example.com redirected")
    tap.contains(got["udp"], "failed EPERM")


@tap.test
def a_host_without_user_namespaces_is_told_so():
    r = box.run("echo started", before=without.user_namespaces())
    tap.equal((r.code, r.out), (125, ""))
    tap.contains(r.err, "namespaces can't be made")


@tap.test
def rules_that_cannot_be_set_end_the_start():
    # no netlink socket of any kind
    r = box.run("echo started", before=without.netlink())
    tap.equal((r.code, r.out), (125, ""))
    tap.contains(r.err, "net namespace")


def doctor(before, user=None):
    name = work.PLAIN_USER if user is None and work.account(None) is not None else "root"
    return work.sh(*before, box.program(), "--doctor", user=name, check=False)


@box.each_user
def the_doctor_finds_a_good_host_good(_t, user):
    said = doctor([], user)
    tap.lacks(said, "error:")
    for part in ("namespaces", "/proc inside", "nftables inside", "TPROXY", "seccomp", "Landlock"):
        tap.contains(said, "ok: ", part)
        tap.contains(said, part)


@tap.test
def the_doctor_names_what_is_in_the_way():
    for before, words in ((without.user_namespaces(), ["error: user namespaces", "CLONE_NEWUSER"]),
                          (without.netlink(), ["error: net namespace", "netlink"]),
                          (without.ipv6(), ["note: IPv6"]),
                          (without.tproxy(), ["note: TPROXY", "modprobe nft_tproxy"]),
                          (without.mounts(), ["error: mount namespace", "systempaths=unconfined"]),
                          (without.seccomp(), ["error: seccomp"]),
                          (["unshare", "-Ur", "sh", "-c", 'echo 0 > /proc/sys/user/max_net_namespaces; exec "$@"', "sh"],
                           ["error: user namespaces", "sudo sysctl user.max_net_namespaces"])):
        said = doctor(before)
        tap.note(said)
        for word in words:
            tap.contains(said, word)


TPROXY_RULES = """table inet exeat {
	chain raw_output {
		type filter hook output priority raw; policy accept;
		tcp dport 443 ip daddr != 198.18.0.1 ip daddr != 127.0.0.0/8 notrack accept
		tcp sport 443 ip saddr != 198.18.0.1 ip saddr != 127.0.0.0/8 notrack accept
		tcp dport 80 ip daddr != 198.18.0.1 ip daddr != 127.0.0.0/8 notrack accept
		tcp sport 80 ip saddr != 198.18.0.1 ip saddr != 127.0.0.0/8 notrack accept
		tcp dport 443 ip6 daddr != OWN ip6 daddr != ::1 notrack accept
		tcp sport 443 ip6 saddr != OWN ip6 saddr != ::1 notrack accept
		tcp dport 80 ip6 daddr != OWN ip6 daddr != ::1 notrack accept
		tcp sport 80 ip6 saddr != OWN ip6 saddr != ::1 notrack accept
	}

	chain filter_prerouting {
		type filter hook prerouting priority mangle; policy drop;
		ip daddr 198.18.0.1 accept
		ip daddr != 127.0.0.0/8 meta l4proto tcp tproxy ip to 127.0.0.1:PORT accept
		ip daddr 127.0.0.0/8 accept
		ip6 daddr OWN accept
		ip6 daddr != ::1 meta l4proto tcp tproxy ip6 to [::1]:PORT accept
		ip6 daddr ::1 accept
		meta l4proto tcp reject with tcp reset
	}

	chain nat_output {
		type nat hook output priority -100; policy accept;
		tcp dport 53 redirect to :PORT
		udp dport 53 redirect to :PORT
		ip daddr 198.18.0.1 return
		ip daddr 127.0.0.0/8 return
		ip6 daddr OWN return
		ip6 daddr ::1 return
		meta l4proto tcp redirect to :PORT
	}

	chain filter_output {
		type filter hook output priority filter; policy drop;
		oif "lo" ct state established,related,untracked accept
		ip daddr 198.18.0.1 accept
		ip daddr 127.0.0.0/8 accept
		ip6 daddr OWN accept
		ip6 daddr ::1 accept
		reject with icmpx admin-prohibited
	}

	chain filter_forward {
		type filter hook forward priority filter; policy drop;
		reject with icmpx admin-prohibited
	}
}
"""

NAT_RULES = """table inet exeat {
	chain nat_output {
		type nat hook output priority -100; policy accept;
		tcp dport 53 redirect to :PORT
		udp dport 53 redirect to :PORT
		ip daddr 198.18.0.1 return
		ip daddr 127.0.0.0/8 return
		ip6 daddr OWN return
		ip6 daddr ::1 return
		meta l4proto tcp redirect to :PORT
	}

	chain filter_output {
		type filter hook output priority filter; policy drop;
		ct state established,related accept
		ip daddr 198.18.0.1 accept
		ip daddr 127.0.0.0/8 accept
		ip6 daddr OWN accept
		ip6 daddr ::1 accept
		reject with icmpx admin-prohibited
	}

	chain filter_forward {
		type filter hook forward priority filter; policy drop;
		reject with icmpx admin-prohibited
	}
}
"""

TPROXY_ROUTES = """100:	from all lookup 100
local default dev lo table 100 proto static scope host src 198.18.0.1
100:	from all lookup 100
local default dev lo table 100 proto static src OWN metric 1024 pref medium
"""


@tap.test
def the_rules_read_as_they_are_meant():
    work.need("ip", "nft", "nsenter", "strace")
    if not work.is_root():
        tap.skip("another user's namespace can't be entered")
    def refused(n):
        return ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=sendto", "-e", "inject=sendto:error=ENOENT:when=%d" % n]
    # lo, for each family address and default route, then the rule of the table and its route; then the rules
    for before in ([], without.tproxy(), refused(6), refused(7), refused(8), refused(9), refused(10)):
        with box.Box("echo up; cat", before=before, user="root", stdin=subprocess.PIPE, env={"SANDBOX_SHOW": "1"}) as b:
            tap.equal(b.process.stdout.readline(), b"up\n")
            init = b.process.stderr.readline().split()[4].decode()
            inside = ["nsenter", "-t", init, "-n"]
            rules = work.sh(*inside, "nft", "list", "ruleset")
            routes = "".join(line.rstrip() + "\n" for family in "46" for what in (["rule"], ["route", "show", "table", "all"])
                             for line in re.findall(r".* 100\b.*", work.sh(*inside, "ip", "-" + family, *what)))
            b.process.stdin.close()
            tap.equal(b.process.wait(), 0)
        rules, routes = (re.sub(r"\bfd[0-9a-f:]*:ffff:ffff:ffff:ffff\b", "OWN", text) for text in (rules, routes))
        tap.equal(re.sub(r"(to [0-9.:\[\]]*:)[0-9]+", r"\1PORT", rules), NAT_RULES if before else TPROXY_RULES)
        tap.equal(routes, "" if before else TPROXY_ROUTES)


@tap.test
def two_sandboxes_do_not_meet():
    with box.Box(["python3", "-c", "import socket,time; s=socket.create_server(('127.0.0.1',8000));"
                                   "s.setblocking(False); print('up',flush=True); time.sleep(20)"]) as one:
        tap.equal(one.process.stdout.readline(), b"up\n")
        r = box.python('attempt("other", socket.create_connection, ("127.0.0.1", 8000), 3)')
        tap.contains(r.lines()["other"], "failed ECONNREFUSED")


tap.main()
