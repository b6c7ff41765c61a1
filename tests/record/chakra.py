"""Imports of Chakra traces: they have the messages and bytes of their nodes."""

from __future__ import annotations

import json
from pathlib import Path

from harness import requirement
from harness.build_tree import VERBENA
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from harness.requirement import Tool

HERE = Path(__file__).resolve().parent
TOOLS = [Tool("/usr/lib/python3/dist-packages/google/protobuf/__init__.py", "python3-protobuf")]
SECONDS = 120
WRONG_INPUT = 2
MODEL = "model:connectx-qdr"
PYTHON = "/usr/bin/python3"


def written(place: Place) -> Outcome:
    """A trace that Google's protobuf library wrote is replayed with the messages and bytes of its nodes."""
    if lacking := requirement.absent(TOOLS):
        return skipped(f"this machine lacks {', '.join(sorted({tool.package for tool in lacking}))}")
    folder = place.directory / "trace"
    folder.mkdir()
    ended = place.run("write", [PYTHON, str(HERE / "chakra_writer.py"), str(folder)], SECONDS)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    expected = json.loads(ended.output.splitlines()[-1])
    schedule = place.directory / "ring.goal"
    command = [str(VERBENA), "import", str(folder), "--out", str(schedule)]
    ended = place.run("import", command, SECONDS)
    if not ended.succeeded or f"4 ranks, {expected['nodes']} nodes" not in ended.output:
        return failed(ended.describe(), ended.evidence())
    again = place.run("again", command, SECONDS)
    if again.status != WRONG_INPUT or "it exists" not in again.output:
        return failed("an existing file is not refused", again.evidence())
    ended = place.run("replay", [str(VERBENA), "replay", str(schedule), "--on", MODEL, "--json"], SECONDS)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    told = json.loads(ended.output)
    told = told[0] if isinstance(told, list) else told
    if found := {what: told[what] for what in ("messages", "bytes") if told[what] != expected[what]}:
        return failed(f"replayed: {found}; the nodes have {expected}", ended.evidence())
    (folder / "ring.2.et").unlink()
    ended = place.run("missing", [str(VERBENA), "import", str(folder), "--out", str(place.directory / "x")], SECONDS)
    if ended.status != WRONG_INPUT or "ring.2.et is missing" not in ended.output:
        return failed("a missing rank is not reported", ended.evidence())
    return passed(f"{expected['messages']} messages, {expected['bytes']} B")
