"""How a file gets its name: each writer of the package replaces or creates files through `Upload`."""

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

#: Bytes of a name that the name of its partial file begins with, as for `rfcp`; names have at most 255.
_KEPT = 200
#: Writers of one name at once that have numbered partial files.
_NUMBERED = 32
#: Seconds after which a partial file without a writer is removed: two daemons that serve one directory do not know each
#: other's writers.
_STALE = 600.0
#: Symbolic links that are followed in a row, as by Linux.
_MOST_LINKS = 40


class Upload:
    """A file that is written under another name and gets its own when it is complete.

    A file that has the name is replaced and keeps its owner, mode, ACL and `user.` attributes. A symbolic link is followed to
    the file that it names, as open(2) does. With `exclusive`, nothing may have the name, not even a link.

    The partial file is `.NAME.rfpart`, or `.NAME.N.rfpart` if others are writing that name. The server keeps a second
    writer out of it. The next writer of the name removes one that a killed writer has left.

    One connection writes the file and gives it its name. If it is lost the file is not resumed: the server may have lost
    what it had taken. A child of a fork leaves its parent's files alone.
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
        # What replaces a private file is never readable by others.
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
        """Removes a partial file that nobody has written for a while, and that this user may write."""
        url = self._fs._url(partial)
        try:
            if time.time() - _native.examine(url, follow=False).modified / 1e9 < _STALE:
                return False
            # EBUSY while its writer lives.
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
        """Whether the file is that of the process of which this one was forked."""
        return os.getpid() != self._process

    def publish(self) -> None:
        """Gives the file its name, once, unless it was discarded."""
        if self.file.closed:
            return
        try:
            # It is still open, so that nobody takes the partial file for one that was left.
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
        # A server of protocol version 3 or earlier keeps the mode alone.
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
            # The file system has no hard links: the name is taken by an empty file for a moment.
            _native.File(final, os.O_WRONLY | os.O_CREAT | os.O_EXCL).close()
            self.file.rename(final)
        else:
            # The file has its name by now.
            with suppress(OSError):
                _native.unlink(self._fs._url(self._partial))

    def discard(self) -> None:
        """Removes what was written; what has the name stays."""
        if self.file.closed:
            return
        if not self.is_inherited:
            with suppress(OSError):
                _native.unlink(self._fs._url(self._partial))
        self.file.close()


def target(fs: RfioFileSystem, path: str) -> tuple[str, Optional[_native.Attributes]]:
    """Follows symbolic links as open(2) does: the path of the file itself, and its attributes if it exists."""
    for _ in range(_MOST_LINKS):
        about = _about(fs, path)
        if about is None or not modes.S_ISLNK(about.mode):
            return path, about
        text = _native.read_link(fs._url(path))
        if text.startswith("/"):
            # The server says why it does not follow it.
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
    # Names are bytes to the server; a character may be cut.
    kept = os.fsdecode(os.fsencode(name)[:_KEPT])
    yield f"{directory}/.{kept}.rfpart"
    for number in range(1, _NUMBERED):
        yield f"{directory}/.{kept}.{number}.rfpart"
    yield f"{directory}/.{kept}.{secrets.token_hex(8)}.rfpart"
