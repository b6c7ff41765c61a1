"""Jobs of MPI launchers, on one host."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path

from harness.build_tree import VERBENA
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from harness.process import descendants

from .records import POINT, points_of, records, said, shape

SECONDS = 900
BY_OPEN_MPI = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"]


def mpi(launcher: list[str], place: Place) -> Outcome:
    """A job that an MPI launcher started gives the same records as the local launcher."""
    if shutil.which(launcher[0]) is None:
        return skipped(f"{launcher[0]} is not installed")
    command = [str(VERBENA), "bench", "multi-pair.write-latency", "--quick", "--sizes", "8",
               "--mode", "free", "--pairs", "1,2", "--out"]
    local, job = place.directory / "local", place.directory / "job"
    alone = place.run("local", [*command, str(local)], SECONDS)
    ended = place.run("job", [*launcher, "-n", "4", *command, str(job)], SECONDS, TERM="xterm")
    for one in (alone, ended):
        if not one.succeeded:
            return failed(f"{one.describe()}, expected exit 0", one.evidence())
    if "\x1b" in ended.output:
        # Open MPI gives its processes a terminal, which is not the user's.
        return failed("a file has colour codes", ended.evidence())
    if list(map(shape, points_of(local))) != list(map(shape, points_of(job))):
        return failed("the records have other fields than the local launcher's", ended.evidence())
    parameters = [point["parameters"] for point in points_of(local)]
    if parameters != [point["parameters"] for point in points_of(job)]:
        return failed("the points have other parameters than the local launcher's", ended.evidence())
    return passed()


OPEN_MPI = [*BY_OPEN_MPI, "-n", "2"]


def too_small(place: Place) -> Outcome:
    """A benchmark that needs more processes than there are is reported as such, and is no failure."""
    out = place.directory / "out"
    ended = place.run("mpirun", [*OPEN_MPI, str(VERBENA), "bench", "latency.write", "patterns.ring", "patterns.halo",
                                 "--quick", "--sizes", "8", "--launches", "2", "--out", str(out)], SECONDS)
    if not ended.succeeded:
        return failed(f"{ended.describe()}, expected exit 0", ended.evidence())
    told = [(one["benchmark"], one["unsupported"], one["reason"].split(":")[0]) for one in records(out)
            if one["record"] == "failure"]
    expected = [(name, True, "not applicable") for name in ("patterns.ring", "patterns.halo")]
    return passed() if sorted(told) == sorted(expected) else failed(f"it says {told}")


def timely(place: Place) -> Outcome:
    """`--minutes` holds for a job as it does without one, and the last line says how many launches fitted: fewer than
    the thousand."""
    out = place.directory / "out"
    ended = place.run("mpirun", [*OPEN_MPI, str(VERBENA), "bench", "latency.write", "--quick", "--sizes", "8,64",
                                 "--launches", "1000", "--minutes", "0.2", "--out", str(out)], SECONDS)
    if not ended.succeeded:
        return failed(f"{ended.describe()}, expected exit 0", ended.evidence())
    end = records(out)[-1]
    # One launch more or less, and the time to begin and to end, depend on the machine.
    if end["seconds"] > 60 or not re.fullmatch(r"[1-9]\d* of 1000 launches fit into the time limit", end["reason"] or ""):
        return failed(f"it ended after {ended.seconds:.0f} s and says {end}")
    return passed(end["reason"])


def strangers(place: Place) -> Outcome:
    """While a process is still to come, others connect to the exchange: they learn nothing and delay no process."""
    gate = place.directory / "strangers-are-here"
    late = f'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then until [ -e "{gate}" ]; do sleep 0.02; done; fi; exec "$@"'
    job = place.start("mpirun", [*OPEN_MPI, "sh", "-c", late, "sh", str(VERBENA), "bench", "latency.write", "--quick",
                                 "--sizes", "8"])
    note = awaited(place.runtime, "exchange-*", SECONDS)
    if not note:
        return failed("process 0 does not print its address", job.output())
    mode = note.stat().st_mode & 0o777
    address = note.read_text().rpartition(";")[2]
    host, _, port = address.rpartition(":")
    callers = []
    for turn in range(300):
        caller = socket.create_connection((host, int(port)), timeout=10)
        # Silent, a little, a rank without a proof, far too much.
        callers.append(caller)
        with suppress(ConnectionError):
            caller.sendall([b"", b"\x01", (1).to_bytes(4, "little") + bytes(64), bytes(1 << 14)][turn % 4])
    gate.touch()
    ended = job.finish(time.monotonic() + SECONDS)
    for caller in callers:
        caller.close()
    if mode != 0o600:
        return failed(f"the job's secret lies in a file of mode {mode:o}")
    if not ended.succeeded:
        return failed(f"{ended.describe()}, expected exit 0", ended.evidence())
    return passed(f"{len(callers)} strangers")


def hung(place: Place) -> Outcome:
    """A process of a job that is stopped costs only the benchmark at which it was; the others go on, and when it is
    continued it ends without a failure of theirs."""
    out = place.directory / "out"
    job = place.start("mpirun", [*BY_OPEN_MPI, "-n", "4", str(VERBENA), "bench",
                                 "multi-pair.write-latency", "latency.write", "patterns.halo", "latency.read", "--launches", "1",
                                 "--pairs", "2", "--mode", "free", "--sizes", "8,64,512,4096", "--out", str(out)])
    deadline = time.monotonic() + SECONDS
    said(out, POINT, job, deadline)
    last = of_rank(job.pid, 3)
    os.kill(last, signal.SIGSTOP)
    # While it hangs, the next benchmark has points.
    said(out, '"benchmark":"latency.write"', job, deadline)
    os.kill(last, signal.SIGCONT)
    ended = job.finish(deadline)
    if ended.status != 1:
        return failed(f"{ended.describe()}, expected exit 1", ended.evidence())
    if "process 3: the others went on" not in ended.output:
        return failed("the continued process does not report the reason", ended.evidence())
    found = records(out)
    failures = {one["benchmark"]: one["reason"] for one in found if one["record"] == "failure"}
    if "process 3" not in failures.get("multi-pair.write-latency", ""):
        return failed(f"the failures are {failures}", ended.evidence())
    if "the job has 3" not in failures.get("patterns.halo", ""):
        return failed(f"a benchmark of four processes fails as {failures.get('patterns.halo')}", ended.evidence())
    measured = {one["benchmark"] for one in found if one["record"] == "point"}
    if not {"latency.write", "latency.read"} <= measured or found[-1].get("outcome") != "complete":
        return failed(f"measured were {sorted(measured)}, and it ended as {found[-1]}", ended.evidence())
    return passed(f"{ended.seconds:.0f} s")


def hung_first(place: Place) -> Outcome:
    """Process 0 keeps the exchange and the results: if it hangs, the others end with a message; the results so far can
    be read."""
    out = place.directory / "out"
    job = place.start("mpirun", [*BY_OPEN_MPI, "-n", "3", str(VERBENA), "bench",
                                 "latency.write", "--sizes", "8,64,512,4096", "--launches", "100", "--out", str(out)])
    deadline = time.monotonic() + SECONDS
    said(out, POINT, job, deadline)
    os.kill(of_rank(job.pid, 0), signal.SIGSTOP)
    # The hung process is not continued: mpirun ends all when one of them has failed.
    ended = job.finish(deadline)
    if ended.status in (0, None):
        return failed(f"{ended.describe()}, expected a failure", ended.evidence())
    if "process 0, which holds the results, did not answer for 30 s" not in ended.output:
        return failed("no process reports that process 0 hangs", ended.evidence())
    read = place.run("report", [str(VERBENA), "report", str(out), "--out", str(place.directory / "report.html")], SECONDS)
    if not read.succeeded:
        return failed(read.describe(), read.evidence())
    # The last process was killed, with none left to clean up after it: the next one does.
    seen = place.run("info", [str(VERBENA), "info"], SECONDS)
    return passed(f"{ended.seconds:.0f} s") if seen.succeeded else failed(seen.describe(), seen.evidence())


def of_rank(job: int, wanted: int) -> int:
    """The process of a job that has a rank."""
    [process] = [pid for pid in descendants(job) if rank(pid) == str(wanted)]
    return process


def rank(pid: int) -> str | None:
    """A process's rank, as Open MPI tells it."""
    with suppress(OSError):
        if found := re.search(rb"\0OMPI_COMM_WORLD_RANK=(\d+)\0", Path(f"/proc/{pid}/environ").read_bytes()):
            return found[1].decode()
    return None


def awaited(directory: Path, name: str, seconds: float) -> Path | None:
    """The first file of such a name, once there is one."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := sorted(directory.glob(name)):
            return found[0]
        time.sleep(0.01)
    return None
