#!/usr/bin/env python3
"""`exeat doctor`, and `exeat run` on hosts where something stands in the way (C77)."""
import json
import os

import exeat
import tap
import work


@tap.test
def a_host_that_serves():
    r = exeat.call("doctor")
    tap.equal(r.code, 0)
    tap.equal(r.err, "")
    tap.contains(r.out, "nothing stands in the way")
    tap.equal(exeat.run(None, "echo it ran").out, "it ran\n")


@tap.test
def findings_for_programs():
    r = exeat.call("doctor", "--json")
    tap.equal(r.code, 0)
    report = json.loads(r.out)
    tap.equal(report["ok"], True)
    tap.ok(len(report["findings"]) >= 3)
    for finding in report["findings"]:
        tap.equal(set(finding), {"severity", "what", "why", "todo"})
        tap.ok(finding["severity"] in ("ok", "note"), finding)
        tap.ok(finding["what"])


def without(limit):
    """A shell prefix that runs its arguments where no more namespaces of a kind can be made."""
    return ["unshare", "-Ur", "sh", "-c", 'echo 0 > /proc/sys/user/%s && exec "$@"' % limit, "sh"]


@tap.test
def a_host_that_does_not():
    """C77: it says what, why and what to do, and never runs the command some other way."""
    reason = exeat.user_namespaces()
    if reason:
        tap.skip("no user namespaces here: " + reason)
    for limit in ("max_user_namespaces", "max_net_namespaces", "max_pid_namespaces", "max_mnt_namespaces"):
        r = exeat.run(None, [], program_args=without(limit) + [exeat.program(), "doctor"])
        tap.equal(r.code, 1, limit)
        tap.contains(r.out, "user." + limit)
        tap.contains(r.out, "error")
        tap.contains(r.out, "to do")
        r = exeat.run(None, [], program_args=without(limit) + [exeat.program(), "doctor", "--json"])
        tap.equal(r.code, 1)
        report = json.loads(r.out)
        tap.equal(report["ok"], False)
        findings = [f for f in report["findings"] if f["severity"] == "error"]
        tap.ok(any(limit in f["why"] + f["todo"] + f["what"] for f in findings), findings)

        r = exeat.run(None, [], program_args=without(limit) + [exeat.program(), "run", "--", "sh", "-c", "echo it ran; cat /proc/net/dev"])
        tap.equal(r.code, 125, limit)
        tap.equal(r.out, "")
        tap.contains(r.err, "no sandbox can be made")
        for f in findings:
            tap.contains(r.err, f["what"])


@tap.test
def doctor_changes_nothing():
    before = sorted(os.listdir("/proc/self/ns")), open("/proc/self/mountinfo", encoding="utf-8").read()
    home = work.folder("home.", user=exeat.as_user(), mode=0o700)
    exeat.call("doctor", home=home)
    tap.equal(os.listdir(home), [])
    tap.equal((sorted(os.listdir("/proc/self/ns")), open("/proc/self/mountinfo", encoding="utf-8").read()), before)


tap.main()
