"""What fsspec is told of a file."""

from __future__ import annotations

import stat as modes
from typing import Any, Optional

from . import _native


def described(path: str, about: _native.Attributes) -> dict[str, Any]:
    """Returns attributes as fsspec has them."""
    kind = "directory" if modes.S_ISDIR(about.mode) else "file" if modes.S_ISREG(about.mode) else "other"
    return {"name": path, "size": about.size, "type": kind, "mode": about.mode, "mtime": about.modified / 1e9}


def is_link(about: _native.Attributes) -> bool:
    """Whether these are a symbolic link's own attributes."""
    return modes.S_ISLNK(about.mode)


def entry_of(path: str, about: _native.Attributes, target: Any = None) -> dict[str, Any]:
    """Returns what a name in a directory is. `target` is the `info` of what a link leads to, or the error if there is none.

    A link to a file is a file. fsspec must not enter a link to a directory. A link that leads to nothing is listed all the
    same, as ls(1) does."""
    if not is_link(about):
        return described(path, about)
    if not isinstance(target, dict):
        if not isinstance(target, OSError):
            raise target
        return {**described(path, about), "islink": True}
    kind = "link" if target["type"] == "directory" else target["type"]
    return {**target, "type": kind, "islink": True}


def absolute(start: Optional[int], end: Optional[int], size: int) -> tuple[int, int]:
    """Returns the offset and the length of a slice of a file."""
    begin, stop, _ = slice(start, end).indices(size)
    return begin, max(0, stop - begin)
