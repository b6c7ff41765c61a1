"""Recorded programs and schedules on timing models, as computed by `verbena replay`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Optional

from .command import PathLike, Words, options, text, verbena
from .frames import frame

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The parts of a rank's time; they add up to its total. `wire` is a part of the waiting.
PARTS = ("computing", "overhead", "waiting")
UNIT = "ns"


@dataclass(frozen=True)
class Replays:
    """Programs on models, with a record for each."""

    #: The objects of `verbena replay --json`.
    records: list[dict[str, Any]] = field(repr=False)
    #: The program's standard error.
    messages: str = field(repr=False)

    @property
    def runs(self) -> pandas.DataFrame:
        """A frame with one row for each trace on each model: `value` is the end of its last rank."""
        kept = ("trace", "system", "ranks", "nodes", "calls", "operations", "messages", "bytes")
        rows = [{**{name: record.get(name) for name in kept}, "value": record["nanoseconds"], "unit": UNIT} for record in self.records]
        return frame(rows, (*kept, "value", "unit"))

    @property
    def ranks(self) -> pandas.DataFrame:
        """A frame with one row for each part of each rank's time: computing, overhead, waiting and, as a part of waiting, wire;
        and `end`, the time at which it ends. A schedule only has `end`."""
        return frame(rows(self.records), ("trace", "system", "rank", "part", "value", "unit"))

    @property
    def waits(self) -> pandas.DataFrame:
        """A frame with one row for each pair of ranks of which one waited for an activity of the other."""
        found = [{**_key(record), "rank": rank, "for_rank": int(other), "value": value, "unit": UNIT} for record in self.records
                 for rank, each in enumerate(record.get("by_rank", ())) for other, value in each["waiting_for"].items()]
        return frame(found, ("trace", "system", "rank", "for_rank", "value", "unit"))

    @property
    def chain(self) -> pandas.DataFrame:
        """A frame with one row for each part of the critical path; the parts add up to the total time. Of a schedule the parts are
        computing and messages."""
        found = [{**_key(record), "part": part, "value": record["chain"][part], "unit": UNIT} for record in self.records
                 for part in ("computing", "overhead", "wire", "messages") if part in record["chain"]]
        return frame(found, ("trace", "system", "part", "value", "unit"))

    def plot(self, ax: Optional[Axes] = None) -> Figure:
        """Draws the parts of the ranks' time for each replay, on average. Needs matplotlib."""
        from .plotting import draw_replays

        return draw_replays(self.records, ax)


def replay(*sources: PathLike, on: Words, nodes: Optional[int] = None, ranks_per_node: Optional[int] = None,
           compute_scale: Optional[float] = None, memory_traffic: Optional[str] = None,
           settings: Optional[Mapping[str, object]] = None, profiles: Optional[Words] = None, page: Optional[PathLike] = None,
           timeline: Optional[PathLike] = None, goal: Optional[PathLike] = None) -> Replays:
    """Computes the run times of traces of `verbena record`, or of a schedule in GOAL's format, on models.

        verbena.replay("trace", on=["model:connectx6-hdr", "model:connectx-qdr"]).runs

    The parameters are the options of `verbena replay`: `settings` are those of `--set`; `page` (`--out`), `timeline` and `goal`
    are output files.

    Raises a CommandError if a trace or a model cannot be used.
    """
    given = options(on=on, nodes=nodes, ranks_per_node=ranks_per_node, compute_scale=compute_scale, memory_traffic=memory_traffic,
                    set=settings, profiles=profiles, out=page, write_timeline=timeline, write_goal=goal)
    ended = verbena("replay", "--json", *given, "--", *sources)
    if ended.returncode:
        ended.refuse()
    found = json.loads(ended.stdout)
    records: list[dict[str, Any]] = found if isinstance(found, list) else [found]
    # The record of a schedule has no name, as there is only one.
    return Replays([{"trace": text(sources[0]), **record} for record in records], ended.stderr)


def rows(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns a row for each part of each rank's time."""
    return [{**_key(record), "rank": rank, "part": part, "value": value, "unit": UNIT} for record in records
            for rank, part, value in _parts(record)]


def _parts(record: dict[str, Any]) -> Iterator[tuple[int, str, float]]:
    for rank, each in enumerate(record.get("by_rank", ())):
        yield from ((rank, part, each[part]) for part in (*PARTS, "wire", "end"))
    yield from ((rank, "end", value) for rank, value in enumerate(record.get("ends", ())))


def _key(record: dict[str, Any]) -> dict[str, Any]:
    return {"trace": record["trace"], "system": record["system"]}
