"""Writes an export: a directory with a library, its headers, and packages for other languages."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tkjit.cache.recipe import digest_of_file
from tkjit.compile.targets import Target, gpu_target
from tkjit.errors import CacheError, SpecError
from tkjit.exports.build import link_library, object_plans, write_includes
from tkjit.exports.c_header import render_header
from tkjit.exports.cpp_wrapper import render_wrapper
from tkjit.exports.go_package import render_go
from tkjit.exports.model import LANGUAGES, Export
from tkjit.exports.names import check_names
from tkjit.exports.packaging import render_packaging, render_readme
from tkjit.exports.rust_crate import render_rust
from tkjit.kernel_objects import Kernel, find, kernels_named
from tkjit.kernel_objects.host import HostKernel
from tkjit.loader import Loader, Plan
from tkjit.system.machine import usable_cores

FACTS = "export.json"
_CPP = Path(__file__).with_name("cpp")
Builder = Callable[[Loader, Sequence[Plan]], None]


def check_languages(languages: Iterable[str]) -> tuple[str, ...]:
    """Sort and check the languages: C comes first, and PyTorch must be alone.

    Raises
    ------
    SpecError
        If a language is unknown, or PyTorch is combined with others.
    """
    wanted = set(languages)
    if unknown := wanted - {*LANGUAGES, "torch"}:
        known = ", ".join((*LANGUAGES, "torch"))
        raise SpecError(f"unknown language {', '.join(sorted(unknown))}; expected one of {known}")
    if "torch" in wanted:
        if others := wanted - {"torch"}:
            raise SpecError(f"torch cannot be combined with {', '.join(sorted(others))}; make two exports")
        return ("torch",)
    return tuple(language for language in LANGUAGES if language in wanted | {"c"})


def check_torch_options(languages: tuple[str, ...], binding: str, package: str) -> None:
    """Reject options that belong to another language.

    Raises
    ------
    SpecError
        If ``package`` is given for PyTorch, or ``binding`` for another language.
    """
    if languages == ("torch",):
        if package:
            raise SpecError(
                f"the package {package!r} is only for Go and Rust; leave it out, because a torch extension is named "
                "after the export"
            )
    elif binding != "stable":
        raise SpecError(f"the binding {binding!r} is only for torch extensions; leave it out")


def kernels_of(kernels: Iterable[str | Kernel]) -> list[Kernel]:
    """Find the kernels that are given by name, and check all of them.

    Raises
    ------
    SpecError
        If there is no such kernel, or it cannot be exported.
    """
    found = []
    groups = ([item] if isinstance(item, Kernel) else kernels_named([item]) for item in kernels)
    for item in (item for group in groups for item in group):
        kernel = item if isinstance(item, Kernel) else find(item)
        if isinstance(kernel, HostKernel):
            raise SpecError(
                f"{kernel.name} cannot be exported: its source is written for PyTorch's tensors, which C does not "
                "have; write a spec for its kernel and the launch"
            )
        found.append(kernel)
    return found


def plan_export(
    loader: Loader,
    kernels: Iterable[str | Kernel],
    name: str,
    archs: Iterable[str],
    types: Iterable[str] = (),
    version: str = "1.0",
    package: str = "",
) -> Export:
    """Return the description of an export, which ``write_export`` takes.

    Raises
    ------
    SpecError
        If there is no such kernel, or a kernel, name, version or dtype cannot be exported.
    ToolchainError
        If an architecture is not valid.
    """
    specs = [tuple(kernel.specs) for kernel in kernels_of(kernels)]
    targets: dict[Target, None] = {}
    for arch in archs:
        targets[loader.target("cpu") if arch == "cpu" else gpu_target(arch)] = None
    return Export(name, tuple(specs), tuple(targets), tuple(types), version, package)


def build_in_threads(loader: Loader, plans: Sequence[Plan]) -> None:
    """Build plans in parallel, one per core, and raise the first error."""
    with ThreadPoolExecutor(usable_cores()) as pool:
        for built in [pool.submit(loader.find_or_build, plan) for plan in plans]:
            built.result()


def write_export(
    loader: Loader, made: Export, output: Path, languages: tuple[str, ...], build: Builder = build_in_threads
) -> Path:
    """Build and write an export, and return its directory. Nothing is written if anything fails."""
    output = output.absolute()
    check_target(output)
    check_names(made, languages)
    plans = object_plans(loader, made)
    build(loader, plans)
    with in_place_of(output) as scratch:
        (scratch / "lib").mkdir(parents=True)
        header, interface = render_header(made)
        more = {}
        if "cpp" in languages:
            more[f"{made.name}.hpp"] = render_wrapper(made)
            more[f"{made.name}/tensors.hpp"] = (_CPP / "tensors.hpp").read_text(encoding="utf-8")
        write_includes(made, header, scratch / "include", more)
        staging = scratch / "staging"
        staging.mkdir()
        objects = [(plan, loader.open(plan).loaded) for plan in plans]
        library = link_library(loader, made, objects, scratch / "include", interface, staging)
        library.chmod(0o755)
        library.rename(scratch / "lib" / made.soname)
        shutil.rmtree(staging)
        files = {**render_packaging(made), "README.md": render_readme(made, languages)}
        files |= render_go(made) if "go" in languages else {}
        files |= render_rust(made, interface) if "rust" in languages else {}
        for place, text in files.items():
            (scratch / place).parent.mkdir(parents=True, exist_ok=True)
            (scratch / place).write_text(text, encoding="utf-8")
        link = f"lib/lib{made.name}.so"
        (scratch / link).symlink_to(made.soname)
        write_facts(scratch, made, languages, link=[link, made.soname])
    return output


def check_target(output: Path) -> None:
    """Reject a target path that holds anything but an export. An export may be overwritten.

    Raises
    ------
    CacheError
        If the path holds something else.
    """
    if output.exists() and not (output / FACTS).is_file() and (not output.is_dir() or any(output.iterdir())):
        raise CacheError(f"{output} exists and is not an export; name a new directory")


def write_facts(directory: Path, made: Export, languages: tuple[str, ...], **more: object) -> None:
    """Write ``export.json``, which describes the export and has the digest of each file."""
    listed = sorted(path for path in directory.rglob("*") if path.is_file() and not path.is_symlink())
    facts = {
        "name": made.name,
        "version": made.version,
        "kernels": [specs[0].name for specs in made.kernels],
        "targets": [target.name for target in made.targets],
        "languages": list(languages),
        **more,
        "files": {str(path.relative_to(directory)): digest_of_file(path) for path in listed},
    }
    (directory / FACTS).write_text(json.dumps(facts, indent=1) + "\n")


@contextmanager
def in_place_of(output: Path) -> Iterator[Path]:
    """Yield a directory to fill, which then replaces ``output``. If anything fails, the new directory is removed.

    Raises
    ------
    CacheError
        If the directory cannot be written.
    """
    scratch = output.with_name(f".{output.name}-{secrets.token_hex(4)}")
    try:
        yield scratch
        output.parent.mkdir(parents=True, exist_ok=True)
        replaced = scratch.with_name(f"{scratch.name}-old")
        if output.exists():
            output.rename(replaced)
        scratch.rename(output)
        shutil.rmtree(replaced, ignore_errors=True)
    except OSError as error:
        raise CacheError(f"cannot write the export {output}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
