"""InfiniStore's own benchmark, which compares the data it reads with those it wrote."""

import runpy
from pathlib import Path

import infinistore

runpy.run_path(str(Path(infinistore.__file__).with_name("benchmark.py")), run_name="__main__")
