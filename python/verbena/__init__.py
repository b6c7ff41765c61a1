"""RDMA programs without RDMA hardware, from Python.

    verbena.run("ibv_devinfo")           a program on the software adapter
    verbena.bench("latency.write")       benchmarks, with the results as frames and charts
    verbena.evaluate(quick=True)         all of them, with one report
    verbena.load("out")                  the results of an earlier run, or of perftest and other tools
    verbena.compare("before", "after")   better, worse, unchanged, or undecided
    verbena.replay("trace", on="model:connectx6-hdr")   a recorded program on a model
    verbena.environment()                the variables that put a child process on the adapter
    verbena.program()                    where the program is, for other uses

and for pytest the option `--rdma` with the fixture `rdma_device` (`verbena.pytest_plugin`). Frames need pandas, charts
matplotlib; nothing else does.
"""

from ._version import __version__
from .comparing import Comparison, compare
from .errors import CommandError
from .launch import environment
from .measuring import bench, evaluate
from .programs import program
from .replaying import Replays, replay
from .results import Results, load
from .running import Completed, run

__all__ = ["CommandError", "Comparison", "Completed", "Replays", "Results", "__version__", "bench", "compare", "environment",
           "evaluate", "load", "program", "replay", "run"]
