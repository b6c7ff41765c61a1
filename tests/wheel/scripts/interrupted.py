"""`verbena.bench` until Ctrl-C is pressed."""

import sys

import verbena

try:
    verbena.bench("latency.write", quick=True, launches=1000, out=sys.argv[1])
except KeyboardInterrupt:
    results = verbena.load(sys.argv[1])
    (end, ) = [record for record in results.records if record["record"] == "end"]
    print("kept", end["outcome"], len(results.benchmarks), results.report.name)
