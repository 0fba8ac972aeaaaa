#!/usr/bin/env python3
"""`exeat run` in a sandbox of exeat: what it needs there is told, and with that it works."""
import os

import exeat
import tap
import work
from pki import Pki
from servers import RawServer, response

pki = Pki()
RULE = "allow GET https://a.test/**"


def inside(t, options, rule=RULE, **more):
    server = t.use(RawServer(response(200, "it is served"), tls=pki.leaf("a.test")))
    folder = work.folder("inner.", user=exeat.as_user(more.get("user")), mode=0o700)
    work.write(os.path.join(folder, "inner.policy"), rule + "\n", 0o644, exeat.as_user(more.get("user")))
    command = "cd %s; %s run %s -p inner.policy -- curl -sS https://a.test/x; echo status $?; %s doctor" % (
        folder, exeat.program(), options, exeat.program())
    return exeat.run(RULE + "\n", command, resolve=server.resolve("a.test"), upstream_ca=pki.ca, **more)


@tap.test
def without_a_state_directory_it_is_told_what_it_needs(t):
    for options in ("", "--log inner.jsonl"):
        r = inside(t, options)
        tap.contains(r.out, "status 125\n")
        tap.equal(len(r.err.splitlines()), 1)
        for words in ("exeat: this is a sandbox of exeat already", "--state DIR", "`to private`"):
            tap.contains(r.err, words)


@tap.test
def with_all_that_it_works(t):
    r = inside(t, "--state inner", RULE)
    tap.contains(r.out, "a private address")
    r = inside(t, "--state inner", RULE + " to private")
    tap.contains(r.out, "it is servedstatus 0\n")
    tap.contains(r.out, "nothing stands in the way")
    tap.equal((r.err, len(r.verdicts())), ("", 1))


@tap.test
def in_roots_there_is_no_way_and_that_is_told(t):
    if os.geteuid() != 0:
        tap.skip("not root")
    r = inside(t, "--state inner", RULE + " to private", user="root")
    told = "this is a sandbox that root started, in which parts of /proc are covered: no other can be made in it; "
    tap.contains(r.out, "status 125\n")
    tap.contains(r.err, told)
    tap.contains(r.out, "to do: " + told)


tap.main()
