"""librfio by ctypes: the C interface as Python calls it, with errors as exceptions."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import NamedTuple

OFFSET = ctypes.c_int64


class Range64(ctypes.Structure):
    """`struct iovec64`: a range of a vector read."""

    _fields_ = [("offset", OFFSET), ("length", ctypes.c_int)]


class Stat(ctypes.Structure):
    """`struct stat` of 64-bit Linux on x86 (other platforms lay it out otherwise and are refused)."""

    _fields_ = [("dev", ctypes.c_uint64), ("ino", ctypes.c_uint64), ("nlink", ctypes.c_uint64),
                ("mode", ctypes.c_uint32), ("uid", ctypes.c_uint32), ("gid", ctypes.c_uint32),
                ("pad", ctypes.c_uint32), ("rdev", ctypes.c_uint64), ("size", OFFSET),
                ("blksize", OFFSET), ("blocks", OFFSET), ("atime", OFFSET), ("atime_ns", OFFSET),
                ("mtime", OFFSET), ("mtime_ns", OFFSET), ("ctime", OFFSET), ("ctime_ns", OFFSET),
                ("reserved", OFFSET * 3)]


class Dirent(ctypes.Structure):
    """`struct dirent64`."""

    _fields_ = [("ino", ctypes.c_uint64), ("off", OFFSET), ("reclen", ctypes.c_uint16),
                ("type", ctypes.c_uint8), ("name", ctypes.c_char * 256)]


class Attributes(NamedTuple):
    """What the filesystem needs to know of a file."""

    mode: int
    size: int
    modified: float


def _load() -> ctypes.CDLL:
    if os.uname().machine != "x86_64":
        raise ImportError("rfio_fsspec knows the C layouts of x86_64 only")
    # In Verbena's wheel the library lies beside this package; elsewhere the dynamic linker knows it.
    beside = Path(__file__).resolve().parent.parent / "verbena/lib/librfio.so.2"
    name = os.environ.get("RFIO_LIBRARY", str(beside) if beside.is_file() else "librfio.so.2")
    library = ctypes.CDLL(name, use_errno=True)
    text, integer, size = ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t
    signatures = {
        "rfio_open64": (integer, [text, integer, integer]),
        "rfio_close": (integer, [integer]),
        "rfio_read64": (ctypes.c_ssize_t, [integer, ctypes.c_void_p, size]),
        "rfio_write64": (ctypes.c_ssize_t, [integer, ctypes.c_void_p, size]),
        "rfio_lseek64": (OFFSET, [integer, OFFSET, integer]),
        "rfio_preseek64": (integer, [integer, ctypes.POINTER(Range64), integer]),
        "rfio_stat64": (integer, [text, ctypes.POINTER(Stat)]),
        "rfio_mkdir": (integer, [text, integer]),
        "rfio_rmdir": (integer, [text]),
        "rfio_unlink": (integer, [text]),
        "rfio_rename": (integer, [text, text]),
        "rfio_opendir": (ctypes.c_void_p, [text]),
        "rfio_readdir64": (ctypes.POINTER(Dirent), [ctypes.c_void_p]),
        "rfio_closedir": (integer, [ctypes.c_void_p]),
        "rfio_serror": (text, []),
        "rfio_serrno": (integer, []),
        "rfiosetopt": (integer, [integer, ctypes.POINTER(integer), integer]),
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


def stat(url: str) -> Attributes:
    """What a path is."""
    found = Stat()
    _checked(_library.rfio_stat64(os.fsencode(url), found), url)
    return Attributes(found.mode, found.size, found.mtime + found.mtime_ns / 1e9)


def names(url: str) -> list[str]:
    """The names in a directory."""
    directory = _library.rfio_opendir(os.fsencode(url))
    if not directory:
        _checked(-1, url)
    found = []
    try:
        while entry := _library.rfio_readdir64(directory):
            found.append(os.fsdecode(entry.contents.name))
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


class File:
    """An open file."""

    def __init__(self, url: str, flags: int, mode: int = 0o666):
        self.url = url
        self.descriptor = _checked(_library.rfio_open64(os.fsencode(url), flags, mode), url)

    def read_at(self, offset: int, size: int) -> bytes:
        """Bytes at an offset; fewer where the file ends."""
        buffer = ctypes.create_string_buffer(size)
        _checked(_library.rfio_lseek64(self.descriptor, offset, os.SEEK_SET), self.url)
        read = _checked(_library.rfio_read64(self.descriptor, buffer, size), self.url)
        return buffer.raw[:read]

    def read_ranges(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        """Many ranges with one request: announced, then read in their order."""
        array = (Range64 * len(ranges))(*(Range64(*each) for each in ranges))
        _checked(_library.rfio_preseek64(self.descriptor, array, len(ranges)), self.url)
        return [self.read_at(offset, length) for offset, length in ranges]

    def write(self, data: bytes) -> int:
        """Writes at the position."""
        view = bytes(data)
        return _checked(_library.rfio_write64(self.descriptor, view, len(view)), self.url)

    def close(self) -> None:
        """Closes, once."""
        if self.descriptor >= 0:
            descriptor, self.descriptor = self.descriptor, -1
            _checked(_library.rfio_close(descriptor), self.url)
