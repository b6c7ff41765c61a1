"""Files with coroutines: `open_async` of fsspec's asynchronous filesystems."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Optional

from fsspec.asyn import AbstractAsyncStreamedFile

from .asynchronous import in_thread
from .files import RfioFile


class AsyncFile(AbstractAsyncStreamedFile):
    """An open file with awaitable reads and writes. They are executed in the order of the calls, even if an awaited one is
    cancelled. The rules of written files apply: an exception that leaves the `async with` statement discards the file, and so does
    dropping it without `close()`."""

    def __init__(self, file: RfioFile):
        # The base class would request the size from the server, and buffer a second time.
        self._file = file
        self._last: Optional[asyncio.Task[Any]] = None
        self.fs, self.path, self.mode, self.blocksize = file.fs, file.path, file.mode, file.blocksize
        self.size: Optional[int] = getattr(file, "size", None)

    async def _in_turn(self, call: Callable[..., Any], *arguments: Any) -> Any:
        before = self._last

        async def act() -> Any:
            if before is not None:
                await asyncio.wait([before])
            return await in_thread(call, *arguments)

        self._last = asyncio.ensure_future(act())
        # After a cancellation no caller may be left to receive the error.
        self._last.add_done_callback(_is_seen)
        return await asyncio.shield(self._last)

    async def read(self, length: Optional[int] = -1) -> bytes:
        """Reads up to `length` bytes, or all that remain."""
        data: bytes = await self._in_turn(self._file.read, -1 if length is None else length)
        return data

    async def readinto(self, buffer: Any) -> int:
        """Fills a buffer; stops at the end of the file."""
        read: int = await self._in_turn(self._file.readinto, buffer)
        return read

    async def write(self, data: Any) -> int:
        """Writes to a buffer, which is sent to the server when it is full."""
        written: int = await self._in_turn(self._file.write, bytes(data))
        return written

    async def flush(self, force: bool = False) -> None:
        """Sends the buffered data if it is at least a block, or if `force` is set."""
        await self._in_turn(self._file.flush, force)

    async def close(self) -> None:
        """Closes the file; publishes a written file under its name."""
        await self._in_turn(self._file.close)

    async def discard(self) -> None:
        """Closes the file, and removes the written data."""
        await self._in_turn(self._file.discard)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Moves the position of a file that is read and has no operation in progress."""
        position: int = self._file.seek(offset, whence)
        return position

    def tell(self) -> int:
        """Returns the position."""
        position: int = self._file.tell()
        return position

    @property
    def loc(self) -> int:
        """The position, as fsspec's files name it."""
        return self.tell()

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return bool(self._file.closed)

    def readable(self) -> bool:
        """Returns whether the file can be read."""
        return bool(self._file.readable())

    def writable(self) -> bool:
        """Returns whether the file can be written."""
        return bool(self._file.writable())

    def seekable(self) -> bool:
        """Returns whether the position can be moved."""
        return bool(self._file.seekable())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path} {self.mode}>"

    def __del__(self) -> None:
        """Leaves closing or discarding to the file below."""

    async def __aenter__(self) -> AsyncFile:
        return self

    async def __aexit__(self, kind: Optional[type] = None, *_: Any) -> None:
        if kind is not None and self._file._upload:
            await self.discard()
        else:
            await self.close()


def _is_seen(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


async def opened(open_file: Callable[..., Any], path: str, mode: str, block_size: Optional[int]) -> AsyncFile:
    """Opens a file to read (`rb`), to write (`wb`, `xb`) or to append to (`ab`). Drops the file if the task was cancelled."""
    if mode not in ("rb", "wb", "xb", "ab"):
        raise ValueError(f"open_async supports the modes rb, wb, xb and ab, not {mode!r}")
    return AsyncFile(await in_thread(partial(open_file, path, mode, block_size)))
