#!/usr/bin/env python3
"""C19, its last part: a token file that ends in a line break, or holds one."""
import os

import exeat
import pki
import raw
import tap
import work

VAULT = "credential a\n    for https://a.test\n    from file token\n    inject header X-Token\n"


def run_with(t, token):
    authority = pki.Pki()
    server = t.use(raw.RawServer(tls=authority.leaf("a.test")))
    home = work.folder("home.", user=exeat.as_user(), mode=0o700)
    work.write(os.path.join(home, "token"), token, 0o600, exeat.as_user())
    r = exeat.run("allow GET https://a.test/** with a\n", ["curl", "-sS", "https://a.test/x"], vault=VAULT, home=home,
                  resolve=server.resolve("a.test"), upstream_ca=authority.ca)
    return r, server


@tap.test
def the_final_line_break_is_no_part_of_it(t):
    for end in ("", "\n", "\r\n"):
        r, server = run_with(t, "SECRET-A" + end)
        tap.equal(r.code, 0)
        tap.equal(server.requests[0].header("x-token"), "SECRET-A")
        tap.contains(server.requests[0].head.lower(), b"x-token: secret-a\r\n")


@tap.test
def any_other_starts_nothing(t):
    for token in ("SECRET-A\n\n", "SECRET-A\nX-Evil: 1", "SECRET\r-A", "SECRET-A\r", "\n", "", "SECRET\0-A"):
        r, server = run_with(t, token)
        tap.equal(r.code, 125, repr(token))
        tap.contains(r.err, "credentials:3:10: error: credential 'a': the secret ")
        tap.contains(r.err, "from file token")
        tap.lacks(r.err + r.out, "SECRET")
        tap.equal(server.requests, [])


tap.main()
