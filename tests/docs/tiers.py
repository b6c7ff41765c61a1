"""CONTRIBUTING.md and the tiers of tests: the same times and the same table. The parts of `make nightly`: a job each."""

from __future__ import annotations

import os
import re
import tomllib

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


def jobs(_place: Place) -> Outcome:
    """Each part of tests/nightly.toml has a job in the workflow, and its commands are programs of this tree."""
    parts = tomllib.loads((ROOT / "tests/nightly.toml").read_text())["part"]
    names = [part["name"] for part in parts]
    workflow = (ROOT / ".github/workflows/ci.yml").read_text()
    matrix = re.search(r"^        part:\n((?: {10}- .*\n)+)", workflow, re.M)
    if not matrix:
        return failed("the workflow has no list of parts")
    listed = re.findall(r"^ {10}- (.*)$", matrix[1], re.M)
    if sorted(listed) != sorted(set(names)):
        return failed("the workflow and tests/nightly.toml differ", f"{listed}\n{names}")
    commands = [command for part in parts for command in part["run"]]
    used = {name for command in commands
            for name in re.findall(r"(?<![\w./-])((?:packaging|setup|tests|fuzz)/[\w/-]+)", command)
            if not name.startswith("packaging/site/versions")}
    if absent := sorted(name for name in used if not os.access(ROOT / name, os.X_OK)):
        return failed(f"no programs of this tree: {', '.join(absent)}")
    return passed(f"{len(names)} parts, {len(used)} programs")
