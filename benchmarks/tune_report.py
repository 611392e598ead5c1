"""Writes the figures of ``make tune`` into ``docs/explanation/performance.md``.

``python -m benchmarks.tune_report FILE`` replaces the tables of an earlier run. Each kernel gets a table, and a plot in
``docs/explanation/plots`` if several of its calls were measured.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT
from tkjit.benchmark.measurement import Measurement
from tkjit.benchmark.plot import plot
from tkjit.benchmark.roofline import Roofline

START, END = "<!-- figures of make tune -->\n", "<!-- end of the figures -->\n"


def main() -> int:
    results = json.loads(Path(sys.argv[1]).read_text())
    page = ROOT / "docs/explanation/performance.md"
    page.write_text(with_figures(page.read_text(), results, page.with_name("plots")))
    return 0


def with_figures(page: str, results: Mapping[str, Any], plots: Path) -> str:
    """Return a page with the figures between its two markers, and write the plots."""
    before, rest = page.split(START)
    after = rest.split(END)[1]
    return "".join([before, START, *(f"{line}\n" for line in _lines(results, plots)), END, after])


def _lines(results: Mapping[str, Any], plots: Path) -> Iterator[str]:
    yield (
        f"Measured by `make tune` on {results['device']}, {results['date']}, commit {results['commit']}, "
        f"torch {results['torch']}. A peer's column has its time and how many times as fast the kernel is."
    )
    for name, result in results["kernels"].items():
        found = [_measurement(call) for call in result.get("calls", ())]
        yield from ("", f"### {name}", "")
        if found:
            yield from _table(found, result["predicted"])
        for problem in (*result.get("wrong", ()), result.get("error")):
            if problem:
                yield from ("", f"Not measured or wrong: {problem}")
        if len(found) > 1:
            plots.mkdir(exist_ok=True)
            plot(found, plots / f"{name}.svg")
            yield from ("", f"![{name}]({plots.name}/{name}.svg)")


def _measurement(call: Mapping[str, Any]) -> Measurement:
    fields = {name: value for name, value in call.items() if name not in ("share_of_roofline", "ratios")}
    roofline = call["roofline"] and Roofline(**call["roofline"])
    return Measurement(**{**fields, "roofline": roofline})


def _table(found: Sequence[Measurement], predicted: float | None) -> Iterator[str]:
    peers = list(dict.fromkeys(peer for one in found for peer in one.peers))
    expected = "of roofline" if predicted is None else f"of roofline ({predicted} predicted)"
    yield _row(["call", "time (us)", "speed", expected, *peers])
    yield _row(["---"] * (4 + len(peers)))
    for one in found:
        share = "" if one.share_of_roofline is None else f"{one.share_of_roofline:.2f}"
        theirs = [f"{1e6 * one.peers[peer]:.1f} ({one.ratio(peer):.2f})" if peer in one.peers else "" for peer in peers]
        yield _row([f"`{one}`", f"{1e6 * one.seconds:.1f}", one.speed, share, *theirs])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    raise SystemExit(main())
