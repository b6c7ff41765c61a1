"""Comparison of two runs, as by `verbena compare`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Optional, Union

from .command import PathLike, options, verbena
from .frames import frame
from .results import Results, number

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The verdicts of the records, named as the outcomes.
VERDICTS = {"improved": "better", "regressed": "worse", "same": "unchanged", "undecided": "undecided"}
# The exit codes of `verbena compare`.
EXIT_CODES = {"worse": 1, "better": 1, "undecided": 4, "unchanged": 0}
CHANGES = ("benchmark", "size", "parameters", "metric", "points", "verdict", "ratio", "low", "high", "first", "second", "threshold", "p")
# BENCHMARK NAME=VALUE ...: METRIC
KEY = re.compile(r"(?P<benchmark>\S+) ?(?P<parameters>.*): (?P<metric>[^:]*)", re.DOTALL)


@dataclass(frozen=True)
class Comparison:
    """The comparison of two runs."""

    #: `worse` if a figure is worse; else `better`, `undecided` or `unchanged`.
    outcome: str
    #: A record for each figure and for each curve that both runs have.
    records: list[dict[str, Any]] = field(repr=False)
    #: The program's standard error: notes and warnings.
    messages: str = field(repr=False)

    @property
    def exit_code(self) -> int:
        """The exit code of `verbena compare`: 0 unchanged, 1 changed, 4 undecided."""
        return EXIT_CODES[self.outcome]

    @property
    def changes(self) -> pandas.DataFrame:
        """A frame with one row for each figure of both runs, and one for each curve as a whole (its number of `points`, without a
        size). `ratio` is second over first, between `low` and `high`; `verdict` is a word, as the outcome is."""
        return frame(rows(self.records), CHANGES)

    def __str__(self) -> str:
        words = [VERDICTS[record["verdict"]] for record in self.records if record["points"] == 1]
        counts = ", ".join(f"{words.count(word)} {word}" for word in EXIT_CODES)
        return f"{self.outcome} ({counts})"

    def plot(self, ax: Optional[Axes] = None) -> Figure:
        """Draws the ratio of each figure with its interval. Needs matplotlib."""
        from .plotting import draw_changes

        return draw_changes(rows(self.records), ax)


def compare(first: Union[PathLike, Results], second: Union[PathLike, Results], *, thresholds: Optional[PathLike] = None,
            test: Optional[str] = None, processes: Optional[int] = None) -> Comparison:
    """Compares two runs. Each is its directory, its results, or a file with another tool's output.

        assert verbena.compare("out/before", "out/after").outcome in ("unchanged", "better")

    `thresholds` is the file of `--thresholds`. For another tool's output, `test` is the option `--as` and `processes` the option
    `--processes`.

    Raises a CommandError if they cannot be compared.
    """
    runs = [each.path if isinstance(each, Results) else each for each in (first, second)]
    # With --allow-better, exit code 1 means that a figure is worse.
    given = options(**{"all": True, "json": True, "allow-better": True, "thresholds": thresholds, "as": test, "processes": processes})
    ended = verbena("compare", *given, "--", *runs)
    if ended.returncode not in (0, 1, 4):
        ended.refuse()
    records = json.loads(ended.stdout)
    better = any(record["verdict"] == "improved" for record in records)
    unchanged = "better" if better else "unchanged"
    return Comparison({1: "worse", 4: "undecided"}.get(ended.returncode, unchanged), records, ended.stderr)


def rows(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the records as rows of a frame."""
    return [{**_key(record["key"]), "points": record["points"], "verdict": VERDICTS[record["verdict"]], "ratio": record["ratio"],
             "low": (record["interval"] or {}).get("low"), "high": (record["interval"] or {}).get("high"), "first": record["a"],
             "second": record["b"], "threshold": record["threshold"], "p": record["p"]} for record in records]


def _key(key: str) -> dict[str, Any]:
    """Returns the columns that identify a record."""
    found = KEY.fullmatch(key)
    if not found:
        return {"benchmark": key}
    words = found["parameters"].split(" ")
    sizes = [word[5:] for word in words if re.fullmatch(r"size=[\d.]+", word)]
    return {"benchmark": found["benchmark"], "size": number(float(sizes[0])) if sizes else None,
            "parameters": " ".join(word for word in words if not word.startswith("size=")) or None, "metric": found["metric"]}
