"""Measures the calls of a kernel and of its peers in turns."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from statistics import median, quantiles
from typing import Any

import torch

from tkjit.benchmark.calls import calls_of, sets_for_peer, sets_of_arguments
from tkjit.benchmark.measurement import Measurement
from tkjit.benchmark.roofline import measured
from tkjit.benchmark.timing import Calls, interleaved
from tkjit.check.arguments import tensors_of
from tkjit.check.sizes import settable
from tkjit.config import Settings
from tkjit.errors import CompileError, SpecError
from tkjit.kernel_objects import Kernel, load
from tkjit.kernel_objects.find import complete
from tkjit.kernel_objects.host import HostKernel
from tkjit.loader import Plan, loader_for
from tkjit.loader.background import Builds
from tkjit.spec import Spec, Variant, variants_of
from tkjit.spec.dim_order import derived_in_order
from tkjit.spec.expr import EXTENTS
from tkjit.spec.variants import chooses

Call = tuple[Spec, Variant, Mapping[str, Any]]  # an overload, its variant, and the sizes of the call


def measurements(
    kernel: str | Kernel,
    sizes: Sequence[Mapping[str, Any]] | Mapping[str, Any],
    types: Sequence[str],
    device: str | torch.device | None,
    *,
    inductor: bool,
    rounds: int,
    seed: int = 0,
) -> Iterator[Measurement]:
    """Yield the measurements of ``tkjit.bench`` one by one; the parameters and errors are the same."""
    kernel = kernel_to_measure(kernel, rounds)
    chosen = device_to_measure(device)
    calls = calls_to_measure(kernel, sizes, types)
    build([(kernel, spec, variant) for spec, variant, _ in calls], chosen)
    for call in calls:
        yield measure(kernel, call, chosen, inductor, rounds, seed)


def kernel_to_measure(kernel: str | Kernel, rounds: int) -> Kernel:
    """Return a kernel with its sizes and peers.

    Raises
    ------
    SpecError
        If the kernel cannot be measured, or the number of rounds is not positive.
    """
    if rounds < 1:
        raise SpecError(f"rounds is {rounds}; expected at least 1")
    found = complete(kernel)
    if isinstance(found, HostKernel) or found.specs[0].is_parallel:
        what = "a function of a torch extension" if isinstance(found, HostKernel) else "a kernel over several devices"
        raise SpecError(
            f"{found.name} is {what}, which cannot be measured; expected a kernel with a spec, on one device"
        )
    return found


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
        index = torch.cuda.current_device() if where.index is None else where.index
        if index >= torch.cuda.device_count():
            raise SpecError(f"there is no {where}; this machine has {torch.cuda.device_count()} GPUs")
        where = torch.device("cuda", index)
    return where


def current(device: torch.device) -> AbstractContextManager[Any]:
    """Make a GPU the current one in a block of code; for the CPU, do nothing."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def build(variants: Iterable[tuple[Kernel, Spec, Variant]], device: torch.device) -> None:
    """Build what calls of these variants need, in parallel. If a build fails, its call raises the error."""
    with suppress(CompileError):
        start_builds(variants, device).wait()


def start_builds(variants: Iterable[tuple[Kernel, Spec, Variant]], device: torch.device) -> Builds:
    """Start to build what calls of these variants need.

    Raises
    ------
    ToolchainError
        If a spec has no source for the device.
    """
    loader = loader_for(Settings.from_environment())
    target = loader.target(device.type, device.index or 0)
    plans: list[Plan] = [loader.runtime_plan]
    for kernel, spec, variant in variants:
        plans += [loader.glue_plan(kernel.specs), loader.launcher_plan(spec, variant, target)]
    return loader.background.start(plans)


def calls_to_measure(
    kernel: Kernel, sizes: Sequence[Mapping[str, Any]] | Mapping[str, Any], types: Sequence[str]
) -> list[Call]:
    """Return the calls to measure: each of the sizes, with each variant that it chooses.

    Raises
    ------
    SpecError
        If there are no sizes, or no variant for them.
    """
    given = [sizes] if isinstance(sizes, Mapping) else list(sizes)
    names = {name for spec in kernel.specs for name in settable(spec)}
    if unknown := {name for one in given for name in one} - names:
        raise SpecError(f"{kernel.name} has no dim or number {', '.join(sorted(unknown))}")
    dims = {name for spec in kernel.specs for name in spec.dim_names}
    for name, value in (item for one in given for item in one.items() if item[0] in dims):
        if type(value) is not int or value < 0:
            raise SpecError(f"{kernel.name}: {name}={value!r} is not an extent; expected an integer of at least 0")
    found = []
    for spec in kernel.specs:
        for one, variant in itertools.product(given or spec.benchmark.sizes, variants_of(spec, types)):
            if sets_all(spec, variant, one):
                found.append((spec, variant, one))
    if found:
        return found
    if not given and not any(spec.benchmark.sizes for spec in kernel.specs):
        example = " ".join(f"--dim {name}=4096" for name in kernel.specs[0].dim_names)
        raise SpecError(f"{kernel.name} has no sizes=; give the extents of a call, such as {example}")
    asked = ", ".join([*types, *(f"{name}={value}" for one in given for name, value in one.items())])
    needed = ", ".join(kernel.specs[0].dim_names) or "no dims"
    raise SpecError(f"{kernel.name} has no variant for {asked or 'its sizes'}; a call sets {needed}")


def sets_all(spec: Spec, variant: Variant, sizes: Mapping[str, Any]) -> bool:
    """Return whether sizes set every dim, and choose this variant."""
    return chooses(spec, variant, sizes) and {*sizes, *dict(variant.values)} >= set(spec.dim_names)


def measure(
    kernel: Kernel, call: Call, device: torch.device, inductor: bool, rounds: int, seed: int = 0
) -> Measurement:
    """Measure a call and its peers in turns."""
    with current(device), torch.no_grad():
        return _measure(kernel, call, device, inductor, rounds, seed)


def _measure(kernel: Kernel, call: Call, device: torch.device, inductor: bool, rounds: int, seed: int) -> Measurement:
    spec, variant, sizes = call
    roofline = None
    if device.type == "cuda":  # before the inputs take memory
        roofline = measured(device, _dtype_of_products(spec, variant) if spec.benchmark.flops is not None else None)
    name, moved, sets = sets_of_arguments(spec, variant, sizes, seed, device)
    functions: dict[str, Calls] = {"": calls_of(load(kernel), sets)}
    missing = {}
    for peer, function in _peers(kernel, spec, inductor).items():
        calls = calls_of(function, sets_for_peer(function, spec, sets))
        try:
            calls(0)
            if device.type == "cuda":
                torch.cuda.synchronize()  # an error in the peer's kernels is raised here
        except ImportError as error:
            missing[peer] = f"not installed: {error}"
        except Exception as error:  # a peer may raise anything, for example on a device or a dtype that it lacks
            missing[peer] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        else:
            functions[peer] = calls
    seconds = interleaved(functions, device, rounds, len(sets))
    own = seconds.pop("")
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
        roofline,
    )


def _dtype_of_products(spec: Spec, variant: Variant) -> torch.dtype | None:
    """Return the dtype of the first floating-point input, or None if there is none."""
    dtypes: list[torch.dtype] = [getattr(torch, variant.dtype_of(f).name) for f in spec.inputs]
    return next((dtype for dtype in dtypes if dtype.is_floating_point), None)


def _peers(kernel: Kernel, spec: Spec, inductor: bool) -> dict[str, Callable[..., object]]:
    """Return the peers of a spec by name. If it names none, its reference is the peer."""
    reference = spec.reference or kernel.specs[0].reference
    peers: dict[str, Callable[..., object]] = dict(spec.benchmark.peers)
    if reference is not None:
        no_outputs = dict.fromkeys(f.name for f in (*spec.outputs, *spec.scratch))  # the reference makes its own
        if not peers:
            peers["reference"] = partial(reference, **no_outputs)
        if inductor:
            torch.compiler.reset()  # after eight compilations of one function, torch would run it uncompiled
            peers["Inductor"] = partial(torch.compile(reference, dynamic=False), **no_outputs)
    elif inductor:
        raise SpecError(f"{kernel.name} has no reference for torch.compile: its function's body is empty")
    return peers


def _flops(spec: Spec, variant: Variant, sizes: Mapping[str, Any], arguments: Mapping[str, Any]) -> int:
    if spec.benchmark.flops is None:
        return 0
    values = {name: value for name, value in (*sizes.items(), *variant.values) if isinstance(value, int)}
    values |= {f.name: arguments[f.name] for f in spec.fields if f.is_integer and arguments.get(f.name) is not None}
    for f in spec.inputs:
        for tensor in tensors_of(arguments.get(f.name))[:1]:
            padded = (*(1,) * (4 - tensor.dim()), *tensor.shape)[-4:]
            values |= {
                f"{f.name}.{extent}": size for extent, size in zip(EXTENTS, (*padded, tensor.numel()), strict=True)
            }
    for name, expr in derived_in_order(spec, [spec.benchmark.flops]):
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
