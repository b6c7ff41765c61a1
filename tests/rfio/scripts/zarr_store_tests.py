"""zarr's own tests of stores, of the release that is installed, over the filesystem's coroutines."""

import os
import sys

import fsspec
import pytest
import zarr
from zarr.core.buffer import cpu
from zarr.storage import FsspecStore
from zarr.testing.store import StoreTests


class TestStore(StoreTests[FsspecStore, cpu.Buffer]):
    """The abstract parts: a directory for each test, and how it is looked at without the store."""

    store_cls = FsspecStore
    buffer_cls = cpu.Buffer

    @pytest.fixture
    def store_kwargs(self, tmp_path):
        """An empty directory of the server."""
        fs = fsspec.filesystem("rfio", asynchronous=True)
        path = fs._strip_protocol(os.environ["RFIO_TEST_BASE"]) + f"/{tmp_path.name}"
        fs.makedirs(path)
        yield {"fs": fs, "path": path}
        fs.rm(path, recursive=True)

    async def set(self, store, key, value):
        """Writes beside the store."""
        store.fs.pipe_file(f"{store.path}/{key}", value.to_bytes())

    async def get(self, store, key):
        """Reads beside the store."""
        return self.buffer_cls.from_bytes(store.fs.cat_file(f"{store.path}/{key}"))

    def test_store_repr(self, store):
        """The name says which filesystem it is."""
        assert "RfioFileSystem" in str(store)

    def test_store_supports_writes(self, store):
        """It does."""
        assert store.supports_writes

    def test_store_supports_listing(self, store):
        """It does."""
        assert store.supports_listing

    def test_the_coroutines_are_our_own(self, store):
        """No wrapper that runs everything in threads."""
        assert type(store.fs).__name__ == "RfioFileSystem" and store.fs.asynchronous


if __name__ == "__main__":
    os.environ["RFIO_TEST_BASE"] = sys.argv[1]
    print("zarr", zarr.__version__)
    if pytest.main([__file__, "-q", "--tb=short", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto"]) == pytest.ExitCode.OK:
        print("did it all")
