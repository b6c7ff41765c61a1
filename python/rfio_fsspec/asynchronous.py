"""The coroutines of the filesystem.

The event loop itself carries out reads, without threads: one connection for each loop and server carries all requests of the loop
concurrently. Operations that change something, or that use local files, run as a whole in a few threads on the
connections of the synchronous methods, so that each rule is implemented once.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Optional, TypeVar
from weakref import WeakKeyDictionary

from fsspec.asyn import AsyncFileSystem

from . import _native
from .entries import absolute, described, entry_of, is_link
from .retry import Attempts

_T = TypeVar("_T")
#: Maximum number of operations in threads, per process.
_THREADS = 32
#: Maximum number of open files of a connection: servers limit them for each session and user.
_FILES = 64
#: Seconds between checks for a server that has not replied for too long.
_LOOK = 1.0


class Requests:
    """A connection and its requests in progress, for one event loop."""

    def __init__(self, connection: _native.Connection):
        self.connection = connection
        self.is_broken = False
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._is_due = self._has_timer = self._has_writer = False
        self._room = asyncio.Semaphore(_FILES)
        asyncio.get_running_loop().add_reader(connection.fileno(), self._advance)

    async def ask(self, begin: Callable[..., int], *arguments: Any) -> Any:
        """Starts a request and waits for its result. Abandons it if the waiting task is cancelled."""
        number, future = self._begin(begin, arguments)
        try:
            return await future
        except asyncio.CancelledError:
            if self._waiting.pop(number, None):
                self.connection.leave(number)
            raise

    @asynccontextmanager
    async def opened(self, url: str) -> AsyncIterator[tuple[int, _native.Attributes]]:
        """Opens a file for reading; yields its handle and attributes."""
        async with self._room:
            handle, about = await self._open(url)
            try:
                yield handle, about
            finally:
                self._close(url, handle)

    async def _open(self, url: str) -> tuple[int, _native.Attributes]:
        _, future = self._begin(self.connection.open, (url, os.O_RDONLY))
        try:
            handle, about = await asyncio.shield(future)
            return handle, about
        except asyncio.CancelledError:
            # The server may still open it.
            future.add_done_callback(partial(self._close_unwanted, url))
            raise

    def _close_unwanted(self, url: str, future: asyncio.Future[Any]) -> None:
        if not future.cancelled() and future.exception() is None:
            self._close(url, future.result()[0])

    def _close(self, url: str, handle: int) -> None:
        # After the earlier requests on it; its result is not used. A lost connection has closed it.
        if not self.is_broken:
            with suppress(OSError):
                self.connection.close(url, handle)
            self._be_due()

    def _begin(self, begin: Callable[..., int], arguments: tuple[Any, ...]) -> tuple[int, asyncio.Future[Any]]:
        try:
            number = begin(*arguments)
        finally:
            # Replies may have been read from the socket already, which then does not become ready again.
            self._be_due()
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        return number, future

    def _be_due(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._advance)

    def _advance(self) -> None:
        self._is_due = False
        if self.is_broken:
            return
        for number, is_done, value in self.connection.advance():
            future = self._waiting.pop(number, None)
            if future is None or future.done():
                continue
            if is_done:
                future.set_result(value)
            else:
                future.set_exception(value)
        loop, descriptor = asyncio.get_running_loop(), self.connection.fileno()
        if self.connection.is_broken():
            self.is_broken = True
            loop.remove_reader(descriptor)
            loop.remove_writer(descriptor)
            return
        if self.connection.wants_to_send() != self._has_writer:
            self._has_writer = not self._has_writer
            if self._has_writer:
                loop.add_writer(descriptor, self._advance)
            else:
                loop.remove_writer(descriptor)
        if self._waiting and not self._has_timer:
            self._has_timer = True
            loop.call_later(_LOOK, self._look)

    def _look(self) -> None:
        self._has_timer = False
        self._advance()


class Engine:
    """The connections of one event loop, one for each server."""

    def __init__(self) -> None:
        self._connections: dict[str, asyncio.Task[Requests]] = {}
        self._known: set[str] = set()

    async def requests(self, server: str, url: str) -> Requests:
        """Returns the connection to a server; connects if there is no intact one."""
        making = self._connections.get(server)
        if making is None or _is_of_no_use(making):
            making = self._connections[server] = asyncio.ensure_future(self._connect(server, url))
        # One of the tasks that wait for it may be cancelled.
        return await asyncio.shield(making)

    async def _connect(self, server: str, url: str) -> Requests:
        requests = Requests(await in_thread(_native.Connection, url))
        self._known.add(server)
        return requests

    def is_known(self, server: str) -> bool:
        """Returns whether there was a connection to the server."""
        return server in self._known


def _is_of_no_use(making: asyncio.Task[Requests]) -> bool:
    if not making.done():
        return False
    return making.cancelled() or making.exception() is not None or making.result().is_broken


_engines: WeakKeyDictionary[asyncio.AbstractEventLoop, Engine] = WeakKeyDictionary()
_threads: Optional[ThreadPoolExecutor] = None
_lock = threading.Lock()


def _forget() -> None:
    """Drops everything in a forked child, which has neither its parent's threads nor its connections."""
    global _engines, _threads, _lock
    _engines, _threads, _lock = WeakKeyDictionary(), None, threading.Lock()


os.register_at_fork(after_in_child=_forget)


def engine() -> Engine:
    """Returns the connections of the running event loop."""
    loop = asyncio.get_running_loop()
    with _lock:
        if loop not in _engines:
            # Connections of closed loops are not needed any more.
            for other in [other for other in _engines if other.is_closed()]:
                del _engines[other]
            _engines[loop] = Engine()
        return _engines[loop]


async def in_thread(call: Callable[..., _T], *arguments: Any, **more: Any) -> _T:
    """Runs a blocking call in a thread. Once started it runs to completion, even if the waiting task is cancelled."""
    global _threads
    with _lock:
        if _threads is None:
            _threads = ThreadPoolExecutor(_THREADS, "rfio")
        threads = _threads
    return await asyncio.get_running_loop().run_in_executor(threads, partial(call, *arguments, **more))


def _server(path: str) -> str:
    """Returns the server part of a path; a Unix socket in brackets contains slashes itself."""
    end = path.find("]") + 1 if path.startswith("[") else 0
    return path[:end] + path[end:].partition("/")[0]


class Asynchronous(AsyncFileSystem):
    """The coroutines, implemented with the synchronous methods of the derived class."""

    # The synchronous methods need neither an event loop nor its thread.
    mirror_sync_methods = False

    def __init__(self, *arguments: Any, asynchronous: bool = False, loop: Any = None, **options: Any):
        # Otherwise AsyncFileSystem starts a thread for its loop, which does not survive a fork.
        super().__init__(*arguments, asynchronous=True, loop=None, **options)
        self.asynchronous = asynchronous
        self._loop = loop

    @property
    def loop(self) -> Any:
        """The event loop in which fsspec runs coroutines for synchronous callers."""
        if self.asynchronous:
            return None
        from fsspec.asyn import get_loop
        return self._loop or get_loop()

    async def _asking(self, path: str, act: Callable[[Requests, str], Awaitable[_T]]) -> _T:
        """Makes a request that changes nothing; retries it while the connection is lost (`retry`)."""
        url, server, mine = self._url(path), _server(path), engine()
        attempts = Attempts(self.retry)
        while True:
            try:
                return await act(await mine.requests(server, url), url)
            except OSError as error:
                pause = attempts.pause_after(error, lambda: mine.is_known(server))
            await asyncio.sleep(pause)

    async def _info(self, path: str, **_: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        return described(path, await self._asking(path, lambda requests, url: requests.ask(requests.connection.examine, url)))

    async def _ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        path = self._strip_protocol(path).rstrip("/")
        try:
            found = sorted(await self._asking(path, _entries), key=lambda entry: entry[0])
        except NotADirectoryError:
            return [await self._info(path)] if detail else [path]
        if not detail:
            return [f"{path}/{name}" for name, _ in found]
        links = [f"{path}/{name}" for name, about in found if is_link(about)]
        targets = dict(zip(links, await asyncio.gather(*map(self._info, links), return_exceptions=True)))
        return [entry_of(f"{path}/{name}", about, targets.get(f"{path}/{name}")) for name, about in found]

    async def _cat_file(self, path: str, start: Optional[int] = None, end: Optional[int] = None, **_: Any) -> bytes:
        async def act(requests: Requests, url: str) -> bytes:
            async with requests.opened(url) as (handle, about):
                data: bytes = await requests.ask(requests.connection.read, url, handle, *absolute(start, end, about.size))
                return data

        return await self._asking(self._strip_protocol(path), act)

    async def _cat_ranges(self, paths: list[str], starts: Any, ends: Any, max_gap: Optional[int] = None,
                          batch_size: Optional[int] = None, on_error: str = "return", **_: Any) -> list[Any]:
        # No limit is needed: ranges of one file are one request, and `Requests` limits the files.
        del max_gap, batch_size
        starts, ends = ([each] * len(paths) if each is None or isinstance(each, int) else list(each) for each in (starts, ends))
        if not len(paths) == len(starts) == len(ends):
            raise ValueError(f"{len(paths)} paths, {len(starts)} starts and {len(ends)} ends")
        wanted: dict[str, list[int]] = {}
        for index, path in enumerate(paths):
            wanted.setdefault(self._strip_protocol(path), []).append(index)
        results: list[Any] = [None] * len(paths)

        async def read(path: str, mine: list[int]) -> None:
            async def act(requests: Requests, url: str) -> list[bytes]:
                async with requests.opened(url) as (handle, about):
                    ranges = [absolute(starts[index], ends[index], about.size) for index in mine]
                    parts: list[bytes] = await requests.ask(requests.connection.read_ranges, url, handle, ranges)
                    return parts

            try:
                parts: list[Any] = list(await self._asking(path, act))
            except OSError as error:
                if on_error != "return":
                    raise
                parts = [error] * len(mine)
            for index, part in zip(mine, parts):
                results[index] = part

        await asyncio.gather(*(read(path, mine) for path, mine in wanted.items()))
        return results

    async def open_async(self, path: str, mode: str = "rb", block_size: Optional[int] = None, compression: Optional[str] = None,
                         **_: Any) -> Any:
        """Opens a file with awaitable reads and writes."""
        from .streamed import opened
        if compression:
            raise ValueError("open_async does not support compression")
        return await opened(self._open, self._strip_protocol(path), mode, block_size)

    async def _find(self, path: str, maxdepth: Optional[int] = None, withdirs: bool = False, **kwargs: Any) -> Any:
        return await in_thread(self.find, path, maxdepth, withdirs, **kwargs)

    async def _glob(self, path: str, maxdepth: Optional[int] = None, **kwargs: Any) -> Any:
        return await in_thread(self.glob, path, maxdepth, **kwargs)

    async def _du(self, path: str, total: bool = True, maxdepth: Optional[int] = None, **kwargs: Any) -> Any:
        return await in_thread(self.du, path, total, maxdepth, **kwargs)

    async def _expand_path(self, path: Any, recursive: bool = False, maxdepth: Optional[int] = None, **kwargs: Any) -> Any:
        return await in_thread(self.expand_path, path, recursive, maxdepth, **kwargs)

    async def _get_file(self, rpath: str, lpath: Any, **kwargs: Any) -> None:
        await in_thread(self.get_file, rpath, lpath, **kwargs)

    async def _put_file(self, lpath: Any, rpath: str, mode: str = "overwrite", **kwargs: Any) -> None:
        await in_thread(self.put_file, lpath, rpath, mode=mode, **kwargs)

    async def _pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        await in_thread(self.pipe_file, path, value, mode=mode, **kwargs)

    async def _cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        await in_thread(self.cp_file, path1, path2, **kwargs)

    async def _mv_file(self, path1: str, path2: str, **_: Any) -> None:
        await in_thread(self.mv, path1, path2)

    async def _rm_file(self, path: str, **_: Any) -> None:
        await in_thread(self.rm_file, path)

    async def _rm(self, path: Any, recursive: bool = False, batch_size: Optional[int] = None, maxdepth: Optional[int] = None,
                  **_: Any) -> None:
        await in_thread(self.rm, path, recursive, maxdepth)

    async def _mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        await in_thread(self.mkdir, path, create_parents)

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:
        await in_thread(self.makedirs, path, exist_ok)


async def _entries(requests: Requests, url: str) -> list[tuple[str, _native.Attributes]]:
    found: list[tuple[str, _native.Attributes]] = []
    cookie = held = 0
    while True:
        entries, cookie, held = await requests.ask(requests.connection.entries, url, cookie, held)
        found += entries
        if cookie == 0:
            return found
