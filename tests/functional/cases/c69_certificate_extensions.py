#!/usr/bin/env python3
"""C69: certificates that strict clients take: extensions of the root and of the leaf; an operator's root is held to the same."""
import os
import subprocess

import exeat
import pki
import raw
import tap
import work
from authority import GOOD, POLICY, certificates, openssl, operators_root


@tap.test
def root_and_leaf(t):
    root, leaf = certificates(t)
    tap.contains(openssl("verify", "-x509_strict", "-purpose", "sslserver", "-verify_hostname", "a.test", "-CAfile", root, leaf), ": OK")
    text = openssl("x509", "-in", root, "-noout", "-text")
    tap.contains(text, "X509v3 Basic Constraints: critical\n                CA:TRUE, pathlen:0")
    tap.contains(text, "X509v3 Key Usage: critical\n                Certificate Sign, CRL Sign")
    tap.contains(text, "X509v3 Subject Key Identifier:")
    key_id = text.split("X509v3 Subject Key Identifier: \n")[1].split("\n")[0].strip()
    text = openssl("x509", "-in", leaf, "-noout", "-text")
    tap.contains(text, "X509v3 Authority Key Identifier: \n                %s" % key_id)
    tap.contains(text, "X509v3 Subject Key Identifier:")
    tap.contains(text, "X509v3 Extended Key Usage: \n                TLS Web Server Authentication\n")
    tap.contains(text, "X509v3 Key Usage: critical\n                Digital Signature\n")
    tap.contains(text, "X509v3 Subject Alternative Name: \n                DNS:a.test\n")
    for path in (root, leaf):
        serial = openssl("x509", "-in", path, "-noout", "-serial").strip().partition("=")[2]
        tap.ok(16 <= len(serial) <= 40 and not serial.startswith("-"), serial)


LONG = ".".join(["l" * 60] * 4)
NAMES = {"203.0.113.9": "IP Address:203.0.113.9", "2001:db8::9": "IP Address:2001:DB8:0:0:0:0:0:9", LONG: "DNS:" + LONG,
         "under_score.a.test": "DNS:under_score.a.test", "xn--bcher-kva.test": "DNS:xn--bcher-kva.test"}


@tap.test
def leaves_for_names_of_every_kind(t):
    """An address, a name too long for a common name, one that no certificate of the public has: strict clients take each."""
    authority = pki.Pki()
    server = t.use(raw.RawServer(tls=authority.leaf(*("IP:" + name if "IP" in text else name for name, text in NAMES.items()))))
    hosts = {name: "[%s]" % name if ":" in name else name for name in NAMES}
    policy = "".join("allow GET https://%s/**\n" % host for host in hosts.values())
    r = exeat.run(policy, "; ".join(
        "echo '== %s'; openssl s_client -x509_strict -verify_return_error %s -connect '%s:443' </dev/null 2>/dev/null | openssl x509 -noout -ext "
        "subjectAltName,authorityKeyIdentifier,extendedKeyUsage 2>&1; curl -gsS -w '%%{ssl_verify_result}\\n' 'https://%s/'; "
        "python3 -c 'import ssl, urllib.request as u; c = ssl.create_default_context(); c.verify_flags |= ssl.VERIFY_X509_STRICT; "
        "print(u.urlopen(\"https://%s/\", context=c).status)'" % (
            name, "-noservername -verify_ip " + name if "IP" in NAMES[name] else "-servername %s -verify_hostname %s" % (name, name), host, host, host)
        for name, host in hosts.items()), resolve=["%s:443:127.0.0.1:%d" % (host, server.port) for host in hosts.values()], upstream_ca=authority.ca)
    parts = r.out.split("== ")[1:]
    tap.equal(len(parts), len(NAMES), r)
    for part in parts:
        name = part.split("\n")[0]
        tap.contains(part, "X509v3 Subject Alternative Name: \n    " + NAMES[name] + "\n", name)
        tap.contains(part, "X509v3 Authority Key Identifier: \n", name)
        tap.contains(part, "TLS Web Server Authentication\n", name)
        tap.ok(part.endswith("ok0\n200\n"), part)


@tap.test
def an_operators_root_is_used(t):
    state = operators_root(work.folder("state.", user=exeat.as_user(), mode=0o700), *GOOD)
    root, leaf = certificates(t, state)
    with open(os.path.join(state, "ca.pem"), encoding="ascii") as f:
        tap.equal(subprocess.run(["openssl", "x509"], input=f.read(), capture_output=True, text=True, check=True).stdout,
                  openssl("x509", "-in", root))
    tap.contains(openssl("verify", "-x509_strict", "-CAfile", root, leaf), ": OK")


@tap.test
def one_that_strict_clients_refuse_is_an_error(t):
    del t
    for extensions, says in (((GOOD[0], GOOD[1], "subjectKeyIdentifier = none"), "no subject key identifier"),
                             (("basicConstraints = CA:TRUE", GOOD[1], GOOD[2]), "basicConstraints is not critical"),
                             ((GOOD[0], GOOD[2]), "no keyUsage with keyCertSign")):
        state = operators_root(work.folder("state.", user=exeat.as_user(), mode=0o700), *extensions)
        r = exeat.run(POLICY, ["echo", "began"], state=state)
        tap.equal(r.code, 125)
        tap.contains(r.err, says)
        tap.contains(r.err, "ca.pem")
        tap.lacks(r.out, "began")


@tap.test
def a_key_that_others_can_read_is_an_error(t):
    """Told once, whoever else ends for it: the keeper's end may be seen last."""
    del t
    state = operators_root(work.folder("state.", user=exeat.as_user(), mode=0o700), *GOOD)
    os.chmod(os.path.join(state, "ca-key.pem"), 0o644)
    for _ in range(20):
        r = exeat.run(POLICY, ["echo", "began"], state=state)
        tap.equal(r.code, 125)
        tap.contains(r.err, "ca-key.pem is open to others")
        tap.equal(r.err.count("\n"), 1)
        tap.lacks(r.out, "began")


tap.main()
