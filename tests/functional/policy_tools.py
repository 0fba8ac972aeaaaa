#!/usr/bin/env python3
"""exeat policy check, test, explain, diff, replay and fmt, as they are typed: what is printed, and the exit status."""
import json
import os
import subprocess

import exeat
import pki
import raw
import servers
import tap
import work

POLICIES = os.path.join(exeat.TOP, "policy")


def files(**named):
    """A folder with these files; names end in .policy unless they have a dot of their own."""
    folder = work.folder("policies.", user=exeat.as_user(), mode=0o755)
    for name, text in named.items():
        work.write(os.path.join(folder, name.replace("__", ".").replace("_", "-") + ("" if "__" in name else ".policy")), text)
    return folder


def policy(folder, *args, **options):
    env = {"EXEAT_POLICY_PATH": POLICIES, **options.pop("env", {})}
    return exeat.call("policy", *[os.path.join(folder, a[1:]) if a.startswith("@") else a for a in args], env=env, **options)


@tap.test
def check_tells_errors_with_a_caret_and_warnings():
    folder = files(good="allow GET https://a.test/**\n", bad="allow get https://a.test/\n",
                   odd="allow GTE https://a.test/\nallow GET https://a.test/x with c\n")
    r = policy(folder, "check", "@good.policy")
    tap.equal((r.code, r.err), (0, ""))
    r = policy(folder, "check", "@bad.policy")
    tap.equal(r.code, 2)
    tap.contains(r.err, ":1:7: error: ")
    tap.contains(r.err, "        ^~~\n")
    r = policy(folder, "check", "@odd.policy")
    tap.equal(r.code, 1)
    tap.contains(r.out, "did you mean GET?")
    tap.contains(r.out, "no `expect` proves this rule")
    r = policy(folder, "check", "--json", "@odd.policy")
    found = json.loads(r.out)["findings"]
    tap.equal([(f["code"], f["rule"]["line"]) for f in found], [("unknown-method", 1), ("no-expect", 2)])
    tap.contains(json.dumps(json.loads(policy(folder, "check", "--json", "@bad.policy").out)), '"column": 7')
    work.write(os.path.join(folder, "credentials"), "credential d\n    for https://a.test\n    from env X\n    inject bearer\n",
               0o600, exeat.as_user())
    r = policy(folder, "check", "--vault", "@credentials", "@odd.policy")
    tap.contains(r.out, "the vault defines no credential 'c'")


@tap.test
def a_word_that_is_no_action_is_told_with_the_one_that_was_meant():
    folder = files(good="allow GET https://a.test/**\n", bad="allow psh https://a.test/r\nalow GET https://a.test/r\n")
    r = policy(folder, "check", "@bad.policy")
    tap.contains(r.err, "1:7: error: unknown action 'psh'\n  allow psh https://a.test/r\n        ^~~\n")
    tap.equal([line for line in r.err.splitlines() if "hint" in line], ["  hint: did you mean push?", "  hint: did you mean allow?"])
    for word, said in (("get", "did you mean GET? Methods are written in capitals"), ("Delete", "did you mean DELETE? "),
                       ("pull", "did you mean fetch?"), ("psh", "did you mean push?"), ("g e t", "methods are written in capitals")):
        r = policy(folder, "explain", "@good.policy", word, "https://a.test/r")
        tap.equal((r.code, r.out), (2, ""), word)
        tap.contains(r.err, "'%s' is neither a method, " % word)
        tap.contains(r.err, said)
    tap.equal(policy(folder, "explain", "@good.policy", "GET", "https://a.test/r").code, 0)


@tap.test
def a_write_that_push_rules_refuse_is_not_warned_of_if_it_is_meant():
    """An `expect deny` says so; one of something else, or what the rule about HTTP does not permit, does not."""
    rules = ("allow GET,PUT https://api.github.com/repos/acme/app/contents/**\n"
             "allow push https://github.com/acme/app refs/heads/fix/*\n")
    main = 'https://api.github.com/repos/acme/app/contents/a body {"branch":"main"}\n'
    folder = files(bare=rules, meant=rules + "expect deny PUT " + main, other=rules + "expect deny POST " + main,
                   allowed=rules + "expect allow PUT " + main.replace("main", "fix/1"))
    for name, code in (("bare", 1), ("meant", 0), ("other", 1), ("allowed", 1)):
        r = policy(folder, "check", "@%s.policy" % name)
        tap.equal((r.code, "an `expect deny` if it is meant" in r.out), (code, code == 1), name)


@tap.test
def errors_have_colour_on_a_terminal_alone():
    folder = files(bad="allow get https://a.test/\n", odd="allow GTE https://a.test/\n")
    for name, env, painted in (("bad", {}, "\033[1;31merror:\033[0m unknown action"), ("odd", {}, "\033[33mwarning:\033[0m no common"),
                               ("bad", {"NO_COLOR": "1"}, None), ("bad", {"TERM": "dumb"}, None)):
        command = "%s policy check %s" % (exeat.program(), os.path.join(folder, name + ".policy"))
        env = {**exeat.environment(folder, None), "TERM": "xterm", **env}
        shown = subprocess.run(["script", "-qec", command, "/dev/null"], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               timeout=30, check=False).stdout.decode()
        tap.contains(shown, painted or "error: unknown action")
        tap.equal("\033" in shown, painted is not None, name)


@tap.test
def a_failed_expectation_is_told_with_the_rule_that_was_meant():
    folder = files(p="expect allow push https://a.test/r refs/heads/fix/1 create with c\nexpect ask POST https://a.test/x\n")
    r = policy(folder, "check", "@p.policy")
    tap.equal(r.code, 1)
    tap.contains(r.err, "  hint: the smallest rule that permits it: allow push https://a.test/r refs/heads/fix/1 create with c\n")
    tap.contains(r.err, "  hint: the smallest rule that asks a person: ask POST https://a.test/x\n")


@tap.test
def wrong_usage_and_unreadable_files_are_2():
    folder = files(good="allow GET https://a.test/**\n")
    for args in (["explain", "@good.policy", "lfs", "https://a.test/r", "frob"], ["check"], ["diff", "@good.policy"], ["frob"], [], ["check", "--frob", "@good.policy"], ["explain", "@good.policy", "GET", "ftp://x/"],
                 ["replay", "@none.jsonl", "@good.policy"], ["fmt", "@none.policy"], ["diff", "@none.policy", "@good.policy"],
                 ["explain", "@good.policy", "push", "https://a.test/r", "refs/heads/x", "frob"],
                 ["explain", "@good.policy", "push", "https://a.test/r", "main"],
                 ["explain", "@good.policy", "fetch", "https://a.test/r", "main"], ["test", "@none.policy"],
                 ["check", "@none.policy"]):
        r = policy(folder, *args)
        tap.equal(r.code, 2, str(args))
        tap.ok(r.err or r.out, str(args))


@tap.test
def what_is_too_long_is_told_with_the_limit():
    folder = files(rule="allow GET https://a.test/" + "x" * 9000 + "\n", file="#\n" * (3 << 20))
    tap.contains(policy(folder, "check", "@rule.policy").err, "rule is too long\n")
    tap.contains(policy(folder, "check", "@rule.policy").err, "  hint: 8192 bytes at most, with its continuation lines\n")
    tap.contains(policy(folder, "check", "@file.policy").err, "file.policy: error: can't be read: it is larger than 4 MiB\n")


@tap.test
def of_a_file_that_cannot_be_read_nothing_else_is_told():
    folder = files(includes='include "none.policy"\n')
    for name in ("@none.policy", "@includes.policy"):
        r = policy(folder, "check", "--set", "repo=a/b", name)
        tap.equal(r.code, 2)
        tap.contains(r.err, "no such file")
        tap.lacks(r.err, "no policy uses")


@tap.test
def every_tool_means_the_same_by_its_status():
    folder = files(good="allow GET https://a.test/x\n", bad="allow get https://a.test/\n", log__jsonl="",
                   fails="allow GET https://a.test/x\nexpect deny GET https://a.test/x\n")
    for args in (["check", "@bad.policy"], ["test", "@bad.policy"], ["explain", "@bad.policy", "GET", "https://a.test/"],
                 ["diff", "@bad.policy", "@good.policy"], ["diff", "@good.policy", "@bad.policy"],
                 ["replay", "@log.jsonl", "@bad.policy"], ["fmt", "@bad.policy"], ["fmt", "--check", "@bad.policy"]):
        for json_too in ([], ["--json"]):
            r = policy(folder, *args, *json_too)
            tap.equal(r.code, 2, args)
            if json_too:
                tap.contains(json.dumps(json.loads(r.out)), '"line": 1, "column": 7')
    for args, code in ((["check"], 1), (["test"], 1), (["explain", "GET", "https://a.test/x"], 2)):
        tap.equal(policy(folder, args[0], "@fails.policy", *args[1:]).code, code, args)


@tap.test
def test_proves_and_counts():
    folder = files(p="let repo\nallow GET https://a.test/$repo/*\nexpect allow GET https://a.test/$repo/x\n",
                   fails="allow GET https://a.test/x\nexpect deny GET https://a.test/x\nexpect allow GET https://a.test/x\n",
                   none="allow GET https://a.test/x\n",
                   good__policy_test='# from outside\npolicy "p.policy"\nset repo = r\nexpect allow GET https://a.test/r/y\n'
                                     "expect deny POST https://a.test/r/y\n",
                   wrong__policy_test='policy "p.policy"\nset repo = r\nexpect allow PUT https://a.test/r/y\n',
                   broken__policy_test='policy "p.policy"\nallow PUT https://a.test/r/y\n')
    r = policy(folder, "test", "--set", "repo=q", "@p.policy")
    tap.equal(r.code, 0)
    tap.contains(r.out, "1 expectation, 0 failed")
    r = policy(folder, "test", "@fails.policy")
    tap.equal(r.code, 1)
    tap.contains(r.out, "2 expectations, 1 failed")
    tap.contains(r.out, "fails.policy:1 decides: allow GET https://a.test/x")
    r = policy(folder, "test", "@good.policy-test")
    tap.equal(r.code, 0)
    tap.contains(r.out, "3 expectations, 0 failed")
    r = policy(folder, "test", "--json", "@wrong.policy-test")
    tap.equal(r.code, 1)
    tap.equal((json.loads(r.out)["failed"], json.loads(r.out)["files"][0]["errors"][0]["line"]), (1, 3))
    tap.equal(policy(folder, "test", "@broken.policy-test").code, 2)
    # each of several files takes the values that it uses; one that none uses is told
    r = policy(folder, "test", "--set", "repo=q", "@p.policy", "@none.policy")
    tap.equal((r.code, r.err), (0, ""), str(r))
    tap.contains(r.out, "none.policy: 0 expectations, 0 failed\n")
    tap.contains(r.out, "2 files: 1 expectation, 0 failed\n")
    r = policy(folder, "test", "--set", "repo=q", "--set", "rope=q", "@p.policy", "@none.policy")
    tap.equal((r.code, r.err), (2, "exeat: policy test: --set: none of the files uses a variable 'rope'\n"), str(r))
    # of what was not tested nothing counts as proved, and the sum says that it was not
    r = policy(folder, "test", "--set", "repo=q", "@p.policy", "@fails.policy", "@broken.policy-test")
    tap.equal(r.code, 2)
    tap.contains(r.out, "broken.policy-test: not tested")
    tap.contains(r.out, "3 files: 3 expectations, 1 failed; 1 not tested\n")
    r = policy(folder, "test", "--json", "@p.policy", "@fails.policy")
    report = json.loads(r.out)
    tap.equal([f["tested"] for f in report["files"]], [False, True])
    tap.equal((r.code, report["expectations"], report["failed"], report["not_tested"]), (2, 2, 1, 1))


@tap.test
def every_failure_is_told_and_what_is_not_is_counted():
    folder = files(many="".join(f"expect allow GET https://a.test/{i}\n" for i in range(70)),
                   wrong="".join(f"alow GET https://a.test/{i}\n" for i in range(70)))
    r = policy(folder, "test", "@many.policy")
    tap.equal((r.code, r.out.count(": error: ")), (1, 70))
    r = policy(folder, "test", "--json", "@many.policy")
    tap.equal([e["line"] for e in json.loads(r.out)["files"][0]["errors"]], list(range(1, 71)))
    r = policy(folder, "check", "--json", "@wrong.policy")
    errors = json.loads(r.out)["errors"]
    tap.equal((r.code, len(errors), errors[-1]["not_shown"]), (2, 51, 20))


@tap.test
def every_preset_is_good():
    names = sorted(n for n in os.listdir(POLICIES) if n.endswith(".policy"))
    for name in names:
        path = os.path.join(POLICIES, name)
        with open(path, encoding="utf-8") as f:
            text = f.read()
        sets = [a for n in ("repo", "project") if "\nlet %s " % n in text or "\nlet %s\n" % n in text for a in ("--set", n + "=acme/app")]
        r = exeat.call("policy", "check", *sets, path)
        tap.equal((r.code, r.err), (0, ""), name)
        r = exeat.call("policy", "test", *sets, path)
        tap.equal(r.code, 0, name)
        tap.lacks(r.out, ": 0 expectations")
    tap.ok(len(names) > 20, names)


@tap.test
def explain_tells_what_came_close():
    folder = files(p="allow GET https://a.test/v1/*\nallow push https://g.test/acme/app refs/heads/fix/* create\n"
                     "deny GET https://a.test/v1/secret\n")
    r = policy(folder, "explain", "@p.policy", "GET", "https://a.test/v1/x?y=z")
    tap.equal(r.code, 0)
    tap.contains(r.out, "allow GET https://a.test/v1/x?y=z")
    r = policy(folder, "explain", "@p.policy", "GET", "https://a.test/v1/secret", "--json")
    tap.equal(r.code, 1)
    tap.equal((json.loads(r.out)["reason"], json.loads(r.out)["rule"]["line"]), ("denied-by-rule", 3))
    r = policy(folder, "explain", "@p.policy", "GET", "https://a.test/v2/x", "-H", "Accept: x", "--body", "-", stdin="{}")
    tap.equal(r.code, 1)
    tap.contains(r.out, "path: its pattern does not take /v2/x")
    tap.contains(r.out, "allow GET https://a.test/v2/x\n")
    r = policy(folder, "explain", "@p.policy", "push", "https://g.test/acme/app.git", "refs/heads/fix/1", "0" * 40, "1" * 40)
    tap.equal(r.code, 0)
    r = policy(folder, "explain", "@p.policy", "push", "https://g.test/acme/app", "refs/heads/main", "delete")
    tap.equal(r.code, 1)
    tap.contains(r.out, "allow push https://g.test/acme/app refs/heads/main delete")


@tap.test
def rules_that_are_needed_together_are_told_so():
    folder = files(p="allow push https://github.com/a/b refs/heads/x\nallow fetch https://c.test/d\n")
    args = ("explain", "@p.policy", "PUT", "https://api.github.com/repos/a/b/contents/x")
    tap.contains(policy(folder, *args).out, "  the smallest rules that would permit it, together:\n    allow PUT ")
    tap.contains(policy(folder, "explain", "@p.policy", "GET", "https://d.test/").out,
                 "  the smallest rule that would permit it:\n    allow GET https://d.test/\n")


@tap.test
def rules_of_http_come_close_to_no_push():
    folder = files(p="allow * https://g.test/**\nallow push https://g.test:8443/acme/app\nallow push https://g.test/acme/app refs/heads/fix/*\n")
    r = policy(folder, "explain", "--json", "@p.policy", "push", "https://g.test/acme/app", "refs/heads/main")
    tap.equal([n["rule"]["line"] for n in json.loads(r.out)["near"]], [3, 2])
    r = policy(folder, "explain", "--json", "@p.policy", "fetch", "https://g.test/acme/app")
    tap.lacks(str([n["rule"]["line"] for n in json.loads(r.out)["near"]]), "1")


@tap.test
def explain_knows_gits_endpoints_by_their_urls():
    folder = files(p="allow fetch https://g.test/acme/app\n")
    r = policy(folder, "explain", "@p.policy", "GET", "https://g.test/acme/app.git/info/refs?service=git-upload-pack")
    tap.equal((r.code, r.out.split("\n")[0]), (0, "allow fetch https://g.test/acme/app"))
    r = policy(folder, "explain", "@p.policy", "POST", "https://g.test/acme/app/git-receive-pack")
    tap.equal((r.code, r.out.split("\n")[0]), (1, "deny push https://g.test/acme/app"))
    r = policy(folder, "explain", "@p.policy", "GET", "https://g.test/acme/app.git/INFO/refs?service=git-upload-pack")
    tap.contains(r.out, "git's endpoints are permitted by fetch and push rules alone")


@tap.test
def what_a_server_of_gits_could_take_for_its_own_is_denied_as_by_the_proxy(t):
    """Rules of HTTP that name it to the letter, and all that there is: neither tool says that it is permitted, and the proxy refuses it."""
    targets = ["POST /r.git/git-receive-pack;x=1", "POST /r.git/git-receive-pack%3Bx", "POST /r.git/git-receive-pack.",
               "POST /r.git/git-receive-pack;a/", "POST /r.git/Git-Receive-Pack", "POST /r.git/git-upload-pack;x=1", "PUT /r.git/git-receive-pack",
               "GET /r.git/info/refs", "GET /r.git/info/refs;x?service=git-receive-pack", "GET /r.git/info/refs?service=git-receive-pack;x",
               "GET /r.git/objects/info/packs", "GET /docs/git-receive-pack"]
    fine = ["POST /r.git/git-receive-packs", "GET /r.git/info/refsx", "GET /blob/git-receive-pack.c"]
    text = "allow * https://a.test/**\nallow fetch https://a.test\n"
    folder = files(p=text)
    for target in targets + fine:
        method, path = target.split(" ")
        r = policy(folder, "explain", "@p.policy", method, "https://a.test" + path)
        tap.equal(r.code, 1 if target in targets else 0, target)
    for target in targets:
        method, path = target.split(" ")
        for verb, code in (("allow", 1), ("deny", 0)):
            tested = files(t="%sexpect %s %s https://a.test%s\n" % (text, verb, method, path))
            tap.equal(policy(tested, "test", "@t.policy").code, code, target)
    authority = pki.Pki()
    server = t.use(servers.RawServer(tls=authority.leaf("a.test")))
    command = "".join("curl -s -o /dev/null -w '%%{http_code} ' --path-as-is -X %s 'https://a.test%s'; " % tuple(q.split(" ")) for q in targets + fine)
    r = exeat.run(text, command, resolve=[server.resolve("a.test")], upstream_ca=authority.ca)
    tap.equal(r.out.split(), ["403"] * len(targets) + ["200"] * len(fine))


@tap.test
def explain_judges_refs_of_a_fetch():
    folder = files(p="allow fetch https://g.test/acme/app refs/heads/main also bundle-uri with c\n")
    url = "https://g.test/acme/app.git"
    for words, code, told in (([], 0, "rule: "), (["refs/heads/main"], 0, "allow fetch https://g.test/acme/app refs/heads/main\n"),
                              (["refs/heads/x"], 1, "ref: refs/heads/x is not in refs/heads/main\n"), (["also", "bundle-uri"], 0, "credential: c"),
                              (["also", "archive"], 1, "also: it does not permit archive\n"), (["also", "everything"], 2, "")):
        r = policy(folder, "explain", "@p.policy", "fetch", url, *words)
        tap.equal(r.code, code)
        tap.contains(r.out, told)
    r = policy(folder, "explain", "@p.policy", "POST", url + "/git-upload-archive")
    tap.equal((r.code, r.out.split("\n")[0]), (1, "deny fetch https://g.test/acme/app also archive"))
    tap.contains(r.out, "allow fetch https://g.test/acme/app also archive\n")


@tap.test
def explain_reads_bodies_and_headers_and_tells_the_terms():
    folder = files(p='allow POST https://a.test/x where json base == main and json draft == true limit 600/h max-body 8MiB note "be kind"\n'
                     "allow GET https://a.test/y where header X == y to 10.0.0.0/8 private with c\n")
    asked = ["explain", "@p.policy", "POST", "https://a.test/x", "--body", "-"]
    r = policy(folder, *asked, stdin='{"base":"main","draft":true}')
    tap.equal(r.code, 0)
    tap.contains(r.out, "\n  limit: 600/h\n  max-body: 8388608 bytes\n")
    tap.contains(r.out, "be kind")
    told = json.loads(policy(folder, *asked, "--json", stdin='{"base":"main","draft":true}').out)
    tap.equal((told["limit"], told["max_body"], told["note"]), ("600/h", 8388608, "be kind"))
    r = policy(folder, *asked, stdin='{"base":"main","draft":false}')
    tap.equal(r.code, 1)
    tap.contains(r.out, "condition: json draft == true: it does not hold\n")
    r = policy(folder, *asked, "-H", "Content-Type: text/plain", stdin='{"base":"main","draft":true}')
    tap.contains(r.out, "condition: json base == main: the body's type is not JSON in UTF-8\n")
    r = policy(folder, "explain", "@p.policy", "GET", "https://a.test/y")
    tap.contains(r.out, "condition: header X == y: it does not hold\n")
    r = policy(folder, "explain", "@p.policy", "GET", "https://a.test/y", "--header", "X: y")
    tap.equal(r.code, 0)
    tap.contains(r.out, "\n  credential: c\n  to: 10.0.0.0/8 private\n")


@tap.test
def explain_judges_a_push_by_what_it_brings():
    folder = files(p="allow push https://g.test/a/b refs/heads/* create paths src/** max-size 1MiB max-blob 64KiB\n"
                     "allow push https://g.test/a/c refs/heads/* options topic=*\ndeny push https://g.test/a/c paths .github/**\n"
                     'allow push https://g.test/a/d max-commits 3 author "*@corp.test>" "A <a@x.test>" committer "*@corp.test>" signed\n')
    b, c, d = (["push", "https://g.test/a/" + r, "refs/heads/x"] for r in "bcd")
    fine = ["--path", "src/a", "--path", "src/b", "--size", "1MiB", "--blob", "512"]
    signed = ["--commits", "3", "--author", "A <a@x.test>", "--author", "B <b@corp.test>", "--committer", "B <b@corp.test>", "--signed", "yes"]
    for request, brings, code, told in (
            (b, [], 1, "depends push"), (b, [], 1, "it depends on what the push brings: paths, max-size, max-blob\n"),
            (b, [], 1, ":1: allow push https://g.test/a/b refs/heads/* create paths src/** max-size 1MiB max-blob 64KiB\n"
                       "      not told: paths, max-size, max-blob\n"),
            (b, ["--path", "src/a"], 1, "it depends on what the push brings: max-size, max-blob\n"), (b, fine, 0, "allow push"),
            (b, fine + ["--path", "doc/c"], 1, "paths: the push changes doc/c\n"),
            (b, fine + ["--path", "doc/c"], 1, "    allow push https://g.test/a/b refs/heads/x create paths src/a src/b doc/c max-size 1MiB max-blob 64KiB\n"),
            (b, ["--path", "src/a", "--size", "2MiB"], 1, "max-size: the pack is larger\n"), (b + ["delete"], [], 1, "deny push"),
            (c, [], 1, "not told: paths\n"), (c, ["--path", ".github/x"], 1, "no rule that is added would permit it, for this one denies it:\n"),
            (c, ["--path", "src/a"], 0, "allow push"), (c, ["--path", "src/a", "-o", "topic=1"], 0, "allow push"),
            (c, ["--path", "src/a", "--push-option", "merge_request.create"], 1, "options: the push has an option that it does not name"),
            (d, signed, 0, "allow push"), (d, signed[:-2], 1, "it depends on what the push brings: signed\n"),
            (d, signed[:-1] + ["no"], 1, "signed: a commit has no signature\n"), (d, signed[2:], 1, "brings: max-commits\n"),
            (d, signed + ["--author", "Eve <e@evil.test>"], 1, "author: the push has the author Eve <e@evil.test>\n"),
            (["push", "https://g.test/a/b"], fine, 2, ""), (["GET", "https://g.test/"], ["--signed", "yes"], 2, ""),
            (b, ["--size", "big"], 2, ""), (d, ["--signed", "perhaps"], 2, ""), (d, ["--commits", "-1"], 2, ""), (b, ["--path", "/x"], 2, "")):
        r = policy(folder, "explain", *brings, "@p.policy", *request)
        tap.equal(r.code, code, str(request + brings) + r.out + r.err)
        tap.contains(r.out, told)
    told = json.loads(policy(folder, "explain", "--json", "@p.policy", *c).out)
    tap.equal((told["verdict"], [(h["rule"]["line"], h["parts"]) for h in told["hangs_on"]], told["smallest"]), ("depends", [(3, ["paths"])], []))
    told = json.loads(policy(folder, "explain", "--json", "@p.policy", *c, "--path", ".github/x").out)
    tap.equal((told["verdict"], told["in_the_way"]["line"], told["smallest"]), ("deny", 3, []))


@tap.test
def diff_says_what_changes():
    folder = files(a="allow GET https://a.test/docs/**\n", b="allow GET https://a.test/*/x\n")
    r = policy(folder, "diff", "@a.policy", "@b.policy")
    tap.equal(r.code, 1)
    tap.contains(r.out, "becomes permitted:\n+ GET https://a.test/*/x\n")
    tap.contains(r.out, "but permitted already by")
    tap.contains(r.out, " on /docs/x\n")
    tap.lacks(r.out, "\033[")
    r = policy(folder, "diff", "@a.policy", "@a.policy")
    tap.equal(r.code, 0)
    r = policy(folder, "diff", "--json", "@a.policy", "@b.policy")
    tap.equal(sorted(d["change"] for d in json.loads(r.out)["differences"]), ["gain", "loss"])


@tap.test
def replay_judges_what_was_recorded(t):
    authority = pki.Pki()
    server = t.use(raw.RawServer(tls=authority.leaf("a.test"), answer=servers.response(200, "x")))
    run = exeat.run("allow GET https://a.test/**\n", "for i in 1 2 3; do curl -sS https://a.test/$i; done; "
                    "curl -sS -o /dev/null -d x https://a.test/4; true", resolve=server.resolve("a.test"), upstream_ca=authority.ca)
    tap.equal(len(run.verdicts()), 4)
    folder = files(same="allow GET https://a.test/**\n", other="allow GET https://a.test/1\nallow POST https://a.test/4\n")
    r = policy(folder, "replay", run.log, "@same.policy")
    tap.equal(r.code, 0)
    tap.contains(r.out, "4 requests judged, 0 differ")
    r = policy(folder, "replay", run.log, "@other.policy")
    tap.equal(r.code, 1)
    tap.contains(r.out, "2 permitted then, denied now")
    tap.contains(r.out, "1 denied then, permitted now")
    tap.contains(r.out, "4 requests judged, 3 differ")
    tap.equal(sorted(g["count"] for g in json.loads(policy(folder, "replay", "--json", run.log, "@other.policy").out)["groups"]), [1, 2])
    tap.equal(policy(folder, "replay", "@same.policy", "@same.policy").code, 2)


@tap.test
def replay_says_what_the_log_does_not_tell():
    def line(number, url, method="POST", verdict="allow", code="allowed", **more):
        return json.dumps({"event": "verdict", "id": str(number), "verdict": verdict, "code": code, "reason": "then", "method": method,
                           "url": url, **more})

    push = {"service": "git-receive-pack", "refs": [{"ref": "refs/heads/a", "op": "create"}], "omitted": 3}
    log = [line(1, "https://a.test/x"), line(2, "https://a.test/y"), line(3, "https://a.test/z"),
           line(4, "https://a.test/q?a=*", "GET"), line(5, "https://a.test/q?b=*", "GET", "deny", "no-rule-for-path"),
           line(6, "https://a.test/q?a=1", "GET"), line(7, "https://a.test/y", verdict="deny", code="limit"),
           line(8, "https://a.test/r.git/git-receive-pack", git=push), line(9, "https://a.test/s.git/git-receive-pack", git=push),
           line(10, "https://a.test/g"), line(11, "https://a.test/w"),
           *[line(12 + i, "https://a.test/f%d.git/git-upload-pack" % i, git={"service": "git-upload-pack"}) for i in range(4)]]
    folder = files(p="allow POST https://a.test/x where json base == main\n"
                     "allow POST https://a.test/y where json base == main\nallow POST https://a.test/y\n"
                     "allow POST https://a.test/z where json base == main\ndeny POST https://a.test/z\n"
                     "allow GET https://a.test/q where query a == 1\nallow push https://a.test/r\n"
                     "allow POST https://a.test/g where graphql operation == query\n"
                     "allow fetch https://a.test/f0 refs/heads/a\nallow fetch https://a.test/f{1,2,3}\ndeny fetch https://a.test/f2 refs/heads/a\n"
                     "allow POST https://a.test/w where json a == x\nallow POST https://a.test/w where json a ~ x|y with c\n",
                   log__jsonl="\n".join(log) + "\n")
    r = policy(folder, "replay", "--json", "@log.jsonl", "@p.policy")
    told = json.loads(r.out)
    tap.equal((r.code, told["judged"], told["differ"], told["untold"], told["others"]), (1, 14, 2, 7, 1))
    tap.equal(sorted((g["verdict_now"], g["id"], g["count"]) for g in told["groups"]),
              [("deny", "3", 1), ("deny", "9", 1), ("unknown", "1", 1), ("unknown", "10", 1), ("unknown", "11", 1), ("unknown", "12", 1), ("unknown", "14", 1),
               ("unknown", "4", 1),
               ("unknown", "8", 1)])
    r = policy(folder, "replay", "@log.jsonl", "@p.policy")
    tap.contains(r.out, "1 permitted then, can't be told now\n")
    tap.contains(r.out, ":1: allow POST https://a.test/x where json base == main\n")
    tap.contains(r.out, "the log does not tell all refs of the push\n")
    tap.contains(r.out, "14 requests judged, 2 differ, 7 can't be told; 1 refusal had other reasons than a policy's\n")
    work.write(os.path.join(folder, "log.jsonl"), line(1, "https://a.test/x") + "\n")
    tap.equal(policy(folder, "replay", "@log.jsonl", "@p.policy").code, 1)


@tap.test
def replay_judges_refusals_of_every_kind():
    def line(number, url, code, method="POST", **more):
        return json.dumps({"event": "verdict", "id": str(number), "verdict": "deny", "code": code, "reason": "then", "method": method,
                           "url": url, **more})

    repo, pushed = "https://g.test/acme/app", {"service": "git-receive-pack", "refs": [{"ref": "refs/heads/a", "op": "create"}]}
    log = [line(1, repo + ".git/git-upload-archive", "no-rule-for-extra", git={"service": "git-upload-archive"}),
           line(2, repo + ".git/git-upload-pack", "no-rule-for-extra", git={"service": "git-upload-pack"}),
           line(3, "https://api.github.com/repos/acme/app/frob", "write-unknown"),
           line(4, "https://api.github.com/repos/acme/app/merges", "write-unreadable"),
           line(5, repo + ".git/git-receive-pack", "push-option", git=pushed), line(6, repo, "limit")]
    folder = files(log__jsonl="\n".join(log) + "\n", denies="allow GET https://other.test/\n",
                   p="allow fetch %s also archive\nallow POST https://api.github.com/repos/acme/app/**\nallow push %s\n" % (repo, repo))
    r = policy(folder, "replay", "@log.jsonl", "@denies.policy")
    tap.contains(r.out, "5 requests judged, 0 differ, 0 can't be told; 1 refusal had other reasons")
    r = policy(folder, "replay", "--json", "@log.jsonl", "@p.policy")
    tap.equal(sorted((g["verdict_now"], g["id"]) for g in json.loads(r.out)["groups"]),
              [("allow", "1"), ("allow", "3"), ("unknown", "2"), ("unknown", "4"), ("unknown", "5")])


@tap.test
def fmt_formats_in_place_and_checks():
    folder = files(p="allow  GET   https://a.test/ #c\nallow GET,HEAD https://a.test/x\n")
    path = os.path.join(folder, "p.policy")
    work.give(folder, exeat.as_user())
    work.give(path, exeat.as_user())
    r = policy(folder, "fmt", "--check", "@p.policy")
    tap.equal((r.code, r.out), (1, path + "\n"))
    tap.equal(policy(folder, "fmt", "@p.policy").code, 0)
    with open(path, encoding="utf-8") as f:
        tap.equal(f.read(), "allow GET      https://a.test/  #c\nallow GET,HEAD https://a.test/x\n")
    tap.equal(policy(folder, "fmt", "--check", "@p.policy").code, 0)
    tap.equal(policy(folder, "fmt", "-", stdin="allow  GET https://a.test/\n").out, "allow GET https://a.test/\n")
    tap.equal(os.listdir(folder), ["p.policy"])
    r = policy(folder, "fmt", "--json", "--check", "@p.policy", "@none.policy", "-", stdin="allow  GET https://a.test/\n")
    told = json.loads(r.out)["files"]
    tap.equal((r.code, [f["differs"] for f in told], [len(f["errors"]) for f in told]), (2, [False, False, True], [0, 1, 0]))
    r = policy(folder, "fmt", "--json", "-", stdin="allow  GET https://a.test/\n")
    tap.equal((r.code, json.loads(r.out)["files"][0]["text"]), (0, "allow GET https://a.test/\n"))


@tap.test
def explain_judges_lfs_by_what_it_is_for():
    folder = files(p="allow lfs https://a.test/r download\n")
    for words, code, told in ((["download"], 0, "allow POST https://a.test/r.git/info/lfs/objects/batch"),
                              (["upload"], 1, "allow lfs https://a.test/r upload"),
                              (["lock"], 1, "no rule allows LFS lock of this repository"),
                              ([], 1, "operation: it does not allow what can't be told")):
        r = policy(folder, "explain", "@p.policy", "lfs", "https://a.test/r.git", *words)
        tap.equal(r.code, code)
        tap.contains(r.out, told)


if __name__ == "__main__":
    tap.main()
