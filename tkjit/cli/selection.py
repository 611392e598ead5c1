"""Which kernels, devices and variants a command is about: the options that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from tkjit.errors import SpecError
from tkjit.kernel import Kernel, find, kernels
from tkjit.loader import Loader, Plan
from tkjit.spec import BY_NAME, variants_of
from tkjit.targets import Target, gpu_target


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that say which variants."""
    parser.add_argument("--arch", default="", metavar="90a,80", help="GPU architectures")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="the CPU too, or the GPUs of this machine")
    parser.add_argument("--types", default="", metavar="bfloat16", help="only variants of these dtypes")


def selected(arguments: argparse.Namespace, loader: Loader) -> list[Plan]:
    """What the options select: the glue of each kernel, and its variants for each target.

    Raises
    ------
    SpecError
        If they select no variant, or name what does not exist.
    """
    types = [name for name in arguments.types.split(",") if name]
    if unknown := set(types) - BY_NAME.keys():
        raise SpecError(f"--types: unknown dtype {', '.join(sorted(unknown))}; known are {', '.join(BY_NAME)}")
    targets = _targets(arguments, loader)
    found = [find(name) for name in arguments.names or kernels()]
    plans = [plan for one in found for plan in _plans(loader, one, targets, types)]
    if len(plans) == len(found):  # nothing but glue
        raise SpecError(f"no variant of {', '.join(one.name for one in found)} has only the dtypes {arguments.types}")
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


def _plans(loader: Loader, kernel: Kernel, targets: Sequence[Target], types: Sequence[str]) -> Iterator[Plan]:
    yield loader.plans.glue(kernel.specs)
    for spec in kernel.specs:
        for target in targets:
            for variant in variants_of(spec, types):
                yield loader.plans.launcher(spec, variant, target)
