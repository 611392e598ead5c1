"""``why`` reports cache hits and the reasons for misses. ``diff`` shows the changes between two builds."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tkjit.bindings.recorded_calls import plans_of, read_calls
from tkjit.cache.compare import from_entry, nearest, of_files, of_parts, resources, text_diff
from tkjit.cache.listing import ListedEntry, list_entries
from tkjit.cli.output import add_json, age_text, print_columns, print_json
from tkjit.cli.selection import add_options, select_extensions, select_plans
from tkjit.compile.resources import resources_text
from tkjit.config import Settings
from tkjit.errors import CacheError, SpecError, TkjitError
from tkjit.extensions import load as extensions
from tkjit.extensions.plans import LACKING
from tkjit.extensions.record import Loaded, read_extensions
from tkjit.kernel_objects import kernels_named
from tkjit.loader import Plan, loader_for
from tkjit.registry import own_name


def register(commands: Any) -> None:
    """Add the commands to the parser."""
    why = commands.add_parser("why", help="report cache hits and misses, and the reason for each miss")
    why.add_argument("names", nargs="*", metavar="NAME", help="kernels, packages or FILE.py to look up")
    why.add_argument(
        "--from-file",
        type=Path,
        metavar="FILE",
        help="look up the extensions and bound calls that a run recorded",
    )
    add_options(why)
    add_json(why)
    why.set_defaults(run=_why)
    diff = commands.add_parser("diff", help="compare the last two builds of each variant of a kernel")
    diff.add_argument("name", metavar="NAME", help="kernel to compare, or FILE.py for all kernels in it")
    diff.add_argument("--text", action="store_true", help="also print the changed lines of the rendered text")
    add_json(diff)
    diff.set_defaults(run=_diff)


def _why(arguments: argparse.Namespace) -> int:
    """Return 0 if a call would compile nothing, and 1 if it would compile something."""
    loader = loader_for(Settings.from_environment())
    cache = loader.cache
    cache.check_trust()
    everything = [one for root in (*cache.layers, cache.root) for one in list_entries(root) if one.abi == cache.abi]
    plans: list[Plan] = []
    unusable: list[Any] = []
    answers: list[dict[str, Any]] = []
    loaded_extensions: list[Loaded] = []
    if arguments.names:
        plans, unusable = select_plans(arguments, loader)
        plans.insert(0, loader.runtime_plan)
        loaded_extensions, broken = select_extensions(arguments, loader)
        unusable += broken
    elif arguments.from_file is None:
        raise SpecError("why: name at least one kernel, or pass --from-file with the record of a run")
    if arguments.from_file is not None:
        calls = read_calls(arguments.from_file)
        plans += plans_of(loader, calls) if calls else []
        loaded_extensions += read_extensions(arguments.from_file)
    for loaded in loaded_extensions:
        try:
            plans += extensions.plans_of(loader, loaded)
        except TkjitError as error:
            answers.append({"what": f"the extension {loaded.extension.name}", "hit": False, "error": str(error)})
    answers += [{"what": one.what, "hit": False, "error": str(one.error)} for one in unusable]
    for plan in plans:
        try:
            entry = loader.find(plan)
        except SpecError as error:
            answers.append({"what": plan.what, "hit": False, "error": str(error)})
            continue
        answer: dict[str, Any] = {"what": plan.what, "hit": entry is not None}
        if entry is not None:
            answer |= {"directory": str(entry.directory), "built": entry.manifest.get("built")}
            if lacking := entry.manifest.get(LACKING):
                answer["lacking"] = lacking
        else:
            answer |= _nearest_miss(plan, everything)
        answers.append(answer)
    if arguments.json:
        print_json(answers)
    else:
        for answer in answers:
            _print_answer(answer)
    return 0 if all(answer["hit"] for answer in answers) else 1


def _nearest_miss(plan: Plan, everything: list[ListedEntry]) -> dict[str, Any]:
    # compare with another variant of the kernel only if this variant was never built
    same = [one for one in everything if one.manifest.get("what") == plan.what] or everything
    near = nearest(plan.recipe, same)
    if near is None:
        return {"nearest": None, "differences": [], "warmup": plan.warmup}
    differences = [{"part": one.part, "text": one.text} for one in from_entry(near, plan.recipe)]
    return {
        "nearest": str(near.directory),
        "nearest_what": near.manifest.get("what"),
        "built": near.manifest.get("built"),
        "differences": differences,
        "warmup": plan.warmup,
    }


def _print_answer(answer: dict[str, Any]) -> None:
    if answer["hit"]:
        print(f"hit   {answer['what']}, built {age_text(answer['built'])} ago: {answer['directory']}")
        if "lacking" in answer:
            print(f"      compiled with torch's own headers: tkjit's lack {answer['lacking']}")
        return
    print(f"miss  {answer['what']}")
    if "error" in answer:
        print(f"      {answer['error']}")
        return
    if answer["nearest"] is None:
        print("      nothing like it was built here")
    else:
        built = f", built {age_text(answer['built'])} ago" if answer["built"] else ""
        print(f"      nearest is {answer['nearest_what'] or 'a damaged entry'}{built}: {answer['nearest']}")
    for difference in answer["differences"]:
        print(f"      {difference['part']}: {difference['text']}")
    print(f"      to build it: {answer['warmup']}")


def _diff(arguments: argparse.Namespace) -> int:
    cache = loader_for(Settings.from_environment()).cache
    cache.check_trust()
    names = kernels_named([arguments.name]) if arguments.name.endswith(".py") else [arguments.name]
    own = {own_name(name) for name in names}
    builds: dict[str, list[ListedEntry]] = {}
    for entry in list_entries(cache.root):
        if entry.name in own and (what := entry.manifest.get("what")):
            builds.setdefault(str(what), []).append(entry)
    if not builds:
        raise CacheError(f"{arguments.name} has no build in {cache.root}")
    compared = [_compare(what, ones) for what, ones in sorted(builds.items())]
    if arguments.json:
        print_json(compared)
        return 0
    for comparison in compared:
        _print_comparison(comparison, with_text=arguments.text)
    return 0


def _compare(what: str, builds: list[ListedEntry]) -> dict[str, Any]:
    last = sorted(builds, key=lambda one: float(one.manifest["built"]))[-2:]
    if len(last) < 2:
        return {
            "what": what,
            "builds": [str(last[0].directory)],
            "figures": {},
            "other_kernels": {},
            "differences": [],
            "text": "",
        }
    before, now = (one.manifest for one in last)
    figures = {name: [resources(before).get(name), value] for name, value in resources(now).items()}
    objects = [one.directory / str(one.manifest["shared_object"]) for one in last]
    figures["shared_object_bytes"] = [path.stat().st_size if path.is_file() else None for path in objects]
    parts = of_parts({**before["key"], **before["tools"]}, {**now["key"], **now["tools"]}) + of_files(*last)
    return {
        "what": what,
        "builds": [str(one.directory) for one in last],
        "figures": figures,
        "other_kernels": now.get("other_kernels", {}),
        "differences": [{"part": one.part, "text": one.text} for one in parts if one.part != "text"],
        "text": text_diff(*last),
    }


def _print_comparison(one: dict[str, Any], *, with_text: bool) -> None:
    print(one["what"])
    if len(one["builds"]) < 2:
        print("  built once; there is nothing to compare it with")
        return
    rows = [("", "before", "last", "")]
    for name, (before, now) in one["figures"].items():
        change = f"{(now - before) / before:+.0%}" if before and now is not None else ""
        rows.append((f"  {name}", _figure(before), _figure(now), change if before != now else ""))
    print_columns(rows)
    for name, figures in one["other_kernels"].items():
        print(f"  also in the file of the last build: {name}: {resources_text(figures)}")
    for difference in one["differences"]:
        print(f"  {difference['part']}: {difference['text']}")
    changed = sum(line[:1] in ("+", "-") and line[:3] not in ("+++", "---") for line in one["text"].splitlines())
    if changed:
        print(f"  text: {changed} lines differ{'' if with_text else '; --text shows them'}")
    if with_text and one["text"]:
        print(one["text"])
    print(*(f"  {Path(path)}" for path in one["builds"]), sep="\n")


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
