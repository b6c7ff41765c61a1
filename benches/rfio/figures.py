"""What was measured: every repetition of every figure, by name."""

from __future__ import annotations

import statistics

FIGURES: dict[str, list[float]] = {}


def note(name: str, value: float) -> None:
    """Keeps a figure."""
    FIGURES.setdefault(name, []).append(value)


def median(name: str) -> float:
    """Of a figure's repetitions; not a number without any."""
    return statistics.median(FIGURES[name]) if name in FIGURES else float("nan")


def best(names: list[str], choose=max) -> float:
    """The best of what was measured."""
    return choose((median(name) for name in names if name in FIGURES), default=float("nan"))
