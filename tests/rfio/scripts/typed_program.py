"""A program that uses the filesystem's methods, for the type checker: each result has the type that is written here."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

from rfio_fsspec import RfioFile, RfioFileSystem, RfioUpdate


def synchronous(fs: RfioFileSystem, path: str) -> None:
    """The methods by themselves."""
    data: bytes = fs.cat_file(path, start=0, end=-3)
    about: dict[str, Any] = fs.info(path)
    names: list[Any] = fs.ls(path, detail=False)
    when: datetime = fs.modified(path)
    is_link: bool = fs.islink(path)
    text: str = fs.readlink(path)
    parts: list[Any] = fs.cat_ranges([path], 0, 10, on_error="raise")
    fs.chmod(path, 0o640)
    fs.symlink(text, path)
    fs.touch(path, truncate=False)
    fs.pipe_file(path, data, mode="create")
    fs.put_file(path, path)
    fs.mv(path, path)
    fs.rm([path], recursive=True)
    print(about, names, when, is_link, parts, fs.retry + 1.5, fs.auto_mkdir is True)


def files(file: RfioFile, update: RfioUpdate) -> int:
    """Open files."""
    file.discard()
    file.commit()
    size: int = update.truncate()
    return size + file.write(b"data") + update.write(b"data") + update.seek(0)


async def asynchronous(fs: RfioFileSystem, paths: list[str]) -> list[bytes]:
    """The coroutines."""
    found: list[bytes] = await asyncio.gather(*(fs._cat_file(path, start=3) for path in paths))
    about: dict[str, Any] = await fs._info(paths[0])
    parts: list[Any] = await fs._cat_ranges(paths, 0, 10)
    await fs._pipe_file(paths[0], found[0], mode="create")
    print(about["size"], parts)
    return found


if __name__ == "__main__":
    system = RfioFileSystem(auto_mkdir=False, retry=10)
    synchronous(system, "host/path")
    asyncio.run(asynchronous(RfioFileSystem(asynchronous=True), ["host/path"]))
