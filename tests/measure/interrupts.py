"""SIGINT and SIGTERM to every measuring command: it stops, keeps its results, says where, and leaves no process
behind."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

from harness.build_tree import VERBENA
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from harness.process import Ended, Process, children, members

from .records import POINT, points_of, records, said

INTERRUPTED = 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM
# Longer than any machine needs; the case prints the actual time.
CAP = 30


def stopped(process: Process, number: signal.Signals) -> tuple[Ended, float, list[int]]:
    """Sends a signal to one process; returns how it ended, after how many seconds, and the remaining processes of its
    session."""
    sent = time.monotonic()
    os.kill(process.pid, number)
    while process.running and time.monotonic() < sent + CAP:
        time.sleep(0.01)
    seconds = time.monotonic() - sent
    # Killed processes end shortly after the signal.
    while (left := members(process.pid)) and time.monotonic() < sent + CAP:
        time.sleep(0.01)
    return process.finish(time.monotonic() + 1), seconds, left


def wrong(ended: Ended, left: list[int], status: int, word: str) -> Outcome | None:
    """Returns the failure if a run ended wrongly."""
    if ended.status != status:
        return failed(f"{ended.describe()}, expected exit {status}", ended.evidence())
    if left:
        return failed(f"{left} are still running", ended.evidence())
    told = [line for line in ended.output.splitlines() if line.startswith(f"verbena: {word}: ")]
    if len(told) != 1:
        return failed(f"{len(told)} lines have the word {word}", ended.evidence())
    return None


def still_running(processes: list[int]) -> list[int]:
    """Those that have not ended. One whose parent ended first is a zombie until init has waited for it."""
    def runs(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False
    return [pid for pid in processes if runs(pid)]


def measurement(name: str, number: signal.Signals, place: Place, *arguments: str) -> Outcome:
    """A run that is interrupted after its first point: valid records that say so, a report, both usable."""
    out = place.directory / "out"
    process = place.start(name, [str(VERBENA), name, *arguments, "--out", str(out)])
    said(out, POINT, process, time.monotonic() + 120)
    started = children(process.pid)
    ended, seconds, left = stopped(process, number)
    status, word = (INTERRUPTED, "interrupted") if number == signal.SIGINT else (TERMINATED, "terminated")
    if bad := wrong(ended, left, status, word):
        return bad
    if alive := still_running(started):
        return failed(f"the processes {alive} are still running", ended.evidence())
    last = records(out)[-1]
    if last["record"] != "end" or last["outcome"] != "interrupted":
        return failed(f"the last record is {last}", ended.evidence())
    if not points_of(out) or not (out / "report.html").is_file() or str(out / "report.html") not in ended.output:
        return failed("there is no report of the results", ended.evidence())
    for command in (["report", str(out), "--out", str(place.directory / "again.html")], ["compare", str(out), str(out)]):
        used = place.run(command[0], [str(VERBENA), *command], 60)
        # A single launch gives no verdict.
        if used.status not in (0, 4):
            return failed(f"verbena {command[0]} does not take the directory: {used.describe()}", used.evidence())
    return passed(f"{len(points_of(out))} points, stopped after {seconds:.1f} s")


def evaluation(number: signal.Signals, place: Place) -> Outcome:
    """An evaluation, which would otherwise go on to models and published claims."""
    return measurement("evaluate", number, place, "--quick")


def service(place: Place) -> Outcome:
    """A benchmark of the file service, whose server and clients are helpers."""
    return measurement("bench", signal.SIGINT, place, "rfio.cached", "--launches", "1")


def library(launcher: str, kind: str, place: Place) -> Outcome:
    """A benchmark of a message-passing library, whose processes belong to its launcher."""
    if shutil.which(launcher) is None:
        return skipped(f"{launcher} is not installed")
    return measurement("bench", signal.SIGINT, place, "mpi.latency", "mpi.bandwidth", "--mpi", kind, "--launches", "1")


def nothing_yet(place: Place) -> Outcome:
    """Before the first point a message says that nothing was measured."""
    out = place.directory / "out"
    process = place.start("evaluate", [str(VERBENA), "evaluate", "--out", str(out)])
    said(out, '"record":"run"', process, time.monotonic() + 60)
    # The first benchmark's first point takes longer than this.
    ended, seconds, left = stopped(process, signal.SIGINT)
    if bad := wrong(ended, left, INTERRUPTED, "interrupted"):
        return bad
    if not points_of(out) and "nothing was measured" not in ended.output:
        return failed("it does not report that nothing was measured", ended.evidence())
    if records(out)[-1].get("outcome") != "interrupted":
        return failed(f"the last record is {records(out)[-1]}")
    return passed(f"stopped after {seconds:.1f} s")


def twice(place: Place) -> Outcome:
    """A second signal ends it at once, with all helpers, even those that do not react."""
    out = place.directory / "out"
    process = place.start("bench", [str(VERBENA), "bench", "rfio.cached", "--launches", "1", "--out", str(out)])
    said(out, POINT, process, time.monotonic() + 120)
    started = children(process.pid)
    for child in started:
        os.kill(child, signal.SIGSTOP)
    os.kill(process.pid, signal.SIGINT)
    # A signal right behind the first one counts as the same.
    time.sleep(0.5)
    if process.running:
        ended, seconds, left = stopped(process, signal.SIGINT)
    else:
        ended, seconds, left = process.finish(time.monotonic() + 1), 0.0, members(process.pid)
    if ended.status != INTERRUPTED or left:
        return failed(f"{ended.describe()}, expected exit {INTERRUPTED}; {left} are left", ended.evidence())
    if alive := still_running(started):
        return failed(f"the processes {alive} are still running", ended.evidence())
    # The next program removes the remains of helpers that were killed.
    after = place.run("next", [str(VERBENA), "bench", "latency.write", "--sizes", "8", "--transports", "rc", "--quick"], CAP)
    if not after.succeeded:
        return failed(after.describe(), after.evidence())
    return passed(f"{len(started)} helpers, ended after {seconds:.1f} s")


STUDY = """
benchmark = "latency.write-inline"
system = ["connectx-ddr", "infinihost3-ddr"]
size = [1, 2, 4, 8, 16, 32, 64, 128, 192, 256]
pairs = [1, 2, 4]
[profile]
"bensley.pcie.read_buffer" = [512, 1024, 2048, 4096]
"""


def threads(pid: int) -> int:
    """Threads of a process that has not ended."""
    try:
        return len(list(Path(f"/proc/{pid}/task").iterdir()))
    except OSError:
        return 0


def models(place: Place) -> Outcome:
    """`reproduce` says how many claims were computed, and `sweep` how many points are kept."""
    process = place.start("reproduce", [str(VERBENA), "reproduce", "--out", str(place.directory / "claims")])
    deadline = time.monotonic() + CAP
    # The main thread, that of signals, and those that compute.
    while process.running and threads(process.pid) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    ended, seconds, left = stopped(process, signal.SIGINT)
    if bad := wrong(ended, left, INTERRUPTED, "interrupted"):
        return bad
    if "computed before that" not in ended.output or (place.directory / "claims" / "claims.json").exists():
        return failed("it does not report the computed points", ended.evidence())
    return passed(f"stopped after {seconds:.1f} s")


def study(place: Place) -> Outcome:
    """A parameter study keeps its points, and the same command goes on from there."""
    file, out = place.directory / "study.toml", place.directory / "points"
    file.write_text(STUDY)
    command = [str(VERBENA), "sweep", str(file), "--out", str(out), "--threads", "1"]
    process = place.start("sweep", command)
    part = out / "part-0-of-1.jsonl"
    deadline = time.monotonic() + CAP
    while process.running and not (part.exists() and part.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.002)
    ended, seconds, left = stopped(process, signal.SIGTERM)
    if ended.succeeded:
        return skipped("the study was complete before the signal came")
    if bad := wrong(ended, left, TERMINATED, "terminated"):
        return bad
    again = place.run("again", command, 120)
    if not again.succeeded or "are in" not in again.output:
        return failed("the study does not go on", again.evidence())
    return passed(f"stopped after {seconds:.1f} s")
