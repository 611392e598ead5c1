"""``docs/reference/device-api.md`` names every member, and each line compiles and has the value that it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from support.device_api import BOUNDS, GROUPS, HEADERS, PAGE, SECTIONS, Section, headers_kernel, members_kernel

from tkjit import LaunchError
from tkjit.compile.flags import INCLUDE, SIMULATOR
from tkjit.importer.clang import parse_text

pytestmark = pytest.mark.compiles
OTHERWISE = "where indices are compared"  # a row with this text has another value in the simulator
FIELD_HEADERS = ("gl.h", "pgl.h", "list.h", "strided.h", "philox.h")
INTERNAL = {"converter"}  # only the launcher uses it


@pytest.mark.parametrize("section", GROUPS, ids=lambda section: section.name)
def test_every_line_has_the_value_that_the_page_says(section: Section):
    rows = [row for row in section.rows if OTHERWISE not in row.meaning]
    marks = [torch.zeros(len(rows), dtype=torch.int32) for _ in range(2 if section.is_parallel else 1)]
    kernel = members_kernel(section, rows)
    kernel(is_right=marks if section.is_parallel else marks[0], **section.values())
    wrong = [
        f"{row.line} is not {row.said}"
        for mark in marks
        for row, is_right in zip(rows, mark, strict=True)
        if not is_right
    ]
    assert wrong == []


def test_every_index_outside_has_the_error_that_the_page_says():
    cases = "\n".join(f"        case {i}: (void)({row.line}); break;" for i, row in enumerate(BOUNDS.rows))
    source = f"__global__ void outside(Globals g) {{\n    switch (g.row) {{\n{cases}\n    }}\n    g.y[0] = 1.f;\n}}"
    kernel = BOUNDS.define("outside", source, 'y: InOut[Tensor, "float32", 1]', "row: int")
    for i, row in enumerate(BOUNDS.rows):
        with pytest.raises(LaunchError, match=re.escape(f"outside: {row.said}; ")):
            kernel(torch.zeros(1), i, **BOUNDS.values())
    y = torch.zeros(1)
    kernel(y, -1, **BOUNDS.values())
    assert y == 1


def test_every_header_compiles():
    x = torch.zeros(1)
    headers_kernel()(x)
    assert x == 1


# ---- completeness


def in_tkjit(cursors: Any, namespace: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield the declarations directly in the namespace tkjit, each with the name of its header."""
    for cursor in cursors:
        if cursor.kind.name == "NAMESPACE":
            yield from in_tkjit(cursor.get_children(), (*namespace, cursor.spelling))
        elif namespace == ("tkjit",) and cursor.location.file is not None:
            directory, _, name = cursor.location.file.name.rpartition("/")
            if directory == str(INCLUDE / "tkjit"):
                yield name, cursor


@pytest.fixture(scope="module")
def declarations() -> Iterator[list[tuple[str, Any]]]:
    """Parse the headers of fields and those of the page; yield their declarations with the names of the headers."""
    text = "\n".join(
        ["#include <tkjit/launcher.h>", "#include <tkjit/philox.h>", *sorted({r.line for r in HEADERS.rows})]
    )
    arguments = ["-x", "c++", "-std=c++20", "-w", f"-I{INCLUDE}", f"-I{SIMULATOR}"]
    parsed = parse_text("device_api.cpp", text, arguments)
    yield list(in_tkjit(parsed.declarations()))


def types_of_fields(declarations: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the types of fields by name; for a template that is only declared, its specialization."""
    cursors = [cursor for name, cursor in declarations if name in FIELD_HEADERS and cursor.spelling not in INTERNAL]
    return {cursor.spelling: cursor for cursor in cursors if public_members(cursor)}


def public_members(cursor: Any) -> list[Any]:
    """Return the public fields, functions, constants and types of a type."""
    kinds = ("FIELD_DECL", "CXX_METHOD", "CONVERSION_FUNCTION", "FUNCTION_TEMPLATE", "VAR_DECL", "CONSTRUCTOR")
    kinds += ("TYPE_ALIAS_DECL", "TYPE_ALIAS_TEMPLATE_DECL", "TYPEDEF_DECL")
    return [
        child for child in cursor.get_children() if child.kind.name in kinds and child.access_specifier.name == "PUBLIC"
    ]


def how_it_is_used(member: Any) -> re.Pattern[str]:
    """Return a pattern for lines that use the member. Overloads differ in the number of their arguments."""
    field = r"(?<!\w)g\.\w+(?:\[\w+\])?"
    parameters = [parameter for parameter in member.get_children() if parameter.kind.name == "PARM_DECL"]
    least = sum("=" not in [token.spelling for token in parameter.get_tokens()] for parameter in parameters)
    is_variadic = any("..." in [token.spelling for token in parameter.get_tokens()] for parameter in parameters)
    argument = r"[^,()]+"
    most = 7 if is_variadic else max(len(parameters) - 1, 0)
    call = rf"\({argument}(?:, {argument}){{{max(least - 1, 0)},{most}}}\)" if parameters else r"\(\)"
    if member.spelling == "operator bool":
        return re.compile(rf"\bbool\({field}\)")
    if member.spelling == "operator[]":
        return re.compile(rf"{field}\[")
    if member.spelling == "operator()":
        return re.compile(field + call)
    is_function = member.kind.name in ("CXX_METHOD", "FUNCTION_TEMPLATE")
    return re.compile(rf"(?:\.|::){re.escape(member.spelling)}" + (call if is_function else r"\b(?!\()"))


def section_of(type_name: str) -> Section:
    return next(section for section in GROUPS if section.name == f"tkjit::{type_name}")


def test_every_public_member_has_a_row(declarations):
    found = types_of_fields(declarations)
    assert set(found) >= {"gl", "pgl", "list", "optional", "strided", "philox"}
    missing = []
    for name, cursor in found.items():
        lines = [row.line for row in section_of(name).rows]
        for member in public_members(cursor):
            if not any(how_it_is_used(member).search(line) for line in lines):
                missing.append(f"tkjit::{name}::{member.displayname}")
    assert missing == []


def test_every_public_function_of_a_header_has_a_row(declarations):
    documented: dict[str, set[str]] = {}
    for row in HEADERS.rows:
        header = row.line.removeprefix("#include <tkjit/").removesuffix(">")
        documented.setdefault(header, set()).update(re.findall(r"\w+", row.said))
    assert {name for name in documented if name.endswith(".cuh")} == {
        path.name for path in (INCLUDE / "tkjit").glob("*.cuh")
    }
    declared = {header: {cursor.spelling for name, cursor in declarations if name == header} for header in documented}
    declared["shared_memory.cuh"].add("TKJIT_DYNAMIC_SHARED")  # a macro, so libclang does not list it
    declared["element.h"] = {"torch_type"}  # the other declarations are for the launcher
    assert documented == declared


def test_every_row_of_a_table_is_read():
    assert sum(len(section.rows) for section in SECTIONS.values()) == len(re.findall(r"^\| `", PAGE, re.MULTILINE))
