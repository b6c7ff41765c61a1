"""Reading with a long round-trip time, by the C interface's options READAHEAD and STREAM, and trees over it."""

from __future__ import annotations

import itertools
import json
import queue
import socket
import threading
import time
from pathlib import Path

from harness.outcome import Outcome, failed, passed
from harness.place import Place

from .libraries import LIBRARIES
from .python_package import PYTHON
from .service import Service, noise

#: Seconds that each direction takes.
WAY = 0.02
#: Of a tree, and files in each.
DIRECTORIES, FILES = 60, 4
#: Bytes of a file that takes several connections.
LONG = 2_500_001

# The classic calls, whose options these are: a read at an offset does not predict the next one.
SCRIPT = """
import ctypes, os, sys, time
rfio = ctypes.CDLL(os.environ["RFIO_LIBRARY"])
rfio.rfio_read64.restype, rfio.rfio_read64.argtypes = ctypes.c_ssize_t, [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
data = open(sys.argv[2], "rb").read()
for option, length in (1, 64), (2, 64), (2, 256), (16, 64):
    assert rfio.rfiosetopt(1, ctypes.byref(ctypes.c_int(option)), 4) == 0
    file = rfio.rfio_open64(sys.argv[1].encode(), os.O_RDONLY, 0)
    assert file >= 0
    begun, at, part = time.monotonic(), 0, ctypes.create_string_buffer(length << 10)
    while at < len(data):
        size = rfio.rfio_read64(file, part, len(part))
        assert size > 0 and part.raw[:size] == data[at:at + size], (option, at, size)
        at += size
    print("option", option, length, round(time.monotonic() - begun, 3), flush=True)
    assert rfio.rfio_close(file) == 0
"""


class LongWay:
    """A relay that delivers data a while later, all available data at once, and may end each connection after so many
    bytes to the server or to the client: for each connection the next number of the given ones."""

    def __init__(self, port: int, way: float = WAY, ups: tuple[int, ...] = (), downs: tuple[int, ...] = ()):
        self.to, self.socket = port, socket.create_server(("127.0.0.1", 0))
        self.way, self.ups, self.downs = way, itertools.cycle(ups), itertools.cycle(downs)
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        """Until the socket is closed."""
        while True:
            try:
                near, _ = self.socket.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                near.close()
                continue
            for one, other, most in ((near, far, next(self.ups, 0)), (far, near, next(self.downs, 0))):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                held: queue.Queue = queue.Queue()
                threading.Thread(target=self.take, args=(one, held), daemon=True).start()
                threading.Thread(target=self.give, args=(other, held, most), daemon=True).start()

    def take(self, stream: socket.socket, held: queue.Queue) -> None:
        """Notes when something came."""
        try:
            while data := stream.recv(1 << 20):
                held.put((time.monotonic() + self.way, data))
        except OSError:
            pass
        held.put((0.0, b""))

    @staticmethod
    def give(stream: socket.socket, held: queue.Queue, most: int) -> None:
        """Delivers it when it is due, and nothing after `most` bytes, unless that is 0."""
        left = most or 1 << 62
        try:
            while (item := held.get())[1]:
                time.sleep(max(0.0, item[0] - time.monotonic()))
                stream.sendall(item[1][:left])
                left -= len(item[1])
                if left <= 0:
                    stream.shutdown(socket.SHUT_RDWR)
                    return
            stream.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self) -> None:
        """No more connections."""
        self.socket.close()


def read_options(place: Place) -> Outcome:
    """At 40 ms, sequential reads take a fraction of the time with READAHEAD and with STREAM."""
    with Service(place, "tcp") as service:
        file = service.export / "f"
        file.write_bytes(noise(8 << 20))
        way = LongWay(service.port)
        script = place.directory / "script.py"
        script.write_text(SCRIPT)
        ended = place.run("python", [str(PYTHON), str(script), f"rfio://127.0.0.1:{way.port}/f", str(file)], 120,
                          RFIO_FABRIC="tcp", RFIO_LIBRARY=str(LIBRARIES / "librfio.so.2"),
                          **service.environment())
        way.close()
        lines = [line.split() for line in ended.output.splitlines() if line.startswith("option")]
        took = {(int(option), int(length)): float(seconds) for _, option, length, seconds in lines}
        if not ended.succeeded or len(took) != 4:
            return failed("the script failed", ended.evidence())
        figures = ", ".join(f"option {option}, {length} KiB: {seconds} s" for (option, length), seconds in took.items())
        buffered = took.pop((1, 64))
        return passed(figures) if max(took.values()) * 3 < buffered else failed(figures)


def grow(tree: Path) -> None:
    """Many directories, files and links."""
    for number in range(DIRECTORIES):
        (tree / f"{number:02}").mkdir(parents=True)
        for file in range(FILES):
            (tree / f"{number:02}" / str(file)).write_bytes(noise(1024, file))
        (tree / f"{number:02}" / "link").symlink_to("0")
    time.sleep(0.1)  # files changed this very moment are copied with more care


def trees(place: Place, direction: str, is_cut: bool = False) -> Outcome:
    """A tree at 40 ms: no step waits for a round trip for each name. Where connections are cut again and again, in the
    middle of batches of requests, all of it arrives, too."""
    with Service(place, "tcp") as service:
        tree = service.export / "tree" if direction == "download" else service.here / "tree"
        grow(tree)
        way = LongWay(service.port)
        if is_cut:
            cuts = {"downs": (60_000,)} if direction == "download" else {"ups": (20_000, 60_000, 30_000)}
            way = LongWay(service.port, 0.008, **cuts)
        there = f"rfio://127.0.0.1:{way.port}/tree"
        copy = service.here / "copy" if direction == "download" else service.export / "tree"
        places = (there, str(copy)) if direction == "download" else (str(tree), there)
        begun = time.monotonic()
        ended = service.tool("rfcp", "-q", "-r", *places)
        took = time.monotonic() - begun
        way.close()
        if not ended.succeeded:
            return failed("the copy failed", ended.evidence())
        if wrong := difference(tree, copy):
            return failed(wrong)
        if is_cut:
            again = ended.output.count("retrying")
            return passed(f"{again} losses") if again else failed("no connection was cut", ended.evidence())
        trips = took / (2 * WAY)
        said = f"{DIRECTORIES} directories of {FILES} files and a link: {took:.2f} s, {trips:.0f} round trips"
        return passed(said) if trips < DIRECTORIES else failed(said)


def short_lives(place: Place, direction: str) -> Outcome:
    """Files over a link that ends each connection after 0.1 to 2.5 MB, at any point: as long as some connections carry
    a block, they arrive. Over one that carries less, --retry ends the copy."""
    with Service(place, "tcp") as service:
        original = service.here / "original"
        original.write_bytes(noise(LONG))
        is_upload = direction == "upload"
        if not is_upload:
            (service.export / "f").write_bytes(original.read_bytes())
        cuts = "ups" if is_upload else "downs"
        figures = []
        for sessions, lives in (("1", (350_000,)), ("1", (1_500_000, 100_000, 700_000)), ("3", (500_000,))):
            way = LongWay(service.port, 0.001, **{cuts: lives})
            there = f"rfio://127.0.0.1:{way.port}/f"
            copy = service.export / "f" if is_upload else service.here / "copy"
            ended = service.tool("rfcp", "--json", "--retry", 5, "-P", sessions, *((original, there) if is_upload else (there, copy)))
            way.close()
            if not ended.succeeded or copy.read_bytes() != original.read_bytes():
                return failed(f"{lives} bytes a connection, {sessions} sessions: not the same file", ended.evidence())
            report = json.loads(ended.output.splitlines()[-1])
            figures.append(f"{report['tried_again']} losses, {report['moved_bytes'] / LONG:.1f} times the file")
            if report["tried_again"] < 2:
                return failed(f"only {figures[-1]}", ended.evidence())
            copy.unlink()
            if not is_upload:
                (service.export / "f").write_bytes(original.read_bytes())
        (service.export / "f").write_bytes(original.read_bytes())
        way = LongWay(service.port, 0.001, **{cuts: (50_000,)})
        there = f"rfio://127.0.0.1:{way.port}/f"
        begun = time.monotonic()
        ended = service.tool("rfcp", "-q", "--retry", 1, *((original, there) if is_upload else (there, service.here / "copy")))
        took = time.monotonic() - begun
        way.close()
        if ended.status != 2 or not 0.8 < took < 8:
            return failed(f"without any progress, --retry 1 takes {took:.1f} s", ended.evidence())
        return passed("; ".join(figures))


def difference(tree: Path, copy: Path) -> str:
    """Returns the part of a tree that its copy lacks."""
    for path in tree.rglob("*"):
        there = copy / path.relative_to(tree)
        if path.is_symlink():
            if not there.is_symlink() or there.readlink() != path.readlink():
                return f"{there} is not the link"
        elif path.is_dir():
            if int(there.stat().st_mtime) != int(path.stat().st_mtime):
                return f"{there} has another time"
        elif there.read_bytes() != path.read_bytes():
            return f"{there} has other bytes"
    return ""
