"""File attributes in the form that fsspec expects."""

from __future__ import annotations

import stat as modes
from typing import Any, Optional

from . import _native


def described(path: str, about: _native.Attributes) -> dict[str, Any]:
    """Returns attributes as an fsspec dictionary."""
    kind = "directory" if modes.S_ISDIR(about.mode) else "file" if modes.S_ISREG(about.mode) else "other"
    return {"name": path, "size": about.size, "type": kind, "mode": about.mode, "mtime": about.modified / 1e9}


def is_link(about: _native.Attributes) -> bool:
    """Returns whether these are the attributes of a symbolic link itself."""
    return modes.S_ISLNK(about.mode)


def entry_of(path: str, about: _native.Attributes, target: Any = None) -> dict[str, Any]:
    """Returns the attributes of a directory entry. `target` is the `info` of a link's target, or the error if there is none.

    A link to a file is reported as a file. fsspec must not enter a link to a directory. A dangling link is listed, as by
    ls(1)."""
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
