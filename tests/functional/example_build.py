#!/usr/bin/env python3
"""examples/bugfix/run, where it can't build: it says why, and shows nothing that an earlier run has left."""
import os
import shutil
import subprocess

import exeat
import tap
import work


def tree(t, owner):
    """A clone with nothing but the example; build/ holds an older log, and is not the user's to write."""
    top = work.folder("clone.", user=owner, mode=0o755)
    shutil.copytree(os.path.join(exeat.TOP, "examples"), os.path.join(top, "examples"))
    build = os.path.join(top, "build")
    os.mkdir(build)
    work.write(os.path.join(build, "example.log"), "an older log's tail\n", 0o444)
    os.chmod(build, 0o555)
    t.after(os.chmod, build, 0o755)
    return top, build


def run(top, **env):
    path = os.environ["PATH"]
    p = work.popen([os.path.join(top, "examples", "bugfix", "run")], user=exeat.as_user(), env={"PATH": path, **env}, cwd="/",
                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    out = p.communicate(timeout=60)[0].decode()
    return p.returncode, out


@tap.test
def a_build_folder_that_can_not_be_written_is_told(t):
    if os.geteuid() == 0 and exeat.as_user() == "root":
        tap.skip("root may write everywhere")
    top, build = tree(t, exeat.as_user())
    code, out = run(top)
    tap.equal(code, 1)
    tap.contains(out, "NOT as expected: %s can't be written to: make it writable, or name an exeat" % build)
    tap.lacks(out, "an older log's tail")
    tap.lacks(out, "Permission denied")


@tap.test
def an_exeat_that_is_named_and_is_none_is_told(t):
    top, _ = tree(t, exeat.as_user())
    code, out = run(top, EXEAT="/nonexistent/exeat")
    tap.equal(code, 1)
    tap.contains(out, "EXEAT=/nonexistent/exeat can't be run")


tap.main()
