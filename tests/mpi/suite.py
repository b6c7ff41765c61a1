"""Open MPI and MPICH, both over UCX, with shared memory and every other transport turned off; the adapter's counters
prove that the bytes went through it. And `verbena bench mpi.*`, which measures them."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from harness import c_program, counters
from harness.build_tree import run
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.place import Place
from harness.requirement import COMPILER, Tool

from . import measured

TITLE = "MPI over UCX over verbs"
REQUIRES = [
    COMPILER,
    Tool("mpirun.openmpi", "openmpi-bin"), Tool("mpicc.openmpi", "libopenmpi-dev"),
    Tool("NPopenmpi", "netpipe-openmpi"),
    Tool("mpirun.mpich", "mpich"), Tool("mpicc.mpich", "libmpich-dev"),
]

HERE = Path(__file__).resolve().parent
SECONDS = 900
# NetPIPE's largest message.
LARGEST = 1 << 20
VERIFIED = re.compile(r"(\d+) ranks verified (\d+) bytes")
ENVIRONMENT = {
    "UCX_TLS": "rc_verbs,ud_verbs:aux",
    "UCX_WARN_UNUSED_ENV_VARS": "n",
    # A test machine may be a container in which all processes are root, with two cores.
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    # MPICH would use its own shared memory between processes of one host.
    "MPIR_CVAR_NOLOCAL": "1",
}
OPENMPI = ["mpirun.openmpi", "--mca", "pml", "ucx", "--mca", "opal_common_ucx_devices", "any",
           "--mca", "opal_common_ucx_tls", "any", "--mca", "btl", "^openib,vader,tcp",
           "--mca", "osc", "ucx", "--oversubscribe"]
MPICH = ["mpirun.mpich"]


def cases() -> list[Case]:
    """NetPIPE, then the verifying program with both libraries, with and without more ranks than
    cores."""
    found = [Case("NetPIPE", "Open MPI, 2 ranks", netpipe)]
    for library, launcher, compiler in (("Open MPI", OPENMPI, "mpicc.openmpi"),
                                        ("MPICH", MPICH, "mpicc.mpich")):
        for ranks in (2, 4):
            found.append(Case("verified", f"{library}, {ranks} ranks",
                              partial(verified, launcher, compiler, ranks)))
    for library in ("openmpi", "mpich"):
        found.append(Case("measured on the adapter", library, partial(measured.on_the_adapter, library)))
        found.append(Case("measured as hardware", library, partial(measured.as_hardware, library)))
    found += [
        Case("measured over TCP", "openmpi", partial(measured.without_the_adapter, "openmpi", "tcp")),
        Case("measured in shared memory", "mpich", partial(measured.without_the_adapter, "mpich", "shm")),
        Case("measured without a compiler", "", measured.no_compiler),
        Case("measured with another library's compiler", "", measured.other_library),
        Case("measured with a compiler that fails", "", measured.does_not_compile),
        Case("a measured process is killed", "openmpi", measured.dies),
    ]
    return found


def netpipe(place: Place) -> Outcome:
    """NetPIPE goes up to its largest message."""
    command = [*OPENMPI, "-n", "2", "NPopenmpi", "-u", str(LARGEST), "-n", "20"]
    ended = place.run("netpipe", run(*command), SECONDS, **ENVIRONMENT)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    sizes = [int(match) for match in re.findall(r"^ *\d+: +(\d+) bytes", ended.output, re.MULTILINE)]
    if not sizes or max(sizes) < LARGEST:
        return failed(f"NetPIPE stopped at {max(sizes, default=0)} bytes", ended.evidence())
    return through_the_adapter(place, LARGEST)


def verified(launcher: list[str], compiler: str, ranks: int, place: Place) -> Outcome:
    """Our program verifies all it is sent, and that much went through the adapter."""
    try:
        program = c_program.compile_program(HERE / "verified.c", libraries=(), compiler=compiler)
    except c_program.DoesNotCompile as error:
        return failed("does not compile", str(error))
    ended = place.run("verified", run(*launcher, "-n", ranks, program), SECONDS, **ENVIRONMENT)
    match = VERIFIED.search(ended.output)
    if not ended.succeeded or match is None or int(match.group(1)) != ranks:
        return failed(ended.describe(), ended.evidence())
    return through_the_adapter(place, int(match.group(2)))


def through_the_adapter(place: Place, at_least: int) -> Outcome:
    """The paths to peers have carried at least that many bytes."""
    counted = counters.total(place)
    carried = sum(value for name, value in counted.items() if name.endswith("_path_bytes"))
    words = f"{carried} bytes through the adapter"
    if carried < at_least:
        return failed(f"only {words}, expected {at_least} or more")
    return passed(words)
