"""What the tests of HTTP/2 towards servers share: a.test, permitted below /ok, in front of a server of that version.

    r, server = h2upstream.through(t, code)               # a NodeServer
    r, server = h2upstream.against(t, serve, code)        # a FrameServer, serve(frames, number) for each connection

The code is for client.run, behind h2.CLIENT: a text, or several.
"""
import client
import h2
import tap
from h2server import FrameServer, NodeServer
from pki import Pki

POLICY = "allow GET,HEAD,POST,PUT https://a.test/ok**\n"

pki = Pki()


def _run(server, code, policy, options):
    return client.run(policy, [h2.CLIENT] + ([code] if isinstance(code, str) else code), resolve=[server.resolve("a.test")],
                      upstream_ca=pki.ca, **options), server


def through(t, code, *words, policy=POLICY, **options):
    return _run(t.use(NodeServer(pki.leaf("a.test"), *words)), code, policy, options)


def against(t, serve, code, policy=POLICY, settings=b"", **options):
    r, server = _run(t.use(FrameServer(serve, settings, tls=pki.leaf("a.test"))), code, policy, options)
    tap.equal(server.errors, [])
    return r, server
