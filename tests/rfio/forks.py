"""A process that forks with remote files open: parent and children read their own bytes."""

from __future__ import annotations

from harness.build_tree import run
from harness.outcome import Outcome, failed, passed
from harness.place import Place

from .python_package import PYTHON, installed, lacks
from .service import Service, noise

SCRIPT = """
import os, sys, threading
import _native as library
url, reads = sys.argv[1], 100
data = open(sys.argv[2], "rb").read()
size = 200_000
shared = library.File(url, os.O_RDONLY)
assert shared.read_at(0, size) == data[:size]
assert library.examine(url).size == len(data)
# A thread that is always in the middle of a read when the others fork.
stop = threading.Event()
busy = library.File(url, os.O_RDONLY)
def work():
    while not stop.is_set():
        assert busy.read_at(0, size) == data[:size]
thread = threading.Thread(target=work)
thread.start()

def check(who):
    wrong = 0
    for number in range(reads):
        at = (number * 7 + who * 13) * 10_007 % (len(data) - size)
        wrong += shared.read_at(at, size) != data[at:at + size]
    wrong += library.examine(url).size != len(data)
    wrong += busy.read_at(who * 1000, 5000) != data[who * 1000:who * 1000 + 5000] if who else 0
    shared.close()
    return wrong

children = []
for who in (1, 2, 3):
    child = os.fork()
    if child == 0:
        try:
            code = min(check(who), 100)
        except BaseException as error:
            print("child", who, repr(error), flush=True)
            code = 101
        os._exit(code)
    children.append(child)
mine = 0
for number in range(reads):
    at = number * 10_007 % (len(data) - size)
    mine += shared.read_at(at, size) != data[at:at + size]
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
stop.set()
thread.join()
assert shared.read_at(5, 100) == data[5:105]
print("wrong:", mine, codes)
"""


def readers_after_a_fork(place: Place, fabric: str) -> Outcome:
    """Three children of one parent, which has another thread in the library, read the same descriptor at once."""
    if problem := lacks():
        return problem
    with Service(place, fabric) as service:
        file = service.export / "f"
        file.write_bytes(noise(6_000_000))
        script = place.directory / "script.py"
        script.write_text(SCRIPT)
        plain = [str(PYTHON), str(script), f"rfio://127.0.0.1:{service.port}/f", str(file)]
        ended = place.run("python", run(*plain) if fabric == "verbs" else plain, 120,
                          RFIO_FABRIC=fabric, PYTHONPATH=str(installed() / "rfio_fsspec"), **service.environment())
        ok = ended.succeeded and "wrong: 0 [0, 0, 0]" in ended.output
        return passed() if ok else failed("wrong bytes after a fork", ended.evidence())
