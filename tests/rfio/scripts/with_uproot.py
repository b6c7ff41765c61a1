"""A ROOT file's tree, written and read by uproot."""

import sys

import awkward
import numpy
import rfio_fsspec  # This registers `rfio://`.
import uproot

base, export = sys.argv[1], sys.argv[2]
chance = numpy.random.default_rng(1)
events = 20_000
counts = chance.integers(0, 5, events)
columns = {
    "number": numpy.arange(events, dtype="i8"),
    "energy": chance.normal(size=events),
    "hits": awkward.unflatten(chance.normal(size=counts.sum()).astype("f4"), counts),
}


def fill(file):
    """A tree of ten baskets."""
    for first in range(0, events, events // 10):
        part = {name: column[first : first + events // 10] for name, column in columns.items()}
        if first == 0:
            file.mktree("events", {name: awkward.type(column).content for name, column in part.items()})
        file["events"].extend(part)


with uproot.recreate(f"{export}/there.root") as file:
    fill(file)
with uproot.recreate(f"{base}/sent.root") as file:
    fill(file)
for name in ("there", "sent"):
    with uproot.open(f"{base}/{name}.root:events") as tree:
        assert tree.num_entries == events
        for column, values in columns.items():
            assert awkward.all(tree[column].array() == values), (name, column)
            assert awkward.all(tree[column].array(entry_start=7_001, entry_stop=7_005) == values[7_001:7_005])
    read = list(uproot.iterate(f"{base}/{name}.root:events", ["number", "energy"], step_size=1_234, library="np"))
    assert numpy.array_equal(numpy.concatenate([part["energy"] for part in read]), columns["energy"])
chained = uproot.concatenate([f"{base}/there.root:events", f"{base}/sent.root:events"], "hits").hits
assert len(chained) == 2 * events and awkward.all(chained[events:] == columns["hits"])
print("read it all")
