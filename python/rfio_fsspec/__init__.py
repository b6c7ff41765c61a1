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
import stat as modes
import sys
import time
from collections import deque
from datetime import datetime, timezone
from types import FrameType
from typing import Any, Optional, Union

import fsspec
from fsspec.core import has_magic
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from . import _native
from .update import FLAGS, RfioUpdate
from .upload import Upload, target

__all__ = ["RfioFileSystem", "RfioFile", "RfioUpdate"]


class RfioFileSystem(AbstractFileSystem):
    """Files on RFIO servers. Paths are ``host[:port]/path``, so that one filesystem serves all servers.

    Symbolic links: a path that is named is followed, as by stat(2), except by `rm`, `mv` and `islink`. What a recursive
    operation finds is not: `ls` says that a link to a directory is a "link", so `walk`, `find`, `glob("**")` and `du` do not
    enter it, `get` and `copy` leave it out, `rm` removes the link itself. A link to a file is a file.
    """

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
        """What a name in a directory is. A link to a file is a file. fsspec must not enter a link to a directory. One that
        leads to nothing is listed all the same, as ls(1) does."""
        if not modes.S_ISLNK(about.mode):
            return _described(path, about)
        try:
            entry = {**self.info(path), "islink": True}
        except OSError:
            return {**_described(path, about), "islink": True}
        if entry["type"] == "directory":
            entry["type"] = "link"
        return entry

    def find(self, path: str, maxdepth: Optional[int] = None, withdirs: bool = False, detail: bool = False,
             links: bool = True, **kwargs: Any) -> Any:
        """Lists the files below a path, `withdirs` the directories, too, and then links to them unless `links` is false."""
        found = super().find(path, maxdepth, withdirs, detail=True, **kwargs)
        for name, entry in list(found.items()):
            if entry.get("type") == "link":
                if withdirs and links:
                    entry["type"] = "directory"
                else:
                    del found[name]
        return found if detail else list(found)

    def expand_path(self, path: Any, recursive: bool = False, maxdepth: Optional[int] = None, **kwargs: Any) -> list[str]:
        """The paths that a pattern, or a recursive operation, is about."""
        kwargs.setdefault("links", not recursive)
        found: list[str] = super().expand_path(path, recursive, maxdepth, **kwargs)
        return found

    def islink(self, path: str) -> bool:
        """Whether a path is a symbolic link."""
        try:
            return modes.S_ISLNK(_native.examine(self._url(path), follow=False).mode)
        except FileNotFoundError:
            return False

    def symlink(self, text: str, path: str) -> None:
        """Makes a symbolic link with this text, which the server resolves relative to the link's directory."""
        _native.make_link(text, self._url(path))

    def chmod(self, path: str, mode: int) -> None:
        """Sets permission bits."""
        _native.change_mode(self._url(path), mode)

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        """Makes an empty file. With `truncate=False` a file that exists keeps its bytes and gets the present time."""
        if truncate:
            with self.open(path, "wb", **kwargs):
                return
        there, about = target(self, self._strip_protocol(path))
        if about is None:
            self._made(there, os.O_WRONLY | os.O_CREAT).close()
        else:
            now = time.time_ns()
            _native.set_times(self._url(there), now, now)

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
        """Removes a file, a link or an empty directory."""
        try:
            _native.unlink(self._url(path))
        except IsADirectoryError:
            _native.remove_directory(self._url(path))

    def rm(self, path: Any, recursive: bool = False, maxdepth: Optional[int] = None) -> None:
        """Removes files, links and directories. A link is removed itself, also where it is named."""
        for each in reversed(self.expand_path(path)):
            self._remove(each, maxdepth if recursive else 0)

    def _remove(self, path: str, depth: Optional[int]) -> None:
        """Removes a path and what is below it, so many levels of it; None is all."""
        try:
            return _native.unlink(self._url(path))
        except IsADirectoryError:
            pass
        if depth != 0:
            below = None if depth is None else depth - 1
            for name, about in _native.entries(self._url(path)):
                if modes.S_ISDIR(about.mode):
                    self._remove(f"{path}/{name}", below)
                else:
                    _native.unlink(self._url(f"{path}/{name}"))
        _native.remove_directory(self._url(path))

    def mv(self, path1: Any, path2: Any, recursive: bool = False, maxdepth: Optional[int] = None, **_: Any) -> None:
        """Renames on one server, as mv(1): directories as well, links themselves. Several sources (a list, a pattern), or
        one where the destination is a directory or ends with a slash, get their own names in it."""
        path1, path2 = (path if isinstance(path, list) else os.fspath(path) for path in (path1, path2))
        if isinstance(path1, list) and isinstance(path2, list):
            if len(path1) != len(path2):
                raise ValueError(f"{len(path1)} paths to move, and {len(path2)} new ones")
            pairs = list(zip(map(self._strip_protocol, path1), map(self._strip_protocol, path2)))
        else:
            into = isinstance(path1, list) or has_magic(path1) or path2.endswith("/") or self.isdir(path2)
            there = self._strip_protocol(path2).rstrip("/")
            pairs = [(path, f"{there}/{path.rpartition('/')[2]}" if into else there) for path in self.expand_path(path1)]
        for one, other in pairs:
            try:
                _native.rename(self._url(one), self._url(other))
            except FileNotFoundError:
                if not self.auto_mkdir or self.isdir(self._parent(other)):
                    raise
                self.makedirs(self._parent(other), exist_ok=True)
                _native.rename(self._url(one), self._url(other))

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Copies a file: where it is if both are on one server, else through here. It appears when it is whole. For a
        directory, makes one."""
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        try:
            source = _native.File(self._url(path1), os.O_RDONLY)
        except IsADirectoryError:
            return self.makedirs(path2, exist_ok=True)
        try:
            upload = Upload(self, path2)
            try:
                self._copy(source, upload.file)
            except BaseException:
                upload.discard()
                raise
            upload.publish()
        finally:
            source.close()

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        """Writes a whole file; with the mode "create" only if nothing has its name."""
        with self.open(path, "xb" if mode == "create" else "wb", **kwargs) as file:
            file.write(value)

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

    def open(self, path: str, mode: str = "rb", *arguments: Any, **kwargs: Any) -> Any:
        """Opens a file. A text file that is written is discarded by an exception as well."""
        if "b" in mode or "r" in mode:
            return super().open(path, mode, *arguments, **kwargs)
        how = {key: kwargs.pop(key) for key in ("encoding", "errors", "newline") if key in kwargs}
        return _Text(self.open(path, mode.replace("t", "") + "b", *arguments, **kwargs), **how)

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

    def _made(self, path: str, how: int, mode: int = 0o666, sole: bool = False) -> _native.File:
        """A file to write, with the directories above it if need be."""
        url = self._url(path)
        try:
            return _native.File(url, how, mode, sole)
        except FileNotFoundError:
            if not self.auto_mkdir:
                raise
        self.makedirs(self._parent(path), exist_ok=True)
        return _native.File(url, how, mode, sole)


def _described(path: str, about: _native.Attributes) -> dict[str, Any]:
    """Attributes as fsspec has them."""
    kind = "directory" if modes.S_ISDIR(about.mode) else "file" if modes.S_ISREG(about.mode) else "other"
    return {"name": path, "size": about.size, "type": kind, "mode": about.mode, "mtime": about.modified / 1e9}


def _absolute(start: Optional[int], end: Optional[int], size: int) -> tuple[int, int]:
    begin, stop, _ = slice(start, end).indices(size)
    return begin, max(0, stop - begin)


class RfioFile(AbstractBufferedFile):
    """An open file. What is written with `wb` or `xb` is complete under its name or not there: `Upload` has the rules. It is
    discarded by `discard()`, and by an exception that leaves its `with` statement."""

    def __init__(self, fs: RfioFileSystem, path: str, mode: str = "rb", *arguments: Any, **kwargs: Any):
        self._upload = Upload(fs, path, exclusive=mode == "xb") if mode in ("wb", "xb") else None
        self._file: Optional[_native.File] = self._upload.file if self._upload else None
        # Caches may read at once.
        if mode == "rb":
            self._file = _native.File(fs._url(path), os.O_RDONLY)
        self._handled = sys.exc_info()[1]
        # Releases of fsspec before 2024 do not know `xb`; it is written as `wb` is.
        super().__init__(fs, path, "wb" if mode == "xb" else mode, *arguments, **kwargs)

    def _opened(self) -> _native.File:
        if self._file is None:
            raise ValueError(f"nothing was written to {self.path} yet")
        return self._file

    def _fetch_range(self, start: int, end: int) -> bytes:
        return self._opened().read_at(start, end - start)

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
            self.commit()
        return True

    def commit(self) -> None:
        """Gives what was written its name."""
        if self._upload:
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
        if self._upload and self._is_left_by_exception():
            return self.discard()
        self._handled = None
        try:
            super().close()
        except BaseException:
            self.discard()
            raise
        if self._file is not None and not self._upload:
            self._file.close()

    def _is_left_by_exception(self) -> bool:
        """Whether close() is called because an exception leaves the `with` statement of an object that holds this file.
        Such objects (`fsspec.open`, pandas' handles) call close() in any case, so their `__exit__` is looked for among the
        callers. An exception that was there when the file was opened does not count."""
        exception = sys.exc_info()[1]
        if exception is None or exception is self._handled:
            return False
        frame: Optional[FrameType] = sys._getframe(2)
        while frame is not None and frame.f_code.co_name != "__exit__":
            frame = frame.f_back
        values = frame.f_locals.values() if frame else ()
        return any(exception is part for value in values for part in (value if isinstance(value, tuple) else (value,)))

    def __exit__(self, kind: Optional[type] = None, *_: Any) -> None:
        if kind is not None and self._upload:
            self.discard()
        else:
            self._handled = sys.exc_info()[1]
            self.close()


class _Text(io.TextIOWrapper):
    """Text that is written to a file of this package."""

    def __exit__(self, kind: Optional[type] = None, *rest: Any) -> None:
        if kind is not None and isinstance(self.buffer, RfioFile):
            self.buffer.discard()
        super().__exit__(kind, *rest)


fsspec.register_implementation("rfio", RfioFileSystem, clobber=True)
