"""What `verbena bench --out` and `verbena evaluate` leave, as pandas frames.

The fields are those of docs/results-schema.md. pandas is asked for when a run is loaded, and by nothing else.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator, NamedTuple, Union

if TYPE_CHECKING:
    import pandas

SCHEMA = 1
SUMMARY = ("n", "min", "p50", "p90", "p99", "p999", "max", "mean", "deviation")
# What every frame of measurements begins with.
KEY = ("label", "benchmark", "launch")
# The columns of a frame beside its parameters, which a frame without a row has too.
COLUMNS = {
    "run": ("schema", "label", "fabric", "device", "command", "started"),
    "point": (*KEY, "metric", "unit", "better", "value", "bound", "validated", "warnings", *SUMMARY),
    "finding": (*KEY, "name", "value", "unit", "range", "text"),
    "failure": (*KEY, "reason", "unsupported"),
}


class Results(NamedTuple):
    """One run, or several targets of one."""

    #: What was run: a row a target, with the fields of the record `run`.
    runs: pandas.DataFrame
    #: A row for each metric of each point: benchmark, launch, a column a parameter, metric, unit, value, summary.
    points: pandas.DataFrame
    #: A row a finding, such as a knee.
    findings: pandas.DataFrame
    #: A row for what could not be measured, with the reason.
    failures: pandas.DataFrame


def load(run: Union[str, os.PathLike[str]]) -> Results:
    """The results of a run: its directory, or a `results.jsonl`."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("verbena.load gives pandas frames, and pandas is not installed: pip install pandas") from error

    rows: dict[str, list[dict[str, Any]]] = {kind: [] for kind in COLUMNS}
    for file in _files(Path(run)):
        label = ""
        for record in _records(file):
            kind = record.pop("record")
            if kind == "run":
                label = record["label"]
                rows[kind].append(record)
            elif kind == "point":
                rows[kind] += _metrics(label, record)
            elif kind in rows:
                parameters = _parameters(kind, record)
                rows[kind].append({"label": label, **{name: record[name] for name in COLUMNS[kind][1:]}, **parameters})
    return Results(*(pandas.DataFrame(found, columns=None if found else COLUMNS[kind]) for kind, found in rows.items()))


def _files(run: Path) -> list[Path]:
    """The files of a run: one, or one of each target."""
    if run.is_file():
        return [run]
    if found := [each for each in (run / "results.jsonl", *sorted(run.glob("*/results.jsonl"))) if each.is_file()]:
        return found
    raise FileNotFoundError(f"{run} has no results.jsonl, nor has a directory in it; "
                            "`verbena bench --out DIR` and `verbena evaluate --out DIR` leave such a DIR")


def _records(file: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file, the first of which says what it is."""
    with open(file, encoding="utf-8") as lines:
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


def _metrics(label: str, point: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A row for each metric of a point."""
    for metric in point["metrics"]:
        summary = metric["summary"] or {}
        bound = metric["bound"] or {}
        yield {
            "label": label, "benchmark": point["benchmark"], "launch": point["launch"], **_parameters("point", point),
            "metric": metric["name"], "unit": metric["unit"], "better": metric["better"], "value": metric["value"],
            "bound": bound.get("value"), "validated": point["conduct"]["validated"],
            "warnings": [warning["code"] for warning in point["warnings"]],
            **{name: summary.get(name) for name in SUMMARY},
        }


def _parameters(kind: str, record: dict[str, Any]) -> dict[str, Any]:
    """A column for each parameter; one that is called as a column of ours is, gets another name."""
    return {f"parameter_{name}" if name in COLUMNS[kind] else name: value for name, value in record["parameters"].items()}
