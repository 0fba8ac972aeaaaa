#!/usr/bin/env python3
"""What the command is given, what its end becomes, and which signals reach it."""
import os
import pwd
import resource
import signal
import time

import exeat
import tap
import work


@tap.test
def the_exit_status_is_the_commands_own():
    for code in (0, 1, 3, 42, 124, 125, 126, 127, 130, 255):
        tap.equal(exeat.run(None, "exit %d" % code).code, code)


@tap.test
def a_signal_becomes_128_and_its_number():
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGSEGV, signal.SIGHUP, signal.SIGABRT):
        tap.equal(exeat.run(None, "kill -%d $$" % number).code, 128 + number)


@tap.test
def a_command_that_cannot_be_run():
    r = exeat.run(None, ["no-such-program-at-all"])
    tap.equal(r.code, 127)
    tap.contains(r.err, "no-such-program-at-all")
    r = exeat.run(None, ["/no/such/program"])
    tap.equal(r.code, 127)
    r = exeat.run(None, ["/etc/passwd"])
    tap.equal(r.code, 126)
    tap.contains(r.err, "Permission denied")
    tap.equal(exeat.run(None, ["/etc"]).code, 126)


@tap.test
def input_output_and_folder_pass_through():
    data = os.urandom(3 << 20).hex()
    r = exeat.run(None, ["sh", "-c", "cat; pwd >&2"], stdin=data)
    tap.equal(r.out, data)
    tap.equal(r.err.strip(), r.home)


@tap.test
def what_is_inherited_stays():
    """umask, limits, ignored and blocked signals are the command's as they were exeat's."""
    def before():
        os.umask(0o027)
        resource.setrlimit(resource.RLIMIT_NOFILE, (777, 888))
        resource.setrlimit(resource.RLIMIT_CORE, (4096, 8192))
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGUSR2})
    command = "umask; ulimit -Sn; ulimit -Hn; ulimit -Sc; ulimit -Hc; grep -E 'Sig(Blk|Ign)' /proc/self/status"
    with exeat.Sandbox(None, ["bash", "-c", command], preexec_fn=before) as sandbox:
        lines = sandbox.wait().out.split()
    tap.equal(lines[0], "0027")
    tap.equal(lines[1:3], ["777", "888"])
    tap.equal(lines[3:5], ["4", "8"])
    blocked, ignored = int(lines[6], 16), int(lines[8], 16)
    tap.equal(blocked, 1 << (signal.SIGUSR2 - 1))
    tap.ok(ignored & 1, "SIGHUP is not ignored")
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGTERM, signal.SIGTSTP, signal.SIGCHLD):
        # Python itself ignores SIGPIPE; subprocess restores it.
        tap.ok(not ignored & 1 << (number - 1), "signal %d is ignored" % number)


@tap.test
def nothing_but_the_standard_descriptors_is_open():
    r = exeat.run(None, ["python3", "-c", "import os; print(sorted(int(n) for n in os.listdir('/proc/self/fd')))"])
    tap.equal(r.out.strip(), "[0, 1, 2, 3]")  # 3 is the listing's own


def waiting(script):
    """A command that tells by a file that it is ready."""
    return "%s; : > ready; while :; do sleep 0.05; done" % script


def ready(sandbox):
    tap.eventually(lambda: os.path.exists(os.path.join(sandbox.home, "ready")), message="command is not ready")


@tap.test
def signals_are_passed_on():
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGQUIT, signal.SIGALRM):
        with exeat.Sandbox(None, waiting("trap 'echo got %d; exit 9' %d" % (number, number))) as sandbox:
            ready(sandbox)
            sandbox.process.send_signal(number)
            r = sandbox.wait(30)
        tap.equal((r.code, r.out), (9, "got %d\n" % number), "signal %d" % number)


@tap.test
def a_signal_that_is_not_caught_ends_the_command():
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        with exeat.Sandbox(None, ["sh", "-c", ": > ready; exec sleep 60"]) as sandbox:
            ready(sandbox)
            time.sleep(0.1)
            sandbox.process.send_signal(number)
            tap.equal(sandbox.wait(30).code, 128 + number)


@tap.test
def a_signal_that_the_command_ignores_does_not_end_exeat():
    with exeat.Sandbox(None, waiting("trap '' TERM; trap 'exit 5' USR1")) as sandbox:
        ready(sandbox)
        sandbox.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        tap.equal(sandbox.process.poll(), None)
        sandbox.process.send_signal(signal.SIGUSR1)
        tap.equal(sandbox.wait(30).code, 5)


@tap.test
def nohup_holds():
    def before():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with exeat.Sandbox(None, waiting("trap 'exit 5' USR1"), preexec_fn=before) as sandbox:
        ready(sandbox)
        sandbox.process.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        tap.equal(sandbox.process.poll(), None)
        sandbox.process.send_signal(signal.SIGUSR1)
        tap.equal(sandbox.wait(30).code, 5)


@tap.test
def a_command_that_stops_itself_stops_exeat_and_both_go_on():
    with exeat.Sandbox(None, "kill -STOP $$; echo again") as sandbox:
        def stopped():
            with open("/proc/%d/stat" % sandbox.pid, encoding="ascii") as f:
                return f.read().rpartition(")")[2].split()[0] == "T"
        tap.eventually(stopped, message="exeat has not stopped")
        sandbox.process.send_signal(signal.SIGCONT)
        r = sandbox.wait(30)
    tap.equal((r.code, r.out), (0, "again\n"))


@tap.test
def a_signal_to_its_own_process_group_stays_inside():
    """The command is in the process group of whoever started exeat; what it sends there reaches nobody outside."""
    if not scopes_signals():
        tap.skip("this kernel's Landlock has no scope for signals (since 6.12)")
    for word, status in (("USR1", 128 + signal.SIGUSR1), ("KILL", 128 + signal.SIGKILL)):
        inner = "kill -%s 0; echo inside" % word
        outer = 'trap "echo OUTSIDE" USR1; "$0" run -- sh -c "$1"; echo "status $?"'
        r = exeat.run(None, [], program_args=["sh", "-c", outer, exeat.program(), inner], start_new_session=True)
        tap.equal(r.out, "status %d\n" % status)


def scopes_signals():
    import ctypes
    return ctypes.CDLL(None).syscall(444, None, 0, 1) >= 6


@tap.test
def what_the_command_leaves_behind_ends_with_it():
    r = exeat.run(None, "sleep 300 >/dev/null 2>&1 & setsid sleep 300 >/dev/null 2>&1 & echo started")
    tap.equal((r.code, r.out), (0, "started\n"))


@tap.test
def a_closed_standard_error_is_no_trouble():
    command = "echo out; curl -s http://x.test/ >/dev/null; exit 4"
    r = exeat.run(None, [], program_args=["sh", "-c", 'exec "$0" run -- sh -c "$1" 2>&-', exeat.program(), command])
    tap.equal((r.code, r.out), (4, "out\n"))
    r = exeat.run(None, [], program_args=["bash", "-c", 'set -o pipefail; { "$0" run -- sh -c "$1" 2>&3 | cat; } 3> >(true)', exeat.program(), command])
    tap.equal((r.code, r.out), (4, "out\n"))


@tap.test
def as_root_too():
    if not work.is_root():
        tap.skip("needs root")
    r = exeat.run(None, "id -u; exit 7", user="root")
    tap.equal((r.code, r.out), (7, "0\n"))


@tap.test
def root_becomes_other_users_inside_and_files_are_whose_they_were():
    if not work.is_root():
        tap.skip("needs root")
    home = work.folder("home.", mode=0o755)
    r = exeat.run(None, """
        user=%s
        stat -c '%%U %%a' /etc/shadow
        su -s /bin/sh -c 'id -un; cat /etc/shadow >/dev/null 2>&1 || echo refused' $user
        runuser -u $user -- id -un
        touch own; chown $user own; setpriv --reuid $user --clear-groups sh -c 'echo x > own; stat -c %%U own'
    """ % work.PLAIN_USER, user="root", cwd=home)
    host = "%s %o" % ("root", os.stat("/etc/shadow").st_mode & 0o7777)
    tap.equal(r.out.split("\n"), [host, work.PLAIN_USER, "refused", work.PLAIN_USER, work.PLAIN_USER, ""])
    tap.equal(os.stat(os.path.join(home, "own")).st_uid, pwd.getpwnam(work.PLAIN_USER).pw_uid)


@tap.test
def many_workers():
    r = exeat.run(None, "for i in 1 2 3 4 5 6 7 8; do curl -s -o /dev/null -w '%{http_code} ' http://x.test/; done", workers=4, flags=["-q"])
    tap.equal(r.out, "403 " * 8)
    tap.equal(len(r.verdicts()), 8)


tap.main()
