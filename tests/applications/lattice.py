"""Lattice QCD of this tree (`crates/bench-mpi/programs/lattice`), started directly: it verifies itself and computes the same
for any distribution of its lattice; wrong arguments are an error without a result."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

from harness import c_program
from harness.case import Case
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place

SOURCES = Path(__file__).resolve().parent.parent.parent / "crates/bench-mpi/programs/lattice"
NAME = "lattice QCD"
SECONDS = 120
# With this setting the launcher does not sleep before it kills the processes that remain after an error: there are
# none.
LAUNCHER = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "odls_base_sigkill_timeout", "0", "-n"]
UNVERIFIED, REFUSED = 1, 2
# Extents that are not alike, and of which parts are odd.
SMALL = "lattice=4x6x6x8"
# Processes in z and t.
SPLITS = ("1x1", "1x2", "2x1", "2x2", "3x2", "1x8", "2x4")
LINKS = {"rough links": ["roughness=1", "kappa=0.15"], "unit links": ["roughness=0"], "six iterations": ["iterations=6"]}

# Processes, arguments, expected message.
WRONG = (
    (1, ["lattice=4x4x4"], "lattice is four extents"),
    (1, ["lattice=4x4x4x4x4"], "lattice is four extents"),
    (1, ["lattice=4x4x4x-4"], "lattice is four extents"),
    (1, ["lattice=0x4x4x4"], "an extent of the lattice is 0"),
    (1, ["lattice=4x4x4x5"], "an extent of the lattice is 5"),
    (1, ["lattice=4x4x4x99999999999999999999"], "lattice is four extents"),
    (1, ["lattice=1024x1024x1024x1024"], "sites are too many"),
    (3, ["lattice=4x4x4x4"], "3 processes do not divide"),
    (2, ["split=2x2"], "split=2x2 is for 4 processes, and there are 2"),
    (2, ["split=0x2"], "split is how many"),
    (3, ["lattice=4x4x4x4", "split=3x1"], "does not divide"),
    (1, ["kappa=nan"], "kappa is a number"),
    (1, ["kappa=0.3"], "kappa is a number"),
    (1, ["roughness=-1"], "roughness is a number"),
    (1, ["seed=18446744073709551616"], "seed is a whole number"),
    (1, ["iterations=1e3"], "iterations is a number"),
    (1, ["tolerance=0"], "tolerance is a number"),
    (1, [""], "known are lattice"),
    (1, ["lattice\x1b[2J"], 'known are lattice'),
)


def cases() -> list[Case]:
    """Each kind of links with each distribution, then the errors."""
    found = [Case(NAME, f"{links}, dealt out {len(SPLITS)} ways", partial(alike, words)) for links, words in LINKS.items()]
    found.append(Case(NAME, "started wrongly", refused))
    found.append(Case(NAME, "what is not solved is no result", unsolved))
    found.append(Case(NAME, "MPICH", with_mpich))
    return found


def program(compiler: str = "mpicc.openmpi", *more: str) -> Path:
    """The program, compiled; a warning is a fault."""
    first, *rest = sorted(SOURCES.glob("*.c"))
    return c_program.compile_program(first, libraries=("-Werror", *more, "-lm"), compiler=compiler, more=rest)


def run(place: Place, processes: int, words: list[str]):
    """Runs the program; returns how it ended and its output by name."""
    ended = place.run("lattice", [*LAUNCHER, str(processes), str(program()), *words], SECONDS)
    told = dict(line.split("=", 1) for line in ended.output.splitlines() if line.startswith(" ") and "=" in line)
    return ended, {name.strip(): value.strip() for name, value in told.items()}


def alike(words: list[str], place: Place) -> Outcome:
    """Verified, with the same iterations, plaquette and norm."""
    seen = set()
    for split in SPLITS:
        z, t = map(int, split.split("x"))
        ended, told = run(place, z * t, [SMALL, f"split={split}", *words])
        if not ended.succeeded or told.get("Verification") != "SUCCESSFUL" or told.get("Total processes") != str(z * t):
            return failed(f"split={split}: {ended.describe()}", ended.evidence())
        seen.add(tuple(told[name] for name in ("Iterations", "Plaquette", "Solution norm")))
    return passed(", ".join(*seen)) if len(seen) == 1 else failed(f"the results are {sorted(seen)}")


def refused(place: Place) -> Outcome:
    """One error line, no result, and the exit status of an error."""
    for processes, words, expected in WRONG:
        ended, told = run(place, processes, words)
        said = [line for line in ended.output.splitlines() if line.startswith("error: ")]
        if ended.status != REFUSED or len(said) != 1 or expected not in said[0] or "\x1b" in said[0] or told:
            return failed(f"{processes} processes, {words}: {ended.describe()}, printed {said}", ended.evidence())
    return passed(f"{len(WRONG)} ways")


def unsolved(place: Place) -> Outcome:
    """Three iterations are too few; the program prints the remaining residual."""
    ended, told = run(place, 2, [SMALL, "most=3"])
    if ended.status != UNVERIFIED or told.get("Verification") != "UNSUCCESSFUL" or "what is left of the equation" not in ended.output:
        return failed(ended.describe(), ended.evidence())
    return passed()


def with_mpich(place: Place) -> Outcome:
    """Another library's compiler and headers."""
    if not shutil.which("mpicc.mpich"):
        return skipped("mpicc.mpich is not installed (libmpich-dev)")
    # Its header declares MPI_STATUSES_IGNORE so that GCC takes it for an array of length zero.
    own = program("mpicc.mpich", "-Wno-stringop-overflow")
    ended = place.run("lattice", ["mpirun.mpich", "-n", "4", str(own), SMALL], SECONDS)
    if not ended.succeeded or "Verification    = SUCCESSFUL" not in ended.output:
        return failed(ended.describe(), ended.evidence())
    return passed()
