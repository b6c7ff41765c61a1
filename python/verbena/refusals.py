"""What the software adapter refuses while a test runs, and why: the lines of VERBENA_LOG=info, in a file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Optional

LEVEL, FILE = "VERBENA_LOG", "VERBENA_LOG_FILE"
# Lines of a report. The first refusals are the causes; those behind them follow from them as a rule.
MOST = 40


class Refusals:
    """The lines of this process and of its children, since they were last forgotten."""

    def __init__(self, file: Path):
        self._file = file

    @classmethod
    def collect(cls) -> Optional[Refusals]:
        """Begins, for processes that open the adapter from now on. None where the user has said what to do with the
        lines."""
        if LEVEL in os.environ or FILE in os.environ:
            return None
        descriptor, name = tempfile.mkstemp(prefix="verbena-refusals-")
        os.close(descriptor)
        os.environ.update({LEVEL: "info", FILE: name})
        return cls(Path(name))

    def forget(self) -> None:
        """Begins with an empty file. The adapter appends to it, so processes that go on writing are not disturbed."""
        # A test may have removed it with all temporary files; then the adapter makes it again.
        if self._file.exists():
            os.truncate(self._file, 0)

    def text(self) -> str:
        """The lines, as many as a report has room for; empty where nothing was refused."""
        try:
            lines = self._file.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return ""
        more = len(lines) - MOST
        return "\n".join([*lines[:MOST], *([f"... and {more} more"] if more > 0 else [])])

    def close(self) -> None:
        """Ends; what starts from now on writes nothing."""
        for name in (LEVEL, FILE):
            os.environ.pop(name, None)
        self._file.unlink(missing_ok=True)
