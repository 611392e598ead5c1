"""Parses docs/reference/device-api.md: each section's spec, call arguments and table rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import torch

import tkjit

PAGE = (Path(__file__).parents[2] / "docs/reference/device-api.md").read_text()
_FIELD = re.compile(r"^(\w+: .+?)(?: +# (.*))?$", re.MULTILINE)
# the type with which a row's meaning may begin; the fields' elements are floats
_TYPE = re.compile(r"`(int|float|bool|size_t|u?int64_t|T&)`(?:,|$)")
_ROW = re.compile(r"^\| `(.+?)` \| (?:(.*?) )?\| (.+) \|$", re.MULTILINE)


class Row(NamedTuple):
    """A row of a table: a line of CUDA C++, its value or type, and its meaning."""

    line: str
    said: str
    meaning: str

    @property
    def is_statement(self) -> bool:
        return self.line.endswith(";")

    def test(self) -> str:
        """Return a statement that sets ``right`` to whether the row is correct."""
        if self.is_statement:
            return f"{{ {self.line} }} right = true;"
        if self.line.startswith("decltype("):
            return f"right = std::is_same_v<{self.line}, {self.said}>;"
        return f"right = ({self.line}) == ({self.said}){self._has_type()};"

    def _has_type(self) -> str:
        match = _TYPE.match(self.meaning)
        if match is None:
            return ""
        if match[1] == "T&":
            return f" && std::is_same_v<decltype(({self.line})), float&>"
        return f" && std::is_same_v<std::decay_t<decltype({self.line})>, {match[1]}>"


class Section(NamedTuple):
    """A section with tables.

    Parameters
    ----------
    fields : tuple of str
        The parameters of its spec, written as in a function's signature.
    arguments : dict of str to str
        The arguments of the call, as Python expressions.
    """

    title: str
    fields: tuple[str, ...]
    arguments: dict[str, str]
    rows: tuple[Row, ...]

    @property
    def name(self) -> str:
        """The name of the section's type, such as ``tkjit::gl``."""
        return self.title.partition(": ")[0]

    @property
    def is_parallel(self) -> bool:
        return any("ParallelTensor" in field for field in self.fields)

    def define(self, name: str, source: str, *more: str) -> tkjit.Kernel:
        """Define a kernel of one thread with these fields, and more."""
        scope = {**{name: getattr(tkjit, name) for name in tkjit.__all__}, "torch": torch}
        exec(f"def {name}({', '.join([*more, *self.fields])}): ...", scope)
        return tkjit.kernel(source, entry=name, grid=1, block=1)(scope[name])

    def values(self) -> dict[str, Any]:
        """Evaluate the arguments of a call."""
        return {name: eval(text, {"torch": torch}) for name, text in self.arguments.items()}


def _section(title: str, text: str) -> Section:
    block = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    fields = _FIELD.findall(block[1]) if block else []
    arguments = {field.partition(":")[0]: argument for field, argument in fields if argument}
    rows = [Row(line, said.strip("`"), meaning) for line, said, meaning in _ROW.findall(text)]
    return Section(title.replace("`", ""), tuple(field for field, _ in fields), arguments, tuple(rows))


SECTIONS = {
    section.title: section
    for title, text in re.findall(r"^## (.*?)$(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    if (section := _section(title, text)).rows
}
BOUNDS = SECTIONS["Indices that are checked"]
HEADERS = SECTIONS["Headers to include"]
GROUPS = [section for section in SECTIONS.values() if section not in (BOUNDS, HEADERS)]


def members_kernel(section: Section, rows: list[Row]) -> tkjit.Kernel:
    """Define a kernel with one line for each row; it sets the row's element of ``is_right`` if the row is correct."""
    name = "rows_of_" + re.sub(r"\W+", "_", section.name)
    lines = [f"    {row.test()} g.is_right[{i}] = right;" for i, row in enumerate(rows)]
    source = "\n".join(
        [f"__global__ void {name}(const __grid_constant__ Globals g) {{", "    bool right;", *lines, "}"]
    )
    return section.define(name, source, f'is_right: InOut[Tensor, "int32", {len(rows)}]')


def headers_kernel() -> tkjit.Kernel:
    """Define a kernel that includes every header of the page."""
    lines = dict.fromkeys(row.line for row in HEADERS.rows)
    source = "\n".join([*lines, "__global__ void all_headers(const __grid_constant__ Globals g) { g.x[0] = 1.f; }"])
    spec = Section("", ('x: InOut[Tensor, "float32", "N"]',), {}, ())
    return spec.define("all_headers", source)
