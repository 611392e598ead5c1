"""``Measurement``: how long a call takes, beside its peers and the limits of the device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tkjit.benchmark.roofline import Roofline


@dataclass(frozen=True)
class Measurement:
    """The speed of one call.

    Parameters
    ----------
    kernel, variant, case : str
        ``"gemm"``, ``"T=bfloat16"``, ``"M=4096, K=4096, N=4096"``.
    device : str
        The name of the GPU, or ``"cpu"``.
    seconds : float
        The median time of a call.
    spread : float
        The interquartile range of the times, relative to the median.
    moved_bytes : int
        The bytes that the call has to move: it reads each input once and writes each output once.
    flops : int
        The floating-point operations of the call, by the spec's ``flops=``; 0 if the spec does not have it.
    peers : mapping
        The median times of the peers, in seconds.
    missing : mapping
        Peers that could not be measured, each with the reason.
    roofline : Roofline or None
        The limits of the device; None on the CPU.
    """

    kernel: str
    variant: str
    case: str
    device: str
    seconds: float
    spread: float
    moved_bytes: int
    flops: int = 0
    peers: Mapping[str, float] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    roofline: Roofline | None = None

    @property
    def share_of_roofline(self) -> float | None:
        """The shortest possible time on this device, as a fraction of the measured one."""
        if self.roofline is None:
            return None
        return self.roofline.seconds(self.moved_bytes, self.flops) / self.seconds

    @property
    def speed(self) -> str:
        """The speed as text: in TFLOP/s if the spec counts operations, else in TB/s (GFLOP/s and GB/s if slow)."""
        work, unit = (self.flops, "FLOP/s") if self.flops else (self.moved_bytes, "B/s")
        return rate_text(work / self.seconds, unit)

    def ratio(self, peer: str) -> float:
        """Return how many times as fast as a peer the kernel is."""
        return self.peers[peer] / self.seconds

    def as_json(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "share_of_roofline": self.share_of_roofline,
            "ratios": {peer: self.ratio(peer) for peer in self.peers},
        }

    def __str__(self) -> str:
        parts = [part for text in (self.variant, self.case) for part in text.split(", ") if part]
        return f"{self.kernel}({', '.join(dict.fromkeys(parts))})"  # a variant may be a dim, which the case also names


def rate_text(per_second: float, unit: str) -> str:
    """Format a rate.

    Examples
    --------
    >>> rate_text(2.98e12, "B/s")
    '2.98 TB/s'
    """
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if per_second >= 0.1 * size or prefix == "M":
            return f"{per_second / size:.3g} {prefix}{unit}"
    raise AssertionError
