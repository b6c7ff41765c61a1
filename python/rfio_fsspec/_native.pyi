"""RFIO's client, compiled: crates/rfio-python. Errors are OSError, with number and name; whoever waits lets other threads run."""

from typing import final

__all__ = ["Attributes", "File", "Ranges", "change_mode", "entries", "examine", "make_directory", "make_hard_link", "make_link",
           "read_link", "remove_directory", "rename", "replace", "set_times", "unlink"]

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
class File:
    """An open file, without a position. A child of a fork may use its parent's: it opens them anew."""

    def __new__(cls, url: str, flags: int, mode: int = 0o666, sole: bool = False) -> File: ...
    @property
    def url(self) -> str: ...
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

    def close(self) -> None:
        """Closes, once. Requests that are under way on it end first."""

def examine(url: str, follow: bool = True) -> Attributes:
    """Returns the attributes of a path; a final symbolic link is followed unless `follow` is false."""

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

def replace(old: str, new: str) -> None:
    """Renames onto a file, of which owner, permissions, ACL and user attributes are kept. EOPNOTSUPP: the server is too old."""

def make_hard_link(old: str, new: str) -> None:
    """Gives a file a second name, which must be free."""
