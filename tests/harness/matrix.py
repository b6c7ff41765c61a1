"""The results of a suite as a table: rows and columns in the order of their first appearance."""

from __future__ import annotations

from typing import Iterable

from .case import Case
from .outcome import Outcome

EMPTY = "."


def render(results: Iterable[tuple[Case, Outcome]]) -> str:
    """The table as text. A suite without columns has its verdicts in the case lines already."""
    cells: dict[tuple[str, str], str] = {}
    rows: dict[str, None] = {}
    columns: dict[str, None] = {}
    for case, outcome in results:
        rows.setdefault(case.row)
        columns.setdefault(case.column)
        cells[case.row, case.column] = outcome.verdict.value
    if len(columns) < 2:
        return ""
    header = ["", *columns]
    lines = [[row, *(cells.get((row, column), EMPTY) for column in columns)] for row in rows]
    widths = [max(len(line[index]) for line in [header, *lines]) for index in range(len(header))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
                     for line in [header, *lines])
