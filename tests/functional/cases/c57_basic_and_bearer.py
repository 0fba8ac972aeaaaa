#!/usr/bin/env python3
"""C57: one forge wants Basic for git and Bearer for its interface; two hosts of one service want one each."""
import base64

import exeat
import pki
import raw
import tap

BASIC = "Basic " + base64.b64encode(b"x-access-token:SECRET-A").decode()
BEARER = "Bearer SECRET-A"
ADVERTISED = "001e# service=git-upload-pack\n0000" "0047%s capabilities^{}\0agent=git\n0000" % ("0" * 40)


def strict(connection, request):
    """401 for any but the form that this place wants."""
    wanted = BASIC if ".git/" in request.target or request.header("host") == "github.test" else BEARER
    good = request.all("authorization") == [wanted]
    answer = raw.response(200, "good\n")
    if ".git/" in request.target:
        answer = raw.response(200, ADVERTISED, [("Content-Type", "application/x-git-upload-pack-advertisement")])
    connection.send(answer if good else raw.response(401, "bad\n", reason="Unauthorized"))


def run(t, vault, urls, policy):
    authority = pki.Pki()
    names = ("g.test", "github.test", "api.github.test")
    server = t.use(raw.RawServer(tls=authority.leaf(*names), answer=strict))
    r = exeat.run(policy, " && ".join("curl -sS '%s'" % u for u in urls), vault=vault, env={"TOKEN": "SECRET-A"},
                  resolve=[server.resolve(n) for n in names], upstream_ca=authority.ca)
    return r, server


@tap.test
def by_path(t):
    vault = "credential g\n    for https://g.test\n    from env TOKEN\n" \
            "    inject basic x-access-token for https://g.test/**.git/**\n    inject bearer for https://g.test/api/**\n"
    policy = "allow fetch https://g.test/** with g\nallow GET https://g.test/** with g\n"
    r, server = run(t, vault, ["https://g.test/a/r.git/info/refs?service=git-upload-pack", "https://g.test/api/v4/user"], policy)
    tap.contains(r.out, "# service=git-upload-pack\n")
    tap.contains(r.out, "good\n")
    tap.lacks(r.out, "bad")
    r, server = run(t, vault, ["https://g.test/elsewhere"], policy)
    tap.equal(server.requests, [], "no form is for this path: nothing may go there in the credential's name")
    tap.contains(r.out, "has no form for this path")


@tap.test
def by_host(t):
    vault = "credential github\n    for https://github.test https://api.github.test\n    from env TOKEN\n" \
            "    inject basic x-access-token for https://github.test\n    inject bearer for https://api.github.test\n"
    r, _ = run(t, vault, ["https://github.test/x", "https://api.github.test/user"],
               "allow GET https://github.test/** with github\nallow GET https://api.github.test/** with github\n")
    tap.equal(r.out, "good\ngood\n")


@tap.test
def two_keys_are_needed(t):
    """A policy alone sends a secret nowhere: another host, another port, plain http."""
    vault = "credential g\n    for https://g.test\n    from env TOKEN\n    inject bearer\n"
    for url in ("https://github.test/x", "https://g.test:8443/x", "http://g.test/x"):
        authority = pki.Pki()
        tls = None if url.startswith("http:") else authority.leaf("g.test", "github.test")
        server = t.use(raw.RawServer(tls=tls))
        place = url.split("/")[2].split(":")
        port = int(place[1]) if len(place) > 1 else 80 if tls is None else 443
        r = exeat.run("allow GET %s with g\n" % url, ["curl", "-sS", url], vault=vault, env={"TOKEN": "SECRET-A"},
                      resolve=server.resolve(place[0], port), upstream_ca=authority.ca)
        tap.equal(server.requests, [], url)
        tap.contains(r.out, "is not for ")
        verdict = r.verdicts()[0]
        tap.equal(verdict["verdict"], "deny")
        tap.lacks(r.out + r.err, "SECRET-A")


tap.main()
