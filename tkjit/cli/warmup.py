"""``warmup`` and ``bundle``: compile ahead of time, for this machine or for machines without compilers."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tkjit.bindings.recorded_calls import build_calls, read_calls
from tkjit.cache import bundle
from tkjit.cache.remote.remote import PUSH_S
from tkjit.cli.output import counted, size_text
from tkjit.cli.parallel_builds import Outcome, add_limits, build_all, limits_of
from tkjit.cli.selection import add_options, select_extensions, select_plans, targets_of
from tkjit.config import Settings, environment_with
from tkjit.errors import SpecError, TkjitError
from tkjit.extensions import load as extensions
from tkjit.extensions.plans import FUNCTIONS, MODULE, OBJECT
from tkjit.extensions.record import Loaded, read_extensions
from tkjit.headers import bundled_sources
from tkjit.loader import Loader, Plan, loader_for
from tkjit.loader.launchers import LauncherPlan
from tkjit.loader.record import Used, read_record
from tkjit.recorded_run import plans_of_kernels
from tkjit.system.die_with_parent import dying_with_parent

# names of directories that the cache has next to those of the architectures
_NO_ARCHS = {"glue", "runtime", "operators", "launch_programs", MODULE, OBJECT, FUNCTIONS}


def register(commands: Any) -> None:
    """Add the commands to the parser."""
    parser = commands.add_parser("warmup", help="compile kernels ahead of time")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="kernels, packages or FILE.py to compile (default: all kernels)"
    )
    _add_options(parser)
    files = parser.add_mutually_exclusive_group()
    files.add_argument("--from-file", type=Path, metavar="FILE", help="compile what a run recorded")
    files.add_argument(
        "--record", type=Path, metavar="FILE", help="run the command after -- and record the variants that it uses"
    )
    parser.set_defaults(run=_warmup)
    bundling = commands.add_parser("bundle", help="write a cache of compiled kernels for machines without compilers")
    bundling.add_argument("names", nargs="*", metavar="NAME", help="kernels, packages or FILE.py to bundle")
    _add_options(bundling)
    bundling.add_argument(
        "--from-file", type=Path, metavar="FILE", help="bundle what a run recorded, instead of named kernels"
    )
    bundling.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="directory to write")
    bundling.set_defaults(run=_bundle)


def _add_options(parser: argparse.ArgumentParser) -> None:
    add_options(parser)
    add_limits(parser)


def _warmup(arguments: argparse.Namespace) -> int:
    if arguments.record is not None:
        if arguments.jobs or arguments.memory or arguments.arch or arguments.device or arguments.types:
            raise SpecError(
                "--record runs a command and compiles nothing itself; put the command and its options after --"
            )
        return _run_recorded(arguments.record, arguments.names)
    start = time.monotonic()
    loader = _loader()
    _, outcomes = _build_selected(loader, arguments)
    status = _summary(outcomes, time.monotonic() - start)
    if (remote := loader.cache.remote) is not None and (left := remote.finish(PUSH_S)):
        print(f"{left} entries have not reached the remote cache; run python -m tkjit cache push", file=sys.stderr)
        return 1
    return status


def _build_selected(loader: Loader, arguments: argparse.Namespace) -> tuple[list[Plan], list[Outcome]]:
    """Build the named kernels; or, if a record is given, the kernels, extensions and bound calls that it lists."""
    if arguments.from_file is None:
        plans, outcomes = _select(loader, arguments)
        loaded, broken = select_extensions(arguments, loader)
        outcomes += [Outcome(one.what, error=one.error) for one in broken]
        outcomes += _build(loader, plans, arguments) if plans or not loaded else []
        return plans, outcomes + [outcome for one in loaded for outcome in _build_extension(loader, one)]
    if arguments.names or arguments.types:
        raise SpecError("--from-file sets the kernels and variants; leave out names and --types")
    used, calls = read_record(arguments.from_file), read_calls(arguments.from_file)
    loaded = read_extensions(arguments.from_file)
    if arguments.arch or arguments.device:  # the run was on another kind of machine, such as a laptop
        targets = targets_of(arguments, loader)
        used = list(dict.fromkeys(one.on(target) for one in used for target in targets))
        loaded = list(dict.fromkeys(one.on(target) for one in loaded for target in targets))
    plans, outcomes = _of_record(loader, used)
    if plans or not (calls or loaded):
        outcomes += _build(loader, plans, arguments)
    outcomes += [outcome for one in loaded for outcome in _build_extension(loader, one)]
    jobs, _ = limits_of(arguments)
    return plans, outcomes + build_calls(
        loader, calls, lambda of: _build(loader, of, arguments, has_kernels=False), jobs
    )


def _loader() -> Loader:
    """Return a loader that ignores TKJIT_JIT=0, because that is meant for programs, and this command must compile."""
    return loader_for(replace(Settings.from_environment(), jit=True))


def _select(loader: Loader, arguments: argparse.Namespace) -> tuple[list[Plan], list[Outcome]]:
    plans, unusable = select_plans(arguments, loader)
    return plans, [Outcome(one.what, error=one.error) for one in unusable]


def _build(
    loader: Loader, plans: Sequence[Plan], arguments: argparse.Namespace, *, has_kernels: bool = True
) -> list[Outcome]:
    jobs, memory_bytes = limits_of(arguments)
    return build_all(loader, plans, jobs, memory_bytes, has_kernels=has_kernels)


def _build_extension(loader: Loader, loaded: Loaded) -> list[Outcome]:
    """Build an extension, compiling one source after another."""
    name = f"the extension {loaded.extension.name}"
    try:
        known = sum(loader.find(plan) is not None for plan in extensions.plans_of(loader, loaded))
        entries = extensions.entries_of(loader, loaded)
        was_there = known == len(entries)
        if loaded.extension.is_simulated:  # also needs the runtime, which handles Ctrl-C
            entries.append(loader.find_or_build(loader.runtime_plan))
    except TkjitError as error:
        return [Outcome(name, error=error)]
    return [Outcome(name, entry=entry, was_there=was_there) for entry in entries]


def _summary(outcomes: Sequence[Outcome], seconds: float) -> int:
    """Print each failure with its error, then the totals, and return the exit code."""
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    for outcome in failed:
        print(f"\n{outcome.what}: {outcome.error}", file=sys.stderr)
    there = sum(outcome.was_there for outcome in outcomes)
    print(f"{len(outcomes) - len(failed)} ready ({there} from the cache), {len(failed)} failed, {seconds:.1f} s")
    return 1 if failed else 0


def _run_recorded(path: Path, command: Sequence[str]) -> int:
    """Run a command whose processes record the variants that they use."""
    if not command:
        raise SpecError(f"--record needs a command: python -m tkjit warmup --record {path} -- python train.py")
    done = subprocess.run(dying_with_parent(command), env=environment_with(TKJIT_RECORD=str(path.absolute())))
    used = read_record(path) if path.exists() else []
    calls = sum(map(len, read_calls(path).values())) if path.exists() else 0
    bound = f" and {counted(calls, 'call of a bound library', 'calls of bound libraries')}" if calls else ""
    loaded = len(read_extensions(path)) if path.exists() else 0
    bound += f" and {counted(loaded, 'extension')}" if loaded else ""
    print(f"recorded {counted(len(used), 'variant')}{bound} in {path}", file=sys.stderr)
    # as in a shell, the status is 128 + N if signal N ended the process
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


def _of_record(loader: Loader, used: Sequence[Used]) -> tuple[list[Plan], list[Outcome]]:
    """Return plans for everything that a run used, and failed outcomes for the parts that are not found here."""
    plans, failed = plans_of_kernels(loader, used)
    return plans, [Outcome(what, error=error) for what, error in failed.items()]


def _bundle(arguments: argparse.Namespace) -> int:
    start = time.monotonic()
    output = arguments.output.absolute()
    bundle.check_target(output)
    if not arguments.names and arguments.from_file is None:
        raise SpecError("bundle: name at least one kernel, or pass --from-file with the record of a run")
    loader = _loader()
    plans, outcomes = _build_selected(loader, arguments)
    status = _summary(outcomes, time.monotonic() - start)
    if status:
        print(f"{output} was not written", file=sys.stderr)
        return status
    entries = [outcome.entry for outcome in outcomes if outcome.entry is not None]
    facts = {
        "kernels": arguments.names,
        "archs": sorted({entry.directory.parents[1].name for entry in entries} - _NO_ARCHS),
        "python": loader.cache.abi,
        "torch": next((entry.manifest["key"]["torch"] for entry in entries if "torch" in entry.manifest["key"]), ""),
    }
    specs = [plan.spec for plan in plans if isinstance(plan, LauncherPlan)]
    more = {**bundled_sources(specs), **loader.tuned.bundled(specs)}
    size = bundle.write(output, entries, facts, more)
    print(f"{output}: {len(entries)} entries, {size_text(size)}")
    print(f"digest: {bundle.digest(output)}")
    print(f"to use it, set TKJIT_CACHE_READONLY={output}")
    return 0
