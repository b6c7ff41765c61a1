"""Figures of real perftest programs, as they print them and as `verbena compare` imports them."""

from __future__ import annotations

import json

from harness.build_tree import DEVICE, VERBENA, run
from harness.outcome import Outcome, failed, passed
from harness.pair import exchange, free_port
from harness.place import Place

SECONDS = 60
MEBIBYTE = 1 << 20
# A column of the last row of the first table, and what one of it is in the units of our records.
VARIANTS = [
    ("ib_write_lat", [], 4, 1000),
    ("ib_write_bw", ["--report_gbits"], 3, 1e9 / 8),
    ("ib_write_bw", ["-b", "--report-both"], 3, MEBIBYTE),
    ("ib_send_bw", ["-q", "4"], 3, MEBIBYTE),
]
NIGHTLY = [
    (tool, ["-c", transport, "-s", size, *options], column, unit)
    for tool, column, unit in (("ib_send_lat", 4, 1000), ("ib_send_bw", 3, MEBIBYTE), ("ib_write_bw", 3, MEBIBYTE))
    for transport in ("RC", "UC")
    for size in ("8", "4096", "65536")
    for options in ([], ["-I", "0"])
]


def imported(variants: list[tuple[str, list[str], int, float]], place: Place) -> Outcome:
    """The figure of each variant is the one that the program printed."""
    for number, (tool, options, column, unit) in enumerate(variants):
        port = free_port()
        command = run(tool, "-F", "-d", DEVICE, "-p", port, "-n", "1000", *options)
        done = exchange(place, command, [*command, "127.0.0.1"], port, SECONDS)
        if done.client is None or not done.client.succeeded:
            return failed(f"{tool} {options} failed", done.server.evidence())
        text = done.client.output
        rows = [line.split() for line in text[text.index("#bytes"):].splitlines()[1:] if line[1:2].isdigit()]
        file = place.directory / f"{tool}-{number}.txt"
        file.write_text(text)
        told = place.run("import", [str(VERBENA), "compare", "--all", "--json", str(file), str(file)], 20)
        if told.status != 4 or "warning" in told.output:
            return failed(f"{tool} {options}: {told.describe()}", told.evidence())
        figure, printed = json.loads(told.output)[0]["a"], float(rows[0][column]) * unit
        if abs(figure - printed) > 1e-6 * printed:
            return failed(f"{tool} {options}: {figure} was imported, {printed} printed", text)
    return passed(f"{len(variants)} outputs")
