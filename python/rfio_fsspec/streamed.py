"""Files of the coroutines: `open_async` of fsspec's asynchronous filesystems."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Optional

from fsspec.asyn import AbstractAsyncStreamedFile

from .asynchronous import in_thread
from .files import RfioFile


class AsyncFile(AbstractAsyncStreamedFile):
    """An open file whose reads and writes are awaited. They are carried out one after the other, in the order of the calls, also
    if one that is awaited is cancelled. What holds for files that are written holds for these: an exception that leaves the
    `async with` statement discards, and so does letting go of the file without `close()`."""

    def __init__(self, file: RfioFile):
        # The class above would ask the server for the size, and buffer a second time.
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
        # After a cancellation no caller may remain to receive the error.
        self._last.add_done_callback(_is_seen)
        return await asyncio.shield(self._last)

    async def read(self, length: Optional[int] = -1) -> bytes:
        """Reads so many bytes, or all that follow."""
        data: bytes = await self._in_turn(self._file.read, -1 if length is None else length)
        return data

    async def readinto(self, buffer: Any) -> int:
        """Fills a buffer as far as the file has bytes."""
        read: int = await self._in_turn(self._file.readinto, buffer)
        return read

    async def write(self, data: Any) -> int:
        """Writes to a buffer, which goes to the server when it is full."""
        written: int = await self._in_turn(self._file.write, bytes(data))
        return written

    async def flush(self, force: bool = False) -> None:
        """Sends what is buffered, if it is a block at least or `force` says so."""
        await self._in_turn(self._file.flush, force)

    async def close(self) -> None:
        """Closes; a file that was written gets its name."""
        await self._in_turn(self._file.close)

    async def discard(self) -> None:
        """Closes, and removes what was written."""
        await self._in_turn(self._file.discard)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Moves the position, of a file that is read and of which nothing is under way."""
        position: int = self._file.seek(offset, whence)
        return position

    def tell(self) -> int:
        """The position."""
        position: int = self._file.tell()
        return position

    @property
    def loc(self) -> int:
        """The position, as fsspec's files call it."""
        return self.tell()

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return bool(self._file.closed)

    def readable(self) -> bool:
        """Whether it can be read."""
        return bool(self._file.readable())

    def writable(self) -> bool:
        """Whether it can be written."""
        return bool(self._file.writable())

    def seekable(self) -> bool:
        """Whether its position can be moved."""
        return bool(self._file.seekable())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path} {self.mode}>"

    def __del__(self) -> None:
        """The file below closes or discards itself."""

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
    """Opens a file to read (`rb`), to write (`wb`, `xb`) or to append to (`ab`). One that a cancelled task has opened is let go of."""
    if mode not in ("rb", "wb", "xb", "ab"):
        raise ValueError(f"mode {mode!r} is none of rb, wb, xb and ab, which open_async has")
    return AsyncFile(await in_thread(partial(open_file, path, mode, block_size)))
