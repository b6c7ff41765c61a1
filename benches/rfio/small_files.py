"""Many files of 1 KiB and of 64 KiB, in both directions, by rfcp over verbs and TCP and by rsync, alternately."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

from figures import note
from sizes import Sizes

#: The file lengths, by the names of the figures.
LENGTHS = {"1k": 1 << 10, "64k": 64 << 10}
#: The programs.
TOOLS = ("rfcp", "rfcp-tcp", "rsync")


def measure(export: Path, here: Path, tools: dict, sizes: Sizes) -> None:
    """Measures both lengths, with all files in one directory."""
    for kind, count in zip(LENGTHS, sizes.small):
        tree = export / "tree"
        make(tree, LENGTHS[kind], count, count)
        turns(f"small.{kind}", tree, here / "tree", tools, sizes.turns)
        shutil.rmtree(tree)


def make(tree: Path, length: int, count: int, together: int) -> None:
    """Creates a tree of files, `together` in each directory."""
    for number in range(count):
        directory = tree if together >= count else tree / str(number // together)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / str(number)).write_bytes(random.Random(number).randbytes(length))


def turns(name: str, tree: Path, here: Path, tools: dict, count: int) -> None:
    """Each available program copies a tree from the server, and back under another name, alternately."""
    there = tree.with_name("up")
    files = number_of_files(tree)
    for _ in range(count):
        for tool in filter(tools.get, TOOLS):
            options = () if tool == "rsync" else ("-r",)
            shutil.rmtree(here, ignore_errors=True)
            cost = tools[tool].measure(tree.name, here, *options)
            note(f"{name}.download.{tool}.files_per_s", files / cost.seconds)
            shutil.rmtree(there, ignore_errors=True)
            cost = tools[tool].store(here, there.name, *options)
            note(f"{name}.upload.{tool}.files_per_s", files / cost.seconds)
            assert number_of_files(here) == number_of_files(there) == files, f"{tool} left files out"
    shutil.rmtree(here)
    shutil.rmtree(there)


def number_of_files(tree: Path) -> int:
    """Returns the number of files below a directory."""
    return sum(len(files) for _, _, files in os.walk(tree))
