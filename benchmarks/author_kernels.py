"""Loads kernels of other authors with tkjit, as the modules that peers of bundled kernels import.

The checkouts are in one directory, named as for ``benchmarks.real_extensions``:

    git clone https://github.com/Dao-AILab/causal-conv1d DIRECTORY/Dao-AILab+causal-conv1d
    git clone https://github.com/state-spaces/mamba DIRECTORY/state-spaces+mamba
"""

from __future__ import annotations

import sys
from pathlib import Path

from tkjit import cpp_extension

_SOURCES = {
    "causal_conv1d_cuda": "Dao-AILab+causal-conv1d/csrc",
    "selective_scan_cuda": "state-spaces+mamba/csrc/selective_scan",
}
MODULES = {  # by the kernels whose peers they are
    "causal_conv1d": "causal_conv1d_cuda",
    "causal_conv1d_gradient": "causal_conv1d_cuda",
    "selective_scan": "selective_scan_cuda",
    "selective_scan_gradient": "selective_scan_cuda",
}


def load_author_module(name: str, directory: Path) -> None:
    """Build a module from a checkout, and make it importable."""
    sources = directory / _SOURCES[name]
    sys.modules[name] = cpp_extension.load(
        name,
        sorted(str(path) for path in sources.iterdir() if path.suffix in (".cpp", ".cu")),
        extra_include_paths=[str(sources)],
        extra_cuda_cflags=["-O3", "--use_fast_math"],  # as in their setup.py
    )
