"""Compiles recorded calls ahead of time, many in a unit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from tkjit.bindings.call_plans import CallsPlan
from tkjit.bindings.expressions import Expression
from tkjit.bindings.header_plans import DeclarationsPlan, LibrariesPlan
from tkjit.bindings.header_set import HeaderSet
from tkjit.bindings.prepared import PreparedHeaders
from tkjit.bindings.runtime import BindingsPlan
from tkjit.cache import Entry
from tkjit.loader.loader import Loader
from tkjit.loader.plan import Plan

_FEWEST = 8  # calls in a unit, if there is more than one unit


class Built(Protocol):
    """What has become of a plan."""

    @property
    def entry(self) -> Entry | None: ...


Outcome = TypeVar("Outcome", bound=Built)


def build_calls(
    loader: Loader,
    recorded: Mapping[HeaderSet, Sequence[Expression]],
    build: Callable[[Sequence[Plan]], list[Outcome]],
    jobs: int,
) -> list[Outcome]:
    """Compile calls in units, at most as many of a set of headers as there are jobs.

    Parameters
    ----------
    build : callable
        Builds plans at the same time, and says what has become of each.

    Returns
    -------
    list
        What has become of each entry that the calls need, without the precompiled headers.
    """
    outcomes: list[Outcome] = []
    for headers, calls in recorded.items():
        prepared = PreparedHeaders(headers, loader)
        outcomes += build([BindingsPlan(loader.env), *_of_headers(prepared)])
        if any(outcome.entry is None for outcome in outcomes):
            return outcomes
        missing = [call for call in calls if loader.find(CallsPlan(prepared, call)) is None]
        count = min(jobs, -(-len(missing) // _FEWEST))
        units = [missing[number::count] for number in range(count)]
        origins = {call.makes: call for call in reversed(calls) if call.makes}
        plans = [CallsPlan(prepared, unit[0], unit, origins=origins) for unit in units]
        build(plans)
        for plan in plans:
            entry = loader.find(plan)
            for position, call in enumerate(plan.compiled or ()):  # nothing where another process was first
                if position and entry is not None:
                    loader.find_or_build(CallsPlan(prepared, call, shared=(entry.shared_object, position)))
        # what a unit with a mistake has prevented is compiled here, each alone
        outcomes += build([CallsPlan(prepared, call, origins=origins) for call in calls])
    return outcomes


def plans_of(loader: Loader, recorded: Mapping[HeaderSet, Sequence[Expression]]) -> list[Plan]:
    """The plans of recorded calls; where the declarations have not been read here, of the headers alone."""
    found: list[Plan] = [BindingsPlan(loader.env)]
    for headers, calls in recorded.items():
        prepared = PreparedHeaders(headers, loader)
        needed = _of_headers(prepared)
        found += needed
        if all(loader.find(plan) is not None for plan in needed):
            found += [CallsPlan(prepared, call) for call in calls]
    return found


def _of_headers(prepared: PreparedHeaders) -> list[Plan]:
    headers, env = prepared.headers, prepared.env
    libraries: list[Plan] = [LibrariesPlan(env, headers)] if headers.link_flags else []
    return [DeclarationsPlan(env, headers, prepared.precompiled), *libraries]
