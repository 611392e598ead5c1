"""Draws the first table of "Calls" in ``docs/explanation/benchmarks.md`` as a chart, ``images/calls.svg`` next to it.

Run ``python -m benchmarks.plot_peers`` after a change of that table.
"""

from __future__ import annotations

import re
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from benchmarks.harness import ROOT

PAGE = ROOT / "docs/explanation/benchmarks.md"
CHART = PAGE.parent / "images/calls.svg"
_TIME = re.compile(r"(?:(.+), )?([\d.]+) us")


def main() -> None:
    draw(times(PAGE.read_text()), CHART)


def times(page: str) -> dict[str, float]:
    """Return the microseconds of the first call in the table, by tkjit and by each peer."""
    table = page.partition("\n## Calls\n")[2].partition("\n|---")[2].partition("\n\n")[0]
    found: dict[str, float] = {}
    for line in table.splitlines()[1:]:
        what, ours, peer, *_ = (cell.strip() for cell in line.strip("|").split("|"))
        if what and found:  # the rows of another call
            break
        for name, text in (("tkjit, all checks", ours), ("", peer)):
            if time := _TIME.fullmatch(text):
                found[time[1] or name] = float(time[2])
    return found


def draw(found: dict[str, float], chart: Path) -> None:
    """Draw a bar for each time, the shortest first."""
    names = sorted(found, key=found.__getitem__)
    figure = Figure(figsize=(8, 0.4 * len(names) + 0.9), layout="constrained")
    axis = figure.subplots()
    colours = ["tab:orange" if name.startswith("tkjit") else "tab:blue" for name in names]
    bars = axis.barh([name.replace("`", "") for name in names], [found[name] for name in names], color=colours)
    axis.bar_label(bars, [f"{found[name]:.2f}" for name in names], padding=3)
    axis.invert_yaxis()
    axis.set_xlabel("us per call")
    axis.spines[["top", "right"]].set_visible(False)
    chart.parent.mkdir(exist_ok=True)
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "calls"}):  # text as text, and the same file each time
        figure.savefig(chart, metadata={"Date": None})


if __name__ == "__main__":
    main()
