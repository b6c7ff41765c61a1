"""`verbena sensitivity` and the options that change one parameter of an emulated adapter.

Reads one after the other take at least the latency that was added, on each machine; that they take no more depends on
the machine, so no case asserts it.
"""

from __future__ import annotations

import json
import re

from harness.build_tree import VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.pair import free_port
from harness.place import Place

SECONDS = 180
SYSTEM = "connectx-qdr"
WRONG_INPUT = 2
READS = 400
# Added to the latency, in us: a read takes it twice.
ADDED = 50


def cases() -> list[Case]:
    """The changes of `run --as`, the command, errors."""
    return [
        Case("run --as with another latency and rate", "", changed),
        Case("run --as with jitter", "", jitter),
        Case("run with latency, rate and jitter of the software adapter", "", without_adapter),
        Case("sensitivity: latency against the time of reads", "", latency),
        Case("sensitivity: a figure of the program", "", metric),
        Case("sensitivity: all parameters by default", "", by_default),
        Case("sensitivity: what cannot be used is refused", "", refused),
    ]


def pair(reads: int = READS) -> list[str]:
    """A command that is a server and a client of ib_read_lat; it ends when both have."""
    words = f"ib_read_lat -F -s 8 -n {reads} -p $PORT"
    # The client asks until the server listens.
    client = f"for try in $(seq 50); do {words} localhost && exit 0; sleep 0.1; done; exit 1"
    script = f"({words} > server.txt 2>&1 &) ; ({client}); status=$?; wait; exit $status"
    return ["env", f"PORT={free_port()}", "sh", "-c", script]


def least(output: str) -> float:
    """The fastest read of ib_read_lat's line, in us; 0 without one."""
    found = re.search(r"^ *8 +\d+ +([\d.]+)", output, re.MULTILINE)
    return float(found[1]) if found else 0.0


def changed(place: Place) -> Outcome:
    """Reads take twice the latency that is added; the changes are named."""
    options = ["--latency", f"+{ADDED}us", "--rate", "x0.5", "--overhead", "2us", "--gap", "+1us"]
    ended = place.run("changed", [str(VERBENA), "run", "--as", SYSTEM, *options, "--", *pair()], SECONDS)
    if not ended.succeeded or least(ended.output) < 2 * ADDED:
        return failed(f"{least(ended.output)} us", ended.evidence())
    for name in ("latency", "rate", "overhead 2 us", "gap"):
        if f"verbena: as {SYSTEM}: {name}" not in ended.output:
            return failed(f"{name} is not named", ended.evidence())
    return passed(f"{least(ended.output)} us")


def jitter(place: Place) -> Outcome:
    """Reads take up to twice the jitter more; the longest of many has some of it, and each run has the same draws."""
    command = [str(VERBENA), "run", "--as", SYSTEM, "--jitter", f"{100 * ADDED}us", "--seed", "7", "--", *pair(100)]
    ended = place.run("jitter", command, SECONDS)
    found = re.search(r"^ *8 +\d+ +([\d.]+) +([\d.]+) +([\d.]+)", ended.output, re.MULTILINE)
    if not ended.succeeded or not found or f"verbena: jitter {ADDED / 10:g} ms" not in ended.output:
        return failed("jitter", ended.evidence())
    shortest, longest, usual = map(float, found.groups())
    # The sum of two draws; that a hundred sums are all in one half does not happen.
    if shortest > 100 * ADDED or longest < 100 * ADDED or not 50 * ADDED < usual:
        return failed(f"{shortest} to {longest} us, usually {usual}", ended.evidence())
    return passed(f"{shortest} to {longest} us, usually {usual}")


def without_adapter(place: Place) -> Outcome:
    """Reads take twice the latency; writes have no more than the rate; a command that sends no message gets a line."""
    ended = place.run("latency", [str(VERBENA), "run", "--latency", f"+{ADDED}us", "--jitter", "1500ns", "--", *pair()], SECONDS)
    if not ended.succeeded or least(ended.output) < 2 * ADDED:
        return failed(f"{least(ended.output)} us", ended.evidence())
    if f"verbena: latency +{ADDED} us\n" not in ended.output or "verbena: jitter 1.5 us\n" not in ended.output:
        return failed("the options are not named", ended.evidence())
    words = "ib_write_bw -F -s 65536 -n 500 -p $PORT"
    script = f"({words} > server.txt 2>&1 &) ; for try in $(seq 50); do {words} localhost && exit; sleep 0.1; done; exit 1"
    command = [str(VERBENA), "run", "--rate", "800Mb/s", "--", "env", f"PORT={free_port()}", "sh", "-c", script]
    ended = place.run("rate", command, SECONDS)
    found = re.search(r"^ *65536 +\d+ +[\d.]+ +([\d.]+)", ended.output, re.MULTILINE)
    # 100 MB/s are 95.4 MiB/s.
    if not ended.succeeded or not found or float(found[1]) > 100:
        return failed("a rate", ended.evidence())
    ended = place.run("nothing", [str(VERBENA), "run", "--latency", "+1us", "--", "true"], SECONDS)
    if not ended.succeeded or "sent no message" not in ended.output:
        return failed("without messages", ended.evidence())
    return passed(f"{found[1]} MiB/s")


def latency(place: Place) -> Outcome:
    """The time grows by at least the latencies that follow each other: two of each read."""
    files = {"json": place.directory / "s.json", "html": place.directory / "s.html"}
    command = [str(VERBENA), "sensitivity", "--as", SYSTEM, "--latency", "+10ms", "--repeat", "1",
               "--json", str(files["json"]), "--html", str(files["html"]), "--", *pair(100)]
    ended = place.run("sensitivity", command, SECONDS)
    if not ended.succeeded or "of the command" not in ended.output or "% larger at " not in ended.output:
        return failed("the output", ended.evidence())
    curve, = json.loads(files["json"].read_text())["curves"]
    before, after = curve["settings"]
    # A hundred reads and the first ones that are not counted; the rest of the command is the same within a second.
    if after["value"] - before["value"] != 10e6 or after["median"] - before["median"] < 1e9:
        return failed(str(curve), ended.evidence())
    if not 50 <= curve["slope"] or files["html"].read_text().count("<svg") != 1:
        return failed(str(curve), ended.evidence())
    return passed(f"a slope of {curve['slope']:.0f}")


def metric(place: Place) -> Outcome:
    """The figure of each run is the number that the program prints."""
    command = [str(VERBENA), "sensitivity", "--as", SYSTEM, "--latency", f"+{ADDED}us", "--repeat", "2", "--json",
               str(place.directory / "s.json"), "--metric", r"(?m)^ *8 +\d+ +([\d.]+)", "--", *pair()]
    ended = place.run("metric", command, SECONDS)
    if not ended.succeeded:
        return failed("the command", ended.evidence())
    curve, = json.loads((place.directory / "s.json").read_text())["curves"]
    figures = [one["figures"] for one in curve["settings"]]
    if [len(one) for one in figures] != [2, 2] or min(figures[1]) < 2 * ADDED:
        return failed(str(figures), ended.evidence())
    return passed(str(figures))


def by_default(place: Place) -> Outcome:
    """Each parameter has its values and a table."""
    command = [str(VERBENA), "sensitivity", "--as", SYSTEM, "--repeat", "1", "--", *pair(50)]
    ended = place.run("default", command, SECONDS)
    tables = re.findall(r"^(\w+) +median", ended.output, re.MULTILINE)
    if not ended.succeeded or tables != ["overhead", "latency", "gap", "rate"]:
        return failed(str(tables), ended.evidence())
    return passed("four tables")


def refused(place: Place) -> Outcome:
    """Each is refused by name; a command that fails or posts nothing has no figures."""
    start = [str(VERBENA), "sensitivity", "--as", SYSTEM, "--latency", "+1us", "--repeat", "1"]
    for words, expected in (
            ([*start, "--", "sh", "-c", "echo sorry; exit 3"], "sorry"),
            ([*start, "--", "true"], "posted no requests"),
            ([*start, "--", "/nonexistent/program"], "/nonexistent/program"),
            ([str(VERBENA), "sensitivity", "--as", SYSTEM, "--latency", "x0.5,x2", "--", "true"], "below and above"),
            ([*start, "--metric", "(", "--", "true"], "regex"),
            ([*start, "--metric", "nosuch", "--", *pair(50)], "nosuch"),
            ([*start, "--timeout", "1", "--", "sleep", "600"], "--timeout 1"),
            ([str(VERBENA), "sensitivity", "--", "true"], "--as"),
            ([str(VERBENA), "sensitivity", "--as", "nosuch", "--", "true"], "nosuch"),
            ([str(VERBENA), "sensitivity", "--as", SYSTEM, "--latency", "fast", "--", "true"], "+5us"),
            ([str(VERBENA), "run", "--as", SYSTEM, "--rate", "5us", "--", "true"], "10Gb/s"),
            ([str(VERBENA), "run", "--latency", "x2", "--", "true"], "such as +5us"),
            ([str(VERBENA), "run", "--latency", "5us", "--", "true"], "such as +5us"),
            ([str(VERBENA), "run", "--rate", "x2", "--", "true"], "such as 10Gb/s"),
            ([str(VERBENA), "run", "--overhead", "+5us", "--", "true"], "--overhead needs --as"),
            ([str(VERBENA), "run", "--gap", "+5us", "--", "true"], "--gap needs --as"),
            ([str(VERBENA), "run", "--jitter", "+5us", "--", "true"], "+5us"),
    ):
        ended = place.run("refused", words, SECONDS)
        if ended.status not in (WRONG_INPUT, 127) or expected not in ended.output:
            return failed(f"{words}: {ended.describe()}", ended.evidence())
    return passed("17 refusals")
