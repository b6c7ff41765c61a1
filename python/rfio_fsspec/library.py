"""librfio by ctypes: the C interface as Python calls it, with errors as exceptions."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

OFFSET = ctypes.c_int64
# Bytes of a range of a vector read, at most: the length is an `int`.
MOST = (1 << 31) - 1


class Range64(ctypes.Structure):
    """`struct iovec64`: a range of a vector read."""

    _fields_ = [("offset", OFFSET), ("length", ctypes.c_int)]


class Attributes(ctypes.Structure):
    """`struct rfio_attributes`: what a file is, laid out alike on every platform."""

    _fields_ = [("device", ctypes.c_uint64), ("inode", ctypes.c_uint64), ("links", ctypes.c_uint64),
                ("size", ctypes.c_uint64), ("blocks", ctypes.c_uint64), ("accessed", ctypes.c_int64),
                ("modified", ctypes.c_int64), ("changed", ctypes.c_int64), ("mode", ctypes.c_uint32),
                ("owner", ctypes.c_uint32), ("group", ctypes.c_uint32), ("reserved", ctypes.c_uint32)]


def _load() -> ctypes.CDLL:
    # In Verbena's wheel the library lies beside this package; elsewhere the dynamic linker knows it.
    beside = Path(__file__).resolve().parent.parent / "verbena/lib/librfio.so.2"
    name = os.environ.get("RFIO_LIBRARY", str(beside) if beside.is_file() else "librfio.so.2")
    library = ctypes.CDLL(name, use_errno=True)
    text, integer, size = ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t
    signatures = {
        "rfio_open64": (integer, [text, integer, integer]),
        "rfio_close": (integer, [integer]),
        "rfio_pread64": (ctypes.c_ssize_t, [integer, ctypes.c_void_p, size, OFFSET]),
        "rfio_write64": (ctypes.c_ssize_t, [integer, ctypes.c_void_p, size]),
        "rfio_pwrite64": (ctypes.c_ssize_t, [integer, ctypes.c_char_p, size, OFFSET]),
        "rfio_copy_range": (ctypes.c_ssize_t, [integer, OFFSET, integer, OFFSET, size]),
        "rfio_ftruncate64": (integer, [integer, OFFSET]),
        "rfio_lseek64": (OFFSET, [integer, OFFSET, integer]),
        "rfio_begin_preadv": (ctypes.c_void_p, [integer, ctypes.POINTER(Range64), integer, ctypes.c_void_p, size,
                                                ctypes.POINTER(integer)]),
        "rfio_request_cancel": (integer, [ctypes.c_void_p]),
        "rfio_request_finish": (ctypes.c_ssize_t, [ctypes.c_void_p]),
        "rfio_examine": (integer, [text, ctypes.POINTER(Attributes)]),
        "rfio_mkdir": (integer, [text, integer]),
        "rfio_rmdir": (integer, [text]),
        "rfio_unlink": (integer, [text]),
        "rfio_rename": (integer, [text, text]),
        "rfio_opendir": (ctypes.c_void_p, [text]),
        "rfio_readentry": (integer, [ctypes.c_void_p, text, size, ctypes.POINTER(Attributes)]),
        "rfio_closedir": (integer, [ctypes.c_void_p]),
        "rfio_serror": (text, []),
        "rfio_serrno": (integer, []),
    }
    for function, (result, arguments) in signatures.items():
        getattr(library, function).restype = result
        getattr(library, function).argtypes = arguments
    return library


_library = _load()


def _checked(result: int, path: str = "") -> int:
    if result >= 0:
        return result
    number = _library.rfio_serrno()
    sentence = _library.rfio_serror().decode(errors="replace")
    raise OSError(number, sentence, path or None)


def examine(url: str) -> Attributes:
    """What a path is; links are followed."""
    found = Attributes()
    _checked(_library.rfio_examine(os.fsencode(url), found), url)
    return found


def entries(url: str) -> list[tuple[str, Attributes]]:
    """The names in a directory and what they are, with one request; links are not followed."""
    directory = _library.rfio_opendir(os.fsencode(url))
    if not directory:
        _checked(-1, url)
    name = ctypes.create_string_buffer(4096)
    found = []
    try:
        while _checked(_library.rfio_readentry(directory, name, len(name), about := Attributes()), url):
            found.append((os.fsdecode(name.value), about))
    finally:
        _library.rfio_closedir(directory)
    return found


def make_directory(url: str, mode: int = 0o777) -> None:
    """Makes a directory."""
    _checked(_library.rfio_mkdir(os.fsencode(url), mode), url)


def remove_directory(url: str) -> None:
    """Removes an empty directory."""
    _checked(_library.rfio_rmdir(os.fsencode(url)), url)


def unlink(url: str) -> None:
    """Removes a file."""
    _checked(_library.rfio_unlink(os.fsencode(url)), url)


def rename(old: str, new: str) -> None:
    """Renames on one server."""
    _checked(_library.rfio_rename(os.fsencode(old), os.fsencode(new)), old)


class Ranges:
    """Ranges of a file that are on their way. Those of several files may be, at once."""

    def __init__(self, file: "File", ranges: list[tuple[int, int]]):
        self.url = file.url
        self.request = None
        # Longer ones in parts: which range each is of, where it begins, and its length.
        self.parts = [(index, offset + at, min(MOST, length - at)) for index, (offset, length) in enumerate(ranges)
                      for at in range(0, max(length, 1), MOST)]
        self.count = len(ranges)
        count = len(self.parts)
        self.array = (Range64 * count)(*(Range64(offset, length) for _, offset, length in self.parts))
        size = sum(length for _, _, length in self.parts)
        self.buffer = ctypes.create_string_buffer(size + 1)
        self.lengths = (ctypes.c_int * count)()
        self.request = _library.rfio_begin_preadv(file.descriptor, self.array, count, self.buffer, size, self.lengths)
        if not self.request:
            _checked(-1, file.url)

    def finish(self) -> list[bytes]:
        """Waits for them: the bytes of each, fewer than asked for where the file ends."""
        request, self.request = self.request, None
        _checked(_library.rfio_request_finish(request), self.url)
        found: list[list[bytes]] = [[] for _ in range(self.count)]
        at, view = 0, memoryview(self.buffer)
        for (index, _, length), read in zip(self.parts, self.lengths):
            found[index].append(view[at:at + read].tobytes())
            at += length
        return [parts[0] if len(parts) == 1 else b"".join(parts) for parts in found]

    def leave(self) -> None:
        """Does without them. The memory is the library's until the request has ended, whether anybody wants its bytes or
        not."""
        if getattr(self, "request", None):
            request, self.request = self.request, None
            _library.rfio_request_cancel(request)
            _library.rfio_request_finish(request)

    __del__ = leave


class File:
    """An open file."""

    def __init__(self, url: str, flags: int, mode: int = 0o666):
        self.url = url
        self.descriptor = _checked(_library.rfio_open64(os.fsencode(url), flags, mode), url)

    def read_at(self, offset: int, size: int) -> bytes:
        """Bytes at an offset; fewer where the file ends."""
        buffer = ctypes.create_string_buffer(size)
        read = _checked(_library.rfio_pread64(self.descriptor, buffer, size, offset), self.url)
        return buffer.raw[:read]

    def begin_ranges(self, ranges: list[tuple[int, int]]) -> Ranges:
        """Begins to read ranges, offsets and lengths, with few requests."""
        return Ranges(self, ranges)

    def write(self, data: bytes) -> int:
        """Writes at the position."""
        view = bytes(data)
        return _checked(_library.rfio_write64(self.descriptor, view, len(view)), self.url)

    def write_at(self, offset: int, data: bytes) -> int:
        """Writes at an offset."""
        view = bytes(data)
        return _checked(_library.rfio_pwrite64(self.descriptor, view, len(view), offset), self.url)

    def copy_from(self, other: "File") -> None:
        """Copies a whole file of the same server to this one, which is empty. Its bytes do not come here."""
        at = 0
        while copied := _checked(_library.rfio_copy_range(other.descriptor, at, self.descriptor, at, 1 << 30), self.url):
            at += copied

    def truncate(self, size: int) -> None:
        """Gives it a size."""
        _checked(_library.rfio_ftruncate64(self.descriptor, size), self.url)

    def size(self) -> int:
        """Its size now."""
        return _checked(_library.rfio_lseek64(self.descriptor, 0, os.SEEK_END), self.url)

    def close(self) -> None:
        """Closes, once."""
        if self.descriptor >= 0:
            descriptor, self.descriptor = self.descriptor, -1
            _checked(_library.rfio_close(descriptor), self.url)
