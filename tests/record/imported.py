"""Imports of archives in OTF2: they have the written calls, and are replayed as the same program's recording is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from harness import c_program, requirement
from harness.build_tree import ROOT, VERBENA
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from harness.process import Ended
from harness.requirement import Tool

HERE = Path(__file__).resolve().parent
# Debian's, for which the module is packaged.
PYTHON = "/usr/bin/python3"
TOOLS = [Tool("otf2-print", "otf2-tools"), Tool("/usr/lib/python3/dist-packages/otf2/__init__.py", "python3-otf2")]
SECONDS = 120
WRONG_INPUT, ENVIRONMENT = 2, 3
MODEL = "model:connectx-ddr"
# Messages and bytes that the ranks send in a round: three sizes in both directions, and one round the ring. There are
# ten rounds.
MESSAGES, BYTES = 10 * (6 + 4), 10 * (2 * (1 + 1000 + 100000) + 4 * 20000)
COMPUTING = 2000
# Four ranks, each off once in a round.
OFF = "in 40 spans"
# Archives that others made with Score-P, where the checkout has them beside it.
REAL = ROOT.parent / "shared" / "data" / "otf2"


def beside_recorded(environment: dict[str, str], place: Place) -> Outcome:
    """An archive of the program is replayed as its recording is, where computing takes no time; its own computing is
    the written one."""
    if lacking := requirement.absent(TOOLS):
        return skipped(f"this machine lacks {', '.join(tool.package for tool in lacking)}")
    archive, trace, recorded = (place.directory / name for name in ("archive", "imported", "recorded"))
    written = place.run("archive", [PYTHON, str(HERE / "archive.py"), str(archive), str(COMPUTING)], SECONDS)
    if not written.succeeded:
        return failed(written.describe(), written.evidence())
    calls, *computing = map(int, written.output.split())
    ended = take(place, archive, trace)
    expected = [f"4 ranks, {calls} calls, {MESSAGES} messages", "4 locations", OFF]
    if not ended.succeeded or any(part not in ended.output for part in expected):
        return failed(ended.describe(), ended.evidence())
    told = replay(place, trace)
    if [told["ranks"], told["messages"], told["bytes"]] != [4, MESSAGES, BYTES]:
        return failed(f"{told['messages']} messages of {told['bytes']} bytes, and not {MESSAGES} of {BYTES}", ended.evidence())
    computed = [parts["computing"] for parts in told["by_rank"]]
    if any(abs(one - other) > 1 for one, other in zip(computed, computing)):
        return failed(f"ranks computed {computed} ns, and not {computing}")
    try:
        program = c_program.compile_program(HERE / "imported.c", libraries=(), compiler="mpicc.openmpi")
    except c_program.DoesNotCompile as error:
        return failed("does not compile", str(error))
    ended = place.run("record", [str(VERBENA), "record", "--out", str(recorded), "--", "mpirun.openmpi", "--oversubscribe", "-n", "4",
                                 str(program)], SECONDS, **environment)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    ours, its = (replay(place, one, "--compute-scale", "0.001") for one in (trace, recorded))
    for what in ("messages", "bytes", "collective_bytes"):
        if ours[what] != its[what]:
            return failed(f"{ours[what]} {what} are imported, and {its[what]} recorded")
    if abs(ours["nanoseconds"] / its["nanoseconds"] - 1) > 0.02:
        return failed(f"the imported one takes {ours['nanoseconds']} ns, and the recorded one {its['nanoseconds']}")
    if wrong := refused(place, archive):
        return wrong
    return passed(f"{ours['nanoseconds'] / 1e6:.3f} ms imported, {its['nanoseconds'] / 1e6:.3f} ms recorded")


def real(place: Place) -> Outcome:
    """Archives of Score-P are imported with the messages and bytes that OTF2's own reader finds."""
    if lacking := requirement.absent(TOOLS):
        return skipped(f"this machine lacks {', '.join(tool.package for tool in lacking)}")
    archives = sorted(REAL.glob("*/traces.otf2"))
    if not archives:
        return skipped("no archives of others lie beside the checkout")
    for archive in archives:
        name = archive.parent.name
        counted = place.run(f"count-{name}", [PYTHON, str(HERE / "counts.py"), str(archive)], SECONDS)
        if not counted.succeeded:
            return failed(counted.describe(), counted.evidence())
        ended = take(place, archive, place.directory / name)
        if not ended.succeeded:
            return failed(ended.describe(), ended.evidence())
        told = replay(place, place.directory / name)
        if [told["ranks"], told["messages"], told["bytes"]] != list(map(int, counted.output.split())):
            return failed(f"{name}: {told['messages']} messages of {told['bytes']} bytes; OTF2's reader: {counted.output}")
    return passed(f"{len(archives)} archives")


def refused(place: Place, archive: Path) -> Outcome | None:
    """No printer, no file, no archive, a truncated one, a directory that exists: each error names the reason or the remedy."""
    empty = place.directory / "empty-directory"
    empty.mkdir()
    cut = place.directory / "cut"
    shutil.copytree(archive, cut)
    largest = max((cut / "traces").iterdir(), key=lambda file: file.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:100])
    for name, source, status, told, environment in [
            ("none", archive, ENVIRONMENT, "otf2-tools", {"PATH": "/nowhere"}),
            ("absent", place.directory / "nothing", WRONG_INPUT, "No such file", {}),
            ("empty", empty, WRONG_INPUT, "is not an OTF2 archive", {}),
            ("torn", cut, WRONG_INPUT, "otf2-print cannot read", {}),
            ("imported", archive, WRONG_INPUT, "already holds a trace", {}),
    ]:
        ended = take(place, source, place.directory / name, **environment)
        if ended.status != status or told not in ended.output:
            return failed(f"{told!r} is not reported with exit {status}", ended.evidence())
    return None


def take(place: Place, archive: Path, trace: Path, **environment: str) -> Ended:
    """Imports an archive."""
    return place.run("import", [str(VERBENA), "import", str(archive), "--out", str(trace)], SECONDS, **environment)


def replay(place: Place, trace: Path, *words: str) -> dict:
    """Returns the replay's result."""
    ended = place.run("replay", [str(VERBENA), "replay", str(trace), "--on", MODEL, "--json", *words], SECONDS)
    return json.loads(ended.output)
