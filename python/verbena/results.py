"""Results of measurements: what `verbena bench --out` and `verbena evaluate` leave, and what other tools print.

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
# What a frame of figures begins with, whatever the benchmark.
KEY = ("label", "benchmark", "size", "parameters", "launch")
POINTS = (*KEY, "metric", "value", "unit", "better", "samples", "bound", "validated", "warnings")
STATISTICS = (*KEY, "metric", "statistic", "value", "unit")
FINDINGS = (*KEY, "finding", "value", "unit", "low", "high", "text")
FAILURES = (*KEY, "reason", "unsupported")
RUNS = ("label", "fabric", "device", "command", "started", "seed", "effort", "launcher", "launches", "outcome", "seconds", "reason")
# The fields of a summary that are figures in the unit of their metric.
FIGURES = ("min", "p50", "p90", "p99", "p999", "max", "mean", "deviation")


class Results:
    """The results of one run, or of several targets of one.

    `runs`, `points`, `statistics`, `findings`, `failures` and `environment` are pandas frames, of which a column without any
    value is left out; `records` has everything and does without pandas.
    """

    def __init__(self, path: Path, records: list[dict[str, Any]], messages: str = ""):
        #: Where they lie: a directory or a file.
        self.path = path
        #: The records of docs/results-schema.md, each with the label of its run.
        self.records = records
        #: What the program wrote to standard error.
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
        """A row for each target: what was run, when, and how it ended."""
        ends = {record["label"]: record for record in self._of("end")}
        rows = [{**{name: record.get(name) for name in RUNS}, "started": record["started"] or None,
                 **{name: ends.get(record["label"], {}).get(name) for name in ("outcome", "seconds", "reason")}}
                for record in self._of("run")]
        return frame(rows, RUNS)

    @cached_property
    def environment(self) -> pandas.DataFrame:
        """A row for each fact about where a target was measured."""
        rows = [{"label": record["label"], "name": name, "value": value} for record in self._of("run")
                for name, value in {**record["clock"], **record["environment"]}.items()]
        return frame(rows, ("label", "name", "value"))

    @cached_property
    def points(self) -> pandas.DataFrame:
        """A row for each figure of each launch: `value` in `unit`. `size` has its own column, other parameters are words of one;
        `of` gives them columns."""
        return frame([{**_key(point), **figure} for point in self._of("point") for figure in _figures(point)], POINTS)

    @cached_property
    def statistics(self) -> pandas.DataFrame:
        """A row for each statistic of the samples of a figure: minimum, percentiles, maximum, mean, standard deviation, and the
        ends of the median's 95 % interval."""
        rows = [{**_key(point), "metric": metric["name"], "statistic": name, "value": value, "unit": metric["unit"]}
                for point in self._of("point") for metric in point["metrics"] for name, value in _statistics(metric)]
        return frame(rows, STATISTICS)

    @cached_property
    def findings(self) -> pandas.DataFrame:
        """A row for each finding, such as a knee."""
        rows = [{**_key(record), "finding": record["name"], "value": record["value"], "unit": record["unit"],
                 "low": (record["range"] or {}).get("low"), "high": (record["range"] or {}).get("high"), "text": record["text"]}
                for record in self._of("finding")]
        return frame(rows, FINDINGS)

    @cached_property
    def failures(self) -> pandas.DataFrame:
        """A row for what could not be measured, with the reason."""
        rows = [{**_key(record), "reason": record["reason"], "unsupported": record["unsupported"]} for record in self._of("failure")]
        return frame(rows, FAILURES)

    def of(self, benchmark: str) -> pandas.DataFrame:
        """The points of one benchmark, or of all whose names begin so, with a column for each of their parameters."""
        points = self._named(benchmark)
        rows = [{"label": point["label"], "benchmark": point["benchmark"], **_columns(point), "launch": point["launch"], **figure}
                for point in points for figure in _figures(point)]
        names = dict.fromkeys(name for point in points for name in _columns(point))
        return frame(rows, ("label", "benchmark", *names, *POINTS[4:]))

    def plot(self, benchmark: Optional[str] = None, metric: Optional[str] = None, ax: Optional[Axes] = None) -> Figure:
        """Draws the headline figure of each benchmark, or the `metric` of that name, over the size of messages or whichever
        parameter varies most. Needs matplotlib."""
        from .plotting import draw_points

        return draw_points(self._of("point") if benchmark is None else self._named(benchmark), metric, ax)

    def _of(self, kind: str) -> list[dict[str, Any]]:
        return [record for record in self.records if record["record"] == kind]

    def _named(self, name: str) -> list[dict[str, Any]]:
        """The points of a benchmark; as on the command line, a beginning of names ends with a dot."""
        found = [point for point in self._of("point") if point["benchmark"] == name or
                 name.endswith(".") and point["benchmark"].startswith(name)]
        if not found:
            raise ValueError(f"no point of a benchmark {name!r} in {self.path}; there are: {', '.join(self.benchmarks) or 'none'}")
        return found


def load(run: PathLike, *, test: Optional[str] = None, processes: Optional[int] = None) -> Results:
    """The results of a run: its directory, its `results.jsonl`, or what another tool printed (perftest, OSU's benchmarks and
    others, see docs/methods.md).

    Of another tool's output `test` is what `--as` says of it on the command line, and `processes` what `--processes` does.
    Raises a FileNotFoundError or a ValueError if there are no results, and a CommandError if a text is none of those tools'.
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
    """The same, whose directory is removed when nobody has them any more."""
    weakref.finalize(results, shutil.rmtree, directory, ignore_errors=True)
    return results


def _files(run: Path) -> list[Path]:
    """The files of a run: one, or one of each target."""
    if run.is_file():
        return [run]
    if found := [each for each in (run / RESULTS, *sorted(run.glob(f"*/{RESULTS}"))) if each.is_file()]:
        return found
    if not run.exists():
        raise FileNotFoundError(f"{run} does not exist")
    raise FileNotFoundError(f"{run} has no {RESULTS}, nor has a directory in it; "
                            "`verbena bench --out DIR` and `verbena evaluate --out DIR` leave such a DIR")


def _records(lines: Iterable[str], file: Union[str, os.PathLike[str]]) -> Iterator[dict[str, Any]]:
    """The lines of a file, the first of which says what it is."""
    number = 0
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            kind = record["record"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{file}:{number}: this is no record of a run: {error}") from error
        if number == 1 and (kind != "run" or record.get("schema") != SCHEMA):
            raise ValueError(f"{file}: this is not the beginning of results of schema {SCHEMA}, but record {kind!r}, "
                             f"schema {record.get('schema')!r}; another version of Verbena may have written it")
        yield record
    if number == 0:
        raise ValueError(f"{file} is empty")


def _labelled(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each with the label that the first has."""
    label = ""
    found = []
    for record in records:
        if record["record"] == "run":
            label = record["label"]
        found.append({**record, "label": label})
    return found


def _key(record: dict[str, Any]) -> dict[str, Any]:
    """What a record is of. The parameters are words as `verbena compare` has them."""
    parameters = {name: number(value) for name, value in record["parameters"].items()}
    words = " ".join(f"{name}={value}" for name, value in sorted(parameters.items()) if name != "size")
    return {"label": record["label"], "benchmark": record["benchmark"], "size": parameters.get("size"), "parameters": words or None,
            "launch": record["launch"]}


def _columns(point: dict[str, Any]) -> dict[str, Any]:
    """A column for each parameter; one that is called as a column of ours is, gets another name."""
    return {f"parameter_{name}" if name in POINTS and name != "size" else name: number(value)
            for name, value in point["parameters"].items()}


def _figures(point: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What each metric of a point says."""
    for metric in point["metrics"]:
        yield {"metric": metric["name"], "value": metric["value"], "unit": metric["unit"], "better": metric["better"],
               "samples": (metric["summary"] or {}).get("n"), "bound": (metric["bound"] or {}).get("value"),
               "validated": point["conduct"]["validated"], "warnings": " ".join(warning["code"] for warning in point["warnings"]) or None}


def _statistics(metric: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """The statistics that a metric has."""
    summary = metric["summary"] or {}
    interval = summary.get("median_interval") or {}
    found = {**{name: summary.get(name) for name in FIGURES}, "median_low": interval.get("low"), "median_high": interval.get("high")}
    for name, value in found.items():
        if value is not None:
            yield name, value


def number(value: Any) -> Any:
    """Sizes and counts are whole numbers, which JSON's are not."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
