#!/usr/bin/env python3
"""Under a limit for the size of files the end of the log is a gap, and a start that fails says why."""
import os

import exeat
import tap
import work

LIMIT = 256 << 10  # KiB: more than what exeat itself keeps in memory files


def limited(kib, command):
    home = work.folder("home.", user=exeat.as_user(), mode=0o700)
    log = work.write(os.path.join(home, "full.jsonl"), "", 0o600, exeat.as_user())
    os.truncate(log, LIMIT << 10)
    inner = '"$0" run -q --log "$1" -- sh -c "$2"'
    return exeat.run(None, command, home=home,
                     program_args=["bash", "-c", "ulimit -f %d; %s" % (kib, inner), exeat.program(), log, command])


@tap.test
def a_log_at_the_limit_does_not_end_the_sandbox(t):
    code = "for i in 1 2 3; do curl -s -o /dev/null -w '%{http_code} ' http://x.test/$i; done"
    r = limited(LIMIT, code)
    tap.equal((r.code, r.out), (0, "403 403 403 "))
    tap.contains(r.err, "File too large")


@tap.test
def a_start_below_the_limit_says_so(t):
    r = limited(1, "true")
    tap.equal(r.code, 125)
    tap.contains(r.err, "File too large")
    tap.contains(r.err, "ulimit -f")


tap.main()
