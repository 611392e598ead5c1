"""``cache``: shows the cache's directory, entries and size, verifies files, and removes, uploads or fetches entries."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from tkjit.cache import Cache, DamagedError
from tkjit.cache.bundle import check_digest, digest, is_bundle, verify
from tkjit.cache.entry import LAYOUT
from tkjit.cache.eviction import clear, in_use, prune
from tkjit.cache.listing import ListedEntry, leftovers, list_entries, size_bytes
from tkjit.cli import remote
from tkjit.cli.output import add_json, age_text, counted, print_columns, print_json, size_text
from tkjit.config import Settings, size_of_text
from tkjit.errors import CacheError
from tkjit.loader import loader_for
from tkjit.registry import own_name


def register(commands: Any) -> None:
    """Add the command to the parser."""
    cache = commands.add_parser("cache", help="inspect, verify, shrink and share the cache")
    parts = cache.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: Any, text: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = parts.add_parser(name, help=text)
        parser.set_defaults(run=run)
        add_json(parser)
        return parser

    add("dir", _dir, "print the cache's directory")
    add("list", _list, "list the entries").add_argument(
        "names", nargs="*", metavar="NAME", help="kernels whose entries to list (default: all)"
    )
    add("size", _size, "print the size of the cache on disk")
    verifying = add("verify", _verify, "compare every file with its recorded hash")
    verifying.add_argument(
        "directory",
        nargs="?",
        type=Path,
        metavar="DIR",
        help="bundle or cache to verify (default: your cache and its layers)",
    )
    verifying.add_argument("--expect", metavar="DIGEST", help="expected digest of the bundle, as bundle printed it")
    pruning = add(
        "prune", _prune, "remove the least recently used entries, except those in use, until the cache fits a limit"
    )
    pruning.add_argument("--limit", metavar="10G", help="size to shrink the cache to (default: TKJIT_CACHE_LIMIT)")
    add("clear", _clear, "remove all entries that are not in use").add_argument(
        "names", nargs="*", metavar="NAME", help="kernels whose entries to remove (default: all)"
    )
    remote.add_commands(add)


def _dir(arguments: argparse.Namespace) -> int:
    settings = Settings.from_environment()
    if arguments.json:
        print_json({"directory": str(settings.cache_root), "layers": list(map(str, settings.cache_layers))})
    else:
        print(settings.cache_root)
    return 0


def _list(arguments: argparse.Namespace) -> int:
    cache = _cache()
    used = {one.directory for one in in_use(cache)}
    names = set(map(own_name, arguments.names))
    entries = [one for one in list_entries(cache.root) if not names or one.name in names]
    if arguments.json:
        print_json([{**_as_json(one), "in_use": one.directory in used, "manifest": _shown(one)} for one in entries])
        return 0
    rows = [("kernel", "for", "variant", "size", "used", "")]
    for entry in sorted(entries, key=lambda entry: (entry.name, entry.arch, -entry.used)):
        what = str(entry.manifest.get("what", "damaged"))
        variant = what[what.find("(") + 1 : what.rfind(")")] if "=" in what else ""
        state = "in use" if entry.directory in used else ""
        rows.append((entry.name, entry.arch, variant, size_text(entry.size_bytes), age_text(entry.used), state))
    print_columns(rows)
    return 0


def _size(arguments: argparse.Namespace) -> int:
    cache = _cache()
    entries = list_entries(cache.root)
    total, left = sum(one.size_bytes for one in entries), sum(map(size_bytes, leftovers(cache.root)))
    if arguments.json:
        print_json(
            {
                "entries": len(entries),
                "entries_bytes": total,
                "leftovers_bytes": left,
                "limit_bytes": cache.limit_bytes,
            }
        )
        return 0
    print(f"{len(entries)} entries, {size_text(total)}; failed builds and other leftovers, {size_text(left)}")
    print(f"limit: {size_text(cache.limit_bytes) if cache.limit_bytes is not None else 'none (TKJIT_CACHE_LIMIT)'}")
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    settings = Settings.from_environment()
    places = [arguments.directory] if arguments.directory else [*settings.cache_layers, settings.cache_root]
    count, problems = 0, []
    answer: dict[str, Any] = {}
    if arguments.expect is not None:
        if arguments.directory is None:
            raise CacheError("--expect needs the directory of a bundle")
        answer = {"digest": digest(arguments.directory), "expected": arguments.expect}
        try:
            check_digest(arguments.directory, arguments.expect)
        except DamagedError as error:
            problems.append(str(error))
    for place in places:
        if arguments.directory and not (is_bundle(place) or (place / LAYOUT).is_dir()):
            raise CacheError(f"{place} is neither a cache nor a bundle")
        entries, found = verify(place)
        count += len(entries)
        problems += found
    if arguments.json:
        print_json({"entries": count, "problems": problems, **answer})
    else:
        for problem in problems:
            print(problem, file=sys.stderr)
        print(f"{counted(count, 'entry', 'entries')}, {counted(len(problems), 'problem')}")
    return 1 if problems else 0


def _prune(arguments: argparse.Namespace) -> int:
    cache = _cache()
    limit = size_of_text(arguments.limit, "--limit") if arguments.limit else cache.limit_bytes
    if limit is None:
        raise CacheError("there is no limit; pass --limit, or set TKJIT_CACHE_LIMIT")
    return _print_removed(prune(cache, limit), as_json=arguments.json)


def _clear(arguments: argparse.Namespace) -> int:
    names = set(map(own_name, arguments.names))
    removed = clear(_cache(), lambda one: not names or one.name in names)
    choices = loader_for(Settings.from_environment()).tuned.clear(names)
    return _print_removed(removed, choices, as_json=arguments.json)


def _print_removed(removed: list[ListedEntry], choices: int = 0, *, as_json: bool) -> int:
    if as_json:
        print_json({"removed": [_as_json(one) for one in removed], "tuned_removed": choices})
    else:
        tuned = f", and {choices} tuned configurations" if choices else ""
        print(f"removed {len(removed)} entries, {size_text(sum(one.size_bytes for one in removed))}{tuned}")
    return 0


def _as_json(one: ListedEntry) -> dict[str, Any]:
    return {
        "name": one.name,
        "arch": one.arch,
        "abi": one.abi,
        "directory": str(one.directory),
        "size_bytes": one.size_bytes,
        "used": one.used,
    }


def _shown(one: ListedEntry) -> dict[str, Any]:
    return {name: value for name, value in one.manifest.items() if name != "key"}


def _cache() -> Cache:
    cache = loader_for(Settings.from_environment()).cache
    cache.check_trust()
    return cache
