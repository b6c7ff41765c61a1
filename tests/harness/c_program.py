"""Test programs in C: compiled against the official headers, linked with -libverbs, one case for
each test of their table (see `tests/common/check.h`)."""

from __future__ import annotations

import os
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import Callable, Sequence

from . import build_tree
from .case import Case
from .outcome import Outcome, failed, passed, skipped
from .place import Place

HERE = Path(__file__).resolve().parent.parent
COMMON = HERE / "common"
# Exit status of a test program that cannot run on this machine.
EXIT_SKIPPED = 77
COMPILER = os.environ.get("VERBENA_TEST_CC", "cc")
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-g", "-Wall", "-Wextra", "-pthread", f"-I{COMMON}"]


class DoesNotCompile(Exception):
    """The compiler's words."""


def compile_program(source: Path, libraries: Sequence[str] = ("-libverbs",),
                    compiler: str = COMPILER, more: Sequence[Path] = ()) -> Path:
    """Returns the executable for a source file and `more` of them, made again if any of them is newer.
    VERBENA_TEST_CFLAGS (sanitizers, for example) give another executable. VERBENA_TEST_CC is another compiler (of
    another C library, for example)."""
    flags = os.environ.get("VERBENA_TEST_CFLAGS", "").split()
    folder = build_tree.LOGS / "programs" / ("-".join(flag.strip("-") for flag in flags) or "plain")
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / f"{source.parent.name}-{source.stem}-{compiler}"
    common = sorted(COMMON.glob("*.c")) if "-libverbs" in libraries else []
    newest = max(path.stat().st_mtime for path in [source, *more, *HERE.glob("*/*.h"), *COMMON.glob("*")])
    if program.exists() and program.stat().st_mtime > newest:
        return program
    # Written as a whole: other suites may compile it at this moment.
    with tempfile.TemporaryDirectory(dir=folder) as own:
        made = Path(own, program.name)
        done = subprocess.run([compiler, *FLAGS, *flags, *map(str, [source, *more, *common]), "-o", str(made), *libraries],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise DoesNotCompile(done.stderr)
        made.replace(program)
    return program


def table(source: Path, paths: Sequence[str], seconds: float, rows: str = "",
          libraries: Sequence[str] = ("-libverbs",)) -> list[Case]:
    """A case for each test of the program and each path."""
    try:
        program = compile_program(source, libraries)
        names = subprocess.run([program, "--list"], capture_output=True, text=True, check=True)
    except (DoesNotCompile, subprocess.CalledProcessError) as error:
        return [Case(source.stem, "compiles", partial(_broken, str(error)))]
    return [Case(f"{rows or source.stem}: {name}", path, partial(_test, program, name, path, seconds))
            for name in names.stdout.splitlines() for path in paths]


def _broken(words: str, _place: Place) -> Outcome:
    return failed("does not compile or start", words)


def _test(program: Path, name: str, path: str, seconds: float, place: Place) -> Outcome:
    return run(place, build_tree.run(program, name), seconds, path)


def run(place: Place, command: list[str], seconds: float, path: str,
        detail: Callable[[str], str] = lambda _output: "") -> Outcome:
    """Runs a test program; `detail` picks the fact worth printing from its output."""
    ended = place.run("test", command, seconds, path)
    if ended.status == EXIT_SKIPPED:
        return skipped(ended.output.strip().removeprefix("skipped: "))
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    return passed(detail(ended.output))
