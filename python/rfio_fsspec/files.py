"""Open files. A written file appears under its name when it is complete.

It is complete when its `close()` is called. It is discarded if an exception leaves the `with` statement in which it is
written, or if it is never closed. Encoders and text files around it do the same.
"""

from __future__ import annotations

import dis
import errno
import io
import os
import sys
import warnings
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, Optional

from fsspec.spec import AbstractBufferedFile, reopen

from . import _native
from .entries import described
from .upload import Upload

if TYPE_CHECKING:
    from . import RfioFileSystem

#: The instruction of a frame that calls `__exit__` because of an exception.
_LEAVES_WITH = dis.opmap.get("WITH_EXCEPT_START")


class RfioFile(AbstractBufferedFile):
    """An open file. A file written with `wb` or `xb` appears under its name only when it is complete: `Upload` has the rules. It
    is discarded by `discard()`, by an exception that leaves its `with` statement, and if it is never closed."""

    def __init__(self, fs: RfioFileSystem, path: str, mode: str = "rb", *arguments: Any, **kwargs: Any):
        self._process = os.getpid()
        self._is_forsaken = False
        self._upload = Upload(fs, path, exclusive=mode == "xb") if mode in ("wb", "xb") else None
        self._file: Optional[_native.File] = self._upload.file if self._upload else None
        if mode == "rb":
            # Caches may read immediately. Size and data are those of one file, even if another gets the name meanwhile.
            self._file = fs._ask(fs._url(path), _native.File, os.O_RDONLY)
            kwargs["size"] = self._file.opened.size
            self._details = described(path, self._file.opened)
        self._handled = sys.exc_info()[1]
        # Releases of fsspec before 2024 do not know `xb`; it is written like `wb`.
        super().__init__(fs, path, "wb" if mode == "xb" else mode, *arguments, **kwargs)

    def __reduce__(self) -> Any:
        if self.mode != "rb":
            raise TypeError(f"{self.path} is being written by this process, and cannot be pickled")
        cache = self.cache.name if self.cache else "none"
        # Without the size: the unpickled file is the one that has the name then.
        return reopen, (self.fs, self.path, self.mode, self.blocksize, self.loc, None, self.autocommit, cache, self.kwargs)

    def _opened(self) -> _native.File:
        if self._file is None:
            raise ValueError(f"nothing was written to {self.path} yet")
        return self._file

    def _fetch_range(self, start: int, end: int) -> bytes:
        file = self._opened()
        data: bytes = self.fs._ask(file.url, lambda _: file.read_at(start, end - start))
        return data

    def write(self, data: Any) -> int:
        """Writes to the buffer, which is sent to the server when it is full."""
        self._refuse_inherited()
        written: int = super().write(data)
        return written

    def _refuse_inherited(self) -> None:
        if os.getpid() != self._process:
            raise OSError(errno.EBADF, f"opened for writing by process {self._process}; a forked child must open its own file", self.path)

    def _initiate_upload(self) -> None:
        if not self._upload:
            self._file = self.fs._made(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def _upload_chunk(self, final: bool = False) -> bool:
        data = self.buffer.getvalue()
        if not self._upload:
            self._opened().append(data)
        else:
            self._opened().write_at(self.offset, data)
            if final and self.autocommit:
                self._upload.publish()
        return True

    def commit(self) -> None:
        """Publishes the file under its name, at the end of a transaction. Ignores a discarded file."""
        if self._upload:
            if not self.closed:
                raise ValueError(f"{self.path} was written in a transaction and not closed before its end")
            self._upload.publish()

    def discard(self) -> None:
        """Closes the file, and removes the written data: an earlier file of this name remains. Appended data cannot be removed."""
        self.closed, self._handled = True, None
        if self._upload:
            self._upload.discard()
        elif self._file is not None:
            self._file.close()

    def close(self) -> None:
        """Writes the buffered data, closes the file, and publishes a new file under its name."""
        if self.closed:
            return
        if self.mode != "rb" and os.getpid() != self._process:
            # The parent has the same buffer.
            return self.discard()
        if self._is_to_be_discarded():
            return self.discard()
        self._handled = None
        try:
            super().close()
        except BaseException:
            self.discard()
            raise
        if self._file is not None and not self._upload:
            self._file.close()

    def _is_to_be_discarded(self) -> bool:
        return self._upload is not None and (self._is_forsaken or self._is_left_by_exception())

    def _is_left_by_exception(self) -> bool:
        """Returns whether close() is called because an exception leaves a `with` statement. Objects that hold files (`fsspec.open`,
        pandas' handles, pyarrow's streams) call close() in any case. Ignores an exception that was active when the file was opened,
        and one that an `except` clause handles."""
        exception = sys.exc_info()[1]
        if exception is None or exception is self._handled:
            return False
        frame: Optional[FrameType] = sys._getframe(1)
        while frame is not None:
            if _leaves_with(frame, exception):
                return True
            frame = frame.f_back
        return False

    def _dealloc_warn(self, _: object) -> None:
        """Called when a text file around this one is garbage-collected and closes it."""
        self._is_forsaken = True
        self._warn()

    def _warn(self) -> None:
        if self._upload and not self._upload.is_inherited and not sys.is_finalizing():
            warnings.warn(f"{self.path} was written but never closed; discarding it, as it may be incomplete",
                          RuntimeWarning, stacklevel=2)

    def __del__(self) -> None:
        if self.closed:
            return
        if self._upload:
            self._warn()
            self.discard()
        else:
            self.close()

    def __exit__(self, kind: Optional[type] = None, *_: Any) -> None:
        if kind is not None and self._upload:
            self.discard()
        else:
            self._handled = sys.exc_info()[1]
            self.close()


def _leaves_with(frame: FrameType, exception: BaseException) -> bool:
    """Returns whether a frame calls `__exit__` because of an exception, or is that call."""
    if frame.f_code.co_name in ("__exit__", "__aexit__"):
        values = frame.f_locals.values()
        return any(exception is part for value in values for part in (value if isinstance(value, tuple) else (value,)))
    return 0 <= frame.f_lasti < len(frame.f_code.co_code) and frame.f_code.co_code[frame.f_lasti] == _LEAVES_WITH


class Encoded(io.BufferedIOBase):
    """A file written through an encoder. Encoders neither close nor discard the file to which they
    write."""

    def __init__(self, file: RfioFile, encoder: Any):
        self._file, self._encoder = file, encoder
        self._is_closed = False

    @property
    def name(self) -> str:
        """The path."""
        return str(self._file.path)

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return getattr(self, "_is_closed", True)

    def writable(self) -> bool:
        """Returns True."""
        return not self.closed

    def write(self, data: Any) -> int:
        """Encodes bytes."""
        self._file._refuse_inherited()
        written: int = self._encoder.write(data)
        return written

    def flush(self) -> None:
        """Does nothing: flushing the encoder would increase the size of the encoded data."""

    def tell(self) -> int:
        """Returns the position before encoding."""
        position: int = self._encoder.tell()
        return position

    def discard(self) -> None:
        """Closes the file, and removes the written data."""
        self._is_closed = True
        # Encoders close themselves when they are garbage-collected, and some close the file.
        self._file._is_forsaken = True
        with suppress(Exception):
            self._encoder.close()
        self._file.discard()

    def close(self) -> None:
        """Closes encoder and file, and publishes a new file under its name."""
        if self.closed:
            return
        if self._file._is_to_be_discarded() or os.getpid() != self._file._process:
            return self.discard()
        self._is_closed = True
        try:
            self._encoder.close()
        except BaseException:
            self._file.discard()
            raise
        self._file.close()

    def _dealloc_warn(self, source: object) -> None:
        self._file._dealloc_warn(source)

    def __enter__(self) -> Encoded:
        return self

    def __exit__(self, kind: Optional[type] = None, *_: Any) -> None:
        if kind is not None and self._file._upload:
            self.discard()
        else:
            self._file._handled = sys.exc_info()[1]
            self.close()

    def __del__(self) -> None:
        if self.closed:
            return
        if self._file._upload:
            self._file._warn()
            self.discard()
        else:
            self.close()


class Text(io.TextIOWrapper):
    """A text file over a file of this package."""

    def __exit__(self, kind: Optional[type] = None, *rest: Any) -> None:
        if kind is not None and isinstance(self.buffer, (RfioFile, Encoded)):
            # Appended files are closed below.
            file = self.buffer if isinstance(self.buffer, RfioFile) else self.buffer._file
            if file._upload:
                self.buffer.discard()
        super().__exit__(kind, *rest)
