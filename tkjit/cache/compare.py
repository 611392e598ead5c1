"""Compares two entries, or an entry with a recipe."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tkjit.cache.checked_json import DamagedError
from tkjit.cache.entry import changes, check_intact, read_dependencies
from tkjit.cache.listing import ListedEntry
from tkjit.cache.recipe import TEXT, Recipe
from tkjit.system import files

TEXT_FILES = ("launcher.cu", "glue.cpp", "runtime.cpp", "operators.cpp", "simulator.cpp")


@dataclass(frozen=True)
class Difference:
    """A part of a key that differs between two builds.

    Parameters
    ----------
    part : str
        For example ``"flags"``, ``"torch"`` or ``"compiler"``. ``"files"`` means the files that the compiler found by
        itself.
    text : str
        The previous value and the current one.
    """

    part: str
    text: str


def from_entry(stored: ListedEntry, recipe: Recipe) -> list[Difference]:
    """List the differences between an entry and a recipe. The list is empty if the entry matches."""
    try:
        check_intact(stored.directory)
    except DamagedError as error:
        return [Difference("entry", str(error))]
    manifest = stored.manifest
    now = {**recipe.recorded_parts(), **(dict(recipe.tools) if recipe.tools is not None else manifest["tools"])}
    found = of_parts({**manifest["key"], **manifest["tools"]}, now)
    if stored.arch != recipe.arch:
        found.insert(0, Difference("architecture", f"{stored.arch} -> {recipe.arch}"))
    found = [
        Difference(TEXT, _first_change(read_text(stored), recipe.text)) if one.part == TEXT else one for one in found
    ]
    files = changes(stored.directory, manifest, recipe, exact=recipe.tools is not None)
    return found + [Difference("files", change) for change in files]


def of_parts(before: Mapping[str, str], now: Mapping[str, str]) -> list[Difference]:
    """List the parts in which two keys differ. For a list of flags, show which flags were added and removed."""
    return [
        Difference(part, _words(before.get(part, ""), now.get(part, "")))
        for part in sorted({*before, *now})
        if before.get(part) != now.get(part)
    ]


def of_files(before: ListedEntry, now: ListedEntry) -> list[Difference]:
    """Among the files that the compiler found by itself, list those that differ between two builds."""
    try:
        was, is_now = (read_dependencies(one.directory, one.manifest)["files"] for one in (before, now))
    except DamagedError as error:
        return [Difference("files", str(error))]
    changed = [name for name in sorted({*was, *is_now}) if was.get(name) != is_now.get(name)]
    states = {(True, True): "has changed", (True, False): "is no longer read", (False, True): "is now read"}
    return [Difference("files", f"{name} {states[name in was, name in is_now]}") for name in changed]


def nearest(recipe: Recipe, candidates: Sequence[ListedEntry]) -> ListedEntry | None:
    """Return the entry of the same kernel that shares the most key parts with a recipe; of several, the latest."""

    def closeness(stored: ListedEntry) -> tuple[bool, int, float]:
        manifest = stored.manifest
        if not manifest:
            return False, -1, 0.0
        parts = {**recipe.recorded_parts(), **dict(recipe.tools or ())}
        recorded = {**manifest["key"], **manifest["tools"]}
        same = sum(recorded.get(part) == value for part, value in parts.items())
        return stored.arch == recipe.arch, same, float(manifest.get("built", 0))

    same_kind = [one for one in candidates if one.name == recipe.name and _kind(one.arch) == _kind(recipe.arch)]
    return max(same_kind, key=closeness, default=None)


def read_text(stored: ListedEntry) -> str:
    """Return the text from which an entry was compiled, or an empty string if the text is missing."""
    for name in TEXT_FILES:
        path = stored.directory / name
        if path.is_file():
            return files.read(path, follow=True).decode(errors="replace")
    return ""


def _kind(arch: str) -> str:
    return "launcher" if arch.startswith(("sm_", "cpu-")) else arch


def _words(before: str, now: str) -> str:
    was, words = before.split("\n"), now.split("\n")
    if len(was) < 2 and len(words) < 2:
        return f"{before or 'nothing'} -> {now or 'nothing'}"
    gone, come = [word for word in was if word not in words], [word for word in words if word not in was]
    if not gone and not come:
        return "the same in another order"
    return " ".join([*(f"-[{word}]" for word in gone), *(f"+[{word}]" for word in come)])


def _first_change(before: str, now: str) -> str:
    """Describe how a text changed: how many lines changed, and the first changed line."""
    changed = [
        line
        for line in difflib.unified_diff(before.splitlines(), now.splitlines(), lineterm="", n=0)
        if line[:1] in "+-" and not line.startswith(("+++", "---"))
    ]
    shown = "; ".join(line.strip() for line in changed[:2])
    return f"{len(changed)} lines differ, first {shown}" if changed else "cannot be compared"


def text_diff(before: ListedEntry, now: ListedEntry) -> str:
    """Return the differences between the rendered texts of two builds, in the format of ``diff -u``."""
    was, now_is = (read_text(one).splitlines() for one in (before, now))
    lines = difflib.unified_diff(was, now_is, _label(before.directory), _label(now.directory), lineterm="", n=2)
    return "\n".join(lines)


def _label(directory: Path) -> str:
    return "/".join(directory.parts[-3:])


def resources(manifest: Mapping[str, Any]) -> dict[str, float]:
    """Return a build's times, sizes and counts of registers and spills, for a comparison with another build."""
    names = (
        "seconds",
        "peak_memory_bytes",
        "registers",
        "spill_store_bytes",
        "spill_load_bytes",
        "shared_memory_bytes",
        "stack_bytes",
    )
    return {name: manifest[name] for name in names if name in manifest}
