"""ROOT's own trees on the file service: written, read by TTree::Draw and RDataFrame, chained and merged."""

import sys
import warnings

warnings.filterwarnings("ignore")

import numpy
import ROOT

ROOT.gROOT.SetBatch(True)
ROOT.gErrorIgnoreLevel = ROOT.kWarning
# ROOT otherwise reads files of this host from the disk.
ROOT.gEnv.SetValue("TFile.ForceRemote", 1)
base, export = sys.argv[1], sys.argv[2]
events = 50_000


def fill(url: str) -> None:
    """A tree whose branches are computed from the number of their entry, in many baskets."""
    file = ROOT.TFile.Open(url, "RECREATE")
    assert file and not file.IsZombie(), url
    tree = ROOT.TTree("events", "events")
    number, energy, hits = numpy.zeros(1, "i8"), numpy.zeros(1), ROOT.std.vector("float")()
    tree.Branch("number", number, "number/L", 8_000)
    tree.Branch("energy", energy, "energy/D", 8_000)
    tree.Branch("hits", hits)
    for at in range(events):
        number[0], energy[0] = at, at % 97 / 8
        hits.resize(at % 4)
        for hit in range(at % 4):
            hits[hit] = at + hit
        tree.Fill()
    file.Write()
    file.Close()


energies = numpy.arange(events) % 97 / 8
hits = sum(at + hit for at in range(events) for hit in range(at % 4))
fill(f"{export}/there.root")
fill(f"{base}/sent.root")
for name in ("there", "sent"):
    file = ROOT.TFile.Open(f"{base}/{name}.root")
    assert file.ClassName() == "TNetXNGFile", file.ClassName()
    tree = file.Get("events")
    assert tree.GetEntries() == events
    chosen = tree.Draw("energy", "number >= 12345 && energy > 3", "goff")
    wanted = energies[12345:][energies[12345:] > 3]
    assert chosen == len(wanted)
    assert numpy.array_equal(numpy.frombuffer(tree.GetV1(), count=chosen), wanted)
    # Scattered entries, without the read-ahead cache.
    tree.SetCacheSize(0)
    for at in numpy.random.default_rng(1).integers(0, events, 300):
        tree.GetEntry(int(at))
        assert tree.number == at and list(tree.hits) == [at + hit for hit in range(at % 4)], at
    file.Close()
for threads in (1, 4):
    if threads > 1:
        ROOT.EnableImplicitMT(threads)
    frame = ROOT.RDataFrame("events", [f"{base}/there.root", f"{base}/sent.root"])
    total = frame.Define("all", "ROOT::VecOps::Sum(ROOT::RVecD(hits.begin(), hits.end()))").Sum("all")
    count = frame.Filter("energy > 3").Count()
    assert total.GetValue() == 2 * hits, (total.GetValue(), hits)
    assert count.GetValue() == 2 * (energies > 3).sum()
    kept = f"{base}/kept{threads}.root"
    frame.Filter("number % 10 == 0").Snapshot("kept", kept, ["number", "energy"])
    assert ROOT.RDataFrame("kept", kept).Count().GetValue() == 2 * events // 10
merger = ROOT.TFileMerger(False)
assert merger.OutputFile(f"{base}/merged.root", "RECREATE")
for name in ("there", "sent"):
    assert merger.AddFile(f"{base}/{name}.root")
assert merger.Merge()
assert ROOT.RDataFrame("events", f"{export}/merged.root").Count().GetValue() == 2 * events
missing = None
try:
    missing = ROOT.TFile.Open(f"{base}/nothing.root")
except OSError:
    pass
assert not missing
print("read it all")
