"""A certificate authority for upstream servers of the tests, by the openssl command."""
import os
import subprocess

import work


def _openssl(*args, cwd):
    run = subprocess.run(("openssl",) + args, cwd=cwd, capture_output=True, check=False)
    if run.returncode != 0:
        raise AssertionError("openssl %s: %s" % (" ".join(args), run.stderr.decode()))
    return run.stdout


class Pki:
    """An authority and the leaves that it signs. `ca` is the path of its certificate."""

    def __init__(self, name="exeat test CA"):
        self.dir = work.folder("pki.")
        self.ca = os.path.join(self.dir, "ca.pem")
        self.key = os.path.join(self.dir, "ca.key")
        self.count = 0
        self.made = {}
        _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
                 "-subj", "/CN=" + name, "-keyout", self.key, "-out", self.ca,
                 "-addext", "basicConstraints=critical,CA:TRUE",
                 "-addext", "keyUsage=critical,keyCertSign,cRLSign", cwd=self.dir)

    def leaf(self, *names, expired=False, future=False, self_signed=False, rsa=False):
        """(certificate, key) paths for these names; "IP:127.0.0.1" is an address. The certificate's
        file holds the chain. expired and future move its dates; self_signed leaves us out of it."""
        what = (names, expired, future, self_signed, rsa)
        if what not in self.made:
            self.made[what] = self._make(*what)
        return self.made[what]

    def _make(self, names, expired, future, self_signed, rsa):
        self.count += 1
        stem = os.path.join(self.dir, "leaf%d" % self.count)
        cert, key, request, config = (stem + s for s in (".pem", ".key", ".csr", ".cnf"))
        sans = ",".join(n if n.startswith("IP:") else "DNS:" + n for n in names)
        work.write(config, LEAF % {"dir": self.dir, "sans": sans, "stem": stem})
        for name, text in (("index", ""), ("serial", "%02X\n" % (0x1000 + self.count))):
            work.write("%s.%s" % (stem, name), text)
        kind = ["rsa:2048"] if rsa else ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        _openssl("req", "-new", "-newkey", *kind, "-nodes", "-subj", "/CN=" + names[0][:60],
                 "-config", config, "-keyout", key, "-out", request, cwd=self.dir)
        dates = ["-startdate", "20200101000000Z", "-enddate", "20200201000000Z"] if expired else \
                ["-startdate", "20990101000000Z", "-enddate", "20990201000000Z"] if future else ["-days", "30"]
        signer = ["-selfsign", "-keyfile", key] if self_signed else ["-cert", self.ca, "-keyfile", self.key]
        _openssl("ca", "-batch", "-notext", "-config", config, "-in", request, "-out", cert, *dates, *signer,
                 cwd=self.dir)
        if not self_signed:
            with open(cert, "ab") as out, open(self.ca, "rb") as ca:
                out.write(ca.read())
        os.chmod(key, 0o644)
        return cert, key


LEAF = """
[req]
distinguished_name = dn
prompt = no
[dn]
[ca]
default_ca = us
[us]
new_certs_dir = %(dir)s
database = %(stem)s.index
serial = %(stem)s.serial
default_md = sha256
policy = any
x509_extensions = leaf
unique_subject = no
[any]
commonName = supplied
[leaf]
subjectAltName = %(sans)s
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature,keyEncipherment
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""
