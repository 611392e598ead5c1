"""Options, shared by several commands, that select kernels, devices and variants."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from tkjit.compile.targets import Target, gpu_target
from tkjit.errors import SpecError, TkjitError, ToolchainError
from tkjit.extensions.record import Loaded
from tkjit.headers import find_root
from tkjit.kernel_objects import find, kernels, kernels_named
from tkjit.kernel_objects.host import HostKernel
from tkjit.loader import Loader, Plan
from tkjit.loader.launchers import LauncherPlan
from tkjit.loader.variant_names import describe
from tkjit.spec import BY_NAME, variants_of


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that select variants."""
    parser.add_argument("--arch", default="", metavar="90a,80", help="GPU architectures to target, or cpu")
    parser.add_argument(
        "--device",
        choices=("cpu", "cuda"),
        help="target the CPU or this machine's GPUs, in addition to --arch (default without --arch: both)",
    )
    parser.add_argument("--types", default="", metavar="bfloat16", help="select only variants of these dtypes")


@dataclass(frozen=True)
class Unusable:
    """A kernel or variant that cannot be planned, because its spec or its source cannot be read."""

    what: str
    error: TkjitError


def select_plans(arguments: argparse.Namespace, loader: Loader) -> tuple[list[Plan], list[Unusable]]:
    """Return the plans that the options select, and the kernels and variants that cannot be planned.

    For each kernel, the plans are for its glue, and for the launchers of its variants for each target.

    Raises
    ------
    SpecError
        If the options select no variant, or contain an unknown name.
    """
    types = [name for name in arguments.types.split(",") if name]
    if unknown := set(types) - BY_NAME.keys():
        raise SpecError(f"--types: unknown dtype {', '.join(sorted(unknown))}; expected one of {', '.join(BY_NAME)}")
    targets = targets_of(arguments, loader)
    selected = kernels_named(arguments.names) or kernels()
    plans: list[Plan] = []
    unusable: list[Unusable] = []
    for name in selected:
        if not arguments.names and not has_headers(loader, name, targets):
            continue  # "all kernels" means those that this machine can build
        plans += _plans_of(loader, name, targets, types, unusable)
    launches = any(isinstance(plan, LauncherPlan) for plan in plans)
    if not unusable and not launches and not any(select_extensions(arguments, loader)):
        raise SpecError(f"no variant of {', '.join(selected)} has only the dtypes {arguments.types}")
    return plans, unusable


def select_extensions(arguments: argparse.Namespace, loader: Loader) -> tuple[list[Loaded], list[Unusable]]:
    """Return the extensions of the selected host functions for each target, and the functions that cannot be planned.

    All functions of a source share one extension.
    """
    targets = targets_of(arguments, loader)
    named = [
        kernel for name in kernels_named(arguments.names) or kernels() if (kernel := _host_kernel(name)) is not None
    ]
    found: dict[Loaded, None] = {}
    unusable = []
    for kernel, target in itertools.product(named, targets):
        try:
            found[Loaded(kernel._extension_for(target))] = None
        except TkjitError as error:
            unusable.append(Unusable(f"{kernel.name} for {target.name}", error))
    return list(found), unusable


def _host_kernel(name: str) -> HostKernel | None:
    try:
        kernel = find(name)
    except TkjitError:  # select_plans reports this error
        return None
    return kernel if isinstance(kernel, HostKernel) else None


def has_headers(loader: Loader, name: str, targets: Sequence[Target]) -> bool:
    """Return whether a kernel's header libraries are installed and support at least one of the targets."""
    try:
        kernel = find(name)
        libraries = [] if isinstance(kernel, HostKernel) else [one for spec in kernel.specs for one in spec.headers]
    except TkjitError:
        return True  # the caller will run into the same error and report it
    try:
        for library in libraries:
            find_root(library, loader.settings)
    except ToolchainError:
        return False
    return all(library.runs_on_cpu for library in libraries) or any(not target.is_cpu for target in targets)


def _plans_of(
    loader: Loader, name: str, targets: Sequence[Target], types: Sequence[str], unusable: list[Unusable]
) -> list[Plan]:
    """Return a kernel's plans, and append the variants that cannot be planned to ``unusable``."""
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


def targets_of(arguments: argparse.Namespace, loader: Loader) -> list[Target]:
    """Return the targets that the options name, or by default the CPU and this machine's GPUs."""
    listed = [arch for arch in arguments.arch.split(",") if arch]
    targets = [loader.target("cpu") if arch == "cpu" else gpu_target(arch) for arch in listed]
    if arguments.device == "cpu" or (arguments.device is None and not targets):
        targets.append(loader.target("cpu"))
    if arguments.device == "cuda" or (arguments.device is None and not arguments.arch):
        import torch

        targets += {loader.target("cuda", device) for device in range(torch.cuda.device_count())}
    if not targets:
        raise SpecError("this machine has no GPU; pass architectures with --arch, or use --device cpu")
    return list(dict.fromkeys(targets))
