"""The result of a case."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Verdict(Enum):
    """The four results of a case. `REFUSED` means that the tested program itself rejects these options, and quotes its
    message; that says nothing about the adapter."""

    PASSED = "ok"
    FAILED = "FAIL"
    SKIPPED = "skip"
    REFUSED = "refused"


@dataclass(frozen=True)
class Outcome:
    """A verdict with its reason and, for a failure, the evidence."""

    verdict: Verdict
    reason: str = ""
    evidence: str = ""


def passed(detail: str = "") -> Outcome:
    """The case passed; `detail` is a fact worth printing."""
    return Outcome(Verdict.PASSED, detail)


def failed(reason: str, evidence: str = "") -> Outcome:
    """The case failed."""
    return Outcome(Verdict.FAILED, reason, evidence)


def skipped(reason: str) -> Outcome:
    """The case cannot run on this machine."""
    return Outcome(Verdict.SKIPPED, reason)


def refused(words: str) -> Outcome:
    """The program under test does not support this combination."""
    return Outcome(Verdict.REFUSED, words)
