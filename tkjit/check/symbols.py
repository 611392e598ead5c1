"""Translates machine addresses and offsets to source lines and variable names, with binutils."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tkjit.compile.flags import PACKAGE
from tkjit.errors import ToolchainError
from tkjit.system.fork_safe import cached_property
from tkjit.system.install import system_install


class Line(NamedTuple):
    """A source line, and the function that contains it."""

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Variable(NamedTuple):
    """A variable of the program: its name in the source, its address, and its size in bytes."""

    name: str
    address: int
    size: int
    is_shared: bool


class Symbols:
    """The symbols and line numbers of a program that ``check`` has compiled.

    Parameters
    ----------
    program : Path
    source : Path or None
        The kernel's file, or None if its source is a string.
    source_name : str
        The name of the kernel's source in the line tables, which contain no directory for it.
    """

    def __init__(self, program: Path, source: Path | None, source_name: str) -> None:
        self._program = program
        self._source, self._source_name = source, source_name
        self._lines: dict[int, list[Line]] = {}

    def look_up(self, addresses: Iterable[int]) -> None:
        """Look up many addresses in one call, because each addr2line process reads the whole program."""
        missing = sorted(set(addresses) - self._lines.keys())
        if not missing:
            return
        command = [_tool("addr2line"), "-e", str(self._program), "-f", "-C", "-i", "-a", *map(hex, missing)]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for part in re.split(r"^0x", printed, flags=re.MULTILINE)[1:]:
            head, *lines = part.splitlines()
            pairs = zip(lines[::2], lines[1::2], strict=False)
            self._lines[int(head, 16)] = [self.line(place, function) for function, place in pairs]

    def line(self, place: str, function: str = "") -> Line:
        """Parse ``softmax.cu:31`` from a line table or the simulator, with the full path of the kernel's file."""
        file, _, number = place.split(" ")[0].rpartition(":")
        digits = int(number) if number.isdigit() else 0
        if Path(file).name == self._source_name and self._source is not None:
            file = str(self._source)
        elif Path(file).name == self._source_name:
            file = self._source_name
        return Line(file, digits, function)

    def lines_of(self, calls: Iterable[int]) -> list[Line]:
        """Return the lines of a call stack, innermost first, including inlined calls."""
        return [line for address in calls for line in self._lines.get(address, [])]

    def in_the_source(self, lines: Iterable[Line]) -> list[Line]:
        """Return the lines of the user's code, outside tkjit's headers, the C++ library and the launcher."""
        return [
            line
            for line in lines
            if line.line and not line.file.startswith((str(PACKAGE), "/usr/")) and Path(line.file).name != "launcher.cu"
        ]

    @cached_property
    def _variables(self) -> list[Variable]:
        printed = subprocess.run(
            [_tool("readelf"), "-sW", "--demangle", str(self._program)], capture_output=True, text=True, check=True
        ).stdout
        found = []
        for line in printed.splitlines():
            match = re.match(
                r"\s*\d+: ([0-9a-f]+)\s+(\d+|0x[0-9a-f]+) (TLS|OBJECT|UNIQUE)\s.*?\s(?:\d+|COM) (.+)$", line
            )
            if match and int(match[2], 0):
                found.append(Variable(match[4], int(match[1], 16), int(match[2], 0), match[3] == "TLS"))
        return found

    def variable_at(self, address: int, *, shared: bool) -> Variable | None:
        """Return the variable at an address. For shared memory, the race checker passes an offset."""
        inside = [v for v in self._variables if v.is_shared == shared and v.address <= address < v.address + v.size]
        return inside[0] if inside else None

    def is_guard(self, one: Mapping[str, Any]) -> bool:
        """Whether a finding is about the guard variable that g++ adds for an array of __half."""
        is_shared = one.get("space") == "shared memory" and not one["name"]
        variable = self.variable_at(one["offset"], shared=True) if is_shared else None
        return variable is not None and variable.name.startswith("guard variable")

    def variable_before(self, address: int) -> Variable | None:
        """Return the last variable that ends before or at an address."""
        before = [v for v in self._variables if not v.is_shared and v.address + v.size <= address]
        return max(before, key=lambda v: v.address + v.size, default=None)


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise ToolchainError(
            f"no {name}, which check needs to find source lines; install it: {system_install('binutils')}"
        )
    return found
