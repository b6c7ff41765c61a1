"""RFIO's client, compiled: crates/rfio-python. Errors are OSError, with number and name; whoever waits lets other threads run."""

from typing import final

__all__ = ["Attributes", "File", "Ranges", "entries", "examine", "make_directory", "remove_directory", "rename", "unlink"]

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

    def __new__(cls, url: str, flags: int, mode: int = 0o666) -> File: ...
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

def examine(url: str) -> Attributes:
    """What a path is; links are followed."""

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
