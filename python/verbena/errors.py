"""The error of a failed `verbena` command."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Optional, Sequence

if TYPE_CHECKING:
    from .results import Results


class CommandError(RuntimeError):
    """A command of `verbena` failed.

    Exit codes: 1 a measurement failed, 2 wrong input, 3 a requirement is missing on this machine,
    124 a time limit ended first, 130 interrupted; `verbena --help` lists the others.
    """

    def __init__(self, command: Sequence[str], exit_code: int, text: str, results: Optional[Results] = None):
        super().__init__(command, exit_code, text, results)
        #: The words of the command, to run it manually.
        self.command = list(command)
        #: Its exit code.
        self.exit_code = exit_code
        #: Its standard error.
        self.text = text.strip()
        #: The results up to the failure; None if there are none.
        self.results = results

    def __str__(self) -> str:
        said = self.text or "no error message"
        return f"{said}\n(exit code {self.exit_code} of: {shlex.join(self.command)})"
