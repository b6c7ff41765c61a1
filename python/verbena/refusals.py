"""The calls that the software adapter refuses during a test, with reasons: the log of VERBENA_LOG=info, in a file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Optional

LEVEL, FILE = "VERBENA_LOG", "VERBENA_LOG_FILE"
# Lines in a report. The first refusals are usually the causes of the later ones.
MOST = 40


class Refusals:
    """The log of this process and of its children since the last `forget`."""

    def __init__(self, file: Path):
        self._file = file

    @classmethod
    def collect(cls) -> Optional[Refusals]:
        """Starts logging for processes that open the adapter from now on. Returns None if the user has configured the log."""
        if LEVEL in os.environ or FILE in os.environ:
            return None
        descriptor, name = tempfile.mkstemp(prefix="verbena-refusals-")
        os.close(descriptor)
        os.environ.update({LEVEL: "info", FILE: name})
        return cls(Path(name))

    def forget(self) -> None:
        """Empties the file. The adapter appends to it, so processes that keep writing are not disturbed."""
        # A test may have removed the file with all temporary files; the adapter then creates it again.
        if self._file.exists():
            os.truncate(self._file, 0)

    def text(self) -> str:
        """Returns the first lines of the log; empty if nothing was refused."""
        try:
            lines = self._file.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return ""
        more = len(lines) - MOST
        return "\n".join([*lines[:MOST], *([f"... and {more} more"] if more > 0 else [])])

    def close(self) -> None:
        """Stops logging for processes that start from now on."""
        for name in (LEVEL, FILE):
            os.environ.pop(name, None)
        self._file.unlink(missing_ok=True)
