"""RDMA programs without RDMA hardware, from Python.

    verbena.environment()    the variables that put a child process on the software adapter
    verbena.load("out")      the results of a run of the suite as pandas frames
    verbena.program()        where the program is, for other uses

and for pytest the option `--rdma` with the fixture `rdma_device` (`verbena.pytest_plugin`).
"""

from .launch import environment
from .programs import program
from .results import Results, load

__all__ = ["Results", "environment", "load", "program"]
