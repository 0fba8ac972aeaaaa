#!/usr/bin/env python3
"""Under a limit for the size of files the end of the log is a gap, and a start that fails says why. So does one that may open too few
files."""
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
    tap.equal(r.err.count("ulimit -f"), 1)


def few(hard, soft=None, workers=1):
    limits = "%d:%d" % (soft or hard, hard)
    command = "test $(ulimit -Sn):$(ulimit -Hn) = %s && echo it ran" % limits
    return exeat.run(None, command, program_args=["prlimit", "--nofile=" + limits, exeat.program(), "run", "--workers", str(workers), "--",
                                                  "sh", "-c", command])


@tap.test
def too_few_files_may_be_open():
    for n in (8, 10, 14, 20, 24, 28, 63):
        r = few(n)
        tap.equal((r.code, r.out), (125, ""))
        tap.equal(r.err, "exeat: a process may have %d files open here, and exeat needs 64: raise that limit (ulimit -n; "
                         "in a container or a service, its limit of open files)\n" % n)
    tap.contains(few(64, workers=4).err, "exeat needs 76")
    tap.equal(few(64).out, "it ran\n")
    tap.equal(few(76, workers=4).out, "it ran\n")


@tap.test
def a_soft_limit_is_raised_for_exeat_and_not_for_the_command():
    tap.equal(few(1024, soft=20).out, "it ran\n")


tap.main()
