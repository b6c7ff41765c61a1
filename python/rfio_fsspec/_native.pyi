"""RFIO's client, compiled: crates/rfio-python. Errors are OSError, with number and name; whoever waits lets other threads run."""

from collections.abc import Sequence
from typing import Any, final

__all__ = ["Attributes", "Connection", "File", "Ranges", "change_mode", "entries", "examine", "is_known", "make_directory",
           "make_link", "read_link", "remove_directory", "rename", "set_times", "unlink"]

@final
class Attributes:
    """What a file is: times in nanoseconds since 1970, sizes in bytes, blocks of 512 bytes."""

    @property
    def device(self) -> int: ...
    @property
    def inode(self) -> int: ...
    @property
    def mode(self) -> int: ...
    @property
    def links(self) -> int: ...
    @property
    def owner(self) -> int: ...
    @property
    def group(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def blocks(self) -> int: ...
    @property
    def accessed(self) -> int: ...
    @property
    def modified(self) -> int: ...
    @property
    def changed(self) -> int: ...

@final
class Ranges:
    """Ranges of a file that are on their way."""

    def finish(self) -> list[bytes]:
        """Waits for them, once: the bytes of each, fewer than asked for where the file ends."""

    def leave(self) -> None:
        """Does without them."""

@final
class Connection:
    """A connection that never waits, for an event loop. Requests return their numbers."""

    def __new__(cls, url: str) -> Connection:
        """Connects to the server of a URL. This alone waits."""

    def fileno(self) -> int:
        """The descriptor that is ready when `advance` is due."""

    def wants_to_send(self) -> bool:
        """Whether `advance` is due when the descriptor takes data, too."""

    def is_broken(self) -> bool:
        """Whether it has ended, as far as `advance` knows."""

    def advance(self) -> list[tuple[int, bool, Any]]:
        """Sends and receives what can be without waiting. Of each request that has ended: its number, whether it was done, and
        what it returns or raises."""

    def leave(self, number: int) -> None:
        """Does without a request, which may still be carried out."""

    def examine(self, url: str, follow: bool = True) -> int:
        """Asks for the attributes of a path."""

    def entries(self, url: str, cookie: int, held: int) -> int:
        """Asks for entries of a directory: returns them, the next cookie, 0 at the end, and the bytes that the listing takes
        with the `held` of the pages before."""

    def open(self, url: str, flags: int) -> int:
        """Asks to open a file with the flags of `os.open`: returns its handle and attributes."""

    def read(self, url: str, handle: int, offset: int, size: int) -> int:
        """Asks for bytes of an open file: returns fewer where the file ends."""

    def read_ranges(self, url: str, handle: int, ranges: Sequence[tuple[int, int]]) -> int:
        """Asks for ranges of an open file, offsets and lengths: returns the bytes of each."""

    def close(self, url: str, handle: int) -> int:
        """Asks to close a file, behind what was asked of it."""

@final
class File:
    """An open file, without a position. A child of a fork may use its parent's: it opens them anew. One that is opened with
    `sole` is used by one process on one connection, and ends with it."""

    def __new__(cls, url: str, flags: int, mode: int = 0o666, sole: bool = False) -> File: ...
    @property
    def url(self) -> str: ...
    @property
    def opened(self) -> Attributes:
        """What it was when it was opened."""

    @property
    def closed(self) -> bool: ...
    def read_at(self, offset: int, size: int) -> bytes:
        """Bytes at an offset; fewer where the file ends."""

    def begin_ranges(self, ranges: list[tuple[int, int]], most: int = 1 << 30) -> Ranges:
        """Begins to read ranges, offsets and lengths, with few requests; those longer than `most` in parts."""

    def write_at(self, offset: int, data: bytes) -> int:
        """Writes at an offset."""

    def append(self, data: bytes) -> int:
        """Writes at the end of a file that is open for appending."""

    def copy_from(self, other: File) -> None:
        """Copies a whole file of the same server to this one, which is empty. Its bytes do not come here."""

    def truncate(self, size: int) -> None:
        """Gives it a size."""

    def size(self) -> int:
        """Its size now."""

    def replace(self, new: str) -> None:
        """Renames it onto a file, of which owner, permissions, ACL and user attributes are kept. EOPNOTSUPP: the server is too
        old."""

    def rename(self, new: str) -> None:
        """Renames it."""

    def link(self, new: str) -> None:
        """Gives it a second name, which must be free."""

    def close(self) -> None:
        """Closes, once. Requests that are under way on it end first."""

def examine(url: str, follow: bool = True) -> Attributes:
    """Returns the attributes of a path; a final symbolic link is followed unless `follow` is false."""

def is_known(url: str) -> bool:
    """Returns whether this process has had a connection to the server."""

def read_link(url: str) -> str:
    """Returns the text of a symbolic link."""

def make_link(text: str, url: str) -> None:
    """Makes a symbolic link with this text."""

def change_mode(url: str, mode: int) -> None:
    """Sets permission bits; a final symbolic link is followed."""

def set_times(url: str, accessed: int, modified: int) -> None:
    """Sets the times of last access and change, in nanoseconds since 1970; a final symbolic link is not followed."""

def entries(url: str) -> list[tuple[str, Attributes]]:
    """The names in a directory and what they are, with one request for some thousands of them; links are not followed."""

def make_directory(url: str, mode: int = 0o777) -> None:
    """Makes a directory."""

def remove_directory(url: str) -> None:
    """Removes an empty directory."""

def unlink(url: str) -> None:
    """Removes a file."""

def rename(old: str, new: str) -> None:
    """Renames on one server."""
