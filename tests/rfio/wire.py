"""A second implementation of the protocol of docs/rfio-protocol.md: the tests' messages do not come from the code under
test."""

from __future__ import annotations

import hashlib
import hmac
import socket
import ssl
import struct
from typing import Optional

from .elsewhere import HOST, OWN

HEADER = struct.Struct(">HHIIQ")
MAGIC = 0x5246
HELLO, PROVE, CONNECT, PING, CANCEL, REDEEM, OPEN, READ, READ_VECTOR, CHECKSUM = 1, 2, 3, 4, 5, 6, 10, 12, 13, 21
SECRET, ANONYMOUS, TICKET, CERTIFICATE = 2, 4, 8, 16


def text(value: bytes) -> bytes:
    """A length and its bytes."""
    return struct.pack(">I", len(value)) + value


class Closed(Exception):
    """The server ended the connection."""


class Peer:
    """A client that sends any message."""

    def __init__(self, port: int, seconds: float = 20.0, source: str = OWN, context: Optional[ssl.SSLContext] = None,
                 session: Optional[ssl.SSLSession] = None):
        self.socket = socket.create_connection((HOST, port), seconds, (source, 0))
        if context:
            self.socket = context.wrap_socket(self.socket, session=session)
        self.next = 1
        self.keys: Optional[tuple[bytes, bytes]] = None
        self.sequence = [0, 0]

    def send(self, operation: int, body: bytes = b"", payload: bytes = b"", *,
             body_length: Optional[int] = None, payload_length: Optional[int] = None,
             damage_tag: bool = False) -> int:
        """Sends a frame; the lengths may be wrong."""
        header = HEADER.pack(MAGIC, operation, len(body) if body_length is None else body_length,
                             len(payload) if payload_length is None else payload_length, self.next)
        tag = b""
        if self.keys:
            tag = self.tag(0, header, body)
            if damage_tag:
                tag = bytes([tag[0] ^ 1]) + tag[1:]
        self.socket.sendall(header + body + tag + payload)
        self.next += 1
        return self.next - 1

    def tag(self, direction: int, header: bytes, body: bytes) -> bytes:
        """The tag of the next frame of a direction: 0 is to the server."""
        message = struct.pack(">Q", self.sequence[direction]) + header + body
        self.sequence[direction] += 1
        return hmac.new(self.keys[direction], message, hashlib.sha256).digest()[:16]

    def exactly(self, count: int) -> bytes:
        """So many bytes."""
        data = b""
        while len(data) < count:
            try:
                more = self.socket.recv(count - len(data))
            except ConnectionError as error:
                raise Closed from error
            if not more:
                raise Closed
            data += more
        return data

    def receive(self) -> tuple[int, bytes, bytes]:
        """A reply: status, the rest of the body, the payload."""
        return self.receive_numbered()[1:]

    def receive_numbered(self) -> tuple[int, int, bytes, bytes]:
        """The same, with the number of its request first."""
        header = self.exactly(HEADER.size)
        magic, _kind, body_length, payload_length, number = HEADER.unpack(header)
        assert magic == MAGIC
        body = self.exactly(body_length)
        if self.keys:
            assert self.exactly(16) == self.tag(1, header, body), "the server's tag is wrong"
        return number, struct.unpack(">I", body[:4])[0], body[4:], self.exactly(payload_length)

    def ask(self, operation: int, body: bytes = b"", payload: bytes = b"") -> tuple[int, bytes, bytes]:
        """A request and its reply."""
        self.send(operation, body, payload)
        return self.receive()

    def log_in(self, user: bytes, secret: Optional[bytes], methods: int = SECRET | ANONYMOUS, newest: int = 3) -> int:
        """Greeting and proof, of versions from 2 to the newest; the status of the first refusal, or 0."""
        return self._enter(user, secret, methods, newest, PROVE)[0]

    def redeem(self, claims: bytes, key: bytes) -> tuple[int, str]:
        """The handshake by a ticket: returns the status of the first refusal and its message, or 0."""
        return self._enter(b"", key, TICKET, 3, REDEEM, claims)

    def _enter(self, user: bytes, secret: Optional[bytes], methods: int, newest: int, operation: int,
               claims: bytes = b"") -> tuple[int, str]:
        hello = struct.pack(">HHI", 2, newest, methods) + text(user) + bytes(range(32))
        status, body, _ = self.ask(HELLO, hello)
        if status:
            return status, body[4:].decode()
        version, method = struct.unpack(">HI", body[:6])
        assert version == newest
        common = hello + body[6:38] + struct.pack(">H", version) + text(b"")
        key = secret or b""

        def made(label: bytes) -> bytes:
            return hmac.new(key, label + b"\0" + common, hashlib.sha256).digest()

        proof = made(b"RFIO 2 client proof") if secret else bytes(32)
        status, body, _ = self.ask(operation, claims + proof)
        if status:
            return status, body[4:].decode()
        if method in (SECRET, TICKET):
            assert body[:32] == made(b"RFIO 2 server proof"), "the server does not know the secret"
            self.keys = (made(b"RFIO 2 client frames"), made(b"RFIO 2 server frames"))
        return 0, ""

    def closed(self) -> bool:
        """Whether the server has ended the connection, without a further message."""
        try:
            self.receive()
        except Closed:
            return True
        return False

    def close(self) -> None:
        """Goes away."""
        self.socket.close()
