"""Finds indices and sizes that overflow in huge launches.

The tensors of a huge launch are mapped lazily, so 17 GB of them take up a few megabytes. Only the last block runs,
which has the largest indices. A small launch differs in one dim, by a multiple of common tile sizes. So if the kernel
is right, the last block's accesses are at the same distance from the end of each tensor in both launches. An index of
32 bits that wraps around is off by a multiple of 2^32 elements or bytes. The program itself reports signed overflow.

The middle block runs as well, since a bound that wraps around may be right for the last block by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tkjit.check.arguments import pack, span, tensors_in_order
from tkjit.check.cases import Case, case_without_memory
from tkjit.check.child_process import launch
from tkjit.check.findings import MODE_OF, WIDEN
from tkjit.spec import Spec, Variant

_WRAP = 1 << 32
_MOST_ELEMENTS = _WRAP + (1 << 26)  # of the largest tensor: a little more than 32 bits can count
_MAX_EXTENT = (1 << 31) - 1
# The extents differ by a multiple of one of these numbers, so that the last tile is cut off at the same place.
_STEPS = (107520, 6720, 420, 60, 12, 1)
_LIMITS = (_MAX_EXTENT, _MAX_EXTENT + 1 - 1024)
_MAX_S = 10
LEADING = "..."
# in the order of LoggedAccess in sim/check/overflow.h
_ACCESS = np.dtype(
    [
        ("instruction", "<u8"),
        ("offset", "<i8"),
        ("tensor", "<u4"),
        ("thread", "<u4"),
        ("bytes", "<u4"),
        ("writes", "<u4"),
    ]
)


@dataclass(frozen=True)
class Growth:
    """Calls that differ in one dim.

    Parameters
    ----------
    dim : str
        The dim, or ``"..."`` for the first leading dim.
    sized : callable
        Returns the call in which the dim has an extent, or None if the spec rejects it.
    extent : int
        The dim's extent in the small call.
    step, steps : int
        The huge call's extent is ``extent + step * steps``.
    """

    dim: str
    sized: Callable[[int], Case | None]
    extent: int
    step: int
    steps: int


@dataclass(frozen=True)
class _Run:
    """What one launch did: its findings, and the accesses of the last block to tensors."""

    case: Case
    found: list[dict[str, Any]]
    accesses: np.ndarray
    sizes: np.ndarray  # of the tensors, in bytes

    @property
    def name(self) -> str:
        return f"{self.case.name} (stopped after {_MAX_S} s)" if self.is_late else self.case.name

    @property
    def is_late(self) -> bool:
        return any(one["kind"] == "late" for one in self.found)

    @property
    def launch(self) -> Mapping[str, Any]:
        """The block that ran, and the shape of the blocks."""
        return next((one for one in self.found if one["kind"] == "launch"), {"block": (), "threads": (1, 1, 1)})

    @property
    def error(self) -> str | None:
        """Why the launch was rejected."""
        return next((one["text"] for one in self.found if one["kind"] == "fault" and not one.get("ends")), None)

    @property
    def findings(self) -> list[dict[str, Any]]:
        return [{**one, "case": self.name} for one in self.found if one["kind"] in MODE_OF]

    @property
    def outside(self) -> np.ndarray:
        """The accesses that are not in their tensors: none, or only the last one, after which the launch ends."""
        last = self.accesses[-1:]
        is_inside = (last["offset"] >= 0) & (last["offset"] + last["bytes"] <= self.sizes[last["tensor"]])
        return last if last.size and not is_inside.all() else last[:0]

    def tensor(self, spec: Spec, access: np.void) -> tuple[str, int, int]:
        """Return the name of an access's tensor, the bytes of an element, and the number of elements in memory."""
        name, tensor = tensors_in_order(spec, self.case.arguments)[access["tensor"]]
        return name, tensor.element_size(), int(self.sizes[access["tensor"]]) // tensor.element_size()


def growths(spec: Spec, variant: Variant, given: Mapping[str, Any], seed: int) -> Iterator[Growth]:
    """Yield a growth for each dim that the caller has not chosen and that can be huge."""
    examples = [one for one in spec.verification.examples if _is_for(one, variant)]
    base = {**(examples[0] if examples else {}), **given}
    leading = tuple(base.pop(LEADING, (3,) if any(f.leading for f in spec.tensors) else ()))
    case_of = partial(_case_of, spec, variant, base, seed)
    first = case_of({}, leading)
    if first is None:
        return
    for dim in (LEADING, *first.extents):
        if dim in given or dim in dict(variant.values) or (dim == LEADING and not leading):
            continue

        def sized(extent: int, dim: str = dim) -> Case | None:
            if dim == LEADING:
                return case_of(first.extents, (extent, *leading[1:]))
            return case_of({**first.extents, dim: extent}, leading)

        growth = _largest(dim, sized, leading[0] if dim == LEADING else first.extents[dim])
        if growth is not None:
            yield growth


def _is_for(example: Mapping[str, Any], variant: Variant) -> bool:
    return all(example.get(name, value) == value for name, value in variant.values)


def _case_of(
    spec: Spec,
    variant: Variant,
    base: Mapping[str, Any],
    seed: int,
    extents: Mapping[str, int],
    leading: tuple[int, ...],
) -> Case | None:
    # an integer that equals a dim grows with it, so only other integers keep the example's values
    dims = {name.lower() for name in spec.dim_names}
    scalars = {name: value for name, value in base.items() if name in spec.dim_names or name.lower() not in dims}
    return case_without_memory(spec, variant, {**scalars, **extents}, leading, seed)


def _largest(dim: str, sized: Callable[[int], Case | None], extent: int) -> Growth | None:
    """Return the growth that makes a tensor as large as is needed, or as large as the spec allows."""

    def elements(case: Case) -> int:
        return max((t.numel() for t in case.arguments.values() if isinstance(t, torch.Tensor)), default=0)

    def is_allowed(steps: int) -> bool:
        case = sized(extent + step * steps) if extent + step * steps <= _MAX_EXTENT else None
        return case is not None and elements(case) <= _MOST_ELEMENTS + step * per_extent

    small, double = sized(extent), sized(2 * extent)
    if small is None:
        return None
    per_extent = max(1, (elements(double or small) - elements(small)) // extent)
    wanted = min((_MOST_ELEMENTS - elements(small)) // per_extent, _MAX_EXTENT - extent)
    step = next(one for one in _STEPS if one <= max(1, wanted // 8))
    low, high = 0, wanted // step + 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if is_allowed(middle) else (low, middle - 1)
    return Growth(dim, sized, extent, step, low) if low else None


def overflows(
    program: Path, spec: Spec, growth: Growth, seed: int, timeout_s: float
) -> tuple[list[dict[str, Any]], list[str]]:
    """Launch small and huge calls, and return findings and the names of the huge calls."""

    def run(extent: int, *, middle: bool = False) -> _Run | None:
        case = growth.sized(extent)
        if case is None:
            return None
        index = extent - 1 if is_at_end else 0
        found, log, _ = launch(program, pack(spec, case.arguments, index), (int(middle), seed, -1, limit_s, 0), limit_s)
        tensors = [tensor for _, tensor in tensors_in_order(spec, case.arguments)]
        sizes = np.array([span(t.shape, t.stride()) * t.element_size() for t in tensors] or [0])
        return _Run(case, found, np.frombuffer(log or b"", _ACCESS), sizes)

    limit_s = min(ceil(timeout_s), _MAX_S)
    is_at_end = True  # integers may be indices: try the last one, and then the first
    small = run(growth.extent)
    if small is not None and small.outside.size:
        is_at_end = False
        small = run(growth.extent)
    if small is None or small.error or small.outside.size:
        return [], []  # the other modes report it
    found: list[dict[str, Any]] = []
    steps, huge = growth.steps, None
    while steps and ((huge := run(growth.extent + growth.step * steps)) is None or huge.error):
        if huge is not None and not found and "grid x" not in (huge.error or ""):  # its limit is 2^31 - 1
            found.append(_unlaunchable(huge))
        steps //= 2
    if not steps or huge is None:
        return found, []
    found += [*huge.findings, *_differences(spec, small, huge)]
    small_middle, middle = run(growth.extent, middle=True), run(growth.extent + growth.step * steps, middle=True)
    if small_middle is not None and middle is not None:
        found += [*middle.findings, *_outside(spec, middle), *_idle(small_middle, middle)]
    names = [huge.name]
    for limit in _LIMITS:  # a loop or a rounded size may overflow only close to the largest int
        if growth.extent + growth.step * (growth.steps + 1) > limit and (largest := run(limit)) is not None:
            if largest.error is None:
                found += [*largest.findings, *_outside(spec, largest)]
                names.append(largest.name)
            break
    return found, names


def _unlaunchable(run: _Run) -> dict[str, Any]:
    text = f"the spec allows sizes that cannot be launched: {run.error}; exclude them with constraints="
    return {"kind": "overflow", "warning": True, "text": text, "case": run.name}


def _differences(spec: Spec, small: _Run, huge: _Run) -> Iterator[dict[str, Any]]:
    """Yield findings for accesses whose places differ by a multiple of 2^32, for each instruction the first one."""
    at_small, at_huge = _common(small.accesses, huge.accesses)
    shift = at_huge["offset"] - at_small["offset"] - (huge.sizes - small.sizes)[at_huge["tensor"]]
    wrapped = np.flatnonzero((shift != 0) & (shift % _WRAP == 0))
    _, first = np.unique(at_huge["instruction"][wrapped], return_index=True)
    for i in wrapped[np.sort(first)]:
        name, size, _ = huge.tensor(spec, at_huge[i])
        index, right = int(at_huge["offset"][i]) // size, int(at_huge["offset"][i] - shift[i]) // size
        yield _finding(huge, at_huge[i], f"an index wraps around: it is {name}[{index}] instead of {name}[{right}]")
    if not wrapped.size:
        yield from _outside(spec, huge)
        yield from _idle(small, huge)


def _outside(spec: Spec, run: _Run) -> Iterator[dict[str, Any]]:
    for access in run.outside:
        name, size, count = run.tensor(spec, access)
        index = int(access["offset"]) // size
        yield _finding(run, access, f"{name}[{index}] is outside of {name}, which has {count} elements")


def _idle(small: _Run, huge: _Run) -> Iterator[dict[str, Any]]:
    """Yield a finding if a block does nothing, although the block in the same place of a small launch does."""
    if small.accesses.size and not huge.accesses.size and not huge.is_late:
        block = ", ".join(map(str, huge.launch["block"]))
        text = f"block ({block}) accesses no tensor, but does with {small.case.name}: a bound overflows; {WIDEN}"
        yield {"kind": "overflow", "text": text, "case": huge.name}


def _common(small: np.ndarray, huge: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the accesses that each thread makes in both launches, until its instructions differ."""
    (small, small_keys), (huge, huge_keys) = _by_thread(small), _by_thread(huge)
    _, in_small, in_huge = np.intersect1d(small_keys, huge_keys, assume_unique=True, return_indices=True)
    small, huge = small[in_small], huge[in_huge]
    differs = (small["instruction"] != huge["instruction"]) | (small["tensor"] != huge["tensor"])
    ends = np.full(int(huge["thread"].max(initial=0)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(ends, huge["thread"][differs], huge_keys[in_huge][differs])
    before = huge_keys[in_huge] < ends[huge["thread"]]
    return small[before], huge[before]


def _by_thread(accesses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort accesses by thread, and number them: by the thread, and by the place among the thread's accesses."""
    accesses = accesses[np.argsort(accesses["thread"], kind="stable")]
    threads = accesses["thread"].astype(np.int64)
    starts = np.searchsorted(threads, threads, side="left")
    return accesses, threads << 32 | np.arange(len(accesses)) - starts


def _finding(run: _Run, access: np.void, text: str) -> dict[str, Any]:
    x, y, _ = run.launch["threads"]
    linear = int(access["thread"])
    here: dict[str, Any] = {
        "access": "write" if access["writes"] else "read",
        "calls": [int(access["instruction"])],
        "block": run.launch["block"],
        "thread": (linear % x, linear // x % y, linear // x // y),
    }
    for site in run.found:
        if site["kind"] == "site" and site["number"] == access["instruction"]:
            here |= {"calls": [], "file": site["file"], "line": site["line"]}
    return {"kind": "overflow", "text": f"{text}; {WIDEN}", "here": here, "case": run.name}
