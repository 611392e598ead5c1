"""Draws measurements: the speeds of a kernel and its peers over the calls, and the device's roofline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tkjit.benchmark.measurement import Measurement

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot(found: Sequence[Measurement], file: Path) -> None:
    """Write the figure of ``draw`` to a file."""
    draw(found).savefig(file)


def draw(found: Sequence[Measurement]) -> Figure:
    """Return a figure with one panel for the speeds, and one for the roofline if it was measured."""
    from matplotlib.figure import Figure  # without pyplot, which would choose a window system

    has_roofline = any(one.roofline is not None and one.flops for one in found)
    figure = Figure(figsize=(12 if has_roofline else 7, 4.5), layout="constrained")
    panels = figure.subplots(1, 1 + has_roofline, squeeze=False)[0]
    _draw_speeds(panels[0], found)
    if has_roofline:
        _draw_roofline(panels[1], [one for one in found if one.roofline is not None and one.flops])
    figure.suptitle(", ".join(dict.fromkeys(one.device for one in found)))
    return figure


def _draw_speeds(panel: Any, found: Sequence[Measurement]) -> None:
    in_flops = all(one.flops for one in found)
    kernels = list(dict.fromkeys(one.kernel for one in found))
    labels = [str(one) for one in found]
    if len(kernels) == 1:
        labels = [label.partition("(")[2].removesuffix(")").replace(", ", "\n") for label in labels]
    places = range(len(found))
    work = [one.flops if in_flops else one.moved_bytes for one in found]
    panel.plot(places, [w / one.seconds / 1e12 for w, one in zip(work, found, strict=True)], "o-", label="tkjit")
    for peer in dict.fromkeys(peer for one in found for peer in one.peers):
        points = [
            (i, w / one.peers[peer] / 1e12) for i, w, one in zip(places, work, found, strict=True) if peer in one.peers
        ]
        panel.plot(*zip(*points, strict=True), "o--", label=peer)
    panel.set_xticks(places, labels, fontsize="x-small")
    panel.set_ylabel("TFLOP/s" if in_flops else "TB/s")
    panel.set_ylim(bottom=0)
    panel.set_title(", ".join(kernels))
    panel.legend()


def _draw_roofline(panel: Any, found: Sequence[Measurement]) -> None:
    """Draw each call's rate over its operations per byte, below the device's limits."""
    for one in found:
        panel.plot(one.flops / one.moved_bytes, one.flops / one.seconds / 1e12, "o", label=str(one))
    intensities = [one.flops / one.moved_bytes for one in found]
    ends = (min(intensities) / 4, max(intensities) * 4)
    for limit in dict.fromkeys(one.roofline for one in found if one.roofline is not None):
        ridge = limit.flops_per_s / limit.bytes_per_s
        at = sorted({ends[0], ends[1], *([ridge] if ends[0] < ridge < ends[1] else [])})
        rates = [min(x * limit.bytes_per_s, limit.flops_per_s or float("inf")) / 1e12 for x in at]
        label = f"{limit.bytes_per_s / 1e12:.2f} TB/s, {limit.flops_per_s / 1e12:.0f} TFLOP/s"
        panel.plot(at, rates, "k-", label=label)
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlabel("FLOP per byte")
    panel.set_ylabel("TFLOP/s")
    panel.set_title("roofline")
    panel.legend(fontsize="x-small")
