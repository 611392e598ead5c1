"""Puts exports into bundles, which machines without compilers can unpack."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tkjit.cache import bundle
from tkjit.errors import CacheError, SpecError
from tkjit.exports.write import FACTS, check_target, in_place_of

EXPORTS = "exports"


def files_of(directory: Path, name: str) -> dict[str, Path]:
    """Return an export's files, by their paths in a bundle.

    Symbolic links are left out, because ``unpack`` recreates them.
    """
    listed = sorted(path for path in directory.rglob("*") if path.is_file() and not path.is_symlink())
    return {f"{EXPORTS}/{name}/{path.relative_to(directory)}": path for path in listed}


def unpack(root: Path, name: str, output: Path) -> None:
    """Unpack an export from a bundle, and compare its files with the bundle's list.

    Parameters
    ----------
    name : str
        The export's name; may be empty if the bundle has only one.

    Raises
    ------
    CacheError
        If there is no such bundle, one of its files is damaged, or the directory contains something else.
    SpecError
        If the bundle has no export of that name.
    """
    check_target(output)
    if not bundle.is_bundle(root):
        raise CacheError(f"{root} is not a bundle: it has no {bundle.BUNDLE}; name a directory that tkjit bundle wrote")
    known = sorted(path.parent.name for path in (root / EXPORTS).glob(f"*/{FACTS}"))
    if not name and len(known) == 1:
        name = known[0]
    if name not in known:
        problem = f"has no export {name}" if name else "does not have exactly one export"
        raise SpecError(f"{root} {problem}; it has {', '.join(known) or 'none'}")
    prefix = f"{EXPORTS}/{name}/"
    places = [place for place in bundle.bundled_files(root) if place.startswith(prefix)]
    with in_place_of(output) as scratch:
        for place in places:
            bundle.check_file(root, place)
            to = scratch / place.removeprefix(prefix)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / place, to)
            to.chmod(0o755 if ".so." in to.name else 0o644)
        facts: dict[str, Any] = json.loads((scratch / FACTS).read_text())
        link, to = facts["link"]
        (scratch / link).symlink_to(to)
