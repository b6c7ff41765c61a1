"""`verbena run --stats` counts every process that used the adapter, however it ends."""

from __future__ import annotations

from functools import partial

from harness import c_program
from harness.build_tree import VERBENA, run
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.place import Place

from .libraries import HERE

SECONDS = 30
ENDS = ("exit", "_exit", "SIGKILL", "exec")


def cases() -> list[Case]:
    """Each way to end, for a process that only registers memory and for one that also writes."""
    return [Case(f"--stats: ends by {how}", what, partial(counted, how, what == "writes"))
            for how in ENDS for what in ("registers", "writes")]


def counted(how: str, writes: bool, place: Place) -> Outcome:
    """The process is named, and what it wrote is there."""
    try:
        program = c_program.compile_program(HERE / "leaves.c")
    except c_program.DoesNotCompile as error:
        return failed("does not compile", str(error))
    # A shell that stays: the process that is killed must not be the one that verbena waits for.
    # And what it left behind is looked after, as by whoever comes next.
    script = f'"$@"; {VERBENA} info > /dev/null; true'
    test = f"{how}_{'writes' if writes else 'registers'}"
    ended = place.run("run", run("sh", "-c", script, "sh", program, test, stats=True), SECONDS)
    lines = [" ".join(line.split()) for line in ended.output.splitlines()]
    named = any(line.startswith("verbena: 1 process used the adapter: programs-leaves") for line in lines)
    if ended.succeeded and named and ("write_operations 10" in lines) == writes:
        return passed()
    return failed("a process or what it did is missing", ended.evidence())
