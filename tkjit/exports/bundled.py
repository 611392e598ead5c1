"""Exports in bundles: linked where there are compilers, unpacked where there are none."""

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
    """The files of an export by their places in a bundle; links are left out, and made again when it is unpacked."""
    listed = sorted(path for path in directory.rglob("*") if path.is_file() and not path.is_symlink())
    return {f"{EXPORTS}/{name}/{path.relative_to(directory)}": path for path in listed}


def unpack(root: Path, name: str, output: Path) -> None:
    """Write an export that a bundle has; its files are compared with the bundle's list.

    Parameters
    ----------
    name : str
        The export's; empty for the only one.

    Raises
    ------
    CacheError
        If there is no such bundle, a file of it is damaged, or the directory holds something else.
    SpecError
        If the bundle has no export of that name.
    """
    check_target(output)
    if not bundle.is_bundle(root):
        raise CacheError(f"{root} is no bundle: it has no {bundle.BUNDLE}")
    known = sorted(path.parent.name for path in (root / EXPORTS).glob(f"*/{FACTS}"))
    if not name and len(known) == 1:
        name = known[0]
    if name not in known:
        raise SpecError(f"{root} has no export {name or 'that is the only one'}; it has {', '.join(known) or 'none'}")
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
