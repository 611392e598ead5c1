"""``cache push``, ``cache pull`` and ``cache sync``: moves entries between the cache and the remote cache."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tkjit.cache import DamagedError
from tkjit.cache.listing import list_entries
from tkjit.cache.remote import Remote
from tkjit.cli.output import print_json
from tkjit.cli.selection import add_options, select_extensions, select_plans
from tkjit.config import Settings
from tkjit.errors import CacheError, SpecError, TkjitError
from tkjit.extensions import load as extensions
from tkjit.loader import Loader, Plan, loader_for
from tkjit.used import plans_of_file


def add_commands(add: Any) -> None:
    """Add the commands to those of ``cache``, by a function that makes a parser of a name."""
    pushing = add("push", _push, "write its entries to the remote cache")
    pushing.add_argument("names", nargs="*", metavar="NAME", help="of these kernels")
    for name, run, text in (
        ("pull", _pull, "fetch from the remote cache what kernels need here, and compile nothing"),
        ("sync", _sync, "pull, and then push"),
    ):
        parser = add(name, run, text)
        parser.add_argument("names", nargs="*", metavar="NAME", help="kernels; all if none is named")
        add_options(parser)
        parser.add_argument("--from-file", type=Path, metavar="FILE", help="the variants that a run wrote down")


@dataclass
class Moved:
    """What became of what was to be moved.

    Parameters
    ----------
    moved, there : int
        Entries that were moved, and that were where they should be.
    missing, failed : list of str
        What neither side has, and what went wrong.
    """

    moved: int = 0
    there: int = 0
    missing: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def _push(arguments: argparse.Namespace) -> int:
    loader, remote = _loader()
    return _report(arguments, pushed=_pushed(loader, remote, arguments.names))


def _pull(arguments: argparse.Namespace) -> int:
    loader, _ = _loader()
    return _report(arguments, pulled=_pulled(loader, arguments))


def _sync(arguments: argparse.Namespace) -> int:
    loader, remote = _loader()
    pulled = _pulled(loader, arguments)
    pulled.missing.clear()  # it is no mistake that nobody has built it yet
    return _report(arguments, pulled=pulled, pushed=_pushed(loader, remote, arguments.names))


def _pushed(loader: Loader, remote: Remote, names: list[str]) -> Moved:
    """Write every entry to the server, or those of some kernels and what all kernels share."""
    loader.cache.check_trust()
    moved = Moved()
    shared = {"runtime", "operators", "simulator"}
    for entry in list_entries(loader.cache.root):
        if names and entry.name not in names and entry.arch not in shared:
            continue
        with suppress(DamagedError, FileNotFoundError):  # or removed in the meantime
            written = remote.push(entry.directory)
            moved.moved += written is True
            moved.there += written is False
    return moved


def _pulled(loader: Loader, arguments: argparse.Namespace) -> Moved:
    moved = Moved()
    for plan in _plans(loader, arguments, moved):
        try:
            if loader.find(plan) is not None:
                moved.there += 1
            elif loader.fetch(plan) is not None:
                moved.moved += 1
            elif plan is not loader.operators_plan:  # which few calls need
                moved.missing.append(plan.what)
        except TkjitError as error:
            moved.failed.append(f"{plan.what}: {error}")
    return moved


def _plans(loader: Loader, arguments: argparse.Namespace, moved: Moved) -> list[Plan]:
    """The plans of what is named, and of what all kernels share; what has none has failed."""
    if arguments.from_file is not None:
        if arguments.names or arguments.arch or arguments.device or arguments.types:
            raise SpecError("--from-file says which variants; give no names, --arch, --device or --types with it")
        plans, failed = plans_of_file(loader, arguments.from_file)
        moved.failed += [f"{what}: {error}" for what, error in failed.items()]
        return plans
    plans, unusable = select_plans(arguments, loader)
    loaded, broken = select_extensions(arguments, loader)
    moved.failed += [f"{one.what}: {one.error}" for one in (*unusable, *broken)]
    of_extensions = [plan for one in loaded for plan in extensions.plans_of(loader, one)]
    return [loader.runtime_plan, loader.operators_plan, *plans, *of_extensions]


def _loader() -> tuple[Loader, Remote]:
    loader = loader_for(replace(Settings.from_environment(), jit=False))
    if loader.cache.remote is None:
        raise CacheError("there is no remote cache; set TKJIT_CACHE_REMOTE to its URL, s3://bucket/kernels")
    return loader, loader.cache.remote


def _report(arguments: argparse.Namespace, **moved: Moved) -> int:
    if arguments.json:
        print_json({what: asdict(one) for what, one in moved.items()})
    else:
        for what, one in moved.items():
            bad = [*(f"{missing}: missing" for missing in one.missing), *one.failed]
            print(f"{one.moved} {what}, {one.there} there before, {len(bad)} missing or failed")
            for text in bad:
                print(f"  {text}", file=sys.stderr)
    return 1 if any(one.missing or one.failed for one in moved.values()) else 0
