"""Tables and data sets, written and read by pandas and PyArrow."""

import sys, rfio_fsspec, fsspec, pandas
base = sys.argv[1]
frame = pandas.DataFrame({"a": range(10000), "b": [x / 7 for x in range(10000)]})
frame.to_csv(base + "/t.csv", index=False)
assert pandas.read_csv(base + "/t.csv").a.equals(frame.a)
frame.to_parquet(base + "/t.parquet")
assert pandas.read_parquet(base + "/t.parquet").equals(frame)
assert pandas.read_parquet(base + "/t.parquet", columns=["b"]).b.equals(frame.b)
import pyarrow.dataset
fs = fsspec.filesystem("rfio")
fs.makedirs(base + "/set")
for part in range(3):
    frame[part::3].to_parquet(base + f"/set/{part}.parquet", index=False)
read = pyarrow.dataset.dataset(fs._strip_protocol(base) + "/set", filesystem=fs).to_table(columns=["a"]).to_pandas()
assert sorted(read.a) == list(frame.a)
print("read it all", flush=True)
# Threads of a dataset may still be letting go of their files; one that asks for Python while it ends aborts the
# process. So it is with any file system written in Python (seen with fsspec's own `memory`, one time in thirty on a
# busy machine).
import os
os._exit(0)
