"""The guide followed step by step, as somebody new would: every command of its chapters on measuring, in their order, in an
empty directory, with nothing but the program in the path."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path

from harness.build_tree import ROOT, VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.place import Place
from harness.requirement import Tool

from .chapter import File, Step, chapter, missing, same, workflow

TITLE = "the guide, step by step"
REQUIRES = [Tool("mpirun.openmpi", "openmpi-bin")]

SECONDS = 240
CHAPTERS = ["measuring", "reading-a-report"]
# Fewer would mean that a chapter is no longer read as what it is.
LEAST = {"measuring": 18, "reading-a-report": 7}


def cases() -> list[Case]:
    """A chapter each, and what holds for both."""
    found = [Case(f"docs/{name}.md", "every command", partial(followed, name)) for name in CHAPTERS]
    return [*found,
            Case("docs/measuring.md", "its workflow", example),
            Case("what is shown is asked for", "", strict)]


def run(place: Place, directory: Path, step: Step) -> Outcome | None:
    """What is wrong with a step, as a reader's shell does it."""
    tools = place.directory / "tools"
    if not tools.is_dir():
        tools.mkdir()
        (tools / "verbena").symlink_to(VERBENA)
        # Whichever MPI the machine calls its own: the chapter's options are Open MPI's.
        (tools / "mpirun").symlink_to(shutil.which("mpirun.openmpi"))
    ended = place.run("step", ["bash", "-ec", f"cd '{directory}'; {step.command}"], SECONDS,
                      PATH=f"{tools}:{os.environ['PATH']}", OMPI_ALLOW_RUN_AS_ROOT="1",
                      OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    if ended.status != step.status:
        return failed(f"`{step.command}`: {ended.describe()}, expected exit {step.status}", ended.evidence())
    if line := missing(step, ended.output):
        return failed(f"`{step.command}` does not say {line!r}", ended.evidence())
    return None


def followed(name: str, place: Place) -> Outcome:
    """The chapter from its beginning to its end."""
    directory = place.directory / "reader"
    directory.mkdir()
    steps = 0
    for one in chapter(ROOT / "docs" / f"{name}.md"):
        if isinstance(one, File):
            (directory / one.name).write_text(one.text)
            continue
        steps += 1
        if problem := run(place, directory, one):
            return problem
    if steps < LEAST[name]:
        return failed(f"only {steps} commands were found in the chapter")
    return passed(f"{steps} commands")


def example(place: Place) -> Outcome:
    """The commands of the example workflow run one after the other; the gate decides, and the report is there for either."""
    directory = place.directory / "checkout"
    directory.mkdir()
    files = {one.name: one.text for one in chapter(ROOT / "docs" / "measuring.md") if isinstance(one, File)}
    (directory / "thresholds.toml").write_text(files["thresholds.toml"])
    commands = workflow(files["workflow.yml"])
    if len(commands) != 4 or "compare" not in commands[-1]:
        return failed(f"the workflow's commands are {commands}")
    for command in commands[:-1]:
        if problem := run(place, directory, Step(command)):
            return problem
    if not (directory / "out" / "report.html").is_file():
        return failed("there is no report to keep")
    # That something got worse between two runs of one version is rare; whether is the machine's affair, so either answer is one.
    gates = [run(place, directory, Step(commands[-1], status, ["points in both"])) for status in (0, 1)]
    return passed(f"{len(commands)} commands") if None in gates else gates[0]


def strict(place: Place) -> Outcome:
    """What a command does not say is missed: another word, another order, a figure without its unit."""
    say = Step("", says=["  own receive queue, 8 B, rc   one-way-latency 246 ns (p99 335 ns)", "second 2"])
    good = "own receive queue, 64 KiB, rc one-way-latency 1.2 us (p99 3 ms) 4 % of bound\nsecond 77\n"
    if line := missing(say, good):
        return failed(f"{line!r} is not found in {good!r}")
    bad = [good.replace("own", "shared"), "\n".join(reversed(good.splitlines())), good.replace("1.2 us", "")]
    if accepted := [text for text in bad if not missing(say, text)]:
        return failed("wrong output is accepted", "\n".join(accepted))
    if same("1 worse", "much worse"):
        return failed("a word is accepted for a number")
    return passed()
