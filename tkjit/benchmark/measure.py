"""Measures the calls of a kernel and of its peers in turns."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import median, quantiles
from typing import Any

import torch

from tkjit.benchmark.calls import calls_of, sets_for_peer, sets_of_arguments
from tkjit.benchmark.measurement import Measurement
from tkjit.benchmark.roofline import measured
from tkjit.benchmark.timing import Calls, interleaved
from tkjit.check.arguments import tensors_of
from tkjit.errors import SpecError
from tkjit.kernel import Kernel, load
from tkjit.kernel.find import complete
from tkjit.kernel.host import HostKernel
from tkjit.spec import Spec, Variant, variants_of
from tkjit.spec.variants import chooses


def measurements(
    kernel: str | Kernel,
    sizes: Sequence[Mapping[str, Any]] | Mapping[str, Any] = (),
    types: Sequence[str] = (),
    device: str | torch.device | None = None,
    inductor: bool = False,
    rounds: int = 15,
    seed: int = 0,
) -> Iterator[Measurement]:
    """Yield the measurements of ``tkjit.bench`` one by one; the parameters and errors are the same."""
    if rounds < 1:
        raise SpecError(f"rounds is {rounds}; expected at least 1")
    kernel = complete(kernel)
    if isinstance(kernel, HostKernel) or kernel.specs[0].is_parallel:
        raise SpecError(f"{kernel.name}: bench measures kernels that run on one device and take their own tensors")
    where = device_to_measure(device)
    for spec, variant, call_sizes in calls_to_measure(kernel, sizes, types):
        yield _measure(kernel, spec, variant, call_sizes, where, inductor, rounds, seed)


def device_to_measure(device: str | torch.device | None) -> torch.device:
    """Return the device to measure on: by default the current GPU, or the CPU if there is none.

    Raises
    ------
    SpecError
        If a GPU is wanted, but there is none.
    """
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    where = torch.device(device)
    if where.type == "cuda":
        if not torch.cuda.is_available():
            raise SpecError("there is no GPU here; --device cpu measures kernels in the simulator")
        where = torch.device("cuda", torch.cuda.current_device() if where.index is None else where.index)
    return where


def calls_to_measure(
    kernel: Kernel, sizes: Sequence[Mapping[str, Any]] | Mapping[str, Any], types: Sequence[str]
) -> list[tuple[Spec, Variant, Mapping[str, Any]]]:
    """Return the calls to measure: each of the sizes, with each variant that it chooses.

    Raises
    ------
    SpecError
        If there are no sizes, or no variant for them.
    """
    given = [sizes] if isinstance(sizes, Mapping) else list(sizes)
    names = {"...", *(name for spec in kernel.specs for name in _choices(spec))}
    if unknown := {name for one in given for name in one} - names:
        raise SpecError(f"{kernel.name} has no dim or number {', '.join(sorted(unknown))}")
    found = []
    for spec in kernel.specs:
        for one, variant in itertools.product(given or spec.benchmark.sizes, variants_of(spec, types)):
            if chooses(spec, variant, one) and {*one, *dict(variant.values)} >= set(spec.dim_names):
                found.append((spec, variant, one))
    if found:
        return found
    if not given and not any(spec.benchmark.sizes for spec in kernel.specs):
        example = " ".join(f"--dim {name}=4096" for name in kernel.specs[0].dim_names)
        raise SpecError(f"{kernel.name} has no sizes=, so bench needs the extents of a call: {example}")
    asked = ", ".join([*types, *(f"{name}={value}" for one in given for name, value in one.items())])
    raise SpecError(
        f"{kernel.name} has no variant for {asked or 'its sizes'}; "
        f"a call needs {', '.join(kernel.specs[0].dim_names) or 'no dims'}"
    )


def _choices(spec: Spec) -> set[str]:
    """Return what the sizes of a call may set: dims, variants and numbers."""
    return {*spec.dim_names, *dict(spec.variants), *(f.name for f in spec.fields if not f.is_tensor)}


def _measure(
    kernel: Kernel,
    spec: Spec,
    variant: Variant,
    sizes: Mapping[str, Any],
    device: torch.device,
    inductor: bool,
    rounds: int,
    seed: int,
) -> Measurement:
    name, moved, sets = sets_of_arguments(spec, variant, sizes, seed, device)
    functions: dict[str, Calls] = {"": calls_of(load(kernel), sets)}
    missing = {}
    for peer, function in _peers(kernel, spec, inductor).items():
        calls = calls_of(function, sets_for_peer(function, sets))
        try:
            calls(0)
        except ImportError as error:
            missing[peer] = f"not installed: {error}"
        except Exception as error:  # a peer may raise anything, for example on a device or a dtype that it lacks
            missing[peer] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        else:
            functions[peer] = calls
    with torch.no_grad():
        seconds = interleaved(functions, device, rounds)
    own = seconds.pop("")
    tensors = [tensor for f in spec.inputs for tensor in tensors_of(sets[0].get(f.name))]
    floating = [tensor.dtype for tensor in tensors if tensor.is_floating_point()]
    return Measurement(
        kernel.name,
        str(variant),
        name,
        torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        median(own),
        _interquartile_range(own) / median(own),
        moved,
        _flops(spec, variant, sizes, sets[0]),
        {peer: median(times) for peer, times in seconds.items()},
        missing,
        measured(device, floating[0] if floating else torch.float32) if device.type == "cuda" else None,
    )


def _peers(kernel: Kernel, spec: Spec, inductor: bool) -> dict[str, Callable[..., object]]:
    """Return the implementations to compare with: those that the spec names, otherwise its reference."""
    reference = spec.reference or kernel.specs[0].reference
    peers: dict[str, Callable[..., object]] = dict(spec.benchmark.peers)
    if reference is not None:
        no_outputs = dict.fromkeys((f.name for f in spec.outputs), None)  # the reference makes its own
        if not peers:
            peers["reference"] = partial(reference, **no_outputs)
        if inductor:
            peers["Inductor"] = partial(torch.compile(reference, dynamic=False), **no_outputs)
    elif inductor:
        raise SpecError(f"{kernel.name} has no reference for torch.compile: its function's body is empty")
    return peers


def _flops(spec: Spec, variant: Variant, sizes: Mapping[str, Any], arguments: Mapping[str, Any]) -> int:
    if spec.benchmark.flops is None:
        return 0
    values = {name: value for name, value in (*sizes.items(), *variant.values) if isinstance(value, int)}
    values |= {f.name: arguments[f.name] for f in spec.fields if f.is_integer and arguments.get(f.name) is not None}
    for name, expr in spec.derived:
        if expr.names <= values.keys():
            values[name] = expr.evaluate(values)
    try:
        return spec.benchmark.flops.evaluate({name: int(value) for name, value in values.items()})
    except KeyError as error:
        raise SpecError(f"{spec.name}: flops uses {error.args[0]}, which this call does not set") from None


def _interquartile_range(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    lower, _, upper = quantiles(values, n=4)
    return upper - lower
