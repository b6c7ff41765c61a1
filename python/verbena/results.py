"""Results of measurements: output of `verbena bench --out`, `verbena evaluate` and other tools.

The records are those of docs/results-schema.md.
"""

from __future__ import annotations

import json
import os
import shutil
import weakref
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Optional, Union

from .command import PathLike, options, verbena
from .frames import frame

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SCHEMA = 1
RESULTS, REPORT = "results.jsonl", "report.html"
# The first columns of a frame of figures, for every benchmark.
KEY = ("label", "benchmark", "size", "parameters", "launch")
POINTS = (*KEY, "metric", "value", "unit", "better", "samples", "bound", "validated", "warnings")
STATISTICS = (*KEY, "metric", "statistic", "value", "unit")
FINDINGS = (*KEY, "finding", "value", "unit", "low", "high", "text")
FAILURES = (*KEY, "reason", "unsupported")
RUNS = ("label", "fabric", "device", "command", "started", "seed", "effort", "launcher", "launches", "outcome", "seconds", "reason")
# The fields of a summary that are figures in the unit of their metric.
FIGURES = ("min", "p50", "p90", "p99", "p999", "max", "mean", "deviation")


class Results:
    """The results of one run, or of several targets of one run.

    `runs`, `points`, `statistics`, `findings`, `failures` and `environment` are pandas frames without empty columns; `records`
    has all data, and does not need pandas.
    """

    def __init__(self, path: Path, records: list[dict[str, Any]], messages: str = ""):
        #: Their directory or file.
        self.path = path
        #: The records of docs/results-schema.md, each with the label of its run.
        self.records = records
        #: The program's standard error.
        self.messages = messages

    def __repr__(self) -> str:
        names = self.benchmarks
        shown = ", ".join(names) if len(names) < 5 else f"{len(names)} benchmarks"
        labels = ", ".join(record["label"] for record in self._of("run"))
        return f"<Results of {labels}: {len(self._of('point'))} points of {shown or 'no benchmark'}, in {self.path}>"

    @property
    def report(self) -> Optional[Path]:
        """The HTML report, if there is one."""
        file = self.path / REPORT
        return file if file.is_file() else None

    @property
    def benchmarks(self) -> list[str]:
        """The names of the benchmarks that have points."""
        return list(dict.fromkeys(point["benchmark"] for point in self._of("point")))

    @cached_property
    def runs(self) -> pandas.DataFrame:
        """A frame with one row for each target: its benchmarks, time and outcome."""
        ends = {record["label"]: record for record in self._of("end")}
        rows = [{**{name: record.get(name) for name in RUNS}, "started": record["started"] or None,
                 **{name: ends.get(record["label"], {}).get(name) for name in ("outcome", "seconds", "reason")}}
                for record in self._of("run")]
        return frame(rows, RUNS)

    @cached_property
    def environment(self) -> pandas.DataFrame:
        """A frame with one row for each property of the machine of a target."""
        rows = [{"label": record["label"], "name": name, "value": value} for record in self._of("run")
                for name, value in {**record["clock"], **record["environment"]}.items()]
        return frame(rows, ("label", "name", "value"))

    @cached_property
    def points(self) -> pandas.DataFrame:
        """A frame with one row for each figure of each launch: `value` in `unit`. `size` has its own column; other parameters are
        words in one column, for which `of` has separate ones."""
        return frame([{**_key(point), **figure} for point in self._of("point") for figure in _figures(point)], POINTS)

    @cached_property
    def statistics(self) -> pandas.DataFrame:
        """A frame with one row for each statistic of the samples of a figure: minimum, percentiles, maximum, mean, standard
        deviation, and the bounds of the median's 95 % confidence interval."""
        rows = [{**_key(point), "metric": metric["name"], "statistic": name, "value": value, "unit": metric["unit"]}
                for point in self._of("point") for metric in point["metrics"] for name, value in _statistics(metric)]
        return frame(rows, STATISTICS)

    @cached_property
    def findings(self) -> pandas.DataFrame:
        """A frame with one row for each finding, such as a knee."""
        rows = [{**_key(record), "finding": record["name"], "value": record["value"], "unit": record["unit"],
                 "low": (record["range"] or {}).get("low"), "high": (record["range"] or {}).get("high"), "text": record["text"]}
                for record in self._of("finding")]
        return frame(rows, FINDINGS)

    @cached_property
    def failures(self) -> pandas.DataFrame:
        """A frame with one row for each failed measurement, with the reason."""
        rows = [{**_key(record), "reason": record["reason"], "unsupported": record["unsupported"]} for record in self._of("failure")]
        return frame(rows, FAILURES)

    def of(self, benchmark: str) -> pandas.DataFrame:
        """Returns the points of one benchmark, or of all whose names begin so, with a column for each parameter."""
        points = self._named(benchmark)
        rows = [{"label": point["label"], "benchmark": point["benchmark"], **_columns(point), "launch": point["launch"], **figure}
                for point in points for figure in _figures(point)]
        names = dict.fromkeys(name for point in points for name in _columns(point))
        return frame(rows, ("label", "benchmark", *names, *POINTS[4:]))

    def plot(self, benchmark: Optional[str] = None, metric: Optional[str] = None, ax: Optional[Axes] = None) -> Figure:
        """Draws the headline figure of each benchmark, or the metric `metric`, over the message size or the parameter that varies
        most. Needs matplotlib."""
        from .plotting import draw_points

        return draw_points(self._of("point") if benchmark is None else self._named(benchmark), metric, ax)

    def _of(self, kind: str) -> list[dict[str, Any]]:
        return [record for record in self.records if record["record"] == kind]

    def _named(self, name: str) -> list[dict[str, Any]]:
        """Returns the points of a benchmark; as on the command line, a prefix of names ends with a dot."""
        found = [point for point in self._of("point") if point["benchmark"] == name or
                 name.endswith(".") and point["benchmark"].startswith(name)]
        if not found:
            raise ValueError(f"no point of a benchmark {name!r} in {self.path}; there are: {', '.join(self.benchmarks) or 'none'}")
        return found


def load(run: PathLike, *, test: Optional[str] = None, processes: Optional[int] = None) -> Results:
    """Reads the results of a run: its directory, its `results.jsonl`, or the output of another tool (perftest, OSU's benchmarks
    and others, see docs/methods.md).

    For another tool's output, `test` is the option `--as` of the command line, and `processes` the option `--processes`.
    Raises a FileNotFoundError or a ValueError if there are no results, and a CommandError if no tool's output is recognized.
    """
    path = Path(run)
    if path.is_file() and (path.suffix != ".jsonl" or test or processes):
        ended = verbena("__records", *options(**{"as": test, "processes": processes}), "--", path)
        if ended.returncode:
            ended.refuse()
        return Results(path, _labelled(_records(ended.stdout.splitlines(), path)), ended.stderr)
    records: list[dict[str, Any]] = []
    for file in _files(path):
        with open(file, encoding="utf-8") as lines:
            records += _labelled(_records(lines, file))
    return Results(path, records)


def temporary(results: Results, directory: Path) -> Results:
    """Returns the results; removes their directory when they are garbage-collected."""
    weakref.finalize(results, shutil.rmtree, directory, ignore_errors=True)
    return results


def _files(run: Path) -> list[Path]:
    """Returns the files of a run: one, or one of each target."""
    if run.is_file():
        return [run]
    if found := [each for each in (run / RESULTS, *sorted(run.glob(f"*/{RESULTS}"))) if each.is_file()]:
        return found
    if not run.exists():
        raise FileNotFoundError(f"{run} does not exist")
    raise FileNotFoundError(f"neither {run} nor its subdirectories have a {RESULTS}; "
                            "`verbena bench --out DIR` and `verbena evaluate --out DIR` write one")


def _records(lines: Iterable[str], file: Union[str, os.PathLike[str]]) -> Iterator[dict[str, Any]]:
    """Parses the lines of a file, the first of which identifies it."""
    number = 0
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            kind = record["record"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{file}:{number}: not a record of a run: {error}") from error
        if number == 1 and (kind != "run" or record.get("schema") != SCHEMA):
            raise ValueError(f"{file}: not results of schema {SCHEMA}: the first record is {kind!r}, "
                             f"schema {record.get('schema')!r}; another version of Verbena may have written it")
        yield record
    if number == 0:
        raise ValueError(f"{file} is empty")


def _labelled(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Gives each record the label of the first."""
    label = ""
    found = []
    for record in records:
        if record["record"] == "run":
            label = record["label"]
        found.append({**record, "label": label})
    return found


def _key(record: dict[str, Any]) -> dict[str, Any]:
    """Returns the columns that identify a record. The parameters are words, as in `verbena compare`."""
    parameters = {name: number(value) for name, value in record["parameters"].items()}
    words = " ".join(f"{name}={value}" for name, value in sorted(parameters.items()) if name != "size")
    return {"label": record["label"], "benchmark": record["benchmark"], "size": parameters.get("size"), "parameters": words or None,
            "launch": record["launch"]}


def _columns(point: dict[str, Any]) -> dict[str, Any]:
    """Returns a column for each parameter, renamed if its name is that of a standard column."""
    return {f"parameter_{name}" if name in POINTS and name != "size" else name: number(value)
            for name, value in point["parameters"].items()}


def _figures(point: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Returns a row for each metric of a point."""
    for metric in point["metrics"]:
        yield {"metric": metric["name"], "value": metric["value"], "unit": metric["unit"], "better": metric["better"],
               "samples": (metric["summary"] or {}).get("n"), "bound": (metric["bound"] or {}).get("value"),
               "validated": point["conduct"]["validated"], "warnings": " ".join(warning["code"] for warning in point["warnings"]) or None}


def _statistics(metric: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Returns the statistics of a metric."""
    summary = metric["summary"] or {}
    interval = summary.get("median_interval") or {}
    found = {**{name: summary.get(name) for name in FIGURES}, "median_low": interval.get("low"), "median_high": interval.get("high")}
    for name, value in found.items():
        if value is not None:
            yield name, value


def number(value: Any) -> Any:
    """Converts integral floats to integers: sizes and counts are integers, and JSON has none."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
