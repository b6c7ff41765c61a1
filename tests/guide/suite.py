"""The guide followed step by step by a new user: every command of its tutorials and of its chapter on measuring, in
order, in an empty directory, with nothing but the programs in the path."""

from __future__ import annotations

import os
import shutil
import signal
import time
from functools import partial
from pathlib import Path

from harness.build_tree import ROOT, VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.place import Place
from harness.process import Process
from harness.requirement import Tool

from .chapter import File, Step, chapter, missing, same, workflow

TITLE = "the guide, step by step"
REQUIRES = [Tool("ibv_rc_pingpong", "ibverbs-utils"), Tool("ib_write_lat", "perftest"), Tool("tshark", "tshark"),
            Tool("/usr/sbin/ibnetdiscover", "infiniband-diags"), Tool("ping", "iputils-ping"), Tool("/usr/sbin/opensm", "opensm"),
            Tool("mpirun.openmpi", "openmpi-bin"), Tool("mpicc.openmpi", "libopenmpi-dev")]

SECONDS = 1800
# The least number of commands of each chapter; fewer mean that the test no longer reads it right. The suite `wheel`
# follows the chapter on tests.
LEAST = {"running": 6, "fabric": 12, "ipoib": 7, "emulation": 3, "sensitivity": 2, "tracing": 2, "coverage": 7, "faults": 12, "measuring": 18, "reading-a-report": 7, "predicting-a-cluster": 9, "buying-a-cluster": 6, "models-anchors": 7, "serving-files": 13,
         "applications": 7, "models": 2, "models-networks": 1, "models-studies": 3}
PROGRAMS = ("verbena", "rfiod", "rfcp", "rfdir", "rfcat")


def cases() -> list[Case]:
    """Each chapter, and rules for both."""
    found = [Case(f"docs/{name}.md", "every command", partial(followed, name)) for name in LEAST]
    return [*found,
            Case("docs/measuring.md", "its workflow", example),
            Case("what is shown is asked for", "", strict)]


class Reader:
    """A reader of the guide: a shell in an empty directory with its own home directory."""

    def __init__(self, place: Place, name: str):
        self.place = place
        self.directory = place.directory / name
        self.directory.mkdir()
        self.jobs: list[Process] = []
        home, tools = place.directory / "home", place.directory / "tools"
        for each in (home, tools):
            each.mkdir(exist_ok=True)
        for program in PROGRAMS:
            (tools / program).symlink_to(VERBENA.with_name(program))
        # Whichever MPI the machine calls its own: the chapter's options are Open MPI's.
        for tool in ("mpirun", "mpicc"):
            (tools / tool).symlink_to(shutil.which(f"{tool}.openmpi"))
        self.environment = {"PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(home), "OMPI_ALLOW_RUN_AS_ROOT": "1",
                            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                            "XDG_CACHE_HOME": str(place.directory / "cache"),
                            # Where rustup's cargo finds the compiler.
                            "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(Path.home() / ".rustup"))}

    def shell(self, command: str) -> list[str]:
        """Returns the shell command that runs in the reader's directory."""
        return ["bash", "-ec", f"cd '{self.directory}'; {command}"]

    def write(self, file: File) -> None:
        """A file that the chapter tells to write."""
        to = self.directory / file.name
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(file.text)

    def run(self, step: Step) -> Outcome | None:
        """Runs a step; returns the failure, if any. A step that ends with `&` runs in the background until `kill
        %1`."""
        if step.command.endswith(" &"):
            command = self.shell(f"exec {step.command.removesuffix(' &')}")
            self.jobs.append(self.place.start("job", command, **self.environment))
            return None
        if step.command == "kill %1":
            return self.end(self.jobs.pop(0))
        ended = self.place.run("step", self.shell(step.command), SECONDS, **self.environment)
        if ended.status != step.status:
            return failed(f"`{step.command}`: {ended.describe()}, expected exit {step.status}", ended.evidence())
        if line := missing(step, ended.output):
            return failed(f"`{step.command}` does not say {line!r}", ended.evidence())
        return None

    def end(self, job: Process) -> Outcome | None:
        """Interrupts a program in the background; returns the failure if it ends wrongly."""
        os.kill(job.pid, signal.SIGTERM)
        ended = job.finish(time.monotonic() + SECONDS)
        return None if ended.succeeded else failed(f"in the background: {ended.describe()}", ended.evidence())


def followed(name: str, place: Place) -> Outcome:
    """The chapter from its beginning to its end."""
    reader = Reader(place, "reader")
    steps = 0
    for one in chapter(ROOT / "docs" / f"{name}.md"):
        if isinstance(one, File):
            reader.write(one)
            continue
        if not one.is_possible():
            continue
        steps += 1
        if problem := reader.run(one):
            return problem
    if reader.jobs:
        return failed("the chapter leaves a program behind")
    if steps < LEAST[name]:
        return failed(f"only {steps} commands were found in the chapter")
    return passed(f"{steps} commands")


def example(place: Place) -> Outcome:
    """The commands of the example workflow run in order; the gate decides, and the report exists for either result."""
    reader = Reader(place, "checkout")
    files = {one.name: one.text for one in chapter(ROOT / "docs" / "measuring.md") if isinstance(one, File)}
    (reader.directory / "thresholds.toml").write_text(files["thresholds.toml"])
    commands = workflow(files["workflow.yml"])
    if len(commands) != 4 or "compare" not in commands[-1]:
        return failed(f"the workflow's commands are {commands}")
    for command in commands[:-1]:
        if problem := reader.run(Step(command)):
            return problem
    if not (reader.directory / "out" / "report.html").is_file():
        return failed("there is no report to keep")
    # Whether something changed between two runs of one version is the machine's affair, so each answer is one.
    gates = [reader.run(Step(commands[-1], status, ["in both"])) for status in (0, 1, 4)]
    return passed(f"{len(commands)} commands") if None in gates else gates[0]


def strict(place: Place) -> Outcome:
    """The comparison finds differences in a command's output: another word, another order, a figure without its
    unit."""
    say = Step("", says=["  own receive queue, 8 B, rc   one-way-latency 246 ns (p99 335 ns)", "second 2"])
    good = "own receive queue, 64 KiB, rc one-way-latency 1.2 us (p99 3 ms) 4 % of bound\nsecond 77\n"
    if line := missing(say, good):
        return failed(f"{line!r} is not found in {good!r}")
    bad = [good.replace("own", "shared"), "\n".join(reversed(good.splitlines())), good.replace("1.2 us", "")]
    if accepted := [text for text in bad if not missing(say, text)]:
        return failed("wrong output is accepted", "\n".join(accepted))
    if same("1 worse", "much worse"):
        return failed("a word is accepted for a number")
    say.is_exact = True
    if not missing(say, good) or missing(say, "  own receive queue, 8 B, rc one-way-latency 246 ns (p99 335 ns)\nsecond 2"):
        return failed("computed numbers are not compared, or columns are")
    return passed()
