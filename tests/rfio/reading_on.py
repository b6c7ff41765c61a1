"""Programs that read ahead by the C library while their server goes away and comes back."""

from __future__ import annotations

import os
import time
from pathlib import Path

from harness.build_tree import run
from harness.outcome import Outcome, failed, passed
from harness.place import Place
from harness.process import Ended, Process

from .libraries import LIBRARIES
from .operations import wait_for
from .python_package import PYTHON
from .service import SECONDS, Service, noise

#: More than is read ahead at once (16 MiB), so that there is something left to ask for.
SIZE = 24 << 20
# Reads a third, waits for "go", and reads the rest. Errors are numbers.
SCRIPT = """
import ctypes, os, sys, time
rfio = ctypes.CDLL(os.environ["RFIO_LIBRARY"])
rfio.rfio_read64.restype, rfio.rfio_read64.argtypes = ctypes.c_ssize_t, [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
rfio.rfio_serror.restype = ctypes.c_char_p
url, original, go, option, flags = sys.argv[1:]
data = open(original, "rb").read()
assert rfio.rfiosetopt(1, ctypes.byref(ctypes.c_int(int(option))), 4) == 0
file = rfio.rfio_open64(url.encode(), int(flags), 0)
assert file >= 0, rfio.rfio_serror()
part, at = ctypes.create_string_buffer(100_000), 0
while at < len(data):
    size = rfio.rfio_read64(file, part, len(part))
    if size < 0:
        print("failed:", rfio.rfio_serror().decode(), flush=True)
        sys.exit(3)
    assert size > 0 and part.raw[:size] == data[at:at + size], (at, size)
    at += size
    if at - size < len(data) // 3 <= at:
        print("a third", flush=True)
        while not os.path.exists(go):
            time.sleep(0.005)
assert rfio.rfio_read64(file, part, 1) == 0
assert rfio.rfio_close(file) == 0
print("all of it", flush=True)
"""


class Reader:
    """A program that has read a third of a file."""

    def __init__(self, service: Service, option: int, flags: int = os.O_RDONLY, **more: str):
        self.go = service.directory / "go"
        self.go.unlink(missing_ok=True)
        script = service.place.directory / "script.py"
        script.write_text(SCRIPT)
        plain = [str(PYTHON), str(script), f"rfio://127.0.0.1:{service.port}/f", str(service.here / "f"), str(self.go), str(option), str(flags)]
        self.process: Process = service.place.start(
            "python", run(*plain) if service.fabric == "verbs" else plain, service.path,
            **{**service.environment(), "RFIO_FABRIC": "auto", "RFIO_LIBRARY": str(LIBRARIES / "librfio.so.2"), **more})
        wait_for(lambda: not self.process.running or "a third" in self.process.output(), SECONDS)

    def rest(self) -> Ended:
        """Lets the program go on; returns its end."""
        self.go.touch()
        return self.process.finish(time.monotonic() + SECONDS)


def grow(at: Path, seed: int = 1) -> None:
    """The file."""
    at.write_bytes(noise(SIZE, seed))


def over_restarts(place: Place, fabric: str) -> Outcome:
    """READAHEAD and STREAM go on at their position over a server that is killed and restarted meanwhile or later; each
    byte is the file's."""
    with Service(place, fabric) as service:
        grow(service.export / "f")
        grow(service.here / "f")
        for option in (2, 16):
            reader = Reader(service, option)
            service.kill()
            if option == 2:
                service.start()
                ended = reader.rest()
            else:
                reader.go.touch()
                time.sleep(0.5)
                service.start()
                ended = reader.rest()
            if not ended.succeeded or "all of it" not in ended.output:
                return failed(f"option {option} does not go on", ended.evidence())
        return passed()


def in_vain(place: Place) -> Outcome:
    """Reads that do not go on: other options, files that are open for writing, RFIO_RETRY=0, another file under the
    name; and the time is limited."""
    with Service(place, "tcp") as service:
        grow(service.export / "f")
        grow(service.here / "f")
        for what, option, flags, more, words, least, most in (
                ("READBUF", 1, os.O_RDONLY, {}, "", 0, 2), ("a file open for writing", 2, os.O_RDWR, {}, "", 0, 2),
                ("RFIO_RETRY=0", 2, os.O_RDONLY, {"RFIO_RETRY": "0"}, "", 0, 2),
                ("RFIO_RETRY=1", 2, os.O_RDONLY, {"RFIO_RETRY": "1"}, "refused", 0.8, 5)):
            reader = Reader(service, option, flags, **more)
            service.kill()
            begun = time.monotonic()
            ended = reader.rest()
            took = time.monotonic() - begun
            service.start()
            if ended.status != 3 or words not in ended.output or not least < took < most:
                return failed(f"{what}: {took:.1f} s", ended.evidence())
        reader = Reader(service, 2)
        service.kill()
        (service.export / "f").rename(service.export / "g")
        grow(service.export / "f", 2)
        service.start()
        ended = reader.rest()
        if ended.status != 3 or "Stale file handle" not in ended.output:
            return failed("another file under the name is read", ended.evidence())
        reader = Reader(service, 2, RFIO_RETRY="soon")
        ended = reader.rest()
        if ended.succeeded or "Invalid argument" not in ended.output:
            return failed("a bad RFIO_RETRY", ended.evidence())
        return passed()
