"""An fsspec filesystem for RFIO servers: ``rfio://host[:port]/path``.

    import fsspec, pandas
    pandas.read_csv("rfio://server/data/table.csv")
    fsspec.open("rfio://server/data/file.bin", "rb")

Importing this module registers the protocol; fsspec finds an installed package itself. The environment configures
connections (``RFIO_USER``, ``RFIO_SECRETS``, ``RFIO_TLS_CA``, ``RFIO_TLS_CERTIFICATE``, ``RFIO_TLS_KEY``, ``RFIO_FABRIC``), as for
the tools.
"""

from __future__ import annotations

import errno
import io
import os
import stat as modes
import time
from collections import deque
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any, Optional, TypeVar, Union

import fsspec
from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.compression import compr
from fsspec.core import get_compression, has_magic

from . import _native
from .asynchronous import Asynchronous
from .entries import absolute, described, entry_of, is_link
from .files import Encoded, RfioFile, Text
from .retry import Attempts
from .update import FLAGS, RfioUpdate
from .upload import Upload, target

__all__ = ["RfioFileSystem", "RfioFile", "RfioUpdate"]

_T = TypeVar("_T")


class RfioFileSystem(Asynchronous):
    """Files on RFIO servers. Paths are ``host[:port]/path``, so one filesystem object serves all servers.

    Symbolic links: a path given by the caller is followed, as by stat(2), except by `rm`, `mv` and `islink`. Links found by a
    recursive operation are not followed: `ls` reports a link to a directory as a "link", so `walk`, `find`, `glob("**")` and `du`
    do not enter it, `get` and `copy` omit it, and `rm` removes the link itself. A link to a file is reported as a file.
    """

    protocol = "rfio"
    root_marker = ""
    #: Attributes that fsspec sets on every filesystem.
    _GENERAL = {"asynchronous", "loop", "batch_size", "use_listings_cache", "listings_expiry_time", "max_paths",
                "skip_instance_cache"}

    #: Number of files whose ranges are read concurrently.
    _AT_ONCE = 16

    def __init__(self, *arguments: Any, auto_mkdir: bool = True, retry: float = 30.0, **options: Any):
        """`auto_mkdir`: create missing parent directories of a written file, as object stores and their programs expect.

        `retry`: seconds for which read requests are retried after their connection was lost; 0 disables retries. Write requests are
        never retried."""
        if unknown := sorted(set(options) - self._GENERAL):
            raise TypeError(f"rfio:// has no option {', '.join(unknown)}; configure connections through the environment "
                            "(RFIO_USER, RFIO_SECRETS, RFIO_TLS_CA, RFIO_TLS_CERTIFICATE, RFIO_TLS_KEY, RFIO_FABRIC, RFIO_TIMEOUT)")
        if not retry >= 0:
            raise ValueError(f"retry is {retry!r}, not a number of seconds of at least 0")
        super().__init__(*arguments, **options)
        self.auto_mkdir = auto_mkdir
        self.retry = retry

    def _url(self, path: str) -> str:
        host, _, rest = self._strip_protocol(path).partition("/")
        return f"rfio://{host}/{rest}"

    def _ask(self, url: str, call: Callable[..., _T], *arguments: Any) -> _T:
        """Makes a request that changes nothing; retries it while the connection is lost (`retry`)."""
        attempts: Optional[Attempts] = None
        while True:
            try:
                return call(url, *arguments)
            except OSError as error:
                attempts = attempts or Attempts(self.retry)
                pause = attempts.pause_after(error, lambda: _native.is_known(url))
            time.sleep(pause)

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Returns the attributes of a path."""
        path = self._strip_protocol(path)
        return described(path, self._ask(self._url(path), _native.examine))

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """Lists a directory; a file is its own only entry. Sends one request, and one for each symbolic link."""
        path = self._strip_protocol(path).rstrip("/")
        try:
            found = sorted(self._ask(self._url(path), _native.entries), key=lambda entry: entry[0])
        except NotADirectoryError:
            return [self.info(path)] if detail else [path]
        if not detail:
            return [f"{path}/{name}" for name, _ in found]
        return [self._entry(f"{path}/{name}", about) for name, about in found]

    def _entry(self, path: str, about: _native.Attributes) -> dict[str, Any]:
        if not is_link(about):
            return described(path, about)
        try:
            return entry_of(path, about, self.info(path))
        except OSError as error:
            return entry_of(path, about, error)

    def find(self, path: str, maxdepth: Optional[int] = None, withdirs: bool = False, detail: bool = False,
             links: bool = True, **kwargs: Any) -> Any:
        """Lists the files below a path; `withdirs` adds directories, and links to them unless `links` is false."""
        found = super().find(path, maxdepth, withdirs, detail=True, **kwargs)
        for name, entry in list(found.items()):
            if entry.get("type") == "link":
                if withdirs and links:
                    entry["type"] = "directory"
                else:
                    del found[name]
        return found if detail else list(found)

    def du(self, path: str, total: bool = True, maxdepth: Optional[int] = None, withdirs: bool = False, **kwargs: Any) -> Any:
        """Returns the total size of the files below a path, or the size of each by name. A dangling link counts with its own size."""
        found = self.find(path, maxdepth, withdirs, detail=True, **kwargs)
        # fsspec returns no entry for a path that is a file.
        sizes = {name: (entry or self.info(name))["size"] for name, entry in found.items()}
        return sum(sizes.values()) if total else sizes

    def expand_path(self, path: Any, recursive: bool = False, maxdepth: Optional[int] = None, **kwargs: Any) -> list[str]:
        """Returns the paths of a pattern or of a recursive operation."""
        kwargs.setdefault("links", not recursive)
        found: list[str] = super().expand_path(path, recursive, maxdepth, **kwargs)
        return found

    def islink(self, path: str) -> bool:
        """Returns whether a path is a symbolic link."""
        try:
            return is_link(self._ask(self._url(path), _native.examine, False))
        except FileNotFoundError:
            return False

    def readlink(self, path: str) -> str:
        """Returns the text of a symbolic link."""
        return self._ask(self._url(path), _native.read_link)

    def symlink(self, text: str, path: str) -> None:
        """Creates a symbolic link with this text, which the server resolves relative to the link's directory."""
        _native.make_link(text, self._url(path))

    def chmod(self, path: str, mode: int) -> None:
        """Sets permission bits."""
        _native.change_mode(self._url(path), mode)

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        """Creates an empty file. With `truncate=False` an existing file keeps its data, and its time becomes the current time."""
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
        """Returns the time of the last modification of a file."""
        return datetime.fromtimestamp(self.info(path)["mtime"], timezone.utc)

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """Creates a directory."""
        if create_parents:
            self.makedirs(self._parent(path), exist_ok=True)
        _native.make_directory(self._url(path))

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Creates a directory and its missing parents."""
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
        """Removes files, links and directories. Removes a link itself, even if the caller gave its path."""
        for each in reversed(self.expand_path(path)):
            self._remove(each, maxdepth if recursive else 0)

    def _remove(self, path: str, depth: Optional[int]) -> None:
        """Removes a path and its contents, up to `depth` levels; None is unlimited."""
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
        """Renames on one server, like mv(1): also directories; links themselves. Several sources (a list, a pattern), or one source
        if the destination is a directory or ends with a slash, keep their names in the destination."""
        path1, path2 = (path if isinstance(path, list) else os.fspath(path) for path in (path1, path2))
        if isinstance(path1, list) and isinstance(path2, list):
            if len(path1) != len(path2):
                raise ValueError(f"{len(path1)} paths to move, but {len(path2)} new names")
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
        """Copies a file: on the server if both paths are on one server, else through this process. The copy appears when it is
        complete. For a directory, creates one."""
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        try:
            source = self._ask(self._url(path1), _native.File, os.O_RDONLY)
        except IsADirectoryError:
            return self.makedirs(path2, exist_ok=True)
        try:
            upload = Upload(self, path2)
            try:
                self._copy_bytes(source, upload.file)
            except BaseException:
                upload.discard()
                raise
            upload.publish()
        finally:
            source.close()

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        """Writes a whole file; with the mode "create" only if the name is free."""
        with self.open(path, "xb" if mode == "create" else "wb", **kwargs) as file:
            file.write(value)

    def put_file(self, lpath: Any, rpath: str, callback: Any = DEFAULT_CALLBACK, mode: str = "overwrite", **kwargs: Any) -> None:
        """Copies a local file; with the mode "create" only if the new name is free. For a directory,
        creates one."""
        if os.path.isdir(lpath):
            return self.makedirs(rpath, exist_ok=True)
        with open(lpath, "rb") as source, self.open(rpath, "xb" if mode == "create" else "wb", **kwargs) as sink:
            callback.set_size(os.fstat(source.fileno()).st_size)
            while data := source.read(self.blocksize):
                callback.relative_update(sink.write(data))

    def _copy_bytes(self, source: _native.File, sink: _native.File) -> None:
        try:
            return sink.copy_from(source)
        except OSError as error:
            # Another server, or one without server-side copies: nothing was copied.
            if error.errno != errno.EXDEV:
                raise
        at = 0
        while data := self._ask(source.url, lambda _: source.read_at(at, 8 << 20)):
            sink.write_at(at, data)
            at += len(data)

    def cat_file(self, path: str, start: Optional[int] = None, end: Optional[int] = None, **_: Any) -> bytes:
        """Returns the bytes of a file, or of a slice of it."""
        file = self._ask(self._url(path), _native.File, os.O_RDONLY)
        try:
            offset, length = absolute(start, end, file.opened.size)
            return self._ask(file.url, lambda _: file.read_at(offset, length))
        finally:
            file.close()

    def cat_ranges(self, paths: list[str], starts: Any, ends: Any, max_gap: Optional[int] = None,
                   on_error: str = "return", **kwargs: Any) -> list[Any]:
        """Reads many ranges, with one request per file, as columnar readers do. Reads several files concurrently."""
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
            first = [begun]

            def finish(_: str) -> list[bytes]:
                if first:
                    return first.pop().finish()
                return file.begin_ranges(_parts(file, [(starts[index], ends[index]) for index in mine])).finish()

            try:
                for index, data in zip(mine, self._ask(file.url, finish)):
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
        """Opens a file and starts to read ranges of it."""
        file = self._ask(self._url(path), _native.File, os.O_RDONLY)
        try:
            return file, self._ask(file.url, lambda _: file.begin_ranges(_parts(file, wanted)))
        except BaseException:
            file.close()
            raise

    def open(self, path: str, mode: str = "rb", block_size: Optional[int] = None, cache_options: Optional[dict[str, Any]] = None,
             compression: Optional[str] = None, **kwargs: Any) -> Any:
        """Opens a file. An exception that leaves the `with` statement discards the written data, also for text and
        compressed files."""
        how: dict[str, Any] = {"block_size": block_size, "cache_options": cache_options}
        if "r" in mode:
            return super().open(path, mode, **how, compression=compression, **kwargs)
        if "b" not in mode:
            words = {key: kwargs.pop(key) for key in ("encoding", "errors", "newline") if key in kwargs}
            return Text(self.open(path, mode.replace("t", "") + "b", **how, compression=compression, **kwargs), **words)
        name = get_compression(path, compression)
        file = super().open(path, mode, **how, **kwargs)
        if name is None or not isinstance(file, RfioFile):
            return file if name is None else compr[name](file, mode=mode[0])
        try:
            return Encoded(file, compr[name](file, mode=mode[0].replace("x", "w")))
        except BaseException:
            file.discard()
            raise

    def _open(self, path: str, mode: str = "rb", block_size: Optional[int] = None,
              autocommit: bool = True, cache_options: Optional[dict[str, Any]] = None, **kwargs: Any) -> Union[RfioFile, io.BufferedRandom]:
        if "+" in mode:
            return self._open_to_update(path, mode, block_size, autocommit)
        return RfioFile(self, path, mode, block_size or "default", autocommit=autocommit,
                        cache_options=cache_options, **kwargs)

    def _open_to_update(self, path: str, mode: str, block_size: Optional[int], autocommit: bool) -> io.BufferedRandom:
        """Opens a file for changes in place: other processes can see it between two writes."""
        kind = mode.replace("+", "").replace("b", "")
        if kind not in FLAGS:
            raise ValueError(f"mode {mode!r} is none")
        if not autocommit:
            raise ValueError(f"a file opened with {mode!r} is changed in place, and cannot be part of a transaction")
        how = os.O_RDWR | FLAGS[kind]
        file = self._made(path, how) if how & os.O_CREAT else _native.File(self._url(path), how)
        return io.BufferedRandom(RfioUpdate(file, path, mode), block_size or io.DEFAULT_BUFFER_SIZE)

    def _made(self, path: str, how: int, mode: int = 0o666, sole: bool = False) -> _native.File:
        """Opens a file for writing; creates its parent directories if necessary."""
        url = self._url(path)
        try:
            return _native.File(url, how, mode, sole)
        except FileNotFoundError:
            if not self.auto_mkdir:
                raise
        self.makedirs(self._parent(path), exist_ok=True)
        return _native.File(url, how, mode, sole)


def _parts(file: _native.File, wanted: list[tuple[Optional[int], Optional[int]]]) -> list[tuple[int, int]]:
    return [absolute(start, end, file.opened.size) for start, end in wanted]


fsspec.register_implementation("rfio", RfioFileSystem, clobber=True)
