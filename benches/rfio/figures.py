"""The results: every repetition of every figure, by name."""

from __future__ import annotations

import statistics

FIGURES: dict[str, list[float]] = {}


def note(name: str, value: float) -> None:
    """Records a figure."""
    FIGURES.setdefault(name, []).append(value)


def median(name: str) -> float:
    """Returns the median of a figure's repetitions; NaN without any."""
    return statistics.median(FIGURES[name]) if name in FIGURES else float("nan")


def best(names: list[str], choose=max) -> float:
    """Returns the best of several figures."""
    return choose((median(name) for name in names if name in FIGURES), default=float("nan"))
