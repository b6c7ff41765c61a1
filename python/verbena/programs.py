"""Finds the programs, and replaces a command by its program.

The package contains the programs and their libraries in the layout of `make install` (`bin`, `lib/verbena`), so that a program
finds the libraries of its own build in any installation directory.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Callable, NoReturn, Optional

PREFIX = Path(__file__).resolve().parent
# The commands that the package installs.
NAMES = ("verbena", "rfiod", "rfcp", "rfdir", "rfcat", "rfrm", "rfmkdir", "rfrename", "rfchmod", "rfstat", "rfsrr")


def program(name: str = "verbena") -> Path:
    """Returns the executable of that name: from this package, or from the path if the package has none (as in Debian's
    packages, or in a source tree)."""
    own = PREFIX / "bin" / name
    if own.is_file():
        return own
    if name in NAMES and (found := shutil.which(name)):
        return Path(found)
    raise FileNotFoundError(f"no program {name!r} in {own.parent} or in the path; "
                            "install the wheel with 'pip install', or run 'make install'")


def become(name: str, executable: Optional[Path] = None) -> NoReturn:
    """Replaces this process by the program, by default the package's own, with the arguments of this process."""
    # Never the program in the path, which may be this command itself.
    executable = executable or PREFIX / "bin" / name
    try:
        os.execv(executable, [name, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{name}: cannot start {executable}: {error.strerror}; was this package installed from its wheel?")


def __getattr__(name: str) -> Callable[[], NoReturn]:
    """Returns `verbena.programs:NAME`, which the command NAME calls."""
    if name in NAMES:
        return lambda: become(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
