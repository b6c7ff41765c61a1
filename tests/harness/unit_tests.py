"""Runs the unit and property tests that cargo has compiled, as many test programs at a time as there are processors:
`cargo test` runs one after another, and most of them are idle half of the time."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Optional, Sequence

RESULT = re.compile(r"^test result:.* (\d+) passed; (\d+) failed; (\d+) ignored;", re.M)
FAILURE = re.compile(r"^---- (.*) stdout ----$\n((?:(?!^---- |^failures:$).*\n)*)", re.M)
# Lines of a failed test's output that do not say why it failed.
NO_REASON = re.compile(r"$|proptest: |note: |If this test was run on a CI system")
# The most lines of a failed test's output in the summary, and characters of each.
REASON = (12, 200)
# Programs that take long, or whose threads wait for each other: they start first.
LONGEST = ("power", "libraries", "messages", "verbena_hca", "causes", "trains")


# A name, a command, and where it runs.
Job = tuple[str, list[str], str]


@dataclass(frozen=True)
class Program:
    """A compiled test program."""

    executable: str
    # The directory where cargo runs it: the folder of its package.
    directory: str
    # `package: target`.
    name: str

    @property
    def order(self) -> int:
        """Its place in a run."""
        target = self.name.partition(": ")[2]
        return LONGEST.index(target) if target in LONGEST else len(LONGEST)


@dataclass
class Results:
    """The results of all programs so far."""

    counts: Counter = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    times: list[tuple[float, str]] = field(default_factory=list)

    def add(self, name: str, seconds: float, status: int, output: str) -> None:
        """Counts a program. One that ends badly without a failed test has failed as a whole."""
        found = RESULT.findall(output)
        for passed, failed, ignored in found:
            self.counts.update(passed=int(passed), failed=int(failed), skipped=int(ignored))
        named = [f"{name} {test}\n{reason(text)}" for test, text in FAILURE.findall(output)]
        if status != 0 and not any(int(failed) for _, failed, _ in found):
            self.counts["failed"] += 1
            named.append(f"failed: {name}: exit status {status}")
        self.failures += named
        self.times.append((seconds, name))


def reason(text: str) -> str:
    """Returns why a test failed, in a few lines: its output up to the stack backtrace, without hints."""
    most, width = REASON
    lines = [line for line in text.partition("stack backtrace:")[0].splitlines() if not NO_REASON.match(line)]
    more = [f"({len(lines) - most} more lines above)"] if len(lines) > most else []
    return "\n".join(f"    {line[:width]}" for line in [*lines[:most], *more])


def compiled(cargo: Sequence[str], root: Path, beside_the_code: bool) -> Optional[list[Program]]:
    """Compiles the tests of the workspace, or only those beside the code, and returns their programs; None if that
    failed."""
    command = [*cargo, "test", "--workspace", "--no-run", "--quiet", "--message-format", "json-render-diagnostics",
               *(["--lib", "--bins"] if beside_the_code else [])]
    done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        return None
    programs = []
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message.get("reason") == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
            directory = Path(message["manifest_path"]).parent
            programs.append(Program(message["executable"], str(directory), f"{directory.name}: {message['target']['name']}"))
    return programs


def run(programs: Sequence[Program], more: Sequence[Job], root: Path, say: Callable[[str], None]) -> Results:
    """Runs test programs, and beside them `more`."""
    results = Results()
    libraries = f"{root}/target/debug/deps:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(":")
    environment = {**os.environ, "LD_LIBRARY_PATH": libraries}
    jobs: list[Job] = [(program.name, [program.executable, "--quiet"], program.directory)
                       for program in sorted(programs, key=lambda one: one.order)]

    def one(job: Job) -> tuple[str, float, int, str]:
        name, command, directory = job
        began = time.monotonic()
        done = subprocess.run(command, cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
        return name, time.monotonic() - began, done.returncode, done.stdout

    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        for done in as_completed([pool.submit(one, job) for job in [*jobs, *more]]):
            name, seconds, status, output = done.result()
            results.add(name, seconds, status, output)
            if status != 0:
                say(f"not ok - {name} ({seconds:.1f} s)\n{output}")
    for seconds, name in sorted(results.times, reverse=True)[:5]:
        say(f"  {seconds:6.1f} s  {name}")
    return results
