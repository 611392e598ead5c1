"""Draws findings: the source lines, and beside them which thread does what there."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tkjit.check.findings import Finding, Place
from tkjit.errors import SpecError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".svg", ".png", ".pdf")
_COLOURS = {"read": "tab:blue", "write": "tab:red"}
_WIDTH = 88  # characters of a source line
_LANES = (_WIDTH + 20, _WIDTH + 52)  # where the threads' lines are, in characters
_MOST_LINES = 24
_LINE_INCHES = 0.2


def check_can_plot(file: Path) -> None:
    """Raise an error before anything runs if the plot could not be written.

    Raises
    ------
    SpecError
        If matplotlib is not installed, the format is unknown, or there is no such directory.
    """
    if find_spec("matplotlib") is None:
        raise SpecError("--plot needs matplotlib, which is not installed; pip install matplotlib")
    if file.suffix not in FORMATS:
        raise SpecError(f"--plot {file}: expected a file name that ends in {', '.join(FORMATS)}")
    if not file.absolute().parent.is_dir():
        raise SpecError(f"--plot {file}: there is no directory {file.absolute().parent}")


def plot(found: Sequence[Finding], sources: Mapping[str, str], file: Path) -> bool:
    """Write the figure of ``draw`` to a file. Return False, and write none, if there is nothing to draw."""
    from matplotlib import rc_context

    if (figure := draw(found, sources)) is None:
        return False
    with rc_context({"svg.fonttype": "none"}):  # keep the text of an SVG as text
        figure.savefig(file)
    return True


def svg_of(found: Sequence[Finding], sources: Mapping[str, str]) -> str | None:
    """Return the figure of ``draw`` as an SVG element, or None if there is nothing to draw or no matplotlib."""
    if find_spec("matplotlib") is None or (figure := draw(found, sources)) is None:
        return None
    return svg_text(figure)


def svg_text(figure: Figure) -> str:
    """Return a figure as an SVG element that is as wide as its place, with its text as text."""
    from matplotlib import rc_context

    text = StringIO()
    with rc_context({"svg.fonttype": "none"}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    element = text.getvalue().partition("<svg")[2]
    return "<svg" + re.sub(r'\s(width|height)="[\d.]+pt"', "", element, count=2)


def draw(found: Sequence[Finding], sources: Mapping[str, str]) -> Figure | None:
    """Return a figure with a panel for each finding that has a place in a readable source, or None if none has.

    Parameters
    ----------
    sources : mapping
        The texts of sources that are not files, by their names in findings.
    """
    from matplotlib.figure import Figure  # without pyplot, which would choose a window system

    panels = [(one, lines) for one in found if (lines := _lines_around(one, sources))]
    if not panels:
        return None
    heights = [len(lines) + 6 for _, lines in panels]
    figure = Figure(figsize=(11, _LINE_INCHES * sum(heights)), layout="constrained")
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axis, (one, lines) in zip(axes, panels, strict=True):
        _draw(axis, one, lines)
    return figure


def _places(one: Finding) -> list[Place]:
    return [place for place in (one.here, one.there) if place is not None and place.line > 0]


def _lines_around(one: Finding, sources: Mapping[str, str]) -> dict[int, str]:
    """Return the source lines around a finding's places by their numbers, or none if they cannot be read."""
    if not (places := _places(one)):
        return {}
    places = [place for place in places if place.file == places[0].file]
    try:
        text = (sources.get(places[0].file) or Path(places[0].file).read_text()).splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    numbers = sorted(place.line for place in places)
    shown = range(numbers[0] - 2, numbers[-1] + 3)
    if len(shown) > _MOST_LINES:  # those around each place
        shown = [number for place in numbers for number in range(place - 2, place + 3)]  # type: ignore[assignment]
    return {number: text[number - 1] for number in shown if 0 < number <= len(text)}


def _draw(axis: Any, one: Finding, lines: dict[int, str]) -> None:
    rows = {number: row for row, number in enumerate(lines)}
    indent = min((len(line) - len(line.lstrip()) for line in lines.values() if line.strip()), default=0)
    for number, row in rows.items():
        text = lines[number].expandtabs(4)[indent:]
        short = text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."
        shown = f"{number:4}  {short}".replace(" ", "\N{NO-BREAK SPACE}")  # SVG joins spaces
        axis.text(0, row, shown, family="monospace", fontsize=8, va="center", parse_math=False)
    places = [place for place in _places(one) if place.line in rows]
    for place, lane in zip(places, _LANES, strict=False):
        row, colour = rows[place.line], _COLOURS.get(place.access, "tab:orange")
        axis.axhspan(row - 0.5, row + 0.5, color=colour, alpha=0.12)
        thread = f"thread {place.thread}\n" if place.thread else "threads that wait\n"
        axis.text(lane, -1.2, f"{thread}block {place.block}", ha="center", va="bottom", fontsize=7)
        axis.annotate(
            "", (lane, len(rows) - 0.3), (lane, -0.9), arrowprops={"arrowstyle": "->", "color": "grey", "shrinkB": 0}
        )
        axis.text(
            lane,
            row,
            place.access,
            ha="center",
            va="center",
            fontsize=8,
            color="white",
            bbox={"boxstyle": "round", "fc": colour, "ec": "none"},
        )
    if one.kind == "race" and len(places) == 2:
        (left, right), (first, second) = _LANES, (rows[place.line] for place in places)
        axis.annotate(
            "", (right - 4, second), (left + 4, first), arrowprops={"arrowstyle": "<->", "ls": "--", "color": "tab:red"}
        )
        axis.text((left + right) / 2, (first + second) / 2 - 0.6, "no order", ha="center", fontsize=8, color="tab:red")
    title = "\n".join(textwrap.wrap(f"{one.kind}: {one.text}", 110))
    axis.set_title(title, loc="left", fontsize=9, parse_math=False)
    axis.set(xlim=(0, _LANES[1] + 16), ylim=(len(rows), -3.2))
    axis.set_axis_off()
