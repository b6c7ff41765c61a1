"""RDMA programs without RDMA hardware, from Python.

    verbena.run("ibv_devinfo")           run a program on the software adapter
    verbena.bench("latency.write")       run benchmarks; the results have frames and charts
    verbena.evaluate(quick=True)         run all benchmarks and write one report
    verbena.load("out")                  read the results of an earlier run, or of perftest and other tools
    verbena.compare("before", "after")   better, worse, unchanged, or undecided
    verbena.replay("trace", on="model:connectx6-hdr")   replay a recorded program on a model
    verbena.environment()                the environment that runs a child process on the adapter
    verbena.Faults("qp1.write 3: flush") an environment in which verbs calls and requests fail
    verbena.program()                    the path of the program

For pytest it has the option `--rdma` and the fixture `rdma_device` (`verbena.pytest_plugin`). Frames need pandas, charts
need matplotlib; nothing else needs them.
"""

from ._version import __version__
from .comparing import Comparison, compare
from .errors import CommandError
from .faults import Faults, NeverFired
from .launch import environment
from .measuring import bench, evaluate
from .programs import program
from .replaying import Replays, replay
from .results import Results, load
from .running import Completed, run

__all__ = ["CommandError", "Comparison", "Completed", "Faults", "NeverFired", "Replays", "Results", "__version__", "bench", "compare", "environment",
           "evaluate", "load", "program", "replay", "run"]
