#!/usr/bin/env python3
"""lib/netns.py: a name server and addresses of the test's own, unseen from outside."""
import netns

netns.enter(addresses=["10.9.0.1/24", "fd00:9::1/64"], resolv="nameserver 10.9.0.1\noptions timeout:1\n")

import os
import socket

import dnsserver
import tap
import work


@tap.test
def names_come_from_our_server(t):
    dns = t.use(dnsserver.DnsServer({"a.test": ["10.9.0.7", "fd00:9::7"]}, address="10.9.0.1", port=53))
    found = {a[4][0] for a in socket.getaddrinfo("a.test", 443, type=socket.SOCK_STREAM)}
    tap.equal(found, {"10.9.0.7", "fd00:9::7"})
    tap.equal({q[0] for q in dns.queries}, {"a.test"})


@tap.test
def addresses_are_ours():
    for address in ("10.9.0.1", "fd00:9::1"):
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as s:
            s.bind((address, 443))


@tap.test
def another_user_reads_the_same_resolv_conf():
    process = work.popen(["cat", "/etc/resolv.conf"], user=None, stdout=-1, cwd="/")
    out, _ = process.communicate()
    tap.contains(out, b"10.9.0.1")
    tap.ok("EXEAT_TEST_NETNS" not in os.environ)


tap.main()
