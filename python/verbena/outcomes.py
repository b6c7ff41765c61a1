"""The coverage of verbs outcomes in a session of pytest: a data file of `verbena coverage`, and its report."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Optional, Sequence

from .programs import program

# The data file of the processes that run now; `verbena coverage` sets it.
FILE = "VERBENA_COVERAGE"
# The first letters of the names of temporary directories with a data file.
PREFIX = "verbena-coverage-"


class Outcomes:
    """The data file of a session."""

    def __init__(self, file: Path):
        self._file = file

    @classmethod
    def create(cls, file: Optional[str], append: bool, base: Path) -> Outcomes:
        """Returns the session's file, by default a temporary one; a relative name is one below `base`. Without `append` an
        existing file is removed."""
        if file is None:
            return cls(Path(tempfile.mkdtemp(prefix=PREFIX)) / "data")
        path = base / file
        if not append:
            path.unlink(missing_ok=True)
        return cls(path)

    @classmethod
    def current(cls) -> Optional[Outcomes]:
        """Returns the file in which this process counts."""
        return cls(Path(os.environ[FILE])) if os.environ.get(FILE) else None

    @property
    def file(self) -> str:
        """Its absolute path."""
        return str(self._file)

    def report(self, options: Sequence[str]) -> tuple[int, str]:
        """Returns exit code and output of `verbena coverage` with these options."""
        done = subprocess.run([program(), "coverage", "--data-file", self.file, *options], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        return done.returncode, os.fsdecode(done.stdout).rstrip()

    def close(self) -> None:
        """Removes the file if it is temporary."""
        if self._file.parent.name.startswith(PREFIX):
            shutil.rmtree(self._file.parent, ignore_errors=True)
