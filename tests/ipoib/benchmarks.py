"""`verbena bench ip.*`: TCP over interfaces of the software adapter, and on models, in one report."""

from __future__ import annotations

import json

from harness.build_tree import VERBENA
from harness.outcome import Outcome, failed, passed
from harness.place import Place

SECONDS = 120
SIZES = [1, 4096, 70000]
NAMES = {"ip.latency": "one-way-latency", "ip.stream": "bandwidth", "ip.stream-both": "bandwidth", "ip.datagrams": "message-rate"}
# Models of the kernel's stack have no UDP, whose datagrams have a longest length.
UNMODELLED, LONGEST = "ip.datagrams", 65507
# Modes of the interfaces of each target.
TARGETS = {"software": {"datagram", "connected"}, "model-connectx-qdr-fibre": {"connected"}}


def measured(place: Place) -> Outcome:
    """Every size and mode has a checked figure on both targets, and the report shows them side by side."""
    out = place.directory / "ip"
    ended = place.run("bench", [str(VERBENA), "bench", "ip.", "--quick", "--sizes", ",".join(map(str, SIZES)), "--on", "software",
                                "--on", "model:connectx-qdr-fibre", "--out", str(out)], SECONDS)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    for target, modes in TARGETS.items():
        records = [json.loads(line) for line in (out / target / "results.jsonl").read_text().splitlines()]
        points = [one for one in records if one["record"] == "point"]
        found = sorted((one["benchmark"], one["parameters"]["mode"], one["parameters"]["size"]) for one in points)
        is_modelled = target.startswith("model-")
        wanted = sorted((name, mode, size) for name in NAMES for mode in modes for size in SIZES
                        if name != UNMODELLED or not is_modelled and size <= LONGEST)
        if found != wanted:
            return failed(f"{target} has the points {found}, not {wanted}", ended.evidence())
        left_out = [one for one in records if one["record"] == "failure"]
        if any(one["benchmark"] != UNMODELLED or not one["unsupported"] for one in left_out) or len(left_out) != (1 if is_modelled else len(modes)):
            return failed(f"{target}: {left_out}", ended.evidence())
        for one in points:
            values = {metric["name"]: metric["value"] for metric in one["metrics"]}
            # On a busy machine both ends may not be active together: then there is no rate of both.
            value = values.get(NAMES[one["benchmark"]], values.get("median-process-bandwidth", 0))
            if value <= 0 or target == "software" and not one["conduct"]["validated"]:
                return failed(f"{target}: {one}")
    report = (out / "report.html").read_text()
    if not all(name in report for name in (*NAMES, "connectx-qdr-fibre")):
        return failed("the report lacks a benchmark or a target")
    return passed(f"{len(NAMES) * len(SIZES)} points on {len(TARGETS)} targets")


def unavailable(before: str, text: str, place: Place) -> Outcome:
    """Where interfaces cannot be made, the benchmarks are unsupported for that reason."""
    script = f"{before}; exec '{VERBENA}' bench ip. --quick --sizes 1"
    ended = place.run("forbidden", ["unshare", "-Urm", "sh", "-ec", script], SECONDS)
    if ended.status != 1 or ended.output.count(text) < len(NAMES):
        return failed(f"{ended.describe()}: the reason is missing", ended.evidence())
    return passed()


# Verbs of the table beside IP, and the published figures of ConnectX QDR.
VERBS = ["latency.write", "latency.send", "bandwidth.send", "bandwidth.write-both"]
PUBLISHED = {("latency, one way", "TCP, connected mode"): "50 us", ("latency, one way", "RC, write"): "1.5 us", ("rate, one way", "RC, send"): "2.75 GB/s",
             ("rate, both ways", "TCP, connected mode"): "4 GB/s"}
# Lines of the software adapter; those that models have, too. The suite measures rates of verbs over RC alone.
MEASURED = {("latency, one way", name) for name in ("TCP, connected mode", "TCP, datagram mode", "RC, write", "UC, write", "RC, send", "UC, send", "UD, send")} | {
    ("rate, one way", name) for name in ("TCP, connected mode", "TCP, datagram mode", "UDP, connected mode", "UDP, datagram mode", "RC, send")} | {
    ("rate, both ways", name) for name in ("TCP, connected mode", "TCP, datagram mode", "RC, write")}


def compared(place: Place) -> Outcome:
    """One report has IP beside RC, UC and UD: published, predicted and measured."""
    out = place.directory / "table"
    ended = place.run("table", [str(VERBENA), "bench", "ip.", *VERBS, "--quick", "--sizes", "8,64K", "--inline", "0", "--on", "software",
                                "--on", "model:connectx-qdr-fibre", "--out", str(out)], 2 * SECONDS)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    ended = place.run("markdown", [str(VERBENA), "report", str(out), "--format", "markdown"], SECONDS)
    behind = ended.output.replace("\\", "").split("## What does IP cost over the adapter?")
    if not ended.succeeded or len(behind) != 2:
        return failed("the report has no table of IP", ended.evidence())
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in behind[1].splitlines() if line.startswith("| ")]
    heading, *lines = rows
    columns = [next((at for at, cell in enumerate(heading, start=len(rows[1]) - len(heading)) if word in cell), None) for word in ("published", "measured", "predicted")]
    if None in columns:
        return failed(f"the heading is {heading}")
    published, measured_at, predicted = columns
    found = {(line[0], line[1]): line for line in lines}
    # A busy machine may have no rate of both ways together.
    if missing := {key for key in MEASURED - set(found) if key[0] != "rate, both ways"}:
        return failed(f"the table lacks {sorted(missing)}", ended.evidence())
    for key, line in found.items():
        if (wanted := PUBLISHED.get(key)) and not line[published].startswith(wanted + " (qdr_evaluation."):
            return failed(f"{key}: {line[published]} is published, not {wanted}")
        if not wanted and line[published] != "-":
            return failed(f"{key}: nothing was published, not {line[published]}")
        is_modelled = not key[1].startswith("UDP") and "datagram mode" not in key[1]
        if (line[predicted] == "-") == is_modelled or line[measured_at] == "-" and key[0] != "rate, both ways":
            return failed(f"{key}: {line}")
    page = (out / "report.html").read_text()
    if 'id="ip"' not in page or not all(value in page for value in PUBLISHED.values()):
        return failed("the page lacks the table")
    return passed(f"{len(found)} lines")
