"""Charts of results with matplotlib, which is imported only for drawing."""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING, Any, Iterable, Optional, Sequence

from .results import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {"worse": "#c0392b", "better": "#27803b", "unchanged": "#7f8c8d", "undecided": "#b9770e"}
# The factor that converts a unit for matplotlib's engineering notation.
SCALES = {"ns": (1e-9, "s"), "bytes/s": (1.0, "B/s"), "1/s": (1.0, "1/s"), "bytes": (1.0, "B")}


def new_axes(panels: int) -> list[Axes]:
    """Returns axes in a grid. In a notebook the figure belongs only to the cell that shows it, so that it is shown once."""
    try:
        import matplotlib
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("plot() needs matplotlib, which is not installed; run 'pip install matplotlib'") from error
    columns = min(panels, 3)
    lines = math.ceil(panels / columns)
    figure = pyplot.figure(figsize=(max(6.4, 4.6 * columns), 3.9 * lines), layout="constrained")
    if "inline" in matplotlib.get_backend():
        pyplot.close(figure)
    return [figure.add_subplot(lines, columns, at + 1) for at in range(panels)]


def figure_of(ax: Axes) -> Figure:
    """Returns the figure of axes."""
    figure = ax.get_figure()
    assert figure is not None
    return figure  # type: ignore[return-value]


def draw_points(points: Sequence[dict[str, Any]], metric: Optional[str], ax: Optional[Axes]) -> Figure:
    """Draws a panel for each benchmark: the median over launches, and their range."""
    found: dict[tuple[str, str, str], list[tuple[dict[str, Any], float]]] = {}
    for point in points:
        for one in [each for each in point["metrics"] if each["name"] == metric] if metric else point["metrics"][:1]:
            if one["value"] is not None:
                found.setdefault((point["benchmark"], one["name"], one["unit"]), []).append((point, one["value"]))
    if not found:
        names = sorted({one["name"] for point in points for one in point["metrics"]})
        raise ValueError(f"no figure {metric!r} to draw; available: {', '.join(names)}" if names else "no points to draw")
    if ax is not None and len(found) > 1:
        names = sorted(benchmark for benchmark, _, _ in found)
        raise ValueError(f"one pair of axes shows one benchmark, and the results have {', '.join(names)}; select one")
    panels = new_axes(len(found)) if ax is None else [ax]
    for panel, ((benchmark, name, unit), figures) in zip(panels, found.items()):
        _panel(panel, figures)
        panel.set_title(f"{benchmark}: {name}", fontsize="medium")
        _engineering(panel, unit)
    return figure_of(panels[0])


def _panel(ax: Axes, figures: Sequence[tuple[dict[str, Any], float]]) -> None:
    """Draws one line for each target and each set of the other parameters."""
    axis = _axis([point["parameters"] for point, _ in figures])
    told = _varying([point["parameters"] for point, _ in figures]) - {axis}
    lines: dict[str, dict[Any, list[float]]] = {}
    for point, value in figures:
        others = (f"{name}={number(each)}" for name, each in sorted(point["parameters"].items()) if name in told)
        line = lines.setdefault(" ".join([point["label"], *others]), {})
        line.setdefault(point["parameters"].get(axis, 0) if axis else "", []).append(value)
    for name, values in lines.items():
        at = sorted(values)
        middle = [median(values[each]) for each in at]
        below = [median(values[each]) - min(values[each]) for each in at]
        above = [max(values[each]) - median(values[each]) for each in at]
        ax.errorbar(at, middle, yerr=[below, above], marker="o", markersize=4, capsize=2, label=name)
    if axis:
        ax.set_xlabel(axis)
        _whole_numbers(ax, sorted({each for values in lines.values() for each in values}), axis)
    ax.set_ylim(0, max(value for _, value in figures) * 1.1 or 1)
    ax.grid(alpha=0.3)
    ax.legend(fontsize="x-small")


def _varying(parameters: Sequence[dict[str, Any]]) -> set[Optional[str]]:
    """Returns the parameters whose values differ."""
    names = {name for each in parameters for name in each}
    return {name for name in names if len({each.get(name) for each in parameters}) > 1}


def _axis(parameters: Sequence[dict[str, Any]]) -> Optional[str]:
    """Returns the parameter for the x axis: the size if it varies, else the numeric parameter with the most values."""
    values: dict[str, set[float]] = {}
    for each in parameters:
        for name, value in each.items():
            if isinstance(value, (int, float)):
                values.setdefault(name, set()).add(value)
    varying = [name for name, several in values.items() if len(several) > 1]
    return "size" if "size" in varying else max(varying, key=lambda name: len(values[name]), default=None)


def _whole_numbers(ax: Axes, at: Sequence[float], axis: str) -> None:
    """Spaces powers of two evenly, and labels sizes with units."""
    if min(at) > 0 and max(at) >= 8 * min(at):
        ax.set_xscale("log", base=2)
        ax.xaxis.set_minor_locator(_locators().NullLocator())
    if len(at) <= 8:
        ax.set_xticks(at)
    if axis == "size":
        ax.xaxis.set_major_formatter(lambda value, _: size_of(value))
    else:
        ax.xaxis.set_major_formatter(lambda value, _: f"{number(float(value))}")


def size_of(value: float) -> str:
    """Formats a size as on the command line."""
    for unit, letter in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if value >= unit and value % unit == 0:
            return f"{value / unit:g}{letter}"
    return f"{value:g}"


def _locators() -> Any:
    from matplotlib import ticker

    return ticker


def _engineering(ax: Axes, unit: str) -> None:
    """Labels the values with their units."""
    scale, base = SCALES.get(unit, (1.0, unit))
    notation = _locators().EngFormatter(unit=base)
    ax.yaxis.set_major_formatter(lambda value, _: notation(value * scale))


def draw_changes(rows: Sequence[dict[str, Any]], ax: Optional[Axes]) -> Figure:
    """Draws a line for each figure: its ratio, with the interval if there is one."""
    figures = [row for row in rows if row["points"] == 1 and row["ratio"] is not None]
    if not figures:
        raise ValueError("no figure to draw")
    if ax is None:
        (ax,) = new_axes(1)
        figure_of(ax).set_size_inches(8, 1.2 + 0.3 * len(figures))
    names = []
    for at, row in enumerate(figures):
        words = [row["benchmark"], size_of(row["size"]) if row.get("size") else "", row.get("parameters") or "", row.get("metric") or ""]
        names.append(" ".join(word for word in words if word))
        reach = [[row["ratio"] - row["low"]], [row["high"] - row["ratio"]]] if row["low"] is not None else None
        ax.errorbar([row["ratio"]], [at], xerr=reach, marker="o", markersize=5, capsize=3, color=COLOURS[row["verdict"]])
    for verdict in dict.fromkeys(row["verdict"] for row in figures):
        ax.plot([], [], marker="o", linestyle="", color=COLOURS[verdict], label=verdict)
    ax.axvline(1, color="black", linewidth=0.8)
    ax.set_yticks(range(len(names)), names, fontsize="small")
    ax.invert_yaxis()
    ax.set_xlabel("second run over first")
    ax.grid(axis="x", alpha=0.3)
    ax.legend(fontsize="small")
    return figure_of(ax)


def draw_replays(records: Sequence[dict[str, Any]], ax: Optional[Axes]) -> Figure:
    """Draws a bar for each replay, of the parts of the mean rank's time; for a schedule, of its total."""
    if ax is None:
        (ax,) = new_axes(1)
        figure_of(ax).set_size_inches(7, 1.4 + 0.5 * len(records))
    traces = {record["trace"] for record in records}
    names = [record["system"] if len(traces) == 1 else f"{record['trace']}\n{record['system']}" for record in records]
    left = [0.0] * len(records)
    parts = ("computing", "overhead", "waiting") if all("by_rank" in record for record in records) else ("time", )
    for part in parts:
        values = [_mean(rank[part] for rank in record["by_rank"]) if part != "time" else record["nanoseconds"] for record in records]
        ax.barh(range(len(records)), values, left=left, label=part)
        left = list(map(sum, zip(left, values)))
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    notation = _locators().EngFormatter(unit="s")
    ax.xaxis.set_major_formatter(lambda value, _: notation(value * 1e-9))
    ax.legend(fontsize="small", ncols=3, loc="lower left", bbox_to_anchor=(0, 1))
    return figure_of(ax)


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found) if found else 0.0
