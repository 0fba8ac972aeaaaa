#!/usr/bin/env python3
"""The sandbox's network, trust and life, without a proxy behind it."""
import os
import re
import resource
import signal
import subprocess
import time

import box
import leftovers
import tap
import term
import without
import work

NETWORK = '''
    def tcp(host, port):
        s = socket.create_connection((host, port), 3)
        return s.recv(300).decode().strip()
    def udp(host, port, data=b"x"):
        s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
        s.settimeout(3)
        s.connect((host, port))
        s.send(data)
        return s.recv(600)
    QUERY = bytes.fromhex("123401000001000000000000") + b"\\7example\\3com\\0\\0\\1\\0\\1"
    def dns(host):
        return udp(host, 53, QUERY)[-4:].hex()
    def dns_tcp(host):
        s = socket.create_connection((host, 53), 3)
        for byte in len(QUERY).to_bytes(2, "big") + QUERY:
            s.send(bytes([byte]))
        return s.recv(600)[-4:].hex()
    def local(host):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        server = socket.create_server((host, 0), family=family)
        s = socket.create_connection(server.getsockname()[:2], 3)
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


@box.each_user
def every_packet_meets_the_exit_or_nothing(_t, user):
    r = box.python(NETWORK, user=user)
    got = r.lines()
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
        tap.ok(int(text.split()[-2]) < 500, "%s was slow: %s" % (label, text))


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
    for part in ("namespaces", "/proc inside", "nftables inside", "seccomp", "Landlock"):
        tap.contains(said, "ok: ", part)
        tap.contains(said, part)


@tap.test
def the_doctor_names_what_is_in_the_way():
    for before, words in ((without.user_namespaces(), ["error: user namespaces", "CLONE_NEWUSER"]),
                          (without.netlink(), ["error: net namespace", "netlink"]),
                          (without.ipv6(), ["note: IPv6"]),
                          (without.mounts(), ["error: mount namespace", "systempaths=unconfined"]),
                          (without.seccomp(), ["error: seccomp"]),
                          (["unshare", "-Ur", "sh", "-c", 'echo 0 > /proc/sys/user/max_net_namespaces; exec "$@"', "sh"],
                           ["error: user namespaces", "sudo sysctl user.max_net_namespaces"])):
        said = doctor(before)
        tap.note(said)
        for word in words:
            tap.contains(said, word)


@box.each_user
def the_command_is_what_it_was(_t, user):
    def limits():
        os.umask(0o027)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    folder = work.folder("work.", mode=0o777)
    # not a shell: those set signals as they like
    source = """if True:
        import os, resource, sys
        print(os.getcwd(), os.getuid(), os.getgid(), "%03o" % os.umask(0), resource.getrlimit(resource.RLIMIT_NOFILE)[0],
              len(os.listdir("/proc/self/fd")), os.environ["EXEAT"], sys.stdin.read())
        print(open("/proc/self/status").read())"""
    with box.Box(["python3", "-c", source], user=user, cwd=folder, preexec_fn=limits, stdin=subprocess.PIPE) as b:
        out, err = b.process.communicate(b"stdin", timeout=20)
    tap.note(out, err)
    uid, gid = work.account(b.user) or (0, 0)
    first, *status = out.decode().splitlines()
    # 0, 1, 2 and the one that lists them
    tap.equal(first.split(), [folder, str(uid), str(gid), "027", str(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
                              "4", "test", "stdin"])
    fields = dict(line.split(":\t", 1) for line in status if ":\t" in line)
    tap.equal(int(fields["SigBlk"], 16), 1 << (signal.SIGUSR2 - 1))
    tap.ok(int(fields["SigIgn"], 16) & 1 << (signal.SIGUSR1 - 1))
    for n in (signal.SIGTERM, signal.SIGTSTP, signal.SIGTTOU, signal.SIGCHLD):
        tap.equal(int(fields["SigIgn"], 16) & 1 << (n - 1), 0)
    tap.equal(fields["NoNewPrivs"], "0")
    if user is None:
        tap.equal(int(fields["CapEff"], 16), 0)


RULES = """table inet exeat {
	chain nat_output {
		type nat hook output priority -100; policy accept;
		tcp dport 53 redirect to :PORT
		udp dport 53 redirect to :PORT
		ip daddr 127.0.0.0/8 return
		ip daddr 198.18.0.1 return
		ip6 daddr ::1 return
		ip6 daddr OWN return
		meta l4proto tcp redirect to :PORT
	}

	chain filter_output {
		type filter hook output priority filter; policy drop;
		ct state established,related accept
		ip daddr 127.0.0.0/8 accept
		ip daddr 198.18.0.1 accept
		ip6 daddr ::1 accept
		ip6 daddr OWN accept
		reject with icmpx admin-prohibited
	}

	chain filter_forward {
		type filter hook forward priority filter; policy drop;
		reject with icmpx admin-prohibited
	}
}
"""


@tap.test
def the_rules_read_as_they_are_meant():
    work.need("nft", "nsenter")
    if not work.is_root():
        tap.skip("another user's namespace can't be entered")
    with box.Box("echo up; sleep 1000") as b:
        tap.equal(b.process.stdout.readline(), b"up\n")
        supervisor = b.process.pid
        with open("/proc/%d/task/%d/children" % (supervisor, supervisor), encoding="ascii") as f:
            init = f.read().split()[0]
        rules = work.sh("nsenter", "-t", init, "-n", "nft", "list", "ruleset")
    rules = re.sub(r"(ip6 daddr )fd[0-9a-f:]*:ffff:ffff:ffff:ffff ", r"\1OWN ", rules)
    tap.equal(re.sub(r"to :[0-9]+", "to :PORT", rules), RULES)


@tap.test
def statuses_are_the_shells():
    folder = work.folder()
    script = work.write(os.path.join(folder, "plain"), "x")
    for command, code in ((["true"], 0), ("exit 7", 7), ("kill -TERM $$", 128 + 15), ("kill -KILL $$", 128 + 9),
                          (["no-such-command"], 127), ([script], 126), (["/"], 126)):
        tap.equal(box.run(command).code, code, str(command))


@tap.test
def signals_sent_to_the_supervisor_reach_the_command():
    with box.Box("trap 'echo got; exit 3' TERM; echo up; while :; do sleep 0.05; done") as b:
        tap.equal(b.process.stdout.readline(), b"up\n")
        b.process.send_signal(signal.SIGTERM)
        tap.equal(b.process.stdout.readline(), b"got\n")
        tap.equal(b.process.wait(30), 3)


@tap.test
def what_the_command_leaves_behind_ends_with_it():
    before = leftovers.Host(box.program())
    r = box.run("setsid sleep 1000 & (trap '' TERM HUP; sleep 1000) & exit 0", env=leftovers.mark())
    tap.equal(r.code, 0)
    before.check()


@tap.test
def a_killed_supervisor_leaves_nothing():
    before = leftovers.Host(box.program())
    for i in range(24):
        b = box.Box("sleep 1000 & while :; do :; done", env=leftovers.mark(), user=box.USERS[i % len(box.USERS)],
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(i * 0.003)
        b.process.kill()
        b.process.wait()
    before.check()


@tap.test
def a_killed_init_ends_the_sandbox():
    before = leftovers.Host(box.program())
    with box.Box("echo up; sleep 1000", env={"SANDBOX_SHOW": "1", **leftovers.mark()}) as b:
        tap.equal(b.process.stdout.readline(), b"up\n")
        init = int(b.process.stderr.readline().split()[4])
        os.kill(init, signal.SIGKILL)
        tap.equal(b.process.wait(30), 125)
    before.check()


@tap.test
def two_sandboxes_do_not_meet():
    with box.Box(["python3", "-c", "import socket,time; s=socket.create_server(('127.0.0.1',8000));"
                                   "s.setblocking(False); print('up',flush=True); time.sleep(20)"]) as one:
        tap.equal(one.process.stdout.readline(), b"up\n")
        r = box.python('attempt("other", socket.create_connection, ("127.0.0.1", 8000), 3)')
        tap.contains(r.lines()["other"], "failed ECONNREFUSED")


@box.each_user
def the_root_is_in_bundle_and_directory(_t, user):
    if not os.path.exists("/etc/ssl/certs/ca-certificates.crt"):
        tap.skip("no certificates on this host")
    r = box.run("openssl verify -CApath /etc/ssl/certs $SSL_CERT_FILE; openssl verify -CAfile "
                "/etc/ssl/certs/ca-certificates.crt $SSL_CERT_FILE; ls /etc/ssl/certs | wc -l; cat /etc/resolv.conf; "
                "ls -ld /etc/ssl/certs; touch /etc/ssl/certs/x && echo touched", user=user)
    tap.equal(r.out.count(": OK\n"), 2)
    count = int(r.out.splitlines()[2])
    tap.equal(count, len(os.listdir("/etc/ssl/certs")) + 1)
    tap.contains(r.out, "nameserver 127.0.0.1\n")
    tap.equal("touched" in r.out, user == "root")


def with_etc(change):
    """Words before a command: in it /etc is a changed copy."""
    if not work.is_root():
        tap.skip("needs root to prepare")
    folder = work.folder("etc.")
    work.sh("cp", "-a", "/etc/.", folder)
    change(folder)
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c",
            'mount --bind %s /etc && exec "$@"' % folder, "sh"]


@tap.test
def what_is_covered_among_the_hashed_certificates_stays_covered():
    # such a directory is copied: merged, it would show what the cover hides
    if not os.path.exists("/etc/ssl/certs/ca-certificates.crt"):
        tap.skip("no certificates on this host")
    secret = "/etc/ssl/certs/service.pem"
    before = with_etc(lambda f: work.write(f + secret.removeprefix("/etc"), "SECRET-KEY-OF-A-SERVICE\n"))
    r = box.run("cat %s; openssl verify -CApath /etc/ssl/certs $SSL_CERT_FILE; ls /etc/ssl/certs | wc -l; "
                "grep ' /etc/ssl/certs ' /proc/mounts" % secret, before=before, user="root", cover=[secret])
    tap.lacks(r.out, "SECRET")
    tap.contains(r.out, ": OK\n%d\n" % (len(os.listdir("/etc/ssl/certs")) + 2))
    tap.contains(r.out, "/etc/ssl/certs tmpfs ")


def replace(folder, link=None, text=None):
    path = os.path.join(folder, "resolv.conf")
    if os.path.lexists(path):
        os.unlink(path)
    if link:
        os.symlink(link, path)
    elif text is not None:
        work.write(path, text)


@tap.test
def any_resolv_conf_will_do():
    elsewhere = work.write(os.path.join(work.folder(), "stub"), "nameserver 127.0.0.53\nsearch corp.test\noptions ndots:5\n")
    for kind in ({"text": "nameserver 127.0.0.53\n"}, {"text": "nameserver ::1\n"}, {"text": ""}, {}, {"link": "/no/such/file"},
                 {"link": elsewhere},
                 {"text": "nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\nsearch a.test\noptions edns0 trust-ad\n"}):
        before = with_etc(lambda folder, kind=kind: replace(folder, **kind))
        # Asked three times: the machine may be busy, a resolver that waits for another name server is slow each time.
        r = box.python('for n in "123":\n    attempt("get" + n, lambda: socket.gethostbyname("example.com"))',
                       before=before, user="root")
        tap.contains(r.lines()["get1"], "did '198.19.")
        tap.ok(min(int(r.lines()["get" + n].split()[-2]) for n in "123") < 50, "slow with %r" % kind)


@tap.test
def hosts_of_the_host_do_not_name_addresses_inside():
    before = with_etc(lambda f: work.write(f + "/hosts", "127.0.0.1 localhost\n10.1.2.3 db.corp.test\n127.0.0.9 mine.test\n"))
    r = box.run("getent ahostsv4 db.corp.test | head -1; getent ahostsv4 mine.test | head -1", before=before, user="root")
    tap.ok(r.out.startswith("198.19."), r.out)
    tap.contains(r.out, "127.0.0.9")


@tap.test
def an_interactive_shell_has_its_job_control(_t=None):
    shell = ["bash", "--norc", "-i"]
    for user in box.USERS:
        name = work.PLAIN_USER if user is None and work.account(None) is not None else user
        state = work.folder("state.", user=name, mode=0o700)
        work.write(os.path.join(state, "root.pem"), open(box.ca(), encoding="ascii").read())
        args = ["bash", "--norc", "-ic", 'PS1="outer$ "; %s %s -- "$@"; echo status=$? fg=$(ps -o tpgid= -p $$) own=$(ps -o pgid= -p $$)' %
                (box.program(), state), "bash", *shell]
        with term.Terminal(args, user=name, env={"PATH": os.environ["PATH"], "TERM": "dumb", "PS1": "in$ "}) as t:
            t.until("$ ")
            t.send("stty size; sh -c 'echo be\"\"gan; exec sleep 1000'\r")
            t.until("24 80")
            t.until("began")
            t.key("z")
            t.until("Stopped")
            t.send("jobs; fg\r")
            t.until("Stopped")
            time.sleep(0.3)
            t.key("c")
            t.resize(33, 99)
            t.send("stty size\r")
            t.until("33 99")
            t.send("exit 5\r")
            t.until("status=5")
            t.wait()
            tap.lacks(t.text, b"no job control")


tap.main()
