"""Open files. A file that is written appears under its name when it is whole.

It is whole when its `close()` is called. It is not, and is discarded, when an exception leaves the `with` statement that it is
written in, or when nobody closes it. Encoders and text files around it follow that.
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
    """An open file. What is written with `wb` or `xb` is complete under its name or not there: `Upload` has the rules. It is
    discarded by `discard()`, by an exception that leaves its `with` statement, and if nobody closes it."""

    def __init__(self, fs: RfioFileSystem, path: str, mode: str = "rb", *arguments: Any, **kwargs: Any):
        self._process = os.getpid()
        self._is_forsaken = False
        self._upload = Upload(fs, path, exclusive=mode == "xb") if mode in ("wb", "xb") else None
        self._file: Optional[_native.File] = self._upload.file if self._upload else None
        if mode == "rb":
            # Caches may read at once. Size and bytes are of one file, also if another gets the name meanwhile.
            self._file = fs._ask(fs._url(path), _native.File, os.O_RDONLY)
            kwargs["size"] = self._file.opened.size
            self._details = described(path, self._file.opened)
        self._handled = sys.exc_info()[1]
        # Releases of fsspec before 2024 do not know `xb`; it is written as `wb` is.
        super().__init__(fs, path, "wb" if mode == "xb" else mode, *arguments, **kwargs)

    def __reduce__(self) -> Any:
        if self.mode != "rb":
            raise TypeError(f"{self.path} is being written by this process, and cannot be pickled")
        cache = self.cache.name if self.cache else "none"
        # Without the size: it is the one of the file that has the name then.
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
        """Writes to the buffer, which goes to the server when it is full."""
        self._refuse_inherited()
        written: int = super().write(data)
        return written

    def _refuse_inherited(self) -> None:
        if os.getpid() != self._process:
            raise OSError(errno.EBADF, f"opened for writing by process {self._process}; a child of a fork opens its own", self.path)

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
        """Gives what was written its name, at the end of a transaction. A file that was discarded is none."""
        if self._upload:
            if not self.closed:
                raise ValueError(f"{self.path} was written in a transaction and not closed before its end")
            self._upload.publish()

    def discard(self) -> None:
        """Closes, and removes what was written: what had the name before stays. What was appended cannot be taken back."""
        self.closed, self._handled = True, None
        if self._upload:
            self._upload.discard()
        elif self._file is not None:
            self._file.close()

    def close(self) -> None:
        """Closes; what is buffered is written first, and a new file gets its name."""
        if self.closed:
            return
        if self.mode != "rb" and os.getpid() != self._process:
            # The parent has the buffer, too.
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
        """Whether close() is called because an exception leaves a `with` statement. Objects that hold files (`fsspec.open`,
        pandas' handles, pyarrow's streams) call close() in any case. An exception that was there when the file was opened
        does not count, nor does one that an `except` clause handles."""
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
        """Called by a text file around this one that closes it because nobody else does."""
        self._is_forsaken = True
        self._warn()

    def _warn(self) -> None:
        if self._upload and not self._upload.is_inherited and not sys.is_finalizing():
            warnings.warn(f"{self.path} was written and never closed, so that it is not known to be whole: it is discarded",
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
    """Whether a frame calls `__exit__` because of an exception, or is that call."""
    if frame.f_code.co_name in ("__exit__", "__aexit__"):
        values = frame.f_locals.values()
        return any(exception is part for value in values for part in (value if isinstance(value, tuple) else (value,)))
    return 0 <= frame.f_lasti < len(frame.f_code.co_code) and frame.f_code.co_code[frame.f_lasti] == _LEAVES_WITH


class Encoded(io.BufferedIOBase):
    """A file that is written through an encoder. Encoders do not close the file that they write to, and know nothing of
    discarding it."""

    def __init__(self, file: RfioFile, encoder: Any):
        self._file, self._encoder = file, encoder
        self._is_closed = False

    @property
    def name(self) -> str:
        """The path."""
        return str(self._file.path)

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return getattr(self, "_is_closed", True)

    def writable(self) -> bool:
        """It is."""
        return not self.closed

    def write(self, data: Any) -> int:
        """Encodes bytes."""
        self._file._refuse_inherited()
        written: int = self._encoder.write(data)
        return written

    def flush(self) -> None:
        """Leaves to the encoder what it has not written yet: what is encoded in parts becomes larger."""

    def tell(self) -> int:
        """The position before encoding."""
        position: int = self._encoder.tell()
        return position

    def discard(self) -> None:
        """Closes, and removes what was written."""
        self._is_closed = True
        # Encoders close themselves when they are collected, and some close the file.
        self._file._is_forsaken = True
        with suppress(Exception):
            self._encoder.close()
        self._file.discard()

    def close(self) -> None:
        """Closes encoder and file; a new file gets its name."""
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
    """Text that is written to a file of this package."""

    def __exit__(self, kind: Optional[type] = None, *rest: Any) -> None:
        if kind is not None and isinstance(self.buffer, (RfioFile, Encoded)):
            # Files that are appended to are closed below.
            file = self.buffer if isinstance(self.buffer, RfioFile) else self.buffer._file
            if file._upload:
                self.buffer.discard()
        super().__exit__(kind, *rest)
