"""`Upload`: all writers of the package use it to create or replace files."""

from __future__ import annotations

import errno
import os
import secrets
import stat as modes
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Iterator, Optional

from . import _native

if TYPE_CHECKING:
    from . import RfioFileSystem

#: Number of bytes of a name with which the name of its partial file begins, as for `rfcp`; names have at most 255.
_KEPT = 200
#: Maximum number of concurrent writers of one name that have numbered partial files.
_NUMBERED = 32
#: Seconds after which a partial file without a writer is removed: two daemons that serve one directory do not know each
#: other's writers.
_STALE = 600.0
#: Maximum number of symbolic links in a chain, as in Linux.
_MOST_LINKS = 40


class Upload:
    """A file that is written under a temporary name and gets its own name when it is complete.

    An existing file of the name is replaced and keeps its owner, mode, ACL and `user.` attributes. A symbolic link is followed to
    its target, as by open(2). With `exclusive`, the name must be free, even of links.

    The partial file is `.NAME.rfpart`, or `.NAME.N.rfpart` if the name has other writers. The server excludes a second
    writer from it. The next writer of the name removes a partial file that a killed writer has left.

    One connection writes the file and renames it. If it is lost, the file is not resumed: the server may have lost
    data that it had accepted. A forked child does not touch its parent's files.
    """

    def __init__(self, fs: RfioFileSystem, path: str, exclusive: bool = False):
        self._fs = fs
        self._exclusive = exclusive
        self._process = os.getpid()
        self._target, self._replaced = (path, _about(fs, path)) if exclusive else target(fs, path)
        if exclusive and self._replaced:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        if self._replaced and not modes.S_ISREG(self._replaced.mode):
            number = errno.EISDIR if modes.S_ISDIR(self._replaced.mode) else errno.EINVAL
            raise OSError(number, os.strerror(number), path)
        self._partial, self.file = self._begin()

    def _begin(self) -> tuple[str, _native.File]:
        # The replacement of a private file is never readable by others.
        mode = 0o600 if self._replaced else 0o666
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        for partial in _partial_names(self._target):
            for _ in range(2):
                try:
                    return partial, self._fs._made(partial, flags, mode, sole=True)
                except FileExistsError:
                    if not self._remove_stale(partial):
                        break
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), partial)

    def _remove_stale(self, partial: str) -> bool:
        """Removes a partial file that has had no writer for a while, if this user may write it."""
        url = self._fs._url(partial)
        try:
            if time.time() - _native.examine(url, follow=False).modified / 1e9 < _STALE:
                return False
            # EBUSY while its writer is alive.
            left = _native.File(url, os.O_WRONLY | os.O_NOFOLLOW, sole=True)
            try:
                _native.unlink(url)
            finally:
                left.close()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    @property
    def is_inherited(self) -> bool:
        """Returns whether the file was inherited from the parent process by fork."""
        return os.getpid() != self._process

    def publish(self) -> None:
        """Publishes the file under its name, once, unless it was discarded."""
        if self.file.closed:
            return
        try:
            # It is still open, so no other writer mistakes the partial file for a stale one.
            if self._exclusive:
                self._create()
            else:
                self._replace()
        except BaseException:
            self.discard()
            raise
        self.file.close()

    def _replace(self) -> None:
        final = self._fs._url(self._target)
        try:
            return self.file.replace(final)
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise
        # A server of protocol version 3 or earlier keeps only the mode.
        if self._replaced:
            _native.change_mode(self._fs._url(self._partial), modes.S_IMODE(self._replaced.mode))
        self.file.rename(final)

    def _create(self) -> None:
        final = self._fs._url(self._target)
        try:
            self.file.link(final)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EOPNOTSUPP):
                raise
            # The file system has no hard links: an empty file reserves the name for a moment.
            _native.File(final, os.O_WRONLY | os.O_CREAT | os.O_EXCL).close()
            self.file.rename(final)
        else:
            # The file has its name already.
            with suppress(OSError):
                _native.unlink(self._fs._url(self._partial))

    def discard(self) -> None:
        """Removes the written data; an existing file of the name remains."""
        if self.file.closed:
            return
        if not self.is_inherited:
            with suppress(OSError):
                _native.unlink(self._fs._url(self._partial))
        self.file.close()


def target(fs: RfioFileSystem, path: str) -> tuple[str, Optional[_native.Attributes]]:
    """Follows symbolic links as open(2) does: returns the path of the file itself, and its attributes if it exists."""
    for _ in range(_MOST_LINKS):
        about = _about(fs, path)
        if about is None or not modes.S_ISLNK(about.mode):
            return path, about
        text = _native.read_link(fs._url(path))
        if text.startswith("/"):
            # The server reports why it does not follow it.
            _native.examine(fs._url(path))
        path = f"{path.rpartition('/')[0]}/{text}"
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def _about(fs: RfioFileSystem, path: str) -> Optional[_native.Attributes]:
    try:
        return _native.examine(fs._url(path), follow=False)
    except FileNotFoundError:
        return None


def _partial_names(path: str) -> Iterator[str]:
    directory, _, name = path.rpartition("/")
    # Names are bytes to the server; the cut may split a character.
    kept = os.fsdecode(os.fsencode(name)[:_KEPT])
    yield f"{directory}/.{kept}.rfpart"
    for number in range(1, _NUMBERED):
        yield f"{directory}/.{kept}.{number}.rfpart"
    yield f"{directory}/.{kept}.{secrets.token_hex(8)}.rfpart"
