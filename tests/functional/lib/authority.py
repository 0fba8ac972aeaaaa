"""exeat's own certificates as a client gets them, and a root of the operator's in their place."""
import os

import exeat
import pki
import raw
import tap
import work

POLICY = "allow GET https://a.test/**\n"


def openssl(*args, stdin=None):
    return work.sh("openssl", *args, stdin=stdin)


def certificates(t, state=None, names=("a.test",)):
    """Texts of the root and of the leaf for a.test that a client gets."""
    authority = pki.Pki()
    server = t.use(raw.RawServer(tls=authority.leaf(*names)))
    r = exeat.run(POLICY, "curl -sS http://exeat.internal/ca.pem; echo; echo | openssl s_client -connect a.test:443 -servername a.test "
                          "2>/dev/null | openssl x509", resolve=server.resolve("a.test"), upstream_ca=authority.ca, state=state)
    parts = [p + "-----END CERTIFICATE-----\n" for p in r.out.split("-----END CERTIFICATE-----\n")[:-1]]
    tap.equal(len(parts), 2, r)
    folder = work.folder()
    return tuple(work.write(os.path.join(folder, n), p.strip() + "\n") for n, p in zip(("root.pem", "leaf.pem"), parts))


def operators_root(folder, *extensions, days="900"):
    """A root of the operator's own in a state folder."""
    names = [os.path.join(folder, n) for n in ("ca-key.pem", "ca.pem")]
    config = work.write(os.path.join(folder, "conf"), "[req]\ndistinguished_name = dn\nx509_extensions = ext\nprompt = no\n"
                        "[dn]\nCN = the operator's own\n[ext]\n" + "\n".join(extensions) + "\n")
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", days, "-config", config,
            "-keyout", names[0], "-out", names[1])
    os.unlink(config)
    os.chmod(names[0], 0o600)
    for path in names:
        work.give(path, exeat.as_user())
    return folder


GOOD = ("basicConstraints = critical,CA:TRUE", "keyUsage = critical,keyCertSign", "subjectKeyIdentifier = hash")
