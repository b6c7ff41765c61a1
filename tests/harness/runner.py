"""Runs suites and reports their results."""

from __future__ import annotations

import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from types import ModuleType
from typing import Callable

from . import matrix, requirement
from .case import Case
from .outcome import Outcome, Verdict, failed
from .place import Place


@dataclass
class Totals:
    """The results of a run so far."""

    counts: Counter = field(default_factory=Counter)
    missing: dict[str, set[str]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    # Seconds and name of every case that ran.
    times: list[tuple[float, str]] = field(default_factory=list)
    # The names of all cases of the suites that ran, including cases that were not selected.
    known: list[str] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """Counts one case."""
        self.counts[outcome.verdict] += 1

    def tell(self, line: str, outcome: Outcome) -> None:
        """Prints a case's result, and keeps it for the end of a long run if it failed."""
        print(line, flush=True)
        if outcome.evidence:
            print(outcome.evidence, flush=True)
        if outcome.verdict is Verdict.FAILED:
            last = outcome.evidence.strip().rpartition("\n")[2]
            self.failures.append(f"{line.removeprefix('not ok ')} | {last}" if last else line.removeprefix("not ok "))

    def fail(self, words: str) -> None:
        """Counts a failure outside of any case."""
        print(f"not ok - {words}", flush=True)
        self.counts[Verdict.FAILED] += 1
        self.failures.append(words)

    def join(self, other: Totals) -> None:
        """Adds the counts of another run."""
        self.counts.update(other.counts)
        self.failures += other.failures
        self.times += other.times
        self.known += other.known
        for package, names in other.missing.items():
            self.missing.setdefault(package, set()).update(names)

    def slowest(self, count: int) -> list[tuple[float, str]]:
        """The cases that took longest, the longest first."""
        return sorted(self.times, reverse=True)[:count]

    @property
    def good(self) -> bool:
        """Whether nothing failed."""
        return self.counts[Verdict.FAILED] == 0

    def line(self) -> str:
        """The closing line. A combination that a program itself refuses was not tested, so it counts as skipped, and is
        named."""
        refused = self.counts[Verdict.REFUSED]
        skipped = self.counts[Verdict.SKIPPED] + refused
        words = f" ({refused} of them refused by the tested program itself)" if refused else ""
        return (f"{self.counts[Verdict.PASSED]} passed, {self.counts[Verdict.FAILED]} failed, "
                f"{skipped} skipped{words}")


def run_case(suite: str, case: Case) -> Outcome:
    """Runs one case in its own place. Shared state that it leaves behind is a failure, too."""
    place = Place(suite, case.name)
    try:
        try:
            outcome = case.run(place)
        except Exception:  # pylint: disable=broad-exception-caught
            # A test that is wrong itself is one failure, and keeps no other from being run.
            return failed("the test itself failed", traceback.format_exc())
        left = place.leftovers()
        if left and outcome.verdict is Verdict.PASSED:
            outcome = failed("shared state is left behind: " + ", ".join(left))
        return outcome
    finally:
        place.close()


def run_suite(name: str, suite: ModuleType, wanted: Callable[[str], bool], totals: Totals) -> None:
    """Runs the cases of a suite that are wanted by their names, `suite: row [column]`."""
    every = list(suite.cases())
    totals.known += [f"{name}: {case.name}" for case in every]
    cases = [case for case in every if wanted(f"{name}: {case.name}")]
    if not cases:
        return
    print(f"# {name}: {suite.TITLE}", flush=True)
    if lacking := requirement.absent(suite.REQUIRES):
        skip_suite(name, lacking, len(cases), totals)
        return

    results: list[tuple[Case, Outcome]] = []
    for number, case in enumerate(cases, 1):
        start = time.monotonic()
        outcome = run_case(name, case)
        seconds = time.monotonic() - start
        results.append((case, outcome))
        totals.add(outcome)
        totals.times.append((seconds, f"{name}: {case.name}"))
        totals.tell(case_line(number, name, case, outcome, seconds), outcome)

    if table := matrix.render(results):
        print(f"\n{table}\n")
    summary = Totals()
    for _, outcome in results:
        summary.add(outcome)
    print(f"# {name}: {summary.line()}\n", flush=True)


def skip_suite(name: str, lacking: list[requirement.Tool], count: int, totals: Totals) -> None:
    """Counts a whole suite as skipped and remembers the packages that it needs."""
    for tool in lacking:
        totals.missing.setdefault(tool.package, set()).add(name)
    totals.counts[Verdict.SKIPPED] += count
    packages = " ".join(sorted({tool.package for tool in lacking}))
    print(f"# {name}: {count} skipped, this machine lacks: {packages}\n", flush=True)


def case_line(number: int, suite: str, case: Case, outcome: Outcome, seconds: float) -> str:
    """A line in the manner of the Test Anything Protocol."""
    verdict = outcome.verdict
    word = "not ok" if verdict is Verdict.FAILED else "ok"
    directive = {Verdict.SKIPPED: " # SKIP ", Verdict.REFUSED: " # SKIP refused by the tool: "}
    reason = f" - {outcome.reason}" if outcome.reason else ""
    if verdict in directive:
        reason = directive[verdict] + outcome.reason
    return f"{word} {number} {suite}: {case.name} ({seconds:.1f} s){reason}"
