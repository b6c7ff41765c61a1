"""A file that is written appears when it is whole, by every way of writing: an interrupted write leaves nothing."""

import gc
import lzma
import os
import pickle
import sys
import threading
import warnings
from contextlib import ExitStack, closing, contextmanager

import fsspec
import pandas
import pyarrow
import pyarrow.csv
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet

base, export = sys.argv[1:3]
fs = fsspec.filesystem("rfio")
root = fs._strip_protocol(base)
arrow = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(fs))
table = pyarrow.table({"a": range(1000)})
url = f"{base}/good"


def interrupt(*_):
    """Interrupts the caller in the middle."""
    raise KeyError("in the middle")


def is_as_before(how: str) -> None:
    """The old file stays, and no other is left."""
    gc.collect()
    with open(f"{export}/good", encoding="utf-8") as file:
        assert file.read() == "good", how
    assert os.listdir(export) == ["good"], (how, os.listdir(export))


def within(how: str, make, data) -> None:
    """An exception leaves the `with` statement of what `make` returns."""
    try:
        with make() as file:
            file.write(data)
            interrupt()
    except KeyError:
        pass
    is_as_before(how)


def unclosed(how: str, make, data) -> None:
    """The object that `make` returns is not closed."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        file = make()
        file.write(data)
        del file
        gc.collect()
    is_as_before(how)
    assert any("good" in str(each.message) and "discarding it" in str(each.message) for each in said), (how, said)


fs.pipe_file(url, b"good")
binary, text = b"half" * 100, "half" * 100
encodings = [name for name in ("gzip", "bz2", "xz", "zip") if name in fsspec.compression.compr]
makers = [("wb", lambda: fs.open(url, "wb"), binary), ("small blocks", lambda: fs.open(url, "wb", block_size=7), binary),
          ("w", lambda: fs.open(url, "w"), text), ("wt", lambda: fs.open(url, "wt", encoding="utf-16", newline=""), text)]
for name in encodings:
    makers += [(f"wb {name}", lambda name=name: fs.open(url, "wb", compression=name), binary),
               (f"w {name}", lambda name=name: fs.open(url, "w", compression=name), text)]
for how, make, data in makers:
    within(how, make, data)
    unclosed(how, make, data)
for mode, data in (("wb", binary), ("w", text)):
    for name in (None, *encodings):
        within(f"fsspec.open {mode} {name}", lambda: fsspec.open(url, mode, compression=name), data)
unclosed("fsspec.open without with", lambda: fsspec.open(url, "wb").open(), binary)
unclosed("fsspec.open of text without with", lambda: fsspec.open(url, "w").open(), text)
within("pyarrow's stream", lambda: arrow.open_output_stream(f"{root}/good", compression=None), binary)
within("pyarrow's compressed stream", lambda: arrow.open_output_stream(f"{root}/good", compression="gzip"), binary)
within("pyarrow's buffered stream", lambda: arrow.open_output_stream(f"{root}/good", compression=None, buffer_size=1 << 16), binary)
unclosed("pyarrow's stream without with", lambda: arrow.open_output_stream(f"{root}/good", compression=None), binary)
for how, make, data in makers[:3]:
    # An exit stack, and the finally clause of a generator.
    try:
        with ExitStack() as stack:
            stack.enter_context(closing(make())).write(data)
            interrupt()
    except KeyError:
        is_as_before(f"{how} in an exit stack")

    @contextmanager
    def held():
        """Closes in any case."""
        file = make()
        try:
            yield file
        finally:
            file.close()

    within(f"{how} in a generator", held, data)
within("ParquetWriter", lambda: pyarrow.parquet.ParquetWriter(f"{root}/good", table.schema, filesystem=arrow), table)


class Bad:
    """A value that cannot be written."""

    def __str__(self):
        interrupt()

    __repr__ = __str__


frame = pandas.DataFrame({"a": [1, 2, Bad()]}, dtype=object)
for compression in (None, "gzip", "bz2", "xz", "zip"):
    try:
        frame.to_csv(url, compression=compression, chunksize=1)
        raise AssertionError("a value that cannot be written is written")
    except KeyError:
        is_as_before(f"pandas.to_csv {compression}")


def dump() -> None:
    """Pickles an object that cannot be pickled."""
    with fs.open(url, "wb") as sink:
        pickle.dump([1, threading.Lock()], sink)


for how, act in {"to_json": lambda: frame.to_json(url, default_handler=interrupt),
                 "to_pickle": lambda: frame.assign(b=threading.Lock()).to_pickle(url), "to_parquet": lambda: frame.to_parquet(url),
                 "pickle.dump": dump}.items():
    try:
        act()
    except Exception:  # Each library has its own.
        is_as_before(how)
    else:
        raise AssertionError(f"{how} accepts a type that cannot be written")


def batches():
    """A data set that ends in the middle."""
    yield from table.to_batches()
    interrupt()


try:
    pyarrow.dataset.write_dataset(pyarrow.RecordBatchReader.from_batches(table.schema, batches()), f"{root}/set", filesystem=arrow,
                                  format="parquet")
except KeyError:
    gc.collect()
    left = [name for name in fs.find(f"{base}/set") if not name.endswith(".rfpart")] if fs.exists(f"{base}/set") else []
    for name in left:
        pyarrow.parquet.read_table(name, filesystem=arrow)
fs.rm(f"{base}/set", recursive=True) if fs.exists(f"{base}/set") else None

# A file is there once its close() has returned without an error.
for name in (None, *encodings):
    with fs.open(f"{base}/made", "wb", compression=name) as file:
        file.write(b"whole")
        assert os.listdir(export) != ["good", "made"] and "made" not in os.listdir(export)
    with fs.open(f"{base}/made", "rb", compression=name) as file:
        assert file.read() == b"whole", name
    with fs.open(f"{base}/made", "at" if name in (None, "gzip", "xz", "bz2") else "wt", compression=name) as file:
        file.write(" and more")
    with fs.open(f"{base}/made", "r", compression=name) as file:
        assert file.read().endswith(" and more"), name
    fs.rm(f"{base}/made")
file = fs.open(f"{base}/made.xz", "wb", compression="infer")
assert file.write(b"inferred") == 8 and file.tell() == 8 and file.writable() and file.name == f"{root}/made.xz"
file.close()
file.close()
with open(f"{export}/made.xz", "rb") as made:
    assert lzma.decompress(made.read()) == b"inferred"
fs.rm(f"{base}/made.xz")
raw = fs.open(f"{base}/made", "xb", compression="gzip")
raw.close()
try:
    fs.open(f"{base}/made", "xb", compression="gzip")
    raise AssertionError("an existing file is taken")
except FileExistsError:
    fs.rm(f"{base}/made")

# Transactions: an exception of the file's own does not belong to them, and a file that is not closed is not whole.
with fs.transaction:
    try:
        with fs.open(url, "wb") as file:
            file.write(b"half")
            interrupt()
    except KeyError:
        pass
    with fs.open(f"{base}/made", "wb", compression="gzip") as file:
        file.write(b"whole")
    assert os.path.exists(f"{export}/.made.rfpart") and not os.path.exists(f"{export}/made")
with fs.open(f"{base}/made", "rb", compression="gzip") as file:
    assert file.read() == b"whole"
fs.rm(f"{base}/made")
is_as_before("a file that failed in a transaction")
for name in (None, "gzip"):
    try:
        with fs.transaction:
            left = fs.open(url, "wb", compression=name)
            left.write(b"half")
        raise AssertionError("a file that is not closed is whole")
    except ValueError as error:
        assert "good" in str(error)
    is_as_before("a file that is not closed in a transaction")

# put_file: a source that shrinks ends where it ends, and "create" is atomic.
with open(f"{export}/../source", "wb") as source:
    source.write(b"x" * 100)
try:
    fs.put_file(f"{export}/../source", url, mode="create")
    raise AssertionError("an existing file is taken")
except FileExistsError:
    is_as_before("put_file")


class Shrinks(fsspec.callbacks.Callback):
    """Truncates the source when its size is known."""

    def set_size(self, size):
        """Truncates it."""
        os.truncate(f"{export}/../source", 10)


fs.put_file(f"{export}/../source", f"{base}/made", callback=Shrinks())
assert fs.cat_file(f"{base}/made") == b"x" * 10
fs.rm(f"{base}/made")
is_as_before("all")
print("did it all", flush=True)
# As in with_pandas.py.
os._exit(0)
