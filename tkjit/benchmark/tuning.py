"""Chooses the fastest configuration of each variant of a kernel, by measuring all of them in turns."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import torch

from tkjit.benchmark.calls import calls_of, sets_of_arguments
from tkjit.benchmark.measure import build, calls_to_measure, current, device_to_measure, kernel_to_measure, sets_all
from tkjit.benchmark.timing import Calls, interleaved
from tkjit.check.arguments import each_tensor
from tkjit.config import Settings
from tkjit.errors import LaunchError, SpecError, TkjitError, TkjitWarning
from tkjit.kernel_objects import Kernel, load
from tkjit.loader import loader_for
from tkjit.loader.tuned import Choice
from tkjit.spec import Spec, Variant
from tkjit.spec.variants import Configuration, configurations_of
from tkjit.verify.bounds import bound_of, row_error
from tkjit.verify.compare import results_of
from tkjit.verify.reference import Results


def choices(
    kernel: str | Kernel,
    sizes: Sequence[Mapping[str, Any]] | Mapping[str, Any],
    types: Sequence[str],
    device: str | torch.device | None,
    *,
    rounds: int,
    seed: int = 0,
) -> Iterator[Choice]:
    """Tune each variant, store the choice, and yield it; the parameters and errors are those of ``tkjit.tune``."""
    kernel = kernel_to_measure(kernel, rounds)
    if not any(spec.tuning for spec in kernel.specs):
        raise SpecError(f"{kernel.name} has no tune=, so there is nothing to choose")
    chosen = device_to_measure(device)
    calls: dict[tuple[Spec, Variant], list[Mapping[str, Any]]] = {}
    for spec, variant, one in calls_to_measure(kernel, sizes, types):
        if spec.tuning:
            calls.setdefault((spec, variant), []).append(one)
    build([(one, one.specs[0], variant) for spec, variant in calls for one in _kernels(spec, variant).values()], chosen)
    for (spec, variant), of_variant in calls.items():
        yield _choose(spec, variant, of_variant, chosen, rounds, seed)


def tune_for_a_call(spec: Spec, variant: Variant, device_type: str, device: int) -> None:
    """Tune a variant at the sizes of its spec and store the choice. Without such sizes, only warn."""
    calls = [one for one in spec.benchmark.sizes if sets_all(spec, variant, one)]
    if not calls:
        warnings.warn(
            f"{spec.name} has no sizes= for {variant or 'calls'}, so TKJIT_TUNE=1 does not tune it; call tkjit.tune",
            TkjitWarning,
            stacklevel=2,
        )
        return
    where = torch.device("cuda", device) if device_type == "cuda" else torch.device("cpu")
    build([(one, one.specs[0], variant) for one in _kernels(spec, variant).values()], where)
    _choose(spec, variant, calls, where, rounds=9, seed=0)


def _choose(
    spec: Spec, variant: Variant, calls: Sequence[Mapping[str, Any]], device: torch.device, rounds: int, seed: int
) -> Choice:
    """Measure the configurations of a variant, store the fastest, and return it."""
    loader = loader_for(Settings.from_environment())
    with current(device), torch.no_grad():
        seconds, failed = _measured(spec, variant, calls, device, rounds, seed)
    fastest = min(seconds, key=lambda configuration: seconds[configuration])
    choice = Choice(
        spec.name,
        str(variant),
        torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        loader.target(device.type, device.index or 0).name,
        dict(fastest),
        {_text(configuration): time for configuration, time in seconds.items()},
        {_text(configuration): reason for configuration, reason in failed.items()},
    )
    loader.tuned.store(spec, choice)
    return choice


def _measured(
    spec: Spec, variant: Variant, calls: Sequence[Mapping[str, Any]], device: torch.device, rounds: int, seed: int
) -> tuple[dict[Configuration, float], dict[Configuration, str]]:
    """Return the geometric mean of each configuration's times over the calls, and why others could not be measured.

    Raises
    ------
    SpecError
        If no configuration can be measured.
    """
    kernels = {one: load(kernel) for one, kernel in _kernels(spec, variant).items()}
    logarithms: dict[Configuration, float] = dict.fromkeys(kernels, 0.0)
    failed: dict[Configuration, str] = {}
    for sizes in calls:
        _, _, sets = sets_of_arguments(spec, variant, sizes, seed, device)
        functions: dict[str, Calls] = {}
        expected: tuple[str, Results] | None = None  # of the first configuration that works
        for one, kernel in kernels.items():
            if one in failed:
                continue
            try:
                results = _results(spec, kernel, sets[0])
            except TkjitError as error:  # for example, too much shared memory for this device
                failed[one] = str(error).splitlines()[0]
                continue
            except RuntimeError as error:  # an error in the kernel makes the device unusable for this process
                raise LaunchError(f"{spec.name} ({_text(one)}): {str(error).splitlines()[0]}") from error
            expected = expected or (_text(one), results)
            if not spec.is_random and not _agree(expected[1], results, bound_of(spec, variant).row):
                failed[one] = f"its results differ from those of {expected[0]}"
                continue
            functions[_text(one)] = calls_of(kernel, sets)
        if not functions:
            raise SpecError(f"{spec.name} ({variant}): no configuration works: {next(iter(failed.values()))}")
        times = interleaved(functions, device, rounds, len(sets))
        for one in kernels:
            if one not in failed:
                logarithms[one] += math.log(median(times[_text(one)])) / len(calls)
    return {one: math.exp(logarithms[one]) for one in kernels if one not in failed}, failed


def _results(spec: Spec, kernel: Kernel, arguments: Mapping[str, Any]) -> Results:
    """Call a kernel with copies of the arguments, and return its results on the CPU, which waits for the kernel."""
    copies = {name: each_tensor(value, torch.Tensor.clone) for name, value in arguments.items()}
    returned = kernel(**copies)
    results = results_of(spec, copies, returned)
    return {name: tensors for name, tensors in results.items() if name not in spec.verification.unchecked}


def _agree(expected: Results, results: Results, largest_error: float) -> bool:
    """Return whether two configurations have the same results, except for rounding."""
    return all(
        row_error(one, other) <= largest_error
        for name in expected
        for one, other in zip(expected[name], results[name], strict=True)
    )


def _kernels(spec: Spec, variant: Variant) -> dict[Configuration, Kernel]:
    """Return a kernel for each configuration of a variant, which has no other configuration."""
    kernels = {}
    for configuration in configurations_of(spec, variant):
        tuning = tuple((name, (value,)) for name, value in configuration)
        kernels[configuration] = Kernel(replace(spec, parameters=replace(spec.parameters, tuning=tuning)))
    return kernels


def _text(configuration: Configuration) -> str:
    return ", ".join(f"{name}={value}" for name, value in configuration)
