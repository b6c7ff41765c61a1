"""CONTRIBUTING.md and the tiers of tests: the same times and the same table."""

from __future__ import annotations

from harness import tiers
from harness.build_tree import ROOT
from harness.outcome import Outcome, failed, passed
from harness.place import Place


def documented(_place: Place) -> Outcome:
    """CONTRIBUTING.md has the stated times and the table of the cases that run only by night."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    rules = tiers.rules()
    if absent := [words for words in rules.stated.values() if words not in text]:
        return failed(f"CONTRIBUTING.md does not say: {'; '.join(absent)}")
    if rules.table() not in text:
        return failed("the table of CONTRIBUTING.md is not that of tests/tiers.toml", rules.table())
    return passed(f"{len(rules.moved)} rows")
