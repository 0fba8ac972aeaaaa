"""One connection of HTTP/2 to a server for several of its names (RFC 9113 9.1.1), and when it is not shared."""
import struct

import client
import h2
import tap
from forgeserver import Forge
from h2server import FrameServer, GOAWAY, NodeServer
from pki import Pki
from servers import ProxyServer

h2.needed(tap.skip_all)
pki = Pki()
POLICY = "".join("allow GET,POST https://%s/ok**\n" % n for n in ("a.test", "b.test", "c.w.test"))
BOTH = ("a.test", "b.test", "*.w.test")
ORIGIN = 12  # RFC 8336
ASK = '''
def ask(name, path):
    return h2(name).get(path, authority=name).status
'''
EACH = '''
    report([ask(name, "/ok/" + name) for name in ("a.test", "b.test", "c.w.test")])
'''


def sessions(server, n):
    """[(name, number of the server's connection)]"""
    return [(q["headers"][":authority"], q["session"]) for q in server.requests(n)]


def through(t, code, policy=POLICY, words=(), leaf=BOTH, resolve=(), **options):
    server = t.use(NodeServer(pki.leaf(*leaf), *words))
    names = list(resolve) + [server.resolve(n) for n in ("a.test", "b.test", "c.w.test") if not any(n in r for r in resolve)]
    r = client.run(policy, [h2.CLIENT, ASK, code], resolve=names, upstream_ca=pki.ca, **options)
    return r, server


@tap.test
def names_at_one_address_with_one_certificate_share_a_connection(t):
    r, server = through(t, EACH + '''
    report(tls("b.test").get("/ok/again", "b.test").status)
    ''')
    tap.equal(r.reports, [[200] * 3, 200])
    tap.equal(sessions(server, 4), [("a.test", 1), ("b.test", 1), ("c.w.test", 1), ("b.test", 1)])
    tap.equal([(v["url"], v["verdict"]) for v in r.verdicts()],
              [("https://%s/ok/%s" % (n, w), "allow") for n, w in
               (("a.test", "a.test"), ("b.test", "b.test"), ("c.w.test", "c.w.test"), ("b.test", "again"))])
    tap.equal([o["upstream_protocol"] for o in r.outcomes()], ["h2"] * 4)


@tap.test
def each_request_is_judged_for_its_own_name(t):
    r, server = through(t, EACH, policy="allow GET https://a.test/ok**\nallow GET https://c.w.test/other**\n")
    tap.equal(r.reports, [[200, 403, 403]])
    tap.equal(sessions(server, 1), [("a.test", 1)])


@tap.test
def a_certificate_for_other_names_is_not_enough(t):
    r, server = through(t, EACH, leaf=("a.test", "*.w.test"))
    tap.equal(r.reports, [[200, 502, 200]])
    tap.equal(sessions(server, 2), [("a.test", 1), ("c.w.test", 1)])
    tap.equal(r.outcomes()[1]["code"], "upstream-certificate")
    r, server = through(t, EACH, leaf=("a.test", "b.test", "w.test"))
    tap.equal(r.reports, [[200, 200, 502]])
    tap.equal(sessions(server, 2), [("a.test", 1), ("b.test", 1)])


@tap.test
def a_name_that_leads_elsewhere_goes_there(t):
    other = t.use(NodeServer(pki.leaf(*BOTH)))
    r, server = through(t, EACH, resolve=[other.resolve("b.test")])
    tap.equal(r.reports, [[200] * 3])
    tap.equal(sessions(server, 2), [("a.test", 1), ("c.w.test", 1)])
    tap.equal(sessions(other, 1), [("b.test", 1)])


@tap.test(timeout=120)
def the_very_address_counts(t):
    # so many that some share a place in the index with the address that is connected to
    server = t.use(NodeServer(pki.leaf(*BOTH)))
    elsewhere = ["n%d.w.test:443:127.0.%d.2:%d" % (i, i, server.port) for i in range(250)]
    r = client.run("allow GET https://a.test/ok**\nallow GET https://*.w.test/ok**\n", [h2.CLIENT, ASK, '''
        report(ask("a.test", "/ok/1"))
        report([ask("n%d.w.test" % i, "/ok/1") for i in range(250)] == [502] * 250)
        report(ask("c.w.test", "/ok/2"))
    '''], resolve=[server.resolve(n) for n in ("a.test", "c.w.test")] + elsewhere, upstream_ca=pki.ca)
    tap.equal(r.reports, [200, True, 200])
    tap.equal(len(server.seen), 2)


@tap.test
def another_port_is_another_server(t):
    server = t.use(NodeServer(pki.leaf(*BOTH)))
    r = client.run("allow GET https://a.test/ok**\nallow GET https://b.test:8443/ok**\n", [h2.CLIENT, ASK, '''
        report(ask("a.test", "/ok/1"), h2("b.test", 8443).get("/ok/2", authority="b.test:8443").status)
    '''], resolve=[server.resolve("a.test"), server.resolve("b.test", 8443)], upstream_ca=pki.ca)
    tap.equal(r.reports, [[200, 200]])
    tap.equal(sessions(server, 2), [("a.test", 1), ("b.test:8443", 2)])


@tap.test
def rules_that_lead_elsewhere_share_nothing(t):
    r, server = through(t, EACH, policy=POLICY.replace("b.test/ok**", "b.test/ok** to 10.0.0.0/8"))
    tap.equal(r.reports, [[200] * 3])
    tap.equal(sessions(server, 3), [("a.test", 1), ("b.test", 2), ("c.w.test", 1)])


@tap.test
def a_connection_through_a_proxy_is_its_own_names(t):
    server = t.use(NodeServer(pki.leaf(*BOTH)))
    way = t.use(ProxyServer({"127.0.0.1:%d" % server.port: ("127.0.0.1", server.port)}))
    r, _ = through(t, EACH, resolve=[server.resolve(n) for n in ("a.test", "b.test", "c.w.test")],
                   env={"https_proxy": "http://127.0.0.1:%d" % way.port})
    tap.equal(r.reports, [[200] * 3])
    tap.equal(sessions(server, 3), [("a.test", 1), ("b.test", 2), ("c.w.test", 3)])
    tap.equal([q.method for q in way.requests], ["CONNECT"] * 3)


@tap.test
def a_connection_that_goes_away_or_names_its_origins_takes_no_other(t):
    goaway = struct.pack(">II", 1, 0)
    origin = struct.pack(">H", 14) + b"https://a.test"
    for kind, payload in ((GOAWAY, goaway), (ORIGIN, origin)):
        served = []

        def serve(f, number, kind=kind, payload=payload, served=served):
            while True:
                stream = f.request()
                served.append(number)
                f.frame(kind, 0, 0, payload)
                f.answer(stream)
        server = t.use(FrameServer(serve, tls=pki.leaf(*BOTH)))
        r = client.run(POLICY, [h2.CLIENT, ASK, EACH], resolve=[server.resolve(n) for n in ("a.test", "b.test", "c.w.test")],
                       upstream_ca=pki.ca)
        tap.equal(r.reports, [[200] * 3])
        tap.equal(served, [0, 1, 2])


@tap.test
def who_is_misdirected_is_asked_again_on_a_connection_of_its_own(t):
    r, server = through(t, '''
        report(ask("a.test", "/ok/1"))
        c = h2("b.test")
        report([c.get("/ok/%d" % i, authority="b.test").status for i in (2, 3)])
        c = tls("c.w.test")
        c.send("POST /ok/4 HTTP/1.1\\r\\nHost: c.w.test\\r\\nContent-Length: 5\\r\\n\\r\\nhello")
        report(c.answer().status)
        report(ask("a.test", "/ok/5"))
    ''', words=["strict"])
    tap.equal(r.reports, [200, [200, 200], 200, 200])
    seen = server.requests(7)
    tap.equal([(q["path"], q["session"], q["body"]) for q in seen],
              [("/ok/1", 1, ""), ("/ok/2", 1, ""), ("/ok/2", 2, ""), ("/ok/3", 2, ""), ("/ok/4", 2, "hello"),
               ("/ok/4", 3, "hello"), ("/ok/5", 1, "")])
    tap.equal([o["status"] for o in r.outcomes()], [200] * 5)


@tap.test
def also_when_the_server_says_so_after_an_interim_answer(t):
    r, server = through(t, '''
        report(ask("a.test", "/ok/1"))
        a = tls("b.test").get("/ok/interim", "b.test")
        report(a.status, a.body.decode(), a.interim)
        c = tls("c.w.test")
        c.send("POST /ok/interim HTTP/1.1\\r\\nHost: c.w.test\\r\\nContent-Length: 5\\r\\n\\r\\nhello")
        report(c.answer().status)
        report(h2("b.test").get("/ok/interim", authority="b.test").status)
    ''', words=["strict"])
    tap.equal(r.reports, [200, [200, "late", [103, 103]], 200, 200])
    tap.equal([(q["headers"][":authority"], q["session"], q["body"]) for q in server.requests(6)],
              [("a.test", 1, ""), ("b.test", 1, ""), ("b.test", 2, ""), ("c.w.test", 2, "hello"), ("c.w.test", 3, "hello"),
               ("b.test", 2, "")])
    tap.equal([o["status"] for o in r.outcomes()], [200] * 4)


@tap.test
def so_is_what_exeat_asks_itself(t):
    for word in ("errands", "late"):
        hub = t.use(Forge(tls=pki.leaf("api.github.com")))
        server = t.use(NodeServer(pki.leaf("a.test", "api.github.com"), "only", "errands", word, "to=%d" % hub.port))
        r = client.run("allow GET https://a.test/**\nallow PUT https://api.github.com/** with hub\n"
                       "allow push https://github.com/acme/app refs/heads/main\n", [h2.CLIENT, ASK, '''
            ask("a.test", "/ok/1")
            c = tls("api.github.com")
            c.send("PUT /repos/acme/app/pulls/7/merge HTTP/1.1\\r\\nHost: api.github.com\\r\\nContent-Length: 0\\r\\n\\r\\n")
            report(c.answer().status)
        '''], resolve=[server.resolve(n) for n in ("a.test", "api.github.com")], upstream_ca=pki.ca, env={"HUB_TOKEN": "SECRET-A"},
                       vault="credential hub\n    for https://api.github.com\n    from env HUB_TOKEN\n    inject bearer\n")
        tap.equal(r.reports, [200], str(r))
        tap.equal([(q["path"].split("/")[-1], q["session"], q["headers"].get("authorization")) for q in server.requests(4)],
                  [("1", 1, None), ("7", 1, "Bearer SECRET-A"), ("7", 2, "Bearer SECRET-A"), ("merge", 2, "Bearer SECRET-A")])
        tap.equal([path for _, path, _ in hub.asked], ["/repos/acme/app/pulls/7"])


@tap.test
def what_cant_be_sent_again_is_told_and_not_shared_again(t):
    r, server = through(t, '''
        report(ask("a.test", "/ok/1"))
        c = h2("b.test")
        up = c.request("/ok/2", method="POST", end=False, authority="b.test")
        c.push(up, 200000)
        c.data(up, b"", end=True)
        a = c.answer(up)
        report(a.status, a.body.decode())
        report(c.get("/ok/3", authority="b.test").status)
    ''', words=["strict"])
    tap.equal(r.reports, [200, [421, "not here"], 200])
    tap.equal([(q["path"], q["session"], q["length"]) for q in server.requests(3)],
              [("/ok/1", 1, 0), ("/ok/2", 1, 200000), ("/ok/3", 2, 0)])


@tap.test
def a_misdirected_one_of_a_names_own_connection_passes(t):
    r, server = through(t, '''
        report(ask("a.test", "/ok/1"))
    ''', words=["strict", "never"])
    tap.equal(r.reports, [421])
    tap.equal(sessions(server, 1), [("a.test", 1)])


@tap.test
def a_credential_goes_with_its_own_name_alone(t):
    vault = "credential token\n    for     https://a.test\n    from    env TOKEN\n    inject  bearer\n"
    r, server = through(t, '''
        for i in range(3):
            for name in ("a.test", "b.test"):
                report(ask(name, "/ok/%d" % i))
    ''', policy=POLICY.replace("a.test/ok**", "a.test/ok** with token"), vault=vault, env={"TOKEN": "SECRET-A"})
    tap.equal(r.reports, [200] * 6)
    tap.equal([(q["headers"][":authority"], q["headers"].get("authorization"), q["session"]) for q in server.requests(6)],
              [("a.test", "Bearer SECRET-A", 1), ("b.test", None, 1)] * 3)


if __name__ == "__main__":
    tap.main()
