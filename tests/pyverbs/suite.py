"""rdma-core's own tests, run as they are, all in one process. A case for each generic test; one
for the threshold; one for the list of skips in docs/compatibility.md; one for the tests of other
makers' devices, which must not fail either."""

from __future__ import annotations

import re
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Iterator

from harness.build_tree import DEVICE, ROOT, run
from harness.case import Case
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from harness.process import Ended
from harness.requirement import Tool

from . import results, sources

TITLE = "rdma-core's own tests (pyverbs)"
REQUIRES = [Tool("/usr/lib/python3/dist-packages/pyverbs", "python3-pyverbs")]

# The interpreter that Debian's package is for.
PYTHON = "/usr/bin/python3"
SECONDS = 400
# Of 170. The other 26 need Ethernet (12), a graphics device's dma-buf (10) or hardware tag matching (4), none of
# which this adapter has or claims to have.
WANTED = 144
# The reason of a skip that is due to the machine and not to the adapter.
LACKING = "There are no huge pages"
HUGE_PAGES = Path("/proc/sys/vm/nr_hugepages")
# Other suites run at the same time, and UCX takes huge pages wherever there are some.
ENOUGH_PAGES, WANTED_PAGES = 64, 256
OTHER_DEVICES = re.compile(r"test_(mlx5|efa|cuda)")
DOCUMENT = ROOT / "docs" / "compatibility.md"
TEST_DEFINITION = re.compile(r"^class (\w+)|^    def (test_\w+)", re.MULTILINE)


def cases() -> list[Case]:
    """The tests that the source files define, then the checks of all together."""
    try:
        names = generic_tests()
    except sources.Unavailable as error:
        return [Case("the tests are there", "", lambda _place: skipped(str(error)))]
    return [*(Case(name, "", partial(one, name)) for name in names),
            Case(f"at least {WANTED} generic tests pass", "", partial(enough, names)),
            Case("every skip is in docs/compatibility.md", "", partial(skips_documented, names)),
            Case("tests of other makers' devices do not fail", "", others)]


def generic_tests() -> list[str]:
    """`module.Class.test`, read from the sources, so that a module that cannot be imported is
    noticed."""
    names = []
    for source in sorted(sources.provide().glob("test_*.py")):
        if OTHER_DEVICES.match(source.name):
            continue
        owner = None
        for match in TEST_DEFINITION.finditer(source.read_text()):
            if match.group(1):
                owner = match.group(1)
            else:
                names.append(f"{source.stem}.{owner}.{match.group(2)}")
    return names


class Once:
    """The one run that all cases look at; the first case that asks starts it."""

    ended: Ended | None = None


def whole_run(place: Place) -> Ended:
    """Runs everything, in the place of the first case."""
    if Once.ended is None:
        folder = sources.provide()
        command = run(PYTHON, folder / "run_tests.py", "--dev", DEVICE, "-v")
        with huge_pages():
            Once.ended = place.run("run_tests", command, SECONDS, PYTHONDONTWRITEBYTECODE="1")
    return Once.ended


@contextmanager
def huge_pages() -> Iterator[None]:
    """Sets some aside for as long as they are needed, where there are none and we may. Memory in fragments may have
    room for fewer, with which tests begin and then fail: then there are none."""
    before = HUGE_PAGES.read_text()
    try:
        if int(before) == 0:
            HUGE_PAGES.write_text(str(WANTED_PAGES))
            if int(HUGE_PAGES.read_text()) < ENOUGH_PAGES:
                HUGE_PAGES.write_text(before)
    except OSError:
        pass
    try:
        yield
    finally:
        if HUGE_PAGES.read_text() != before:
            HUGE_PAGES.write_text(before)


@lru_cache
def parsed(text: str) -> dict[str, results.Result]:
    """The results of that run."""
    return results.parse(text)


def one(name: str, place: Place) -> Outcome:
    """One generic test."""
    ended = whole_run(place)
    result = parsed(ended.output).get(name, results.Result("did not run"))
    if result.verdict == "ok":
        return passed()
    if result.verdict == "skipped":
        return skipped(result.reason)
    evidence = results.details(ended.output, name) or ended.evidence()
    return failed(result.verdict, evidence)


def enough(names: list[str], place: Place) -> Outcome:
    """The threshold."""
    ended = whole_run(place)
    found = parsed(ended.output)
    good = [name for name in names if name in found and found[name].verdict == "ok"]
    lacking = [name for name in names if name in found and LACKING in found[name].reason]
    words = f"{len(good)} of {len(names)} passed"
    if lacking:
        words += f", {len(lacking)} need huge pages, which this machine has not set aside"
    return passed(words) if len(good) + len(lacking) >= WANTED else failed(words)


def skips_documented(names: list[str], place: Place) -> Outcome:
    """Each skipped test stands in the document, and no other test does."""
    ended = whole_run(place)
    found = parsed(ended.output)
    actual = {name for name in names if name in found and found[name].verdict == "skipped"
              and LACKING not in found[name].reason}
    documented = set(re.findall(r"`(test_\w+\.\w+\.test_\w+)`", DOCUMENT.read_text()))
    wrong = [f"not in the document: {name} ({found[name].reason})" for name in sorted(actual - documented)]
    wrong += [f"in the document, but not skipped: {name}" for name in sorted(documented - actual)]
    if wrong:
        return failed("the document is not up to date", "\n".join(f"    {line}" for line in wrong))
    return passed(f"{len(actual)} skips")


def others(place: Place) -> Outcome:
    """mlx5, efa and cuda: skipped or passed."""
    ended = whole_run(place)
    wrong = [f"{name}: {result.verdict}" for name, result in parsed(ended.output).items()
             if OTHER_DEVICES.match(name) and result.verdict not in ("ok", "skipped")]
    return failed(f"{len(wrong)} fail", "\n".join(wrong)) if wrong else passed()
