"""Draws gemm_h100.svg: ThunderKittens' product beside cuBLAS on an H100 80GB HBM3, measured on 2026-11-27.

The figures are medians of interleaved runs with random bfloat16 matrices, torch 2.11 with CUDA 13.0.
"""

from pathlib import Path

from tkjit.benchmark.measurement import Measurement
from tkjit.benchmark.plot import plot
from tkjit.benchmark.roofline import Roofline

LIMITS = Roofline(bytes_per_s=2.98e12, flops_per_s=765e12)
# TFLOP/s by size: ThunderKittens, cuBLAS
SPEEDS = {
    512: (27.9, 13.6),
    1024: (148.0, 103.2),
    2048: (660.7, 650.7),
    4096: (751.3, 745.9),
    8192: (719.8, 685.6),
    16384: (764.6, 749.5),
}


def measurement(size: int, speed: float, of_peer: float) -> Measurement:
    flops, sizes = 2 * size**3, f"M=K=N={size}"
    peers = {"cuBLAS": flops / of_peer / 1e12}
    return Measurement(
        "gemm_h100", "", sizes, "H100 80GB HBM3", flops / speed / 1e12, 0.0, 6 * size**2, flops, peers, {}, LIMITS
    )


if __name__ == "__main__":
    plot([measurement(size, *speeds) for size, speeds in SPEEDS.items()], Path(__file__).with_suffix(".svg"))
