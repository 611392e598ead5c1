"""Compares the bundled kernels with torch's; needs a GPU."""

from __future__ import annotations

import tkjit
from benchmarks.harness import Row

CALLS = [
    ("gemm", {"M": 1024, "N": 1024, "K": 1024, "T": "bfloat16"}),
    ("gemm", {"M": 4096, "N": 4096, "K": 4096, "T": "bfloat16"}),
    ("gemm", {"M": 2048, "N": 2048, "K": 2048, "T": "float32"}),
    ("softmax", {"...": (16384,), "N": 4096, "T": "bfloat16"}),
]


def run() -> list[Row]:
    """Compare each kernel with its peers, with random inputs that rotate."""
    return [
        Row(str(one), peer, one.seconds * 1e3, seconds * 1e3, "ms")
        for name, sizes in CALLS
        for one in tkjit.bench(name, sizes, device="cuda")
        for peer, seconds in one.peers.items()
    ]
