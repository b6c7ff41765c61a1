"""fsspec's own abstract tests, of the release that is installed."""

import os
import sys

import fsspec
import pytest
from fsspec.tests.abstract import AbstractFixtures
from fsspec.tests.abstract.copy import AbstractCopyTests
from fsspec.tests.abstract.get import AbstractGetTests
from fsspec.tests.abstract.open import AbstractOpenTests
from fsspec.tests.abstract.pipe import AbstractPipeTests
from fsspec.tests.abstract.put import AbstractPutTests


class Fixtures(AbstractFixtures):
    """An empty directory of the server, and how the tests find it."""

    @pytest.fixture(scope="class")
    def fs(self):
        """The filesystem."""
        return fsspec.filesystem("rfio")

    @pytest.fixture
    def fs_path(self, fs):
        """A directory."""
        path = fs._strip_protocol(os.environ["RFIO_TEST_BASE"]) + "/abstract"
        fs.makedirs(path, exist_ok=True)
        return path


class TestCopy(AbstractCopyTests, Fixtures):
    """Copies on the server."""


class TestGet(AbstractGetTests, Fixtures):
    """Copies from the server."""


class TestPut(AbstractPutTests, Fixtures):
    """Copies to the server."""


class TestOpen(AbstractOpenTests, Fixtures):
    """Modes of open."""


class TestPipe(AbstractPipeTests, Fixtures):
    """Whole files."""


if __name__ == "__main__":
    os.environ["RFIO_TEST_BASE"] = sys.argv[1]
    print("fsspec", fsspec.__version__)
    if pytest.main([__file__, "-q", "--tb=short", "-p", "no:cacheprovider"]) == pytest.ExitCode.OK:
        print("did it all")
