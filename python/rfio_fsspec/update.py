"""Files that are read and written in place, for formats that change earlier data (ROOT, HDF5)."""

from __future__ import annotations

import io
import os
from typing import Any, Optional

from . import _native

#: Flags of open(2) for Python's modes with a `+`.
FLAGS = {"r": 0, "w": os.O_CREAT | os.O_TRUNC, "x": os.O_CREAT | os.O_EXCL, "a": os.O_CREAT | os.O_APPEND}


class RfioUpdate(io.RawIOBase):
    """An open, unbuffered file. Other processes see each write immediately, as with a local file."""

    def __init__(self, file: _native.File, name: str, mode: str):
        super().__init__()
        self.name, self.mode = name, mode
        self._file = file
        self._appends = "a" in mode
        self._position = file.size() if self._appends else 0

    def readable(self) -> bool:
        """Returns True."""
        return True

    def writable(self) -> bool:
        """Returns True."""
        return True

    def seekable(self) -> bool:
        """Returns True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Reads at the position."""
        view = memoryview(buffer).cast("B")
        data = self._file.read_at(self._position, len(view))
        view[:len(data)] = data
        self._position += len(data)
        return len(data)

    def write(self, data: Any) -> int:
        """Writes at the position, or at the end in append mode."""
        if self._appends:
            written = self._file.append(bytes(data))
            self._position = self._file.size()
        else:
            written = self._file.write_at(self._position, bytes(data))
            self._position += written
        return written

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Moves the position."""
        bases = {os.SEEK_SET: lambda: 0, os.SEEK_CUR: lambda: self._position, os.SEEK_END: self._file.size}
        if whence not in bases:
            raise ValueError(f"whence is {whence}, not 0, 1 or 2")
        position = bases[whence]() + offset
        if position < 0:
            raise ValueError(f"position {position} is before the start of the file")
        self._position = position
        return position

    def tell(self) -> int:
        """Returns the position."""
        return self._position

    def truncate(self, size: Optional[int] = None) -> int:
        """Truncates the file, or extends it with zeros."""
        size = self._position if size is None else size
        self._file.truncate(size)
        return size

    def close(self) -> None:
        """Closes the file, once."""
        if not self.closed:
            super().close()
            self._file.close()
