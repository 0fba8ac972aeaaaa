"""C04: a credential goes to the machine that exeat found for the name, wherever the client has dialled."""
import netns

netns.enter(addresses=["203.0.113.4/24", "203.0.113.66/24", "203.0.113.53/24", "2001:db8::4/64", "2001:db8::66/64"], resolv="nameserver 203.0.113.53\n")

# pylint: disable=wrong-import-position
import client
import h2
import tap
from pki import Pki
from servers import DnsServer, RawServer, response

pki = Pki()
POLICY = "allow GET,POST https://a.test/**  with bound\nallow GET http://a.test/**\n"
VAULT = "credential bound\n    for https://a.test\n    from env EXEAT_TEST_TOKEN\n    inject bearer\n"
SECRET = "SECRET-A-0123456789"


def attack(t, code, true="203.0.113.4", policy=POLICY):
    """Runs the client's code beside the true host and a wrong one; returns the result and both, ports 80 and 443."""
    t.use(DnsServer({"a.test": [true]}, address="203.0.113.53", port=53))
    good = [t.use(RawServer(response(200, "good"), address=true, port=80)),
            t.use(RawServer(response(200, "good"), address=true, port=443, tls=pki.leaf("a.test")))]
    evil = [t.use(RawServer(response(200, "evil"), address=address, port=port, tls=pki.leaf("a.test") if tls else None))
            for address in ("203.0.113.66", "2001:db8::66") for port, tls in ((80, False), (443, True), (8443, True))]
    r = client.run(policy, code, vault=VAULT, upstream_ca=pki.ca, env={"EXEAT_TEST_TOKEN": SECRET})
    return r, good, evil


def untouched(evil):
    for server in evil:
        tap.equal(len(server.connections), 0, "connections to the wrong machine")


@tap.test
def the_credential_goes_to_the_true_host(t):
    r, good, evil = attack(t, '''
        c = tls("a.test")
        report(c.get("/x").body.decode())
    ''')
    tap.equal(r.reports, ["good"])
    tap.equal(good[1].requests[0].all("authorization"), ["Bearer " + SECRET])
    untouched(evil)


@tap.test
def a_host_field_does_not_lead_to_the_dialled_address_in_clear_text(t):
    r, good, evil = attack(t, '''
        c = tcp("203.0.113.66", 80)
        c.send("GET /x HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n")
        a = c.answer()
        report(a.status, a.body.decode("latin-1"))
    ''')
    tap.ok("evil" not in str(r.reports[0]), "the wrong machine has answered")
    untouched(evil)
    for server in good:
        tap.ok(SECRET.encode() not in server.received, "the token went out in clear text")


@tap.test
def nor_does_a_server_name_over_tls(t):
    r, _, evil = attack(t, '''
        for port in (443, 8443):
            try:
                c = tls("203.0.113.66", port, sni="a.test")
                a = c.get("/x")
                report(a.status, a.body.decode("latin-1"))
            except OSError as e:
                report("refused", str(e))
    ''')
    for got in r.reports:
        tap.ok("evil" not in str(got), "the wrong machine has answered")
    untouched(evil)


@tap.test
def nor_does_an_address_of_the_clients_own_in_its_hosts_file(t):
    r, _, evil = attack(t, '''
        # the sandbox's own idea of a.test, as an attacker inside would have it
        s = socket.create_connection(("203.0.113.66", 443), 5)
        c = wrap(Connection(s), "a.test")
        a = c.get("/x", method="POST", extra="Content-Length: 0\\r\\n")
        report(a.status, a.body.decode("latin-1"))
    ''')
    tap.ok("evil" not in str(r.reports), "the wrong machine has answered")
    untouched(evil)


def every_way(t, true):
    """To the wrong machine by IPv4 and by IPv6, by either version of HTTP, and by a proxy's forms."""
    h2.needed()
    r, good, evil = attack(t, [h2.CLIENT, '''
        def told(f):
            try:
                a = f()
                report(a.status, a.body.decode("latin-1"))
            except (OSError, RuntimeError) as e:
                report("refused", str(e))
        def proxied(target, host):
            c = tcp("proxy.test", 3128)
            c.send("GET %s HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n" % (target, host))
            return c.answer()
        for address in ("203.0.113.66", "2001:db8::66"):
            literal = "[%s]" % address if ":" in address else address
            told(lambda: tcp(address, 80).get("/x"))
            for port in (443, 8443):
                told(lambda: tls(address, port, sni="a.test").get("/x"))
                told(lambda: h2(address, port, sni="a.test").get("/x"))
                told(lambda: wrap(connect("%s:%d" % (literal, port)), "a.test").get("/x"))
            told(lambda: proxied("http://%s/x" % literal, "a.test"))
            told(lambda: proxied("http://a.test/x", literal))
        told(lambda: wrap(connect("a.test:443"), "a.test").get("/x"))
    '''], true)
    tap.equal(r.reports.pop(), [200, "good"])
    tap.equal(len(r.reports), 18)
    tap.ok("evil" not in str(r.reports), "the wrong machine has answered: %r" % (r.reports,))
    untouched(evil)
    tap.equal([q.all("authorization") for q in good[1].requests if q.all("authorization")][-1:], [["Bearer " + SECRET]])
    tap.ok(SECRET.encode() not in good[0].received, "the token went out in clear text")


@tap.test
def nor_does_any_other_way_where_the_true_host_has_ipv4(t):
    every_way(t, "203.0.113.4")


@tap.test
def nor_where_it_has_ipv6(t):
    every_way(t, "2001:db8::4")


tap.main()
