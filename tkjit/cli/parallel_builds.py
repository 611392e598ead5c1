"""Builds entries in parallel and prints a line for each. If one fails, the others continue."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tkjit.cache import Entry
from tkjit.cache.listing import list_entries
from tkjit.cli.output import size_text
from tkjit.compile.resources import resources_text
from tkjit.config import size_of_text
from tkjit.errors import SpecError, TkjitError
from tkjit.loader import Loader, Plan
from tkjit.loader.memory_budget import MemoryBudget, estimated_bytes
from tkjit.system.machine import available_memory_bytes, usable_cores
from tkjit.system.progress import silence


@dataclass(frozen=True)
class Outcome:
    """The result of a build.

    Parameters
    ----------
    entry : Entry or None
        None if the build failed.
    was_there : bool
        Whether the entry was already in the cache.
    """

    what: str
    seconds: float = 0.0
    entry: Entry | None = None
    error: TkjitError | None = None
    was_there: bool = False


def add_limits(parser: argparse.ArgumentParser) -> None:
    """Add the options ``--jobs`` and ``--memory``, which ``limits_of`` reads."""
    parser.add_argument("--jobs", type=int, metavar="N", help="number of parallel compilers (default: number of cores)")
    parser.add_argument("--memory", metavar="8G", help="memory limit of all compilers together (default: free memory)")


def limits_of(arguments: argparse.Namespace) -> tuple[int, int]:
    """Return how many compilers may run at the same time, and how many bytes of memory they may use together.

    Raises
    ------
    SpecError
        If one of the options is not valid.
    """
    if arguments.jobs is not None and arguments.jobs < 1:
        raise SpecError("--jobs must be at least 1")
    memory_bytes = size_of_text(arguments.memory, "--memory") if arguments.memory else available_memory_bytes()
    return arguments.jobs or usable_cores(), memory_bytes


def build_all(
    loader: Loader, plans: Sequence[Plan], jobs: int, memory_bytes: int, *, has_kernels: bool = True
) -> list[Outcome]:
    """Build the plans that are not in the cache, and return the outcome of every plan.

    For kernels, build the runtime and the operators module as well.

    Parameters
    ----------
    jobs : int
        How many compilers may run at the same time. Fewer run if they would need more than ``memory_bytes``.
    has_kernels : bool
        Whether the plans belong to kernels, which need the runtime and the operators.
    """
    first = [loader.operators_plan] if has_kernels else []
    plans = list({plan.warm_key: plan for plan in [*first, *plans]}.values())
    outcomes: list[Outcome] = []
    with silence(), _display(len(plans) + has_kernels) as show:

        def tell(outcome: Outcome) -> None:
            outcomes.append(outcome)
            show(outcome)

        if has_kernels:
            # build the runtime first, because it loads each launcher as a test, before the launcher is published
            interruptions = loader.cache.interruptions
            tell(_attempt(loader, loader.runtime_plan, MemoryBudget(memory_bytes), 0, interruptions))
            if outcomes[0].error is not None:
                return outcomes
        missing = []
        for plan in plans:
            try:
                entry = loader.find(plan)
            except TkjitError as error:
                tell(Outcome(plan.what, error=error))
                continue
            if entry is None:
                missing.append(plan)
            else:
                tell(Outcome(plan.what, entry=entry, was_there=True))
        _build_missing(loader, missing, jobs, memory_bytes, tell)
    return outcomes


def _build_missing(
    loader: Loader, missing: list[Plan], jobs: int, memory_bytes: int, tell: Callable[[Outcome], None]
) -> None:
    """Build plans in parallel, and report each outcome.

    The largest builds start first; builds of equal size keep their order.
    """
    known = list_entries(loader.cache.root)
    budget = MemoryBudget(memory_bytes)
    sizes = {plan.warm_key: estimated_bytes(plan, known) for plan in missing}
    missing.sort(key=lambda plan: -sizes[plan.warm_key])
    interruptions = loader.cache.interruptions
    # futures do not show every build that is running: after Ctrl-C within submit(), a build runs without a future
    at_work: set[str] = set()

    def attempt(plan: Plan) -> Outcome:
        at_work.add(plan.warm_key)
        try:
            return _attempt(loader, plan, budget, sizes[plan.warm_key], interruptions)
        finally:
            at_work.discard(plan.warm_key)

    # threads suffice, because they only wait for compilers; each process of a pool would first have to import torch
    with ThreadPoolExecutor(jobs) as pool:
        try:
            for done in as_completed([pool.submit(attempt, plan) for plan in missing]):
                tell(done.result())
        except BaseException:  # Ctrl-C
            pool.shutdown(wait=False, cancel_futures=True)
            loader.cache.interrupt(lambda: not at_work)
            raise


def _attempt(loader: Loader, plan: Plan, budget: MemoryBudget, size_bytes: int, interruptions: int) -> Outcome:
    """Build one plan, unless builds have been interrupted since the caller read the count ``interruptions``."""
    with budget.taking(size_bytes):
        if loader.cache.interruptions != interruptions:
            raise KeyboardInterrupt
        start = time.monotonic()
        try:
            found = loader.find(plan)
            entry = found or loader.find_or_build(plan)
        except TkjitError as error:
            return Outcome(plan.what, time.monotonic() - start, error=error)
        return Outcome(plan.what, time.monotonic() - start, entry, was_there=found is not None)


def _line(outcome: Outcome) -> str:
    """Format an outcome as a line: what was built, how long it took, and the resources that the compiler reported."""
    if outcome.entry is None:
        return f"{outcome.what:<44} {'failed':>8}"
    state = "ready" if outcome.was_there else f"{outcome.seconds:.1f} s"
    return f"{outcome.what:<44} {state:>8}  {_resources(outcome.entry.manifest)}".rstrip()


def _resources(manifest: Mapping[str, Any]) -> str:
    others = manifest.get("other_kernels", {})
    found = [resources_text(manifest)]
    if others:  # print only how many there are, because `show` lists them
        found.append(
            f"{len(others)} other kernel{'s' if len(others) > 1 else ''}" if found[0] else f"{len(others)} kernels"
        )
    if "peak_memory_bytes" in manifest:
        found.append(f"compiler {size_text(manifest['peak_memory_bytes'])}")
    return ", ".join(filter(None, found))


@contextmanager
def _display(total: int) -> Iterator[Callable[[Outcome], None]]:
    """Yield a function that prints a line for each build. In a terminal, the lines appear above a progress bar."""
    if not sys.stdout.isatty():
        yield lambda outcome: print(_line(outcome), flush=True)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), "left:", TimeRemainingColumn())
    with Progress(*columns, transient=True) as progress:
        task = progress.add_task("", total=total)

        def show(outcome: Outcome) -> None:
            progress.console.print(_line(outcome), markup=False, highlight=False)
            progress.advance(task)

        yield show
