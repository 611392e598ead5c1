"""The ``%%tkjit`` cell: a function in Python, CUDA below it, and the kernel that both make."""

from __future__ import annotations

import argparse
import ast
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from tkjit.errors import SpecError
from tkjit.kernel import Kernel
from tkjit.notebook.proposal import entry_of, propose

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_SOURCE = "_tkjit_source"


class Parts(NamedTuple):
    """A cell's two parts.

    Parameters
    ----------
    head : list of ast.stmt
        The functions in Python; empty where the cell is CUDA alone.
    source : str
        The CUDA behind them, on the lines that it has in the cell.
    """

    head: list[ast.stmt]
    source: str


class CellMagic:
    """``%%tkjit`` of a shell."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell

    def run(self, line: str, cell: str) -> None:
        """Define the kernels of a cell as variables.

        The cell begins with functions as ``@tkjit.kernel`` takes them, and goes on with their CUDA source. The
        decorator needs no source, and no ``entry=`` where the source has one kernel::

            %%tkjit
            @tkjit.kernel(grid="cdiv(x.numel, 256)", block=256)
            def relu(x: In[Tensor, "float32", "..."], y: Out[Tensor, "float32", "..."]) -> Tensor:
                return x.relu()

            __global__ void relu(const __grid_constant__ Globals g) {
                const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
                if (i < g.x.numel()) g.y[i] = fmaxf(g.x[i], 0.f);
            }

        ``%%tkjit --build`` compiles every variant at once, for this machine's GPU or for the CPU, and not at the first
        call.

        Raises
        ------
        SpecError
            If the cell is CUDA alone, with a function to put before it; or as ``@tkjit.kernel`` does.
        """
        options = _parsed(line)
        parts = split_cell(cell)
        if not parts.head:
            raise SpecError(
                f"this cell needs a function above its CUDA, which says what a call takes:\n\n{propose(cell)}"
            )
        for kernel in self._define(parts, f"%%tkjit {line}\n{cell}"):
            if options.build:
                kernel.warm_up().wait()

    def _define(self, parts: Parts, shown: str) -> list[Kernel]:
        """Run the Python part with the shell's variables."""
        names = [
            _with_source(function, parts.source) for function in parts.head if isinstance(function, ast.FunctionDef)
        ]
        file = self._shell.compile.cache(shown, self._shell.execution_count, raw_code=shown)
        module = ast.Module(body=parts.head, type_ignores=[])
        variables = self._shell.user_ns
        with _lent(variables, {**_markers(), _SOURCE: parts.source}):
            exec(compile(module, file, "exec", dont_inherit=True), variables)
        return [variables[name] for name in dict.fromkeys(names) if isinstance(variables.get(name), Kernel)]


def _markers() -> dict[str, Any]:
    """What specs are written with: it need not be imported."""
    tkjit = import_module("tkjit")
    return {"tkjit": tkjit, **{name: getattr(tkjit, name) for name in tkjit.__all__}}


@contextmanager
def _lent(variables: dict[str, Any], values: Mapping[str, Any]) -> Iterator[None]:
    """Variables with other values while a block runs: a shell's own In and Out are its history."""
    before = {name: variables[name] for name in values if name in variables}
    variables.update(values)
    try:
        yield
    finally:
        for name, value in values.items():
            if variables.get(name) is value:  # and not a kernel that the block has defined
                del variables[name]
        variables.update({name: value for name, value in before.items() if name not in variables})


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SpecError(f"%%tkjit: {message}; its one option is --build")


def _parsed(line: str) -> argparse.Namespace:
    parser = _Parser(prog="%%tkjit", add_help=False)
    parser.add_argument("-b", "--build", action="store_true")
    try:
        return parser.parse_args(shlex.split(line))
    except ValueError as error:  # a quotation mark that is not closed
        raise SpecError(f"%%tkjit: {error}; its one option is --build") from None


def split_cell(cell: str) -> Parts:
    """Where the Python at a cell's beginning ends: before the first line from which on it is none.

    The first line of a cell is its second, below ``%%tkjit``: both parts keep their lines.
    """
    lines = cell.split("\n")
    head: list[ast.stmt] = []
    end = 0
    for i in range(1, len(lines) + 1):
        following = next((line for line in lines[i:] if line.strip()), "")
        if following[:1].isspace():
            continue  # a function's body goes on
        try:
            tree = ast.parse("\n".join(lines[:i]))
        except (SyntaxError, ValueError):
            continue
        if any(isinstance(statement, ast.FunctionDef) for statement in tree.body):
            head, end = tree.body, i
    for statement in head:
        ast.increment_lineno(statement)
    return Parts(head, "\n" * (end + 1) + "\n".join(lines[end:]))


def _with_source(function: ast.FunctionDef, source: str) -> str:
    """Give a function's decorator the source, and the entry if it is plain which; the function's name."""
    for decorator in function.decorator_list:
        if not isinstance(decorator, ast.Call) or ast.unparse(decorator.func).rpartition(".")[2] not in (
            "kernel",
            "overload",
        ):
            continue
        if not decorator.args:
            decorator.args.append(ast.copy_location(ast.Name(_SOURCE, ast.Load()), decorator))
        if not any(keyword.arg in ("entry", None) for keyword in decorator.keywords):
            entry = ast.copy_location(ast.Constant(entry_of(source, function.name)), decorator)
            decorator.keywords.append(ast.copy_location(ast.keyword("entry", entry), decorator))
        return function.name
    raise SpecError(
        f"{function.name} has no decorator: @tkjit.kernel(grid=..., block=...) stands above each function of the cell"
    )
