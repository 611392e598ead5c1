"""Compares real kernels in the simulator with references: ``python -m benchmarks.real_references DIRECTORY...``.

The directories are those of LeetCUDA (github.com/xlite-dev/LeetCUDA) and vLLM's ``csrc``. Each source with a reference
here is loaded unchanged, in its own process with a time limit, and each of its functions is called with random tensors
on the CPU. The references are written in PyTorch, from the comments and tests of the sources.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

ROWS, COLUMNS = 32, 256
_DTYPES = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "fp8_e4m3": torch.float8_e4m3fn,
    "fp8_e5m2": torch.float8_e5m2,
    "i8": torch.int8,
    "i32": torch.int32,
}


class Case(NamedTuple):
    """One call: its result, or the argument that it writes, is compared with the expected tensor."""

    arguments: tuple[Any, ...]
    expected: Tensor
    written: int | None = 1
    tolerance: float = 1e-5


Cases: TypeAlias = Callable[[str], Case | None]  # by a function's name; None if it has no reference


def dtype_in(name: str) -> torch.dtype:
    """The first dtype in a function's name, such as ``relu_f16x8_pack``."""
    found = re.search(r"_(bf16|fp8_e4m3|fp8_e5m2|f16|f32|i8|i32)", name)
    return _DTYPES[found[1]] if found else torch.float32


def _tolerance(dtype: torch.dtype) -> float:
    return 2e-5 if dtype == torch.float32 else 2e-2


def _unary(reference: Callable[[Tensor], Tensor], name: str) -> Case:
    dtype = dtype_in(name)
    x = torch.randn(ROWS, COLUMNS).clamp(-4, 4).to(dtype)  # LeetCUDA's gelu_f16 overflows outside of [-4, 4]
    return Case((x, torch.zeros_like(x)), reference(x.float()), tolerance=_tolerance(dtype))


def _add(name: str) -> Case:
    a, b = torch.randn(2, ROWS, COLUMNS).to(dtype_in(name))
    return Case((a, b, torch.zeros_like(a)), a + b, written=2)


def _layer_norm(name: str) -> Case:
    dtype = dtype_in(name)
    x = torch.randn(ROWS, COLUMNS).to(dtype)
    expected = F.layer_norm(x.float(), [COLUMNS]) * 1.5 + 0.25
    return Case((x, torch.zeros_like(x), 1.5, 0.25), expected, 1, 2 * _tolerance(dtype))


def _rms_norm(name: str) -> Case:
    dtype = dtype_in(name)
    x = torch.randn(ROWS, COLUMNS).to(dtype)
    expected = F.rms_norm(x.float(), [COLUMNS], eps=1e-5) * 1.5
    return Case((x, torch.zeros_like(x), 1.5), expected, 1, 2 * _tolerance(dtype))


def _softmax(name: str) -> Case | None:
    return _unary(partial(torch.softmax, dim=-1), name) if name.endswith("_per_token") else None


def _dot(name: str) -> Case:
    a, b = torch.randn(2, ROWS, COLUMNS).to(dtype_in(name))
    return Case((a, b), (a.float() * b.float()).sum(), None, 2e-2 if a.dtype == torch.float16 else 1e-4)


def _sum(name: str) -> Case:
    dtype = dtype_in(name)
    x = torch.randint(-8, 8, (ROWS, 512)).float()
    in_half = re.search(r"_(f16|bf16)$", name)
    x = x / 64 if in_half else x
    return Case((x.to(dtype),), x.to(dtype).float().sum(), None, 5e-2 if in_half else 1e-5)


def _histogram(name: str) -> Case:
    x = torch.randint(0, 100, (1024,), dtype=torch.int32)
    x[0] = 99
    return Case((x,), torch.bincount(x), None, 0)


def _embedding(name: str) -> Case:
    indices = torch.randint(0, 50, (16,), dtype=torch.int32)
    weight = torch.randn(50, COLUMNS).to(dtype_in(name))
    return Case((indices, weight, torch.zeros(16, COLUMNS, dtype=weight.dtype)), weight[indices], written=2)


def _rope(name: str) -> Case:
    x = torch.randn(ROWS, COLUMNS)
    angles = torch.outer(torch.arange(ROWS), 10000.0 ** (-torch.arange(0, COLUMNS, 2) / COLUMNS))
    turned = torch.view_as_complex(x.reshape(ROWS, -1, 2)) * torch.polar(torch.ones_like(angles), angles)
    return Case((x, torch.zeros_like(x)), torch.view_as_real(turned).flatten(1), 1, 1e-4)


def _sgemv(name: str) -> Case:
    columns = 16 if "_k16_" in name else 128
    a, x = torch.randn(ROWS, columns), torch.randn(columns, 1)
    return Case((a, x, torch.zeros(ROWS, 1)), a @ x, 2, 1e-4)


def _merge(name: str) -> Case:
    tokens, heads, size = 12, 4, 64
    prefix, suffix = torch.randn(2, tokens, heads, size)
    first, second = torch.randn(2, heads, tokens)
    weights = torch.softmax(torch.stack([first, second]), 0).transpose(1, 2)[..., None]
    out, total = torch.zeros_like(prefix), torch.zeros_like(first)
    return Case((out, total, prefix, first, suffix, second), weights[0] * prefix + weights[1] * suffix, 0, 1e-5)


def _rotary(name: str) -> Case:
    tokens, heads, size = 7, 4, 32
    positions, query, key = torch.arange(tokens), torch.randn(tokens, heads * size), torch.randn(tokens, heads * size)
    cache = torch.randn(16, size)
    cos, sin = cache[positions][:, None].chunk(2, -1)
    a, b = query.view(tokens, heads, size).chunk(2, -1)
    expected = torch.cat([a * cos - b * sin, b * cos + a * sin], -1).view(tokens, -1)
    return Case((positions, query.clone(), key, size, cache, True, 0, False), expected)


def _soft_cap(name: str) -> Case:
    x = torch.randn(ROWS, COLUMNS + 1)
    return Case((torch.zeros_like(x), x, 2.0, 5.0), 5 * torch.tanh(x * 2 / 5), written=0)


def _vocabulary(name: str) -> Case:
    ids, weight = torch.randint(0, 100, (24,)), torch.randn(40, 64)
    expected = torch.where(((ids >= 30) & (ids < 70))[:, None], weight[(ids - 30).clamp(0, 39)], 0)
    return Case((torch.empty(24, 64), ids, weight, 30, 70, 0, 0, 0), expected, written=0, tolerance=0)


def _nms(name: str) -> Case:
    corners = 50 * torch.rand(64, 2)
    boxes, scores = torch.cat([corners, corners + 5 + 30 * torch.rand(64, 2)], 1), torch.rand(64)
    ordered = boxes[scores.sort(descending=True).indices]
    kept: list[int] = []
    for i, box in enumerate(ordered):
        others = ordered[kept]
        overlap = (torch.min(box[2:], others[:, 2:]) - torch.max(box[:2], others[:, :2])).clamp(min=0).prod(1)
        areas = (others[:, 2:] - others[:, :2]).prod(1) + (box[2:] - box[:2]).prod()
        if not (overlap / (areas - overlap) > 0.5).any():
            kept.append(i)
    return Case((boxes, scores, 0.5), torch.tensor(kept), None, 0)


REFERENCES: dict[str, Cases] = {
    "elementwise/elementwise.cu": _add,
    **{f"{name}/{name}.cu": partial(_unary, getattr(torch, name)) for name in ("relu", "sigmoid")},
    **{f"{name}/{name}.cu": partial(_unary, getattr(F, name)) for name in ("elu", "hardshrink", "hardswish")},
    "gelu/gelu.cu": partial(_unary, partial(F.gelu, approximate="tanh")),
    "swish/swish.cu": partial(_unary, F.silu),
    "layer-norm/layer_norm.cu": _layer_norm,
    "rms-norm/rms_norm.cu": _rms_norm,
    "softmax/softmax.cu": _softmax,
    "dot-product/dot_product.cu": _dot,
    "reduce/block_all_reduce.cu": _sum,
    "histogram/histogram.cu": _histogram,
    "embedding/embedding.cu": _embedding,
    "rope/rope.cu": _rope,
    "sgemv/sgemv.cu": _sgemv,
    "merge-attn-states/cuda_merge_attn_states.cu": _merge,
    "nms/nms.cu": _nms,
    "csrc/vocab_parallel_embedding_kernels.cu": _vocabulary,
    "csrc/pos_encoding_kernels.cu": _rotary,
    "csrc/muse_spark_mul_tanh_soft_cap_kernel.cu": _soft_cap,
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_references", description=__doc__.splitlines()[0])
    parser.add_argument("directories", nargs="+", type=Path)
    parser.add_argument("--limit", type=float, default=300, help="seconds for each file")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        print(_compare(options.directories[0]))
        return
    environment = {name: value for name, value in os.environ.items() if name != "TORCH_CUDA_ARCH_LIST"}
    environment["CUDA_VISIBLE_DEVICES"] = ""
    for path in (path for directory in options.directories for path in sorted(directory.rglob("*.cu"))):
        if _cases_of(path) is None:
            continue
        command = [sys.executable, "-m", "benchmarks.real_references", "--one", str(path)]
        start = time.monotonic()
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=options.limit)
            lines = done.stdout.splitlines() or done.stderr.splitlines()
            outcome = lines[-1] if lines else f"exit status {done.returncode}"
        except subprocess.TimeoutExpired:
            outcome = f"timed out after {options.limit:.0f} s"
        print(f"| {path} | {outcome} | {time.monotonic() - start:.1f} |", flush=True)


def _cases_of(path: Path) -> Cases | None:
    return next((cases for end, cases in REFERENCES.items() if str(path.absolute()).endswith(f"/{end}")), None)


def _compare(path: Path) -> str:
    """The number of a source's functions that agree with their references, and the errors of the others."""
    from benchmarks.real_kernels import FLAGS
    from tkjit import cpp_extension

    torch.manual_seed(0)
    cases = _cases_of(path)
    assert cases is not None
    name = re.sub(r"\W", "_", path.stem)
    module = cpp_extension.load(name, path, extra_cuda_cflags=[*FLAGS], extra_include_paths=[path.parent])
    right, wrong = 0, []
    for function in sorted(each for each in dir(module) if not each.startswith("__")):
        case = cases(function)
        if case is None:
            continue
        error = _error_of(getattr(module, function), case)
        right += error <= case.tolerance
        if not error <= case.tolerance:
            wrong.append(f"{function} {error:.1e}")
    return f"{right} right{f', wrong: {chr(44).join(wrong)}' if wrong else ''}"


def _error_of(function: Callable[..., Any], case: Case) -> float:
    """The largest difference, relative to the largest expected number."""
    returned = function(*case.arguments)
    got = returned if case.written is None else case.arguments[case.written]
    expected = case.expected.float()
    if got.numel() != expected.numel():
        return float("inf")
    return float((got.float().reshape(expected.shape) - expected).abs().max() / expected.abs().max().clamp(min=1e-6))


if __name__ == "__main__":
    main()
