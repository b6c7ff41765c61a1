"""InfiniStore's own benchmark, which compares what it reads with what it wrote."""

import runpy
from pathlib import Path

import infinistore

runpy.run_path(str(Path(infinistore.__file__).with_name("benchmark.py")), run_name="__main__")
