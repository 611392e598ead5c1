"""``headers``: lists the header libraries of kernels and their directories, and installs one."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tkjit.config import Settings
from tkjit.errors import SpecError, ToolchainError
from tkjit.headers import cached_root, find_root, how_to_install
from tkjit.spec import LIBRARIES, HeaderLibrary


def register(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("headers", help="header libraries: where they lie, and how to install one")
    kinds = parser.add_subparsers(required=True, metavar="COMMAND")
    kinds.add_parser("list", help="the libraries that are known by name").set_defaults(run=_list)
    add = kinds.add_parser("add", help="install one into the cache: a pinned version, from the network")
    installed = sorted(name for name, library in LIBRARIES.items() if not library.package)
    add.add_argument("names", nargs="+", choices=installed, metavar="NAME", help=", ".join(installed))
    add.add_argument("--from", dest="source", type=Path, metavar="DIR|ARCHIVE", help="take it from there instead")
    add.set_defaults(run=_add)


def where(library: HeaderLibrary, settings: Settings) -> str:
    """Where a library lies, for a person; empty if it is not found."""
    from tkjit.headers.install import origin_of

    try:
        root = find_root(library, settings)
    except ToolchainError:
        return ""
    if root is None:
        return "the toolkit's own, if it has it"
    origin = origin_of(root) if root == cached_root(library.name, settings) else library.variable
    if library.package:
        origin = f"the package {library.package}"
    return f"{root} ({origin})"


def _list(arguments: argparse.Namespace) -> int:
    settings = Settings.from_environment()
    width = max(map(len, LIBRARIES))
    for name, library in sorted(LIBRARIES.items()):
        print(f"{name:<{width}}  {where(library, settings) or f'not found: {how_to_install(library)}'}")
    return 0


def _add(arguments: argparse.Namespace) -> int:
    from tkjit.headers.install import install, origin_of

    if arguments.source is not None and len(arguments.names) > 1:
        raise SpecError("--from has one library; name one")
    for name in arguments.names:
        root = install(LIBRARIES[name], Settings.from_environment(), arguments.source)
        print(f"{name}: {root} ({origin_of(root)})")
    return 0
