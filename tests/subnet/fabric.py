"""Running scripts on a fabric."""

from __future__ import annotations

import os
import re

from harness.build_tree import VERBENA
from harness.outcome import Outcome, failed
from harness.place import Place
from harness.process import Ended

PATH = os.environ["PATH"] + ":/usr/sbin"
SECONDS = 120


def up(place: Place, script: str, *options: str) -> Ended:
    """Runs a script on a fabric."""
    words = [str(VERBENA), "fabric", "up", *options, "--", "sh", "-c", script]
    return place.run("up", words, SECONDS, PATH=PATH, TMPDIR="/tmp", VERBENA=str(VERBENA))


def lacks(ended: Ended, wanted: dict[str, int] | list[str]) -> Outcome | None:
    """The failure if the command failed or a pattern is not found (this often)."""
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    counts = wanted if isinstance(wanted, dict) else dict.fromkeys(wanted, 0)
    for pattern, count in counts.items():
        found = len(re.findall(pattern, ended.output, re.MULTILINE))
        if found == 0 or count not in (0, found):
            return failed(f"{pattern!r} found {found} times", ended.evidence())
    return None
