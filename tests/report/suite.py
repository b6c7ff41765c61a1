"""The report as readers see it: in a browser on a screen and on a telephone, in light and dark colours, and on paper.
Of real runs: the software adapter beside two modelled ones, and two runs of the software adapter."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import defaultdict
from functools import partial
from pathlib import Path

from harness.browser import Browser
from harness.build_tree import VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from harness.planted import plant
from harness.requirement import Tool, absent

from . import boxes, layout, page
from .made import FOUR, LABELS, RECORDING, SECONDS, SHARED, beside_models, clear, records, replay

TITLE = "the report in a browser"
REQUIRES = [Tool("chromium", "chromium")]

SCREENS = [(1400, 900), (390, 844)]
# A curve's parameters beside its axis are its kind; these only repeat the axis.
NO_KIND = {"size", "size-class", "rows", "columns"}
PAGES = 10
# Traces on the page of applications.
TRACES = 2

def cases() -> list[Case]:
    """A screen, a telephone, paper, and the content that all of them must have."""
    found = [Case(f"{width} px wide", f"first screen, {scheme}", partial(first_screen, width, height, scheme))
             for width, height in SCREENS for scheme in ("light", "dark")]
    found += layout.cases()
    found += [
        Case("on paper", "", on_paper),
        Case("every series of every run", "three runs", every_series),
        Case("figures to copy", "", copied),
        Case("two runs", "one baseline", two_runs),
        Case("nothing from outside", "", offline),
        Case("the page's script", "readout, order, filter", script),
        Case("the page's script", "turned off", without_scripts),
        Case("a busy machine", "disturbed points, launches at two levels", busy_machine),
        Case("what an application would do", "two traces on four systems", application),
    ]
    return found


def first_screen(width: int, height: int, scheme: str, place: Place) -> Outcome:
    """The tested target and all five tiles are visible without scrolling, each with its figure, its word and its
    share."""
    report = beside_models(place)
    with Browser(place.directory) as browser:
        browser.show(report, width, height, scheme)
        picture = place.directory / "screen.png"
        browser.picture(picture)
        seen = browser.evaluate(page.FIRST_SCREEN)
    if seen["scroll"] > seen["width"]:
        return failed(f"the page is {seen['scroll']} px wide in a window of {seen['width']}")
    titles = [tile["title"] for tile in seen["tiles"]]
    if titles != ["Latency", "Bandwidth", "Message rate", "Many pairs", "Memory"]:
        return failed(f"the tiles are {titles}")
    for tile in seen["tiles"]:
        if tile["bottom"] > height:
            return failed(f"{tile['title']} ends at {tile['bottom']} of {height} px")
        if tile["word"] not in ("strong", "fair", "weak", "unsure"):
            return failed(f"{tile['title']} is {tile['word']!r}")
        if not re.fullmatch(r"[\d.]+ \S+( \S+)?", tile["value"]) or not re.search(r" of |not comparable", tile["standing"]):
            return failed(f"{tile['title']}: {tile['value']!r}, {tile['standing']!r}")
    if contradiction := contradicted(seen):
        return failed(contradiction)
    if width > 1000 and seen["ends"] > height:
        return failed(f"the sentences end at {seen['ends']} of {height} px")
    if not all(any(label in line for line in seen["runs"]) for label in LABELS):
        return failed(f"it does not name the tested targets: {seen['runs']}")
    # Dark is not light with another name.
    bright = sum(seen["paper"]) > 3 * 128
    if bright != (scheme == "light"):
        return failed(f"in {scheme} the paper is {seen['paper']}")
    return passed(", ".join(f"{tile['title'].lower()} {tile['value']}" for tile in seen["tiles"]))


def contradicted(seen: dict) -> str | None:
    """Returns how the sentences of a first screen contradict its tiles, if they do."""
    sentences = dict(words.split(": ", 1) for words in seen["sentences"])
    if list(sentences) != ["Strong", "Weak", "Distrust"]:
        return f"the sentences are {seen['sentences']}"
    for tile in seen["tiles"]:
        clause = f"{tile['title'].lower()} {tile['value']} ("
        for word in ("strong", "weak"):
            if (clause in sentences[word.title()]) != (tile["word"] == word):
                return f"{tile['title']} is {tile['word']}, and {word}: {sentences[word.title()]}"
        if tile["word"] == "unsure" and f"{tile['title'].lower()} is unsure: " not in sentences["Distrust"]:
            return f"{tile['title']} is unsure, and distrust: {sentences['Distrust']}"
    return None


def busy_machine(place: Place) -> Outcome:
    """The number of disturbed points comes first in Distrust, two levels are two, and no model is beside a memory copy
    in rank."""
    beside_models(place)
    measured = next((SHARED / "models").glob("software*")) / "results.jsonl"
    planted = place.directory / "busy" / "results.jsonl"
    planted.parent.mkdir()
    levels = [137.0, 347.0, 138.0, 347.0, 136.0]
    lines, points, busy = [], set(), set()
    for record in records(measured):
        if record["record"] == "run":
            record["launches"] = len(levels)
        if record["record"] != "point":
            lines.append(record)
            continue
        key = record["benchmark"] + json.dumps(record["parameters"], sort_keys=True)
        points.add(key)
        disturbed = record["benchmark"].startswith("bandwidth.")
        busy.update({key} if disturbed else set())
        record["conduct"]["disturbed"] = 0.9 if disturbed else 0.0
        kept = [warning for warning in record["warnings"] if warning["code"] != "disturbed"]
        record["warnings"] = kept + ([{"code": "disturbed", "share": 0.9}] if disturbed else [])
        for launch, level in enumerate(levels):
            again = json.loads(json.dumps(record)) | {"launch": launch}
            if record["benchmark"] == "latency.write":
                again["metrics"][0]["value"] = level
            lines.append(again)
    planted.write_text("".join(json.dumps(line) + "\n" for line in lines))
    models = sorted(str(path) for path in (SHARED / "models").glob("model-*"))
    report = place.directory / "report.html"
    ended = place.run("report", [str(VERBENA), "report", str(planted.parent), *models, "--out", str(report)], SECONDS)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    with Browser(place.directory) as browser:
        browser.show(report, *SCREENS[0])
        seen = browser.evaluate(page.FIRST_SCREEN)
    if contradiction := contradicted(seen):
        return failed(contradiction)
    distrust = seen["sentences"][2]
    if not distrust.startswith(f"Distrust: machine busy at {len(busy)} of {len(points)} points: "):
        return failed(f"{len(busy)} of {len(points)} points were disturbed, and the page says {distrust}")
    latency = seen["tiles"][0]
    if not latency["spread"].startswith("137 ns in 3 launches, 347 ns in 2") or latency["word"] != "unsure":
        return failed(f"of latencies at two levels the page says {latency}")
    for tile in seen["tiles"]:
        if "within one host" not in tile["of"] or "not comparable" not in tile["standing"]:
            return failed(f"{tile['title']} of a memory copy: {tile['of']!r}, {tile['standing']!r}")
    return passed(distrust)


def on_paper(place: Place) -> Outcome:
    """It prints on few pages."""
    report = beside_models(place)
    with Browser(place.directory) as browser:
        browser.show(report, *SCREENS[0])
        paper = browser.printed()
        browser.print_on_screen()
        colourless = browser.evaluate(boxes.COLOURLESS)
    (place.directory / "report.pdf").write_bytes(paper)
    if colourless:
        return failed(f"paper shows {colourless} dots and bars without their colour")
    pages = len(re.findall(rb"/Type\s*/Page\b", paper))
    if not 2 <= pages <= PAGES:
        return failed(f"{pages} pages")
    return passed(f"{pages} pages")


def kinds(run: Path) -> dict[str, set]:
    """By benchmark the kinds of curves over sizes that a run has points of, of the unit that is drawn."""
    found: dict[str, set] = defaultdict(set)
    for record in records(run / "results.jsonl"):
        if record["record"] == "point" and "size" in record["parameters"]:
            words = {name: value for name, value in record["parameters"].items() if name not in NO_KIND}
            found[record["benchmark"]].add(json.dumps(words, sort_keys=True))
    return found


def every_series(place: Place) -> Outcome:
    """As many lines as the records have series, each in the colour of its run and named, in every chart over sizes."""
    report = beside_models(place)
    runs = {records(path)[0]["label"]: path.parent for path in (SHARED / "models").glob("*/results.jsonl")}
    if sorted(runs) != sorted(LABELS):
        return failed(f"the runs are {sorted(runs)}")
    with Browser(place.directory) as browser:
        browser.show(report, *SCREENS[0])
        drawn = browser.evaluate(page.LINES)
        questions = browser.evaluate(page.QUESTIONS)
    charts = 0
    for benchmark, panels in drawn.items():
        by_size = [panel for panel in panels if panel["axis"] == "message size"]
        charts += len(by_size)
        for label, directory in runs.items():
            expected = len(kinds(directory)[benchmark]) if by_size else 0
            lines = [line for panel in by_size for line in panel["lines"] if line.split(":")[0] == label]
            if len(lines) != expected:
                return failed(f"{benchmark}: {len(lines)} lines of {label}, its records have {expected}", str(panels))
        for panel in panels:
            if unnamed := [name for name in panel["lines"]
                           if not any(end and stands_for(end, name) for end in panel["names"])]:
                return failed(f"{benchmark}: {unnamed} have no name beside them", str(panel["names"]))
    if charts < 10:
        return failed(f"only {charts} charts over sizes")
    for asked, labels in questions.items():
        if labels != LABELS:
            return failed(f"{asked} has lines of {labels}, not of {LABELS}")
    return passed(f"{charts} charts over sizes, {len(questions)} questions")


def stands_for(short: str, name: str) -> bool:
    """Whether a name, perhaps without its middle, is the beginning of a longer one."""
    first, _, last = short.partition("\u2026")
    return name.startswith(first) and last in name[len(first):]


def script(place: Place) -> Outcome:
    """The cursor shows the values of all lines of a panel, a heading orders its table by value, and a word filters the
    rows."""
    report = beside_models(place)
    with Browser(place.directory) as browser:
        browser.show(report, *SCREENS[0])
        x, y = browser.evaluate(page.PANEL)
        browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        readout = browser.evaluate("document.querySelector('.readout').innerText")
        ordered = browser.evaluate(page.ORDERED)
        kept, rows = browser.evaluate(page.FILTERED)
    if not all(f"{label}: " in readout for label in LABELS):
        return failed(f"the readout lacks runs: {readout!r}")
    if len(ordered) < 5 or ordered != sorted(ordered):
        return failed(f"the rows are not in order: {ordered}")
    if not 0 < kept < rows:
        return failed(f"of {rows} rows a word keeps {kept}")
    return passed(f"{len(readout.splitlines())} lines read, {len(ordered)} rows in order, {kept} of {rows} kept")


def without_scripts(place: Place) -> Outcome:
    """A browser without scripts shows the same text and drawings, and no control without effect."""
    report = beside_models(place)
    with Browser(place.directory) as browser:
        browser.show(report, *SCREENS[0])
        with_scripts = browser.evaluate(page.READ)
        browser.without_scripts()
        browser.show(report, *SCREENS[0])
        without = browser.evaluate(page.READ)
    if not with_scripts.pop("controls") or without.pop("controls"):
        return failed("there are controls without scripts, or none with them")
    if with_scripts != without or not without["drawings"] or not without["titles"]:
        return failed(f"another page: {len(without['text'])} characters instead of {len(with_scripts['text'])}")
    return passed(f"{len(without['text'])} characters, {without['drawings']} drawings")


def copied(place: Place) -> Outcome:
    """Each drawing has its figures as text; a click selects all of it, and it has the values of the records."""
    report = beside_models(place)
    point = next(record for record in records(next((SHARED / "models").glob("software*")) / "results.jsonl")
                 if record.get("benchmark") == "bandwidth.read" and record["parameters"]["size"] == 4096)
    with Browser(place.directory) as browser:
        browser.show(report, *SCREENS[0])
        missing = browser.evaluate(page.WITHOUT_TEXT)
        selected = browser.evaluate(page.SELECTED)
    if missing:
        return failed(f"no text to copy: {missing}")
    lines = selected.splitlines()
    if not lines[0].startswith("run\tparameters\tmetric"):
        return failed(f"the text begins with {lines[0]!r}")
    value = str(point["metrics"][0]["value"]).removesuffix(".0")
    if not any(value in line.split("\t") for line in lines):
        return failed(f"{value} of the records is not in the selected text", selected[:2000])
    return passed(f"{len(lines)} lines by one click")


def two_runs(place: Place) -> Outcome:
    """The first is the baseline: ratios of the figures that both have, changed ones first, and both in every chart."""
    few = ["latency.write", "bandwidth.write"]
    runs = [SHARED / "two" / name for name in ("a", "b")]
    for run in runs:
        clear(run)
    ended = place.run("bench", [str(VERBENA), "bench", *few, "--quick", "--launches", "3", "--out", str(runs[0])], SECONDS)
    first, second = (run / "results.jsonl" for run in runs)
    if not first.exists():
        return failed("there is no run", ended.evidence())
    runs[1].mkdir(parents=True, exist_ok=True)
    plant(first, second, lambda point: 1.5 if point["benchmark"] == "latency.write" else 1)
    plant(first, first)
    report = place.directory / "report.html"
    ended = place.run("report", [str(VERBENA), "report", *map(str, runs), "--out", str(report)], SECONDS)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    with Browser(place.directory) as browser:
        browser.show(report, *SCREENS[1])
        width = browser.evaluate("document.documentElement.scrollWidth")
        ratios = browser.evaluate(page.RATIOS)
        questions = browser.evaluate(page.QUESTIONS)
    if width > SCREENS[1][0]:
        return failed(f"the page is {width} px wide")
    if not ratios or "latency.write" not in ratios[0]["key"] or ratios[0]["verdict"] != "worse":
        return failed("a latency half as long again is not the first change", str(ratios[:5]))
    # Equal labels would be ambiguous.
    if any(labels != ["software", "software (2)"] for labels in questions.values()):
        return failed(f"not both runs are drawn: {questions}")
    return passed(f"{len(ratios)} ratios, first {ratios[0]['key']}")


def offline(place: Place) -> Outcome:
    """No address outside, and a policy that forbids one, and any script but the page's own."""
    report = beside_models(place)
    text = report.read_text()
    if outside := re.findall(r"https?://[^\"' <]+|url\(|@import|\ssrc=", text):
        return failed(f"the report refers outside: {outside[:3]}")
    if "default-src 'none'" not in text:
        return failed("it has no policy against loading anything")
    own = text.split("<script>")[1].split("</script>")[0]
    named = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
    if text.count("<script") != 1 or f"script-src 'sha256-{named}'\"" not in text:
        return failed(f"the policy does not name the page's script alone, sha256-{named}")
    if not re.search(r"<footer>Written by Verbena \d+\.\d+\.\d+\b", text):
        return failed("it does not say which version wrote it")
    if len(text) > 5_000_000:
        return failed(f"{len(text)} bytes")
    return passed(f"{len(text) // 1000} kB")


def application(place: Place) -> Outcome:
    """A recorded program's page: the lengths of its bars are those of the replay, each beside its time, and waiting is
    the replay's."""
    if missing := absent(RECORDING):
        return skipped(", ".join(f"{tool.name} ({tool.package})" for tool in missing))
    report = replay(place)
    told = json.loads(report.with_suffix(".out").read_text())
    for width, height in SCREENS:
        with Browser(place.directory) as browser:
            browser.show(report, width, height)
            browser.picture(place.directory / f"{width}.png")
            bars = browser.evaluate(page.STACKS)
            waiting = browser.evaluate(page.WAITING)
        # The page's column has the time for other ranks; the JSON object has all waiting, and of it that for the wire.
        means = [sum(rank["waiting"] - rank["wire"] for rank in one["by_rank"]) / len(one["by_rank"]) for one in told]
        if len(waiting) != len(means) or any(abs(a / b - 1) > 0.001 for a, b in zip(waiting, means)):
            return failed(f"the page has waiting of {waiting}, the replays of {means}")
        # A chart a trace, and one of each system's ranks.
        charts = [chart for chart in bars if chart["names"] == FOUR]
        if len(charts) != TRACES or len(bars) != TRACES * (1 + len(FOUR)):
            return failed(f"{len(bars)} charts, {len(charts)} of them of systems")
        for chart, replayed in zip(charts, (told[:4], told[4:])):
            long = [one["nanoseconds"] / replayed[0]["nanoseconds"] for one in replayed]
            if any(abs(drawn / chart["lengths"][0] / wanted - 1) > 0.01 for drawn, wanted in zip(chart["lengths"], long)):
                return failed(f"bars of {chart['lengths']}, and times as {long}")
    return passed(f"{len(bars)} charts")
