"""RFC 9113, section by section: what the rules say of a server, held against exeat towards its client; and its limits."""
import json
import threading

import client
import h2
import onehost
import tap
from pki import Pki
from servers import RawServer, chunked, response

h2.needed(tap.skip_all)
pki = Pki()
POLICY = "allow GET,HEAD,POST,PUT,OPTIONS https://a.test/**\n"

# Each row: section, rule, what is said on a connection of its own (c; s is a stream with a GET that was answered, o one
# whose request is still open), and what comes of it:
#   fine                  the connection goes on, no stream was reset
#   stream CODE           the stream o, or the next one, is reset (or refused), the connection goes on
#   connection CODE       GOAWAY, then the end; without a CODE: the end
#   status N              the request is answered so, the connection goes on
# Two that are both permitted are divided by "or". What is to come behind the end of a request before its answer is there goes
# in one write with it.
RULES = r'''
3.4   another preface                      | c.raw(b"GET / HTTP/1.1\r\n\r\n          ")                          | connection   | bare
3.4   a preface that goes wrong            | c.raw(MAGIC[:10] + b"x" * 20)                                      | connection   | bare
3.4   no SETTINGS behind the preface       | c.raw(MAGIC); c.ping()                                             | connection PROTOCOL_ERROR or connection | bare
3.4   SETTINGS are acknowledged            | c.frame(SETTINGS, 0, 0, setting(window=100000))                    | fine
4.1   a frame of an unknown type           | c.frame(0xfa, 0xff, 0, b"xx"); c.frame(0xfa, 1, o, b"xx")          | fine
4.1   the reserved bit of a stream         | c.frame(WINDOW_UPDATE, 0, 1 << 31, struct.pack(">I", 1))           | fine
4.1   flags that mean nothing              | c.frame(PING, 0xfe, 0, b"12345678")                                | fine
4.2   a DATA frame that is too long        | c.frame(DATA, 0, o, b"x" * 16385)                                  | connection FRAME_SIZE_ERROR or stream FRAME_SIZE_ERROR
4.2   HEADERS that are too long            | c.frame(HEADERS, 5, c.next, b"\0\1x\x7f\x80\x7f" + b"y" * 16380)   | connection FRAME_SIZE_ERROR
4.2   an unknown frame that is too long    | c.frame(0xfa, 0, 0, b"x" * 16385)                                  | connection FRAME_SIZE_ERROR
4.2   DATA without room for its padding     | c.frame(DATA, PADDED, o)                                           | connection FRAME_SIZE_ERROR or connection PROTOCOL_ERROR
4.2   HEADERS without room for their padding | c.frame(HEADERS, 5 + PADDED, c.next)                              | connection FRAME_SIZE_ERROR or connection PROTOCOL_ERROR
4.2   HEADERS without room for their priority | c.frame(HEADERS, 5 + PRIORITIZED, c.next, b"\0\0\0\0")            | connection FRAME_SIZE_ERROR
4.3   an index that is not there           | c.frame(HEADERS, 5, c.next, b"\xff\xff\xff\x01")                   | connection COMPRESSION_ERROR
4.3   a string that is cut off             | c.frame(HEADERS, 5, c.next, b"\x00\x05abc")                        | connection COMPRESSION_ERROR
4.3   a table larger than was permitted    | c.frame(HEADERS, 5, c.next, b"\x3f\xe1\xff\x03\x82\x87\x84")       | connection COMPRESSION_ERROR
4.3   an index of 0                        | c.frame(HEADERS, 5, c.next, b"\x80")                               | connection COMPRESSION_ERROR
4.3   a number beyond all                  | c.frame(HEADERS, 5, c.next, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f") | connection COMPRESSION_ERROR
4.3   a string of Huffman's with its end in it | c.frame(HEADERS, 5, c.next, b"\0\x84\xff\xff\xff\xff\x01y")    | connection COMPRESSION_ERROR
4.3   a string of Huffman's with a byte too many | c.frame(HEADERS, 5, c.next, b"\0\x82\x1f\xff\x01y")          | connection COMPRESSION_ERROR
4.3   a string of Huffman's that ends in zeros | c.frame(HEADERS, 5, c.next, b"\0\x81\x18\x01y")                | connection COMPRESSION_ERROR
4.3   a table's size behind a field        | c.frame(HEADERS, 5, c.next, c.block(c.pseudo("/ok")) + b"\x20")    | connection COMPRESSION_ERROR
4.3   a table made smaller, and large again | c.open(c.next); c.frame(HEADERS, 5, c.next, b"\x20\x3f\xe1\x1f" + c.block(c.pseudo("/ok"))) | status 200
4.3   what a malformed request has put into the table | assert c.table(("connection", "close")) == 200                       | fine
4.3   what a request that is too large has put into it | assert c.table(("x", "y" * 15000), times=5) == 200                   | fine
4.3   what a request that was given up has put into it | assert c.table(("x", "y"), reset=True) == 200                        | fine
5.1   DATA on an idle stream               | c.data(c.next, b"x")                                               | connection PROTOCOL_ERROR
5.1   RST_STREAM on an idle stream         | c.reset(c.next)                                                    | connection PROTOCOL_ERROR
5.1   WINDOW_UPDATE on an idle stream      | c.window(c.next, 1)                                                | connection PROTOCOL_ERROR
5.1   DATA behind END_STREAM               | c.data(s, b"x")                                                    | connection STREAM_CLOSED or stream STREAM_CLOSED or fine
5.1   DATA behind END_STREAM, still open   | c.raw(c.packed(DATA, 1, o, b"x") + c.packed(DATA, 0, o, b"y"))     | connection STREAM_CLOSED or stream STREAM_CLOSED
5.1   HEADERS behind END_STREAM            | c.raw(c.packed(DATA, 1, o) + c.packed(HEADERS, 5, o, c.block([("x", "y")]))) | connection STREAM_CLOSED or stream STREAM_CLOSED
5.1   WINDOW_UPDATE on a closed stream     | c.window(s, 1)                                                     | fine
5.1   RST_STREAM on a closed stream        | c.reset(s)                                                         | fine
5.1   DATA and trailers behind a reset of ours | s = c.request("/ok", "POST", end=False, fields=[("connection", "close")]); c.answer(s); c.settle(); c.data(s, b"x" * 9000); c.headers(s, [("x", "y")]) | fine
5.1   PRIORITY on a closed stream          | c.frame(PRIORITY, 0, s, b"\0\0\0\0\1")                             | fine
5.1   WINDOW_UPDATE and RST_STREAM behind END_STREAM | c.raw(c.packed(DATA, 1, o, b"x") + c.packed(WINDOW_UPDATE, 0, o, struct.pack(">I", 1)) + c.packed(RST_STREAM, 0, o, struct.pack(">I", 8))) | fine
5.1.1 an even stream                       | c.headers(c.next + 1, c.pseudo("/ok"))                             | connection PROTOCOL_ERROR
5.1.1 a stream below the last one, which is passed over like the trailers of one that was reset | c.headers(c.next + 4, c.pseudo("/ok")); c.frame(HEADERS, 5, c.next, c.block(c.pseudo("/ok"))) | fine
5.1.1 the last stream there is, those below it, and one beyond, which has a number of long ago | c.next = (1 << 31) - 1; assert c.get("/ok").status == 200; c.data(o, b"x", end=True); assert c.answer(o).status == 200; c.frame(HEADERS, 5, c.next, c.block(c.pseudo("/ok"))) | fine
5.1.2 a stream too many                    | [c.request("/ok", "POST", end=False) for _ in range(100)]; c.next -= 2 | stream REFUSED_STREAM or connection PROTOCOL_ERROR
5.3   PRIORITY, and on itself              | c.frame(PRIORITY, 0, c.next, struct.pack(">IB", c.next, 1)); c.frame(PRIORITY, 0, 99, b"\0\0\0\1\1") | fine or connection PROTOCOL_ERROR or stream PROTOCOL_ERROR
5.4.2 a reset is not answered              | c.reset(o)                                                         | fine
5.5   a frame of an unknown type in a block | c.frame(HEADERS, 1, c.next, c.block(c.pseudo("/ok"))); c.frame(0xfa, 0, 0, b"") | connection PROTOCOL_ERROR
6.1   DATA on stream 0                     | c.data(0, b"x")                                                    | connection PROTOCOL_ERROR
6.1   padding as long as the frame         | c.frame(DATA, PADDED, o, b"\x05abcd")                              | connection PROTOCOL_ERROR
6.1   padding that is right                | c.frame(DATA, PADDED, o, b"\x02x\0\0")                             | fine
6.1   padding fills no window              | [c.frame(DATA, PADDED, o, b"\xff" + b"\0" * 255) for _ in range(250)]; assert c.settle() and c.settle() and c.updates[o] > 30000 | fine
6.1   DATA and HEADERS of nothing          | c.data(o, b""); c.data(o, b"", end=True); assert c.answer(o).status == 200 | fine
6.2   HEADERS on stream 0                  | c.headers(0, c.pseudo("/ok"))                                      | connection PROTOCOL_ERROR
6.2   padding longer than the frame        | c.frame(HEADERS, 5 + PADDED, c.next, b"\xffx")                     | connection PROTOCOL_ERROR
6.2   a block cut by another stream's      | c.frame(HEADERS, 1, c.next, c.block(c.pseudo("/ok"))); c.headers(c.next + 2, c.pseudo("/ok")) | connection PROTOCOL_ERROR
6.2   padding and priority that are right  | c.open(c.next); c.frame(HEADERS, 5 + PADDED + PRIORITIZED, c.next, b"\1\0\0\0\0\1" + c.block(c.pseudo("/ok")) + b"\0") | status 200
6.3   PRIORITY on stream 0                 | c.frame(PRIORITY, 0, 0, b"\0\0\0\1\1")                             | connection PROTOCOL_ERROR
6.3   PRIORITY of four bytes               | c.frame(PRIORITY, 0, o, b"\0\0\0\1")                               | stream FRAME_SIZE_ERROR or connection FRAME_SIZE_ERROR
6.3   PRIORITY of six bytes                | c.frame(PRIORITY, 0, o, b"\0\0\0\0\1\1")                           | stream FRAME_SIZE_ERROR or connection FRAME_SIZE_ERROR
6.4   RST_STREAM on stream 0               | c.reset(0)                                                         | connection PROTOCOL_ERROR
6.4   RST_STREAM of three bytes            | c.frame(RST_STREAM, 0, o, b"\0\0\0")                               | connection FRAME_SIZE_ERROR
6.4   RST_STREAM of five bytes             | c.frame(RST_STREAM, 0, o, b"\0\0\0\0\0")                           | connection FRAME_SIZE_ERROR
6.5   SETTINGS on a stream                 | c.frame(SETTINGS, 0, o)                                            | connection PROTOCOL_ERROR
6.5   SETTINGS of five bytes               | c.frame(SETTINGS, 0, 0, b"12345")                                  | connection FRAME_SIZE_ERROR
6.5   an acknowledgement with settings     | c.frame(SETTINGS, ACK, 0, setting(window=1))                       | connection FRAME_SIZE_ERROR
6.5.2 ENABLE_PUSH 2                        | c.frame(SETTINGS, 0, 0, setting(push=2))                           | connection PROTOCOL_ERROR
6.5.2 a window beyond 2^31-1               | c.frame(SETTINGS, 0, 0, setting(window=1 << 31))                   | connection FLOW_CONTROL_ERROR
6.5.2 frames below 16384                   | c.frame(SETTINGS, 0, 0, setting(frame=16383))                      | connection PROTOCOL_ERROR
6.5.2 frames beyond 2^24-1                 | c.frame(SETTINGS, 0, 0, setting(frame=1 << 24))                    | connection PROTOCOL_ERROR
6.5.2 an unknown setting                   | c.frame(SETTINGS, 0, 0, struct.pack(">HI", 0xfafa, 7))             | fine
6.5.2 all that a client may say            | c.frame(SETTINGS, 0, 0, setting(table=0, push=0, streams=0, window=0, frame=(1 << 24) - 1, list=0, connect=1) + setting(push=1, table=1 << 20, window=1 << 20)) | fine
6.5.2 ENABLE_CONNECT_PROTOCOL 2 (RFC 8441 3) | c.frame(SETTINGS, 0, 0, setting(connect=2))                      | connection PROTOCOL_ERROR
6.5.2 NO_RFC7540_PRIORITIES 2 (RFC 9218 2.1) | c.frame(SETTINGS, 0, 0, struct.pack(">HI", 9, 2))                | connection PROTOCOL_ERROR
6.5.3 each SETTINGS has its acknowledgement | n = c.acks; [c.frame(SETTINGS, 0, 0, setting(window=i)) for i in (1, 2, 3)]; assert c.settle() and c.acks - n == 3 | fine
6.6   PUSH_PROMISE by a client             | c.frame(PUSH_PROMISE, 4, o, struct.pack(">I", 2) + c.block(c.pseudo("/ok"))) | connection PROTOCOL_ERROR
6.7   PING on a stream                     | c.frame(PING, 0, o, b"12345678")                                   | connection PROTOCOL_ERROR
6.7   PING of seven bytes                  | c.frame(PING, 0, 0, b"1234567")                                    | connection FRAME_SIZE_ERROR
6.7   an answer to no PING                 | c.frame(PING, ACK, 0, b"12345678"); assert c.settle() and c.pongs == [b"settled."] | fine
6.7   PING of nine bytes                   | c.frame(PING, 0, 0, b"123456789")                                  | connection FRAME_SIZE_ERROR
6.7   PING is answered with its own bytes  | c.ping(b"\0\1\2\3\xff\xfe\xfd\xfc"); assert c.settle() and c.settle() and c.pongs == [b"\0\1\2\3\xff\xfe\xfd\xfc", b"settled."] | fine
6.8   GOAWAY on a stream                   | c.frame(GOAWAY, 0, o, b"\0" * 8)                                   | connection PROTOCOL_ERROR
6.8   GOAWAY of four bytes                 | c.frame(GOAWAY, 0, 0, b"\0" * 4)                                   | connection FRAME_SIZE_ERROR
6.8   GOAWAY, and what was begun goes on   | c.frame(GOAWAY, 0, 0, b"\0" * 8); c.data(o, b"x", end=True); assert c.answer(o).status == 200 | connection NO_ERROR
6.9   a window opened by nothing           | c.window(0, 0)                                                     | connection PROTOCOL_ERROR
6.9   a stream's window opened by nothing  | c.window(o, 0)                                                     | stream PROTOCOL_ERROR or connection PROTOCOL_ERROR
6.9   WINDOW_UPDATE of three bytes         | c.frame(WINDOW_UPDATE, 0, 0, b"\0\0\1")                            | connection FRAME_SIZE_ERROR
6.9   WINDOW_UPDATE of five bytes          | c.frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\0\1")                        | connection FRAME_SIZE_ERROR
6.9.1 a window beyond 2^31-1               | c.window(0, (1 << 31) - 1)                                         | connection FLOW_CONTROL_ERROR
6.9.1 a stream's window beyond 2^31-1      | c.window(o, (1 << 31) - 1)                                         | stream FLOW_CONTROL_ERROR or connection FLOW_CONTROL_ERROR
6.9.1 more than the window                 | [c.data(o, b"x" * 16384) for _ in range(1500)]                     | stream FLOW_CONTROL_ERROR or connection FLOW_CONTROL_ERROR | held
6.9.2 a window made beyond by SETTINGS     | c.window(o, 1000); c.frame(SETTINGS, 0, 0, setting(window=(1 << 31) - 1)) | connection FLOW_CONTROL_ERROR or stream FLOW_CONTROL_ERROR
6.10  CONTINUATION behind nothing          | c.frame(CONTINUATION, 4, o, b"")                                   | connection PROTOCOL_ERROR
6.10  CONTINUATION on another stream       | c.frame(HEADERS, 1, c.next, c.block(c.pseudo("/ok"))); c.frame(CONTINUATION, 4, c.next + 2, b"") | connection PROTOCOL_ERROR
6.10  CONTINUATION behind END_HEADERS      | c.headers(c.next, c.pseudo("/ok")); c.frame(CONTINUATION, 4, c.next, b"") | connection PROTOCOL_ERROR
6.10  a block in three frames              | b = c.block(c.pseudo("/ok")); c.open(c.next); c.frame(HEADERS, 1, c.next, b[:3]); c.frame(CONTINUATION, 0, c.next, b[3:6]); c.frame(CONTINUATION, 4, c.next, b[6:]) | status 200
6.10  CONTINUATION on stream 0             | c.frame(HEADERS, 1, c.next, c.block(c.pseudo("/ok"))); c.frame(CONTINUATION, 4, 0) | connection PROTOCOL_ERROR
6.10  CONTINUATION on stream 0 behind nothing | c.frame(CONTINUATION, 4, 0)                                     | connection PROTOCOL_ERROR
7     codes that nobody knows              | c.reset(o, 0xfafa); c.frame(GOAWAY, 0, 0, struct.pack(">II", 0, 0xfafafafa) + b"words") | connection NO_ERROR
8.1   a second block that does not end     | c.headers(o, [("x", "y")], end=False)                              | stream PROTOCOL_ERROR
8.1   trailers                             | c.data(o, b"x"); c.headers(o, [("x", "y")])                        | fine
8.1   a pseudo-header field in trailers    | s = c.request("/ok", "POST", end=False); c.data(s, b"x"); c.headers(s, [(":path", "/")]); c.next = s | status 400
8.1   DATA behind trailers                 | c.raw(c.packed(HEADERS, 5, o, c.block([("x", "y")])) + c.packed(DATA, 1, o, b"x")) | connection STREAM_CLOSED or stream STREAM_CLOSED
8.1   a field of the connection in trailers | s = c.request("/ok", "POST", end=False); c.data(s, b"x"); c.headers(s, [("connection", "close")]); c.next = s | status 400
8.1   upper case in trailers               | s = c.request("/ok", "POST", end=False); c.data(s, b"x"); c.headers(s, [("X", "y")]); c.next = s | status 400
8.1.1 less than Content-Length             | s = c.request("/ok", "POST", end=False, fields=[("content-length", "5")]); c.data(s, b"x", end=True); c.next = s | status 400
8.1.1 less than it, and trailers           | s = c.request("/ok", "POST", end=False, fields=[("content-length", "5")]); c.data(s, b"x"); c.headers(s, [("x", "y")]); c.next = s | status 400
8.1.1 more than Content-Length             | s = c.request("/ok", "POST", end=False, fields=[("content-length", "1")]); c.data(s, b"xy"); c.next = s | status 400
8.1.1 Content-Length and no body           | c.send("/ok", "POST", [("content-length", "5")])                   | status 400
8.1.1 two lengths                          | c.send("/ok", "POST", [("content-length", "0"), ("content-length", "0")]) | status 400
8.1.1 a length that is none                | c.send("/ok", "POST", [("content-length", "+0")])                  | status 400
8.2   an empty name                        | c.send("/ok", fields=[("", "x")])                                  | status 400
8.2.1 upper case in a name                 | c.send("/ok", fields=[("X-Y", "x")])                               | status 400
8.2.1 a space in a name                    | c.send("/ok", fields=[("x y", "x")])                               | status 400
8.2.1 a colon in a name                    | c.send("/ok", fields=[("x:y", "x")])                               | status 400
8.2.1 a line break in a value              | c.send("/ok", fields=[("x", "a\r\nb: c")])                         | status 400
8.2.1 a NUL in a value                     | c.send("/ok", fields=[("x", "a\0b")])                              | status 400
8.2.1 a space before a value               | c.send("/ok", fields=[("x", " a")])                                | status 400
8.2.1 a tab behind a value                 | c.send("/ok", fields=[("x", "a\t")])                               | status 400
8.2.1 a NUL in a name                      | c.send("/ok", fields=[("x\0y", "x")])                              | status 400
8.2.1 a line break in a name               | c.send("/ok", fields=[("x\r\ny", "x")])                            | status 400
8.2.1 DEL in a name                        | c.send("/ok", fields=[("x\x7fy", "x")])                            | status 400
8.2.1 a letter beyond ASCII in a name      | c.send("/ok", fields=[("x\u00e9", "x")])                           | status 400
8.2.1 a bare CR in a value                 | c.send("/ok", fields=[("x", "a\rb")])                              | status 400
8.2.1 a bare LF in a value                 | c.send("/ok", fields=[("x", "a\nb")])                              | status 400
8.2.1 a tab before a value                 | c.send("/ok", fields=[("x", "\ta")])                               | status 400
8.2.1 a space behind a value               | c.send("/ok", fields=[("x", "a ")])                                | status 400
8.2.1 a line break in :path                | c.send("/ok HTTP/1.1\r\nx: y\r\nz: ")                              | status 400
8.2.1 a space in :path                     | c.send("/ok HTTP/1.1")                                             | status 400
8.2.1 a NUL in :path                       | c.send("/ok\0")                                                    | status 400
8.2.1 a space in :method                   | c.send("/ok", "GET /no")                                           | status 400
8.2.1 a line break in :method              | c.send("/ok", "GET\r\nx: y")                                       | status 400
8.2.1 a line break in :authority           | c.send("/ok", authority="a.test\r\nx: y")                          | status 400
8.2.1 a line break in :scheme              | c.send("/ok", scheme="https\r\nx: y")                              | status 400
8.2.2 Connection                           | c.send("/ok", fields=[("connection", "close")])                    | status 400
8.2.2 Keep-Alive                           | c.send("/ok", fields=[("keep-alive", "timeout=5")])                | status 400
8.2.2 Proxy-Connection                     | c.send("/ok", fields=[("proxy-connection", "close")])              | status 400
8.2.2 Transfer-Encoding                    | c.send("/ok", fields=[("transfer-encoding", "chunked")])           | status 400
8.2.2 Upgrade                              | c.send("/ok", fields=[("upgrade", "h2c")])                         | status 400
8.2.2 TE other than trailers               | c.send("/ok", fields=[("te", "trailers, deflate")])                | status 400
8.2.2 TE: trailers                         | c.send("/ok", fields=[("te", "trailers")])                         | status 200
8.2.3 crumbs of a cookie                   | c.send("/ok", fields=[("cookie", "a=b"), ("cookie", "c=d")])       | status 200
8.3   an unknown pseudo-header field       | c.send("/ok", other="x")                                           | status 400
8.3   an answer's pseudo-header field      | c.send("/ok", status="200")                                        | status 400
8.3   a pseudo-header field behind another field | c.headers(c.next, [("x", "y")] + c.pseudo("/ok"))             | status 400
8.3.1 no :method                           | c.send("/ok", method=None)                                         | status 400
8.3.1 no :scheme                           | c.send("/ok", scheme=None)                                         | status 400
8.3.1 no :path                             | c.send(None)                                                       | status 400
8.3.1 an empty :path                       | c.send("")                                                         | status 400
8.3.1 :path twice                          | c.headers(c.next, c.pseudo("/ok") + [(":path", "/")])              | status 400
8.3.1 an absolute :path                    | c.send("https://a.test/ok")                                        | status 400
8.3.1 '*' by GET                           | c.send("*")                                                        | status 400
8.3.1 user information in :authority       | c.send("/ok", authority="u@a.test")                                | status 400
8.3.1 Host beside another :authority       | c.send("/ok", fields=[("host", "b.test")])                         | status 400
8.3.1 Host instead of :authority           | c.send("/ok", authority=None, fields=[("host", "a.test")])         | status 200
8.3.1 neither                              | c.send("/ok", authority=None)                                      | status 400
8.3.1 :scheme http inside TLS              | c.send("/ok", scheme="http")                                       | status 400
8.3.1 :method twice                        | c.headers(c.next, c.pseudo("/ok") + [(":method", "GET")])          | status 400
8.3.1 :authority twice                     | c.headers(c.next, c.pseudo("/ok") + [(":authority", "a.test")])    | status 400
8.3.1 :scheme twice                        | c.headers(c.next, c.pseudo("/ok") + [(":scheme", "https")])        | status 400
8.3.1 a path that does not begin with a slash | c.send("ok")                                                    | status 400
8.3.1 a fragment                           | c.send("/ok#x")                                                    | status 400
8.3.1 '*' by OPTIONS, which no rule permits | c.send("*", "OPTIONS")                                            | status 403
8.3.1 Host that is :authority by another spelling | c.send("/ok", fields=[("host", "A.TEST:443")])              | status 200
8.3.1 two of Host                          | c.send("/ok", fields=[("host", "a.test"), ("host", "a.test")])     | status 400
8.5   CONNECT with :path                   | c.send("/ok", "CONNECT")                                           | status 400
8.5   CONNECT                              | c.send(None, "CONNECT", scheme=None, authority="a.test:443")       | status 400
8.5   CONNECT with :scheme                 | c.send(None, "CONNECT", authority="a.test:443")                    | status 400
8.5   CONNECT without :authority           | c.send(None, "CONNECT", scheme=None, authority=None)               | status 400
'''

CODE = '''
NAMES = ["NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED",
         "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM"]

class Ruled(H2):
    def open(self, stream):
        self.answers.setdefault(stream, Answer()).reset = None
    def table(self, field, times=1, reset=False):
        """A request that comes to nothing puts a field into the table; the status of one that says it again."""
        block = self.block(self.pseudo("/ok") + [field] * times) + b"\\x40\\x04kept\\x05value"
        pieces = [block[i:i + 16000] for i in range(0, len(block), 16000)]
        for i, piece in enumerate(pieces):
            self.frame(CONTINUATION if i else HEADERS, (not i) + 4 * (i == len(pieces) - 1), self.next, piece)
        if reset:
            self.reset(self.next)
        self.next += 2
        self.open(self.next)
        self.frame(HEADERS, 5, self.next, self.block(self.pseudo("/ok")) + b"\\xbe")
        return self.answer(self.next).status
    def send(self, path, method="GET", fields=(), **pseudo):
        self.headers(self.next, self.pseudo(path, method, **pseudo) + list(fields))

def rule(code, kind):
    c = Ruled(tls("a.test", alpn=["h2"]), start=kind != "bare")
    s = o = None
    if kind != "bare":
        s = c.request("/ok")
        c.answer(s)
        o = c.request("/held" if kind == "held" else "/ok", "POST", end=False)
    n = c.next
    exec(code, dict(globals(), c=c, s=s, o=o))
    if kind != "bare" and c.next == n and n in c.answers:
        a = c.answer(n)
        if a.status:
            return "status " + str(a.status) if c.settle() else "connection"
    if kind == "bare":
        c.end()
        return c.ended if c.ended == "timeout" else "connection" if c.goaway is None else "connection " + NAMES[c.goaway]
    if not c.settle():
        if c.ended == "timeout" or (c.goaway and c.last < o):
            return "a connection that ends by {}, and names stream {} as the last".format(c.ended, c.last)
        return "connection" if c.goaway is None else "connection " + NAMES[c.goaway]
    if c.goaway:
        return "a connection that goes on behind GOAWAY " + NAMES[c.goaway]
    c.settle() # a second look: what was reset meanwhile
    resets = [a.reset for a in c.answers.values() if a.reset]
    return "stream " + NAMES[resets[0]] if resets else "fine"

for row in json.loads(%r):
    try:
        report(rule(row["code"], row["kind"]))
    except Exception as e:
        report("failed: " + repr(e))
'''


def rows():
    for line in RULES.strip().split("\n"):
        parts = [p.strip() for p in line.split(" | ")]
        section, name = parts[0].split(None, 1)
        yield {"section": section, "name": name, "code": parts[1], "wanted": parts[2].split(" or "),
               "kind": parts[3] if len(parts) > 3 else ""}


@tap.test(timeout=150)
def the_rules_of_rfc_9113(t):
    release = threading.Event()
    t.after(release.set)

    def answer(connection, request):
        if request.target == "/held":
            release.wait(60)
        connection.read_body(request)
        return response(200, "ok")
    server = t.use(RawServer(tls=pki.leaf("a.test"), answer=answer))
    table = list(rows())
    r = client.run(POLICY, [h2.CLIENT, CODE % json.dumps(table)], resolve=[server.resolve("a.test")], upstream_ca=pki.ca,
                   timeout=120)
    tap.equal(len(r.reports), len(table))
    broken = ["%s %s: %s, not %s" % (row["section"], row["name"], got, " or ".join(row["wanted"]))
              for row, got in zip(table, r.reports) if got not in row["wanted"]]
    tap.equal(broken, [])


# ---- what exeat says itself ----

@tap.test
def its_settings_its_frames_and_its_fields(t):
    # 3.4, 4.1, 4.2, 4.3.1, 5.1, 5.4.1, 6.5.2, 8.2; the client wants no table of fields
    fields = [("X-Long-%d" % i, "y" * 15000) for i in range(3)]
    r, _ = onehost.through(t, [h2.CLIENT, """
        class Noting(H2):
            def note(self, kind, flags, stream, payload):
                frames.append((kind, flags, stream, payload))
                if kind != HEADERS:
                    H2.note(self, kind, flags, stream, payload)
                elif flags & END_STREAM:
                    self.answers[stream].whole = True
        frames = []
        c = Noting(tls("a.test", alpn=["h2"]), settings={"table": 0})
        c.answer(c.request("/ok/long"))
        c.answer(c.request("/ok/head", method="HEAD"))
        c.raw(c.packed(HEADERS, 5, 5, c.block(c.pseudo("/ok/long"))) + c.packed(RST_STREAM, 0, 5, struct.pack(">I", 8)))
        c.settle()
        c.frame(GOAWAY, 0, 1, b"\\0" * 8)
        c.end()
        first, ends = frames[0][:3], [[f[2] for f in frames if f[0] == kind and f[1] & END_STREAM] for kind in (HEADERS, DATA)]
        report(first, c.theirs, c.acks, ends, max(len(f[3]) for f in frames))
        report(sorted(set((f[0], f[1]) for f in frames)), sorted(set(f[2] for f in frames)))
        blocks = [b"".join(f[3] for f in frames if f[2] == s and f[0] in (HEADERS, CONTINUATION)) for s in (1, 3)]
        report(blocks[0][0], [[str(n) for n, _ in c.decoder.decode(block)] for block in blocks])
        report(frames[-1][0], c.goaway, c.last, c.ended)
    """], answer=lambda c, q: response(200, "" if q.method == "HEAD" else "x" * 40000, fields + [("Connection", "x-hop"), ("X-Hop", "1")]))
    (first, settings, acks, ends, longest), (flags, streams), (update, names), goaway = r.reports
    tap.equal((first, acks), ([4, 0, 0], 1), "its settings are its first word, and ours have one acknowledgement")
    tap.equal(settings, {"-1": 0, "3": 100, "6": 65536, "8": 1, "9": 1})
    tap.equal((ends, longest), ([[3], [1]], 16384), "the end of each answer comes once, and no frame is too long")
    tap.equal([f for f in flags if f[0] not in (0, 1, 9)], [[4, 0], [4, 1], [6, 1], [7, 0], [8, 0]])
    tap.equal([f for f in flags if f[0] in (0, 1, 9) and f[1] & ~5], [], "flags that mean nothing")
    tap.equal(streams, [0, 1, 3], "nothing is said on a stream that was given up")
    tap.equal(update, 0x20, "the table was not made smaller before its first use")
    tap.equal(names, [[":status", "content-length", "x-long-0", "x-long-1", "x-long-2"]] * 2)
    tap.equal(goaway, [7, 1, 5, "eof"])


@tap.test
def a_client_that_leaves_is_told_what_was_seen_of_it(t):
    # 6.8: at once, or when what is under way has ended
    r, _ = onehost.through(t, [h2.CLIENT, """
        c = h2("a.test")
        c.get("/ok")
        c.frame(GOAWAY, 0, 0, b"\\0" * 8)
        report(c.end(), c.last, c.ended)
        c = h2("a.test")
        c.get("/ok")
        s = c.request("/ok", "POST", end=False)
        c.frame(GOAWAY, 0, 0, b"\\0" * 8)
        report(c.settle())
        c.data(s, b"", end=True)
        report(c.answer(s).status, c.end(), c.last, c.ended)
    """])
    tap.equal(r.reports, [[0, 1, "eof"], True, [200, 0, 3, "eof"]])


@tap.test
def it_sends_no_more_than_the_windows_are_open_for(t):
    # 5.2.1, 6.9.1, 6.9.2: those of the stream and of the connection, made smaller than nothing, and wider again
    r, _ = onehost.through(t, [h2.CLIENT, """
        c = h2("a.test", settings={"window": 1000})
        c.open_windows = False
        s = c.request("/ok")
        def has(n):
            while len(c.answers[s].body) < n and c.read():
                pass
            c.settle()
            c.settle()
            report(n, len(c.answers[s].body))
        has(1000)
        c.frame(SETTINGS, 0, 0, setting(window=300))
        c.window(s, 700)
        has(1000)
        c.window(s, 1)
        has(1001)
        c.frame(SETTINGS, 0, 0, setting(window=0) + setting(window=5000))
        has(5701)
        c.window(s, 1 << 20)
        has(65535)
        c.window(0, 10)
        has(65545)
        report(c.get("/ok/none").whole, c.answers[s].whole)  # a head needs no window
        c.window(0, 1 << 20)
        has(200000)
        report(c.answers[s].whole)
    """], answer=lambda c, q: chunked("x" * 200000) if q.target == "/ok" else response(200, ""))
    tap.equal(r.reports, [[n, n] for n in (1000, 1000, 1001, 5701, 65535, 65545)] + [[True, False], [200000, 200000], True])


# ---- limits ----

IDLE = ": of no use there may be 2000 frames at once, and 500 a second"
CONTINUATIONS = "a header block in more than 7 CONTINUATION frames"
RESETS = "too many streams were begun and reset: 200 at once, and 20 a second"

# What is refused, and what makes it.
LIMITS = [
    ("too many HEADERS frames for so few requests" + IDLE, 's = c.request("/ok"); c.answer(s)\nfor _ in range(300): c.raw(c.packed(HEADERS, 4, s) * 100)'),
    (RESETS, 'for _ in range(3000): c.reset(c.request("/ok"))'),
    ("too many PING frames" + IDLE, 'for _ in range(300): c.raw(c.packed(PING, 0, 0, b"12345678") * 100)'),
    ("too many SETTINGS frames" + IDLE, 'for _ in range(300): c.raw(c.packed(SETTINGS, 0, 0) * 100)'),
    ("too many empty DATA frames" + IDLE, 's = c.request("/ok", "POST", end=False)\nfor _ in range(300): c.raw(c.packed(DATA, 0, s) * 100)'),
    ("too many WINDOW_UPDATE frames for so little data" + IDLE, 'for _ in range(300): c.raw(c.packed(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)) * 100)'),
    ("too many frames of unknown types" + IDLE, 'for _ in range(300): c.raw(c.packed(0xb, 0, 0, b"x") * 100)'),
    ("too many frames of unknown types" + IDLE, 'for _ in range(300): c.raw(c.packed(0x10, 0, 0, struct.pack(">I", 1) + b"u=1") * 100)'),
    ("too many PRIORITY frames" + IDLE, 'for _ in range(300): c.raw(c.packed(PRIORITY, 0, 1, b"\\0\\0\\0\\0\\1") * 100)'),
    ("too many frames of no meaning" + IDLE, 'c.request("/ok", "POST", end=False)\nfor _ in range(300): c.raw(c.packed(GOAWAY, 0, 0, b"\\0" * 8) * 100)'),
    ("SETTINGS: too many setting entries", 'c.frame(SETTINGS, 0, 0, struct.pack(">HI", 0x99, 1) * 33)'),
    (CONTINUATIONS, 'c.frame(HEADERS, 1, 1, c.block(c.pseudo("/ok")))\n'
                    'for i in range(300): c.raw(c.packed(CONTINUATION, 0, 1, c.block([("x%d" % i, "y")])))'),
    (CONTINUATIONS, 'c.frame(HEADERS, 1, 1, c.block(c.pseudo("/ok")))\n'
                    'for i in range(300): c.raw(c.packed(CONTINUATION, 0, 1))'),
]


@tap.test
def who_only_makes_work_is_shown_out(t):
    server = t.use(RawServer(tls=pki.leaf("a.test")))
    r = client.run(POLICY, [h2.CLIENT, '''
        for code in %r:
            c = h2("a.test")
            exec(code)
            report(c.end())
        report(h2("a.test").get("/ok").status)
    ''' % [code for _, code in LIMITS]], resolve=[server.resolve("a.test")], upstream_ca=pki.ca, timeout=100)
    for (name, _), got in zip(LIMITS, r.reports):
        tap.ok(got in (11, None), "%s: %r" % (name, got))
    tap.equal(r.reports[-1], 200)
    refused = [v for v in r.verdicts(verdict="deny") if v["code"].startswith("http2")]
    tap.equal(sorted((v["code"], v["reason"]) for v in refused), sorted(("http2-flood", why) for why, _ in LIMITS))


@tap.test
def what_rule_a_client_broke_is_told(t):
    r, _ = onehost.through(t, [h2.CLIENT, """
        for say in (lambda c: c.window(0, 0), lambda c: c.frame(SETTINGS, ACK, 0, b"123456"), lambda c: c.data(c.next, b"x")):
            c = h2("a.test")
            say(c)
            report(c.end())
    """])
    tap.equal(r.reports, [1, 6, 1])
    tap.equal([(v["code"], v["reason"]) for v in r.verdicts()],
              [("http2-error", "the client broke the rules of HTTP/2: " + rule) for rule in
               ("WINDOW_UPDATE: window_size_increment == 0", "FRAME_SIZE_ERROR", "DATA: stream in idle")])


@tap.test
def streams_that_exeat_is_made_to_reset_count_as_resets(t):
    server = t.use(RawServer(tls=pki.leaf("a.test")))
    r = client.run(POLICY, [h2.CLIENT, '''
        def overflow(c):
            c.window(c.request("/ok", "POST", end=False), (1 << 31) - 1)
        def length(c):
            c.data(c.request("/ok", "POST", end=False, fields=[("content-length", "1")]), b"xy")
        def trailers(c):
            c.headers(c.request("/ok", "POST", end=False), [("x", "y")], end=False)
        for how in (overflow, length, trailers):
            c = h2("a.test")
            for _ in range(400):
                how(c)
                if _ % 50 == 0 and not c.settle():
                    break
            report(c.end())
    '''], resolve=[server.resolve("a.test")], upstream_ca=pki.ca, timeout=50)
    tap.equal(r.reports, [11] * 3)
    floods = r.verdicts(code="http2-flood")
    tap.equal([v["reason"] for v in floods], [RESETS] * 3)
    tap.ok(len(r.outcomes()) < 3 * 300, "%d requests were begun" % len(r.outcomes()))


@tap.test
def lists_of_fields_have_limits(t):
    server = t.use(RawServer(tls=pki.leaf("a.test")))
    r = client.run(POLICY, [h2.CLIENT, '''
        c = h2("a.test")
        report(c.get("/ok", fields=[("x%d" % i, "y") for i in range(100)]).status)
        report(c.get("/ok", fields=[("x%d" % i, "y") for i in range(200)]).status)
        def many(fields):
            s, c.next = c.next, c.next + 2
            c.answers[s] = Answer(); c.answers[s].reset = None
            block = c.block(c.pseudo("/ok") + fields)
            c.frame(HEADERS, 1, s, block[:16000])
            rest = block[16000:]
            while len(rest) > 16000:
                c.frame(CONTINUATION, 0, s, rest[:16000])
                rest = rest[16000:]
            c.frame(CONTINUATION, 4, s, rest)
            return c.answer(s).status
        report(many([("x", "y" * 60000)]), many([("x", "y" * 33000), ("z", "y" * 33000)]))
        # small in the frame, large in the list: one long field in the table, said again and again
        block = b"\\x40\\x01x\\x7f\\xa1\\x1e" + b"v" * 4000
        s, c.next = c.next, c.next + 2
        c.answers[s] = Answer(); c.answers[s].reset = None
        c.frame(HEADERS, END_STREAM | END_HEADERS, s, c.block(c.pseudo("/ok")) + block + b"\\xbe" * 10000)
        report(c.answer(s).status)
        report(c.get("/ok").status)
    '''], resolve=[server.resolve("a.test")], upstream_ca=pki.ca)
    tap.equal(r.reports, [200, 431, [200, 431], 431, 200])


@tap.test
def honest_use_is_no_flood(t):
    server = t.use(RawServer(tls=pki.leaf("a.test"), answer=response(200, "x" * 100000)))
    r = client.run(POLICY, [h2.CLIENT, '''
        c = h2("a.test")
        for i in range(400):
            a = c.get("/ok/%d" % i)
            if not a.whole:
                report(i, a.status, c.goaway)
        for i in range(150):
            c.reset(c.request("/ok/given-up"))
        report(c.settle(), c.get("/ok").status)
    '''], resolve=[server.resolve("a.test")], upstream_ca=pki.ca, timeout=60)
    tap.equal(r.reports, [[True, 200]])


if __name__ == "__main__":
    tap.main()
