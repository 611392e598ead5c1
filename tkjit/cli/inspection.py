"""``list`` prints the kernels, and ``show`` prints a kernel's spec and rendered text, or its compiled code.

Only ``show`` with ``--resources``, ``--ptx`` or ``--sass`` compiles something.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from tkjit import registry
from tkjit.cache.listing import list_entries
from tkjit.cli.headers import where
from tkjit.cli.output import add_json, print_json
from tkjit.compile.targets import Target, gpu_target, modelled_arch
from tkjit.config import BINDINGS, Settings
from tkjit.errors import SpecError, TkjitError
from tkjit.extensions.plans import LACKING
from tkjit.kernel_objects import Kernel, find, kernels, kernels_named
from tkjit.kernel_objects.host import HostKernel
from tkjit.loader import Loader, loader_for
from tkjit.packages import packages
from tkjit.render.text import field_text
from tkjit.spec import LIBRARIES, CExpr, Spec
from tkjit.spec.expr import Expr


def register(commands: Any) -> None:
    """Add the commands to the parser."""
    listing = commands.add_parser("list", help="list the kernels that load finds")
    add_json(listing)
    listing.set_defaults(run=_list)
    show = commands.add_parser("show", help="print a kernel's spec and the code rendered from it")
    show.add_argument(
        "name",
        metavar="NAME",
        help="kernel or FILE.py:NAME to print; FILE.py or a package stands for all of its kernels",
    )
    show.add_argument("--arch", default="", help="architecture to show the code of, such as 90a or cpu")
    show.add_argument(
        "--types", default="", metavar="bfloat16", help="dtypes of the variant to show, separated by commas"
    )
    shown = show.add_mutually_exclusive_group()
    shown.add_argument("--binding", choices=BINDINGS, help="kind of glue to render (default: tkjit's own)")
    shown.add_argument(
        "--resources",
        dest="listing",
        action="store_const",
        const="resources",
        help="compile for a GPU, and print the registers, spills and shared memory",
    )
    shown.add_argument(
        "--ptx", dest="listing", action="store_const", const="ptx", help="compile for a GPU, and print only the PTX"
    )
    shown.add_argument(
        "--sass",
        dest="listing",
        action="store_const",
        const="sass",
        help="compile for a GPU, and print only the machine code",
    )
    show.set_defaults(run=_show)


@dataclass(frozen=True)
class Listed:
    """One kernel in the output of ``list``.

    Parameters
    ----------
    summary : str
        The first line of the kernel's docstring; empty if the kernel cannot be read.
    error : str
        Why the kernel cannot be read.
    missing : tuple of str
        The header libraries that the kernel needs but that are not installed. Always empty for a package's kernel,
        because the package's code is not run.
    package : str
        The installed package that provides the kernel, or a broken package that provides none.
    """

    name: str
    summary: str = ""
    error: str = ""
    missing: tuple[str, ...] = ()
    package: str = ""


def _list(arguments: argparse.Namespace) -> int:
    settings = Settings.from_environment()
    missing = {name for name, library in LIBRARIES.items() if not where(library, settings)}
    listed = [_listed(name, missing) for name in kernels() if "." not in name] + _listed_of_packages()
    if arguments.json:
        print_json([asdict(one) for one in listed])
    else:
        _print_list(listed)
    return int(any(one.error for one in listed))


def _listed(name: str, missing: set[str]) -> Listed:
    try:
        kernel = find(name)
        needed = (
            ()
            if isinstance(kernel, HostKernel)
            else {library.name for spec in kernel.specs for library in spec.headers if library.root is None}
        )
        return Listed(name, kernel._summary, missing=tuple(sorted(missing.intersection(needed))))
    except TkjitError as error:
        return Listed(name, error=str(error))


def _listed_of_packages() -> list[Listed]:
    """Return the kernels of installed packages, found in the text of their files without running them."""
    listed = []
    for package in sorted(packages().values(), key=lambda package: package.name):
        if package.problem:
            listed.append(Listed(package.name, error=package.problem, package=package.distribution))
            continue
        for name, places in sorted(registry.definitions(package.place).items()):
            summary = registry.summary_in_text(Path(places[0][0]), name)
            listed.append(Listed(f"{package.name}.{name}", summary, package=package.distribution))
    return listed


def _print_list(listed: list[Listed]) -> None:
    """Print the kernels that can be compiled, then those that lack header libraries, then those of each package."""

    def group_of(one: Listed) -> tuple[str, tuple[str, ...]]:
        return one.package, one.missing

    width = max((len(one.name) for one in listed), default=0)
    for (package, missing), group in groupby(sorted(listed, key=group_of), key=group_of):
        if package:
            print(f"\nFrom the package {package}:\n")
        if missing:
            print(f"\nAvailable once their headers are installed (python -m tkjit headers add {' '.join(missing)}):\n")
        for item in group:
            print(f"{item.name:<{width}}  {f'cannot be read: {item.error}' if item.error else item.summary}".rstrip())


def _show(arguments: argparse.Namespace) -> int:
    for name in kernels_named([arguments.name]):
        _show_kernel(name, arguments)
    return 0


def _show_kernel(name: str, arguments: argparse.Namespace) -> None:
    kernel = find(name)
    if arguments.listing:
        _show_compiled(kernel, arguments)
        return
    print(kernel.__doc__)
    if isinstance(kernel, HostKernel):
        print(f"\n{kernel}\n  schema: {kernel.schema}")
        if builds := _object_lines(kernel._extension_name):
            print("\n".join(["", "builds in the cache:", *builds]))
        return
    tuned = loader_for(Settings.from_environment()).tuned
    for spec in kernel.specs:
        chosen = [f"tuned: {choice}" for choice in tuned.all(spec)]
        print("\n".join(["", *spec_lines(spec), *chosen]))
    if builds := _build_lines(kernel.name):
        print("\n".join(["", "builds in the cache:", *builds]))
    if arguments.arch not in ("", "cpu"):
        gpu_target(arguments.arch)
    types = _types_of(kernel.specs[0], arguments.types)
    rendered = kernel.render(arch=arguments.arch, binding=arguments.binding or "", **types)
    for title, text in (("glue.cpp", rendered.glue), ("launcher.cu", rendered.launcher)):
        print(f"\n==== {title}\n{text}", end="")


def _show_compiled(kernel: Kernel | HostKernel, arguments: argparse.Namespace) -> None:
    """Compile one variant of each overload for a GPU, and print its resources, PTX or machine code."""
    from tkjit.loader.listing import listing_of

    if isinstance(kernel, HostKernel):
        raise SpecError(f"{kernel.name} is a function of a torch extension; --{arguments.listing} is only for kernels")
    loader = loader_for(replace(Settings.from_environment(), jit=True))  # the command itself asks for compilation
    target = _target(arguments.arch, kernel, loader)
    for overload, spec in enumerate(kernel.specs):
        chosen, variant = kernel._chosen(overload, _types_of(spec, arguments.types))
        print(listing_of(loader, chosen, variant, target, arguments.listing).rstrip("\n"))


def _types_of(spec: Spec, text: str) -> dict[str, Any]:
    """Return the dtypes that the command's ``--types`` chooses for a spec's variants, such as T and U."""
    options = {name: found for name, found in spec.variants if name in spec.type_variants}
    for dtype in filter(None, text.split(",")):
        if not any(dtype in found for found in options.values()):
            return dict.fromkeys(options, dtype)  # an error names the variants
    fitting = {name: [one for one in text.split(",") if one in found] for name, found in options.items()}
    return {name: found[0] for name, found in fitting.items() if found}


def _target(arch: str, kernel: Kernel, loader: Loader) -> Target:
    """Return the GPU to compile for: the given one, or else this machine's."""
    if arch == "cpu":
        raise SpecError(f"{kernel.name}: code for the CPU has no PTX, SASS or registers to show; use --arch 90a")
    if arch:
        return gpu_target(arch)
    import torch

    if not torch.cuda.is_available():
        raise SpecError(f"{kernel.name}: this machine has no GPU; choose an architecture, for example --arch 90a")
    return loader.target("cuda", torch.cuda.current_device())


def last_builds(name: str) -> dict[str, Mapping[str, Any]]:
    """Return the manifest of the last build of each variant and module of a kernel, keyed by its description."""
    cache = loader_for(Settings.from_environment()).cache
    builds = [one for one in list_entries(cache.root) if one.name == name and one.abi == cache.abi and one.manifest]
    found = {one.manifest["what"]: one.manifest for one in sorted(builds, key=lambda one: float(one.manifest["built"]))}
    return dict(sorted(found.items()))


def _object_lines(name: str) -> list[str]:
    """Describe how the sources of an extension were last compiled."""
    lines = []
    for what, manifest in last_builds(name).items():
        if " of the extension " not in what:
            continue  # this is the list of the extension's functions, or the module that is linked from the objects
        if lacking := manifest.get(LACKING):
            lines.append(f"  {what}: with torch's own headers, since tkjit's lack {lacking}")
        else:
            lines.append(f"  {what}: with tkjit's headers for torch")
    return lines


def _build_lines(name: str) -> list[str]:
    """Describe the GPU resources of each variant's last build, and of the other kernels in the same file."""
    from tkjit.loader.listing import resource_lines

    return [f"  {line}" for what, manifest in last_builds(name).items() for line in resource_lines(what, manifest)]


def spec_lines(spec: Spec) -> list[str]:
    """Describe a spec in lines, one for each fact."""

    def join_expressions(expressions: tuple[Expr, ...] | CExpr) -> str:
        return str(expressions) if isinstance(expressions, CExpr) else ", ".join(map(str, expressions))

    facts = {
        "entry": spec.entry,
        "source": ", ".join(f"{arch + ': ' if arch else ''}{source.place}" for arch, source in spec.sources),
        "on the CPU": f"as sm_{modelled_arch(dict(spec.sources), Settings.from_environment().model_arch)}",
        "struct": spec.struct or ("plain arguments" if spec.args else "Globals (rendered)"),
        "variants": "; ".join(f"{name} in {', '.join(map(str, options))}" for name, options in spec.variants),
        "tune": "; ".join(f"{name} in {', '.join(map(str, options))}" for name, options in spec.tuning),
        "dims": "; ".join(f"{name} = {expr}" for name, expr in spec.derived),
        "grid": join_expressions(spec.grid),
        "block": join_expressions(spec.block),
        "shared_memory": str(spec.shared_memory or ""),
        "cluster": ", ".join(map(str, spec.cluster)),
        "config": spec.config or "",
        "headers": ", ".join(library.name for library in spec.headers),
        "constraints": join_expressions((*spec.constraints, *spec.tuning_constraints)),
        "flags": " ".join(spec.flags),
        "compiler": spec.compiler,
        "reference": "yes" if spec.reference else "none",
    }
    fields = [f"  {field_text(f)}" for f in spec.fields]
    return ["fields:", *fields, *(f"{name}: {value}" for name, value in facts.items() if value)]
