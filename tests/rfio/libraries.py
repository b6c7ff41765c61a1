"""The C library: acceptance 5."""

from __future__ import annotations

import os
import subprocess
from array import array
from pathlib import Path
from typing import Optional

from harness.build_tree import ROOT, run
from harness.outcome import Outcome, failed, passed
from harness.place import Place

from .service import TOOLS, Service, noise

HEADER = ROOT / "crates" / "librfio" / "include"
LIBRARIES = TOOLS / "lib"


def compiled(place: Place, library: str, source: str) -> tuple[Path, Optional[Outcome]]:
    """A C program, linked with either name of the library; or why there is none."""
    program = place.directory / source
    made = subprocess.run(
        [os.environ.get("CC", "cc"), "-Wall", "-Wextra", "-Werror", "-O1", f"-I{HEADER}",
         str(ROOT / f"tests/rfio/{source}.c"), "-o", program, f"-L{LIBRARIES}", f"-l{library}", "-lpthread",
         f"-Wl,-rpath,{LIBRARIES}"], capture_output=True, text=True, check=False)
    return program, failed("does not compile and link", made.stderr) if made.returncode else None


def c_program(place: Place, fabric: str, library: str, source: str = "trfio") -> Outcome:
    """A C program with TRFIOFile's symbols, or another one."""
    program, problem = compiled(place, library, source)
    if problem:
        return problem
    with Service(place, fabric) as service:
        original = service.export / "f"
        original.write_bytes(noise(20 << 20))
        plain = [str(program), f"rfio://127.0.0.1:{service.port}", str(original)]
        ended = place.run(source, plain if fabric == "tcp" else run(*plain), 60, service.path,
                          RFIO_FABRIC=service.fabric, **service.environment())
        if not (ended.succeeded and "all of it" in ended.output):
            return failed("the program failed", ended.evidence())
        carried = [service.metric(f"rfio_fabric_{way}_bytes_total") for way in ("sent", "received")]
        if source == "requests" and (min(carried) > 0) != (fabric != "tcp"):
            return failed(f"over {fabric}, {carried} bytes were sent and received by RDMA")
        return passed()


def many_files(place: Place, fabric: str) -> Outcome:
    """640 files open at a time by the classic calls, by a user with at most 24 sessions; a new connection is rare."""
    program, problem = compiled(place, "rfio", "many_files")
    if problem:
        return problem
    with Service(place, fabric, "--sessions-per-user", "24") as service:
        words = 32 << 10
        for number in range(64):
            (service.export / str(number)).write_bytes(array("Q", range(number * words, (number + 1) * words)).tobytes())
        plain = [str(program), f"rfio://127.0.0.1:{service.port}"]
        ended = place.run("many-files", plain if fabric == "tcp" else run(*plain), 120, service.path,
                          RFIO_FABRIC=service.fabric, **service.environment())
        if not (ended.succeeded and "all of it" in ended.output):
            return failed("the program failed", ended.evidence())
        connections = service.metric("rfio_connections_total")
        said = f"{connections} connections for some 1,200 files"
        return passed(said) if connections <= 40 else failed(said)


def symbols(place: Place) -> Outcome:
    """No function of the library runs commands, and only RFIO's names are exported."""
    listed = subprocess.run(["nm", "-D", "--defined-only", LIBRARIES / "librfio.so.2"],
                            capture_output=True, text=True, check=True).stdout
    names = {line.split()[2].split("@")[0] for line in listed.splitlines() if len(line.split()) == 3}
    foreign = {name for name in names if not name.startswith(("rfio", "C__", "Cthread", "RFIO_2"))}
    if foreign or "rfio_popen" in names:
        return failed(f"exports {sorted(foreign) or 'rfio_popen'}")
    return passed(f"{len(names)} symbols")
