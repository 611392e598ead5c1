"""Takes a call's seed and offset from torch's generators, as the runtime does (``runtime/random.h``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tkjit.errors import ArgumentError, LaunchError
from tkjit.spec import Field, Spec
from tkjit.torchlib.meta import numbers_drawn


def draw(spec: Spec, field: Field, arguments: Mapping[str, Any]) -> tuple[int, int]:
    """Return a call's seed and offset: on the CPU a new seed and 0, on a GPU the generator's, which then advances.

    Raises
    ------
    ArgumentError
        If the generator belongs to another device.
    LaunchError
        If a CUDA graph is being captured, because each replay would draw the same numbers.
    """
    generator: torch.Generator | None = arguments[field.name]
    device, count = numbers_drawn(spec, field, arguments)
    if generator is not None and generator.device != device:
        raise ArgumentError(
            f"{spec.name}: {field.name} is a generator of {generator.device}; expected one of {device}, "
            "where the tensors are"
        )
    if device.type == "cpu":
        number = torch.empty((), dtype=torch.int64).random_(-(2**63), None, generator=generator)
        return int(number.item()), 0
    if torch.cuda.is_current_stream_capturing():
        raise LaunchError(
            f"{spec.name}: {field.name}: a CUDA graph would draw the same random numbers each time; "
            "call it outside of the capture"
        )
    generator = torch.cuda.default_generators[device.index] if generator is None else generator
    offset = generator.get_offset()
    generator.set_offset(offset + (count + 3) // 4 * 4)
    seed = generator.initial_seed()
    return seed - 2**64 if seed >= 2**63 else seed, offset
