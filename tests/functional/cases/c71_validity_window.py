#!/usr/bin/env python3
"""C71: how long certificates are good: not too long, from a day ago, never beyond the root. (Expiry in the cache: tests/unit/test_ca_leaf.c.)"""
import datetime
import os
import shutil

import exeat
import pki
import raw
import tap
import work
from authority import GOOD, certificates, openssl, operators_root


def dates(path):
    found = {}
    for line in openssl("x509", "-in", path, "-noout", "-dates").splitlines():
        name, _, value = line.partition("=")
        found[name] = datetime.datetime.strptime(value, "%b %d %H:%M:%S %Y GMT").replace(tzinfo=datetime.timezone.utc)
    return found["notBefore"], found["notAfter"]


@tap.test
def the_window(t):
    root, leaf = certificates(t)
    now = datetime.datetime.now(datetime.timezone.utc)
    begin, end = dates(leaf)
    tap.ok(end - begin <= datetime.timedelta(days=90), (begin, end))
    tap.ok(begin <= now - datetime.timedelta(hours=23, minutes=55), begin)
    root_begin, root_end = dates(root)
    tap.ok(root_begin <= begin and end <= root_end)
    # clients whose clocks are half a day behind or ahead
    for hours in (-12, 12):
        at = int((now + datetime.timedelta(hours=hours)).timestamp())
        tap.contains(openssl("verify", "-x509_strict", "-attime", str(at), "-CAfile", root, leaf), ": OK")


@tap.test
def a_root_that_ends_tomorrow(t):
    """A leaf does not outlive it."""
    state = operators_root(work.folder("state.", user=exeat.as_user(), mode=0o700), *GOOD, days="1")
    root, leaf = certificates(t, state)
    tap.equal(dates(leaf)[1], dates(root)[1])
    tap.ok(dates(leaf)[0] >= dates(root)[0])


@tap.test
def the_same_root_from_run_to_run(t):
    state = work.folder("state.", user=exeat.as_user(), mode=0o700)
    one, other = (openssl("x509", "-in", certificates(t, state)[0], "-noout", "-fingerprint") for _ in range(2))
    tap.equal(one, other)
    tap.equal(sorted(os.listdir(state)), ["ca-key.pem", "ca.pem"])
    tap.equal(os.stat(os.path.join(state, "ca-key.pem")).st_mode & 0o777, 0o600)


CLIENTS = {
    "curl": "curl -sS https://a.test/",
    "wget": "wget -q -O - https://a.test/",
    "openssl": "printf 'GET / HTTP/1.1\\r\\nHost: a.test\\r\\nConnection: close\\r\\n\\r\\n' | "
               "openssl s_client -quiet -x509_strict -verify_return_error -connect a.test:443 -servername a.test 2>/dev/null | tail -1",
    "python3": "python3 -c 'import urllib.request as u; print(u.urlopen(\"https://a.test/\").read().decode())'",
    "node": "node -e 'fetch(\"https://a.test/\").then(r => r.text()).then(console.log)'",
}


@tap.test
def clients_whose_clocks_are_wrong(t):
    """Half a day behind, and ahead: each of them, under a root that is new, and under one that has been there"""
    work.need("faketime")
    authority = pki.Pki()
    server = t.use(raw.RawServer(tls=authority.leaf("a.test"), answer=raw.response(200, "hello")))
    state = work.folder("state.", user=exeat.as_user(), mode=0o700)
    for name, command in CLIENTS.items():
        if shutil.which(name):
            for shift, kept in (("-12h", None), ("+12h", state)):
                r = exeat.run("allow GET https://a.test/**\n", ["faketime", "-f", shift, "sh", "-c", command],
                              resolve=server.resolve("a.test"), upstream_ca=authority.ca, state=kept)
                tap.equal(r.out.strip(), "hello", "%s %s" % (name, shift))


tap.main()
