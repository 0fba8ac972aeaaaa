#!/usr/bin/env python3
"""Standard input, output and error are the user's own; what of them would be a way out starts nothing."""
import os
import socket

import exeat
import tap


def run(fd, stream="stdin", code="echo ran >&2"):
    with exeat.Sandbox(None, ["sh", "-c", code], **{stream: fd}) as sandbox:
        return sandbox.wait()


def tcp_pair(t):
    listener = t.use(socket.create_server(("127.0.0.1", 0)))
    a = t.use(socket.create_connection(listener.getsockname()))
    b, _ = listener.accept()
    return a, t.use(b), listener


@tap.test
def a_socket_of_the_host_s_network_is_refused(t):
    """A socket of the host's network as standard input or output is refused: it could be connected to somebody else."""
    connected, _, listener = tcp_pair(t)
    netlink = t.use(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0))
    datagrams = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    for s in (connected, listener, t.use(socket.socket()), t.use(socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)), netlink,
              t.use(socket.socket(socket.AF_UNIX)), t.use(datagrams[0]), t.use(datagrams[1])):
        for stream in ("stdin", "stdout"):
            r = run(s, stream)
            tap.equal(r.code, 125, repr(s))
            tap.lacks(r.err, "ran")
            tap.contains(r.err, "descriptor %d is a socket of the host's network" % (stream == "stdout"))


@tap.test
def what_node_and_sshd_give_works(t):
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        a, b = socket.socketpair(socket.AF_UNIX, kind)
        t.use(a)
        t.use(b)
        r = run(a, "stdout", "echo out; echo ran >&2")
        tap.equal((r.code, r.err, b.recv(100)), (0, "ran\n", b"out\n"))
    a, b = socket.socketpair()
    b.close()
    tap.equal(run(t.use(a)).code, 0)
    r, w = os.pipe()
    t.after(os.close, r)
    t.after(os.close, w)
    tap.equal(run(r).code, 0)


tap.main()
