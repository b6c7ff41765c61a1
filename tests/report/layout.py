"""No text of any page is clipped, overlaps another, or is too small to read: by its boxes, on each screen and on paper,
folded and unfolded."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from harness.browser import Browser
from harness.case import Case
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from harness.requirement import absent

from . import boxes, made

# Width, height, colours, and whether it is laid out as on paper (A4 without its margins).
SCREENS = {"1400 px": (1400, 900, "light", False), "820 px": (820, 1180, "light", False), "390 px": (390, 844, "light", False),
           "dark": (1400, 900, "dark", False), "paper": (688, 1017, "light", True)}
PAGES: dict[str, Callable[[Place], Path]] = {
    "a whole evaluation": made.evaluation,
    "a run beside models": made.beside_models,
    "twelve runs with hostile names": made.hostile,
    "a comparison": made.comparison,
    "a replay": made.replay,
    "a reproduction": made.reproduction,
    "an explanation": made.explanation,
    "an imported table": made.imported,
}
# The largest height of the page of a whole evaluation, before anything is unfolded, in a window of 1400 px.
HIGHEST = 12_000


def cases() -> list[Case]:
    """A case a page."""
    return [Case("no text clipped or overlapping", name, partial(readable, name)) for name in PAGES]


def readable(name: str, place: Place) -> Outcome:
    """The boxes of all text, on all screens."""
    if name == "a replay" and (missing := absent(made.RECORDING)):
        return skipped(", ".join(f"{tool.name} ({tool.package})" for tool in missing))
    report = PAGES[name](place)
    wrong, heights = [], {}
    with Browser(place.directory) as browser:
        for screen, (width, height, scheme, is_paper) in SCREENS.items():
            browser.show(report, width, height, scheme)
            if is_paper:
                browser.print_on_screen()
            # A check that could not find anything would pass everything.
            if unseen := browser.evaluate(boxes.PLANTED):
                return failed(f"planted mistakes were not found: {unseen}")
            for state in ("folded", "unfolded"):
                if state == "unfolded":
                    browser.evaluate(boxes.UNFOLD)
                found = browser.evaluate(boxes.WRONG)
                heights[f"{screen} {state}"] = found["height"]
                if found["clipped"] or found["overlapping"] or found["small"] or found["scroll"] > found["width"]:
                    counts = ", ".join(f"{found[kind]} {kind}" for kind in ("clipped", "overlapping", "small"))
                    wrong += [f"{screen}, {state}: {counts}, {found['scroll']} px wide", *found["examples"]]
    if wrong:
        return failed(wrong[0], "\n".join(wrong))
    highest = heights["1400 px folded"]
    if name == "a whole evaluation" and highest > HIGHEST:
        return failed(f"{highest} px high, {HIGHEST} are allowed")
    return passed(f"{found['texts']} texts; {highest} px high at 1400 px, {heights['1400 px unfolded']} unfolded")
