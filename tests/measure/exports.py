"""Figures compared with an adapter's expected ones, and the same figures for other programs, read by third-party
parsers."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
from pathlib import Path

from harness.build_tree import VERBENA
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from rfio.python_package import PYTHON

SECONDS = 300
# As perftest prints them on nodes with ConnectX-6 at HDR.
LATENCY = """\
                    RDMA_Write Latency Test
 Dual-port       : OFF\t\tDevice         : mlx5_0
 Number of qps   : 1\t\tTransport type : IB
 Connection type : RC\t\tUsing SRQ      : OFF
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
 8       1000          {least:.2f}           {most:.2f}         {typical:.2f}     \t       {typical:.2f}        \t0.05   \t\t{most:.2f}    \t\t{most:.2f}
"""
BANDWIDTH = """\
                    RDMA_Write BW Test
 Number of qps   : 1\t\tTransport type : IB
 Connection type : RC\t\tUsing SRQ      : OFF
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 1048576    5000             {average}            {average}\t\t   {rate}
"""
# Means something to each of the formats, and to a spreadsheet.
LABEL = "=1|\"b\",\\<i>*_x_*"
PARSE = """
import json, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as old
page = sys.stdin.read()
families = list(text_string_to_metric_families(page))
assert all(family.type == "gauge" and family.documentation for family in families)
assert {s.name for f in families for s in f.samples} == {s.name for f in old(page) for s in f.samples}
assert all(s.timestamp is None for f in families for s in f.samples)
print(json.dumps([[s.name, s.labels, s.value, f.unit] for f in families for s in f.samples]))
"""


def table(place: Place, name: str, typical: float, gigabits: float) -> Path:
    """A table of latency and bandwidth."""
    file = place.directory / name
    rate = gigabits * 1e9 / 8 / 1048576 / 1e6
    latency = LATENCY.format(least=0.9 * typical, typical=typical, most=2 * typical)
    file.write_text(latency + BANDWIDTH.format(average=f"{gigabits:.2f}", rate=f"{rate:.6f}"))
    return file


def expected(place: Place) -> Outcome:
    """Good figures of an adapter pass, poor and impossible ones fail, and unknown names are refused with the known
    ones."""
    page = str(place.directory / "page.html")
    for name, typical, gigabits, status, words in (
            ("good.txt", 1.6, 196.5, 0, ["2 pass, 0 fail, 0 without expectation", "published: 1.88 us (perftest_a100"]),
            ("fast.txt", 0.4, 196.5, 0, ["2 pass", "better than expected"]),
            ("slow.txt", 4.0, 196.5, 1, ["1 pass, 1 fail", "% above the range"]),
            ("thin.txt", 1.6, 98.0, 1, ["1 pass, 1 fail", "% below the range"]),
            ("wide.txt", 1.6, 390.0, 1, ["1 pass, 1 fail", "impossible on this link"])):
        told = place.run("report", [str(VERBENA), "report", str(table(place, name, typical, gigabits)), "--expect", "connectx6-hdr",
                                    "--out", page], SECONDS)
        missing = [one for one in [*words, "% interval from"] if one not in told.output]
        if told.status != status or missing:
            return failed(f"{name}: {told.describe()}, expected exit {status} and {missing}", told.evidence())
    for system, why in (("connectx6-hrd", 'did you mean "connectx6-hdr"?'), ("auto", "does not name its adapter")):
        told = place.run("report", [str(VERBENA), "report", str(place.directory / "good.txt"), "--expect", system, "--out", page], 20)
        if told.status != 2 or why not in told.output or "infinihost3-ddr" not in told.output:
            return failed(f"{system}: {told.describe()}", told.evidence())
    refused = place.run("evaluate", [str(VERBENA), "evaluate", "--quick", "--expect", "auto", "--out", str(place.directory / "no")], 20)
    if refused.status != 2 or "no hardware adapter" not in refused.output or (place.directory / "no").exists():
        return failed("an evaluation whose system cannot be found is not refused at once", refused.evidence())
    return passed("connectx6-hdr")


def run_of(place: Place) -> tuple[Path, Outcome | None]:
    """Makes a short real run with a malicious label; returns its directory, and the failure, if any."""
    out = place.directory / "out"
    ended = place.run("bench", [str(VERBENA), "bench", "latency.write", "--quick", "--sizes", "8,64", "--transports", "rc",
                                "--launches", "2", "--label", LABEL, "--out", str(out)], SECONDS)
    return out, None if ended.succeeded else failed(ended.describe(), ended.evidence())


def exported(place: Place) -> Outcome:
    """A third-party parser reads each format, with the label and the figures of the run."""
    out, wrong = run_of(place)
    if wrong:
        return wrong
    texts: dict[str, str] = {}
    again = table(place, "again.txt", 4.0, 196.5)
    for name in ("csv", "jsonl", "markdown", "openmetrics"):
        # Two runs, of which one fails.
        command = [str(VERBENA), "report", str(out), str(again), "--format", name, "--expect", "connectx6-hdr"]
        told = place.run(name, command, SECONDS)
        file = place.directory / "metrics" / f"run.{name}"
        file.parent.mkdir(exist_ok=True)
        file.write_text("what was there before")
        before = file.stat().st_ino
        kept = place.run(name, [*command, "--out", str(file)], SECONDS)
        if told.status != 1 or kept.status != 1 or file.read_text() != told.output:
            return failed(f"{name}: {told.describe()}, {kept.describe()}", told.evidence() + kept.evidence())
        if file.stat().st_ino == before or {one.name for one in file.parent.iterdir()} != {f"run.{one}" for one in [*texts, name]}:
            return failed(f"{name} was not written beside and renamed")
        texts[name] = told.output
    for look in (table_of, lines_of, markdown_of):
        if problem := look(texts):
            return failed(problem, "\n".join(texts.values()))
    return metrics_of(place, texts["openmetrics"])


def table_of(texts: dict[str, str]) -> str | None:
    """Returns an error in the table, or None."""
    rows = list(csv.DictReader(io.StringIO(texts["csv"], newline=""), strict=True))
    first = rows[0]
    if any(None in row or None in row.values() for row in rows):
        return "not every line has every column"
    # The apostrophe keeps a spreadsheet from computing it.
    if first["run"] != "'" + LABEL or first["record"] != "headline" or first["name"] != "latency" or not 10 < float(first["value"]) < 1e6:
        return f"the first figure is {first}"
    verdicts = [(row["name"], row["verdict"]) for row in rows if row["verdict"]]
    if verdicts != [("latency", "no expectation"), ("latency", "fail"), ("bandwidth", "pass")]:
        return f"the verdicts are {verdicts}"
    points = {(row["run"], row["parameters"]) for row in rows if row["record"] == "figure" and row["name"] == "latency.write"}
    return None if len(points) == 3 else f"the points are {points}"


def lines_of(texts: dict[str, str]) -> str | None:
    """Returns an error in the lines of JSON, or None."""
    lines = [json.loads(line) for line in texts["jsonl"].splitlines()]
    runs = [line for line in lines if line["record"] == "run"]
    if [run["run"] for run in runs] != [LABEL, "again"] or [run["kind"] for run in runs] != ["host", "imported"]:
        return f"the runs are {runs}"
    headline = next(line for line in lines if line["record"] == "headline")
    rows = list(csv.DictReader(io.StringIO(texts["csv"], newline="")))
    if headline["value"] != float(rows[0]["value"]) or len(headline["launches"]) != 2:
        return f"the headline is {headline}"
    ranges = [line["expected"]["ranges"] for line in lines if line.get("expected")]
    return None if len(ranges) == 3 and all(one["source"] for found in ranges for one in found) else f"the ranges are {ranges}"


def markdown_of(texts: dict[str, str]) -> str | None:
    """Returns an error in the tables of Markdown by GitHub's rules for tables, or None."""
    blocks = re.findall(r"(?:^\|.*\n)+", texts["markdown"], re.M)
    if len(blocks) != 4:
        return f"there are {len(blocks)} tables and not two a run"
    for block in blocks:
        rows = [re.split(r"(?<!\\)\|", line.strip())[1:-1] for line in block.splitlines()]
        if len({len(row) for row in rows}) != 1 or not all(re.fullmatch(r"-+", cell.strip()) for cell in rows[1]):
            return f"no table: {block}"
    escaped = re.sub(r"([\\|`*_\[\]<>~&#!])", r"\\\1", LABEL)
    return None if texts["markdown"].startswith(f"## {escaped}\n") else "the label is not escaped"


def metrics_of(place: Place, page: str) -> Outcome:
    """prometheus_client, as OpenMetrics and as node_exporter's text format, and promtool accept the metrics."""
    parsed = subprocess.run([PYTHON, "-c", PARSE], input=page, capture_output=True, text=True, check=False)
    if "No module named 'prometheus_client'" in parsed.stderr:
        return skipped("needs the Python package prometheus_client; `setup/python test` makes an environment with it")
    if parsed.returncode:
        return failed("the metrics are not OpenMetrics", parsed.stderr + page)
    found = {(name, labels["run"], labels.get("figure")): (value, unit) for name, labels, value, unit in json.loads(parsed.stdout)}
    value, unit = found["verbena_latency_seconds", LABEL, None]
    if not 1e-8 < value < 1e-3 or unit != "seconds":
        return failed(f"the latency is {value} {unit}", page)
    passes = {key[1:]: value for key, (value, _) in found.items() if key[0] == "verbena_expectation_passed"}
    if passes != {("again", "latency"): 0, ("again", "bandwidth"): 1}:
        return failed(f"the passed ones are {passes}", page)
    if (promtool := shutil.which("promtool")) is None:
        return passed("without promtool")
    file = place.directory / "metrics" / "run.openmetrics"
    checked = place.run("promtool", ["sh", "-c", f"'{promtool}' check metrics < '{file}'"], 60)
    return passed() if checked.succeeded else failed("promtool refuses the metrics", checked.evidence())
