#!/usr/bin/env python3
"""A secret's file that has a second name can't be covered: nothing is started, and why is said."""
import os

import exeat
import tap
import work

POLICY = "allow GET https://a.test/** with key\n"
VAULT = "credential key\n    for https://a.test\n    from file %s\n    inject bearer\n"


def run(home, vault):
    return exeat.run(POLICY, ["cat", os.path.join(home, "vault"), os.path.join(home, "token"), os.path.join(home, "other")],
                     vault=vault, home=home)


@tap.test
def a_second_name_of_the_vault_or_of_a_token_is_refused(t):
    for name in ("vault", "token", None):
        home = work.folder("home.", user=exeat.as_user(), mode=0o700)
        token = work.write(os.path.join(home, "token"), "SECRET-A", 0o600, exeat.as_user())
        vault = work.write(os.path.join(home, "vault"), VAULT % token, 0o600, exeat.as_user())
        if name:
            os.link(os.path.join(home, name), os.path.join(home, "other"))
        r = run(home, vault)
        tap.lacks(r.out, "SECRET-A")
        tap.lacks(r.out, "credential")
        tap.equal(r.code, 125 if name else 1)
        if name:
            tap.contains(r.err, os.path.join(home, name) + " has 2 names (hard links)")


tap.main()
