"""PyArrow's own tests of filesystems and data sets, of the release that is installed: those that take a filesystem."""

import os
import sys
from itertools import count

import fsspec
import pyarrow
import pyarrow.fs
import pytest
from pyarrow.fs import FSSpecHandler, PyFileSystem, SubTreeFileSystem

_DIRECTORIES = count()


def empty() -> tuple:
    """The filesystem, and its own directory on the server."""
    fs = fsspec.filesystem("rfio")
    path = f"{fs._strip_protocol(os.environ['RFIO_TEST_BASE'])}/arrow{os.getpid()}-{next(_DIRECTORIES)}"
    fs.makedirs(path)
    return PyFileSystem(FSSpecHandler(fs)), path


class _IsSubTree(type):
    """Data sets treat paths of the mock as local ones."""

    def __instancecheck__(cls, value):
        return isinstance(value, SubTreeFileSystem)


class InPlaceOfTheMock(metaclass=_IsSubTree):
    """The filesystem that the tests of data sets make themselves."""

    def __new__(cls, *_, **__):
        """Returns a directory of the server."""
        fs, path = empty()
        return SubTreeFileSystem(path, fs)


# Its own tests have it under this name.
original, pyarrow.fs._MockFileSystem = pyarrow.fs._MockFileSystem, InPlaceOfTheMock
if os.environ.get("RFIO_TEST_OF") == "test_dataset":
    from pyarrow.tests.test_dataset import *  # noqa: F403
else:
    pyarrow.fs._MockFileSystem = original
    from pyarrow.tests.test_fs import *  # noqa: F403

    @pytest.fixture
    def filesystem_config():
        """Returns the parameters of the fixtures of pyarrow's tests."""
        fs, path = empty()
        return {"fs": fs, "pathfn": lambda name: f"{path}/{name}", "allow_move_dir": True, "allow_append_to_file": True}


class Choice:
    """Tests without a filesystem do not concern this one."""

    TAKES = {"test_fs": {"filesystem_config"}, "test_dataset": {"mockfs", "multisourcefs", "promotable_mockfs", "dataset"}}

    def pytest_collection_modifyitems(self, config, items):
        """Chooses."""
        takes = self.TAKES[os.environ["RFIO_TEST_OF"]]
        left = [item for item in items if not takes & set(item.fixturenames)]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]


if __name__ == "__main__":
    os.environ["RFIO_TEST_BASE"] = sys.argv[1]
    print("pyarrow", pyarrow.__version__)
    codes = []
    for of in ("test_fs", "test_dataset"):
        os.environ["RFIO_TEST_OF"] = of
        sys.stdout.flush()
        if child := os.fork():
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            continue
        code = pytest.main([__file__, "-q", "--tb=short", "-rs", "-p", "no:cacheprovider", "-p", "pyarrow.tests.conftest"], [Choice()])
        sys.stdout.flush()
        # As in with_pandas.py.
        os._exit(code)
    if codes == [0, 0]:
        print("did it all")
