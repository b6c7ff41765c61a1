"""An fsspec filesystem for RFIO servers: ``rfio://host[:port]/path``.

    import fsspec, pandas
    pandas.read_csv("rfio://server/data/table.csv")
    fsspec.open("rfio://server/data/file.bin", "rb")

Importing this module registers the protocol; an installed package is found by fsspec itself. How to connect comes from
the environment (``RFIO_USER``, ``RFIO_SECRETS``, ``RFIO_TLS_CA``, ``RFIO_TLS_CERTIFICATE``, ``RFIO_TLS_KEY``, ``RFIO_FABRIC``), as for the
tools.
"""

from __future__ import annotations

import errno
import io
import os
import secrets
import stat as modes
from collections import deque
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any, Optional, Union

import fsspec
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from . import _native
from .update import FLAGS, RfioUpdate

__all__ = ["RfioFileSystem", "RfioFile", "RfioUpdate"]


class RfioFileSystem(AbstractFileSystem):
    """Files on RFIO servers. Paths are ``host[:port]/path``, so that one filesystem serves all servers."""

    protocol = "rfio"
    root_marker = ""
    #: What fsspec itself gives to every filesystem.
    _GENERAL = {"asynchronous", "loop", "batch_size", "use_listings_cache", "listings_expiry_time", "max_paths",
                "skip_instance_cache"}

    #: Files of which ranges come at once.
    _AT_ONCE = 16

    def __init__(self, *arguments: Any, auto_mkdir: bool = True, **options: Any):
        """`auto_mkdir`: whether the directories above a file that is written are made if they are missing, as stores of
        objects, and programs made for them, take for granted."""
        if unknown := sorted(set(options) - self._GENERAL):
            raise TypeError(f"rfio:// takes no option {', '.join(unknown)}: who connects and how comes from the environment "
                            "(RFIO_USER, RFIO_SECRETS, RFIO_TLS_CA, RFIO_TLS_CERTIFICATE, RFIO_TLS_KEY, RFIO_FABRIC, RFIO_TIMEOUT)")
        super().__init__(*arguments, **options)
        self.auto_mkdir = auto_mkdir

    def _url(self, path: str) -> str:
        host, _, rest = self._strip_protocol(path).partition("/")
        return f"rfio://{host}/{rest}"

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """What a path is."""
        path = self._strip_protocol(path)
        return _described(path, _native.examine(self._url(path)))

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """The entries of a directory; a file is its own only entry. One request, and one for each symbolic link."""
        path = self._strip_protocol(path).rstrip("/")
        try:
            found = sorted(_native.entries(self._url(path)), key=lambda entry: entry[0])
        except NotADirectoryError:
            return [self.info(path)] if detail else [path]
        if not detail:
            return [f"{path}/{name}" for name, _ in found]
        return [self._entry(f"{path}/{name}", about) for name, about in found]

    def _entry(self, path: str, about: _native.Attributes) -> dict[str, Any]:
        """What a name in a directory is. A link is what it leads to; one that leads to nothing is listed all the same, as
        ls(1) does."""
        if not modes.S_ISLNK(about.mode):
            return _described(path, about)
        try:
            return self.info(path)
        except OSError:
            return _described(path, about)

    def modified(self, path: str) -> datetime:
        """When a file was last changed."""
        return datetime.fromtimestamp(self.info(path)["mtime"], timezone.utc)

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """Makes a directory."""
        if create_parents:
            self.makedirs(self._parent(path), exist_ok=True)
        _native.make_directory(self._url(path))

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Makes a directory and what is missing above it."""
        host, *parts = self._strip_protocol(path).rstrip("/").split("/")
        for end in range(1, len(parts) + 1):
            last = end == len(parts)
            try:
                _native.make_directory(self._url("/".join([host, *parts[:end]])))
            except FileExistsError:
                if last and not exist_ok:
                    raise

    def rmdir(self, path: str) -> None:
        """Removes an empty directory."""
        _native.remove_directory(self._url(path))

    def rm_file(self, path: str) -> None:
        """Removes a file, or an empty directory: fsspec removes a tree through this function, leaves first."""
        try:
            _native.unlink(self._url(path))
        except IsADirectoryError:
            _native.remove_directory(self._url(path))

    def mv(self, path1: str, path2: str, **_: Any) -> None:
        """Renames on one server."""
        _native.rename(self._url(path1), self._url(path2))

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Copies a file: where it is if both are on one server, else through here. It appears when it is whole."""
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        source = _native.File(self._url(path1), os.O_RDONLY)
        partial = _partial(path2)
        try:
            sink = self._made(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            try:
                self._copy(source, sink)
            finally:
                sink.close()
            _native.rename(self._url(partial), self._url(path2))
        except BaseException:
            with suppress(OSError):
                _native.unlink(self._url(partial))
            raise
        finally:
            source.close()

    @staticmethod
    def _copy(source: _native.File, sink: _native.File) -> None:
        try:
            return sink.copy_from(source)
        except OSError as error:
            # Another server, or one that cannot: nothing was copied then.
            if error.errno != errno.EXDEV:
                raise
        at = 0
        while data := source.read_at(at, 8 << 20):
            sink.write_at(at, data)
            at += len(data)

    def cat_ranges(self, paths: list[str], starts: Any, ends: Any, max_gap: Optional[int] = None,
                   on_error: str = "return", **kwargs: Any) -> list[Any]:
        """Many ranges, with one request per file: what columnar readers ask for. Those of several files come at once."""
        count = len(paths)
        starts = starts if isinstance(starts, list) else [starts] * count
        ends = ends if isinstance(ends, list) else [ends] * count
        wanted: dict[str, list[int]] = {}
        for index, path in enumerate(paths):
            wanted.setdefault(path, []).append(index)
        results: list[Any] = [None] * count
        under_way: deque[tuple[list[int], _native.File, _native.Ranges]] = deque()

        def take_oldest() -> None:
            mine, file, begun = under_way.popleft()
            try:
                for index, data in zip(mine, begun.finish()):
                    results[index] = data
            except OSError as error:
                refuse(mine, error)
            finally:
                file.close()

        def refuse(mine: list[int], error: OSError) -> None:
            if on_error != "return":
                raise error
            for index in mine:
                results[index] = error

        try:
            for path, mine in wanted.items():
                if len(under_way) == self._AT_ONCE:
                    take_oldest()
                try:
                    under_way.append((mine, *self._begin(path, [(starts[index], ends[index]) for index in mine])))
                except OSError as error:
                    refuse(mine, error)
            while under_way:
                take_oldest()
        finally:
            for _, file, begun in under_way:
                begun.leave()
                file.close()
        return results

    def _begin(self, path: str, wanted: list[tuple[Optional[int], Optional[int]]]) -> tuple[_native.File, _native.Ranges]:
        """Opens a file and begins to read parts of it."""
        size = self.info(path)["size"]
        file = _native.File(self._url(path), os.O_RDONLY)
        try:
            return file, file.begin_ranges([_absolute(start, end, size) for start, end in wanted])
        except OSError:
            file.close()
            raise

    def _open(self, path: str, mode: str = "rb", block_size: Optional[int] = None,
              autocommit: bool = True, cache_options: Optional[dict[str, Any]] = None, **kwargs: Any) -> Union["RfioFile", io.BufferedRandom]:
        if "+" in mode:
            return self._open_to_update(path, mode, block_size, autocommit)
        return RfioFile(self, path, mode, block_size or "default", autocommit=autocommit,
                        cache_options=cache_options, **kwargs)

    def _open_to_update(self, path: str, mode: str, block_size: Optional[int], autocommit: bool) -> io.BufferedRandom:
        """A file that is changed in place: others see it between two writes."""
        kind = mode.replace("+", "").replace("b", "")
        if kind not in FLAGS:
            raise ValueError(f"mode {mode!r} is none")
        if not autocommit:
            raise ValueError(f"a file opened with {mode!r} is changed in place, which no transaction can take back")
        how = os.O_RDWR | FLAGS[kind]
        file = self._made(path, how) if how & os.O_CREAT else _native.File(self._url(path), how)
        return io.BufferedRandom(RfioUpdate(file, path, mode), block_size or io.DEFAULT_BUFFER_SIZE)

    def _made(self, path: str, how: int) -> _native.File:
        """A file to write, with the directories above it if need be."""
        url = self._url(path)
        try:
            return _native.File(url, how)
        except FileNotFoundError:
            if not self.auto_mkdir:
                raise
        self.makedirs(self._parent(path), exist_ok=True)
        return _native.File(url, how)


def _described(path: str, about: _native.Attributes) -> dict[str, Any]:
    """Attributes as fsspec has them."""
    kind = "directory" if modes.S_ISDIR(about.mode) else "file" if modes.S_ISREG(about.mode) else "other"
    return {"name": path, "size": about.size, "type": kind, "mode": about.mode, "mtime": about.modified / 1e9}


def _partial(path: str) -> str:
    """What a file is called until it is whole. Each writer has a name of its own: who is whole last wins, and nobody mixes."""
    directory, _, name = path.rpartition("/")
    return f"{directory}/.{name[:200]}.{secrets.token_hex(8)}.rfpart"


def _absolute(start: Optional[int], end: Optional[int], size: int) -> tuple[int, int]:
    begin, stop, _ = slice(start, end).indices(size)
    return begin, max(0, stop - begin)


class RfioFile(AbstractBufferedFile):
    """An open file. What is written goes to a name of its own and appears under the file's when it is whole."""

    def __init__(self, fs: RfioFileSystem, path: str, mode: str = "rb", *arguments: Any, **kwargs: Any):
        self._file: Optional[_native.File] = None
        super().__init__(fs, path, mode, *arguments, **kwargs)
        if mode == "rb":
            self._file = _native.File(fs._url(self.path), os.O_RDONLY)

    def _opened(self) -> _native.File:
        if self._file is None:
            raise ValueError(f"nothing was written to {self.path} yet")
        return self._file

    def _fetch_range(self, start: int, end: int) -> bytes:
        return self._opened().read_at(start, end - start)

    def _initiate_upload(self) -> None:
        if self.mode == "ab":
            self._file = self.fs._made(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            return
        self._partial = _partial(self.path)
        self._file = self.fs._made(self._partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL)

    def _upload_chunk(self, final: bool = False) -> bool:
        data = self.buffer.getvalue()
        if self.mode == "ab":
            self._opened().append(data)
        else:
            self._opened().write_at(self.offset, data)
        if final and self.autocommit:
            self.commit()
        return True

    def commit(self) -> None:
        """Gives what was written its name."""
        self._opened().close()
        if self.mode != "ab":
            _native.rename(self.fs._url(self._partial), self.fs._url(self.path))

    def discard(self) -> None:
        """Removes what was written."""
        self._opened().close()
        if self.mode != "ab":
            _native.unlink(self.fs._url(self._partial))

    def close(self) -> None:
        """Closes; what is buffered is written first."""
        try:
            super().close()
        finally:
            if self._file is not None:
                self._file.close()


fsspec.register_implementation("rfio", RfioFileSystem, clobber=True)
