"""``cache push`` and ``cache pull``: copy entries between the cache and the remote cache."""

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
from tkjit.recorded_run import plans_of_file


def add_commands(add: Any) -> None:
    """Add the commands to ``cache``; ``add`` is the function that makes a parser for one of them."""
    pushing = add("push", _push, "upload entries to the remote cache")
    pushing.add_argument("names", nargs="*", metavar="NAME", help="kernels whose entries to upload (default: all)")
    pulling = add("pull", _pull, "fetch the entries that kernels need here from the remote cache, and compile nothing")
    pulling.add_argument(
        "names", nargs="*", metavar="NAME", help="kernels, packages or FILE.py to fetch (default: all kernels)"
    )
    add_options(pulling)
    pulling.add_argument("--from-file", type=Path, metavar="FILE", help="fetch what a run recorded")


@dataclass
class Moved:
    """The result of a push or a pull.

    Parameters
    ----------
    moved, there : int
        How many entries were copied, and how many were already there.
    tuned : int
        How many tuned configurations were uploaded.
    missing, failed : list of str
        The builds that neither the cache nor the remote cache has, and the error messages.
    """

    moved: int = 0
    there: int = 0
    tuned: int = 0
    missing: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def _push(arguments: argparse.Namespace) -> int:
    loader, remote = _loader()
    return _report(arguments, pushed=_pushed(loader, remote, arguments.names))


def _pull(arguments: argparse.Namespace) -> int:
    loader, _ = _loader()
    return _report(arguments, pulled=_pulled(loader, arguments))


def _pushed(loader: Loader, remote: Remote, names: list[str]) -> Moved:
    """Upload all entries; or, if kernels are named, their entries and the entries that all kernels share."""
    loader.cache.check_trust()
    moved = Moved()
    shared = {"runtime", "operators", "launch_programs", "simulator"}
    for entry in list_entries(loader.cache.root):
        if names and entry.name not in names and entry.arch not in shared:
            continue
        with suppress(DamagedError, FileNotFoundError):  # the entry may have been removed in the meantime
            written = remote.push(entry.directory)
            moved.moved += written is True
            moved.there += written is False
    moved.tuned = loader.tuned.push(names)
    return moved


def _pulled(loader: Loader, arguments: argparse.Namespace) -> Moved:
    moved = Moved()
    loader.tuned.asks_again = True
    for plan in _plans(loader, arguments, moved):
        try:
            if loader.find(plan) is not None:
                moved.there += 1
            elif loader.fetch(plan) is not None:
                moved.moved += 1
            elif plan not in (loader.operators_plan, loader.launch_programs_plan):  # not every call needs these
                moved.missing.append(plan.what)
        except TkjitError as error:
            moved.failed.append(f"{plan.what}: {error}")
    return moved


def _plans(loader: Loader, arguments: argparse.Namespace, moved: Moved) -> list[Plan]:
    """Return the selected plans and those that all kernels share. Add errors in planning to ``moved.failed``."""
    if arguments.from_file is not None:
        if arguments.names or arguments.arch or arguments.device or arguments.types:
            raise SpecError("--from-file sets the variants; leave out names, --arch, --device and --types")
        plans, failed = plans_of_file(loader, arguments.from_file)
        moved.failed += [f"{what}: {error}" for what, error in failed.items()]
        return plans
    plans, unusable = select_plans(arguments, loader)
    loaded, broken = select_extensions(arguments, loader)
    moved.failed += [f"{one.what}: {one.error}" for one in (*unusable, *broken)]
    of_extensions = [plan for one in loaded for plan in extensions.plans_of(loader, one)]
    return [loader.runtime_plan, loader.operators_plan, loader.launch_programs_plan, *plans, *of_extensions]


def _loader() -> tuple[Loader, Remote]:
    loader = loader_for(replace(Settings.from_environment(), jit=False))
    if loader.cache.remote is None:
        raise CacheError("there is no remote cache; set TKJIT_CACHE_REMOTE to its URL, such as s3://bucket/kernels")
    return loader, loader.cache.remote


def _report(arguments: argparse.Namespace, **moved: Moved) -> int:
    if arguments.json:
        print_json({what: asdict(one) for what, one in moved.items()})
    else:
        for what, one in moved.items():
            bad = [*(f"{missing}: missing" for missing in one.missing), *one.failed]
            tuned = f", {one.tuned} tuned configurations" if one.tuned else ""
            print(f"{one.moved} {what}{tuned}, {one.there} already there, {len(bad)} missing or failed")
            for text in bad:
                print(f"  {text}", file=sys.stderr)
    return 1 if any(one.missing or one.failed for one in moved.values()) else 0
