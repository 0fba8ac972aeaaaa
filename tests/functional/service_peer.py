#!/usr/bin/env python3
"""Who joins a service by a program of his own, and hands over what is no sandbox's: he is refused, and the others go on."""
import fcntl
import os
import shutil
import socket
import struct
import threading

import exeat
import tap
import work
from pki import Pki
from servers import RawServer, response

pki = Pki()
SANDBOX = 0x301
POLICY, TCP4 = 0, 5  # which descriptors of that message


class Relay:
    """Between `exeat run --service` and a service: what is handed over goes through change(descriptors) on its way. Both speak as they do."""

    def __init__(self, service, change):
        self.state = work.folder("relay.")
        self.log = service.log
        self._change, self._to = change, service.socket
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(os.path.join(self.state, "service.sock"))
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        client, _ = self._listener.accept()
        service = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        service.connect(self._to)
        for a, b in ((client, service), (service, client)):
            threading.Thread(target=self._pass, args=(a, b), daemon=True).start()

    def _pass(self, a, b):
        try:
            while True:
                data, files, _, _ = socket.recv_fds(a, 65536, 32)
                if not data:
                    break
                sent = self._change(list(files)) if struct.unpack("<H", data[2:4])[0] == SANDBOX else files
                socket.send_fds(b, [data], sent)
                for fd in set(files) | set(sent):
                    os.close(fd)
        except OSError:
            pass
        b.close()
        a.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._listener.close()
        shutil.rmtree(self.state, ignore_errors=True)


def serving(t):
    server = t.use(RawServer(response(200, "ok"), tls=pki.leaf("a.test")))
    return t.use(exeat.Service(user="root", resolve=[server.resolve("a.test")], upstream_ca=pki.ca))


def asks(service):
    return exeat.run("allow GET https://a.test/**\n", "curl -sS https://a.test/", service=service, user="root")


def at(place, make):
    def change(files):
        os.close(files[place])
        files[place] = make()
        return files
    return change


def local_listener():
    """One that a client waits at, and which waits for the next."""
    listener, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    listener.bind("")
    listener.listen()
    client.connect(listener.getsockname())
    return listener.detach()


def hole():
    """A terabyte in which nothing is, as sealed as a policy."""
    fd = os.memfd_create("hole", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 1 << 40)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return fd


@tap.test
def a_listener_that_is_none_is_refused(t):
    service = serving(t)
    for make in (local_listener, lambda: os.eventfd(1), lambda: os.open("/dev/null", os.O_RDWR)):
        with Relay(service, at(TCP4, make)) as relay:
            r = exeat.run(None, "sleep 60", service=relay, user="root")
        tap.equal(r.code, 125)
        tap.contains(r.err, "the sandbox gets no way out: listeners: ")
        tap.equal(asks(service).out, "ok")


@tap.test
def a_listener_that_waits_holds_nobody_up(t):
    """A worker takes what comes to it, and not the time until the next one comes."""
    service = serving(t)

    def wait(files):
        for fd in files[TCP4:]:
            os.set_blocking(fd, True)
        return files
    with Relay(service, wait) as relay:
        r = exeat.run("allow GET https://a.test/**\n", "curl -sS https://a.test/", service=relay, user="root")
        tap.equal(r.out, "ok")
        tap.equal(asks(service).out, "ok")


@tap.test
def a_policy_that_nobody_could_read_is_not_read(t):
    service = serving(t)
    with Relay(service, at(POLICY, hole)) as relay:
        r = exeat.run(None, "sleep 60", service=relay, user="root")
    tap.equal(r.code, 125)
    tap.contains(r.err, "the sandbox gets no way out: policy: ")
    tap.equal(asks(service).out, "ok")


tap.main()
