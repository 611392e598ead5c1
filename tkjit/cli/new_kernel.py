"""Writes a copy of a kernel to start from: its part of the spec file, the sources that it needs, and a test."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

from tkjit import registry
from tkjit.config import Settings
from tkjit.errors import SpecError
from tkjit.kernel_objects import Kernel, find

_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
# for the C/C++ extension of VS Code; the kernel is compiled, and a breakpoint found, only when the program calls it
_DEBUG = {
    "name": "debug kernels that the open Python file calls on the CPU",
    "type": "cppdbg",
    "request": "launch",
    "program": "${command:python.interpreterPath}",
    "args": ["${file}"],
    "cwd": "${workspaceFolder}",
    "environment": [{"name": "TKJIT_SIM_DEBUG", "value": "1"}],
    "MIMode": "gdb",
    "setupCommands": [{"text": "set breakpoint pending on"}],
}
_TEST = '''"""{name} gives the results of its reference, and has no race and no bad access."""

from {name} import {name}

from tkjit.testing import check, verify


def test_results():
    verify({name})


def test_accesses():
    check({name})
'''


def files_of(like: str, name: str) -> dict[str, str]:
    """Return the files of a kernel that is called ``name``, and otherwise equals the kernel ``like``.

    Raises
    ------
    SpecError
        If ``like`` has no spec file and sources that can be copied.
    """
    kernel = find(like)
    path, original, _ = registry.find_file(like, Settings.from_environment())
    if not isinstance(kernel, Kernel) or any(library.root is None for spec in kernel.specs for library in spec.headers):
        raise SpecError(f"{like} cannot be copied: its source is not a file beside its spec; choose another kernel")
    spec, copied = excerpt(path.read_text(), original, name)
    sources: dict[str, str] = {}
    for file in copied:
        renamed = re.sub(rf"^{original}(?=[_.])", name, file) if f'"{file}"' in spec else file
        spec = spec.replace(f'"{file}"', f'"{renamed}"')
        for needed in local_includes(path.parent / file):
            if not needed.resolve().is_relative_to(path.parent.resolve()):
                raise SpecError(f"{like} cannot be copied: {needed} is outside of the directory of its spec")
            relative = str(needed.resolve().relative_to(path.parent.resolve()))
            sources[renamed if relative == file else relative] = needed.read_text()
    tasks = {"version": "2.0.0", "tasks": [_task(command, name) for command in ("check", "verify", "bench", "watch")]}
    launches = {"version": "0.2.0", "configurations": [_DEBUG]}
    return {
        f"{name}.py": spec,
        f"test_{name}.py": _TEST.format(name=name),
        **sources,
        ".vscode/tasks.json": json.dumps(tasks, indent=2) + "\n",
        ".vscode/launch.json": json.dumps(launches, indent=2) + "\n",
    }


def excerpt(text: str, original: str, name: str) -> tuple[str, list[str]]:
    """Return the part of a spec file that a kernel needs, with a new name for it, and the files that it mentions.

    Examples
    --------
    >>> text = "import tkjit\\nSIZE = 3\\nOTHER = 4\\n\\n\\n@tkjit.kernel('f.cu', block=SIZE)\\ndef f(): ...\\n"
    >>> print(excerpt(text, "f", "g")[0])
    import tkjit
    <BLANKLINE>
    SIZE = 3
    <BLANKLINE>
    <BLANKLINE>
    @tkjit.kernel('f.cu', block=SIZE)
    def g(): ...
    <BLANKLINE>
    """
    tree, lines = ast.parse(text), text.splitlines()
    needed, waiting = set[str](), [original]
    while waiting:
        needed.add(one := waiting.pop())
        uses = {name for node in tree.body if one in _defined(node) for name in _names(node)}
        waiting += sorted(uses - needed)
    kept = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom)) or _defined(node) & needed]
    parts, before = [], None
    for node in kept:
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))]) - 1
        while first > 0 and lines[first - 1].startswith("#"):
            first -= 1
        if before is not None:
            parts.append("\n" * _distance(before, node))
        parts.append(_renamed(lines, first, node, original, name))
        before = node
    strings = [node.value for one in kept for node in ast.walk(one) if isinstance(node, ast.Constant)]
    files = [value for value in strings if isinstance(value, str) and re.fullmatch(r"[\w./-]+\.cuh?", value)]
    return "".join([*parts, "\n"]), list(dict.fromkeys(files))


def _distance(before: ast.stmt, after: ast.stmt) -> int:
    """Return how many line ends are between two statements of a module, as formatters have it."""
    if isinstance(before, ast.FunctionDef) or isinstance(after, ast.FunctionDef):
        return 3
    imports = (ast.Import, ast.ImportFrom)
    return 2 if isinstance(before, imports) and not isinstance(after, imports) else 1


def _defined(node: ast.stmt) -> set[str]:
    """Return the names that a statement of a module defines."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}


def _names(node: ast.stmt) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _renamed(lines: list[str], first: int, node: ast.stmt, original: str, name: str) -> str:
    """Return a statement's text, in which the kernel has its new name where it is defined or called."""
    text = lines[first : node.end_lineno]
    hidden = {
        alias.asname or alias.name
        for each in ast.walk(node)
        if isinstance(each, ast.ImportFrom)
        for alias in each.names
    }
    if isinstance(node, ast.FunctionDef) and node.name == original:
        row = node.lineno - 1 - first
        text[row] = text[row].replace(f"def {original}(", f"def {name}(", 1)
    elif original in hidden:  # a function that imports another package's kernel of this name
        return "\n".join(text)
    uses = [each for each in ast.walk(node) if isinstance(each, ast.Name) and each.id == original]
    for use in sorted(uses, key=lambda each: each.col_offset, reverse=True):
        row = use.lineno - 1 - first
        text[row] = text[row][: use.col_offset] + name + text[row][use.col_offset + len(original) :]
    return "\n".join(text)


def local_includes(source: Path) -> set[Path]:
    """Return a source and the files that it includes by their place beside it, and that those include."""
    waiting, found = [source], set[Path]()
    while waiting:
        one = waiting.pop()
        if one in found or not one.is_file():
            continue
        found.add(one)
        waiting += [one.parent / name for name in _INCLUDE.findall(one.read_text())]
    return found


def _task(command: str, name: str) -> dict[str, object]:
    """Return a task for VS Code that runs a command on the kernel, whichever file is open."""
    return {
        "label": f"tkjit {command}",
        "type": "shell",
        "command": f"python -m tkjit {command} {name}.py",
        "isBackground": command == "watch",
        "problemMatcher": [],
    }
