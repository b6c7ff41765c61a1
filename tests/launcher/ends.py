"""`verbena run --stats` counts every process that used the adapter, however it ends."""

from __future__ import annotations

import json
from functools import partial

from harness import c_program
from harness.build_tree import VERBENA, run
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.place import Place
from harness.process import Ended

from .libraries import HERE

SECONDS = 30
ENDS = ("exit", "_exit", "SIGKILL", "exec")


def cases() -> list[Case]:
    """Each way to end, for a process that only registers memory and for one that also writes."""
    return [*(Case(f"--stats: ends by {how}", what, partial(counted, how, what == "writes"))
              for how in ENDS for what in ("registers", "writes")),
            Case("--stats-out", "", in_a_file)]


def counted(how: str, writes: bool, place: Place) -> Outcome:
    """The killed process is named, and its statistics are there."""
    try:
        program = c_program.compile_program(HERE / "leaves.c")
    except c_program.DoesNotCompile as error:
        return failed("does not compile", str(error))
    # A shell that stays: verbena must wait for another process than the one that is killed. `verbena info` then cleans
    # up, as the next process on the host would.
    script = f'"$@"; {VERBENA} info > /dev/null; true'
    test = f"{how}_{'writes' if writes else 'registers'}"
    ended = place.run("run", run("sh", "-c", script, "sh", program, test, stats=True), SECONDS)
    lines = [" ".join(line.split()) for line in ended.output.splitlines()]
    named = any(line.startswith("verbena: 1 process used the adapter: programs-leaves") for line in lines)
    if ended.succeeded and named and ("write_operations 10" in lines) == writes:
        return passed()
    return failed("a process or its statistics are missing", ended.evidence())


def in_a_file(place: Place) -> Outcome:
    """The counters are in the file, as JSON, and the exit code is the command's; a file that cannot be written is
    named."""
    try:
        program = c_program.compile_program(HERE / "leaves.c")
    except c_program.DoesNotCompile as error:
        return failed("does not compile", str(error))
    file = place.directory / "counters.json"

    def ended(to: object, *command: str) -> Ended:
        return place.run("run", [str(VERBENA), "run", "--stats-out", str(to), "--", *command], SECONDS)

    # Clean up after it, as the next process would.
    left = ended(file, "sh", "-c", f'"$@"; {VERBENA} info > /dev/null; exit 7', "sh", str(program), "_exit_writes")
    told = json.loads(file.read_text())
    (process,) = told["processes"]
    counts = {told["totals"]["write_operations"], process["counters"]["write_operations"]}
    if left.status != 7 or counts != {10} or not process["command"].startswith("programs-leaves") or told["broken"]:
        return failed(f"the file has {told}", left.evidence())
    nowhere = ended(place.directory / "nowhere/counters.json", "true")
    if nowhere.status != 2 or "cannot write" not in nowhere.output or "nowhere/counters.json" not in nowhere.output:
        return failed("a file that cannot be written is not named", nowhere.evidence())
    never = place.directory / "never.json"
    if ended(never, "verbena-no-such-command").status != 127 or never.exists():
        return failed("a missing command leaves counters")
    return passed()
