#!/usr/bin/env python3
"""C56: a client that sends a placeholder as its password, in base64 as git does: the header is replaced, not searched."""
import base64

import exeat
import pki
import raw
import servers
import tap

VAULT = "credential g\n    for https://g.test\n    from env TOKEN\n    inject basic x-access-token\n"
POLICY = "allow fetch https://g.test/** with g\nallow GET https://g.test/** with g\n"
HELPER = "!f(){ echo username=x; echo password=PLACEHOLDER; };f"


@tap.test
def git_with_a_credential_helper(t):
    """The server asks; git answers with the placeholder; the server sees the secret alone."""
    authority = pki.Pki()
    git = t.use(servers.GitServer(tls=authority.leaf("g.test"), users={"x-access-token": "SECRET-A"}))
    git.create("r.git")
    for url in ("https://g.test/r.git", "https://x:PLACEHOLDER@g.test/r.git"):
        r = exeat.run(POLICY, ["git", "-c", "credential.helper=" + HELPER, "ls-remote", url], vault=VAULT,
                      env={"TOKEN": "SECRET-A"}, resolve=git.resolve("g.test"), upstream_ca=authority.ca)
        tap.equal(r.code, 0)
        tap.contains(r.out, "refs/heads/main")
    wanted = "Basic " + base64.b64encode(b"x-access-token:SECRET-A").decode()
    tap.ok(git.hits)
    for hit in git.hits:
        tap.equal(hit.authorization, [wanted])
        tap.equal(hit.status, 200)


@tap.test
def whatever_its_shape(t):
    authority = pki.Pki()
    server = t.use(raw.RawServer(tls=authority.leaf("g.test")))
    shapes = ["-u x:PLACEHOLDER", "-H 'Authorization: Bearer PLACEHOLDER'", "-H 'Authorization: token PLACEHOLDER'",
              "-H 'authorization: Basic %s'" % base64.b64encode(b"PLACEHOLDER:").decode(), ""]
    r = exeat.run(POLICY, " && ".join("curl -sSf %s https://g.test/x" % s for s in shapes), vault=VAULT,
                  env={"TOKEN": "SECRET-A"}, resolve=server.resolve("g.test"), upstream_ca=authority.ca)
    tap.equal(r.code, 0)
    tap.equal(len(server.requests), len(shapes))
    for request in server.requests:
        tap.equal(request.header("authorization"), "Basic " + base64.b64encode(b"x-access-token:SECRET-A").decode())
        tap.lacks(request.head, b"PLACEHOLDER")
        tap.lacks(request.head, base64.b64encode(b"PLACEHOLDER:"))


tap.main()
