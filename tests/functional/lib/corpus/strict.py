"""A reader of messages that takes nothing but what exeat writes."""
import re

import tap


class Unfinished(Exception):
    """A message ends before its time; .began is (head, content) as far as they go."""


def take(text, bodiless=False):
    """Reads one message to the letter of what exeat writes: ((head, content, trailer section), what is behind it).
    Where chunks begin and end hangs on how the bytes came in: their content is put together. `bodiless`: its framing
    fields tell of a body that is not there."""
    head, mark, rest = text.partition("\r\n\r\n")
    if not mark:
        raise Unfinished((text, ""))
    fields = [line.lower().split(": ", 1) for line in head.split("\r\n")[1:]]
    said = {n: v for n, v in fields if n in ("content-length", "transfer-encoding")}
    tap.ok(all(len(f) == 2 for f in fields) and sum(f[0] in said for f in fields) <= 1, "malformed: %r" % head)
    if bodiless:
        return (head, "", None), rest
    if "transfer-encoding" not in said:
        n = int(said.get("content-length", "0"))
        if len(rest) < n:
            raise Unfinished((head, rest))
        return (head, rest[:n], None), rest[n:]
    tap.equal(said, {"transfer-encoding": "chunked"})
    content = ""
    while True:
        line, mark, rest = rest.partition("\r\n")
        if not mark:
            raise Unfinished((head, content))
        tap.ok(re.fullmatch("0|[1-9A-F][0-9A-F]*", line), "malformed chunk: %r" % line)
        n = int(line, 16)
        if n == 0:
            break
        if len(rest) < n + 2:
            raise Unfinished((head, content + rest[:n]))
        tap.equal(rest[n:n + 2], "\r\n")
        content, rest = content + rest[:n], rest[n + 2:]
    trailer = ""
    while not trailer.endswith("\r\n\r\n") and trailer != "\r\n":
        line, mark, rest = rest.partition("\r\n")
        if not mark:
            raise Unfinished((head, content))
        trailer += line + mark
    return (head, content, trailer), rest


def take_all(text):
    found = []
    while text:
        request, text = take(text)
        found.append(request)
    return found
