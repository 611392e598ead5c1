"""``headers``: lists header libraries with their directories, and installs them."""

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
    parser = commands.add_parser("headers", help="list and install header libraries")
    kinds = parser.add_subparsers(required=True, metavar="COMMAND")
    kinds.add_parser("list", help="list the known libraries and where each was found").set_defaults(run=_list)
    add = kinds.add_parser("add", help="install libraries into the cache, in pinned versions from the network")
    installed = sorted(name for name, library in LIBRARIES.items() if not library.package)
    add.add_argument(
        "names", nargs="+", choices=installed, metavar="NAME", help=f"libraries to install: {', '.join(installed)}"
    )
    add.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="DIR|ARCHIVE",
        help="install from this directory or archive instead of the network",
    )
    add.set_defaults(run=_add)


def where(library: HeaderLibrary, settings: Settings) -> str:
    """Describe where a library is and how it was found; return an empty string if it is not found."""
    from tkjit.headers.install import origin_of

    try:
        root = find_root(library, settings)
    except ToolchainError:
        return ""
    if root is None:
        return "the toolkit's own, if the CUDA toolkit has it"
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
        raise SpecError("--from installs one library; name only one")
    for name in arguments.names:
        root = install(LIBRARIES[name], Settings.from_environment(), arguments.source)
        print(f"{name}: {root} ({origin_of(root)})")
    return 0
