"""``export``: kernels for programs without tkjit."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tkjit.cli.output import size_text
from tkjit.cli.pool import build_all
from tkjit.config import Settings, size_of_text
from tkjit.errors import SpecError
from tkjit.exports import bundled
from tkjit.exports.write import Builder, check_languages, check_target, check_torch_options, plan_export, write_export
from tkjit.loader import Loader, Plan, loader_for
from tkjit.render.torch_binding import BINDINGS
from tkjit.system.machine import available_memory_bytes, usable_cores


def register(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("export", help="make a library for C, C++, Go and Rust, or a torch extension")
    parser.add_argument("names", nargs="*", metavar="NAME", help="kernels")
    parser.add_argument("--from-bundle", type=Path, metavar="DIR", help="unpack what bundle --export has made")
    parser.add_argument(
        "--lang", action="append", default=[], metavar="c|cpp|go|rust|torch", help="also more than once"
    )
    parser.add_argument("--binding", choices=BINDINGS, default="stable", help="of a torch extension (default: stable)")
    add_library_options(parser)
    parser.add_argument("--types", default="", metavar="bfloat16", help="only variants of these dtypes")
    parser.add_argument("--arch", default="cpu", metavar="cpu,90a,100a", help="what the library has code for")
    parser.add_argument("--jobs", type=int, metavar="N", help="compilers at once; as many as there are cores")
    parser.add_argument("--memory", metavar="8G", help="memory for all of them; as much as is free")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    parser.set_defaults(run=_export)


def add_library_options(parser: argparse.ArgumentParser) -> None:
    """The options that say what a library is besides its kernels and languages."""
    parser.add_argument(
        "--name", default="", metavar="LIBRARY", help="name of the library (default: that of its directory)"
    )
    parser.add_argument("--version", default="1.0", metavar="1.0", help="of the library")
    parser.add_argument("--package", default="", metavar="NAME", help="the Go package and the Rust crate")


def languages_of(texts: Iterable[str]) -> tuple[str, ...]:
    """The languages that options name: ``cpp,go``."""
    return check_languages(language for text in texts for language in text.split(",") if language)


def builder(arguments: argparse.Namespace) -> Builder:
    """Builds plans in parallel with a line for each; raises if one fails, when all others are built."""

    def build(loader: Loader, plans: Sequence[Plan]) -> None:
        if arguments.jobs is not None and arguments.jobs < 1:
            raise SpecError("--jobs must be at least 1")
        memory_bytes = size_of_text(arguments.memory, "--memory") if arguments.memory else available_memory_bytes()
        jobs = arguments.jobs or usable_cores()
        failed = [one for one in build_all(loader, plans, jobs, memory_bytes, has_kernels=False) if one.error]
        for outcome in failed[1:]:
            print(f"\n{outcome.what}: {outcome.error}", file=sys.stderr)
        for outcome in failed[:1]:
            assert outcome.error is not None
            raise outcome.error

    return build


def _export(arguments: argparse.Namespace) -> int:
    output: Path = arguments.output.absolute()
    if arguments.from_bundle is not None:
        if arguments.names:
            raise SpecError("--from-bundle unpacks the export that the bundle has; name it with --name, and no kernels")
        bundled.unpack(arguments.from_bundle, arguments.name, output)
        print(f"{output}: unpacked")
        return 0
    if not arguments.names:
        raise SpecError("export: name kernels")
    languages = languages_of(arguments.lang)
    check_torch_options(languages, arguments.binding, arguments.package)
    name = arguments.name or output.name
    check_target(output)
    loader = loader_for(replace(Settings.from_environment(), jit=True))  # who asks for a library means it
    archs = [arch for arch in arguments.arch.split(",") if arch]
    types = [dtype for dtype in arguments.types.split(",") if dtype]
    if languages == ("torch",):
        from tkjit.exports.torch_package import with_backwards, write_torch_package  # they import torch

        made = plan_export(loader, with_backwards(arguments.names), name, archs, types, arguments.version)
        write_torch_package(loader, made, output, arguments.binding)
        print(f"{output}: a torch extension; build it with pip install --no-build-isolation {output}")
        return 0
    made = plan_export(loader, arguments.names, name, archs, types, arguments.version, arguments.package)
    write_export(loader, made, output, languages, builder(arguments))
    size = (output / "lib" / made.soname).stat().st_size
    print(f"{output}: {len(made.signatures)} functions for {', '.join(languages)}; the library has {size_text(size)}")
    return 0
