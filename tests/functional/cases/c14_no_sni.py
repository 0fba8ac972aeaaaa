"""C14: TLS without a name is refused for that reason; a rule that names the address may allow it, and it is verified."""
import exeat
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


tap.main()
