"""Tables in many files, written and read by dask, by threads and by processes of it."""

import sys

import dask
import dask.dataframe
import pandas
import rfio_fsspec  # This registers `rfio://` in every process.


def main(base):
    frame = pandas.DataFrame({"a": range(30_000), "b": [x % 17 for x in range(30_000)]})
    expected = frame.groupby("b").a.sum()
    table = dask.dataframe.from_pandas(frame, npartitions=6)
    for scheduler in ("threads", "processes"):
        with dask.config.set(scheduler=scheduler, num_workers=3):
            table.to_parquet(f"{base}/{scheduler}")
            read = dask.dataframe.read_parquet(f"{base}/{scheduler}")
            assert read.npartitions == 6
            assert read.groupby("b").a.sum().compute().sort_index().equals(expected), scheduler
            table.to_csv(f"{base}/{scheduler}-*.csv", index=False)
            # Cut within the files, so that parts begin in the middle of lines.
            read = dask.dataframe.read_csv(f"{base}/{scheduler}-*.csv", blocksize=10_000)
            assert read.npartitions > 12
            assert read.groupby("b").a.sum().compute().sort_index().equals(expected), scheduler
    print("read it all", flush=True)


# Processes of dask begin with a separate module, which reads this one.
if __name__ == "__main__":
    main(sys.argv[1])
