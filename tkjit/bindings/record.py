"""Records the calls of bound libraries that a run makes, so that they can be compiled ahead of time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tkjit.bindings.expressions import Expression, Given
from tkjit.bindings.header_set import HeaderSet, make_header_set
from tkjit.loader.record import append, read_lines


def record_call(path: Path, headers: HeaderSet, call: Expression) -> None:
    """Add a line to a file; other processes may add lines too.

    Raises
    ------
    CacheError
        If it cannot be written.
    """
    given = {name: value for name, value in asdict(headers).items() if name != "found_dirs"}
    append(path, {"headers": {**given, "include_dirs": [*map(str, headers.include_dirs)]}, "call": asdict(call)})


def read_calls(path: Path) -> dict[HeaderSet, list[Expression]]:
    """The calls that a file lists, each once, by their set of headers.

    Raises
    ------
    CacheError
        If the file cannot be read, or a line is no record.
    """
    found: dict[HeaderSet, dict[Expression, None]] = {}
    for headers, call in read_lines(path, _parse):
        found.setdefault(headers, {}).setdefault(call)
    return {headers: list(calls) for headers, calls in found.items()}


def _parse(content: dict[str, Any]) -> tuple[HeaderSet, Expression] | None:
    if "headers" not in content:
        return None
    headers, call = content["headers"], content["call"]
    given = tuple(Given(str(one["how"]), str(one["type"])) for one in call["given"])
    headers["defines"] = dict(headers["defines"])
    made = make_header_set(headers.pop("headers"), **headers)
    return made, Expression(**{**call, "given": given})


def names_in(recorded: Mapping[HeaderSet, Iterable[Expression]]) -> set[str]:
    """The functions and classes of recorded calls, without template arguments: ``thrust::device_vector``."""
    calls = (call for calls in recorded.values() for call in calls)
    texts = (text for call in calls for text in (call.name, *(one.type for one in call.given)))
    return {text.partition("<")[0].removeprefix("::").strip() for text in texts}
