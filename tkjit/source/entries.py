"""Explains an entry that a compiler has refused: its name, its template arguments or its parameters are not right."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tkjit.source.lexer import Token, closing, tokens_of
from tkjit.source.scopes import closing_angle, outline

_ATTRIBUTES = frozenset(
    ["__launch_bounds__", "__cluster_dims__", "__block_size__", "__maxnreg__", "__attribute__", "alignas", "__align__"]
)
_OPENING, _CLOSING = "([{<", ")]}>"


class KernelFunction(NamedTuple):
    """A ``__global__`` function of a source.

    Parameters
    ----------
    name : str
        With its namespace.
    template : str
        ``typename T, int N``; empty if it is none.
    parameters : tuple of str
        ``const float* x``.
    """

    name: str
    template: str
    parameters: tuple[str, ...]

    def __str__(self) -> str:
        angles = f"<{self.template}>" if self.template else ""
        return f"{self.name}{angles}({', '.join(self.parameters)})"


def why_not_the_entry(text: str, entry: str, *, takes_arguments: bool, passed: Sequence[str], log: str) -> str:
    """What a spec says of its kernel, and the source does not; empty if nothing is known to be wrong.

    Parameters
    ----------
    text : str
        The source.
    entry : str
        As the spec has it: ``relu<T>``.
    takes_arguments : bool
        Whether the kernel takes plain arguments, and no struct.
    passed : sequence of str
        The names of the spec's fields.
    log : str
        What the compiler has printed.

    Examples
    --------
    >>> source = "template <class T> __global__ void relu(Globals g) {}"
    >>> why_not_the_entry(source, "relu", takes_arguments=False, passed=["x"], log="")
    'relu is a template, <class T>: entry="relu<T>"'
    """
    found = list(kernel_functions(text))
    name, angle, _ = entry.partition("<")
    named = [kernel for kernel in found if kernel.name == name or kernel.name.endswith(f"::{name}")]
    if not named:
        is_unknown = re.search(rf"\b{re.escape(name.rpartition('::')[2])}\b\W+(?:was not declared|is undefined)", log)
        return _no_such_kernel(name, found) if is_unknown and found else ""
    if len(named) > 1:
        return ""
    kernel = named[0]
    if kernel.template and not angle:
        return f'{name} is a template, <{kernel.template}>: entry="{name}<{", ".join(_names(kernel.template))}>"'
    if angle and not kernel.template:
        return f'{name} is no template: entry="{name}"'
    if len(kernel.parameters) > 1 and not takes_arguments:
        return f"{kernel} takes plain arguments, and no struct of them: args=True"
    if len(kernel.parameters) != len(passed) and f"the parameters of {entry}" in log:
        few = f"{len(kernel.parameters)} parameters, and the spec describes {len(passed)}: {', '.join(passed)}"
        return f"{kernel} has {few}"
    return ""


def _no_such_kernel(name: str, found: list[KernelFunction]) -> str:
    near = difflib.get_close_matches(name, [kernel.name for kernel in found], 1)
    question = f"; did you mean {near[0]}?" if near else ""
    return f"the source has no __global__ function {name}; it has {', '.join(map(str, found))}{question}"


def kernel_functions(text: str) -> Iterator[KernelFunction]:
    """The ``__global__`` functions that a source defines.

    >>> [str(kernel) for kernel in kernel_functions("template <int N> __global__ void f(float* x, int n) {}")]
    ['f<int N>(float* x, int n)']
    """
    for function in outline(tokens_of(text)).functions:
        head = function.head
        words = [token.text for token in head]
        if "__global__" not in words or function.is_member:
            continue
        bracket = next(
            (
                i
                for i, token in enumerate(head)
                if token.text == "(" and i > words.index("__global__") and head[i - 1].kind == "word"
                and words[i - 1] not in _ATTRIBUTES
            ),
            None,
        )  # fmt: skip
        if bracket is None or (end := closing(head, bracket)) is None:
            continue
        template = ""
        if words[:2] == ["template", "<"] and (angle := closing_angle(head, 1)) < len(head):
            template = text[head[1].end : head[angle].start]
        parameters = tuple(_spelled(text, part) for part in _parts(head[bracket + 1 : end]))
        yield KernelFunction(function.namespace + words[bracket - 1], _plain(template), parameters)


def _parts(tokens: list[Token]) -> Iterator[list[Token]]:
    """What stands between commas, those in brackets and angles aside."""
    depth = 0
    part: list[Token] = []
    for token in tokens:
        depth += (token.text in _OPENING) - (token.text in _CLOSING) if token.kind == "mark" else 0
        if token.text == "," and depth == 0:
            yield part
            part = []
        else:
            part.append(token)
    if part:
        yield part


def _spelled(text: str, tokens: list[Token]) -> str:
    return _plain(text[tokens[0].start : tokens[-1].end]) if tokens else ""


def _plain(text: str) -> str:
    return re.sub(r"\b__(?:grid_constant|restrict)__\s*", "", " ".join(text.split())).strip()


def _names(template: str) -> list[str]:
    """``T`` of ``typename T, int N = 4``: what has no default."""
    parts = [[token.text for token in part] for part in _parts(tokens_of(template))]
    return [part[-1] for part in parts if "=" not in part]
