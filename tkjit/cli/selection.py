"""Selects the kernels, devices and variants of a command, by options that several commands share."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from tkjit.compile.targets import Target, gpu_target
from tkjit.errors import SpecError, TkjitError, ToolchainError
from tkjit.extensions.record import Loaded
from tkjit.headers import find_root
from tkjit.kernel import find, kernels, kernels_named
from tkjit.kernel.host import HostKernel
from tkjit.loader import Loader, Plan
from tkjit.loader.labels import describe
from tkjit.loader.launchers import LauncherPlan
from tkjit.spec import BY_NAME, variants_of


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that say which variants."""
    parser.add_argument("--arch", default="", metavar="90a,80", help="GPU architectures")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="the CPU too, or the GPUs of this machine")
    parser.add_argument("--types", default="", metavar="bfloat16", help="only variants of these dtypes")


@dataclass(frozen=True)
class Unusable:
    """A kernel, or a variant of it, that cannot be planned: its spec or its source cannot be read."""

    what: str
    error: TkjitError


def select_plans(arguments: argparse.Namespace, loader: Loader) -> tuple[list[Plan], list[Unusable]]:
    """What the options select: the glue of each kernel, and its variants for each target; and what is unusable.

    Raises
    ------
    SpecError
        If they select no variant, or name what does not exist.
    """
    types = [name for name in arguments.types.split(",") if name]
    if unknown := set(types) - BY_NAME.keys():
        raise SpecError(f"--types: unknown dtype {', '.join(sorted(unknown))}; known are {', '.join(BY_NAME)}")
    targets = _targets(arguments, loader)
    selected = kernels_named(arguments.names) or kernels()
    plans: list[Plan] = []
    unusable: list[Unusable] = []
    for name in selected:
        if not arguments.names and not has_headers(loader, name, targets):
            continue  # who asks for all asks for what this machine can build
        plans += _plans_of(loader, name, targets, types, unusable)
    launches = any(isinstance(plan, LauncherPlan) for plan in plans)
    if not unusable and not launches and not any(select_extensions(arguments, loader)):
        raise SpecError(f"no variant of {', '.join(selected)} has only the dtypes {arguments.types}")
    return plans, unusable


def select_extensions(arguments: argparse.Namespace, loader: Loader) -> tuple[list[Loaded], list[Unusable]]:
    """The modules of the host functions that are named, for each target; those of one source are one."""
    targets = _targets(arguments, loader)
    named = [
        kernel for name in kernels_named(arguments.names) or kernels() if (kernel := _host_kernel(name)) is not None
    ]
    found: dict[Loaded, None] = {}
    unusable = []
    for kernel, target in itertools.product(named, targets):
        try:
            found[Loaded(kernel.extension_for(target))] = None
        except TkjitError as error:
            unusable.append(Unusable(f"{kernel.name} for {target.name}", error))
    return list(found), unusable


def _host_kernel(name: str) -> HostKernel | None:
    try:
        kernel = find(name)
    except TkjitError:  # which whoever plans it says
        return None
    return kernel if isinstance(kernel, HostKernel) else None


def has_headers(loader: Loader, name: str, targets: Sequence[Target]) -> bool:
    """Whether the header libraries that a kernel is written on are here, and serve one of the targets."""
    try:
        kernel = find(name)
        libraries = [] if isinstance(kernel, HostKernel) else [one for spec in kernel.specs for one in spec.headers]
    except TkjitError:
        return True  # it says so itself
    try:
        for library in libraries:
            find_root(library, loader.settings)
    except ToolchainError:
        return False
    return all(library.runs_on_cpu for library in libraries) or any(not target.is_cpu for target in targets)


def _plans_of(
    loader: Loader, name: str, targets: Sequence[Target], types: Sequence[str], unusable: list[Unusable]
) -> list[Plan]:
    """A kernel's plans; what goes wrong with one of them is added to ``unusable``."""
    plans: list[Plan] = []
    try:
        kernel = find(name)
        if isinstance(kernel, HostKernel):
            return []
        plans.append(loader.glue_plan(kernel.specs))
    except TkjitError as error:
        unusable.append(Unusable(name, error))
        return plans
    for spec, target in itertools.product(kernel.specs, targets):
        for variant in variants_of(spec, types):
            try:
                plans.append(loader.launcher_plan(spec, variant, target))
            except TkjitError as error:
                unusable.append(Unusable(describe(spec, variant, target), error))
    return plans


def _targets(arguments: argparse.Namespace, loader: Loader) -> list[Target]:
    """What the options name; the CPU and this machine's GPUs if they name nothing."""
    targets = [gpu_target(arch) for arch in arguments.arch.split(",") if arch]
    if arguments.device == "cpu" or (arguments.device is None and not targets):
        targets.append(loader.target("cpu"))
    if arguments.device == "cuda" or (arguments.device is None and not arguments.arch):
        import torch

        targets += {loader.target("cuda", device) for device in range(torch.cuda.device_count())}
    if not targets:
        raise SpecError("this machine has no GPU; name architectures with --arch, or --device cpu")
    return list(dict.fromkeys(targets))
