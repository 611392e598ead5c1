"""Finds indices and sizes that overflow in huge launches.

The tensors of a huge launch are mapped lazily, so 17 GB of them take up a few megabytes. Only the last block runs,
which has the largest indices. Three small launches differ from it in one dim, by multiples of common tile sizes. Where
an access is depends on the dim as a polynomial does, of degree 2 if the dim occurs twice in a tensor. So the small
launches predict the accesses of the huge one. A 32-bit index that wraps around is off by a multiple of 2^32 elements or
bytes. The program itself reports signed overflow.

The middle block runs as well, since a bound that wraps around may be right for the last block by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from math import ceil, lcm
from pathlib import Path
from typing import Any

import numpy as np

from tkjit.check.arguments import pack, span, tensors_in_order
from tkjit.check.cases import Case, case_without_memory
from tkjit.check.child_process import launch
from tkjit.check.findings import MODE_OF, WIDEN
from tkjit.check.sizes import multiples_of
from tkjit.compile.flags import SIMULATOR
from tkjit.spec import Spec, Variant

_WRAP = 1 << 32
_MOST_ELEMENTS = _WRAP + (1 << 26)  # of the largest tensor: a little more than 32 bits can count
_MAX_EXTENT = (1 << 31) - 1
# The extents differ by a multiple of one of these numbers, so that the last tile is cut off in the same place.
_STEPS = (107520, 6720, 420, 60, 12, 1)
_FEWEST_STEPS = 8
_SMALL_RUNS = 3  # as many as a polynomial of degree 2 needs
_LIMITS = (_MAX_EXTENT, _MAX_EXTENT + 1 - 1024)
_MAX_S = 10
_MOST_ACCESSES = 1 << 20  # as in sim/check/overflow.h; one outside of a tensor may follow
LEADING = "..."
# in the order of LoggedAccess in sim/check/overflow.h
_ACCESS = np.dtype(
    [
        ("instruction", "<u8"),
        ("offset", "<i8"),
        ("tensor", "<u4"),
        ("thread", "<u4"),
        ("bytes", "<u4"),
        ("launch", "<u2"),
        ("writes", "<u2"),
    ]
)


@dataclass(frozen=True)
class Growth:
    """Calls that differ in the extent of one dim.

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
    is_complete: bool  # the process has written its log

    @property
    def name(self) -> str:
        return f"{self.case.name} (stopped after {_MAX_S} s)" if self.is_late else self.case.name

    @property
    def is_late(self) -> bool:
        return any(one["kind"] == "late" for one in self.found)

    def launch(self, number: int) -> Mapping[str, Any]:
        """The block that ran, and the shape of the blocks."""
        ran = (one for one in self.found if one["kind"] == "launch" and one["number"] == number)
        return next(ran, {"block": (), "threads": (1, 1, 1)})

    @property
    def fault(self) -> Mapping[str, Any]:
        """Why the launch was rejected or failed, if a signal did not end it."""
        return next((one for one in self.found if one["kind"] == "fault" and not one.get("ends")), {})

    @property
    def error(self) -> str:
        """Why the launch was rejected before a block began; empty if it was not, or if the machine lacks the memory."""
        return self.fault["text"] if self.fault.get("launches") == 0 else ""

    @property
    def has_begun(self) -> bool:
        return not self.fault or self.fault.get("launches", 0) > 0

    @property
    def is_broken(self) -> bool:
        return bool(self.fault) or bool(self.outside.size)

    @property
    def findings(self) -> list[dict[str, Any]]:
        """The findings of the process, except for overflow in the simulator and the C++ library."""
        found = [one for one in self.found if one["kind"] in MODE_OF]
        return [{**one, "case": self.name} for one in found if not _is_elsewhere(one)]

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


def growths(spec: Spec, variant: Variant, given: Mapping[str, Any], seed: int) -> Iterator[tuple[str, Growth | None]]:
    """Yield each dim that the caller has not chosen, with its growth, or None if the dim cannot grow alone.

    Raises
    ------
    SpecError
        If ``prepare=`` needs the values of the tensors.
    """
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

        yield dim, _largest(spec, dim, sized, leading[0] if dim == LEADING else first.extents[dim])


def _is_elsewhere(one: Mapping[str, Any]) -> bool:
    return one["kind"] == "overflow" and str(one["here"]["file"]).startswith((f"{SIMULATOR}/", "/usr/"))


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


def _largest(spec: Spec, dim: str, sized: Callable[[int], Case | None], extent: int) -> Growth | None:
    """Return the growth that makes a tensor as large as is needed, or as large as the spec allows."""

    def elements(case: Case) -> int:
        return max((tensor.numel() for _, tensor in tensors_in_order(spec, case.arguments)), default=0)

    def is_allowed(steps: int) -> bool:
        """Whether the spec accepts the extent, and no tensor is larger than needed one step before."""
        case = sized(extent + step * steps) if extent + step * steps <= _MAX_EXTENT else None
        before = sized(extent + step * (steps - 1)) if case is not None else None
        return case is not None and (before is None or elements(before) <= _MOST_ELEMENTS)

    multiple = multiples_of(spec, {}).get(dim, 1)
    for step in (lcm(one, multiple) for one in _STEPS):
        high = 1
        while is_allowed(high):
            high *= 2
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if is_allowed(middle) else (low, middle)
        if low >= _FEWEST_STEPS or (low and step == multiple):
            return Growth(dim, sized, extent, step, low)
    return None


def overflows(
    program: Path, spec: Spec, growth: Growth, seed: int, timeout_s: float
) -> tuple[list[dict[str, Any]], list[str], int]:
    """Launch small and huge calls, and return findings, the names of the huge calls, and the number of launches."""
    launches = 0

    def run(extent: int, *, at_end: bool, middle: bool = False) -> _Run | None:
        nonlocal launches
        case = growth.sized(extent)
        if case is None:
            return None
        launches += 1
        packed = pack(spec, case.arguments, extent - 1 if at_end else 0)
        found, log, _ = launch(program, packed, (int(middle), seed, -1, limit_s, 0), limit_s)
        tensors = [tensor for _, tensor in tensors_in_order(spec, case.arguments)]
        sizes = np.array([span(t.shape, t.stride()) * t.element_size() for t in tensors] or [0])
        return _Run(case, found, np.frombuffer(log or b"", _ACCESS), sizes, log is not None)

    limit_s = min(ceil(timeout_s), _MAX_S)

    def small_runs(*, at_end: bool) -> list[_Run]:
        extents = (growth.extent + growth.step * i for i in range(_SMALL_RUNS))
        return [one for one in (run(extent, at_end=at_end) for extent in extents) if one is not None]

    small = small_runs(at_end=False)
    found = [_unlaunchable(one) for one in small if one.error][:1]
    if not small or any(one.is_broken for one in small):
        return found, [], launches  # the other modes report what is wrong in a small launch
    steps, huge = growth.steps, None
    while steps and ((huge := run(growth.extent + growth.step * steps, at_end=False)) is None or not huge.has_begun):
        if huge is not None and huge.error and not found and "grid x" not in huge.error:  # its limit is 2^31 - 1
            found.append(_unlaunchable(huge))
        steps //= 2
    if not steps or huge is None:
        return found, [], launches
    extent = growth.extent + growth.step * steps
    found += [*huge.findings, *_wraps(spec, small, huge, steps), *_outside(spec, huge), *_idle(small[0], huge)]
    small_middle, middle = (run(one, at_end=False, middle=True) for one in (growth.extent, extent))
    if small_middle is not None and middle is not None:
        found += [*middle.findings, *_outside(spec, middle), *_idle(small_middle, middle)]
    if any(
        tensor.is_meta and not tensor.is_floating_point() for _, tensor in tensors_in_order(spec, huge.case.arguments)
    ):
        # Integers may be indices, and then the last ones are the largest. But they may also be something else, so that
        # only an index that wraps around is an error.
        small, end = small_runs(at_end=True), run(extent, at_end=True)
        if end is not None and not any(one.is_broken for one in small):
            found += _wraps(spec, small, end, steps)
    names = [huge.name]
    for limit in _LIMITS:  # a loop or a rounded size may overflow only close to the largest int
        if growth.extent + growth.step * (growth.steps + 1) > limit:
            largest = run(limit, at_end=False)
            if largest is not None and largest.has_begun:
                found += [*largest.findings, *_outside(spec, largest)]
                names.append(largest.name)
                break
    return found, names, launches


def _unlaunchable(run: _Run) -> dict[str, Any]:
    text = f"the spec allows sizes that cannot be launched: {run.error}; exclude them with constraints="
    return {"kind": "overflow", "warning": True, "text": text, "case": run.name}


def _wraps(spec: Spec, small: Sequence[_Run], huge: _Run, steps: int) -> Iterator[dict[str, Any]]:
    """Yield findings for accesses that are off by a multiple of 2^32, for each instruction the first one."""
    if len(small) < _SMALL_RUNS or steps < _SMALL_RUNS:
        return
    *before, at_huge = _common([one.accesses[:_MOST_ACCESSES] for one in (*small, huge)])
    first, second, third = (one["offset"] for one in before)
    difference, change = second - first, third - 2 * second + first
    predicted = first + steps * difference + steps * (steps - 1) // 2 * change
    off_by = at_huge["offset"] - predicted
    wrapped = np.flatnonzero((off_by != 0) & (off_by % _WRAP == 0))
    _, earliest = np.unique(at_huge["instruction"][wrapped], return_index=True)
    for i in wrapped[np.sort(earliest)]:
        name, size, _ = huge.tensor(spec, at_huge[i])
        index, right = int(at_huge["offset"][i]) // size, int(predicted[i]) // size
        yield _finding(huge, at_huge[i], f"an index wraps around: it is {name}[{index}] instead of {name}[{right}]")


def _outside(spec: Spec, run: _Run) -> Iterator[dict[str, Any]]:
    for access in run.outside:
        name, size, count = run.tensor(spec, access)
        index = int(access["offset"]) // size
        yield _finding(run, access, f"{name}[{index}] is outside of {name}, which has {count} elements")


def _idle(small: _Run, huge: _Run) -> Iterator[dict[str, Any]]:
    """Yield a finding if a block does nothing, although the block in the same place of a small launch does."""
    if small.accesses.size and not huge.accesses.size and huge.is_complete and not huge.is_late and not huge.fault:
        text = f"a block accesses no tensor, but does with {small.case.name}: a bound overflows; {WIDEN}"
        yield {"kind": "overflow", "text": text, "case": huge.name}


def _common(logs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the accesses that each thread makes in all launches, until its instructions differ."""
    sorted_logs, keys = zip(*map(_by_thread, logs), strict=True)
    common = reduce(np.intersect1d, keys)
    aligned = [log[np.searchsorted(own, common)] for log, own in zip(sorted_logs, keys, strict=True)]
    first, *others = aligned
    differs = np.zeros(len(common), dtype=bool)
    for other in others:
        differs |= (other["instruction"] != first["instruction"]) | (other["tensor"] != first["tensor"])
    ends = np.full(int(first["thread"].max(initial=0)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(ends, first["thread"][differs], common[differs])
    return [log[common < ends[first["thread"]]] for log in aligned]


def _by_thread(accesses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort accesses by thread, and number them: by the thread, and by the place among the thread's accesses."""
    accesses = accesses[np.argsort(accesses["thread"], kind="stable")]
    threads = accesses["thread"].astype(np.int64)
    starts = np.searchsorted(threads, threads, side="left")
    return accesses, threads << 32 | np.arange(len(accesses)) - starts


def _finding(run: _Run, access: np.void, text: str) -> dict[str, Any]:
    launched = run.launch(int(access["launch"]))
    x, y, _ = launched["threads"]
    linear = int(access["thread"])
    here: dict[str, Any] = {
        "access": "write" if access["writes"] else "read",
        "calls": [int(access["instruction"])],
        "block": launched["block"],
        "thread": (linear % x, linear // x % y, linear // x // y),
    }
    for site in run.found:
        if site["kind"] == "site" and site["number"] == access["instruction"]:
            here |= {"calls": [], "file": site["file"], "line": site["line"]}
    return {"kind": "overflow", "text": f"{text}; {WIDEN}", "here": here, "case": run.name}
