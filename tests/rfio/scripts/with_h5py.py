"""HDF5 files read, written and changed by h5py: groups, attributes, chunks, compressed and not."""

import sys

import fsspec
import h5py
import numpy
import rfio_fsspec  # This registers `rfio://`.

base, export = sys.argv[1], sys.argv[2]
chance = numpy.random.default_rng(1)
plain = chance.normal(size=(500, 700))
packed = chance.integers(0, 100, (300, 400, 20), dtype="i4")
with h5py.File(f"{export}/f.h5", "w") as file:
    file.create_dataset("plain", data=plain)
    file.create_dataset("deep/packed", data=packed, chunks=(50, 50, 20), compression="gzip", shuffle=True, fletcher32=True)
    file["deep"].attrs["what"] = "packed"
    file["names"] = numpy.array(["a", "bc", "\u00e4"], dtype=h5py.string_dtype())
with fsspec.open(f"{base}/f.h5", "rb") as remote, h5py.File(remote, "r") as file:
    assert set(file) == {"plain", "deep", "names"} and file["deep"].attrs["what"] == "packed"
    assert numpy.array_equal(file["plain"], plain)
    assert numpy.array_equal(file["plain"][13:480:7, 600:], plain[13:480:7, 600:])
    assert numpy.array_equal(file["deep/packed"], packed)
    assert numpy.array_equal(file["deep/packed"][120:130, 45:55, ::3], packed[120:130, 45:55, ::3])
    assert list(file["names"].asstr()) == ["a", "bc", "\u00e4"]
with fsspec.open(f"{base}/sent.h5", "w+b") as remote, h5py.File(remote, "w") as file:
    file["plain"] = plain
    file.create_dataset("packed", data=packed, chunks=(50, 50, 20), compression="gzip")
with fsspec.open(f"{base}/sent.h5", "r+b") as remote, h5py.File(remote, "r+") as file:
    file["plain"][17, :] = 0
    file["more"] = packed[0]
plain[17, :] = 0
with h5py.File(f"{export}/sent.h5") as file:
    assert numpy.array_equal(file["plain"], plain) and numpy.array_equal(file["packed"], packed)
    assert numpy.array_equal(file["more"], packed[0])
print("read it all")
