#!/usr/bin/env python3
"""A method that has the server send the request back brings no credential into the sandbox."""
import exeat
import tap
from pki import Pki
from servers import RawServer, response

pki = Pki()
VAULT = "credential key\n    for https://a.test\n    from env A_TOKEN\n    inject bearer\n"


def mirror(connection, request):
    connection.send(response(200, request.head))


@tap.test
def trace_is_never_lent_a_credential(t):
    server = t.use(RawServer(mirror, tls=pki.leaf("a.test", "b.test")))
    urls = " && ".join("curl -sS -X %s https://%s.test/x; echo" % (m, h) for h in "ab" for m in ("TRACE", "TRACK", "GET"))
    r = exeat.run("allow * https://a.test/** with key\nallow * https://b.test/**\n", urls, vault=VAULT, env={"A_TOKEN": "SECRET-A"},
                  resolve=[server.resolve("a.test"), server.resolve("b.test")], upstream_ca=pki.ca)
    tap.equal([(q.header("host"), q.method) for q in server.requests],
              [("a.test", "GET"), ("b.test", "TRACE"), ("b.test", "TRACK"), ("b.test", "GET")])
    refused = r.verdicts(verdict="deny")
    tap.equal([v["method"] for v in refused], ["TRACE", "TRACK"])
    for v in refused:
        tap.contains(v["reason"], "send the request back")
        tap.equal(r.outcome_of(v)["status"], 403)
        tap.equal(v.get("credential"), None)  # a rule lends it, and it was not lent


tap.main()
