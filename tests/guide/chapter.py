"""A chapter of the guide as a reader works through it: files to write, commands to run, and their expected output.

A block ```` ```console ```` has commands after `$ `, each followed by lines of its output, in this order; `exit=N`
after the word is the exit status of the last command, and `needs=PROGRAM` restricts the block to machines with that
program. A block with the name of a file after its language is that file. Numbers with their units may differ, except in
a block with the word `exact`, whose output is computed; `...` stands for anything; further output is allowed.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.M | re.S)
# A figure with its unit, its prefix, or neither; a ratio.
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:x| (?:[num]?s|[kMG]?B/s|[KMG]i?B|B|[kMG](?:/s)?))?(?![\w.])")


@dataclass
class Step:
    """A command, its exit status, and lines of its output."""

    command: str
    status: int = 0
    says: list[str] = field(default_factory=list)
    # A program that the machine may lack, if there is one.
    needs: str = ""
    # Whether numbers are as shown.
    is_exact: bool = False

    def is_possible(self) -> bool:
        """Whether the program that it needs is installed."""
        return not self.needs or shutil.which(self.needs) is not None


@dataclass(frozen=True)
class File:
    """A file that the chapter tells to write."""

    name: str
    text: str


def chapter(path: Path) -> list[Step | File]:
    """Its files and steps in their order."""
    found: list[Step | File] = []
    for language, words, text in BLOCK.findall(path.read_text()):
        if language == "console":
            steps = commands(text)
            if wanted := re.search(r"exit=(\d+)", words):
                steps[-1].status = int(wanted[1])
            if needed := re.search(r"needs=(\S+)", words):
                for step in steps:
                    step.needs = needed[1]
            for step in steps:
                step.is_exact = "exact" in words.split()
            found += steps
        elif words.strip():
            found.append(File(words.strip(), text))
    return found


def commands(text: str) -> list[Step]:
    """The commands of a block with their lines."""
    steps: list[Step] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            steps.append(Step(line[2:]))
        elif line.strip() not in ("", "..."):
            steps[-1].says.append(line)
    return steps


def workflow(text: str) -> list[str]:
    """The commands that a workflow runs."""
    found, within = [], None
    for line in text.splitlines():
        depth = len(line) - len(line.lstrip())
        if line.strip() == "run: |":
            within = depth
        elif within is not None and depth > within:
            found.append(line.strip())
        else:
            within = None
    return found


def same(shown: str, said: str, is_exact: bool = False) -> bool:
    """Whether a line of output equals the shown one, but for numbers (unless it `is_exact`), the widths of columns, and
    text at `...`."""
    lines = (shown, said) if is_exact else (NUMBER.sub("#", line) for line in (shown, said))
    words = [" ".join(line.split()) for line in lines]
    return re.search(".*".join(map(re.escape, words[0].split("..."))), words[1]) is not None


def missing(step: Step, output: str) -> str | None:
    """The first line that a command should say and does not, after those before it."""
    lines = iter(output.splitlines())
    for shown in step.says:
        if not any(same(shown, line, step.is_exact) for line in lines):
            return shown
    return None
