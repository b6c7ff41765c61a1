"""`bench`, `evaluate`, `load`, `compare` and `replay` on models, which are quick and say the same each time. Needs
pandas and matplotlib."""

import pickle
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import pandas  # noqa: E402

import verbena  # noqa: E402
from refused import refused  # noqa: E402

SIX, QDR = "model:connectx6-hdr", "model:connectx-qdr"
GOAL = """num_ranks 2
rank 0 {
l1: calc 1500
l2: send 4096b to 1 tag 7
l2 requires l1
}
rank 1 {
l1: recv 4096b from 0 tag 7
}
"""
PERFTEST = """
                    RDMA_Write BW Test
 Connection type : RC
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      5000             11756.68            {}              {}
"""
TRACE = sys.argv[1]
FRAMES = ("runs", "points", "statistics", "findings", "failures", "environment")


def tidy(frame):
    """One value a row with its unit, and no empty column."""
    assert isinstance(frame, pandas.DataFrame) and len(frame), frame
    empty = [name for name in frame if frame[name].isna().all()]
    assert not empty, empty
    return frame


# Several benchmarks with different parameters, on two targets.
out = Path("both")
both = verbena.bench("latency.write", ["bandwidth.write", "rate.window"], on=[SIX, QDR], sizes=[8, "4K"], transports="rc", quick=True,
                     out=out)
assert both.benchmarks == ["latency.write", "bandwidth.write", "rate.window"] and both.report == out / "report.html", both
for name in FRAMES[:4] + FRAMES[5:]:
    tidy(getattr(both, name))
points = both.points
assert set(points.unit) >= {"ns", "bytes/s"} and points["size"].isin([8, 4096]).any(), points
assert len(points.columns) <= 13 and list(points.columns[:4]) == ["label", "benchmark", "size", "parameters"], points.columns
assert set(both.runs.outcome) == {"complete"} and set(both.runs.device) == {"connectx6-hdr", "connectx-qdr"}, both.runs
expanded = tidy(both.of("latency.write"))
assert set(expanded.transport) == {"rc"} and set(expanded["size"]) == {8, 4096} and "ways" not in expanded, expanded
assert set(both.of("bandwidth.").benchmark) == {"bandwidth.write"}
refused(lambda: both.of("latency.wrote"), "there are: latency.write, bandwidth.write", kind=ValueError)
key = ["label", "benchmark", "size", "parameters", "launch", "metric"]
medians = both.statistics[both.statistics.statistic == "p50"].merge(points, on=key, suffixes=("_p50", ""))
assert len(medians) and (medians.unit == medians.unit_p50).all(), medians
again = verbena.load(out)
assert again.points.equals(points) and pickle.loads(pickle.dumps(again)).points.equals(points)
assert verbena.load(str(out / "model-connectx-qdr" / "results.jsonl")).runs.device[0] == "connectx-qdr"

# All benchmarks at once.
whole = verbena.evaluate(on=SIX, quick=True, sizes=8, out="whole")
for name in FRAMES:
    tidy(getattr(whole, name))
assert len(whole.benchmarks) > 20 and whole.report.is_file() and len(whole.points.columns) <= 13, whole

# Comparing: directories, results, files of records.
six, qdr, old = (verbena.bench("latency.write", on=model, sizes=[8, 64], transports="rc", quick=True)
                 for model in (SIX, QDR, "model:infinihost3-ddr"))
worse = verbena.compare(six, old)
assert (worse.outcome, worse.exit_code) == ("worse", 1), worse
changes = tidy(worse.changes)
assert set(changes.verdict) == {"worse"} and sorted(changes["size"]) == [8, 64], changes
assert (changes.ratio - changes.second / changes["first"]).abs().max() < 1e-12
same = verbena.compare(six, str(six.path / "results.jsonl"))
assert (same.outcome, same.exit_code, set(same.changes.verdict)) == ("unchanged", 0, {"unchanged"}), same
slow = {"connectx.send.blueflame": 1}
slower = verbena.bench("latency.write", on=QDR, sizes=[8], transports="rc", quick=True, settings=slow)
better = verbena.compare(slower, qdr)
assert (better.outcome, better.exit_code) == ("better", 1) and "1 better" in str(better), better
refused(lambda: verbena.compare(six, "no-such"), "no-such", code=2)
refused(lambda: verbena.compare(six, verbena.bench("bandwidth.read", on=SIX, sizes=8, quick=True)), "no point in common", code=2)
kept = slower.path
assert kept.is_dir()
del slower
assert not kept.exists(), "a temporary directory is left behind"

# Another tool's output.
for name, figures in (("one.txt", ("11756.56", "0.188105")), ("two.txt", ("8756.56", "0.140105"))):
    Path(name).write_text(PERFTEST.format(*figures))
foreign = verbena.load("one.txt")
assert foreign.benchmarks == ["bandwidth.write"] and set(tidy(foreign.points)["size"]) == {65536}, foreign.points
undecided = verbena.compare(foreign, Path("two.txt"))
assert (undecided.outcome, undecided.exit_code) == ("undecided", 4), undecided
Path("bare.txt").write_text(PERFTEST.format("11756.56", "0.188105").replace("RDMA_Write BW Test", ""))
assert verbena.load("bare.txt", test="perftest:write-bw").benchmarks == ["bandwidth.write"]
Path("prose.txt").write_text("nothing of the kind\n")
refused(lambda: verbena.load("prose.txt"), "prose.txt", "perftest", code=2)
refused(lambda: verbena.load("no-such"), "no-such does not exist", kind=FileNotFoundError)
Path("nothing").mkdir()
refused(lambda: verbena.load("nothing"), "nor its subdirectories have a results.jsonl", kind=FileNotFoundError)
Path("empty.jsonl").touch()
refused(lambda: verbena.load("empty.jsonl"), "is empty", kind=ValueError)

# A failure is reported with the program's message.
refused(lambda: verbena.bench("latency.wrote"), 'did you mean "latency.write"', "exit code 2", code=2)
refused(lambda: verbena.bench("latency.write", on=SIX, quick=True, out="whole"), "holds the results of another run", code=2)
error = refused(lambda: verbena.bench("latency.write", on="hardware:no_such_0"), "no_such_0", code=2)
assert error.results is None and error.command[1] == "bench" and pickle.loads(pickle.dumps(error)).exit_code == 2

# Replaying.
Path("exchange.goal").write_text(GOAL)
schedule = verbena.replay("exchange.goal", on=[SIX, QDR])
assert list(tidy(schedule.runs).system) == ["connectx6-hdr", "connectx-qdr"] and set(schedule.ranks.part) == {"end"}, schedule.runs
trace = verbena.replay(TRACE, on=SIX, page="replay.html")
parts = tidy(trace.ranks).pivot(index="rank", columns="part", values="value")
assert ((parts.computing + parts.overhead + parts.waiting) / parts.end).sub(1).abs().max() < 1e-3, parts
assert abs(tidy(trace.chain).value.sum() / trace.runs.value[0] - 1) < 1e-3 and len(tidy(trace.waits)), trace.chain
assert Path("replay.html").stat().st_size > 1000
refused(lambda: verbena.replay("no-such", on=SIX), "no-such", code=2)
refused(lambda: verbena.replay("exchange.goal", on="software"), "model:PROFILE", code=2)

# Charts.
for name, figure in {"points": both.plot(), "one": both.plot("latency.write"), "metric": both.plot(metric="bandwidth"),
                     "whole": whole.plot(), "changes": worse.plot(), "schedule": schedule.plot(), "trace": trace.plot()}.items():
    figure.savefig(f"{name}.png", dpi=40)
    assert Path(f"{name}.png").stat().st_size > 1000 and figure.axes[0].get_legend() is not None, name
axes = both.plot("latency.write").axes
assert len(axes) == 1 and len(axes[0].get_lines()) >= 2 and "latency.write" in axes[0].get_title(), axes
refused(lambda: both.plot(ax=axes[0]), "select one", kind=ValueError)
refused(lambda: both.plot(metric="speed"), "available: ", "one-way-latency", kind=ValueError)
print("all of it")
