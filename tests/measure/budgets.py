"""Time limits and memory of computations on models: complete points are kept, missing ones are named, and a large one is
announced or refused before it starts."""

from __future__ import annotations

import json
import signal
import time

from harness.build_tree import VERBENA
from harness.outcome import Outcome, failed, passed
from harness.place import Place
from harness.process import Ended, wait_for_any

from .interrupts import INTERRUPTED, stopped, wrong
from .records import POINT, records, said

OUT_OF_TIME = 124
WRONG_INPUT = 2
SECONDS = 120
# Longer than a limited run takes on any machine.
LATE = 60
MODEL = "model:connectx6-hdr:message"
# The first benchmark takes less than a second, a point of the second one minutes.
LARGE = ["mpi.barrier-latency", "mpi.alltoall-latency", "--processes", "512", "--nodes", "512", "--sizes", "64K,1M",
         "--threads", "1", "--on", MODEL]
MISSING = {("mpi.alltoall-latency", 65_536), ("mpi.alltoall-latency", 1 << 20)}
# Models of which a budget of seconds does not suffice for all.
SEVERAL = ("connectx-qdr", "connectx-ddr", "connectx3-fdr", "connectx4-edr", "connectx5-edr", "connectx6-hdr", "connectx7-ndr",
           "infinihost3-ddr")


def named(found: list[dict]) -> set[tuple[str, int]]:
    """Benchmarks and sizes of the points that were not computed."""
    return {(one["benchmark"], one["parameters"].get("size")) for one in found
            if one["record"] == "failure" and one["reason"].startswith("not computed: ")}


def partial_run(ended: Ended, found: list[dict], reason: str, outcome: str) -> Outcome | None:
    """Returns the failure unless the run kept the first benchmark and named all points of the second one."""
    complete = [one["benchmark"] for one in found if one["record"] == "point"]
    if complete != ["mpi.barrier-latency"] or named(found) != MISSING:
        return failed(f"complete {complete}, named {named(found)}", ended.evidence())
    if found[-1]["record"] != "end" or found[-1]["outcome"] != outcome:
        return failed(f"the last record is {found[-1]}", ended.evidence())
    if ended.output.count(f"not computed: {reason}") != len(MISSING):
        return failed("the missing points are not printed", ended.evidence())
    if " of memory, from " not in ended.output:
        return failed("the large point was not announced", ended.evidence())
    return None


def benchmarks(place: Place) -> Outcome:
    """A budget ends a run inside a point that would take minutes: the records, the report and JSON have the complete
    points and name the others."""
    out = place.directory / "out"
    ended = place.run("bench", [str(VERBENA), "bench", *LARGE, "--budget", "15s", "--out", str(out)], SECONDS)
    if ended.status != OUT_OF_TIME or ended.seconds > LATE:
        return failed(f"{ended.describe()} after {ended.seconds:.0f} s, expected exit {OUT_OF_TIME}", ended.evidence())
    if bad := partial_run(ended, records(out), "the time of --budget (15 s) had passed", "stopped"):
        return bad
    if "verbena: out of time: 1 points were measured before that" not in ended.output:
        return failed("the end is not reported", ended.evidence())
    report = (out / "report.html").read_text()
    if "2 not computed" not in report or "The run was stopped: the time of --budget (15 s) had passed" not in report:
        return failed("the report does not say that points are missing")
    compared = place.run("compare", [str(VERBENA), "compare", str(out), str(out)], SECONDS)
    if compared.status != 4 or "run was stopped: not computed" not in compared.output:
        return failed(f"verbena compare takes a stopped run for a whole one: {compared.describe()}", compared.evidence())
    at_once = place.run("json", [str(VERBENA), "bench", *LARGE, "--budget", "0s", "--json"], SECONDS)
    if at_once.status != OUT_OF_TIME:
        return failed(f"{at_once.describe()}, expected exit {OUT_OF_TIME}", at_once.evidence())
    run = json.loads(at_once.output[at_once.output.index("{"):at_once.output.rindex("}") + 1])["runs"][0]
    told = {(one["benchmark"], one["parameters"].get("size")) for one in run["failures"]}
    if run["points"] or told != MISSING | {("mpi.barrier-latency", None)}:
        return failed(f"JSON names {told} as missing", at_once.evidence())
    return passed(f"ended after {ended.seconds:.1f} s")


def several_models(place: Place) -> Outcome:
    """The budget is that of the whole command: points on a model that is not reached are named, too."""
    out = place.directory / "out"
    ended = place.run("bench", [str(VERBENA), "bench", *LARGE, "--on", "model:connectx-qdr:message", "--budget", "2s",
                                "--out", str(out)], SECONDS)
    if ended.status != OUT_OF_TIME:
        return failed(f"{ended.describe()}, expected exit {OUT_OF_TIME}", ended.evidence())
    second = records(out / "model-connectx-qdr-message")
    if not named(second) >= MISSING or second[-1]["outcome"] != "stopped":
        return failed(f"the second model names {named(second)}", ended.evidence())
    return passed("two models")


def interrupted(place: Place) -> Outcome:
    """Ctrl-C inside a point that would take minutes does the same."""
    out = place.directory / "out"
    process = place.start("bench", [str(VERBENA), "bench", *LARGE, "--out", str(out)])
    deadline = time.monotonic() + LATE
    said(out, POINT, process, deadline)
    # The announcement of the next point follows the record.
    while " of memory, from " not in process.output() and process.running and time.monotonic() < deadline:
        wait_for_any([process], time.monotonic() + 0.005)
    ended, seconds, left = stopped(process, signal.SIGINT)
    if bad := wrong(ended, left, INTERRUPTED, "interrupted"):
        return bad
    if bad := partial_run(ended, records(out), "the run was interrupted", "interrupted"):
        return bad
    return passed(f"stopped after {seconds:.1f} s")


def schedule(messages: int) -> str:
    """A schedule in which two ranks exchange messages one after the other."""
    def rank(number: int) -> str:
        lines = []
        for one in range(messages):
            is_sender = one % 2 == number
            lines.append(f"l{one}: {'send' if is_sender else 'recv'} 8b {'to' if is_sender else 'from'} {1 - number}")
            if one:
                lines.append(f"l{one} requires l{one - 1}")
        return f"rank {number} {{\n" + "\n".join(lines) + "\n}\n"
    return "num_ranks 2\n" + rank(0) + rank(1)


def replays(place: Place) -> Outcome:
    """A budget ends several replays: text, JSON and the page name those that are missing."""
    file, page = place.directory / "s.goal", place.directory / "page.html"
    file.write_text(schedule(10))
    models = ["--on", "model:connectx-qdr", "--on", "model:connectx6-hdr"]
    command = [str(VERBENA), "replay", str(file), *models]
    whole = place.run("whole", [*command, "--budget", "10m", "--json"], SECONDS)
    if not whole.succeeded or len(json.loads(whole.output)) != 2:
        return failed(f"{whole.describe()}, expected two replays", whole.evidence())
    none = place.run("none", [*command, "--budget", "0s", "--json"], SECONDS)
    end = none.output.rindex("}") + 1
    told = json.loads(none.output[none.output.index("{"):end])
    missing = [f"{file} on {name}" for name in ("connectx-qdr", "connectx6-hdr")]
    if none.status != OUT_OF_TIME or told["replays"] or told["not_computed"] != missing or told["reason"] != "out of time":
        return failed(f"{none.describe()}, {told}", none.evidence())
    # All replays together take many seconds.
    file.write_text(schedule(200_000))
    several = [word for name in SEVERAL for word in ("--on", f"model:{name}")]
    some = place.run("some", [str(VERBENA), "replay", str(file), *several, "--budget", "2s", "--out", str(page)], SECONDS)
    if some.status != OUT_OF_TIME or "replays are complete; not computed: " not in some.output:
        return failed(f"{some.describe()}, expected exit {OUT_OF_TIME}", some.evidence())
    if "verbena: out of time: 0 of" not in some.output:
        for text in (some.output, page.read_text()):
            if "not computed (out of time): " not in text:
                return failed("a partial result looks like a whole one", some.evidence())
    return passed("text, JSON and a page")


STUDY = """
benchmark = "mpi.alltoall-latency"
system = "connectx6-hdr:message"
size = 8
ranks = [2, 4, 8, {last}]
"""


def studies(place: Place) -> Outcome:
    """A budget ends a study, which names the missing points and goes on with the same command; a point that is larger than
    the memory is refused with both figures."""
    file, out = place.directory / "study.toml", place.directory / "points"
    file.write_text(STUDY.format(last=16))
    command = [str(VERBENA), "sweep", str(file), "--out", str(out)]
    none = place.run("none", [*command, "--budget", "0s"], SECONDS)
    named = [f"not computed: point {number}, mpi.alltoall-latency on connectx6-hdr:message" for number in range(4)]
    if none.status != OUT_OF_TIME or not all(text in none.output for text in named):
        return failed(f"{none.describe()}, expected exit {OUT_OF_TIME}", none.evidence())
    if (out / "sweep.csv").exists():
        return failed("a partial table looks like a whole one")
    again = place.run("again", [*command, "--budget", "10m"], SECONDS)
    if not again.succeeded or "4 points in" not in again.output:
        return failed(f"{again.describe()}, expected 4 points", again.evidence())
    file.write_text(STUDY.format(last=1 << 20))
    large = place.run("large", [str(VERBENA), "sweep", str(file), "--out", str(place.directory / "large")], SECONDS)
    if large.status != WRONG_INPUT or "of memory, and" not in large.output:
        return failed(f"{large.describe()}, expected exit {WRONG_INPUT}", large.evidence())
    return passed("continued and refused")


def refused(place: Place) -> Outcome:
    """Budgets that cannot take effect or cannot be read are refused."""
    bench = [str(VERBENA), "bench", "latency.write"]
    cases = (
        ([*bench, "--budget", "5s"], "--budget is for models"),
        ([*bench, "--budget", "5s", "--on", "software", "--on", MODEL], "--budget is for models"),
        ([*bench, "--budget", "5", "--on", MODEL], "is not a time such as 30s"),
        ([*bench, "--budget", "5s", "--minutes", "1", "--on", MODEL], "cannot be used with"),
        ([str(VERBENA), "sweep", "x.toml", "--slurm", "--budget", "5s"], "cannot be used with"),
    )
    for command, expected in cases:
        ended = place.run("refused", command, SECONDS)
        if ended.status != WRONG_INPUT or expected not in ended.output:
            return failed(f"{ended.describe()}, expected exit {WRONG_INPUT} and {expected!r}", ended.evidence())
    return passed(f"{len(cases)} refusals")
