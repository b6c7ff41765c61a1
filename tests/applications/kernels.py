"""NAS' MG, LU and CG of this tree (`crates/bench-mpi/programs/nas`), started directly: any allowed number of processes
computes the published values, and wrong arguments are an error without a result."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from harness import c_program
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.place import Place

SOURCES = Path(__file__).resolve().parent.parent.parent / "crates/bench-mpi/programs/nas"
KERNELS = ("mg", "lu", "cg")
SECONDS = 120
# With this setting the launcher does not sleep before it kills the processes that remain after an error: there are
# none.
LAUNCHER = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "odls_base_sigkill_timeout", "0", "-n"]
# The programs' last line.
VERIFIED, NOT_PERFORMED = "SUCCESSFUL", "NOT PERFORMED"
REFUSED = 2

# Processes, arguments, expected message. A launcher whose processes end with an error takes two seconds, and all
# kernels parse their arguments alike.
WRONG = (
    (1, ["X"], 'the class is one of SWA, not "X"'),
    (2, [""], 'the class is one of SWA, not ""'),
    (1, ["AA"], 'not "AA"'),
    (3, ["S"], "there are 3 processes, and their number must be a power of two"),
    (1, ["S", "0"], '"0" is no number of iterations'),
    (1, ["S", "-1"], '"-1" is no number of iterations'),
    (1, ["S", "2x"], '"2x" is no number of iterations'),
    (1, ["S", "99999999999999999999"], "is no number of iterations"),
    (1, ["S", "400"], "iterations, not 400"),
    (1, ["S", "1", "1"], "more words"),
)
OF_LU = ((32, ["S"], "32 processes are too many for 12 points"), (1, ["S", "51"], "50 iterations, not 51"))
OF_CG = ((6, ["S"], "there are 6 processes"), (1, ["S", "16"], "15 iterations, not 16"))


def cases() -> list[Case]:
    """Each kernel."""
    found = []
    for kernel in KERNELS:
        found += [Case(f"NAS {kernel.upper()}", f"class S, {processes} processes", partial(verified, kernel, processes))
                  for processes in (1, 2, 4, 8)]
        found.append(Case(f"NAS {kernel.upper()}", "fewer iterations are not judged", partial(shortened, kernel)))
    found.append(Case("NAS MG", "started wrongly", partial(refused, "mg", WRONG)))
    # A grid with more processes along an axis than the coarsest grid has points.
    found.append(Case("NAS MG", "class S, 16 processes", partial(verified, "mg", 16)))
    found.append(Case("NAS CG", "class S, 16 processes", partial(verified, "cg", 16)))
    found.append(Case("NAS LU", "started wrongly", partial(refused, "lu", OF_LU)))
    found.append(Case("NAS CG", "started wrongly", partial(refused, "cg", OF_CG)))
    return found


def program(kernel: str) -> Path:
    """The kernel, compiled; a warning is a fault."""
    common = [SOURCES / name for name in ("run.c", "random.c")]
    first, *rest = sorted(SOURCES.glob(f"{kernel}*.c"))
    return c_program.compile_program(first, libraries=("-Werror", "-lm"), compiler="mpicc.openmpi", more=[*rest, *common])


def verification(output: str) -> str:
    """Returns the program's verification line."""
    lines = [line.split("=")[1].strip() for line in output.splitlines() if line.strip().startswith("Verification")]
    return lines[0] if len(lines) == 1 else f"nothing, in {len(lines)} lines"


def verified(kernel: str, processes: int, place: Place) -> Outcome:
    """The result is the published one for any number of processes."""
    ended = place.run(kernel, [*LAUNCHER, str(processes), str(program(kernel)), "S"], SECONDS)
    found = verification(ended.output)
    if not ended.succeeded or found != VERIFIED:
        return failed(f"{ended.describe()}; verification {found}", ended.evidence())
    return passed()


def shortened(kernel: str, place: Place) -> Outcome:
    """As for a recording: no result that could be wrong."""
    ended = place.run(kernel, [*LAUNCHER, "2", str(program(kernel)), "S", "2"], SECONDS)
    found = verification(ended.output)
    if not ended.succeeded or found != NOT_PERFORMED:
        return failed(f"{ended.describe()}; verification {found}", ended.evidence())
    return passed()


def is_refused(kernel: str, processes: int, words: list[str], expected: str, place: Place) -> str:
    """Returns a description of how the refusal is wrong, or "" if it is right."""
    ended = place.run(kernel, [*LAUNCHER, str(processes), str(program(kernel)), *words], SECONDS)
    said = [line for line in ended.output.splitlines() if line.startswith("error: ")]
    if ended.status != REFUSED or len(said) != 1 or expected not in said[0] or "Verification" in ended.output:
        return f"{processes} processes, {words}: {ended.describe()}, printed {said}"
    return ""


def refused(kernel: str, ways: tuple, place: Place) -> Outcome:
    """One error line, no result, and the exit status of an error."""
    faults = [fault for wrong in ways if (fault := is_refused(kernel, *wrong, place))]
    return failed("; ".join(faults)) if faults else passed(f"{len(ways)} ways")
