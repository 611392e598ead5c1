"""Prepares calls for timing: several sets of random inputs, so that no call finds its inputs in the device's cache."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any

import torch

from tkjit.benchmark.timing import Calls
from tkjit.check.arguments import each_tensor, tensors_of
from tkjit.check.cases import Case, case_of_sizes
from tkjit.spec import Spec, Variant
from tkjit.spec.model import MISSING

_MAX_SETS = 256
_CACHES_PER_ROTATION = 2  # the sets together are this many times as large as the L2 cache


def sets_of_arguments(
    spec: Spec, variant: Variant, sizes: Mapping[str, Any], seed: int, device: torch.device
) -> tuple[str, int, list[dict[str, Any]]]:
    """Generate the arguments of calls.

    Returns
    -------
    name : str
        The name of the case: ``"M=64, N=128"``.
    moved_bytes : int
        The bytes that one call has to move.
    sets : list of dict
        The arguments of each call by name, except outputs and scratch, which the call allocates.

    Raises
    ------
    TkjitError
        If the sizes do not satisfy the spec.
    """
    made_on = "cpu" if spec.verification.prepare is not None else str(device)  # prepare= expects tensors on the CPU
    case = case_of_sizes(spec, variant, sizes, seed, made_on)
    moved = moved_bytes(spec, case)
    first = {
        f.name: each_tensor(case.arguments[f.name], lambda tensor: _copied(tensor, device))
        for f in spec.given
        if not f.is_allocated and (case.arguments[f.name] is not None or f.is_required)
    }
    if spec.device_field is not None:
        first[spec.device_field.name] = device
    for f in spec.dtype_fields:
        first[f.name] = getattr(torch, str(first[f.name]).removeprefix("torch."))
    copies = [
        {name: each_tensor(value, lambda tensor: _copied(tensor, device)) for name, value in first.items()}
        for _ in range(_number_of_sets(moved, device) - 1)
    ]
    return case.name, moved, [first, *copies]


def moved_bytes(spec: Spec, case: Case) -> int:
    """Return how many bytes a call moves, if it reads each input once and writes each output once."""
    return sum(
        tensor.numel() * tensor.element_size() * (2 if f.direction == "inout" else 1)
        for f in spec.tensors
        if f.direction != "scratch"
        for tensor in tensors_of(case.arguments[f.name])
    )


def calls_of(function: Callable[..., object], sets: Sequence[Mapping[str, Any]]) -> Calls:
    """Return a function that makes the i-th call of another, with the i-th set of arguments.

    The results of one rotation are kept, so that as many outputs as inputs are in use.
    """
    kept: list[object] = [None] * len(sets)

    def call(i: int) -> object:
        at = i % len(sets)
        kept[at] = function(**sets[at])
        return kept[at]

    return call


def sets_for_peer(peer: Callable[..., object], spec: Spec, sets: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the arguments that a peer takes, which may be fewer than the kernel's. Omitted ones have their default."""
    names = inspect.signature(peer).parameters
    defaults = {f.name: None if f.default is MISSING else f.default for f in spec.given if not f.is_required}
    return [{name: value for name, value in {**defaults, **one}.items() if name in names} for one in sets]


def _number_of_sets(moved: int, device: torch.device) -> int:
    if device.type != "cuda":
        return 1
    cache_bytes = torch.cuda.get_device_properties(device).L2_cache_size
    wanted = ceil(_CACHES_PER_ROTATION * cache_bytes / max(1, moved)) + 1
    fitting = torch.cuda.mem_get_info(device)[0] // (4 * max(1, moved))
    return max(1, min(wanted, fitting, _MAX_SETS))


def _copied(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Copy a tensor with its strides; ``clone`` would close the gaps between rows."""
    copy = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
    return copy.copy_(tensor)
