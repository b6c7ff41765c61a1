"""One-way times of messages of Open MPI and MPICH over the adapter and over the library's own shared memory, alternately."""

from __future__ import annotations

import re
import statistics
import sys
from pathlib import Path

from harness import c_program
from harness.build_tree import VERBENA
from harness.place import Place

HERE = Path(__file__).resolve().parent
SECONDS = 300
ROUNDS = 5
SIZES = (8, 65536, 262144, 1 << 20, 4 << 20)
LIBRARIES = ("openmpi", "mpich")
REFERENCE = re.compile(r"^reference ([\d.]+)", re.MULTILINE)

# As the suite's (crates/bench-mpi/src/transport.rs).
OPENMPI = ["--oversubscribe", "--bind-to", "none", "--mca", "oob_tcp_if_include", "lo"]
OWN = ["--mca", "pml", "ob1", "--mca", "btl", "self,vader", "--mca", "osc", "^ucx"]
UCX = ["--mca", "pml", "ucx", "--mca", "osc", "ucx", "--mca", "opal_common_ucx_devices", "any", "--mca",
       "opal_common_ucx_tls", "any", "--mca", "btl", "^openib,vader,tcp"]


def command(library: str, is_own: bool) -> tuple[list[str], dict[str, str]]:
    """Returns the launcher's words and variables for one of the two transports."""
    variables = {"UCX_WARN_UNUSED_ENV_VARS": "n", "UCX_TLS": "posix,self" if is_own else "rc_verbs,ud_verbs:aux"}
    if library == "openmpi":
        arguments = [*OPENMPI, *(OWN if is_own else UCX)]
        variables.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    else:
        arguments = ["-iface", "lo"]
        variables["MPIR_CVAR_NOLOCAL"] = "0" if is_own else "1"
    launcher = [f"mpirun.{library}", *arguments, "-n", "2"]
    return (launcher if is_own else [str(VERBENA), "run", "--", *launcher]), variables


def figures(libraries: tuple[str, ...] = LIBRARIES) -> dict[str, float]:
    """Returns medians in nanoseconds, of both transports; none of a library that could not be measured."""
    found: dict[str, float] = {}
    for library in libraries:
        try:
            program = c_program.compile_program(HERE.parent / "library" / "reference.c", libraries=(),
                                                compiler=f"mpicc.{library}")
        except (OSError, c_program.DoesNotCompile) as error:
            print(f"messages of {library}: {error}", file=sys.stderr)
            continue
        found.update(medians(library, program))
    return found


def medians(library: str, program: Path) -> dict[str, float]:
    """Returns the figures of one library."""
    place = Place("bench", f"mpi {library}")
    times: dict[str, list[float]] = {}
    try:
        for _ in range(ROUNDS):
            for is_own in (True, False):
                words, variables = command(library, is_own)
                words += [str(program), "latency", *map(str, SIZES)]
                ended = place.run("messages", words, SECONDS, **variables)
                microseconds = REFERENCE.findall(ended.output)
                if not ended.succeeded or len(microseconds) != len(SIZES):
                    print(f"messages of {library}: {ended.describe()}\n{ended.evidence()}", file=sys.stderr)
                    return {}
                for size, one in zip(SIZES, microseconds):
                    times.setdefault(f"{library}_{'own_' * is_own}{size}_ns", []).append(float(one) * 1000)
    finally:
        place.close()
    return {name: statistics.median(all_) for name, all_ in times.items()}
