"""C13: what a host in a rule takes is what the table in policy/README.md says; other wildcards are errors with a line."""
import os

import client
import exeat
import tap
from pki import Pki
from servers import RawServer

pki = Pki()
WORDS = {"yes": True, "no": False}


def table():
    """({rule's host: {probe: whether it is taken}}) as the documentation has it."""
    with open(os.path.join(exeat.TOP, "policy/README.md"), encoding="utf-8") as f:
        rows = [[cell.strip().strip("`") for cell in line.strip().strip("|").split("|")] for line in f if line.startswith("|")]
    start = next(i for i, row in enumerate(rows) if row[0] == "Host in a rule")
    names = rows[start][1:]
    found = {}
    for row in rows[start + 2:]:
        if len(row) != len(names) + 1 or row[1] not in WORDS:
            break
        found[row[0]] = dict(zip(names, (WORDS[cell] for cell in row[1:])))
    return found


def ask(t, policy, names):
    """{name: (status, code of the verdict)} of a request to each."""
    server = t.use(RawServer(tls=pki.leaf(*names)))
    r = client.run(policy, "for name in %r:\n    report(name, tls(name).get('/x', host=name).status)\n" % (names,),
                   resolve=[server.resolve(name) for name in names], upstream_ca=pki.ca)
    tap.equal(len(r.reports), len(names))
    tap.equal(len(r.verdicts()), len(names))
    got = {name: (status, v["code"]) for (name, status), v in zip(r.reports, r.verdicts())}
    tap.equal(sorted({q.header("host") for q in server.requests}), sorted(n for n in names if got[n][0] == 200))
    return got


@tap.test
def an_allow_takes_what_the_table_says(t):
    rules = table()
    tap.ok(len(rules) >= 4 and "*.a.test" in rules, rules)
    for host, probes in rules.items():
        got = ask(t, "allow GET https://%s/**\n" % host, list(probes))
        tap.equal(got, {name: (200, "allowed") if taken else (403, "no-rule-for-host") for name, taken in probes.items()}, host)


@tap.test
def a_deny_takes_the_same(t):
    for host, probes in table().items():
        got = ask(t, "allow GET https://*/**\ndeny GET https://%s/**\n" % host, list(probes))
        tap.equal({name: status for name, (status, _) in got.items()},
                  {name: 403 if taken else 200 for name, taken in probes.items()}, host)


@tap.test
def so_do_rules_for_clear_text_and_tunnels(t):
    for host, probes in table().items():
        names = list(probes)
        plain, server = t.use(RawServer()), t.use(RawServer(tls=pki.leaf(*names)))
        r = client.run("allow GET http://%s/**\ntunnel https://%s\n" % (host, host), '''
            unread = ssl.create_default_context()
            unread.check_hostname, unread.verify_mode = False, ssl.CERT_NONE
            for name in %r:
                c = tcp(name, 443)
                try:
                    c.sock = unread.wrap_socket(c.sock, server_hostname=name)
                    status = c.get("/x", host=name).status
                except OSError:
                    status = 0
                report(name, tcp(name).get("/x", host=name).status, status == 200)
        ''' % (names,), resolve=[plain.resolve(n, 80) for n in names] + [server.resolve(n) for n in names], upstream_ca=pki.ca)
        tap.equal(r.reports, [[name, 200 if taken else 403, taken] for name, taken in probes.items()], host)
        tap.equal({q.header("host") for q in plain.requests}, {n for n in names if probes[n]})
        tap.equal({c.sni for c in server.connections}, {n for n in names if probes[n]})


@tap.test
def spelling_makes_no_difference(t):
    server = t.use(RawServer(tls=pki.leaf("x.a.test")))
    r = client.run("allow GET https://*.A.Test/**\n", '''
        for name in ("X.A.TEST", "x.a.test.", "x.a.test:443"):
            report(tls("x.a.test").get("/x", host=name).status)
    ''', resolve=[server.resolve("x.a.test")], upstream_ca=pki.ca)
    tap.equal(r.reports, [200] * 3)


BAD = ("*a.test", "a.*", "x.*.test", "*.*.test", "a*.test", "*.", "**.a.test", "a.test.*", "x*", "*x", "*..a.test", ".a.test")


@tap.test
def other_wildcards_are_errors_with_their_line():
    for i, host in enumerate(BAD):
        rule = "%s GET https://%s/\n" % ("deny" if i % 2 else "allow", host)
        r = exeat.run("# a comment\nallow GET https://ok.test/\n" + rule, ["echo", "it ran"])
        tap.equal((r.code, r.out), (125, ""), host)
        tap.contains(r.err, "test.policy:3:", host)


tap.main()
