"""An array in chunks, written and read by zarr."""

import sys, rfio_fsspec, fsspec, numpy, zarr
base = sys.argv[1]
values = numpy.arange(600 * 500, dtype="i4").reshape(600, 500)
made = zarr.open_array(base + "/a.zarr", mode="w", shape=values.shape, chunks=(100, 100), dtype="i4")
made[:] = values
found = zarr.open_array(base + "/a.zarr", mode="r")
assert (found[:] == values).all() and (found[150:350:7, 90:410] == values[150:350:7, 90:410]).all()
fs = fsspec.filesystem("rfio")
chunks = [name for name in fs.find(base + "/a.zarr") if not name.rpartition("/")[2].startswith((".z", "zarr"))]
assert len(chunks) == 30, chunks
print("read it all")
