"""`verbena bench app.*`: whole programs, third-party ones and our own, over the adapter, TCP and shared memory.
Programs that only pretend test that a program's result is compared, that counters prove the transport, and that a
program which is missing, fails its own verification or whose processes worked alone gives no result."""

from __future__ import annotations

import json
import re
import shutil
from functools import partial
from pathlib import Path

from harness import tiers
from harness.build_tree import LOGS, ROOT, VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from harness.process import Ended
from harness.requirement import Tool

from . import kernels, lattice

TITLE = "whole applications over MPI"
REQUIRES = [Tool("mpirun.openmpi", "openmpi-bin"), Tool("mpicc.openmpi", "libopenmpi-dev")]

NOTHING_MEASURED = 1
SECONDS = 600
LAMMPS, HPCC = "app.lammps-peptide", "app.hpcc"
RHODOPSIN, SORT = "app.lammps-rhodo", "app.nas-is"
# Compiled on the spot.
OWN = "app.nas-mg", "app.nas-lu", "app.nas-cg", "app.lattice-qcd"
# By night over shared memory and TCP, too.
WHOLE = tiers.by_night()
# The programs that setup/programs makes.
MADE = {RHODOPSIN: VERBENA.parent.parent / "programs/lammps-rhodo/data.rhodo", SORT: VERBENA.parent.parent / "programs/nas/is"}
# Input file of LAMMPS' examples.
PEPTIDE = Path("/usr/share/lammps/examples/peptide/data.peptide")
HEADLINES = {LAMMPS: "step-time", RHODOPSIN: "step-time", HPCC: "linpack-time", SORT: "sort-rate",
             **dict.fromkeys(OWN, "operation-rate")}
# Each of them moves more bytes than this between two processes.
MUCH = 1 << 20

# HPL with the machine's BLAS (done), and with papers/hpl's (told).
LINPACK = VERBENA.parent.parent / "programs/hpl"
ROWS = 1536

SUMMARY = """#!/bin/sh
cat > hpccoutf.txt <<END
Begin of Summary section.
Success={success}
CommWorldProcs={processes}
HPL_time=0.5
End of Summary section.
END
"""
LOG = """#!/bin/sh
energy=-41898.16
case $UCX_TLS in tcp*) energy=-41898.17 ;; esac
cat > log.lammps <<END
LAMMPS
Step Temp TotEng
       0    281.9   $energy
Loop time of 2.5 on 2 procs for 50 steps with 16032 atoms
END
"""


def cases() -> list[Case]:
    """Real ones where they are installed, then pretended ones."""
    ways = {name: ("software", "shm", "tcp") for name in (HPCC, LAMMPS, RHODOPSIN, SORT)}
    ways |= {name: ("software", "shm", "tcp") if WHOLE else ("software",) for name in OWN}
    found = [Case("measured", f"{name} on {way}", partial(measured, name, way)) for name, those in ways.items() for way in those]
    found.append(Case("communication by call", SORT, communication))
    found.append(Case("told sends what is sent", "HPL", linpack))
    summary = partial(SUMMARY.format, success=1, processes=2)
    found += [
        Case("names the package of what is missing", "", missing),
        Case("no result", "found itself wrong",
             partial(pretended, "hpcc", SUMMARY.format(success=0, processes=2), HPCC, "shm", "Success is not 1")),
        Case("no result", "each worked alone",
             partial(pretended, "hpcc", summary(processes=1), HPCC, "shm", "2 processes were started, but 1 worked together")),
        Case("no result", "another way", partial(pretended, "hpcc", summary(), HPCC, "software",
                                                 "the messages took another path: the adapter carried 0 B")),
        Case("no result", "left nothing", partial(pretended, "hpcc", "#!/bin/sh\n", HPCC, "shm", "hpccoutf.txt: No such file")),
        Case("no result", "ended badly", partial(pretended, "hpcc", "#!/bin/sh\nexit 3\n", HPCC, "shm", "mpirun ended with")),
        Case("no result", "computed another", partial(pretended, "lmp", LOG, LAMMPS, "tcp",
                                                      "its result differs from that over shared memory: \"0    281.9   -41898.17\"")),
    ]
    return found + kernels.cases() + lattice.cases()


def bench(place: Place, name: str, way: str, tools: Path | None = None):
    """One launch with two processes; programs are searched in `tools` first, or only there where the real ones must not
    be found."""
    path = "/usr/bin:/bin" if tools is None else f"{tools}:/usr/bin:/bin"
    return place.run("bench", [str(VERBENA), "bench", name, "--mpi", "openmpi", "--on", way, "--quick", "--processes", "2",
                               "--out", str(place.directory / "out")], SECONDS, PATH=path)


def records(place: Place) -> list[dict]:
    """Returns the run's records."""
    return [json.loads(line) for line in (place.directory / "out" / "results.jsonl").read_text().splitlines()]


def measured(name: str, way: str, place: Place) -> Outcome:
    """A time, and the adapter carried much of it or nothing."""
    program = {HPCC: "hpcc", LAMMPS: "lmp", RHODOPSIN: "lmp", SORT: str(MADE[SORT])}.get(name)
    if program and not shutil.which(program) or name == LAMMPS and not PEPTIDE.is_file() or name in MADE and not MADE[name].is_file():
        return skipped(f"the programs of {name} are missing")
    ended = bench(place, name, way)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    found = records(place)
    points = [one for one in found if one["record"] == "point"]
    if [one["parameters"]["processes"] for one in points] != [2]:
        return failed(f"the points are {points}", ended.evidence())
    headline = points[0]["metrics"][0]
    if headline["name"] != HEADLINES[name] or not headline["value"] > 0:
        return failed(f"the headline is {headline}", ended.evidence())
    [carried] = [one["value"] for one in found if one["record"] == "finding"]
    if (carried > MUCH) != (way == "software") or way != "software" and carried:
        return failed(f"the adapter carried {carried:.0f} bytes", ended.evidence())
    return passed(f"{headline['value']:.4g} {headline['unit']}, {carried / 1e6:.0f} MB")


def communication(place: Place) -> Outcome:
    """A further run is recorded. The sort hands all of its keys on in each of eleven iterations, four bytes each, and
    both processes give so much."""
    if not MADE[SORT].is_file():
        return skipped(f"the programs of {SORT} are missing")
    ended = place.run("bench", [str(VERBENA), "bench", SORT, "--mpi", "openmpi", "--on", "shm", "--processes", "2", "--launches", "1",
                                "--out", str(place.directory / "out")], SECONDS)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    found = {one["name"]: one for one in records(place) if one["record"] == "finding"}
    share, given = found.get("communication-share"), found.get("communication-bytes")
    if share is None or given is None:
        return failed(f"the findings are {sorted(found)}", ended.evidence())
    keys = 11 * 4 * (1 << 23)
    if not 0 < share["value"] < 100 or not keys <= given["value"] < 1.01 * keys or "MPI_Alltoallv" not in given["text"]:
        return failed(f"{share['text']}; {given['text']}", ended.evidence())
    return passed(f"{share['text']}; {given['text']}")


def linpack(place: Place) -> Outcome:
    """HPL's solution is right with our BLAS, and its ranks then send as many messages of as many bytes to each other as
    with the machine's BLAS. With declared instead of executed computing the number of messages is the same, but the
    matrix is not updated, so the pivots differ and other rows are exchanged."""
    if not (LINPACK / "told").is_file() or not (LINPACK / "done").is_file():
        return skipped(f"{LINPACK} has no HPL, or the machine has no BLAS to compare with")
    checked = linpack_run(place, "told", 16.0, ROWS + 1)
    if not checked.succeeded:
        return failed("HPL's verification fails with our BLAS", checked.evidence())
    found = []
    for program, inner in (("done", 128), ("told", ROWS + 1), ("told", 128)):
        trace, schedule = place.directory / f"trace-{len(found)}", place.directory / f"schedule-{len(found)}"
        recorded = linpack_run(place, program, -1, inner, str(VERBENA), "record", "--out", str(trace), "--")
        written = place.run("replay", [str(VERBENA), "replay", str(trace), "--on", "model:infinihost-xeon:message",
                                       "--write-goal", str(schedule)], SECONDS)
        if not recorded.succeeded or not written.succeeded:
            return failed(written.describe(), recorded.evidence() + written.evidence())
        found.append(sent(schedule))
    done, ours, told = found
    if ours != done:
        return failed(f"with our BLAS {ours} was sent, with the machine's {done}")
    if {way: messages for way, (messages, _) in told.items()} != {way: messages for way, (messages, _) in done.items()}:
        return failed(f"told {told} was sent, and done {done}")
    [all_told, all_done] = [sum(sizes for _, sizes in one.values()) for one in (told, done)]
    if abs(all_told / all_done - 1) > 0.05:
        return failed(f"{all_told} bytes were declared, and {all_done} sent")
    return passed(f"{sum(messages for messages, _ in done.values())} messages, {all_done} bytes done and {all_told} told")


def linpack_run(place: Place, program: str, threshold: float, inner: int, *before: str) -> Ended:
    """Runs HPL on four ranks. Updates of `inner` columns or more are only declared; a negative threshold disables HPL's
    check."""
    text = (ROOT / "papers/hpl/hpccinf.txt").read_text()
    for word, value in (("ROWS", ROWS), ("P", 2), ("Q", 2), ("-1", threshold)):
        text = re.sub(f"^{word} ", f"{value} ", text, flags=re.MULTILINE)
    (place.directory / "hpccinf.txt").write_text(text)
    return place.run("hpl", [*before, "mpirun.openmpi", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "-n", "4", str(LINPACK / program)],
                     SECONDS, TOLD_INNER=str(inner), XDG_CACHE_HOME=str(LOGS / "cache"), OMPI_ALLOW_RUN_AS_ROOT="1",
                     OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


def sent(schedule: Path) -> dict[tuple[int, int], tuple[int, int]]:
    """Messages and bytes from rank to rank."""
    found, rank = {}, 0
    for line in schedule.read_text().splitlines():
        if line.startswith("rank "):
            rank = int(line.split()[1])
        elif message := re.search(r"send (\d+)b to (\d+)", line):
            way = rank, int(message.group(2))
            messages, sizes = found.get(way, (0, 0))
            found[way] = messages + 1, sizes + int(message.group(1))
    return found


def missing(place: Place) -> Outcome:
    """A missing program is no failure of the adapter, but nothing is measured."""
    tools = place.directory / "tools"
    tools.mkdir()
    for tool in ("mpicc.openmpi", "mpirun.openmpi"):
        (tools / tool).symlink_to(shutil.which(tool))
    ended = place.run("bench", [str(VERBENA), "bench", HPCC, "--mpi", "openmpi", "--on", "shm", "--quick",
                                "--out", str(place.directory / "out")], SECONDS, PATH=str(tools))
    failures = [one for one in records(place) if one["record"] == "failure"]
    if ended.status != NOTHING_MEASURED or len(failures) != 1 or not failures[0]["unsupported"]:
        return failed(ended.describe(), ended.evidence())
    reason = failures[0]["reason"]
    return passed(reason) if "on Debian the package hpcc" in reason else failed(reason)


def pretended(program: str, text: str, name: str, way: str, expected: str, place: Place) -> Outcome:
    """A program of that name whose processes only write files gives no result, and the reason is printed."""
    if name == LAMMPS and not PEPTIDE.is_file():
        return skipped(f"{PEPTIDE} is not installed")
    tools = place.directory / "tools"
    tools.mkdir()
    file = tools / program
    file.write_text(text)
    file.chmod(0o755)
    ended = bench(place, name, way, tools)
    found = records(place)
    if any(one["record"] == "point" for one in found):
        return failed("a point was measured", ended.evidence())
    reasons = [one["reason"] for one in found if one["record"] == "failure"]
    if len(reasons) != 1 or expected not in reasons[0]:
        return failed(f"the reasons are {reasons}", ended.evidence())
    return passed() if ended.status == 1 else failed(ended.describe(), ended.evidence())
