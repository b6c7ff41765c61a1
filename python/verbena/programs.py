"""Finds the programs, and replaces a command by its program.

The package contains the programs and their libraries in the layout of `make install` (`bin`, `lib/verbena`), so that a program
finds the libraries of its own build in any installation directory.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Callable, NoReturn, Optional

PREFIX = Path(__file__).resolve().parent
# The client tools of the file service: in this package one program, which selects the tool by argv[0].
TOOLS = ("rfcp", "rfdir", "rfcat", "rfrm", "rfmkdir", "rfrename", "rfchmod", "rfstat", "rfsrr")
TOOLS_PROGRAM = "rfio-tools"
# The programs in the package, and the commands that it installs.
FILES = ("verbena", "rfiod", TOOLS_PROGRAM)
NAMES = ("verbena", "rfiod", *TOOLS)


def program(name: str = "verbena") -> Path:
    """Returns the executable of that name: from this package, for the client tools the command that it installed, or
    from the path if the package has none (as in Debian's packages, or in a source tree)."""
    own = PREFIX / "bin" / name
    if own.is_file():
        return own
    places = None
    if file(name).is_file():
        # The second is the directory of `pip install --target`.
        places = os.pathsep.join((sysconfig.get_path("scripts"), str(PREFIX.parent / "bin")))
    if name in NAMES and (found := shutil.which(name, path=places)):
        return Path(found)
    raise FileNotFoundError(f"no program {name!r} in {own.parent} or in the path; "
                            "install the wheel with 'pip install', or run 'make install'")


def file(name: str) -> Path:
    """Returns the file of this package that holds the program."""
    return PREFIX / "bin" / (TOOLS_PROGRAM if name in TOOLS else name)


def become(name: str, executable: Optional[Path] = None) -> NoReturn:
    """Replaces this process by the program, by default the package's own, with the arguments of this process."""
    # Never the program in the path, which may be this command itself.
    executable = executable or file(name)
    try:
        os.execv(executable, [name, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{name}: cannot start {executable}: {error.strerror}; was this package installed from its wheel?")


def __getattr__(name: str) -> Callable[[], NoReturn]:
    """Returns `verbena.programs:NAME`, which the command NAME calls."""
    if name in NAMES:
        return lambda: become(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
