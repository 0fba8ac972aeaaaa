#!/usr/bin/env python3
"""What covers a file of a secret inside covers that very file. When another one gets its name, all that could read it ends."""
import os

import exeat
import roles
import tap
import work

WAITS = ": > began; until test -e go; do sleep 0.05; done; cat %s"


class Place:
    """A folder of secrets, and the vault that names one of them."""

    def __init__(self):
        self.user = exeat.as_user()
        self.folder = work.folder("secrets.", user=self.user)
        self.token = os.path.join(self.folder, "token")
        self.vault = os.path.join(self.folder, "credentials")
        self.write(self.token, "SECRET-OLD\n")
        self.write(self.vault, "credential one\n    for https://a.test\n    from file %s\n    inject bearer\n" % self.token)

    def write(self, path, content):
        work.write(path, content, 0o600, self.user)

    def replace(self, path, content="SECRET-NEW\n"):
        self.write(path + ".new", content)
        os.rename(path + ".new", path)


def ended(sandbox, path, told=None):
    """It ended before it could read on, and who saw it has said which file it was."""
    r = sandbox.wait()
    tap.note(r)
    tap.equal((r.code, r.out), (125, ""))
    tap.contains(told or r.err, "%s was replaced or taken away" % path)


@tap.test
def another_file_in_its_place_ends_the_sandbox(t):
    for which in ("token", "vault"):
        place = Place()
        path = getattr(place, which)
        sandbox = t.use(exeat.Sandbox(None, WAITS % path, vault=place.vault))
        roles.began(sandbox)
        place.replace(path)
        ended(sandbox, path)


@tap.test
def another_file_where_it_was_ends_the_sandbox(t):
    """Moved away it is covered there, and what comes into its place is not."""
    place = Place()
    sandbox = t.use(exeat.Sandbox(None, WAITS % place.token, vault=place.vault))
    roles.began(sandbox)
    os.rename(place.token, place.token + ".old")
    ended(sandbox, place.token)


@tap.test
def a_link_that_leads_elsewhere_ends_the_sandbox(t):
    place = Place()
    os.rename(place.token, place.token + "-1")
    place.write(place.token + "-2", "SECRET-NEW\n")
    os.symlink("token-1", place.token)
    sandbox = t.use(exeat.Sandbox(None, WAITS % place.token, vault=place.vault))
    roles.began(sandbox)
    os.symlink("token-2", place.token + ".new")
    os.rename(place.token + ".new", place.token)
    ended(sandbox, place.token)


@tap.test
def what_is_written_into_it_stays_covered(t):
    """And other files come and go beside it."""
    place = Place()
    sandbox = t.use(exeat.Sandbox(None, WAITS % place.token + "; echo read", vault=place.vault))
    roles.began(sandbox)
    with open(place.token, "w", encoding="ascii") as f:
        f.write("SECRET-NEW\n")
    place.replace(os.path.join(place.folder, "other"))
    os.unlink(os.path.join(place.folder, "other"))
    work.write(os.path.join(sandbox.home, "go"), "")
    r = sandbox.wait()
    tap.equal((r.code, r.out, r.err), (0, "read\n", ""))


@tap.test
def with_a_service_all_end(t):
    for which in ("token", "state"):
        place = Place()
        service = t.use(exeat.Service(vault=place.vault))
        sandboxes = [t.use(exeat.Sandbox(None, WAITS % place.token, service=service)) for _ in range(2)]
        for sandbox in sandboxes:
            roles.began(sandbox)
        if which == "token":
            path = place.token
            place.replace(path)
        else:
            path = service.state
            os.rename(path, path + ".old")
        for sandbox in sandboxes:
            r = sandbox.wait()
            tap.equal((r.code, r.out), (125, ""))
            tap.contains(r.err, "has ended")
        r = service.wait()
        tap.equal(r.code, 125)
        tap.contains(r.err, "%s was replaced or taken away" % path)


tap.main()
