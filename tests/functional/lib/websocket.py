"""The little of RFC 6455 that a test needs, for a server (with raw.RawServer) and for the client inside (CLIENT, a text
to be put before the code that client.run is given)."""
import base64
import hashlib
import struct

from servers import response

CLIENT = '''
    KEY = "dGhlIHNhbXBsZSBub25jZQ=="
    ASKS = "Connection: Upgrade\\r\\nUpgrade: websocket\\r\\n"
    REST = "Sec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: " + KEY + "\\r\\n"

    def ask(c, target="/ok/ws", host="a.test", asks=ASKS, rest=REST, method="GET", behind=b""):
        c.send(("%s %s HTTP/1.1\\r\\nHost: %s\\r\\n%s%s\\r\\n" % (method, target, host, asks, rest)).encode() + behind)
        return c

    def head(c):
        """The status, and the fields by their names in lower case."""
        lines = (c.until(b"\\r\\n\\r\\n") or b"none 0").decode("latin-1").split("\\r\\n")
        return int(lines[0].split(" ")[1]), dict((n.lower(), v.strip()) for n, _, v in (l.partition(":") for l in lines[1:]))

    def frame(payload, opcode=2):
        mask = bytes([0x37, 0xfa, 0x21, 0x3d])
        size = bytes([0x80 | len(payload)]) if len(payload) < 126 else bytes([0x80 | 127]) + struct.pack(">Q", len(payload))
        whole = (mask * (len(payload) // 4 + 1))[:len(payload)]
        masked = (int.from_bytes(payload, "big") ^ int.from_bytes(whole, "big")).to_bytes(len(payload), "big")
        return bytes([0x80 | opcode]) + size + mask + masked

    def get_frame(c):
        """Its opcode and payload; None at the end."""
        first = c.exactly(2)
        if len(first) < 2:
            return None
        n = first[1]
        if n == 126:
            n = struct.unpack(">H", c.exactly(2))[0]
        elif n == 127:
            n = struct.unpack(">Q", c.exactly(8))[0]
        return first[0] & 15, c.exactly(n)
'''

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def granted(request, accept=None, fields=()):
    """The bytes of the 101 for that request."""
    key = request.header("sec-websocket-key") or ""
    proof = accept or base64.b64encode(hashlib.sha1((key + GUID).encode()).digest()).decode()
    lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Accept: " + proof]
    lines += ["%s: %s" % f for f in fields]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def frame(payload, opcode=2):
    size = bytes([len(payload)]) if len(payload) < 126 else b"\x7f" + struct.pack(">Q", len(payload))
    return bytes([0x80 | opcode]) + size + payload


def get_frame(connection):
    first = connection.exactly(2)
    n = first[1] & 127
    if n == 126:
        n = struct.unpack(">H", connection.exactly(2))[0]
    elif n == 127:
        n = struct.unpack(">Q", connection.exactly(8))[0]
    mask = connection.exactly(4)
    data = connection.exactly(n)
    whole = (mask * (n // 4 + 1))[:n]
    return first[0] & 15, (int.from_bytes(data, "big") ^ int.from_bytes(whole, "big")).to_bytes(n, "big")


def echo(connection, request):
    """Grants every handshake with a frame in the same write, echoes frames, answers a close with a close and ends."""
    if request.header("upgrade") is None:
        connection.send(response(200, "ordinary"))
        return
    connection.send(granted(request) + frame(b"first"))
    while True:
        opcode, payload = get_frame(connection)
        connection.send(frame(payload, opcode))
        if opcode == 8:
            connection.close()
            return
