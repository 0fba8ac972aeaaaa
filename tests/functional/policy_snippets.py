#!/usr/bin/env python3
"""Each policy in README.md, policy/README.md and the manual is one that `exeat policy check` finds nothing to say of."""
import glob
import os

import exeat
import tap
import work

VERBS = ("allow ", "deny ", "ask ", "tunnel ", "let ", "include ", "expect ")


def is_policy(lines):
    """Its first line that is none of a comment is a statement: the grammar and files for `policy test` begin otherwise."""
    first = [line for line in lines if line.strip() and not line.startswith("#")]
    return bool(first) and first[0].startswith(VERBS)


def of_markdown(text):
    """The policies of a section, added up: a tutorial writes one in pieces."""
    for section in ("\n" + text).split("\n## "):
        pieces, piece = [], []
        for line in section.split("\n") + ["end"]:
            if line.startswith("    ") or (piece and not line):
                piece.append(line[4:])
            else:
                pieces += piece if is_policy(piece) else []
                piece = []
        if pieces:
            yield section.split("\n")[0], pieces


def of_manual(text):
    for number, part in enumerate(text.split("\n.Bd ")[1:]):
        lines = part.split("\n.Ed")[0].split("\n")[1:]
        if is_policy(lines):
            yield "example %d" % number, [line.replace("\\e", "\\") for line in lines]


def snippets(name, of):
    with open(os.path.join(exeat.TOP, name), encoding="utf-8") as f:
        return ["\n".join(lines) + "\n" for _, lines in of(f.read())]


def nothing_to_say(names, of, least):
    found = [(name, text) for name in names for text in snippets(name, of)]
    tap.ok(len(found) >= least, "%d policies were found" % len(found))
    folder = work.folder("snippets.", user=exeat.as_user(), mode=0o755)
    for name, text in found:
        path = work.write(os.path.join(folder, "s.policy"), text)
        words = ["--set", "repo=acme/app"] if "\nlet repo " in text and "let repo =" not in text else []
        r = exeat.call("policy", "check", *words, path, env={"EXEAT_POLICY_PATH": os.path.join(exeat.TOP, "policy")})
        tap.equal((r.code, r.err), (0, ""), "%s:\n%s\n%s" % (name, text, r))


@tap.test
def of_the_readmes():
    nothing_to_say(["README.md", "policy/README.md"], of_markdown, 3)


@tap.test
def of_the_manual():
    pages = [os.path.relpath(page, exeat.TOP) for page in sorted(glob.glob(os.path.join(exeat.TOP, "man", "*.[15]")))]
    nothing_to_say(pages, of_manual, 10)


@tap.test
def an_error_is_shown_as_the_manual_has_it():
    with open(os.path.join(exeat.TOP, "man", "exeat-policy.5"), encoding="utf-8") as f:
        shown = f.read().split("\n.Sh DIAGNOSTICS")[1].split("\n.Bd -literal -offset indent\n")[1].split(".Ed")[0]
    folder = work.folder("snippets.", user=exeat.as_user(), mode=0o755)
    work.write(os.path.join(folder, "my.policy"), "\n\n%s\n" % shown.split("\n")[1].strip())
    said = exeat.call("policy", "check", os.path.join(folder, "my.policy")).err
    tap.equal(said.replace(folder + "/", ""), shown)


@tap.test
def a_policy_that_is_wrong_would_be_found():
    text = "## A\n\ntext\n\n    allow GET https://a.test/\n\n    expect deny GET https://a.test/b\n\ntext\n\n    alow GET x\n\n## B\n\n    deny GET https://a.test/ with c\n"
    tap.equal([lines for _, lines in of_markdown(text)], [["allow GET https://a.test/", "", "expect deny GET https://a.test/b", ""],
                                                         ["deny GET https://a.test/ with c", ""]])


tap.main()
