"""Hostile results: truncated, huge, with malicious names; and full disks."""

from __future__ import annotations

import copy
import json
from pathlib import Path

from harness.browser import Browser
from harness.build_tree import VERBENA
from harness.outcome import Outcome, failed, passed
from harness.place import Place

from .records import records

SECONDS = 60
WRONG_INPUT = 2
# A page's script, the end of an attribute, colours of a terminal, ends of lines, the other direction of writing.
HARM = "</script><img src=x onerror=document.title='harm'>\"'`&\n\r\x1b[31m\x07\x00\u202e"
# As JSON allows them and as it does not.
MAGNITUDES = ["1.7e308", "-1.7e308", "0", "-0.0", "5e-324", "123456789012345678901234567890"]
NO_NUMBERS = ["NaN", "Infinity", "1e999", "null", '"8"']
SERIES = 3000


def of_a_model(place: Place) -> list[dict]:
    """The records of a short run."""
    out = place.directory / "run"
    place.run("bench", [str(VERBENA), "bench", "latency.write", "bandwidth.write", "--quick", "--sizes", "8,4096",
                        "--launches", "2", "--on", "model:connectx-ddr", "--out", str(out)], SECONDS)
    return records(out)


def written(path: Path, found: list[dict]) -> Path:
    """A results file of records."""
    path.write_text("".join(json.dumps(record) + "\n" for record in found))
    return path


def drawn(place: Place, results: Path) -> str | None:
    """Returns an error in a report of a file or in its comparison with itself, or None."""
    page = results.with_suffix(".html")
    for name, words in (("report", [str(results), "--out", str(page)]),
                        ("compare", ["--all", str(results), str(results)])):
        ended = place.run(name, [str(VERBENA), name, *words], SECONDS)
        if not ended.succeeded:
            return f"{name} of {results.name}: {ended.describe()}: {ended.output[-300:]}"
        if "\x1b" in ended.output or "\r" in ended.output:
            return f"{name} of {results.name} gives a terminal orders"
    return None


def magnitudes(place: Place) -> Outcome:
    """Figures and parameters of any size are drawn and compared; invalid numbers are refused, with file and line."""
    run = of_a_model(place)
    for number, text in enumerate(MAGNITUDES):
        for part in ("value", "parameter"):
            found = copy.deepcopy(run)
            for record in found:
                if record["record"] != "point":
                    continue
                if part == "value":
                    record["metrics"][0]["value"] = float(text)
                else:
                    record["parameters"]["size"] = float(text)
            if problem := drawn(place, written(place.directory / f"{part}-{number}.jsonl", found)):
                return failed(problem)
    point = next(at for at, record in enumerate(run) if record["record"] == "point")
    run[point]["metrics"][0]["value"] = "FIGURE"
    for text in NO_NUMBERS:
        file = written(place.directory / "none.jsonl", run)
        file.write_text(file.read_text().replace('"FIGURE"', text))
        for command in (["report", str(file)], ["compare", str(file), str(file)]):
            ended = place.run("refused", [str(VERBENA), *command], SECONDS)
            if ended.status != WRONG_INPUT or f"none.jsonl:{point + 1}:" not in ended.output:
                return failed(f"{text}: {ended.describe()}, expected exit 2 and a line", ended.evidence())
    return passed(f"{len(MAGNITUDES)} magnitudes, {len(NO_NUMBERS)} that are no number")


def names(place: Place) -> Outcome:
    """Names of all kinds are text to a browser and to a terminal."""
    found = of_a_model(place)
    for record in found:
        for key in ("label", "device", "command", "benchmark", "name", "text"):
            if isinstance(record.get(key), str):
                record[key] += HARM
        if "parameters" in record:
            record["parameters"]["transport" + HARM] = HARM
        for metric in record.get("metrics", []):
            metric["name"] += HARM
            metric["unit"] += HARM
    results = written(place.directory / "names.jsonl", found)
    if problem := drawn(place, results):
        return failed(problem)
    with Browser(place.directory) as browser:
        browser.show(results.with_suffix(".html"), 1400, 900)
        images = browser.evaluate("document.querySelectorAll('img, main script').length")
        title = browser.evaluate("document.title")
    if images or title == "harm":
        return failed(f"{images} elements came from names, the title is {title!r}")
    return passed()


def many(place: Place) -> Outcome:
    """Thousands of series are compared and drawn in seconds."""
    run = of_a_model(place)
    point = next(record for record in run if record["record"] == "point")
    found = [run[0]]
    for series in range(SERIES):
        for size in (8, 64, 512):
            one = copy.deepcopy(point)
            one["parameters"] = {"size": size, "kind": f"kind {series}"}
            found.append(one)
    if problem := drawn(place, written(place.directory / "many.jsonl", [*found, run[-1]])):
        return failed(problem)
    return passed(f"{SERIES} series of 3 points")


def broken(place: Place) -> Outcome:
    """A file cut at any place, empty, or of other bytes: either an error that names the file, the line and the remedy,
    or a report of the whole part."""
    whole = written(place.directory / "whole.jsonl", of_a_model(place)).read_bytes()
    first = whole.index(b"\n") + 1
    cases = {"empty": b"", "spaces": b" \n\n", "first": whole[:first - 20], "cut": whole[:first + 200],
             "latin": whole.replace(b'"bandwidth.write"', b'"bandwidth.\xfcber"'), "wide": b"\xff\xfe" + whole,
             "deep": b"[" * 100_000, "zero": whole[:first] + bytes(4096)}
    for name, content in cases.items():
        file = place.directory / f"{name}.jsonl"
        file.write_bytes(content)
        ended = place.run(name, [str(VERBENA), "report", str(file)], SECONDS)
        if ended.status != WRONG_INPUT or f"{file}:" not in ended.output or len(ended.output.splitlines()) != 1:
            return failed(f"{name}: {ended.describe()}, expected exit 2 and one line that names the file", ended.evidence())
    # Between two records only the end is wrong, which the report says.
    file = place.directory / "between.jsonl"
    file.write_bytes(whole[:whole.index(b"\n", first) + 1])
    if problem := drawn(place, file):
        return failed(problem)
    if "cut short" not in file.with_suffix(".html").read_text():
        return failed("the report does not say that its run was cut short")
    return passed(f"{len(cases)} files")


def full_disk(place: Place) -> Outcome:
    """On a disk that fills while results are written, the error says so, and every record that is there can be read."""
    disk, kept = place.directory / "disk", place.directory / "kept.jsonl"
    disk.mkdir()
    bench = (f"'{VERBENA}' bench latency. bandwidth. --quick --on model:connectx-ddr --out '{disk}/run'")
    script = f"mount -t tmpfs -o size=96k none '{disk}' || exit 77\n{bench}\nstatus=$?\ncp '{disk}/run/results.jsonl' '{kept}'\nexit $status"
    ended = place.run("bench", ["unshare", "-Urm", "sh", "-c", script], SECONDS)
    if ended.status == 77:
        return failed("no namespace to mount a small disk in", ended.evidence())
    if ended.status != WRONG_INPUT + 1 or "No space left" not in ended.output or "results.jsonl" not in ended.output:
        return failed(f"{ended.describe()}, expected exit 3 and the file", ended.evidence())
    lines = kept.read_text().splitlines()
    if len(lines) < 3 or not kept.read_text().endswith("\n"):
        return failed(f"{len(lines)} lines, the last of them {lines[-1][-40:]!r}")
    return failed(problem) if (problem := drawn(place, kept)) else passed(f"{len(lines)} records kept")


def report_stays(place: Place) -> Outcome:
    """A report that does not fit leaves the one that was there."""
    disk, kept = place.directory / "disk", place.directory / "kept.html"
    disk.mkdir()
    results = written(place.directory / "run.jsonl", of_a_model(place))
    draw = f"'{VERBENA}' report '{results}' --out '{disk}/report.html'"
    script = (f"mount -t tmpfs -o size=16k none '{disk}' || exit 77\necho before > '{disk}/report.html'\n{draw}\nstatus=$?\n"
              f"cp '{disk}/report.html' '{kept}'\nls -A '{disk}'\nexit $status")
    ended = place.run("report", ["unshare", "-Urm", "sh", "-c", script], SECONDS)
    if ended.succeeded or "No space left" not in ended.output:
        return failed(f"{ended.describe()}, expected an error", ended.evidence())
    if kept.read_text() != "before\n" or ended.output.splitlines()[-1] != "report.html":
        return failed(f"the earlier content is now {kept.read_text()[:40]!r}", ended.evidence())
    return passed()
