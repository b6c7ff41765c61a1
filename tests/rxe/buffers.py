"""dma-bufs, which the machine's own kernel may not have: the tests of `tests/memory/dmabuf.c` on the adapter in the
guest."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from harness import c_program
from harness.build_tree import LIBRARIES, PATHS, VERBENA
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from roce.hosts import NoNamespaces, SetupFailed

from . import initramfs
from .guest import Guest

SOURCE = Path(__file__).resolve().parent.parent / "memory" / "dmabuf.c"
SECONDS = 600
# The sources of the buffers: udmabuf makes them of a memfd, vgem is a graphics device without hardware.
KINDS = ("udmabuf", "vgem")
TOLD = re.compile(r"^result (\w+) (\w+) (\d+)$", re.MULTILINE)


def registered(kind: str, place: Place) -> Outcome:
    """Every test on every path, with buffers of this kind."""
    if initramfs.kernel() is None:
        return skipped("no kernel for the guest; setup/guest unpacks one")
    program = c_program.compile_program(SOURCE, ("-libverbs", "-rdynamic"))
    names = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    files = {"verbena/dmabuf": program, "verbena/verbena": VERBENA}
    files |= {f"verbena/lib/{file.name}": file for file in LIBRARIES.glob("lib*.so*") if file.name.startswith(
        ("libibverbs.", "libverbena_shim."))}
    try:
        with Guest(place, files) as guest:
            command = (f"export VERBENA_TEST_DMABUF={kind} HOME=/tmp; for path in {' '.join(PATHS)}; do "
                       f"for name in {' '.join(names)}; do VERBENA_PATH=$path timeout 120 "
                       "/verbena/verbena run -- /verbena/dmabuf $name; status=$?; echo; "
                       "echo result $path $name $status; done; done")
            ended = guest.run("test", command, SECONDS)
    except NoNamespaces as words:
        return skipped(str(words))
    except SetupFailed as words:
        return failed("the guest could not be started", str(words))
    results = TOLD.findall(ended.output)
    skips = [name for _, name, status in results if int(status) == c_program.EXIT_SKIPPED]
    wrong = [f"{path} {name}" for path, name, status in results if int(status) not in (0, c_program.EXIT_SKIPPED)]
    if wrong or len(results) != len(names) * len(PATHS):
        return failed(f"fails: {', '.join(wrong) or 'the guest itself'}", ended.evidence())
    if skips:
        return skipped(f"the guest's kernel has no {kind}")
    return passed(f"{len(results)} tests with buffers of {kind}")
