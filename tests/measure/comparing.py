"""Runs compared with each other, two of them and many."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

from harness.build_tree import VERBENA
from harness.outcome import Outcome, failed, passed
from harness.place import Place
from harness.planted import plant

from .records import records

SECONDS = 900
# As ib_write_bw prints it.
PERFTEST = """\
                    RDMA_Write BW Test
 Number of qps   : 1\t\tTransport type : IB
 Connection type : RC\t\tUsing SRQ      : OFF
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 4096       5000             1338.52            1338.39\t\t   0.342628
"""


def compared(place: Place) -> Outcome:
    """A run compared with itself has no change, and a planted slow-down is found."""
    out = place.directory / "out"
    command = [str(VERBENA), "bench", "latency.write", "--quick", "--sizes", "8,64", "--transports",
               "rc", "--launches", "5", "--out", str(out)]
    ended = place.run("bench", command, SECONDS)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    results, slow = out / "results.jsonl", place.directory / "slow.jsonl"
    plant(results, slow, lambda point: 3 if point["parameters"]["size"] == 8 else 1)
    plant(results, results)
    same = place.run("compare", [str(VERBENA), "compare", str(out), str(out)], 20)
    if same.status != 0 or not same.output.startswith("unchanged: 2 points"):
        return failed("a run differs from itself", same.evidence())
    worse = place.run("compare", [str(VERBENA), "compare", str(out), str(slow)], 20)
    if worse.status != 1 or not worse.output.startswith("changed: 1 point worse, 0 better"):
        return failed("a planted slow-down was not found, or more than it", worse.evidence())
    better = place.run("compare", [str(VERBENA), "compare", "--allow-better", str(slow), str(out)], 20)
    if better.status != 0 or not better.output.startswith("changed: 0 points worse, 1 better"):
        return failed("a planted speed-up was not found, or more than it", better.evidence())
    return passed()


def three_outcomes(place: Place) -> Outcome:
    """On a model a point that is slower has changed and an equal one has not, exactly; one launch of a table decides
    nothing."""
    out = place.directory / "out"
    ended = place.run("bench", [str(VERBENA), "bench", "latency.write", "--quick", "--sizes", "8,64", "--on",
                                "model:connectx-ddr", "--out", str(out)], SECONDS)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    slow, table, half = (place.directory / name for name in ("slow.jsonl", "table.txt", "half.txt"))
    found = records(out)
    for record in found:
        if record["record"] == "point" and record["parameters"]["size"] == 8:
            record["metrics"][0]["value"] *= 8
    slow.write_text("".join(json.dumps(record) + "\n" for record in found))
    table.write_text(PERFTEST)
    half.write_text(PERFTEST.replace("1338.39", "669.20").replace("0.342628", "0.171315"))
    for first, second, status, begins in (
            (out, out, 0, "unchanged: "), (out, slow, 1, "changed: "), (slow, out, 1, "changed: 0 points worse"),
            (table, half, 4, "undecided: 1 of 1 point; at least 3 launches")):
        told = place.run("compare", [str(VERBENA), "compare", str(first), str(second)], 20)
        if told.status != status or not told.output.startswith(begins):
            return failed(f"{first.name} and {second.name}: {told.describe()}, expected exit {status}", told.evidence())
    junit = place.run("junit", [str(VERBENA), "compare", "--format", "junit", str(out), str(slow)], 20)
    try:
        suite = ElementTree.fromstring(junit.output.encode())
    except ElementTree.ParseError as error:
        return failed(f"no XML: {error}", junit.evidence())
    if len(suite.findall("testcase")) != int(suite.get("tests", 0)) or suite.find("testcase/failure") is None:
        return failed("the suite does not have a failure for what got worse", junit.evidence())
    return passed()


def another_meaning(place: Place) -> Outcome:
    """Bandwidths of older runs and of perftest are compared with the figure of the same meaning, and a message says
    so."""
    out = place.directory / "out"
    command = [str(VERBENA), "bench", "bandwidth.write", "--quick", "--sizes", "4096,65536", "--on", "model:connectx-ddr",
               "--out", str(out)]
    ended = place.run("bench", command, SECONDS)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    older, lines = place.directory / "older.jsonl", []
    for record in records(out):
        if record["record"] == "point":
            (cached,) = [one for one in record["metrics"] if one["name"] == "cached-bandwidth"]
            record["metrics"] = [{**cached, "name": "bandwidth"}]
            for word in ("reader", "footprint"):
                del record["conduct"][word]
        lines.append(json.dumps(record))
    older.write_text("\n".join(lines) + "\n")
    perftest = place.directory / "perftest.txt"
    perftest.write_text(PERFTEST)
    for foreign, common in ((older, 2), (perftest, 1)):
        told = place.run("compare", [str(VERBENA), "compare", "--all", str(foreign), str(out)], 20)
        said = "compared by cached-bandwidth, which both have" in told.output
        # One launch beside a model decides nothing; two models are compared exactly.
        expected = 4 if foreign == perftest else 0
        if told.status != expected or not said or not re.search(rf"\n{common} points? in both", told.output):
            return failed(f"{foreign.name}: {told.describe()}", told.evidence())
        if re.search(r"ways=one: bandwidth", told.output):
            return failed("different figures were compared", told.evidence())
    page = place.directory / "report.html"
    drawn = place.run("report", [str(VERBENA), "report", str(older), str(out), "--out", str(page)], 20)
    if not drawn.succeeded or "one cached buffer" not in page.read_text():
        return failed("the report does not distinguish the two", drawn.evidence())
    return passed()


def history(place: Place) -> Outcome:
    """Over eight runs, of which the last four are slower, `verbena history` names the fifth."""
    out = place.directory / "out"
    ended = place.run("bench", [str(VERBENA), "bench", "latency.write", "--quick", "--sizes", "8,64",
                                "--transports", "rc", "--out", str(out)], SECONDS)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    runs = []
    for number in range(8):
        lines = []
        for record in records(out):
            if record["record"] == "run":
                record["started"] = number
            if record["record"] == "point":
                factor = 1.3 if number > 3 and record["parameters"]["size"] == 8 else 1
                record["metrics"][0]["value"] *= factor * (1 + 0.002 * (number % 2))
            lines.append(json.dumps(record))
        runs.append(place.directory / f"run-{number}.jsonl")
        runs[-1].write_text("\n".join(lines) + "\n")
    # The order of the arguments does not matter, that of the starts does.
    told = place.run("history", [str(VERBENA), "history", *map(str, reversed(runs))], 20)
    if told.status != 1 or "run-4.jsonl" not in told.output or "1 steps" not in told.output:
        return failed("the step was not found, or more than it", told.evidence())
    return passed()
