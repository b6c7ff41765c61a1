"""Runs that end abnormally: by a signal, a process that hangs or dies, a full disk."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from harness.build_tree import VERBENA
from harness.outcome import Outcome, failed, passed
from harness.place import Place
from harness.process import children

from .records import points_of, records, started

SECONDS = 900
MISSING = 3
INTERRUPTED = 130


def killed(place: Place) -> Outcome:
    """Killing one process ends the launch with a clear reason; the figures measured before are in the report."""
    out = place.directory / "out"
    process = started(place, out, "latency.write")
    victims = children(process.pid)
    if not victims:
        return failed("there was no process to kill")
    os.kill(victims[-1], signal.SIGKILL)
    ended = process.finish(time.monotonic() + 60)
    if ended.timed_out:
        return failed("the run hung after a process was killed", ended.evidence())
    if ended.status != 1:
        return failed(f"{ended.describe()}, expected exit 1", ended.evidence())
    reasons = [r["reason"] for r in records(out) if r["record"] == "failure"]
    if not any("signal: 9" in reason for reason in reasons):
        return failed(f"no failure names the signal: {reasons}", ended.evidence())
    if not (out / "report.html").exists() or not points_of(out):
        return failed("earlier results are lost", ended.evidence())
    return passed(f"{ended.seconds:.0f} s")


def killed_at_any_moment(place: Place) -> Outcome:
    """A process is killed at any stage: while it joins, connects, warms up, measures. The run ends, says which process
    was lost, and leaves a report. All sizes, so that several seconds of measuring remain after the last of the
    moments."""
    for number in range(8):
        out = place.directory / f"out-{number}"
        process = place.start("bench", [str(VERBENA), "bench", "latency.send", "--launches", "1",
                                        "--out", str(out)])
        deadline = time.monotonic() + 30
        while len(children(process.pid)) < 2 and process.running and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.04 * number)
        victims = children(process.pid)
        if len(victims) < 2:
            return failed("there was no process to kill")
        os.kill(victims[number % 2], signal.SIGKILL)
        ended = process.finish(time.monotonic() + 40)
        if ended.status != 1:
            return failed(f"kill {number}: {ended.describe()}, expected exit 1", ended.evidence())
        reasons = [r["reason"] for r in records(out) if r["record"] == "failure"]
        if not any("signal: 9" in reason for reason in reasons):
            return failed(f"kill {number}: no failure names the signal: {reasons}", ended.evidence())
        if not (out / "report.html").exists():
            return failed(f"kill {number}: there is no report", ended.evidence())
    return passed()


def hung(place: Place) -> Outcome:
    """A process that is stopped while it measures is treated as lost; the run goes on with the other benchmarks."""
    out = place.directory / "out"
    process = started(place, out, "multi-pair.write-latency", "baseline.memcpy", "--pairs", "2", "--mode", "free")
    ranks = children(process.pid)
    if len(ranks) != 4:
        return failed(f"{len(ranks)} processes instead of four")
    os.kill(ranks[3], signal.SIGSTOP)
    ended = process.finish(time.monotonic() + 90)
    if ended.status != 1:
        return failed(f"{ended.describe()}, expected exit 1", ended.evidence())
    found = records(out)
    reasons = [r["reason"] for r in found if r["record"] == "failure"]
    if not any("process 3" in reason and "does not respond" in reason for reason in reasons):
        return failed(f"no failure names the hung process: {reasons}", ended.evidence())
    if not any(p["benchmark"] == "baseline.memcpy" for p in points_of(out)):
        return failed("the next benchmark was not measured", ended.evidence())
    if found[-1]["outcome"] != "complete" or not (out / "report.html").exists():
        return failed(f"the run ended as {found[-1]}", ended.evidence())
    return passed(f"{ended.seconds:.0f} s")


def interrupted(place: Place) -> Outcome:
    """SIGINT to the launcher alone ends the run with its processes, even with one that does not react; its points are
    kept, the last line says so, and no process is left."""
    out = place.directory / "out"
    process = started(place, out, "latency.write")
    at_work = children(process.pid)
    if not at_work:
        return failed("there was no process to interrupt")
    os.kill(at_work[-1], signal.SIGSTOP)
    os.kill(process.pid, signal.SIGINT)
    ended = process.finish(time.monotonic() + 60)
    if left := [child for child in at_work if Path(f"/proc/{child}").exists()]:
        return failed(f"{left} are still running", ended.evidence())
    if ended.timed_out:
        return failed("the run went on", ended.evidence())
    last = records(out)[-1]
    if last.get("outcome") != "interrupted":
        return failed(f"the last record is {last}", ended.evidence())
    if ended.status != INTERRUPTED:
        return failed(f"{ended.describe()}, expected exit {INTERRUPTED}", ended.evidence())
    return passed() if points_of(out) else failed("no point was kept", ended.evidence())


def full_output(place: Place) -> Outcome:
    """Standard output on a full disk is reported, and costs no file."""
    out = place.directory / "out"
    command = (f"exec {VERBENA} bench latency.write --quick --sizes 8 --on model:connectx-ddr"
               f" --out {out} > /dev/full")
    ended = place.run("bench", ["sh", "-c", command], SECONDS)
    if ended.status != MISSING or "cannot write to standard output" not in ended.output:
        return failed(f"{ended.describe()}, expected exit {MISSING}", ended.evidence())
    return passed() if (out / "report.html").is_file() else failed("no report was written")
