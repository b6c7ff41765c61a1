"""The three tiers of tests: which cases run in `make check`, in `make test`, and only in `make nightly`.

`tests/tiers.toml` has the rule; every case that it does not name runs in `make test`.
"""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Callable, Iterable

RULES = Path(__file__).resolve().parent.parent / "tiers.toml"
# Set for suites that have longer variants of themselves: more sizes, more rounds, long waits.
VARIABLE = "VERBENA_TEST_TIER"


class Tier(Enum):
    """The purpose of a run."""

    CHECK = "check"
    TEST = "test"
    NIGHT = "night"


def by_night() -> bool:
    """Whether suites run their longest variants."""
    return os.environ.get(VARIABLE) == Tier.NIGHT.value


@dataclass(frozen=True)
class Moved:
    """Cases that run only by night."""

    what: str
    patterns: tuple[str, ...]
    why: str
    by_day: str


class Rules:
    """The content of `tests/tiers.toml`."""

    def __init__(self, path: Path = RULES):
        content = tomllib.loads(path.read_text())
        # How long each command takes; CONTRIBUTING.md states the same.
        self.stated = {Tier(name): words for name, words in content["stated"].items()}
        self.check: tuple[str, ...] = tuple(content["check"]["cases"])
        self.moved = [Moved(entry["what"], tuple(entry["cases"]), entry["why"], entry["by_day"]) for entry in content["night"]]
        self._check = _matcher(self.check)
        self._night = _matcher(pattern for moved in self.moved for pattern in moved.patterns)

    def selects(self, tier: Tier, name: str) -> bool:
        """Whether a tier runs a case, which is named `suite: row [column]`."""
        if tier is Tier.CHECK:
            return self._check(name)
        return tier is Tier.NIGHT or not self._night(name)

    def suites(self, tier: Tier, names: list[str]) -> list[str]:
        """The suites of which a tier may run cases: `make check` need not even list the others."""
        if tier is not Tier.CHECK:
            return names
        return [name for name in names if any(pattern.startswith(f"{name}: ") for pattern in self.check)]

    def table(self) -> str:
        """Returns the table of CONTRIBUTING.md: the cases that run only by night."""
        rows = [f"| {moved.what} | {moved.why} | {moved.by_day} |" for moved in self.moved]
        return "\n".join(["| what | why | covered by day by |", "|---|---|---|", *rows])

    def unused(self, names: Iterable[str]) -> list[str]:
        """Returns the patterns that match no case: the cases were removed or renamed."""
        every = list(names)
        patterns = [*self.check, *(pattern for moved in self.moved for pattern in moved.patterns)]
        return [pattern for pattern in patterns if not any(map(_matcher([pattern]), every))]


@cache
def rules() -> Rules:
    """The rules of this tree."""
    return Rules()


@dataclass(frozen=True)
class Selection:
    """The cases of a tier whose names contain a text."""

    tier: Tier
    words: str = ""

    def __call__(self, name: str) -> bool:
        return self.words in name and rules().selects(self.tier, name)


def _matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Matches names against patterns, in which only `*` is special: brackets stand for themselves."""
    expressions = [".*".join(map(re.escape, pattern.split("*"))) for pattern in patterns]
    compiled = re.compile("|".join(expressions) if expressions else r"(?!)")
    return lambda name: compiled.fullmatch(name) is not None
