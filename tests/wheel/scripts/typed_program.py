"""A program over `import verbena` that mypy accepts, and one line of each kind that it rejects."""

from pathlib import Path

import verbena

completed: verbena.Completed = verbena.run("ibv_devinfo", "-v", devices=2, check=True)
code: int = completed.returncode
results: verbena.Results = verbena.bench("latency.write", on=["software"], sizes=[8, "4K"], out=Path("out"))
comparison: verbena.Comparison = verbena.compare(results, Path("before"), thresholds="thresholds.toml")
outcome: str = comparison.outcome
replays: verbena.Replays = verbena.replay("trace", on="model:connectx6-hdr")
version: str = verbena.__version__

verbena.run("ibv_devinfo", devices="two")  # type: ignore[arg-type]
verbena.bench("latency.write", launch=3)  # type: ignore[call-arg]
wrong: int = comparison.outcome  # type: ignore[assignment]
