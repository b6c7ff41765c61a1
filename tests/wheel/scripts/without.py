"""`import verbena` where pandas, matplotlib or the program itself are missing: functions that do not need them work,
and the others name the missing one."""

import importlib.metadata
import sys

import verbena

SIX = "model:connectx6-hdr"


def refused(call, kind, *words):
    try:
        call()
    except kind as error:
        assert all(word in str(error) for word in words), str(error)
    else:
        raise AssertionError(f"it is not refused with {words}")


assert importlib.metadata.version("verbena") == verbena.__version__, verbena.__version__
assert verbena.run(verbena.program(), "--version").output.split()[1] == verbena.__version__
six = verbena.bench("latency.write", on=SIX, sizes=8, transports="rc", quick=True)
(point, ) = [record for record in six.records if record["record"] == "point"]
assert point["metrics"][0]["value"] > 0 and six.benchmarks == ["latency.write"] and point["label"] == "connectx6-hdr (model)", point
assert verbena.compare(six, six).outcome == "unchanged"
refused(lambda: six.points, ImportError, "pip install pandas")
refused(lambda: verbena.compare(six, six).changes, ImportError, "pip install pandas")
refused(six.plot, ImportError, "pip install matplotlib")
assert not {"pandas", "matplotlib", "numpy"} & set(sys.modules)
print("all of it")
