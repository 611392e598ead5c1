"""Compares cold builds by ``tkjit.cpp_extension.load`` and torch's: five LeetCUDA sources in LEETCUDA_ROOT, for sm_90a.

A machine without a GPU has a torch build without CUDA. So torch's side links with empty libraries, and skips
torch's check of nvcc's version. Both sides compile and link as usual, one after the other, but import nothing.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from benchmarks.harness import Row, in_fresh_process, interleaved
from benchmarks.real_kernels import FLAGS

FILES = (
    "kernels/elementwise/elementwise.cu",
    "kernels/relu/relu.cu",
    "kernels/rms-norm/rms_norm.cu",
    "kernels/softmax/softmax.cu",
    "kernels/histogram/histogram.cu",
)
LIMIT_STAND_INS, LIMIT_REAL_HEADERS = 0.2, 1.05

_OURS = """
import os, time
from dataclasses import replace
from pathlib import Path
from tkjit.extensions.load import build, build_with_stand_ins
from tkjit.extensions.sources import extension_of, files_of
start = time.perf_counter()
extension = extension_of({name!r}, files_of([{path!r}]), cuda_flags={flags!r})
if {real}:
    build(replace(extension, has_stand_ins=False))
else:
    build_with_stand_ins(extension)
print(time.perf_counter() - start)
"""
_TORCHS = """
import os, time
import torch
from torch.utils import cpp_extension
cpp_extension.CUDA_HOME = os.environ["CUDA_HOME"]
cpp_extension._check_cuda_version = lambda *_: None
cpp_extension._import_module_from_library = lambda *_: None
start = time.perf_counter()
options = dict(extra_cuda_cflags={flags!r}, extra_ldflags=["-L{stubs}"], build_directory={build!r}, with_cuda=True)
cpp_extension.load({name!r}, [{path!r}], **options)
print(time.perf_counter() - start)
"""


def run() -> list[Row]:
    """Time each build until the shared object exists; no rows without LEETCUDA_ROOT."""
    root = os.environ.get("LEETCUDA_ROOT")
    if not root:
        return []
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        stubs = _stubs(Path(directory))
        for file in FILES:
            given = {"name": Path(file).stem, "path": str(Path(root, file)), "flags": list(FLAGS)}
            ours, real, theirs = (
                lambda given=given: _fresh(_OURS.format(**given, real=False)),
                lambda given=given: _fresh(_OURS.format(**given, real=True)),
                lambda given=given: _fresh(_TORCHS, stubs=stubs, **given),
            )
            with_stand_ins, with_real_headers, of_torch = interleaved([ours, real, theirs], 1)
            peer = "torch.utils.cpp_extension.load"
            rows.append(Row(f"cold: {file}, stand-ins", peer, with_stand_ins, of_torch, "s", LIMIT_STAND_INS))
            rows.append(
                Row(f"cold: {file}, torch's headers", peer, with_real_headers, of_torch, "s", LIMIT_REAL_HEADERS)
            )
    return rows


def _fresh(code: str, **given: object) -> float:
    """Run a snippet in a fresh process, with an empty cache or build directory."""
    with tempfile.TemporaryDirectory() as directory:
        if given:
            code = code.format(**given, build=directory)
        home = os.environ.get("CUDA_HOME", "/usr/local/cuda")  # a torch build without CUDA does not look for a toolkit
        return in_fresh_process(code, TKJIT_CACHE=directory, TORCH_CUDA_ARCH_LIST="9.0a", MAX_JOBS="1", CUDA_HOME=home)


def _stubs(directory: Path) -> Path:
    for library in ("c10_cuda", "torch_cuda", "cudart"):
        subprocess.run(["cc", "-shared", "-x", "c", "/dev/null", "-o", directory / f"lib{library}.so"], check=True)
    return directory
