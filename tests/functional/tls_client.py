"""TLS with the client: the name that it says, what is refused before a request, and that each refusal is recorded."""
import client
import tap
from pki import Pki
from servers import RawServer, SinkServer

pki = Pki()
POLICY = "allow GET https://a.test/**\nallow GET https://10.9.0.1/**\nallow GET http://a.test/**\n"

def run(t, code, policy=POLICY, answer=None, **options):
    server = t.use(RawServer(tls=pki.leaf("a.test", "IP:10.9.0.1"), **({"answer": answer} if answer else {})))
    r = client.run(policy, code, resolve=[server.resolve("a.test"), server.resolve("10.9.0.1")],
                   upstream_ca=pki.ca, **options)
    return r, server


@tap.test
def name_dialled_sni_and_host_must_agree(t):
    r, server = run(t, '''
        for sni, host in (("a.test", "a.test"), ("a.test", "A.Test"), ("a.test", "a.test."), ("a.test", "a.test:443"),
                          ("a.test", "b.test"), ("a.test", "a.test:8443"), ("b.test", "b.test"), ("b.test", "a.test"),
                          ("a.test", "xa.test"), ("a.test", "a.test..")):
            report(sni, host, tls("a.test", sni=sni).get("/x", host=host).status)
    ''')
    got = [x[2] for x in r.reports]
    tap.equal(got, [200, 200, 200, 200, 421, 421, 421, 421, 421, 400])
    tap.equal(len(server.requests), 4)
    tap.equal({q.header("host") for q in server.requests}, {"a.test"})


@tap.test
def another_protocol_is_refused_and_recorded(t):
    r, _ = run(t, '''
        for host, port, data in (("a.test", 22, "SSH-2.0-OpenSSH_9\\r\\n"), ("a.test", 443, "SSH-2.0-OpenSSH_9\\r\\n"),
                                 ("a.test", 5432, b"\\0\\0\\0\\x08\\x04\\xd2\\x16\\x2f"), ("a.test", 80, "PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n"),
                                 ("a.test", 25, "EHLO me\\r\\n")):
            c = tcp(host, port)
            c.send(data)
            report(c.rest().decode("latin-1")[:30], c.ended)
        tcp("a.test", 443).close()
    ''')
    codes = [v["code"] for v in r.verdicts()]
    tap.equal(codes[:4], ["ssh", "ssh", "not-tls-nor-http", "http2-clear"])
    tap.equal(len(codes), 5)
    tap.ok(all(v["verdict"] == "deny" and "a.test" in v["url"] for v in r.verdicts()), r)


@tap.test
def a_client_that_does_not_trust_us_is_recorded(t):
    r, _ = run(t, '''
        c = tcp("a.test", 443)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        s = context.wrap_socket(c.sock, server_hostname="a.test", do_handshake_on_connect=False)
        try:
            s.do_handshake()
        except ssl.SSLError:
            report("refused")
        s.setblocking(True)
        try:
            while os.read(s.fileno(), 4096):
                pass
        except ConnectionError:
            pass
    ''')
    tap.equal(r.reports, ["refused"])
    tap.equal(r.verdict()["code"], "handshake-failed")
    tap.contains(r.verdict()["reason"], "unknown ca")


@tap.test
def what_stands_between_the_pieces_of_a_hello_is_no_hello(t):
    between = {"an alert": b"\x15\3\1\0\2\1\0", "a record without bytes": b"\x16\3\1\0\0", "a request": b"GET / HTTP/1.1\r\n\r\n"}
    for policy in (POLICY, POLICY + "tunnel https://pinned.test\n"):
        r, server = run(t, '''
            for between in %r:
                c = tcp("a.test", 443)
                c.send(b"\\x16\\3\\1\\0\\2\\1\\0" + between + b"\\x16\\3\\1\\0\\7\\1\\0\\3\\3xxx")
                report(c.rest().hex())
        ''' % list(between.values()), policy=policy)
        tap.equal(r.reports, [""] * len(between))
        tap.equal({(v["code"], v["reason"]) for v in r.verdicts()},
                  {("handshake-failed", "something else stands between the pieces of the ClientHello")})
        tap.equal((len(r.verdicts()), len(server.connections)), (len(between), 0))


@tap.test
def http_1_1_is_chosen_where_a_client_does_not_offer_h2(t):
    r, _ = run(t, '''
        for offer in (["http/1.0", "http/1.1"], ["http/1.1"], None, ["x", "y"]):
            c = tls("a.test", alpn=offer)
            report(c.sock.selected_alpn_protocol(), c.get("/x").status)
    ''')
    tap.equal(r.reports, [["http/1.1", 200], ["http/1.1", 200], [None, 200], [None, 200]])


@tap.test
def sessions_are_resumed_from_the_second_connection_to_a_name_on(t):
    r, _ = run(t, '''
        context = ssl.create_default_context()
        session, seen = None, []
        for _ in range(3):
            s = context.wrap_socket(socket.create_connection(("a.test", 443)), server_hostname="a.test", session=session)
            c = Connection(s)
            c.get("/x")
            seen.append(s.session_reused)
            session = s.session
            s.close()
        report(seen)
    ''')
    tap.equal(r.reports, [[False, False, True]])


@tap.test
def a_session_is_resumed_under_its_own_name_alone(t):
    r, _ = run(t, '''
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = ssl.create_default_context()
            context.maximum_version = version
            session, seen = None, []
            for name in ("a.test", "a.test", "b.test", "a.test"):
                s = context.wrap_socket(socket.create_connection((name, 443)), server_hostname=name, session=session)
                c = Connection(s)
                c.get("/x")
                seen.append(s.session_reused)
                if len(seen) == 2:
                    session = s.session
                s.close()
            report(seen)
    ''', policy="allow GET https://a.test/**\nallow GET https://b.test/**\n")
    tap.equal(r.reports, [[False, False, False, True]] * 2)


@tap.test
def clear_http_to_another_address_than_the_name_s_goes_to_the_name(t):
    evil = t.use(SinkServer())
    good = t.use(RawServer())
    r = client.run(POLICY, '''
        c = tcp("evil.test")
        c.send("GET /x HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n")
        report(c.answer().status)
        c = tcp("10.99.0.1")
        c.send("GET /x HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n")
        report(c.answer().status)
    ''', resolve=[evil.resolve("evil.test", 80), good.resolve("a.test", 80)])
    tap.equal(r.reports, [421, 200])
    tap.equal(evil.received, b"")
    tap.equal(len(good.requests), 1)


# ---- credentials ----

VAULT = """
credential key
    for     https://a.test
    from    env A_TOKEN
    inject  bearer
"""


@tap.test
def exactly_one_credential_goes_up_and_never_the_sandbox_s_own(t):
    server = t.use(RawServer(tls=pki.leaf("a.test")))
    r = client.run("allow GET,POST https://a.test/with/** with key\nallow GET https://a.test/without/**\n", '''
        own = "Authorization: Bearer X\\r\\nauthorization: Bearer Y\\r\\nX-Api-Key: X\\r\\nPROXY-AUTHORIZATION: Basic eA==\\r\\n"
        c = tls("a.test")
        report(c.get("/with/x", extra=own).status)
        report(c.get("/without/x", extra=own).status)
        c.send("POST /with/x HTTP/1.1\\r\\nHost: a.test\\r\\nTransfer-Encoding: chunked\\r\\nTrailer: Authorization\\r\\n\\r\\n"
               "2\\r\\nhi\\r\\n0\\r\\nAuthorization: Bearer X\\r\\nX-Api-Key: Y\\r\\nX-Fine: 1\\r\\n\\r\\n")
        report(c.answer().status)
    ''', vault=VAULT, env={"A_TOKEN": "SECRET-A"}, resolve=[server.resolve("a.test")], upstream_ca=pki.ca)
    tap.equal(r.reports, [200] * 3)
    with_, without, post = sorted(server.requests, key=lambda q: (q.method, "without" in q.target))
    tap.equal(with_.all("authorization"), ["Bearer SECRET-A"])
    tap.equal(without.all("authorization"), [])
    tap.equal(post.all("authorization"), ["Bearer SECRET-A"])
    tap.equal(post.trailers, ["X-Fine: 1"])
    for q in server.requests:
        tap.equal(q.all("x-api-key") + q.all("proxy-authorization"), [])
    tap.lacks(r.out + r.err, "SECRET-A")
    tap.equal([v.get("credential") for v in r.verdicts()], ["key", None, "key"])


if __name__ == "__main__":
    tap.main()
