"""Imports of time-independent traces of SimGrid: they have the messages and bytes of their lines."""

from __future__ import annotations

import json
from pathlib import Path

from harness import requirement
from harness.build_tree import VERBENA
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from harness.requirement import Tool

HERE = Path(__file__).resolve().parent
TOOLS = [Tool("smpirun", "libsimgrid-dev"), Tool("smpicc", "libsimgrid-dev")]
SECONDS = 120
WRONG_INPUT = 2
RANKS = 4
MODEL = "model:connectx-qdr"
RATE = 1e9
# Bytes of the datatypes of the program's messages, by SimGrid's number.
SIZES = {0: 8, 1: 4, 2: 1, 3: 2, 4: 8, 5: 4}
PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="zone" routing="Full">
<cluster id="cluster" prefix="node" suffix="" radical="0-3" speed="1Gf" bw="1GBps" lat="1us"/></zone></platform>
"""


def traced(place: Place) -> Outcome:
    """A program that SimGrid traced is replayed with the ranks, messages, bytes and computing of the trace's lines."""
    if lacking := requirement.absent(TOOLS):
        return skipped(f"this machine lacks {', '.join(sorted({tool.package for tool in lacking}))}")
    folder = place.directory
    (folder / "platform.xml").write_text(PLATFORM)
    (folder / "hosts").write_text("".join(f"node{rank}\n" for rank in range(RANKS)))
    trace, program = folder / "ti.txt", folder / "program"
    for words in (["smpicc", "-O1", str(HERE / "simgrid.c"), "-o", str(program)],
                  ["smpirun", "-trace-ti", f"--cfg=tracing/filename:{trace}", f"--cfg=smpi/host-speed:{RATE:.0f}f",
                   f"--cfg=smpi/tmpdir:{folder}", "-np", str(RANKS), "-platform", str(folder / "platform.xml"),
                   "-hostfile", str(folder / "hosts"), str(program)]):
        ended = place.run(words[0], words, SECONDS)
        if not ended.succeeded:
            return failed(ended.describe(), ended.evidence())
    lines = [line.split() for name in trace.read_text().split() for line in Path(name).read_text().splitlines() if line]
    lengths = [sent(words) for words in lines]
    expected = {"ranks": RANKS, "messages": sum(length is not None for length in lengths),
                "bytes": sum(length or 0 for length in lengths)}
    computing = sum(float(words[2]) for words in lines if words[1] == "compute") / RATE * 1e9
    unrated = place.run("unrated", [str(VERBENA), "import", str(trace), "--out", str(folder / "unrated")], SECONDS)
    if unrated.status != WRONG_INPUT or "--flops-per-second" not in unrated.output:
        return failed("a missing rate is not reported", unrated.evidence())
    ended = place.run("import", [str(VERBENA), "import", str(trace), "--out", str(folder / "imported"),
                                 "--flops-per-second", f"{RATE:.0f}"], SECONDS)
    if not ended.succeeded or f"{RANKS} ranks" not in ended.output:
        return failed(ended.describe(), ended.evidence())
    ended = place.run("replay", [str(VERBENA), "replay", str(folder / "imported"), "--on", MODEL, "--json"], SECONDS)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    told = json.loads(ended.output)
    if found := {what: told[what] for what in expected if told[what] != expected[what]}:
        return failed(f"replayed: {found}; the lines have {expected}", ended.evidence())
    replayed = sum(rank["computing"] for rank in told["by_rank"])
    if abs(replayed - computing) > 2 * RANKS:
        return failed(f"the ranks compute {replayed} ns, and not {computing}", ended.evidence())
    return passed(f"{expected['messages']} messages, {expected['bytes']} B")


def sent(words: list[str]) -> int | None:
    """The bytes of the message that a line sends; none for other lines and for messages to MPI_PROC_NULL."""
    if words[1] == "sendRecv":
        return int(words[2]) * SIZES[int(words[6])]
    if words[1] in ("send", "isend", "ISsend") and words[2] != "-333":
        return int(words[4]) * SIZES[int(words[5])]
    return None
