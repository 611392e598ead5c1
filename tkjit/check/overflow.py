"""Finds indices and sizes that overflow in huge launches.

The tensors of a huge launch are mapped lazily, so 17 GB of them take up a few megabytes. Only the last block runs,
which has the largest indices. Three small launches differ from it in one dim, by multiples of common tile sizes. The
place of an access is a polynomial in that dim, of degree 2 if the dim occurs twice in a tensor. So the small launches
predict the accesses of the huge one. A 32-bit index that wraps around is off by a multiple of 2^32 elements or bytes.
The program itself reports signed overflow.

The middle block runs as well, since a bound that wraps around may be right for the last block by chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from tkjit.check.arguments import pack, span, tensors_in_order
from tkjit.check.cases import Case
from tkjit.check.child_process import launch
from tkjit.check.findings import MODE_OF, WIDEN
from tkjit.check.growth import MAX_EXTENT, Growth
from tkjit.compile.flags import SIMULATOR
from tkjit.spec import Spec

_WRAP = 1 << 32
_SMALL_RUNS = 3  # as many as a polynomial of degree 2 needs
_LIMITS = (MAX_EXTENT, MAX_EXTENT + 1 - 1024)
_MAX_S = 10
_MOST_ACCESSES = 1 << 20  # as in sim/check/overflow.h; one outside of a tensor may follow
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


def _is_elsewhere(one: Mapping[str, Any]) -> bool:
    return one["kind"] == "overflow" and str(one["here"]["file"]).startswith((f"{SIMULATOR}/", "/usr/"))


class HugeLaunches:
    """The launches of one growth.

    Parameters
    ----------
    found : list of dict
        The findings.
    names : list of str
        The names of the huge calls.
    launches : int
        The number of launches, small ones included.
    """

    def __init__(self, program: Path, spec: Spec, growth: Growth, seed: int, timeout_s: float) -> None:
        self._program, self._spec, self._growth, self._seed = program, spec, growth, seed
        self._limit_s = min(ceil(timeout_s), _MAX_S)
        self.found: list[dict[str, Any]] = []
        self.names: list[str] = []
        self.launches = 0

    def run(self) -> None:
        small = self._small()
        self._add_unlaunchable(small)
        if not small or small[0].is_broken:
            return  # the other modes report it
        if any(one.is_broken for one in small):
            self._add(one for one in small if one.has_begun)
            return
        huge, steps = self._largest_launch()
        if huge is None:
            return
        self._add([huge])
        self.found += [*_wraps(self._spec, small, huge, steps), *_idle(small[0], huge)]
        self.names.append(huge.name)
        self._run_middle(steps)
        self._run_with_last_indices(steps)
        self._run_largest_int()

    def _run(self, steps: int, *, at_end: bool = False, middle: bool = False) -> _Run | None:
        return self._run_extent(self._growth.extent + self._growth.step * steps, at_end=at_end, middle=middle)

    def _run_extent(self, extent: int, *, at_end: bool = False, middle: bool = False) -> _Run | None:
        """Launch the call with an extent, if the spec allows it; integers are 0, or the extent's last index."""
        case = self._growth.sized(extent)
        if case is None:
            return None
        self.launches += 1
        packed = pack(self._spec, case.arguments, extent - 1 if at_end else 0)
        options = (int(middle), self._seed, -1, self._limit_s, 0)
        found, log, _ = launch(self._program, packed, options, self._limit_s)
        tensors = [tensor for _, tensor in tensors_in_order(self._spec, case.arguments)]
        sizes = np.array([span(t.shape, t.stride()) * t.element_size() for t in tensors] or [0])
        return _Run(case, found, np.frombuffer(log or b"", _ACCESS), sizes, log is not None)

    def _small(self, *, at_end: bool = False) -> list[_Run]:
        return [one for one in (self._run(i, at_end=at_end) for i in range(_SMALL_RUNS)) if one is not None]

    def _largest_launch(self) -> tuple[_Run | None, int]:
        """Launch the huge call, or the largest one that can be launched."""
        steps = self._growth.steps
        while steps:
            huge = self._run(steps)
            if huge is not None and huge.has_begun:
                return huge, steps
            self._add_unlaunchable([huge] if huge is not None else [])
            steps //= 2
        return None, 0

    def _run_middle(self, steps: int) -> None:
        small, huge = self._run(0, middle=True), self._run(steps, middle=True)
        if small is not None and huge is not None:
            self._add([huge])
            self.found += _idle(small, huge)

    def _run_with_last_indices(self, steps: int) -> None:
        """Run with integers that are the last index of the dim, if they are indices at all.

        They may also be something else, so only an index that wraps around is an error.
        """
        small = self._small(at_end=True) if self._has_integers() else []
        huge = self._run(steps, at_end=True) if small and not any(one.is_broken for one in small) else None
        if huge is not None:
            self.found += _wraps(self._spec, small, huge, steps)

    def _has_integers(self) -> bool:
        case = self._growth.sized(self._growth.extent)
        tensors = tensors_in_order(self._spec, case.arguments) if case is not None else []
        return any(tensor.is_meta and not tensor.is_floating_point() for _, tensor in tensors)

    def _run_largest_int(self) -> None:
        """Run close to the largest int, if that is what limits the dim: a loop or a rounded size may overflow there."""
        if self._growth.extent + self._growth.step * (self._growth.steps + 1) <= MAX_EXTENT:
            return
        largest = next((one for one in map(self._run_extent, _LIMITS) if one is not None), None)
        if largest is not None and largest.has_begun:
            self._add([largest])
            self.names.append(largest.name)

    def _add(self, runs: Iterable[_Run]) -> None:
        for one in runs:
            self.found += [*one.findings, *_outside(self._spec, one)]

    def _add_unlaunchable(self, runs: Sequence[_Run]) -> None:
        """Add a warning, only once, if a launch was rejected; the grid's x is as large as it can be."""
        errors = [one for one in runs if one.error and "grid x" not in one.error]
        if errors and not self.found:
            text = f"the spec allows sizes that cannot be launched: {errors[0].error}; exclude them with constraints="
            self.found.append({"kind": "overflow", "warning": True, "text": text, "case": errors[0].name})


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
