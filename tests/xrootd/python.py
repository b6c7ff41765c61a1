"""XRootD's Python (package python3-xrootd): files that are written and read in parts, vectors, a listing."""

from __future__ import annotations

import subprocess

from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from rfio.service import Service, noise

from .programs import program

INTERPRETER = "/usr/bin/python3"
SCRIPT = """
import sys, threading
from XRootD import client
from XRootD.client.flags import DirListFlags, OpenFlags
base, original = sys.argv[1], open(sys.argv[2], "rb").read()

def good(answer):
    status, response = answer
    assert status.ok, status.message
    return response

with client.File() as file:
    good(file.open(base + "//d/f", OpenFlags.NEW | OpenFlags.MAKEPATH))
    for at in range(0, len(original), 100_003):
        good(file.write(original[at:at + 100_003], at))
    good(file.sync())
    assert good(file.stat()).size == len(original)
with client.File() as file:
    good(file.open(base + "//d/f", OpenFlags.UPDATE))
    assert good(file.read()) == original
    assert good(file.read(77, 1000)) == original[77:1077]
    assert good(file.read(len(original) - 10, 100)) == original[-10:]
    ranges = [(offset, 1 + offset % 5000) for offset in range(0, len(original) - 6000, 70_001)]
    vector = good(file.vector_read(ranges))
    assert [chunk.buffer for chunk in vector.chunks] == [original[at:at + size] for at, size in ranges]
    status, _ = file.vector_read([(len(original) - 5, 10)])
    assert not status.ok and "beyond the end" in status.message, status
    # Many requests on their way at once, answered from another thread.
    found, left = {}, threading.Semaphore(0)
    def came(at):
        def handler(status, response, hosts):
            found[at] = response if status.ok else None
            left.release()
        return handler
    places = range(0, len(original), 50_000)
    for at in places:
        assert file.read(at, 50_000, callback=came(at)).ok
    for _ in places:
        assert left.acquire(timeout=60)
    assert all(found[at] == original[at:at + 50_000] for at in places)
    good(file.truncate(10))
    assert good(file.read()) == original[:10]
server = client.FileSystem(base)
entries = good(server.dirlist("/d", DirListFlags.STAT))
assert [(entry.name, entry.statinfo.size) for entry in entries] == [("f", 10)]
status, _ = client.File().open(base + "//nothing")
assert not status.ok and "No such file" in status.message, status
print("did it all")
"""


def everything(place: Place, fabric: str) -> Outcome:
    """A script that verifies its data."""
    if subprocess.run([INTERPRETER, "-c", "import XRootD"], capture_output=True, check=False).returncode:
        return skipped("needs the package python3-xrootd")
    with Service(place, fabric) as service:
        script, original = place.directory / "script.py", service.here / "original"
        script.write_text(SCRIPT)
        original.write_bytes(noise(3_000_001))
        ended = program(service, INTERPRETER, script, f"root://127.0.0.1:{service.port}", original)
        good = ended.succeeded and "did it all" in ended.output
        return passed() if good else failed("the script failed", ended.evidence())
