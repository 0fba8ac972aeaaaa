#!/usr/bin/env python3
"""The sandbox's command, without a proxy behind it: what it is given and finds, and what ends with it."""
import os
import resource
import signal
import subprocess
import time

import box
import leftovers
import tap
import term
import work


@box.each_user
def the_command_is_what_it_was(_t, user):
    def limits():
        os.umask(0o027)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    folder = work.folder("work.", mode=0o777)
    # not a shell: those set signals as they like
    source = """if True:
        import os, resource, sys
        print(os.getcwd(), os.getuid(), os.getgid(), "%03o" % os.umask(0), resource.getrlimit(resource.RLIMIT_NOFILE)[0],
              len(os.listdir("/proc/self/fd")), os.environ["EXEAT"], sys.stdin.read())
        print(open("/proc/self/status").read())"""
    with box.Box(["python3", "-c", source], user=user, cwd=folder, preexec_fn=limits, stdin=subprocess.PIPE) as b:
        out, err = b.process.communicate(b"stdin", timeout=20)
    tap.note(out, err)
    uid, gid = work.account(b.user) or (0, 0)
    first, *status = out.decode().splitlines()
    # 0, 1, 2 and the one that lists them
    tap.equal(first.split(), [folder, str(uid), str(gid), "027", str(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
                              "4", "test", "stdin"])
    fields = dict(line.split(":\t", 1) for line in status if ":\t" in line)
    tap.equal(int(fields["SigBlk"], 16), 1 << (signal.SIGUSR2 - 1))
    tap.ok(int(fields["SigIgn"], 16) & 1 << (signal.SIGUSR1 - 1))
    for n in (signal.SIGTERM, signal.SIGTSTP, signal.SIGTTOU, signal.SIGCHLD):
        tap.equal(int(fields["SigIgn"], 16) & 1 << (n - 1), 0)
    tap.equal(fields["NoNewPrivs"], "0")
    if user is None:
        tap.equal(int(fields["CapEff"], 16), 0)


@tap.test
def statuses_are_the_shells():
    folder = work.folder()
    script = work.write(os.path.join(folder, "plain"), "x")
    for command, code in ((["true"], 0), ("exit 7", 7), ("kill -TERM $$", 128 + 15), ("kill -KILL $$", 128 + 9),
                          (["no-such-command"], 127), ([script], 126), (["/"], 126)):
        tap.equal(box.run(command).code, code, str(command))


@tap.test
def signals_sent_to_the_supervisor_reach_the_command():
    with box.Box("trap 'echo got; exit 3' TERM; echo up; while :; do sleep 0.05; done") as b:
        tap.equal(b.process.stdout.readline(), b"up\n")
        b.process.send_signal(signal.SIGTERM)
        tap.equal(b.process.stdout.readline(), b"got\n")
        tap.equal(b.process.wait(30), 3)


@tap.test
def what_the_command_leaves_behind_ends_with_it():
    before = leftovers.Host(box.program())
    r = box.run("setsid sleep 1000 & (trap '' TERM HUP; sleep 1000) & exit 0", env=leftovers.mark())
    tap.equal(r.code, 0)
    before.check()


@tap.test
def a_killed_supervisor_leaves_nothing():
    before = leftovers.Host(box.program())
    for i in range(24):
        b = box.Box("sleep 1000 & while :; do :; done", env=leftovers.mark(), user=box.USERS[i % len(box.USERS)],
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(i * 0.003)
        b.process.kill()
        b.process.wait()
    before.check()


@tap.test
def a_killed_init_ends_the_sandbox():
    before = leftovers.Host(box.program())
    with box.Box("echo up; sleep 1000", env={"SANDBOX_SHOW": "1", **leftovers.mark()}) as b:
        tap.equal(b.process.stdout.readline(), b"up\n")
        init = int(b.process.stderr.readline().split()[4])
        os.kill(init, signal.SIGKILL)
        tap.equal(b.process.wait(30), 125)
    before.check()


@box.each_user
def the_root_is_in_bundle_and_directory(_t, user):
    if not os.path.exists("/etc/ssl/certs/ca-certificates.crt"):
        tap.skip("no certificates on this host")
    r = box.run("openssl verify -CApath /etc/ssl/certs $SSL_CERT_FILE; openssl verify -CAfile "
                "/etc/ssl/certs/ca-certificates.crt $SSL_CERT_FILE; ls /etc/ssl/certs | wc -l; cat /etc/resolv.conf; "
                "ls -ld /etc/ssl/certs; touch /etc/ssl/certs/x && echo touched", user=user)
    tap.equal(r.out.count(": OK\n"), 2)
    count = int(r.out.splitlines()[2])
    tap.equal(count, len(os.listdir("/etc/ssl/certs")) + 1)
    tap.contains(r.out, "nameserver 127.0.0.1\n")
    tap.equal("touched" in r.out, user == "root")


def with_etc(change):
    """Words before a command: in it /etc is a changed copy."""
    if not work.is_root():
        tap.skip("needs root to prepare")
    folder = work.folder("etc.")
    work.sh("cp", "-a", "/etc/.", folder)
    change(folder)
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c",
            'mount --bind %s /etc && exec "$@"' % folder, "sh"]


@tap.test
def what_is_covered_among_the_hashed_certificates_stays_covered():
    # such a directory is copied: merged, it would show what the cover hides
    if not os.path.exists("/etc/ssl/certs/ca-certificates.crt"):
        tap.skip("no certificates on this host")
    secret = "/etc/ssl/certs/service.pem"
    before = with_etc(lambda f: work.write(f + secret.removeprefix("/etc"), "SECRET-KEY-OF-A-SERVICE\n"))
    r = box.run("cat %s; openssl verify -CApath /etc/ssl/certs $SSL_CERT_FILE; ls /etc/ssl/certs | wc -l; "
                "grep ' /etc/ssl/certs ' /proc/mounts" % secret, before=before, user="root", cover=[secret])
    tap.lacks(r.out, "SECRET")
    tap.contains(r.out, ": OK\n%d\n" % (len(os.listdir("/etc/ssl/certs")) + 2))
    tap.contains(r.out, "/etc/ssl/certs tmpfs ")


@tap.test
def any_resolv_conf_will_do():
    elsewhere = work.write(os.path.join(work.folder(), "stub"), "nameserver 127.0.0.53\nsearch corp.test\noptions ndots:5\n")
    for kind in ({"text": "nameserver 127.0.0.53\n"}, {"text": "nameserver ::1\n"}, {"text": ""}, {}, {"link": "/no/such/file"},
                 {"link": elsewhere},
                 {"text": "nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\nsearch a.test\noptions edns0 trust-ad\n"}):
        before = with_etc(lambda folder, kind=kind: work.replace(os.path.join(folder, "resolv.conf"), **kind))
        # Asked several times: the machine may be busy, a resolver that waits for another name server is slow each time.
        r = box.python('for n in "123456789":\n    attempt("get" + n, lambda: socket.gethostbyname("example.com"))',
                       before=before, user="root")
        tap.contains(r.lines()["get1"], "did '198.19.")
        tap.ok(min(int(r.lines()["get" + n].split()[-2]) for n in "123456789") < 50, "slow with %r" % kind)


@tap.test
def hosts_of_the_host_do_not_name_addresses_inside():
    before = with_etc(lambda f: work.write(f + "/hosts", "127.0.0.1 localhost\n10.1.2.3 db.corp.test\n127.0.0.9 mine.test\n"))
    r = box.run("getent ahostsv4 db.corp.test | head -1; getent ahostsv4 mine.test | head -1", before=before, user="root")
    tap.ok(r.out.startswith("198.19."), r.out)
    tap.contains(r.out, "127.0.0.9")


@tap.test
def an_interactive_shell_has_its_job_control(_t=None):
    shell = ["bash", "--norc", "-i"]
    for user in box.USERS:
        name = work.PLAIN_USER if user is None and work.account(None) is not None else user
        state = work.folder("state.", user=name, mode=0o700)
        work.write(os.path.join(state, "root.pem"), open(box.ca(), encoding="ascii").read())
        args = ["bash", "--norc", "-ic", 'PS1="outer$ "; %s %s -- "$@"; echo status=$? fg=$(ps -o tpgid= -p $$) own=$(ps -o pgid= -p $$)' %
                (box.program(), state), "bash", *shell]
        with term.Terminal(args, user=name, env={"PATH": os.environ["PATH"], "TERM": "dumb", "PS1": "in$ "}) as t:
            t.until("$ ")
            t.send("stty size; sh -c 'echo be\"\"gan; exec sleep 1000'\r")
            t.until("24 80")
            t.until("began")
            t.key("z")
            t.until("Stopped")
            t.send("jobs; fg\r")
            t.until("Stopped")
            time.sleep(0.3)
            t.key("c")
            t.resize(33, 99)
            t.send("stty size\r")
            t.until("33 99")
            t.send("exit 5\r")
            t.until("status=5")
            t.wait()
            tap.lacks(t.text, b"no job control")


tap.main()
