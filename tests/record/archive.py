"""Writes an archive in OTF2 of the calls of imported.c: archive.py DIRECTORY COMPUTING. Debian's Python has the module
otf2; the harness' own has not.

Before each call each rank computes for COMPUTING nanoseconds. Lengths of collective operations are those of Score-P:
all that a rank sends and receives, to and from itself as well.
"""

import sys

import otf2
from otf2.enums import CollectiveOp, GroupType, LocationGroupType, MeasurementMode, Paradigm, ParadigmClass

RANKS, ROUNDS = 4, 10
# A call takes so long here; it does not count as computing.
WITHIN = 50
# Ticks of 2 ns.
TICKS = 500_000_000
NO_ROOT = 0xFFFFFFFF
# Ticks between rounds in which the tracer is off: more than all computing.
OFF = 50_000_000


class Program:
    """The state of the ranks."""

    def __init__(self, trace, computing):
        self.computing = computing
        self.definitions = trace.definitions
        self.regions = {}
        self.calls = [0] * RANKS
        self.requests = 0
        # As Score-P does: references to it have a name and a number, and not only the name.
        self.definitions.paradigm(Paradigm.MPI, name="MPI", paradigm_class=ParadigmClass.PROCESS)
        root = self.definitions.system_tree_node("machine")
        groups = [self.definitions.location_group(f"MPI Rank {rank}", system_tree_parent=root,
                                                  location_group_type=LocationGroupType.PROCESS) for rank in range(RANKS)]
        # Threads stand between the ranks' locations.
        locations, threads = [], []
        for group in groups:
            threads.append(self.definitions.location("OMP thread 1", group=group))
            locations.append(self.definitions.location("Master thread", group=group))
        self.writers = [trace.event_writer_from_location(location) for location in locations]
        self.times = [1_000_000 + 10 * rank for rank in range(RANKS)]
        self.solve = self.definitions.region('solve "all"\nof it, Tag: 3')
        for thread in threads:
            writer = trace.event_writer_from_location(thread)
            writer.enter(1_000_000, self.solve)
            writer.leave(1_000_500, self.solve)
        self.group("", GroupType.COMM_LOCATIONS, locations)
        self.world = (self.communicator("MPI_COMM_WORLD", locations), list(range(RANKS)))
        self.halves = [(self.communicator(f"half, Tag: {color}", [locations[rank] for rank in members]), members)
                       for color, members in enumerate([[2, 0], [3, 1]])]

    def group(self, name, kind, members):
        return self.definitions.group(name, group_type=kind, paradigm=Paradigm.MPI, members=members)

    def communicator(self, name, members):
        return self.definitions.comm(name, self.group(name, GroupType.COMM_GROUP, members))

    def call(self, rank, name, *events):
        """Writes a call and the events within it: each a function of the writer, with its time."""
        region = self.regions.get(name) or self.regions.setdefault(name, self.definitions.region(name, paradigm=Paradigm.MPI))
        writer, start = self.writers[rank], self.times[rank] + self.computing // 2
        writer.enter(start, region)
        for event in events:
            event(writer, start + WITHIN // 4)
        self.times[rank] = start + WITHIN // 2
        writer.leave(self.times[rank], region)
        self.calls[rank] += 1

    def send(self, rank, to, tag, size):
        self.call(rank, "MPI_Send", lambda writer, now: writer.mpi_send(now, to, self.world[0], tag, size))

    def receive(self, rank, sender, tag, size):
        self.call(rank, "MPI_Recv", lambda writer, now: writer.mpi_recv(now, sender, self.world[0], tag, size))

    def ping_pong(self, size):
        self.send(0, 1, 3, size)
        self.receive(0, 1, 4, size)
        self.receive(1, 0, 3, size)
        self.send(1, 0, 4, size)

    def ring(self, size):
        for rank in range(RANKS):
            got, sent = self.requests, self.requests + 1
            self.requests += 2
            before, after, comm = (rank - 1) % RANKS, (rank + 1) % RANKS, self.world[0]
            self.call(rank, "MPI_Irecv", lambda writer, now, got=got: writer.mpi_irecv_request(now, got))
            self.call(rank, "MPI_Isend", lambda writer, now, sent=sent, after=after: writer.mpi_isend(now, after, comm, 5, size, sent))
            self.call(rank, "MPI_Waitall",
                      lambda writer, now, got=got, before=before: writer.mpi_irecv(now, before, comm, 5, size, got),
                      lambda writer, now, sent=sent: writer.mpi_isend_complete(now, sent))

    def collective(self, name, operation, comm, root, amounts):
        """Every member calls it; `amounts` is the number of bytes that each member sends and receives."""
        for place, rank in enumerate(comm[1]):
            sent, received = amounts(place)
            self.call(rank, name, lambda writer, now: writer.mpi_collective_begin(now),
                      lambda writer, now, sent=sent, received=received: writer.mpi_collective_end(
                          now, operation, comm[0], root, sent, received))

    def begun(self, comm, size):
        everything = len(comm[1]) * size
        for rank in comm[1]:
            request = self.requests
            self.requests += 1
            self.call(rank, "MPI_Iallreduce",
                      lambda writer, now, request=request: writer.non_blocking_collective_request(now, request))
            self.call(rank, "MPI_Wait", lambda writer, now, request=request: writer.non_blocking_collective_complete(
                now, CollectiveOp.ALLREDUCE, comm[0], NO_ROOT, everything, everything, request))

    def alike(self, comm, size):
        ranks = len(comm[1])
        everything = ranks * size

        def from_root(place):
            return (everything if place == 1 else 0, size)

        def to_root(place):
            return from_root(place)[::-1]

        def all_to_all(_):
            return (everything, everything)

        self.collective("MPI_Barrier", CollectiveOp.BARRIER, comm, NO_ROOT, lambda _: (0, 0))
        self.collective("MPI_Bcast", CollectiveOp.BCAST, comm, 1, from_root)
        self.collective("MPI_Reduce", CollectiveOp.REDUCE, comm, 1, to_root)
        self.collective("MPI_Allreduce", CollectiveOp.ALLREDUCE, comm, NO_ROOT, all_to_all)
        self.collective("MPI_Gather", CollectiveOp.GATHER, comm, 1, to_root)
        self.collective("MPI_Scatter", CollectiveOp.SCATTER, comm, 1, from_root)
        self.collective("MPI_Allgather", CollectiveOp.ALLGATHER, comm, NO_ROOT, all_to_all)
        self.collective("MPI_Alltoall", CollectiveOp.ALLTOALL, comm, NO_ROOT, all_to_all)
        self.collective("MPI_Reduce_scatter_block", CollectiveOp.REDUCE_SCATTER_BLOCK, comm, NO_ROOT, all_to_all)
        self.collective("MPI_Scan", CollectiveOp.SCAN, comm, NO_ROOT, lambda place: ((ranks - place) * size, (place + 1) * size))
        self.begun(comm, size)

    def each_its_own(self, comm, size):
        ranks = len(comm[1])
        counts = [size * (place + 1) for place in range(ranks)]

        def to_root(place):
            return (counts[place], sum(counts) if place == 1 else 0)

        self.collective("MPI_Gatherv", CollectiveOp.GATHERV, comm, 1, to_root)
        self.collective("MPI_Scatterv", CollectiveOp.SCATTERV, comm, 1, lambda place: to_root(place)[::-1])
        self.collective("MPI_Allgatherv", CollectiveOp.ALLGATHERV, comm, NO_ROOT, lambda place: (ranks * counts[place], sum(counts)))
        self.collective("MPI_Reduce_scatter", CollectiveOp.REDUCE_SCATTER, comm, NO_ROOT,
                        lambda place: (sum(counts), ranks * counts[place]))

    def off(self):
        """Each rank's tracer is off for a while, as between SCOREP_RECORDING_OFF and SCOREP_RECORDING_ON."""
        for rank, writer in enumerate(self.writers):
            writer.measurement_on_off(self.times[rank], MeasurementMode.OFF)
            self.times[rank] += OFF
            writer.measurement_on_off(self.times[rank], MeasurementMode.ON)

    def run(self):
        for rank in range(RANKS):
            self.call(rank, "MPI_Init")
            self.writers[rank].enter(self.times[rank], self.solve)
        for _ in range(ROUNDS):
            self.off()
            for size in (1, 1000, 100000):
                self.ping_pong(size)
            self.ring(20000)
            self.alike(self.world, 400)
            for half in self.halves:
                self.alike(half, 3000)
            self.each_its_own(self.world, 500)
            for half in self.halves:
                self.each_its_own(half, 2000)
        for rank in range(RANKS):
            self.writers[rank].leave(self.times[rank], self.solve)
            self.call(rank, "MPI_Finalize")
        # Calls before which there was computing that counts: all but the first.
        print(sum(self.calls), *(self.computing * (calls - 1) for calls in self.calls))


with otf2.writer.open(sys.argv[1], timer_resolution=TICKS) as archive:
    Program(archive, int(sys.argv[2])).run()
