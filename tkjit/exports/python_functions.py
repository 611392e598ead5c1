"""Copies the gradients and references of kernels, which are Python functions, into an exported package."""

from __future__ import annotations

import ast
import dis
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tkjit.errors import SpecError
from tkjit.kernel_objects import Kernel
from tkjit.render.torch_fakes import python_value
from tkjit.render.torch_python import FunctionSource

_CONSTANTS = (bool, int, float, str, type(None))


class Copies:
    """The functions that are copied into a package.

    Parameters
    ----------
    kernels : mapping
        Maps each kernel's name to the name of its function in the package.
    """

    def __init__(self, kernels: Mapping[str, str]) -> None:
        self._kernels = kernels
        self._texts: dict[str, str] = {}  # maps names to definitions
        self._copying: list[FunctionType] = []  # functions being copied, each used by the one before it

    def gradient(self, kernel: str, function: Callable[..., Any]) -> FunctionSource:
        """Copy a kernel's ``backward`` as ``_backward_of_NAME``.

        Raises
        ------
        SpecError
            If its source cannot be found, or it uses something that cannot be copied.
        """
        name = f"_backward_of_{re.sub(r'[^0-9a-zA-Z_]', '_', kernel)}"
        definition = re.sub(r"^def\s+\w+", f"def {name}", _source(kernel, "backward", function), count=1)
        return self._with_what_it_uses(kernel, "backward", function, name, definition)

    def reference(self, kernel: str, function: Callable[..., Any]) -> FunctionSource:
        """Copy a kernel's reference as ``reference_NAME``, without its decorator and annotations.

        Raises
        ------
        SpecError
            In the same cases as ``gradient``.
        """
        tree = ast.parse(_source(kernel, "reference", function, is_decorated=True)).body[0]
        assert isinstance(tree, ast.FunctionDef)
        tree.name = f"reference_{re.sub(r'[^0-9a-zA-Z_]', '_', kernel)}"
        tree.decorator_list, tree.returns = [], None
        arguments = tree.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            argument.annotation = None
        if ast.get_docstring(tree) is not None:
            tree.body = tree.body[1:]
        return self._with_what_it_uses(kernel, "reference", function, tree.name, ast.unparse(tree))

    def _with_what_it_uses(
        self, kernel: str, what: str, function: Callable[..., Any], name: str, definition: str
    ) -> FunctionSource:
        lines: list[str] = []
        imports: list[str] = []
        for used, value in self._globals_of(kernel, what, function):
            text = self._definition(kernel, what, used, value, imports)
            if text and self._texts.setdefault(used, text) != text:
                raise SpecError(
                    f"{kernel} cannot be exported: its {what} uses {used}, which another kernel's file defines "
                    "differently; rename one of them"
                )
            lines += [text, ""] if text else []
        return FunctionSource(name, "\n".join([*lines, definition]), tuple(imports))

    def _globals_of(self, kernel: str, what: str, function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
        """Return the global variables that a function reads, with their values."""
        if function.__code__.co_freevars:
            names = ", ".join(function.__code__.co_freevars)
            raise SpecError(
                f"{kernel} cannot be exported: its {what} uses {names} from the enclosing function; "
                "define them in the module"
            )
        known = function.__globals__
        for name in dict.fromkeys(_names(function)):
            if name in known and known[name] is not function:
                yield name, known[name]
            elif name not in known and name in self._kernels.values():
                raise SpecError(
                    f"{kernel} cannot be exported: its {what} calls Python's {name}, but a kernel has that name"
                )

    def _problem_of(self, used: str, function: FunctionType) -> str:
        """Return why a helper function cannot be copied under its name, or an empty string if it can."""
        if used in self._kernels.values():
            return "but a kernel of the package has that name"
        if function.__name__ != used:
            return f"which is another name of the function {function.__name__}"
        return "which calls itself through other functions" if function in self._copying else ""

    def _definition(self, kernel: str, what: str, used: str, value: Any, imports: list[str]) -> str:
        """Return the statement that defines a name in the package's module.

        The statement is empty if the name needs no definition, or only an import.
        """
        if isinstance(value, Kernel):
            exported = self._kernels.get(value.name)
            if exported is None:
                raise SpecError(
                    f"{kernel} cannot be exported alone: its {what} calls the kernel {value.name}; export that as well"
                )
            return "" if exported == used else f"{used} = {exported}"
        if isinstance(value, ModuleType) and _is_installed(value.__name__):
            imports.append(f"import {value.__name__}" + ("" if value.__name__ == used else f" as {used}"))
            return ""
        module = getattr(value, "__module__", None) or ""
        is_importable = module and getattr(sys.modules.get(module), getattr(value, "__name__", ""), None) is value
        if is_importable and _is_installed(module):
            imports.append(f"from {module} import {value.__name__}" + ("" if value.__name__ == used else f" as {used}"))
            return ""
        if isinstance(value, FunctionType):
            if problem := self._problem_of(used, value):
                raise SpecError(f"{kernel} cannot be exported: its {what} uses {used}, {problem}; rename or inline it")
            self._copying.append(value)
            copied = self._with_what_it_uses(kernel, what, value, used, _source(kernel, what, value))
            self._copying.pop()
            imports += copied.imports
            return copied.text
        if isinstance(value, _CONSTANTS):
            return f"{used} = {python_value(value)}"
        raise SpecError(
            f"{kernel} cannot be exported: its {what} uses {used}, a {type(value).__name__} that the package would "
            "lack; define it in the function"
        )


def called_kernels(function: Callable[..., Any] | None) -> list[Kernel]:
    """Return the kernels that a function calls, itself or through other functions of its file."""
    waiting: list[Any] = [function]
    found: list[Kernel] = []
    for value in waiting:  # the list grows inside the loop
        if isinstance(value, Kernel):
            found.append(value)
        elif isinstance(value, FunctionType) and not _is_installed(value.__module__ or ""):
            used = (value.__globals__.get(name) for name in dict.fromkeys(_names_in(value.__code__)))
            waiting += [one for one in used if not any(one is other for other in waiting)]
    return found


def _is_installed(module: str) -> bool:
    """Whether the package may import a module, which must be part of the standard library or of torch."""
    top = module.partition(".")[0]
    return top in sys.stdlib_module_names or top == "torch"


def _source(kernel: str, what: str, function: Callable[..., Any], *, is_decorated: bool = False) -> str:
    try:
        text = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError) as error:
        raise SpecError(f"{kernel} cannot be exported: the source of its {what} is not available ({error})") from None
    if not is_decorated and not text.startswith("def "):
        raise SpecError(
            f"{kernel} cannot be exported: its {what} is not a plain function; define it with def, undecorated"
        )
    return text


def _names(function: Callable[..., Any]) -> Iterator[str]:
    """Return the global names in a function's body and in its parameters' defaults."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    for default in (*tree.args.defaults, *filter(None, tree.args.kw_defaults)):
        yield from (node.id for node in ast.walk(default) if isinstance(node, ast.Name))
    yield from _names_in(function.__code__)


def _names_in(code: CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)
