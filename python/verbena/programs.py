"""Where the programs are, and how a command of that name becomes one.

They lie in this package, with the libraries beside them as `make install` would put them (`bin`, `lib/verbena`), so that
a program finds the libraries of its own build wherever the package was installed.
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
    """The executable of that name: of this package, or the one in the path where the package has none (as with
    Debian's packages, or in a source tree)."""
    own = PREFIX / "bin" / name
    if own.is_file():
        return own
    if name in NAMES and (found := shutil.which(name)):
        return Path(found)
    raise FileNotFoundError(f"no program {name!r} in {own.parent} or in the path; "
                            "`pip install` of the wheel, or `make install`, puts it there")


def become(name: str, executable: Optional[Path] = None) -> NoReturn:
    """Replaces this process by the program, by default the package's own, with the arguments that this process was given."""
    # Never the one in the path, which may be the command that is here.
    executable = executable or PREFIX / "bin" / name
    try:
        os.execv(executable, [name, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{name}: cannot start {executable}: {error.strerror}; was this package installed from its wheel?")


def __getattr__(name: str) -> Callable[[], NoReturn]:
    """`verbena.programs:NAME`, which the command NAME calls."""
    if name in NAMES:
        return lambda: become(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
