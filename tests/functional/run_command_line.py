#!/usr/bin/env python3
"""exeat's command line: options, what a mistake is told, and that a mistake starts nothing."""
import json
import os
import re
import shutil
import subprocess

import exeat
import tap
import work

ALLOW = "allow GET https://a.test/**\n"


def refused(result, *words):
    """exeat failed by itself, said these words, and ran nothing."""
    tap.equal(result.code, 125)
    for word in words:
        tap.contains(result.err, word)
    tap.lacks(result.out, "it ran")
    tap.lacks(result.err, "\x00")
    return result


@tap.test
def help_and_version():
    for args in (["--help"], ["-h"], ["help"]):
        r = exeat.call(*args)
        tap.equal(r.code, 0)
        tap.equal(r.err, "")
        for word in ("run", "doctor", "exeat-policy(5)"):
            tap.contains(r.out, word)
    r = exeat.call("--version")
    tap.equal(r.code, 0)
    tap.ok(re.fullmatch(r"exeat \d+\.\d+\.\d+ \(build [0-9a-f]{16}\)\n", r.out), r.out)
    tap.equal(exeat.call("version").out, r.out)


@tap.test
def what_cannot_be_printed_is_told():
    home = work.folder("home.", user=exeat.as_user(), mode=0o700)
    for args, code in ((["--help"], 125), (["help", "help"], 125), (["--version"], 125), (["run", "--help"], 125),
                       (["learn", "--help"], 125), (["doctor", "--help"], 125), (["doctor", "--json"], 125), (["doctor"], 125),
                       (["policy", "--help"], 2), (["policy", "check", "--help"], 2), (["policy", "check", "/dev/null"], 2)):
        with open("/dev/full", "wb") as full:
            p = work.popen([exeat.program(), *args], user=exeat.as_user(), cwd=home, env=exeat.environment(home, None),
                           stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE)
        _, err = p.communicate(timeout=60)
        tap.equal((p.returncode, err.decode()), (code, "exeat: the result can't be printed: No space left on device\n"), str(args))


@tap.test
def help_of_a_tool_is_that_of_the_tool():
    tap.equal(exeat.call("help", "policy", "check").out, exeat.call("policy", "check", "--help").out)
    tap.equal(exeat.call("help", "policy").out, exeat.call("policy", "--help").out)
    tap.equal(exeat.call("help", "policy", "chek").code, 2)


@tap.test
def the_help_of_run_names_every_option():
    for args in (["run", "--help"], ["run", "-h"], ["help", "run"], ["run", "-q", "--help", "--", "ls"]):
        r = exeat.call(*args)
        tap.equal(r.code, 0)
        tap.equal(r.err, "")
        for option in ("-p, --policy FILE", "--vault FILE", "--set NAME=VALUE", "--name SANDBOX", "--log FILE", "--log-query",
                       "--redis URL", "--upstream-ca FILE", "--resolve HOST:PORT:ADDRESS[:PORT]", "--state DIR",
                       "--time-limit WHAT=TIME", "--workers N", "--push-memory MIB", "-q, --quiet", "-v, --verbose"):
            tap.contains(r.out, option)


@tap.test
def the_manual_names_every_time_limit_as_the_help_does():
    """Table, message and help are made of one list; the manual is not."""
    told = re.search(r"Defaults:((?: \w+=\w+)+)\n", exeat.call("run", "--help").out).group(1).split()
    with open(os.path.join(exeat.TOP, "man", "exeat.1"), encoding="utf-8") as f:
        section = f.read().split(".It Fl -time-limit")[1].split(".It Fl -workers")[0]
    manual = [re.match(r"(\w+)\n(?:[^.\n].*\n)*?.*\((\w+)\)\n", item).groups() for item in section.split(".It Cm ")[1:]]
    tap.equal(["%s=%s" % limit for limit in manual], told)
    message = exeat.call("run", "--time-limit", "none=1s", "--", "true").err
    tap.contains(message, "limits for " + ", ".join(name for name, _ in manual[:-1]) + " and " + manual[-1][0] + "\n")


@tap.test
def a_mistake_on_the_command_line():
    home = work.folder("home.", user=exeat.as_user(), mode=0o700)
    ran = ["sh", "-c", "echo it ran"]
    for args, words in (
            ([], ["no command given", "exeat --help"]),
            (["fly"], ["unknown command 'fly'", "exeat --help"]),
            (["help", "fly"], ["unknown command 'fly'", "exeat --help"]),
            (["run"], ["no command given", "exeat run --help"]),
            (["run", "--"], ["no command given"]),
            (["run", "--policy"], ["--policy needs a value: FILE"]),
            (["run", "--nonsense", *ran], ["unknown option --nonsense"]),
            (["run", "-x", *ran], ["unknown option -x"]),
            (["run", "--quiet=1", *ran], ["--quiet takes no value"]),
            (["run", "--policy", "", *ran], ["--policy", "empty"]),
            (["run", "--set", "novalue", *ran], ["--set", "NAME=VALUE"]),
            (["run", "--set", "9x=1", *ran], ["--set"]),
            (["run", "--name", "a b", *ran], ["--name", "'a b'", "letters"]),
            (["run", "--workers", "0", *ran], ["--workers", "1 to 64"]),
            (["run", "--workers", "65", *ran], ["--workers", "1 to 64"]),
            (["run", "--workers", "two", *ran], ["--workers", "'two'"]),
            (["run", "--push-memory", "0", *ran], ["--push-memory", "1 to 65536"]),
            (["run", "--push-memory", "65537", *ran], ["--push-memory", "1 to 65536"]),
            (["run", "--push-memory", "1GiB", *ran], ["--push-memory", "'1GiB'"]),
            (["run", "--resolve", "a.test:443", *ran], ["--resolve", "a.test:443"]),
            (["run", "--resolve", "a.test:443:b.test", *ran], ["--resolve"]),
            (["run", "--upstream-ca", "/etc/passwd", *ran], ["--upstream-ca", "/etc/passwd"]),
            (["run", "--upstream-ca", "/nowhere.pem", *ran], ["--upstream-ca", "/nowhere.pem"]),
            (["run", "--log", "/nowhere/log", *ran], ["/nowhere/log", "--log FILE"]),
            (["run", "--state", "/proc/x", *ran], ["/proc/x", "--state DIR"]),
            (["run", "--vault", "/nowhere/credentials", *ran], ["--vault", "/nowhere/credentials"]),
            (["run", "--time-limit", "idle=x", *ran], ["--time-limit", "'idle=x'"]),
            (["run", "--time-limit", "idel=1s", *ran], ["--time-limit", "'idel'"]),
            (["learn", "--allow-all", "--log", "sh", *ran], ["--log", "--output FILE"]),  # no --log-query, and a command
            (["learn", "-p", "my.policy", *ran], ["--policy", "--under FILE"]),
            (["doctor", "more"], ["doctor", "'more'"]),
            (["doctor", "--yaml"], ["unknown option --yaml"]),
    ):
        tap.note(args)
        refused(exeat.call(*args, home=home), *words)


@tap.test
def a_bad_redis_url_is_refused_without_its_password():
    for url in ("redis://u:SECRET-REDIS@", "http://u:SECRET-REDIS@h:1", "redis://:SECRET-REDIS@h:99999"):
        r = refused(exeat.call("run", "--redis", url, "sh", "-c", "echo it ran"), "--redis")
        tap.lacks(r.err, "SECRET-REDIS")


@tap.test
def errors_of_policy_and_vault_come_all_at_once_and_start_nothing():
    r = refused(exeat.run(["allow GET htps://a.test/\n", "allow\nallow GET https://ok.test/ with\n"],
                          "echo it ran", vault="credential x\n    fro env A\n", flags=["--resolve", "bad"]),
                "test.policy:1:", "test1.policy:1:", "test1.policy:2:", "credentials:2:", "--resolve", "^")
    tap.ok(not os.path.exists(os.path.join(r.home, "state")), "a state directory was made")
    tap.ok(not os.path.exists(r.log), "a log was made")


@tap.test
def a_missing_policy_is_named():
    r = refused(exeat.call("run", "-p", "no-such.policy", "sh", "-c", "echo it ran"), "no-such.policy", "no such file")
    tap.ok(not os.path.exists(os.path.join(r.home, "state")))


@tap.test
def an_expectation_that_fails_starts_nothing():
    refused(exeat.run(ALLOW + "expect allow POST https://a.test/x\n", "echo it ran"), "test.policy:2:")


@tap.test
def a_policy_that_lends_credentials_warns_where_there_is_no_vault():
    r = exeat.run("allow GET https://a.test/ with b\nallow GET https://a.test/x with c\n", "echo it ran")
    tap.equal((r.code, r.out), (0, "it ran\n"))
    tap.contains(r.err, "the policy lends credentials 'b', 'c', and there is no --vault: requests that are to carry them will be refused")
    tap.equal(exeat.run(ALLOW, "true").err, "")


@tap.test
def a_policy_that_lends_more_than_a_sandbox_can_be_lent_starts_nothing():
    """With a service, too, which is not even asked."""
    policy = "".join("allow GET https://a%d.test/ with c%d\n" % (i, i) for i in range(513))
    refused(exeat.run(policy, "echo it ran"), "the policy lends 513 credentials, and a sandbox can be lent 512")
    with exeat.Service() as service:
        refused(exeat.run(policy, "echo it ran", service=service), "the policy lends 513 credentials")
        tap.equal(exeat.run(policy[policy.index("\n") + 1:], "echo it ran", service=service).out, "it ran\n")


@tap.test
def a_host_without_roots_is_warned_of_if_something_may_leave():
    without = {"SSL_CERT_FILE": work.write(os.path.join(work.folder("roots.", mode=0o755), "none.pem"), "")}
    r = exeat.run(ALLOW, "echo it ran", env=without)
    tap.equal((r.code, r.out), (0, "it ran\n"))
    tap.contains(r.err, "ca-certificates")
    tap.equal(exeat.run(None, "true", env=without).err, "")
    with exeat.Service(env=without) as service:
        tap.contains(service.err(), "ca-certificates")
    with exeat.Service() as service:  # whose roots count
        tap.equal(exeat.run(ALLOW, "true", env=without, service=service).err, "")


@tap.test
def a_credential_that_the_vault_lacks_starts_nothing():
    refused(exeat.run("allow GET https://a.test/ with githbu\n", "echo it ran", env={"T": "SECRET-T"},
                      vault="credential github\n    for https://a.test\n    from env T\n    inject bearer\n"),
            "'githbu'", "credentials")


@tap.test
def an_error_of_a_secret_starts_nothing():
    vault = "credential a\n    for https://a.test\n    from env TOKEN_A\n    inject bearer\n" \
            "credential b\n    for https://b.test\n    from file missing.txt\n    inject bearer\n"
    r = refused(exeat.run(ALLOW, "echo it ran", vault=vault), "TOKEN_A", "missing.txt")
    tap.equal(r.decisions, [])
    r = refused(exeat.run(ALLOW, "echo it ran", vault=vault.split("credential b")[0], env={"TOKEN_A": "SECRET-1\nSECRET-2"}),
                "TOKEN_A")
    tap.lacks(r.err, "SECRET-")


@tap.test
def the_first_argument_that_is_no_option_ends_them():
    r = exeat.run(None, [], program_args=[exeat.program(), "run", "echo", "-p", "--name", "--", "x"])
    tap.equal(r.out, "-p --name -- x\n")
    tap.equal(r.code, 0)
    r = exeat.run(None, [], program_args=[exeat.program(), "run", "-q", "--", "sh", "-c", 'printf "<%s>" "$@"', "sh", "a b", "", "*", "\xff"])
    tap.equal(r.raw_out, "<a b><><*><\xff>".encode())


@tap.test
def names_of_sandboxes():
    r = exeat.run(None, 'echo "$EXEAT"; curl -s http://x.test/', name="my-sandbox.1")
    tap.equal(r.out.splitlines()[0], "my-sandbox.1")
    tap.equal({d["sandbox"] for d in r.decisions}, {"my-sandbox.1"})
    names = {exeat.run(None, ["sh", "-c", 'echo "$EXEAT"']).out.strip() for _ in range(2)}
    tap.equal(len(names), 2)
    for name in names:
        tap.ok(re.fullmatch(r"sh-[0-9a-z]{6}", name), name)


@tap.test
def the_state_directory_is_made_where_it_belongs():
    program = [exeat.program(), "run", "-q", "--", "curl", "-s", "http://x.test/"]
    for env, place in (({}, "state/exeat"), ({"XDG_STATE_HOME": None}, ".local/state/exeat")):
        r = exeat.run(None, [], program_args=program, env=env)
        state = os.path.join(r.home, place)
        tap.equal(sorted(os.listdir(state)), ["ca-key.pem", "ca.pem", "decisions.jsonl"])
        tap.equal(os.stat(state).st_mode & 0o777, 0o700)
        tap.equal(os.stat(os.path.join(state, "ca-key.pem")).st_mode & 0o777, 0o600)
        with open(os.path.join(state, "decisions.jsonl"), encoding="utf-8") as f:
            tap.equal([json.loads(line)["verdict"] for line in f if '"verdict":' in line], ["deny"])
    r = exeat.run(None, [], program_args=[exeat.program(), "run", "--state", "here", "true"])
    tap.equal(sorted(os.listdir(os.path.join(r.home, "here"))), ["ca-key.pem", "ca.pem", "decisions.jsonl"])


@tap.test
def what_is_wrong_in_the_state_directory_is_told_with_its_path():
    folder = work.folder("state.", user=exeat.as_user(), mode=0o700)
    run = ["run", "--state", folder, "sh", "-c", "echo it ran"]
    tap.equal(exeat.call(*run).out, "it ran\n")
    os.chmod(folder, 0o770)
    refused(exeat.call(*run), folder + ": ", "chmod go-w")
    os.chmod(folder, 0o700)
    with open(os.path.join(folder, "ca-key.pem"), "w", encoding="ascii") as f:
        f.write("none\n")
    refused(exeat.call(*run), folder + ": ca-key.pem holds no private key", "remove it")


@tap.test
def a_state_directory_in_dev_is_refused():
    """Root's sandboxes have a /dev of their own."""
    if os.getuid() != 0:
        tap.skip("only root has one there")
    folder, link = "/dev/exeat-test.%d" % os.getpid(), os.path.join(work.folder("state."), "link")
    os.mkdir(folder, 0o700)
    os.symlink(folder, link)
    try:
        for named in (folder, link):
            refused(exeat.call("run", "--state", named, "--", "sh", "-c", "echo it ran", user="root"),
                    "state directory %s: root's sandboxes have a /dev of their own" % folder, "--state DIR")
    finally:
        shutil.rmtree(folder)


@tap.test
def how_loud_it_is():
    """Denials are shown, -q shows nothing, -v everything."""
    command = "curl -s http://x.test/ >/dev/null; curl -s http://exeat.internal/policy >/dev/null"
    r = exeat.run(None, command)
    tap.equal(len(r.err.splitlines()), 1)
    tap.ok(re.fullmatch(r"exeat: denied GET http://x\.test/ \(.+\) \[[0-9A-Z]{26}\]\n", r.err), r.err)
    tap.contains(r.err, r.verdict(url="http://x.test/")["id"])
    tap.equal(exeat.run(None, command, flags=["-q"]).err, "")
    loud = exeat.run(None, command, flags=["-v"])
    tap.contains(loud.err, "exeat: denied GET http://x.test/")
    tap.ok(len(loud.err.splitlines()) >= 1)
    for flags, shown in (["-q", "-v"], True), (["-qv"], True), (["-v", "-q"], False), (["--verbose", "--quiet"], False):
        tap.equal(exeat.run(None, command, flags=flags).err != "", shown, "the last one counts: %s" % flags)
    tap.contains(exeat.call("run", "--help").out, "of -q and -v the last counts")


@tap.test
def a_policy_from_a_pipe():
    """As the shell's <(...) has it."""
    program = exeat.program()
    r = exeat.run(None, [], program_args=["bash", "-c", "exec %s run -p <(echo 'allow GET http://a.test/') -- curl -s http://exeat.internal/policy" % program])
    tap.equal(r.code, 0)
    tap.contains(r.out, "a.test")


tap.main()
