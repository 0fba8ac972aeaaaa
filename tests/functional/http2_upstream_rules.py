"""RFC 9113, section by section: what the rules say of a client, held against exeat towards an upstream."""
import struct
import subprocess

import client
import exeat
import h2
import tap
from h2server import (ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, FrameServer, Frames, GOAWAY, HEADERS, OK, PING,
                      PRIORITY, PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE)
from h2upstream import POLICY, against, pki
from raw import Closed

h2.needed(tap.skip_all)
NAMES = ["NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED",
         "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM"]
PADDED = 8


def field(name, value):
    """A literal that no table keeps."""
    out = b"\0"
    for text in (name, value):
        n = len(text)
        out += bytes([n]) if n < 127 else b"\x7f" + (bytes([n - 127]) if n < 255 else bytes([n - 127 & 127 | 128, n - 127 >> 7]))
        out += text
    return out


def setting(key, value):
    return struct.pack(">HI", key, value)


def number(n):
    return struct.pack(">I", n)


# Each row: section, rule, what the server says when the request of stream s has come (f is the connection), what
# the client of exeat gets of it (a status; "cut": an answer that is cut off), and what becomes of the connection:
#   kept          it goes on, and the stream was not reset
#   reset CODE    the stream is reset, the connection goes on
#   malformed     as RFC 9113 8.1.1 has it: it is reset for a PROTOCOL_ERROR, unless it had ended
#   left CODE     GOAWAY with that code, then the end; "left": the end
# Two that are both permitted are divided by "or".
RULES = r'''
4.1   a frame of an unknown type             | f.frame(0xfa, 0xff, 0, b"xx"); f.frame(0xfa, 1, s, b"xx"); f.answer(s)     | 200 | kept
4.1   the reserved bit of a stream           | f.frame(WINDOW_UPDATE, 0, 1 << 31, number(1)); f.answer(s)                 | 200 | kept
4.1   flags that mean nothing                | f.frame(PING, 0xfe, 0, b"12345678"); f.answer(s)                           | 200 | kept
4.2   a DATA frame that is too long          | f.frame(HEADERS, 4, s, OK); f.frame(DATA, 0, s, b"x" * 16385)              | cut | left FRAME_SIZE_ERROR
4.2   HEADERS that are too long              | f.frame(HEADERS, 5, s, OK + field(b"x", b"y" * 16385))                     | 502 | left FRAME_SIZE_ERROR
4.2   an unknown frame that is too long      | f.frame(0xfa, 0, 0, b"x" * 16385)                                          | 502 | left FRAME_SIZE_ERROR
4.2   DATA without room for its padding      | f.frame(HEADERS, 4, s, OK); f.frame(DATA, PADDED, s)                       | cut | left FRAME_SIZE_ERROR or left PROTOCOL_ERROR
4.2   HEADERS without room for their padding | f.frame(HEADERS, 5 | PADDED, s)                                            | 502 | left FRAME_SIZE_ERROR or left PROTOCOL_ERROR
4.2   HEADERS without room for their priority | f.frame(HEADERS, 5 + 32, s, b"\0\0\0\0")                                  | 502 | left FRAME_SIZE_ERROR
4.3   an index that is not there             | f.frame(HEADERS, 5, s, b"\xff\xff\xff\x01")                                | 502 | left COMPRESSION_ERROR
4.3   a string that is cut off               | f.frame(HEADERS, 5, s, OK + b"\x00\x05abc")                                | 502 | left COMPRESSION_ERROR
4.3   a table larger than was permitted      | f.frame(HEADERS, 5, s, b"\x3f\xe1\xff\x03" + OK)                           | 502 | left COMPRESSION_ERROR
4.3   an index of 0                          | f.frame(HEADERS, 5, s, b"\x80")                                            | 502 | left COMPRESSION_ERROR
4.3   a number beyond all                    | f.frame(HEADERS, 5, s, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f")        | 502 | left COMPRESSION_ERROR
4.3   a string of Huffman's with its end in it | f.frame(HEADERS, 5, s, OK + b"\0\x84\xff\xff\xff\xff\x01y")              | 502 | left COMPRESSION_ERROR
4.3   a table's size behind a field          | f.frame(HEADERS, 5, s, OK + b"\x20")                                       | 502 | left COMPRESSION_ERROR
4.3   a table made smaller, and large again  | f.answer(s, b"\x20\x3f\xe1\x1f" + OK)                                      | 200 | kept
5.1   HEADERS on an idle stream              | f.frame(HEADERS, 5, s + 2, OK)                                             | 502 | left PROTOCOL_ERROR
5.1   DATA on an idle stream                 | f.frame(DATA, 1, s + 2, b"x")                                              | 502 | left PROTOCOL_ERROR
5.1   RST_STREAM on an idle stream           | f.frame(RST_STREAM, 0, s + 2, number(8))                                   | 502 | left PROTOCOL_ERROR
5.1   WINDOW_UPDATE on an idle stream        | f.frame(WINDOW_UPDATE, 0, s + 2, number(1))                                | 502 | left PROTOCOL_ERROR
5.1   DATA behind END_STREAM                 | f.answer(s); f.frame(DATA, 0, s, b"x")                                     | 200 | kept or reset STREAM_CLOSED or left STREAM_CLOSED
5.1   HEADERS behind END_STREAM              | f.answer(s); f.frame(HEADERS, 5, s, OK)                                    | 200 | kept or reset STREAM_CLOSED or left STREAM_CLOSED
5.1   WINDOW_UPDATE on a closed stream       | f.answer(s); f.frame(WINDOW_UPDATE, 0, s, number(1))                       | 200 | kept
5.1   RST_STREAM on a closed stream          | f.answer(s); f.frame(RST_STREAM, 0, s, number(0))                          | 200 | kept
5.1   PRIORITY on a closed stream            | f.answer(s); f.frame(PRIORITY, 0, s, b"\0\0\0\0\1")                        | 200 | kept
5.1.1 a stream that the server begins        | f.frame(HEADERS, 5, 2, OK)                                                 | 502 | left PROTOCOL_ERROR
5.3   PRIORITY                               | f.frame(PRIORITY, 0, s, b"\0\0\0\0\1"); f.answer(s)                        | 200 | kept
5.5   a frame of an unknown type in a block  | f.frame(HEADERS, 0, s, OK); f.frame(0xfa, 0, 0)                            | 502 | left PROTOCOL_ERROR
6.1   DATA on stream 0                       | f.frame(DATA, 0, 0, b"x")                                                  | 502 | left PROTOCOL_ERROR
6.1   DATA before the head                   | f.frame(DATA, 1, s, b"x")                                                  | 502 | reset PROTOCOL_ERROR or left PROTOCOL_ERROR or kept
6.1   padding as long as the frame           | f.frame(HEADERS, 4, s, OK); f.frame(DATA, PADDED, s, b"\x05abcd")          | cut | left PROTOCOL_ERROR
6.1   padding that is right                  | f.frame(HEADERS, 4, s, OK); f.frame(DATA, PADDED | 1, s, b"\x02x\0\0")     | 200 | kept
6.1   padding fills no window                | f.frame(HEADERS, 4, s, OK); [f.frame(DATA, PADDED, s, b"\xff" + b"x" * 16128 + b"\0" * 255) for _ in range(3)]; f.frame(DATA, 1, s) | 200 | kept
6.2   HEADERS on stream 0                    | f.frame(HEADERS, 5, 0, OK)                                                 | 502 | left PROTOCOL_ERROR
6.2   padding longer than the frame          | f.frame(HEADERS, 5 | PADDED, s, b"\xffx")                                  | 502 | left PROTOCOL_ERROR
6.2   padding and priority that are right    | f.frame(HEADERS, 5 | PADDED | 32, s, b"\1\0\0\0\0\1" + OK + b"\0")         | 200 | kept
6.2   a block cut by another stream's        | f.frame(HEADERS, 0, s, OK); f.frame(HEADERS, 5, s, OK)                     | 502 | left PROTOCOL_ERROR
6.3   PRIORITY of four bytes                 | f.frame(PRIORITY, 0, s, b"\0\0\0\1")                                       | 502 | reset FRAME_SIZE_ERROR or left FRAME_SIZE_ERROR
6.3   PRIORITY on stream 0                   | f.frame(PRIORITY, 0, 0, b"\0\0\0\0\1")                                     | 502 | left PROTOCOL_ERROR
6.3   PRIORITY of six bytes                  | f.frame(PRIORITY, 0, s, b"\0\0\0\0\1\1")                                   | 502 | reset FRAME_SIZE_ERROR or left FRAME_SIZE_ERROR
6.4   RST_STREAM                             | f.frame(RST_STREAM, 0, s, number(2))                                       | 502 | kept
6.4   RST_STREAM behind half an answer       | f.frame(HEADERS, 4, s, OK); f.frame(DATA, 0, s, b"x"); f.frame(RST_STREAM, 0, s, number(2)) | cut | kept
6.4   RST_STREAM on stream 0                 | f.frame(RST_STREAM, 0, 0, number(8))                                       | 502 | left PROTOCOL_ERROR
6.4   RST_STREAM of three bytes              | f.frame(RST_STREAM, 0, s, b"\0\0\0")                                       | 502 | left FRAME_SIZE_ERROR
6.4   RST_STREAM of five bytes               | f.frame(RST_STREAM, 0, s, b"\0\0\0\0\0")                                   | 502 | left FRAME_SIZE_ERROR
6.5   SETTINGS on a stream                   | f.frame(SETTINGS, 0, s)                                                    | 502 | left PROTOCOL_ERROR
6.5   SETTINGS of five bytes                 | f.frame(SETTINGS, 0, 0, b"12345")                                          | 502 | left FRAME_SIZE_ERROR
6.5   an acknowledgement with settings       | f.frame(SETTINGS, ACK, 0, setting(4, 1))                                   | 502 | left FRAME_SIZE_ERROR
6.5.2 ENABLE_PUSH by a server                | f.frame(SETTINGS, 0, 0, setting(2, 1))                                     | 502 | left PROTOCOL_ERROR
6.5.2 ENABLE_PUSH 2                          | f.frame(SETTINGS, 0, 0, setting(2, 2))                                     | 502 | left PROTOCOL_ERROR
6.5.2 a window beyond 2^31-1                 | f.frame(SETTINGS, 0, 0, setting(4, 1 << 31))                               | 502 | left FLOW_CONTROL_ERROR
6.5.2 frames below 16384                     | f.frame(SETTINGS, 0, 0, setting(5, 16383))                                 | 502 | left PROTOCOL_ERROR
6.5.2 frames beyond 2^24-1                   | f.frame(SETTINGS, 0, 0, setting(5, 1 << 24))                               | 502 | left PROTOCOL_ERROR
6.5.2 an unknown setting                     | f.frame(SETTINGS, 0, 0, setting(0xfafa, 7)); f.answer(s)                   | 200 | kept
6.5.2 ENABLE_CONNECT_PROTOCOL 2 (RFC 8441 3) | f.frame(SETTINGS, 0, 0, setting(8, 2))                                     | 502 | left PROTOCOL_ERROR
6.5.2 ENABLE_PUSH 0 by a server              | f.frame(SETTINGS, 0, 0, setting(2, 0)); f.answer(s)                        | 200 | kept
6.5.2 NO_RFC7540_PRIORITIES 2 (RFC 9218 2.1) | f.frame(SETTINGS, 0, 0, setting(9, 2))                                     | 502 | left PROTOCOL_ERROR
6.6   PUSH_PROMISE, which was not permitted  | f.frame(PUSH_PROMISE, 4, s, number(2) + b"\x82\x87\x84\x41\x06a.test")     | 502 | left PROTOCOL_ERROR
6.6   PUSH_PROMISE on stream 0               | f.frame(PUSH_PROMISE, 4, 0, number(2) + b"\x82\x87\x84\x41\x06a.test")     | 502 | left PROTOCOL_ERROR
6.6   PUSH_PROMISE behind the answer         | f.answer(s); f.frame(PUSH_PROMISE, 4, s, number(2) + b"\x82\x87\x84\x41\x06a.test") | 200 | left PROTOCOL_ERROR
6.7   PING on a stream                       | f.frame(PING, 0, s, b"12345678")                                           | 502 | left PROTOCOL_ERROR
6.7   PING of seven bytes                    | f.frame(PING, 0, 0, b"1234567")                                            | 502 | left FRAME_SIZE_ERROR
6.7   an answer to no PING                   | f.frame(PING, ACK, 0, b"12345678"); f.answer(s)                            | 200 | kept
6.7   PING of nine bytes                     | f.frame(PING, 0, 0, b"123456789")                                          | 502 | left FRAME_SIZE_ERROR
6.8   GOAWAY on a stream                     | f.frame(GOAWAY, 0, s, b"\0" * 8)                                           | 502 | left PROTOCOL_ERROR
6.8   GOAWAY of four bytes                   | f.frame(GOAWAY, 0, 0, b"\0" * 4)                                           | 502 | left FRAME_SIZE_ERROR
6.8   GOAWAY, and then the answer            | f.frame(GOAWAY, 0, 0, number(s) + number(0)); f.answer(s)                  | 200 | left NO_ERROR or left
6.8   GOAWAY that takes back what was said   | f.frame(GOAWAY, 0, 0, number(s) + number(0)); f.frame(GOAWAY, 0, 0, number(s + 2) + number(0)) | 502 | left PROTOCOL_ERROR
6.8   GOAWAY that names a stream of its own  | f.frame(GOAWAY, 0, 0, number(2) + number(0))                               | 502 | left PROTOCOL_ERROR
6.9   a window opened by nothing             | f.frame(WINDOW_UPDATE, 0, 0, number(0))                                    | 502 | left PROTOCOL_ERROR
6.9   a stream's window opened by nothing    | f.frame(WINDOW_UPDATE, 0, s, number(0))                                    | 502 | reset PROTOCOL_ERROR or left PROTOCOL_ERROR
6.9   WINDOW_UPDATE of three bytes           | f.frame(WINDOW_UPDATE, 0, 0, b"\0\0\1")                                    | 502 | left FRAME_SIZE_ERROR
6.9   WINDOW_UPDATE of five bytes            | f.frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\0\1")                                | 502 | left FRAME_SIZE_ERROR
6.9.1 a window beyond 2^31-1                 | f.frame(WINDOW_UPDATE, 0, 0, number((1 << 31) - 1))                        | 502 | left FLOW_CONTROL_ERROR
6.9.1 a stream's window beyond 2^31-1        | f.frame(WINDOW_UPDATE, 0, s, number((1 << 31) - 1)); f.frame(WINDOW_UPDATE, 0, s, number((1 << 31) - 1)) | 502 | reset FLOW_CONTROL_ERROR or left FLOW_CONTROL_ERROR
6.9.2 a window made beyond by SETTINGS       | f.frame(WINDOW_UPDATE, 0, s, number(1000)); f.frame(SETTINGS, 0, 0, setting(4, (1 << 31) - 1)) | 502 | reset FLOW_CONTROL_ERROR or left FLOW_CONTROL_ERROR
6.10  CONTINUATION behind nothing            | f.frame(CONTINUATION, 4, s, OK)                                            | 502 | left PROTOCOL_ERROR
6.10  CONTINUATION on another stream         | f.frame(HEADERS, 1, s, OK); f.frame(CONTINUATION, 4, s + 2)                | 502 | left PROTOCOL_ERROR
6.10  CONTINUATION behind END_HEADERS        | f.frame(HEADERS, 4, s, OK); f.frame(CONTINUATION, 4, s)                    | cut | left PROTOCOL_ERROR
6.10  a block in three frames                | b = OK + field(b"x", b"y"); f.frame(HEADERS, 1, s, b[:1]); f.frame(CONTINUATION, 0, s, b[1:3]); f.frame(CONTINUATION, 4, s, b[3:]) | 200 | kept
6.10  CONTINUATION on stream 0               | f.frame(HEADERS, 1, s, OK); f.frame(CONTINUATION, 4, 0)                    | 502 | left PROTOCOL_ERROR
6.10  CONTINUATION on stream 0 behind nothing | f.frame(CONTINUATION, 4, 0)                                               | 502 | left PROTOCOL_ERROR
8.1   an interim head, and the final one     | f.frame(HEADERS, 4, s, field(b":status", b"103")); f.answer(s)             | 200 | kept
8.1   an interim head that ends              | f.frame(HEADERS, 5, s, field(b":status", b"103"))                          | 502 | malformed
8.1   an interim head, and a body            | f.frame(HEADERS, 4, s, field(b":status", b"103")); f.frame(DATA, 1, s, b"x") | 502 | malformed or left PROTOCOL_ERROR
8.1   a body in no frame                     | f.frame(HEADERS, 4, s, OK); f.frame(DATA, 1, s)                            | 200 | kept
8.1   trailers                               | f.frame(HEADERS, 4, s, OK); f.frame(DATA, 0, s, b"x"); f.frame(HEADERS, 5, s, field(b"x", b"y")) | 200 | kept
8.1   trailers that do not end               | f.frame(HEADERS, 4, s, OK); f.frame(HEADERS, 4, s, field(b"x", b"y"))      | cut | malformed
8.1   a pseudo-header field in trailers      | f.frame(HEADERS, 4, s, OK); f.frame(HEADERS, 5, s, OK)                     | cut | malformed
8.1   a body behind trailers                 | f.frame(HEADERS, 4, s, OK); f.frame(HEADERS, 5, s, field(b"x", b"y")); f.frame(DATA, 1, s, b"x") | 200 | kept or reset STREAM_CLOSED or left STREAM_CLOSED
8.1   a reset for no error behind the answer | f.answer(s); f.frame(RST_STREAM, 0, s, number(0))                          | 200 | kept
8.1   a field of the connection in trailers  | f.frame(HEADERS, 4, s, OK); f.frame(HEADERS, 5, s, field(b"connection", b"close")) | cut | malformed
8.1.1 less than Content-Length               | f.frame(HEADERS, 4, s, OK + field(b"content-length", b"5")); f.frame(DATA, 1, s, b"x") | cut | malformed
8.1.1 more than Content-Length               | f.frame(HEADERS, 4, s, OK + field(b"content-length", b"1")); f.frame(DATA, 1, s, b"xy") | cut | malformed
8.1.1 Content-Length and no body             | f.frame(HEADERS, 5, s, OK + field(b"content-length", b"5"))                | 502 | malformed
8.1.1 two lengths                            | f.answer(s, OK + field(b"content-length", b"2") + field(b"content-length", b"3")) | 502 | malformed
8.1.1 a length that is none                  | f.answer(s, OK + field(b"content-length", b"+2"))                          | 502 | malformed
8.2   an empty name                          | f.answer(s, OK + field(b"", b"x"))                                         | 502 | malformed
8.2.1 upper case in a name                   | f.answer(s, OK + field(b"X-Y", b"x"))                                      | 502 | malformed
8.2.1 a space in a name                      | f.answer(s, OK + field(b"x y", b"x"))                                      | 502 | malformed
8.2.1 a colon in a name                      | f.answer(s, OK + field(b"x:y", b"x"))                                      | 502 | malformed
8.2.1 a line break in a name                 | f.answer(s, OK + field(b"x\r\ny", b"x"))                                   | 502 | malformed
8.2.1 a line break in a value                | f.answer(s, OK + field(b"x", b"a\r\nb: c"))                                | 502 | malformed
8.2.1 a NUL in a value                       | f.answer(s, OK + field(b"x", b"a\0b"))                                     | 502 | malformed
8.2.1 a space before a value                 | f.answer(s, OK + field(b"x", b" a"))                                       | 502 | malformed
8.2.1 a tab behind a value                   | f.answer(s, OK + field(b"x", b"a\t"))                                      | 502 | malformed
8.2.1 a NUL in a name                        | f.answer(s, OK + field(b"x\0y", b"x"))                                     | 502 | malformed
8.2.1 DEL in a name                          | f.answer(s, OK + field(b"x\x7fy", b"x"))                                   | 502 | malformed
8.2.1 a byte beyond ASCII in a name          | f.answer(s, OK + field(b"x\xe9", b"x"))                                    | 502 | malformed
8.2.1 a bare CR in a value                   | f.answer(s, OK + field(b"x", b"a\rb"))                                     | 502 | malformed
8.2.1 a bare LF in a value                   | f.answer(s, OK + field(b"x", b"a\nb"))                                     | 502 | malformed
8.2.1 a tab before a value                   | f.answer(s, OK + field(b"x", b"\ta"))                                      | 502 | malformed
8.2.1 a space behind a value                 | f.answer(s, OK + field(b"x", b"a "))                                       | 502 | malformed
8.2.2 Connection                             | f.answer(s, OK + field(b"connection", b"close"))                           | 502 | malformed
8.2.2 Keep-Alive                             | f.answer(s, OK + field(b"keep-alive", b"timeout=5"))                       | 502 | malformed
8.2.2 Proxy-Connection                       | f.answer(s, OK + field(b"proxy-connection", b"close"))                     | 502 | malformed
8.2.2 Transfer-Encoding                      | f.answer(s, OK + field(b"transfer-encoding", b"chunked"))                  | 502 | malformed
8.2.2 Upgrade                                | f.answer(s, OK + field(b"upgrade", b"h2c"))                                | 502 | malformed
8.3   an unknown pseudo-header field         | f.answer(s, OK + field(b":x", b"y"))                                       | 502 | malformed
8.3   a request's pseudo-header field        | f.answer(s, OK + b"\x84")                                                  | 502 | malformed
8.3   a pseudo-header field behind another   | f.answer(s, field(b"x", b"y") + OK)                                        | 502 | malformed
8.3.2 no :status                             | f.answer(s, field(b"x", b"y"))                                             | 502 | malformed
8.3.2 no fields at all                       | f.answer(s, b"")                                                           | 502 | malformed
8.3.2 :status twice                          | f.answer(s, OK + OK)                                                       | 502 | malformed
8.3.2 a :status of letters                   | f.answer(s, field(b":status", b"abc"))                                     | 502 | malformed
8.3.2 a :status of two digits                | f.answer(s, field(b":status", b"20"))                                      | 502 | malformed
8.3.2 a :status of four digits               | f.answer(s, field(b":status", b"2000"))                                    | 502 | malformed
8.3.2 a :status with a sign                  | f.answer(s, field(b":status", b"+20"))                                     | 502 | malformed
8.6   101                                    | f.answer(s, field(b":status", b"101"))                                     | 502 | malformed
10.5  a list of fields that is too large     | b = OK + field(b"x", b"y" * 16000) * 5; f.frame(HEADERS, 0, s, b[:16000]); [f.frame(CONTINUATION, 4 if i == 5 else 0, s, b[i * 16000:][:16000]) for i in range(1, 6)]; f.frame(DATA, 1, s) | 502 | malformed
10.5  too many fields                        | f.answer(s, OK + field(b"x", b"y") * 500)                                  | 502 | malformed
10.5  a bomb of HPACK                        | f.answer(s, OK + b"\x40\x01x\x7f\xa1\x1e" + b"v" * 4000 + b"\xbe" * 10000) | 502 | malformed
10.5  CONTINUATION without an end            | f.frame(HEADERS, 0, s, OK); [f.frame(CONTINUATION, 0, s) for _ in range(100)] | 502 | left ENHANCE_YOUR_CALM or left
'''


def rows():
    for line in RULES.strip().split("\n"):
        parts = [p.strip() for p in line.replace("PADDED | ", "PADDED + ").replace("5 | PADDED", "5 + PADDED").split(" | ")]
        section, name = parts[0].split(None, 1)
        yield {"section": section, "name": name, "code": parts[1], "seen": parts[2], "wanted": parts[3].replace("malformed", "kept or reset PROTOCOL_ERROR").split(" or ")}


def last_word(f):
    """The code of the GOAWAY that came before the connection went, which writing to it may have been told of first."""
    try:
        while True:
            kind, _, _, payload = f.any()
            if kind == GOAWAY:
                return struct.unpack(">I", payload[4:8])[0]
    except (Closed, OSError):
        return None


class Together(Frames):
    """Frames that go in one write. What comes behind an answer is then seen before the connection is used again: the next request
    would be lost with it, and no row would be said to it."""

    def __init__(self):  # pylint: disable=super-init-not-called
        self.said = []

    def frame(self, kind, flags, stream, payload=b""):
        self.said.append(self.packed(kind, flags, stream, payload))


def say(f, code, stream, waiting):
    """Says it; returns what became of the connection. The next request may come meanwhile: its stream goes into `waiting`."""
    resets, goaway, together = [], None, Together()
    exec(code, dict(globals(), f=together, s=stream))  # pylint: disable=exec-used
    try:
        f.connection.send(b"".join(together.said))
        # what follows from it is said in its own time, behind the answer to a PING that came with it: a second look
        for ping in (b"its end.", b"the end."):
            f.frame(PING, 0, 0, ping)
            kind = payload = None
            while (kind, payload) != (PING, ping):
                kind, _, of, payload = f.any()
                if kind == HEADERS:
                    waiting.append(of)
                elif kind == RST_STREAM and of == stream:
                    resets.append(struct.unpack(">I", payload)[0])
                elif kind == GOAWAY:
                    goaway = struct.unpack(">I", payload[4:8])[0]
    except (Closed, OSError):
        goaway = goaway if goaway is not None else last_word(f)
        return "left" if goaway is None else "left " + NAMES[goaway]
    if goaway is not None:
        return "left " + NAMES[goaway]
    return "reset " + NAMES[resets[0]] if resets else "kept"


@tap.test(timeout=150)
def the_rules_of_rfc_9113_for_a_client(t):
    table, ends = list(rows()), []

    def serve(f, _number):
        waiting = []
        while len(ends) < len(table):
            stream = waiting.pop(0) if waiting else f.request()
            # counted as it begins: the next may come, on another connection, before the end of this one is seen
            row = len(ends)
            ends.append(None)
            ends[row] = say(f, table[row]["code"], stream, waiting)
            if ends[row].startswith("left"):
                return
    server = t.use(FrameServer(serve, tls=pki.leaf("a.test")))
    r = client.run(POLICY, '''
        for i in range(%d):
            c = tls("a.test")
            a = c.get("/ok/%%d" %% i, method="POST", extra="Content-Length: 0\\r\\n")
            report("cut" if a.status == 200 and not a.whole else str(a.status))
            c.close()
    ''' % len(table), resolve=[server.resolve("a.test")], upstream_ca=pki.ca, timeout=120)
    tap.equal(server.errors, [])
    tap.equal((len(r.reports), len(ends)), (len(table), len(table)), [row["name"] for row, got in zip(table, r.reports) if got == "0"])
    broken = ["%s %s: %s, not %s" % (row["section"], row["name"], " and ".join(got), "%s and %s" % (row["seen"], " or ".join(row["wanted"])))
              for row, *got in zip(table, r.reports, ends) if got[0] != row["seen"] or got[1] not in row["wanted"]]
    tap.equal(broken, [])


# ---- what exeat says itself ----

def settings_of(payload):
    return {struct.unpack(">H", payload[i:i + 2])[0]: struct.unpack(">I", payload[i + 2:i + 6])[0] for i in range(0, len(payload), 6)}


@tap.test
def its_preface_its_settings_and_its_streams(t):
    # 3.4, 4.2, 4.3.1, 5.1.1, 6.5.3, 8.4; the server wants no table of fields
    frames, magic = [], []

    def serve(f, _number):
        magic.append(f.magic)
        while True:
            kind, flags, stream, payload = f.any()
            frames.append((kind, flags, stream, payload))
            if kind == SETTINGS and not flags & ACK:
                f.frame(SETTINGS, ACK, 0)
            elif kind in (HEADERS, DATA) and flags & END_STREAM:
                f.answer(stream)
    r, _ = against(t, serve, '''
        c = tls("a.test")
        report(c.get("/ok/1").status, c.get("/ok/2").status)
        c.send("PUT /ok/3 HTTP/1.1\\r\\nHost: a.test\\r\\nContent-Length: 60000\\r\\n\\r\\n" + "x" * 60000)
        report(c.answer().status)
    ''', settings=setting(1, 0))
    tap.equal((r.reports, magic), ([[200, 200], 200], [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]))
    tap.equal((frames[0][0], frames[0][1], frames[0][2]), (SETTINGS, 0, 0))
    own = settings_of(frames[0][3])
    tap.equal(own[2], 0, "pushes are not wanted")
    tap.ok(3 not in own and own[6] >= 16384 and own[4] <= 1 << 20, own)
    tap.equal([f[3] for f in frames if f[0] == SETTINGS and f[1] & ACK], [b""], "our settings were acknowledged once")
    heads = [f for f in frames if f[0] == HEADERS]
    tap.equal([f[2] for f in heads], [1, 3, 5])
    tap.ok(all(f[1] & END_HEADERS for f in heads), heads)
    tap.equal(heads[1][3][0] & 0xe0, 0x20, "the table was not made smaller before its next use")
    tap.equal({f[0] for f in frames} - {SETTINGS, HEADERS, DATA, WINDOW_UPDATE, GOAWAY}, set())
    tap.ok(max(len(f[3]) for f in frames) <= 16384, "a frame is too long")
    tap.equal(sum(len(f[3]) for f in frames if f[0] == DATA), 60000)
    tap.equal([f[2] for f in frames if f[0] == DATA and f[1] & END_STREAM], [5])


@tap.test
def no_more_than_its_windows_and_no_more_streams_than_permitted(t):
    # 5.1.2, 6.9.2: a window of 5 bytes, and one stream at a time
    most, over, heard = [0], [], []

    def serve(f, _number):
        agreed, rooms, got = False, {}, {}
        while True:
            kind, flags, stream, payload = f.any()
            if kind == SETTINGS and flags & ACK:
                agreed = True
                for stream in rooms:  # begun before: their windows are cut down, below nothing even
                    rooms[stream] = 5 - got[stream]
                    if rooms[stream] <= 0:
                        f.frame(WINDOW_UPDATE, 0, stream, number(7 - rooms[stream]))
                        rooms[stream] = 7
            elif kind == SETTINGS:
                f.frame(SETTINGS, ACK, 0)
            elif kind == HEADERS:
                rooms[stream], got[stream] = 5 if agreed else 65535, 0
                most[0] = max(most[0], len(rooms) if agreed else 0)
            elif kind == DATA:
                rooms[stream], got[stream] = rooms[stream] - len(payload), got[stream] + len(payload)
                over.append(rooms[stream] < 0)
                if rooms[stream] == 0 and not flags & END_STREAM:
                    f.frame(WINDOW_UPDATE, 0, stream, number(7))
                    rooms[stream] = 7
            if kind in (HEADERS, DATA) and flags & END_STREAM:
                heard.append(got.pop(stream))
                rooms.pop(stream)
                f.answer(stream)
    r, _ = against(t, serve, '''
        c = h2("a.test")
        report(c.get("/ok/1").status)
        for _ in range(4):
            streams = [c.request("/ok/2", method="POST", end=False) for _ in range(5)]
            for s in streams:
                c.data(s, b"x" * 40, end=True)
            report([c.answer(s).status for s in streams])
    ''', settings=setting(3, 1) + setting(4, 5))
    tap.equal(r.reports, [200] + [[200] * 5] * 4)
    tap.equal(sorted(heard), [0] + [40] * 20)
    tap.ok(len(over) > 40, over)
    tap.equal(any(over), False, "more came than the window was open for")
    tap.equal(most[0], 1, "streams at a time on one connection")


@tap.test
def a_server_that_sends_more_than_the_window_is_open_for(t):
    # 6.9.1; the client takes no more than its own window of 65,535 bytes until it has had another answer, behind all that was said
    ends = []

    def serve(f, number):
        waiting = []
        if number == 0:
            ends.append(say(f, 'f.frame(HEADERS, 4, s, OK); [f.frame(DATA, 0, s, b"x" * 16384) for _ in range(300)]', f.request(), waiting))
        if number or not ends[0].startswith("left"):
            f.answer(waiting[0] if waiting else f.request())
    r, _ = against(t, serve, '''
        c = h2("a.test")
        c.open_windows = False
        s = c.request("/ok")
        while len(c.answers[s].body) < 65535 and c.read():
            pass
        c.get("/ok")
        c.window(0, 1 << 30)
        c.window(s, 1 << 30)
        a = c.answer(s)
        report(a.status, a.whole, a.reset is not None)
    ''')
    tap.equal(r.reports, [[200, False, True]])
    tap.ok(ends[0] in ("reset FLOW_CONTROL_ERROR", "left FLOW_CONTROL_ERROR"), ends)


PREFACES = [("PING", lambda f: f.frame(PING, 0, 0, b"12345678")), ("HEADERS", lambda f: f.frame(HEADERS, 5, 1, OK)),
            ("an acknowledgement", lambda f: f.frame(SETTINGS, ACK, 0)),
            ("HTTP/1.1", lambda f: f.connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))]


@tap.test
def a_server_whose_first_frame_is_not_its_settings(t):
    # 3.4
    ends = []

    class Bare(FrameServer):
        def serve(self, connection):
            with self.lock:
                number, self.count = self.count, self.count + 1
            f = Frames.__new__(Frames)
            f.connection = connection
            connection.exactly(24)
            PREFACES[number][1](f)
            try:
                while True:
                    kind, _, _, payload = f.any()
                    if kind == GOAWAY:
                        ends.append(struct.unpack(">I", payload[4:8])[0])
            except Closed:
                pass
    server = t.use(Bare(None, tls=pki.leaf("a.test")))
    r = client.run(POLICY, '''
        for _ in range(%d):
            report(tls("a.test").get("/ok", method="POST", extra="Content-Length: 0\\r\\n").status)
    ''' % len(PREFACES), resolve=[server.resolve("a.test")], upstream_ca=pki.ca)
    tap.equal(r.reports, [502] * len(PREFACES))
    tap.ok(all(end in (1, 6) for end in ends), ends)


@tap.test
def what_is_never_to_be_indexed_stays_so_on_its_way_in_both_directions(t):
    # RFC 7541, 6.2.3, with hpack of the Python that the sandbox has
    def never(name, value):
        return b"\x10" + field(name, value)[1:]
    blocks = []
    def serve(f, _number):
        while True:
            kind, flags, stream, block = f.read()
            if kind == HEADERS:
                blocks.append(block)
            if flags & END_STREAM:
                f.frame(HEADERS, END_HEADERS, stream, OK + never(b"x-key", b"10") + field(b"x-one", b"1") + never(b"x-two", b"2"))
                f.frame(HEADERS, END_HEADERS | END_STREAM, stream, field(b"x-three", b"3") + never(b"x-four", b"4"))
    r, _ = against(t, serve, '''
        c, never = h2("a.test"), []
        decode = c.decoder.decode
        def noting(block):
            fields = decode(block)
            never.extend(str(f[0]) for f in fields if not f.indexable)
            return fields
        c.decoder.decode = noting
        def block(fields):
            kinds = {True: hpack.NeverIndexedHeaderTuple, False: hpack.HeaderTuple}
            return c.encoder.encode([kinds[n in secret](n, v) for n, v in fields])
        c.block = block
        for i, secret in enumerate([(), ("b", "d", "cookie"), ("b", "d", ":path", "f")]):
            new = str(i) * 40     # short cookies the library itself does not index
            s = c.request("/ok" + new, method="POST", end=False, fields=[(n, new) for n in ("a", "b", "c", "d", "cookie")])
            c.data(s, b"body")
            c.headers(s, [("e", new), ("f", new)])
            a = c.answer(s)
            report(a.status, a.whole, never)
            del never[:]
    ''')
    tap.equal(r.reports, [[200, True, ["x-key", "x-two", "x-four"]]] * 3)
    program = ("import hpack, sys\nd = hpack.Decoder()\nfor line in sys.stdin:\n"
               "    print(*[str(f[0]) for f in d.decode(bytes.fromhex(line)) if not f.indexable])")
    decoded = subprocess.run(["python3", "-c", program], input="".join(b.hex() + "\n" for b in blocks), env=exeat.environment("/"),
                             check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout
    tap.equal(decoded.split("\n")[:-1], ["", "", "b d cookie", "", ":method :scheme :authority :path b d", "f"])


if __name__ == "__main__":
    tap.main()
