"""Records the calls of a run, and compiles recorded calls ahead of time, with many calls in each unit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tkjit.bindings.call_plans import CallsPlan
from tkjit.bindings.expressions import Argument, Expression
from tkjit.bindings.header_plans import DeclarationsPlan, LibrariesPlan
from tkjit.bindings.header_set import HeaderSet, make_header_set
from tkjit.bindings.prepared import PreparedHeaders
from tkjit.bindings.runtime import BindingsPlan
from tkjit.cache import Entry
from tkjit.loader.loader import Loader
from tkjit.loader.plan import Plan
from tkjit.loader.record import append, read_lines


def record_call(path: Path, headers: HeaderSet, call: Expression) -> None:
    """Append a call to a file. Other processes may append to the file at the same time.

    Raises
    ------
    CacheError
        If the file cannot be written.
    """
    fields = {name: value for name, value in asdict(headers).items() if name != "found_dirs"}
    append(path, {"headers": {**fields, "include_dirs": [*map(str, headers.include_dirs)]}, "call": asdict(call)})


def read_calls(path: Path) -> dict[HeaderSet, list[Expression]]:
    """Return the distinct calls in a file, grouped by their set of headers.

    Raises
    ------
    CacheError
        If the file cannot be read, or a line is not a record.
    """
    found: dict[HeaderSet, dict[Expression, None]] = {}
    for headers, call in read_lines(path, _parse):
        found.setdefault(headers, {}).setdefault(call)
    return {headers: list(calls) for headers, calls in found.items()}


def _parse(content: dict[str, Any]) -> tuple[HeaderSet, Expression] | None:
    if "headers" not in content:
        return None
    headers, call = content["headers"], content["call"]
    arguments = tuple(Argument(str(one["how"]), str(one["type"])) for one in call["arguments"])
    headers["defines"] = dict(headers["defines"])
    header_set = make_header_set(headers.pop("headers"), **headers)
    return header_set, Expression(**{**call, "arguments": arguments})


def names_in(recorded: Mapping[HeaderSet, Iterable[Expression]]) -> set[str]:
    """Return the functions and classes that recorded calls use, without template arguments: thrust::device_vector."""
    calls = (call for calls in recorded.values() for call in calls)
    texts = (text for call in calls for text in (call.name, *(one.type for one in call.arguments)))
    return {text.partition("<")[0].removeprefix("::").strip() for text in texts}


_MIN_CALLS = 8  # up to this many calls go into one unit, up to twice as many into two units, and so on


class Built(Protocol):
    """The outcome of building a plan."""

    @property
    def entry(self) -> Entry | None: ...


Outcome = TypeVar("Outcome", bound=Built)


def build_calls(
    loader: Loader,
    recorded: Mapping[HeaderSet, Sequence[Expression]],
    build: Callable[[Sequence[Plan]], list[Outcome]],
    jobs: int,
) -> list[Outcome]:
    """Compile calls in units. Each set of headers gets at most as many units as there are jobs.

    Parameters
    ----------
    build : callable
        Builds plans in parallel, and returns their outcomes.

    Returns
    -------
    list
        The outcome of each entry that the calls need, except for the precompiled headers.
    """
    outcomes: list[Outcome] = []
    for headers, calls in recorded.items():
        prepared = PreparedHeaders(headers, loader)
        outcomes += build([BindingsPlan(loader.env), *_of_headers(prepared)])
        if any(outcome.entry is None for outcome in outcomes):
            return outcomes
        missing = [call for call in calls if loader.find(CallsPlan(prepared, call)) is None]
        count = min(jobs, -(-len(missing) // _MIN_CALLS))
        units = [missing[number::count] for number in range(count)]
        origins = {call.makes: call for call in reversed(calls) if call.makes}
        plans = [CallsPlan(prepared, unit[0], unit, origins=origins) for unit in units]
        build(plans)
        for plan in plans:
            entry = loader.find(plan)
            for position, call in enumerate(plan.compiled or ()):  # None if another process has compiled the unit
                if position and entry is not None:
                    loader.find_or_build(CallsPlan(prepared, call, shared=(entry.shared_object, position)))
        # if one call made its unit fail, the unit's other calls are compiled here, one by one
        outcomes += build([CallsPlan(prepared, call, origins=origins) for call in calls])
    return outcomes


def plans_of(loader: Loader, recorded: Mapping[HeaderSet, Sequence[Expression]]) -> list[Plan]:
    """Return the plans for recorded calls.

    Calls are left out if the declarations or the libraries of their headers are not in the cache.
    """
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
