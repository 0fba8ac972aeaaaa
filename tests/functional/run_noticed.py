#!/usr/bin/env python3
"""What only the operator can mend is told him by one line a kind and host; a sandbox that asks for names without end floods nobody."""
import re

import netns

netns.enter(addresses=["203.0.113.53/24", "10.9.0.1/8"], resolv="nameserver 203.0.113.53\n")

# pylint: disable=wrong-import-position
import exeat
import tap
import work
from servers import DnsServer

POLICY = "allow GET http://*.test/**\n"


def asked_for(t, command, **options):
    work.need("curl")
    t.use(DnsServer({"unknown.test": "nxdomain", "failing.test": "servfail", "inner.test": ["10.9.0.1"], "down.test": ["203.0.113.53"]},
                    address="203.0.113.53", port=53))
    return exeat.run(POLICY, command, **options)


@tap.test
def one_line_a_kind_and_host(t):
    r = asked_for(t, "for i in 1 2 3; do for n in unknown failing inner down; do curl -s http://$n.test/; done; done")
    lines = re.sub(r" \[[0-9A-Z]{26}\]$", "", r.err, flags=re.M).splitlines()
    tap.equal(lines, ["exeat: no answer: no address is known for unknown.test; see how it is spelt, and DNS, or name one by --resolve",
                      "exeat: no answer: the name servers have no answer for failing.test; see this host's DNS (/etc/resolv.conf)",
                      "exeat: no answer: inner.test leads to 10.9.0.1, a private address: refused unless a rule's `to` or --resolve names it"])
    for line in lines:
        tap.equal(r.out.count(line.replace("exeat: no answer: ", "  reason:    ")), 3, "what the client is told")
    ids = re.findall(r"\[([0-9A-Z]{26})\]", r.err)
    tap.equal([r.outcomes(id=i)[0]["code"] for i in ids], ["upstream-name-unknown", "upstream-name-failed", "upstream-address"])


@tap.test
def at_any_loudness_but_quiet(t):
    tap.equal(asked_for(t, "curl -s http://unknown.test/", flags=["-q"]).err, "")
    t.close()
    r = asked_for(t, "curl -s http://unknown.test/", flags=["-v"])
    tap.equal([line.split(" ")[1] for line in r.err.splitlines()], ["allowed", "no"])


@tap.test
def names_without_end(t):
    r = asked_for(t, "curl -s 'http://n[1-50].test/'")
    lines = r.err.splitlines()
    tap.equal(len(r.outcomes(code="upstream-name-unknown")), 50)
    tap.equal(len(lines), 33)
    tap.equal([line for line in lines if "no address is known" not in line],
              ["exeat: more names without an answer for such reasons stand in the log alone"])


tap.main()
