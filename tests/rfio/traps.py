"""Traps of a server, or of a tree from an earlier copy, that would make a client write outside its destination."""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import stat
import struct
import threading

from harness.outcome import Outcome, failed, passed
from harness.place import Place

from .service import SECRET, USER, Service
from .wire import HEADER, MAGIC, text

DIRECTORY, REGULAR, LINK = stat.S_IFDIR | 0o755, stat.S_IFREG | 0o644, stat.S_IFLNK | 0o777
LINK_STATUS, STATUS, READ_LINK, LIST, FETCH = 31, 30, 38, 42, 43


def crc32c(data: bytes) -> int:
    """RFC 3720's checksum, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def attributes(mode: int, size: int = 0, inode: int = 1) -> bytes:
    """Returns the attributes of a file that was changed long ago."""
    return struct.pack(">QQIQIIQQqqqQB", 1, inode, mode, 1, 0, 0, size, 8, 0, 10 ** 18, 10 ** 18, inode, 1)


class Liar:
    """A server that knows the secret and lists arbitrary directories: a tree by path."""

    #: Largest payload, most ranges, block, most requests, fabric, writable.
    terms = (4 << 20, 8192, 256 << 10, 64, 0, 1)
    #: Why it refuses.
    reason = b"no"

    def __init__(self, listings: dict[bytes, list[tuple[bytes, int]]], links: dict[bytes, bytes],
                 content: bytes = b"from the server"):
        self.listings, self.links, self.content = listings, links, content
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        """Until the socket is closed."""
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection: socket.socket) -> None:
        """One session."""
        stream = connection.makefile("rwb")
        keys, sequence = None, 0
        try:
            while header := stream.read(HEADER.size):
                _, kind, body_length, payload_length, number = HEADER.unpack(header)
                body = stream.read(body_length)
                if keys:
                    stream.read(16)
                stream.read(payload_length)
                if kind == 1:
                    hello, nonce = body, b"n" * 32
                    answer, payload = struct.pack(">HI", 2, 2) + nonce, b""
                elif kind == 2:
                    common = hello + nonce + struct.pack(">H", 2) + text(b"")

                    def made(label: bytes) -> bytes:
                        return hmac.new(SECRET, label + b"\0" + common, hashlib.sha256).digest()

                    answer = made(b"RFIO 2 server proof") + text(USER) + struct.pack(
                        ">IIIIBB", *self.terms)
                    payload = b""
                else:
                    answer, payload = self.answer(kind, body)
                answer = answer if isinstance(answer, int) else b"\0\0\0\0" + answer
                if isinstance(answer, int):
                    answer = struct.pack(">I", answer) + text(self.reason)
                out = HEADER.pack(MAGIC, kind | 0x8000, len(answer), len(payload), number)
                tag = b""
                if keys:
                    message = struct.pack(">Q", sequence) + out + answer
                    tag = hmac.new(keys, message, hashlib.sha256).digest()[:16]
                    sequence += 1
                self.send(stream, kind, out + answer + tag + payload)
                if kind == 2:
                    keys = made(b"RFIO 2 server frames")
        except (OSError, struct.error):
            pass

    def send(self, stream, kind: int, reply: bytes) -> None:
        """Sends the reply to a request of a kind."""
        stream.write(reply)
        stream.flush()

    def answer(self, kind: int, body: bytes) -> tuple[object, bytes]:
        """The fields of a reply and its data, or a refusal."""
        length, = struct.unpack(">I", body[:4])
        path = body[4:4 + length].rstrip(b"/") or b"/"
        if kind in (STATUS, LINK_STATUS):
            return attributes(DIRECTORY if path in self.listings else REGULAR, len(self.content)), b""
        if kind == LIST:
            listed = self.listings.get(path)
            if listed is None:
                return 2, b""
            entries = b"".join(text(name) + attributes(mode, len(self.content), 100 + index)
                               for index, (name, mode) in enumerate(listed))
            return struct.pack(">I", len(listed)) + entries + struct.pack(">Q", 0), b""
        if kind == READ_LINK:
            return text(self.links[path]), b""
        if kind == FETCH:
            return attributes(REGULAR, len(self.content)) + struct.pack(">BI", 1, crc32c(self.content)), self.content
        return 22, b""

    def close(self) -> None:
        """Stops."""
        self.socket.close()


def untouched(outside) -> bool:
    """Whether no file was made or changed beside the target."""
    return sorted(os.listdir(outside)) == ["keep"] and (outside / "keep").read_bytes() == b"mine"


def prepared(place: Place):
    """A target for copies, and a file beside it that must not change."""
    here, outside = place.directory / "here", place.directory / "outside"
    here.mkdir()
    outside.mkdir()
    (outside / "keep").write_bytes(b"mine")
    return here, outside


def links_that_become_directories(place: Place) -> Outcome:
    """A regular server whose user replaces a link by a directory between two copies: the second one does not follow the
    link of the first. The same for a link to a file, and for the target's own name."""
    with Service(place, "tcp") as service:
        here, outside = prepared(place)
        tree = service.export / "tree"
        tree.mkdir()
        (tree / "d").symlink_to(outside)
        (tree / "f").symlink_to(outside / "keep")
        ended = service.tool("rfcp", "-r", service.at("tree"), here)
        if not ended.succeeded or os.readlink(here / "tree/d") != str(outside):
            return failed("the links were not copied", ended.evidence())
        (tree / "d").unlink()
        (tree / "f").unlink()
        (tree / "d").mkdir()
        (tree / "d" / "keep").write_bytes(b"from the server")
        (tree / "d" / "large").write_bytes(b"l" * 1_000_000)
        (tree / "f").write_bytes(b"from the server")
        ended = service.tool("rfcp", "-r", service.at("tree"), here)
        if not untouched(outside):
            return failed("a copy went through a link", ended.evidence())
        if ended.status == 0 or "symbolic link" not in ended.output:
            return failed("the link in the way is not reported", ended.evidence())
        if (here / "tree/f").is_symlink() or (here / "tree/f").read_bytes() != b"from the server":
            return failed("a link to a file was not replaced by the file")
        # The name of the whole tree, below a directory that was named.
        other = here / "other"
        other.mkdir()
        (other / "tree").symlink_to(outside)
        ended = service.tool("rfcp", "-r", service.at("tree"), other)
        if ended.status == 0 or not untouched(outside):
            return failed("a copy went through a link at its root", ended.evidence())
        # A partial file that is a second name for something else, and one that is a link.
        for trap in ("link", "hard link"):
            partial = here / ".g.rfpart"
            if trap == "link":
                partial.symlink_to(outside / "keep")
            else:
                os.link(outside / "keep", partial)
            (service.export / "g").write_bytes(b"from the server")
            ended = service.tool("rfcp", service.at("g"), here / "g")
            if ended.status == 0 or (outside / "keep").read_bytes() != b"mine":
                return failed(f"a partial file that is a {trap} was written to", ended.evidence())
            partial.unlink()
        return passed()


def names_listed_twice(place: Place) -> Outcome:
    """A server lists a name as a link and then as a directory, or a name that leads outside: nothing is written
    outside."""
    here, outside = prepared(place)
    target = str(outside).encode()
    listings = {
        b"/twice": [(b"x", LINK), (b"x", DIRECTORY), (b"y", LINK), (b"y", REGULAR), (b"z", REGULAR)],
        b"/twice/x": [(b"keep", REGULAR), (b"new", REGULAR)],
        b"/names": [(b"../outside/new", REGULAR), (b"..", DIRECTORY), (b".", DIRECTORY), (b"", REGULAR),
                    (b"a/b", REGULAR), (b"z", REGULAR)],
    }
    liar = Liar(listings, {b"/twice/x": target, b"/twice/y": target + b"/keep"})
    try:
        with Service(place, "tcp") as service:
            honest, service.port = service.port, liar.port
            for tree in ("twice", "names"):
                ended = service.tool("rfcp", "-r", service.at(tree), here)
                if not untouched(outside) or tree not in os.listdir(here):
                    return failed(f"{tree}: written outside", ended.evidence())
                if ended.status == 0 or "it lists" not in ended.output:
                    return failed(f"{tree}: the server's wrong answer is not reported", ended.evidence())
                if (here / tree / "z").read_bytes() != liar.content:
                    return failed(f"{tree}: the harmless part was not copied", ended.evidence())
            service.port = honest
    finally:
        liar.close()
    return passed()
