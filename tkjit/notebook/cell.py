"""The ``%%tkjit`` cell: a Python function, followed by the CUDA source of its kernel."""

from __future__ import annotations

import argparse
import ast
import io
import re
import shlex
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from tkjit.errors import SpecError
from tkjit.kernel_objects import Kernel
from tkjit.notebook.proposal import entry_of, propose

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_SOURCE = "_tkjit_source"
_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
# the last statement of the Python part is one of these
_PYTHON = (ast.FunctionDef, ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom)
_DIRECTIVE = re.compile(r"#\s*(?:include|define|undef|if|ifdef|ifndef|else|elif|endif|pragma|error|line)\b")


class Parts(NamedTuple):
    """A cell's two parts.

    Parameters
    ----------
    head : list of ast.stmt
        The Python statements; empty if the cell contains only CUDA.
    source : str
        The CUDA source that follows, after as many empty lines as it takes to keep the cell's line numbers.
    """

    head: list[ast.stmt]
    source: str


class CellMagic:
    """The ``%%tkjit`` magic of a shell."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell

    def run(self, line: str, cell: str) -> None:
        """Define the kernels of a cell as variables.

        The cell starts with functions decorated with ``@tkjit.kernel``, followed by their CUDA source. The decorator
        needs no source, and no ``entry=`` if the source has only one kernel::

            %%tkjit
            @tkjit.kernel(grid="cdiv(x.numel, 256)", block=256)
            def relu(x: In[Tensor, "float32", "..."], y: Out[Tensor, "float32", "..."]) -> Tensor:
                return x.relu()

            __global__ void relu(const __grid_constant__ Globals g) {
                const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
                if (i < g.x.numel()) g.y[i] = fmaxf(g.x[i], 0.f);
            }

        ``%%tkjit --build`` compiles every variant immediately instead of at the first call, for this machine's GPU or
        for the CPU if there is none.

        Raises
        ------
        SpecError
            If the cell contains only CUDA (the message then proposes a function), if its Python part is
            invalid, or if ``@tkjit.kernel`` rejects the function or the source.
        """
        __tracebackhide__ = True
        options = _parsed(line)
        parts = split_cell(cell)
        if not parts.head and (reason := _why_no_python(cell)):
            raise SpecError(f"the Python at the start of this cell cannot be read: {reason}")
        if not parts.head:
            raise SpecError(
                f"this cell needs a function above its CUDA that declares the parameters:\n\n{propose(cell)}"
            )
        for kernel in self._define(parts, f"%%tkjit {line}\n{cell}"):
            if options.build:
                kernel.warm_up().wait()

    def _define(self, parts: Parts, shown: str) -> list[Kernel]:
        """Run the Python part with the shell's variables, and return its kernels."""
        __tracebackhide__ = True
        functions = [one for one in parts.head if isinstance(one, ast.FunctionDef)]
        # functions without a decorator are helpers, for example for backward=
        names = [one.name for one in functions if _give_source(one, parts.source)]
        if not names:
            above = "write @tkjit.kernel(grid=..., block=...) above the function of a kernel"
            raise SpecError(f"{functions[-1].name} has no decorator: {above}")
        file = self._shell.compile.cache(shown, self._shell.execution_count, raw_code=shown)
        module = ast.Module(body=parts.head, type_ignores=[])
        variables = self._shell.user_ns
        with _lent(variables, {**_markers(), _SOURCE: parts.source}):
            exec(compile(module, file, "exec", dont_inherit=True), variables)
        return [variables[name] for name in dict.fromkeys(names) if isinstance(variables.get(name), Kernel)]


def _markers() -> dict[str, Any]:
    """Return the names for writing specs, so that a cell does not have to import them."""
    tkjit = import_module("tkjit")
    return {"tkjit": tkjit, **{name: getattr(tkjit, name) for name in tkjit.__all__}}


@contextmanager
def _lent(variables: dict[str, Any], values: Mapping[str, Any]) -> Iterator[None]:
    """Set variables while a block runs, then restore them.

    tkjit's ``In`` and ``Out`` would hide the shell's history, which has the same names.
    """
    before = {name: variables[name] for name in values if name in variables}
    variables.update(values)
    try:
        yield
    finally:
        for name, value in values.items():
            if variables.get(name) is value:  # otherwise the variable is a kernel that the block has defined
                del variables[name]
        variables.update({name: value for name, value in before.items() if name not in variables})


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SpecError(f"%%tkjit: {message}; its only option is --build")


def _parsed(line: str) -> argparse.Namespace:
    parser = _Parser(prog="%%tkjit", add_help=False)
    parser.add_argument("-b", "--build", action="store_true")
    try:
        return parser.parse_args(shlex.split(line))
    except ValueError as error:  # an unclosed quote
        raise SpecError(f"%%tkjit: {error}; its only option is --build") from None


def split_cell(cell: str) -> Parts:
    """Split a cell where the Python at its start ends.

    Both parts keep their line numbers in the cell, whose first line is ``%%tkjit``.
    """
    lines = cell.split("\n")
    head: list[ast.stmt] = []
    end = 0
    for i in range(1, len(lines) + 1):
        following = next((line for line in lines[i:] if line.strip()), "")
        if following[:1].isspace():
            continue  # inside a function's body
        try:
            body = ast.parse("\n".join(lines[:i])).body
        except _UNREADABLE:
            continue
        # the C++ may begin with a macro's invocation, which Python parses as a call
        while body and not isinstance(body[-1], _PYTHON):
            body.pop()
        if any(isinstance(statement, ast.FunctionDef) for statement in body):
            head, end = body, body[-1].end_lineno or i
    _check_directives(lines[:end])
    for statement in head:
        ast.increment_lineno(statement)
    return Parts(head, "\n" * (end + 1) + "\n".join(lines[end:]))


def _check_directives(lines: Sequence[str]) -> None:
    """Reject preprocessor directives in the Python part, where they would be comments.

    Raises
    ------
    SpecError
        If there is a directive; the message has its line in the cell.
    """
    with suppress(tokenize.TokenError, IndentationError):
        for token in tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline):
            if token.type == tokenize.COMMENT and _DIRECTIVE.match(token.string):
                raise SpecError(
                    f"line {token.start[0] + 1} of the cell, {token.string!r}, is a comment in the Python part: "
                    "move the directive below the function"
                )


def _why_no_python(cell: str) -> str:
    """Explain the error in a cell that starts like Python; return "" for a cell that starts with CUDA."""
    if not re.match(r"@|def |async |import |from |class |%", cell.lstrip("\n")):
        return ""
    lines = cell.split("\n")
    cuda = re.compile(r"template|__global__|#|//|/\*|struct |using |const")
    end = next((i for i, line in enumerate(lines) if cuda.match(line)), None)
    try:
        ast.parse("\n".join(lines[:end]))
    except SyntaxError as error:
        return f"{error.msg}, line {(error.lineno or 0) + 1} of the cell"
    except _UNREADABLE as error:
        return type(error).__name__
    return "no function in it defines a kernel"


def _give_source(function: ast.FunctionDef, source: str) -> bool:
    """Add the source, and a missing ``entry=``, to a function's decorator; return whether it has a decorator."""
    for decorator in function.decorator_list:
        if not isinstance(decorator, ast.Call):
            continue
        if ast.unparse(decorator.func).rpartition(".")[2] not in ("kernel", "overload"):
            continue
        if not decorator.args:
            decorator.args.append(ast.copy_location(ast.Name(_SOURCE, ast.Load()), decorator))
        if not any(keyword.arg in ("entry", None) for keyword in decorator.keywords):
            entry = ast.copy_location(ast.Constant(entry_of(source, function.name)), decorator)
            decorator.keywords.append(ast.copy_location(ast.keyword("entry", entry), decorator))
        return True
    return False
