"""One test: a cell of a suite's matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

from .outcome import Outcome
from .place import Place


@dataclass(frozen=True)
class Case:
    """`row` and `column` place the case in the matrix and name it."""

    row: str
    column: str
    run: Callable[[Place], Outcome]

    @property
    def name(self) -> str:
        """The name that `--only` matches."""
        return f"{self.row} [{self.column}]" if self.column else self.row
