"""C14: TLS without a name is refused for that reason; a rule that names the address may allow it, and it is verified."""
import client
import clienthello
import exeat
import h2
import tap
from pki import Pki
from servers import RawServer, response

pki = Pki()
CURL = "curl -s -o /dev/null -w '%{http_code} %{exitcode}\\n' https://10.9.0.1/x"


def ask(t, policy, command, names=("IP:10.9.0.1",), **options):
    server = t.use(RawServer(response(200, "ok"), tls=pki.leaf(*names)))
    r = exeat.run(policy, command, resolve=[server.resolve("10.9.0.1"), server.resolve("a.test")], upstream_ca=pki.ca, **options)
    return r, server


@tap.test
def without_a_name_there_is_no_handshake(t):
    r, server = ask(t, "allow GET https://a.test/** with key\n", "echo | timeout 10 openssl s_client -connect a.test:443 -noservername 2>&1 | head -c 4000; true",
                    vault="credential key\n    for https://a.test\n    from env A_TOKEN\n    inject bearer\n", env={"A_TOKEN": "SECRET-A"})
    tap.lacks(r.out, "BEGIN CERTIFICATE")
    tap.equal([v["code"] for v in r.verdicts()], ["no-sni"])
    tap.equal(len(server.connections), 0)
    tap.equal(r.code, 0)


@tap.test
def without_a_name_nothing_is_passed_through_unread(t):
    r, server = ask(t, "tunnel https://a.test\n", "echo | timeout 10 openssl s_client -connect a.test:443 -noservername 2>&1 | head -c 4000; true")
    tap.lacks(r.out, "BEGIN CERTIFICATE")
    tap.contains(r.out, "alert access denied")
    tap.equal([v["code"] for v in r.verdicts()], ["tunnel-no-name"])
    tap.equal(len(server.connections), 0)


@tap.test
def an_address_that_no_rule_names(t):
    r, server = ask(t, "allow GET https://a.test/**\n", CURL)
    tap.contains(r.out, "000 ")
    tap.equal(r.verdict(verdict="deny")["code"], "no-sni")
    tap.equal(len(server.connections), 0)


@tap.test
def an_address_that_a_rule_names_is_verified_as_one(t):
    r, server = ask(t, "allow GET https://10.9.0.1/**\n", CURL)
    tap.contains(r.out, "200 0")
    tap.equal(server.requests[0].header("host"), "10.9.0.1")
    r, server = ask(t, "allow GET https://10.9.0.1/**\n", CURL, names=("a.test",))
    tap.contains(r.out, "502 0")
    tap.equal(server.requests, [])


@tap.test
def addresses_of_ipv6_are_no_others(t):
    for names, policy, got in ((("IP:2001:db8::7",), "allow GET https://[2001:DB8:0::7]/**\n", "200 0"), (("a.test",), "allow GET https://[2001:db8::7]/**\n", "502 0"),
                               (("IP:2001:db8::8",), "allow GET https://[2001:db8::7]/**\n", "502 0"), (("IP:2001:db8::7",), "allow GET https://[2001:db8::8]/**\n", "000 ")):
        server = t.use(RawServer(response(200, "ok"), tls=pki.leaf(*names)))
        r = exeat.run(policy, CURL.replace("10.9.0.1", "[2001:db8::7]"), resolve=[server.resolve("[2001:db8::7]")], upstream_ca=pki.ca)
        tap.contains(r.out, got)
        tap.equal([q.header("host") for q in server.requests], ["[2001:db8::7]"] if got == "200 0" else [])
        if got == "000 ":
            tap.equal(r.verdict(verdict="deny")["code"], "no-sni")
            tap.equal(len(server.connections), 0)


@tap.test
def what_is_no_name_in_the_place_of_one(t):
    """An address, but where a rule spells that out, and what no host is called."""
    server = t.use(RawServer(response(200, "ok"), tls=pki.leaf("a.test")))
    addresses, malformed = [b"10.9.0.1", b"127.0.0.1", b"[2001:db8::7]"], [b"a..test", b"a test", b"a.test\0", b"a.test,b.test", b"\xc3\xa4.test", b"2001:db8::7"]
    r = client.run("allow GET https://a.test/**\nallow GET https://10.9.0.2/**\n", [clienthello.CLIENT, '''
        good = hello("a.test")
        for name in %r:
            report(first("a.test", with_name(good, name)))
        report(first("10.9.0.1", with_name(good, b"10.9.0.1")), first("10.9.0.2", with_name(good, b"10.9.0.2")), first("a.test", good))
    ''' % (addresses + malformed,)], resolve=[server.resolve(n) for n in ("10.9.0.1", "10.9.0.2", "a.test")], upstream_ca=pki.ca)
    tap.equal(r.reports, ["alert 112"] * 9 + [["alert 112", "record 22", "record 22"]])
    codes = [v["code"] for v in r.verdicts() if v["code"].startswith("sni")]
    tap.equal((codes.count("sni-address"), codes.count("sni-malformed")), (4, 6))


@tap.test
def by_http_2_and_by_a_proxy_too(t):
    """A handshake without a name at an address that no rule names, or at a name; and no credential for a name goes to an address."""
    h2.needed()
    server = t.use(RawServer(response(200, "ok"), tls=pki.leaf("IP:10.9.0.1", "a.test")))
    r = client.run("allow GET https://10.9.0.1/**\nallow GET https://a.test/**  with key\n", [h2.CLIENT, '''
        def told(f):
            try:
                report(f().status)
            except (OSError, RuntimeError) as e:
                report("none")
        told(lambda: h2("10.9.0.1", sni=None).get("/x", authority="10.9.0.1"))
        told(lambda: wrap(connect("10.9.0.1:443"), None).get("/x", host="10.9.0.1"))
        told(lambda: h2("10.9.0.1", sni=None).get("/x", authority="a.test"))
        told(lambda: wrap(connect("10.9.0.1:443"), None).get("/x", host="a.test"))
        told(lambda: h2("a.test", sni=None).get("/x"))
        told(lambda: h2("10.9.0.2", sni=None).get("/x", authority="10.9.0.2"))
        told(lambda: wrap(connect("a.test:443"), None).get("/x"))
        told(lambda: wrap(connect("10.9.0.2:443"), None).get("/x", host="10.9.0.2"))
    '''], resolve=[server.resolve(n) for n in ("10.9.0.1", "10.9.0.2", "a.test")], upstream_ca=pki.ca,
                   vault="credential key\n    for https://a.test\n    from env A_TOKEN\n    inject bearer\n", env={"A_TOKEN": "SECRET-A"})
    tap.equal(r.reports, [200, 200, 421, 421] + ["none"] * 4)
    tap.equal([(q.header("host"), q.header("authorization")) for q in server.requests], [("10.9.0.1", None)] * 2)


tap.main()
