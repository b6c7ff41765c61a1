"""What a command of `verbena` that fails becomes."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Optional, Sequence

if TYPE_CHECKING:
    from .results import Results


class CommandError(RuntimeError):
    """A command of `verbena` failed.

    Exit codes: 1 something could not be measured, 2 wrong input, 3 something that is needed is missing on this machine,
    130 interrupted; the others are in `verbena --help`.
    """

    def __init__(self, command: Sequence[str], exit_code: int, text: str, results: Optional[Results] = None):
        super().__init__(command, exit_code, text, results)
        #: The words of the command, to run it by hand.
        self.command = list(command)
        #: How it ended.
        self.exit_code = exit_code
        #: What it wrote to standard error.
        self.text = text.strip()
        #: What was measured all the same; None if there is nothing.
        self.results = results

    def __str__(self) -> str:
        said = self.text or "it gave no reason"
        return f"{said}\n(exit code {self.exit_code} of: {shlex.join(self.command)})"
