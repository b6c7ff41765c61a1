"""Servers that try to take a client's memory, time, disk or terminal: every size, count, depth, text and rate that a
server states has a bound that the client sets (docs/rfio-security.md, "Limits on an untrusted server")."""

from __future__ import annotations

import stat
import struct
import threading
import time
from pathlib import Path
from typing import Callable, Optional

from harness import tiers
from harness.outcome import Outcome, failed, passed
from harness.place import Place
from harness.process import Ended, Process

from .libraries import LIBRARIES
from .python_package import PYTHON
from .service import Service
from .traps import DIRECTORY, FETCH, LINK_STATUS, LIST, REGULAR, STATUS, Liar, attributes, crc32c
from .wire import OPEN, READ, text

CLOSE, EXAMINE, EXTENTS = 11, 15, 23
BLOCK = 256 << 10
MEBIBYTE = 1 << 20
#: docs/rfio-security.md's limit of a tool's memory beside its sessions' data under way.
STATED = 512
FIFO = stat.S_IFIFO | 0o644


def path_of(body: bytes) -> bytes:
    """The path that a request begins with."""
    length, = struct.unpack(">I", body[:4])
    return body[4:4 + length].rstrip(b"/") or b"/"


def page(entries: list[tuple[bytes, int]], cookie: int, first: int = 100) -> bytes:
    """A page of a listing."""
    listed = b"".join(text(name) + attributes(mode, 5, first + number) for number, (name, mode) in enumerate(entries))
    return struct.pack(">I", len(entries)) + listed + struct.pack(">Q", cookie)


class Huge(Liar):
    """One file of 64 TiB, all of it zeros, or as many extents as requested."""

    SIZE = 1 << 46

    def __init__(self, allocated: int = SIZE):
        super().__init__({}, {})
        zeros = bytes(BLOCK)
        self.sum, self.zeros = crc32c(zeros), zeros * 16
        self.about = attributes(REGULAR, self.SIZE)
        # The blocks of 512 bytes behind the size.
        self.about = self.about[:44] + struct.pack(">Q", allocated // 512) + self.about[52:]

    def answer(self, kind: int, body: bytes) -> tuple[object, bytes]:
        if kind in (STATUS, LINK_STATUS, EXAMINE):
            return self.about, b""
        if kind == OPEN:
            return struct.pack(">Q", 7) + self.about, b""
        if kind == READ:
            _, offset, length, sums = struct.unpack(">QQIB", body[:21])
            ends = sorted({*range(offset // BLOCK * BLOCK + BLOCK, offset + length, BLOCK), offset + length})
            starts = [offset, *ends[:-1]]
            lengths = [end - start for start, end in zip(starts, ends)]
            checks = [self.sum if length == BLOCK else crc32c(bytes(length)) for length in lengths] if sums else []
            fields = struct.pack(">IBQI", length, 0, 1, len(checks)) + struct.pack(f">{len(checks)}I", *checks)
            return fields, self.zeros[:length]
        if kind == EXTENTS:
            _, offset, _ = struct.unpack(">QQI", body)
            count = 65_000
            extents = struct.pack(f">{2 * count}Q", *(value for number in range(count)
                                                      for value in (offset + 2 * number, 1)))
            return struct.pack(">I", count) + extents + struct.pack(">Q", offset + 2 * count), b""
        return (b"", b"") if kind == CLOSE else (22, b"")


class Endless(Liar):
    """A directory whose listing does not end, in pages of long names."""

    def __init__(self, mode: int = REGULAR):
        super().__init__({}, {})
        self.mode, self.pages = mode, 0

    def answer(self, kind: int, body: bytes) -> tuple[object, bytes]:
        if kind in (STATUS, LINK_STATUS):
            return attributes(DIRECTORY if path_of(body) == b"/d" else REGULAR, 5), b""
        if kind == LIST:
            length, = struct.unpack(">I", body[:4])
            cookie, = struct.unpack(">Q", body[4 + length:12 + length])
            self.pages += 1
            entries = [(b"%0240d" % (cookie * 4096 + number), self.mode) for number in range(4096)]
            return page(entries, cookie + 1, cookie * 4096 + 100), b""
        if kind == FETCH:
            return attributes(REGULAR, len(self.content)) + struct.pack(">BI", 1, crc32c(self.content)), self.content
        return 22, b""


class Deep(Liar):
    """A directory in a directory in a directory."""

    def __init__(self) -> None:
        super().__init__({}, {})
        self.listed = 0

    def answer(self, kind: int, body: bytes) -> tuple[object, bytes]:
        if kind in (STATUS, LINK_STATUS):
            return attributes(DIRECTORY), b""
        if kind == LIST:
            self.listed += 1
            return page([(b"d", DIRECTORY)], 0, self.listed + 100), b""
        return 22, b""


class Dripping(Liar):
    """Every reply after the hello comes a byte at a time, two bytes a second."""

    def send(self, stream, kind: int, reply: bytes) -> None:
        if kind <= 2:
            return super().send(stream, kind, reply)
        for number in range(len(reply)):
            super().send(stream, kind, reply[number:number + 1])
            time.sleep(0.5)

    def answer(self, kind: int, body: bytes) -> tuple[object, bytes]:
        return attributes(DIRECTORY), b""


class Watched:
    """A tool, and the most memory that it has had."""

    def __init__(self, process: Process):
        self.process, self.most = process, 0.0
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def watch(self) -> None:
        """Measures until the tool ends."""
        while self.process.running:
            try:
                said = Path(f"/proc/{self.process.pid}/status").read_text()
            except (FileNotFoundError, ProcessLookupError):
                return
            for line in said.splitlines():
                if line.startswith("VmHWM:"):
                    self.most = max(self.most, int(line.split()[1]) / 1024)
            time.sleep(0.005)

    def finish(self, seconds: float, limit: float) -> tuple[Optional[Ended], bool]:
        """Ends it after some seconds if it has not ended, or at once if it has too much memory."""
        deadline = time.monotonic() + seconds
        while self.process.running and time.monotonic() < deadline and self.most < limit:
            time.sleep(0.01)
        by_itself = not self.process.running
        ended = self.process.finish(time.monotonic() + (1 if by_itself else 0))
        self.thread.join()
        return ended, by_itself


class Against:
    """The tools' environment against another server."""

    def __init__(self, place: Place, liar: Liar):
        self.service, self.liar = Service(place, "tcp"), liar
        self.honest, self.service.port = self.service.port, liar.port

    def __enter__(self) -> Service:
        return self.service

    def __exit__(self, wrong: Optional[type] = None, *more: object) -> None:
        self.liar.close()
        self.service.port = self.honest
        self.service.__exit__(wrong, *more)


def huge_files(place: Place) -> Outcome:
    """A file of 64 TiB to a device, and one with endless extents to a file: memory stays small while it goes on."""
    figures = []
    for what, allocated, target in (("64 TiB", Huge.SIZE, "/dev/null"), ("extents", 0, "copy")):
        liar = Huge(allocated)
        with Against(place, liar) as service:
            to = target if target.startswith("/") else service.here / target
            tool = Watched(service.begin("rfcp", "-q", service.at("f"), to))
            ended, by_itself = tool.finish(4, 128)
            if tool.most >= 128:
                return failed(f"{what}: {tool.most:.0f} MiB of memory", ended.evidence())
            if by_itself and what == "64 TiB":
                return failed(f"{what}: ended at once", ended.evidence())
            figures.append(f"{what}: {tool.most:.0f} MiB")
    return passed(", ".join(figures))


#: Seconds for which a copy of a directory without an end is watched.
GOES_ON = 6 if tiers.by_night() else 2


def endless_listings(place: Place) -> Outcome:
    """rfdir and rfrm end with an error within the stated memory; rfcp goes on in little memory."""
    figures = []
    for program, arguments, limit in (("rfdir", [], STATED), ("rfrm", ["-r"], STATED), ("rfcp", ["-q", "-r"], 256)):
        with Against(place, Endless()) as service:
            places = [service.at("d"), *([service.here / "copy"] if program == "rfcp" else [])]
            tool = Watched(service.begin(program, *arguments, *places))
            ended, by_itself = tool.finish(60 if limit == STATED else GOES_ON, limit)
            if tool.most >= limit:
                return failed(f"{program}: {tool.most:.0f} MiB of memory", ended.evidence())
            if limit == STATED and (not by_itself or ended.status == 0 or "memory" not in ended.output):
                return failed(f"{program}: no error has the reason", ended.evidence())
            figures.append(f"{program}: {tool.most:.0f} MiB")
    return passed(", ".join(figures))


def names_without_sense(place: Place) -> Outcome:
    """A listing that repeats its names for ever ends the directory after a few lines."""

    class Repeating(Endless):
        def answer(self, kind: int, body: bytes) -> tuple[object, bytes]:
            if kind == LIST:
                return page([(b"same", FIFO)] * 100, 1), b""
            return super().answer(kind, body)

    with Against(place, Repeating()) as service:
        tool = Watched(service.begin("rfcp", "-q", "-r", service.at("d"), service.here / "copy"))
        ended, by_itself = tool.finish(10, STATED)
        lines = len(ended.output.splitlines())
        if not by_itself or ended.status == 0 or lines > 40:
            return failed(f"{lines} lines", ended.evidence())
        return passed(f"{lines} lines")


def endless_depth(place: Place) -> Outcome:
    """A directory that contains itself endlessly: entered to the depth that the client has set, then an error with the
    depth."""
    for program, arguments in (("rfcp", ["-q", "-r"]), ("rfdir", ["-R"]), ("rfrm", ["-r"])):
        liar = Deep()
        with Against(place, liar) as service:
            places = [service.at("d"), *([service.here / "copy"] if program == "rfcp" else [])]
            ended = service.tool(program, *arguments, *places)
            if ended.status in (0, None) or "directories deep" not in ended.output:
                return failed(f"{program}: no error has the depth", ended.evidence())
            if liar.listed > 260:
                return failed(f"{program} entered {liar.listed} directories")
    return passed()


DRIPPED = """
import ctypes, os, sys, time
rfio = ctypes.CDLL(os.environ["RFIO_LIBRARY"])
begun = time.monotonic()
assert rfio.rfio_access(sys.argv[1].encode(), 4) == -1
print("ended", time.monotonic() - begun)
"""


def dripping_replies(place: Place) -> Outcome:
    """Two bytes a second do not keep --timeout from ending a call, of a tool or of the C library."""
    with Against(place, Dripping({}, {})) as service:
        script = place.directory / "script.py"
        script.write_text(DRIPPED)
        library = {"RFIO_LIBRARY": str(LIBRARIES / "librfio.so.2"), "RFIO_TIMEOUT": "2", "RFIO_FABRIC": "tcp"}
        commands: dict[str, Callable[[], Process]] = {
            "rfstat": lambda: service.begin("rfstat", "--timeout", 2, service.at("f")),
            "rfcp": lambda: service.begin("rfcp", "-q", "--retry", 0, "--timeout", 2, service.at("f"), "/dev/null"),
            "the library": lambda: place.start("python", [str(PYTHON), str(script), service.at("f")],
                                               **{**service.environment(), **library})}
        for what, begin in commands.items():
            started = begin()
            ended = started.finish(time.monotonic() + 12)
            if ended.timed_out or (ended.status == 0) != (what == "the library"):
                return failed(f"{what} waits on", ended.evidence())
    return passed()


def terms(place: Place) -> Outcome:
    """Terms of a session that would be gibibytes: an error, or little memory."""
    for terms_, is_refused in (((2 ** 32 - 1, 2 ** 32 - 1, 256 << 10, 2 ** 32 - 1, 0, 1), False),
                               ((4 << 20, 8192, 2 ** 31, 64, 0, 1), True)):
        liar = Huge()
        liar.terms = terms_
        with Against(place, liar) as service:
            tool = Watched(service.begin("rfcp", "-q", "-s", 64 * MEBIBYTE, service.at("f"), service.here / "copy"))
            ended, by_itself = tool.finish(30, 256)
            if tool.most >= 256 or not by_itself or (ended.status != 0) != is_refused:
                return failed(f"{terms_}: {tool.most:.0f} MiB", ended.evidence())
    return passed()


#: Clears the screen, sets the title, starts a new line, and reverses the text direction.
NASTY = "\x1b[2J\x1b]0;owned\x07\r\nrfcp: all is well\u202egnp\u2028\x9b1m"


def texts(place: Place) -> Outcome:
    """A server's reasons, names and paths are shown on one line, without control characters."""
    name = NASTY.encode() + b"\xff"

    class Speaking(Liar):
        reason = NASTY.encode()

        def answer(self, kind: int, body: bytes) -> tuple[object, bytes]:
            if kind in (STATUS, LINK_STATUS) and path_of(body) == b"/d":
                return attributes(DIRECTORY), b""
            if kind == LIST and path_of(body) == b"/d":
                return page([(name, REGULAR), (name + b"/", REGULAR), (b"f" + name, FIFO)], 0), b""
            return 13, b""

    with Against(place, Speaking({}, {})) as service:
        for program, *arguments in (("rfstat", service.at("x")), ("rfcat", service.at("x")), ("rfdir", service.at("d")),
                                    ("rfdir", "-R", service.at("d")), ("rfrm", "-r", service.at("d")),
                                    ("rfcp", service.at("x"), service.here / "x"),
                                    ("rfcp", "-r", "--json", service.at("d"), service.here / "d")):
            started = service.begin(program, *arguments)
            ended = started.finish(time.monotonic() + 30)
            said = started.log.read_bytes().decode()
            strange = {character for character in said if character != "\n" and not character.isprintable()}
            if strange or "\nrfcp: all is well" in said or ended.timed_out:
                return failed(f"{program} writes {strange}", ended.evidence())
            if program == "rfdir" and "\\xff" not in said:
                return failed("a byte of a name is not printed", ended.evidence())
    return passed()


CASES = {"huge files": huge_files, "endless listings": endless_listings, "names without sense": names_without_sense,
         "endless depth": endless_depth, "dripping replies": dripping_replies, "terms of a session": terms, "texts": texts}
