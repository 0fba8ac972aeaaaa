#!/usr/bin/env python3
"""`exeat doctor` on a host that serves; see C77 for those that do not."""
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


@tap.test
def doctor_changes_nothing():
    before = sorted(os.listdir("/proc/self/ns")), open("/proc/self/mountinfo", encoding="utf-8").read()
    home = work.folder("home.", user=exeat.as_user(), mode=0o700)
    exeat.call("doctor", home=home)
    tap.equal(os.listdir(home), [])
    tap.equal((sorted(os.listdir("/proc/self/ns")), open("/proc/self/mountinfo", encoding="utf-8").read()), before)


tap.main()
