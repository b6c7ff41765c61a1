"""The compiled RFIO client, crates/rfio-python. Errors are OSError, with number and name; blocking calls release the GIL."""

from collections.abc import Sequence
from typing import Any, final

__all__ = ["Attributes", "Connection", "File", "Ranges", "change_mode", "entries", "examine", "is_known", "make_directory",
           "make_link", "read_link", "remove_directory", "rename", "set_times", "unlink"]

@final
class Attributes:
    """Attributes of a file: times in nanoseconds since 1970, sizes in bytes, blocks of 512 bytes."""

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
    """Reads of ranges of a file that are in progress."""

    def finish(self) -> list[bytes]:
        """Waits for the reads, once: returns the bytes of each, fewer than requested at the end of the file."""

    def leave(self) -> None:
        """Abandons the reads."""

@final
class Connection:
    """A non-blocking connection for an event loop. Requests return their numbers."""

    def __new__(cls, url: str) -> Connection:
        """Connects to the server of a URL. Only this call blocks."""

    def fileno(self) -> int:
        """Returns the descriptor to poll; call `advance` when it is readable."""

    def wants_to_send(self) -> bool:
        """Returns whether to call `advance` also when the descriptor is writable."""

    def is_broken(self) -> bool:
        """Returns whether `advance` has found the connection closed."""

    def advance(self) -> list[tuple[int, bool, Any]]:
        """Sends and receives as much as possible without blocking. Returns, for each completed request, its number, whether it
        succeeded, and its result or exception."""

    def leave(self, number: int) -> None:
        """Abandons a request, which the server may still execute."""

    def examine(self, url: str, follow: bool = True) -> int:
        """Requests the attributes of a path."""

    def entries(self, url: str, cookie: int, held: int) -> int:
        """Requests entries of a directory: returns them, the next cookie (0 at the end), and the size of the listing in bytes,
        including the `held` bytes of the previous pages."""

    def open(self, url: str, flags: int) -> int:
        """Requests to open a file with the flags of `os.open`: returns its handle and attributes."""

    def read(self, url: str, handle: int, offset: int, size: int) -> int:
        """Requests bytes of an open file: returns fewer at the end of the file."""

    def read_ranges(self, url: str, handle: int, ranges: Sequence[tuple[int, int]]) -> int:
        """Requests ranges of an open file, given by offset and length: returns the bytes of each."""

    def close(self, url: str, handle: int) -> int:
        """Requests to close a file, after the earlier requests on it."""

@final
class File:
    """An open file, without a position. A forked child may use its parent's file, which it opens again. A file opened with `sole`
    is used by one process on one connection, and is closed with it."""

    def __new__(cls, url: str, flags: int, mode: int = 0o666, sole: bool = False) -> File: ...
    @property
    def url(self) -> str: ...
    @property
    def opened(self) -> Attributes:
        """Its attributes at the time of opening."""

    @property
    def closed(self) -> bool: ...
    def read_at(self, offset: int, size: int) -> bytes:
        """Returns bytes at an offset; fewer at the end of the file."""

    def begin_ranges(self, ranges: list[tuple[int, int]], most: int = 1 << 30) -> Ranges:
        """Starts to read ranges, given by offset and length, with few requests; splits those longer than `most`."""

    def write_at(self, offset: int, data: bytes) -> int:
        """Writes at an offset."""

    def append(self, data: bytes) -> int:
        """Writes at the end of a file that is open for appending."""

    def copy_from(self, other: File) -> None:
        """Copies a whole file of the same server to this one, which is empty. The data do not pass through this process."""

    def truncate(self, size: int) -> None:
        """Sets its size."""

    def size(self) -> int:
        """Returns its current size."""

    def replace(self, new: str) -> None:
        """Renames it over a file, whose owner, permissions, ACL and user attributes are kept. EOPNOTSUPP: the server is too
        old."""

    def rename(self, new: str) -> None:
        """Renames it."""

    def link(self, new: str) -> None:
        """Creates a second name for it, which must be free."""

    def close(self) -> None:
        """Closes it, once, after the requests in progress."""

def examine(url: str, follow: bool = True) -> Attributes:
    """Returns the attributes of a path; a final symbolic link is followed unless `follow` is false."""

def is_known(url: str) -> bool:
    """Returns whether this process has had a connection to the server."""

def read_link(url: str) -> str:
    """Returns the text of a symbolic link."""

def make_link(text: str, url: str) -> None:
    """Creates a symbolic link with this text."""

def change_mode(url: str, mode: int) -> None:
    """Sets permission bits; a final symbolic link is followed."""

def set_times(url: str, accessed: int, modified: int) -> None:
    """Sets the times of last access and modification, in nanoseconds since 1970; does not follow a final symbolic link."""

def entries(url: str) -> list[tuple[str, Attributes]]:
    """Returns the names in a directory with their attributes, in requests of some thousands each; does not follow links."""

def make_directory(url: str, mode: int = 0o777) -> None:
    """Creates a directory."""

def remove_directory(url: str) -> None:
    """Removes an empty directory."""

def unlink(url: str) -> None:
    """Removes a file."""

def rename(old: str, new: str) -> None:
    """Renames on one server."""
