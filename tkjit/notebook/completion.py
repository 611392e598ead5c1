"""Completes kernel names in ``load("``, and argument names in a call of a kernel."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tkjit import packages
from tkjit.kernel_objects import Kernel, find, kernels, load

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_NAME = re.compile(r"""(?<![\w.])(?P<callee>(?:\w+\.)*\w+)\(\s*(["'])(?P<begun>[\w.]*)$""")
_CALL = re.compile(r"(?P<callable>[A-Za-z_][\w.]*)\($")
_BEGUN = re.compile(r"(?:[(,]\s*)(?P<begun>[A-Za-z_]\w*|)$")


def complete(shell: InteractiveShell) -> Callable[[Any], Any]:
    """Return a matcher for a shell's completer."""
    from IPython.core.completer import SimpleCompletion, completion_matcher

    def matcher(context: Any) -> Any:
        begun, candidates, kind = completions(context.text_until_cursor, shell.user_ns)
        fitting = [
            SimpleCompletion(text=candidate, type=kind) for candidate in candidates if candidate.startswith(begun)
        ]
        return {"completions": fitting, "matched_fragment": begun, "suppress": bool(fitting) and kind == "kernel"}

    decorated: Callable[[Any], Any] = completion_matcher(identifier="tkjit", api_version=2)(matcher)
    return decorated


def completions(text: str, variables: dict[str, Any]) -> tuple[str, list[str], str]:
    """Return the word at the end of a text, the candidates for it, and the candidates' kind.

    Examples
    --------
    >>> import tkjit
    >>> begun, names, kind = completions('tkjit.load("gem', {"tkjit": tkjit})
    >>> begun, "gemm" in names, kind
    ('gem', True, 'kernel')
    >>> completions("f(x, ", {"f": tkjit.find("axpy")})
    ('', ['x=', 'y=', 'alpha=', 'stream='], 'param')
    """
    if (match := _NAME.search(text)) and _variable(match["callee"], variables) in (load, find):
        return match["begun"], [*kernels(), *packages.packages()], "kernel"
    match = _BEGUN.search(text)
    call = _innermost_call(text)
    if match is None or call is None:
        return "", [], ""
    name, inside = call
    kernel = _variable(name, variables)
    if not issubclass(type(kernel), Kernel):
        return "", [], ""
    names = [parameter for parameter in kernel.signature.parameters if not re.search(rf"\b{parameter}\s*=", inside)]
    return match["begun"], [f"{parameter}=" for parameter in names], "param"


def _innermost_call(text: str) -> tuple[str, str] | None:
    """Return the callable whose parenthesis is still open at the end, and the text after that parenthesis."""
    depth = 0
    for position in range(len(text) - 1, -1, -1):
        if text[position] in ")]}":
            depth += 1
        elif text[position] in "([{":
            depth -= 1
        if depth < 0:
            match = _CALL.search(text[: position + 1])
            return (match["callable"], text[position + 1 :]) if match else None
    return None


def _variable(name: str, variables: dict[str, Any]) -> Any:
    """Look up a variable, or an attribute of a variable, without evaluating properties."""
    first, *attributes = name.split(".")
    value = variables.get(first)
    for attribute in attributes:
        try:
            value = vars(value).get(attribute)
        except Exception:  # the user's object may raise anything
            return None
    return value
