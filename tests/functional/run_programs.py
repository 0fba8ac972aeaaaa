#!/usr/bin/env python3
"""exeat's other programs: where they are looked for, and whose are not taken."""
import os
import re
import shutil
import tempfile

import exeat
import tap
import work

PARTS = tuple(part[1:] for part in exeat.PARTS[1:])
BUILD = os.environ.get("TOP_BUILDDIR") or os.path.join(exeat.TOP, "build")


def libexec():
    """Where `make install` puts them."""
    with open(os.path.join(BUILD, "Makefile"), encoding="utf-8") as f:
        values = dict(re.findall(r"^(\w+) = (.*)$", f.read(), re.MULTILINE))
    path = "$(pkglibexecdir)"
    while "$" in path:
        path = re.sub(r"\$[({](\w+)[)}]", lambda m: values[m[1]], path)
    return path


def start(*args, **options):
    with exeat.Sandbox(None, [], program_args=[*args, "run", "-q", "--", "echo", "ran"], **options) as sandbox:
        r = sandbox.wait(30)
    tap.note(r)
    return r


def taken(*args, **options):
    r = start(*args, **options)
    tap.equal((r.code, r.out, r.err), (0, "ran\n", ""))


def refused(program, part, *words):
    """It's told which program, where it was looked for, what is wrong with it and what to do; and no command has run."""
    installed = os.path.join(libexec(), "exeat-" + part)
    if os.path.exists(installed):
        tap.skip("exeat is installed here")
    r = start(program)
    tap.equal((r.code, r.out), (125, ""))
    for word in ("exeat-%s is a part of exeat" % part, "%s-%s: " % (program, part), installed + ": No such file", "make install", *words):
        tap.contains(r.err, word)


@tap.test
def however_exeat_is_called_its_parts_are_beside_it():
    program = exeat.copy()
    folder = os.path.dirname(program)
    link = os.path.join(work.folder("links."), "other-name")
    os.symlink(program, link)
    taken(program)
    taken("./exeat", cwd=folder)
    taken("exeat", env={"PATH": folder + ":/usr/bin:/bin"})
    taken(link)


@tap.test
def what_is_not_beside_it_is_taken_from_libexecdir(t):
    """What is not beside it is taken from libexecdir, by the same rules"""
    # a copy of exeat that was built for a folder that can be made here
    program, built_for = exeat.copy(), libexec()
    folder = tempfile.mkdtemp(prefix="exeat", dir="/tmp")
    t.after(shutil.rmtree, folder)
    os.chmod(folder, 0o755)
    if len(folder) > len(built_for):
        tap.skip("%s is too short to be replaced" % built_for)
    with open(program, "rb") as f:
        content = f.read()
    tap.ok(built_for.encode() + b"\0" in content, built_for)
    work.write(program, content.replace(built_for.encode() + b"\0", folder.encode().ljust(len(built_for) + 1, b"\0")), 0o755)
    for part in PARTS:
        os.rename("%s-%s" % (program, part), os.path.join(folder, "exeat-" + part))
    taken(program)
    os.symlink("exeat", program + "-worker")
    taken(program)
    os.chmod(os.path.join(folder, "exeat-worker"), 0o757)
    r = start(program)
    tap.equal((r.code, r.out), (125, ""))
    tap.contains(r.err, "%s/exeat-worker: others may write to it" % folder)


@tap.test
def one_that_is_missing():
    for part in PARTS:
        program = exeat.copy()
        os.unlink("%s-%s" % (program, part))
        refused(program, part, "No such file or directory")
        process = work.popen([program, "doctor"], user=exeat.as_user(), cwd="/", stdin=-3, stdout=-1, stderr=-1)
        out, _ = process.communicate(timeout=60)
        tap.equal(process.returncode, 1)
        tap.contains(out.decode(), "error  programs of exeat's own\n       exeat-%s is a part of exeat and can't be used:" % part)


@tap.test
def one_that_others_may_write_to():
    for part, mode in (("keeper", 0o757), ("worker", 0o775), ("scribe", 0o777)):
        program = exeat.copy()
        os.chmod("%s-%s" % (program, part), mode)
        refused(program, part, "others may write to it")


@tap.test
def a_group_that_may_write_to_exeat_may_write_to_its_parts():
    program = exeat.copy()  # as after a build with umask 002
    for part in exeat.PARTS:
        os.chmod(program + part, 0o775)
    taken(program)


@tap.test
def one_of_another_owner():
    if work.account(None) is None:
        tap.skip("needs root, to make files of two owners")
    for part in PARTS:
        program = exeat.copy()
        work.give("%s-%s" % (program, part), work.PLAIN_USER)
        refused(program, part, "another owner than exeat")
    program = exeat.copy()
    work.give(program, work.PLAIN_USER)  # the rest is root's
    taken(program)


@tap.test
def what_is_no_regular_file_is_not_waited_for():
    program = exeat.copy()
    os.unlink(program + "-keeper")
    os.mkfifo(program + "-keeper")  # nobody writes to it
    refused(program, "keeper", "it is no regular file")
    program = exeat.copy()
    os.rename(program + "-worker", program + "-other")  # a link can be anybody's, whatever it leads to
    os.symlink("exeat-other", program + "-worker")
    refused(program, "worker", "it is no regular file")


@tap.test
def one_that_cannot_be_executed():
    program = exeat.copy()
    os.chmod(program + "-scribe", 0o644)
    r = start(program)
    tap.equal((r.code, r.out), (125, ""))
    tap.contains(r.err, "exeat: the scribe can't be started: %s-scribe: Permission denied" % program)
    program = exeat.copy()
    os.chmod(program + "-init", 0o644)
    r = start(program)
    tap.equal((r.code, r.out), (125, ""))
    tap.contains(r.err, "the sandbox's first process can't be started: %s-init: Permission denied" % program)
    program = exeat.copy()
    work.write(program + "-keeper", "", 0o755)
    r = start(program)
    tap.equal((r.code, r.out), (125, ""))
    tap.contains(r.err, "exeat: the keeper can't be started: %s-keeper: Exec format error" % program)


@tap.test
def one_of_another_version_or_of_another_build_of_the_same():
    build = exeat.build()
    version = build.split()[0]
    for other in (version[:-1] + "x" + build[len(version):], build.replace("(build ", "(build x")[:-2] + ")"):
        for part in PARTS:
            program = exeat.copy()
            path = "%s-%s" % (program, part)
            with open(path, "rb") as f:
                content = f.read()
            tap.equal(content.count(build.encode()), 1)
            work.write(path, content.replace(build.encode(), other.encode()), 0o755)
            r = start(program)
            tap.equal((r.code, r.out), (125, ""))
            tap.contains(r.err, "%s is of version %s, exeat itself of %s: install all of one" % (path, other, build))


@tap.test
def exeat_is_replaced_while_it_runs():
    program = exeat.copy()
    args = [program, "run", "-q", "--", "sh", "-c", ": > began; until test -e go; do sleep 0.05; done; echo ran"]
    with exeat.Sandbox(None, [], program_args=args) as sandbox:
        tap.eventually(lambda: os.path.exists(os.path.join(sandbox.home, "began")))
        for part in exeat.PARTS:
            os.unlink(program + part)
            shutil.copy2(exeat.program() + part, program + part)
        taken(program)
        work.write(os.path.join(sandbox.home, "go"), "")
        r = sandbox.wait(30)
    tap.equal((r.code, r.out), (0, "ran\n"))


@tap.test
def who_calls_one_by_hand_is_told_what_it_is():
    for part in PARTS:
        for args in ([], ["--help"], ["--version"], ["--role=" + part, "1", "0.1.0"]):
            process = work.popen(["%s-%s" % (exeat.program(), part), *args], user=exeat.as_user(), cwd="/", stdin=-3, stdout=-1,
                                 stderr=-1)
            out, err = process.communicate(timeout=15)
            tap.equal((process.returncode, out), (2, b""))
            tap.contains(err.decode(), "exeat-%s: a part of exeat(1), which starts it" % part)


tap.main()
