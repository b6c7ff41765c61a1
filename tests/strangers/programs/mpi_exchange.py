"""Each rank checks every byte of collective operations and of one-sided writes to its neighbour; rank 0 prints `N ranks
are done`."""

import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, ranks = world.rank, world.size
for size in (1, 100, 5000, 70_000, 1_000_000):
    mine = numpy.arange(size, dtype="i4") + rank
    every = numpy.empty((ranks, size), "i4")
    world.Allgather(mine, every)
    assert (every == numpy.arange(size) + numpy.arange(ranks)[:, None]).all(), "Allgather"
    total = numpy.empty(size, "i8")
    world.Allreduce(mine.astype("i8"), total)
    assert (total == numpy.arange(size) * ranks + ranks * (ranks - 1) // 2).all(), "Allreduce"
    window = MPI.Win.Allocate(size * 4, 4, comm=world)
    window.Fence()
    window.Put(mine, (rank + 1) % ranks)
    window.Fence()
    assert (numpy.frombuffer(window.tomemory(), "i4") == numpy.arange(size) + (rank - 1) % ranks).all(), "Put"
    window.Free()
if rank == 0:
    print(f"{ranks} ranks are done", flush=True)
