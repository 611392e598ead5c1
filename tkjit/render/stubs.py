"""Renders type stubs of kernels, for editors and type checkers."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from textwrap import dedent
from typing import TypeAlias, TypeVar

from tkjit.errors import SpecError
from tkjit.render.text import indent, repr_text
from tkjit.spec import Field, Spec
from tkjit.spec.signature import python_type, signature_of

MARK = "# Written by python -m tkjit stubs; run it again when a kernel's parameters have changed."
_OVERLOAD = "@typing.overload"
# Overloads may overlap. In a stub, as in a kernel, a call takes the first one that fits.
_OVERLAPPING = (
    '# mypy: disable-error-code="overload-overlap, overload-cannot-match"',
    "# pyright: reportOverlappingOverload=false",
)
_IMPORTS = {
    "typing": "import typing",
    "tkjit": "import tkjit",
    "torch": "import torch",
    "Tensor": "from torch import Tensor",
    "Club": "from tkjit import Club",
    "ParallelTensor": "from tkjit import ParallelTensor",
}
_STREAM = "torch.cuda.Stream | int | None"
_WIDTH = 120
_LONGEST_DEFAULT = 40
# Maps a type to the types that a type checker promotes it to.
_PROMOTED = {"int": {"float"}, "bool": {"int", "float"}}
_TUPLE_METHODS = ("count", "index")
_PLAIN = ("str", "bytes", "int", "float", "bool")
_AS_WRITTEN = "Import ImportFrom Assign AnnAssign AugAssign TypeAlias If Try TryStar".split()

_Fields: TypeAlias = tuple[tuple[str, str], ...]  # names with types
_Function = TypeVar("_Function", ast.FunctionDef, ast.AsyncFunctionDef)


def render_module_stub(source: str, kernels: Mapping[str, Sequence[Spec]]) -> str:
    """Render a module's stub: its kernels as objects with a typed call, and its other definitions without bodies.

    Parameters
    ----------
    source : str
        The module's Python source.
    kernels : dict
        Maps the name of each kernel in the module to its overloads. A kernel that is imported from another
        module stays an import.

    Raises
    ------
    SpecError
        If the module defines no kernel.
    """
    statements = ast.parse(source).body
    imported = {name for statement in statements if _is_import(statement) for name in _bound(statement)}
    defined = {name for statement in statements if not _is_import(statement) for name in _bound(statement)}
    own_kernels = {name: specs for name, specs in kernels.items() if name in defined or not imported & {name, "*"}}
    if not own_kernels:
        raise SpecError("the module defines no kernel")
    declared = {
        name: [*_kernel_class(name, specs, "tkjit.Kernel"), "", f"{name}: {_class_name(name)}"]
        for name, specs in own_kernels.items()
    }
    return _stub(source, declared)


def render_package_stub(source: str, kernels: Mapping[str, Sequence[Spec]]) -> str:
    """Render the stub of tkjit itself, whose ``load`` and ``find`` know these kernels by their names.

    Parameters
    ----------
    source : str
        The package's ``__init__.py``.
    kernels : dict
        Maps the name of each kernel to its overloads.
    """
    classes = [line for name, specs in kernels.items() for line in _kernel_class(name, specs, "Kernel")]
    find = _by_name("find", "name", kernels, {"str": "Kernel"})
    load = _by_name("load", "kernel", kernels, {"_K": "_K", "str | Spec": "Kernel"})
    same = ["", '_K = typing.TypeVar("_K", bound=Kernel)', ""]
    return _stub(source, {"find": [*classes, "", *find], "load": [*same, *load]})


def _by_name(function: str, parameter: str, kernels: Iterable[str], others: Mapping[str, str]) -> list[str]:
    """Render overloads that return the kernel with a given name; ``others`` maps other parameter types to results."""
    known = {f"typing.Literal[{repr_text(name)}]": _class_name(name) for name in kernels}
    overloads = [
        f"def {function}({parameter}: {kind}) -> {result}: ..." for kind, result in (known | {**others}).items()
    ]
    return [line for overload in overloads for line in (_OVERLOAD, overload)]


def _stub(source: str, declared: Mapping[str, Sequence[str]]) -> str:
    """Render a module's outline, with the imports that its kernels' declarations need."""
    module = ast.parse(source)
    doc = ast.get_docstring(module)
    body = _outline(module, source, declared)
    outline = ast.parse("\n".join(body))
    used = {node.id for node in ast.walk(outline) if isinstance(node, ast.Name)}
    bound = {name for statement in outline.body for name in _bound(statement)}
    imports = [line for name, line in _IMPORTS.items() if name in used and name not in bound]
    overlapping = _OVERLAPPING if f"    {_OVERLOAD}" in body else ()
    head = [MARK, *overlapping, *(_docstring(doc) if doc else []), *([""] if imports or body[0] else []), *imports]
    return "\n".join([*head, *body]) + "\n"


# ---- a kernel


@dataclass(frozen=True)
class _Call:
    """A signature as type checkers see it, which may represent several overloads.

    Parameters
    ----------
    parameters : tuple of Parameter
        The parameters; their annotations and defaults are texts.
    returns : tuple of str
        The types that the call may return.
    docs : tuple of str
        The overloads' docstrings.
    """

    parameters: tuple[inspect.Parameter, ...]
    returns: tuple[str, ...]
    docs: tuple[str, ...]


def _identifier(kernel: str) -> str:
    """Make a kernel's name fit for an identifier; it may also name a package or a file, as in ``mine.py:mine``."""
    return re.sub(r"\W", "_", kernel)


def _class_name(kernel: str) -> str:
    return f"_{_identifier(kernel)}_kernel"


def _kernel_class(name: str, specs: Sequence[Spec], base: str) -> list[str]:
    """Render a kernel's class, after the classes of the named tuples that the kernel returns."""
    results: dict[_Fields, str] = {}
    for fields in map(_result_fields, specs):
        if len(fields) > 1:
            results.setdefault(fields, f"_{_identifier(name)}_result{len(results) + 1 if results else ''}")
    lines = []
    for fields, result in results.items():
        lines += ["", f"class {result}(typing.NamedTuple):"]
        for field, kind in fields:
            ignored = "  # type: ignore[assignment]" if field in _TUPLE_METHODS else ""
            lines.append(f"    {field}: {kind}{ignored}")
    calls = _merge(_call(spec, results) for spec in specs)
    lines += ["", f"class {_class_name(name)}({base}):"]
    for i, call in enumerate(calls):
        lines += indent([*([""] if i else []), *([_OVERLOAD] if len(calls) > 1 else []), *_definition(call)])
    return lines


def _result_fields(spec: Spec) -> _Fields:
    kinds = {f.name: f"{python_type(f)} | None" if f.optional else python_type(f) for f in spec.fields}
    if spec.is_parallel:  # a call with lists returns lists
        kinds = {f.name: f"{python_type(f)} | list[Tensor]" for f in spec.tensors}
    return tuple((name, kinds[name]) for name in spec.returns)


def _call(spec: Spec, results: Mapping[_Fields, str]) -> _Call:
    outputs = [python_type(f) for f in spec.outputs]
    out = outputs[0] if len(outputs) == 1 else f"tuple[{', '.join(outputs)}]"
    inputs = {f.name: _accepted_type(f) for f in spec.given if f.direction != "out"}
    if spec.is_parallel:
        inputs |= {f.name: f"{inputs[f.name]} | typing.Sequence[Tensor]" for f in spec.inputs}
    exact = {"out": f"{out} | None", "stream": _STREAM, **inputs}
    parameters = [
        parameter.replace(annotation=exact.get(name, parameter.annotation), default=_default(parameter.default))
        for name, parameter in signature_of(spec).parameters.items()
    ]
    fields = _result_fields(spec)
    returned = spec.result or (results[fields] if len(fields) > 1 else fields[0][1] if fields else "None")
    return _Call(tuple(parameters), _members(returned), (spec.doc,) if spec.doc else ())


def _accepted_type(field: Field) -> str:
    """Return the type that a call accepts, which may be wider than the declared type.

    A list may be any sequence, and a list of ints may be one int. A dtype may be its name, and a device its name or
    index.
    """
    text = python_type(field)
    if field.is_list:
        text = f"typing.Sequence[{'Tensor | None' if field.has_optional_items else 'Tensor'}]"
    elif field.value_type is not None and field.value_type.item is not None:
        single_int = "int | " if field.value_type.item.text == "int" else ""
        text = f"{single_int}typing.Sequence[{field.value_type.item.text}]"
    elif text == "torch.dtype":
        text = f"{text} | str"
    elif text == "torch.device":
        text = f"{text} | str | int"
    return f"{text} | None" if field.optional else text


def _default(value: object) -> object:
    """Return a default's text, or ``...`` if the text means something else in a stub: ``inf`` would be a name."""
    if value is inspect.Parameter.empty:
        return value
    text = repr(value)
    if re.fullmatch(r"torch\.\w+", text):  # a dtype
        return text
    try:
        same = len(text) <= _LONGEST_DEFAULT and ast.literal_eval(text) == value
    except (ValueError, SyntaxError):
        same = False
    return text if same else "..."


def _merge(calls: Iterable[_Call]) -> list[_Call]:
    """Return the signatures that type checkers can tell apart, in the order in which a call tries them."""
    kept: list[_Call] = []
    for call in calls:
        # an overload that an earlier one covers differs only in dtypes or dims, or is never tried
        wider = next((i for i, earlier in enumerate(kept) if _covers(earlier, call)), None)
        if wider is None:
            kept.append(call)
        else:
            kept[wider] = _join(kept[wider], call)
    return kept


def _join(wide: _Call, narrow: _Call) -> _Call:
    """Return the wide signature, changed so that it also represents the narrow one."""
    defaults = {p.name: p.default for p in narrow.parameters if p.default is not p.empty}
    parameters = [
        p.replace(default="...") if p.default is not p.empty and defaults.get(p.name, p.default) != p.default else p
        for p in wide.parameters
    ]
    returns, docs = dict.fromkeys(wide.returns + narrow.returns), dict.fromkeys(wide.docs + narrow.docs)
    return _Call(tuple(parameters), tuple(returns), tuple(docs))


def _covers(wide: _Call, narrow: _Call) -> bool:
    """Return whether the wide signature takes every call that the narrow one takes."""
    unmatched = {p.name: p for p in wide.parameters}
    positional = [[p.name for p in call.parameters if p.kind is not p.KEYWORD_ONLY] for call in (wide, narrow)]
    if positional[0][: len(positional[1])] != positional[1]:
        return False
    for p in narrow.parameters:
        wide_parameter = unmatched.pop(p.name, None)
        if wide_parameter is None or not _accepts(wide_parameter.annotation, p.annotation):
            return False
        if wide_parameter.default is p.empty and p.default is not p.empty:
            return False
    return all(p.default is not p.empty for p in unmatched.values())


def _accepts(wide: str, narrow: str) -> bool:
    known = set(_members(wide))
    return all(kind in known or known & _PROMOTED.get(kind, set()) for kind in _members(narrow))


def _members(annotation: str) -> tuple[str, ...]:
    """Split a union into its types: ``Tensor``, ``None``."""
    node, last = ast.parse(annotation, mode="eval").body, []
    while isinstance(node, ast.BinOp):
        last.append(ast.unparse(node.right))
        node = node.left
    return (ast.unparse(node), *reversed(last))


def _definition(call: _Call) -> list[str]:
    parameters = ["self"]
    for p in call.parameters:
        if p.kind is p.KEYWORD_ONLY and "*" not in parameters:
            parameters.append("*")
        parameters.append(f"{p.name}: {p.annotation}" + ("" if p.default is p.empty else f" = {p.default}"))
    end = f") -> {' | '.join(call.returns)}:"
    line = f"def __call__({', '.join(parameters)}{end}"
    lines = [line] if len(line) + 4 <= _WIDTH else ["def __call__(", *indent(f"{p}," for p in parameters), end]
    if not call.docs:
        return [*lines[:-1], f"{lines[-1]} ..."]
    return [*lines, *indent(_docstring("\n\n".join(call.docs)))]


def _docstring(doc: str) -> list[str]:
    escaped = doc.replace("\\", "\\\\")
    if doc.endswith('"') and "\n" not in doc:  # the closing quotes follow directly
        escaped = escaped[:-1] + '\\"'
    lines = escaped.replace('"""', '\\"\\"\\"').split("\n")
    return [f'"""{lines[0]}', *lines[1:], '"""'] if len(lines) > 1 else [f'"""{lines[0]}"""']


# ---- a module


def _outline(module: ast.Module, source: str, declared: Mapping[str, Sequence[str]]) -> list[str]:
    """Render a module's statements without bodies; ``declared`` replaces the statements that bind its names."""
    pending = dict(declared)
    seen = set(declared)
    lines: list[str] = []
    end = 0
    for statement in _seen_by_type_checkers(module):
        names = _bound(statement)
        kept = _kept(statement, source.split("\n"), declared.keys()) if names else []
        if kept is None:
            kept = [f"{name}: typing.Any" for name in dict.fromkeys(names) if name not in seen]
        kept += (line for name in names for line in pending.pop(name, ()))
        if kept and kept[0] and statement.lineno > end + 1:
            lines.append("")
        lines += kept
        seen.update(names)
        end = statement.end_lineno or 0
    return [*lines, *(line for remaining in pending.values() for line in remaining)]


def _seen_by_type_checkers(module: ast.Module) -> Iterator[ast.stmt]:
    """Yield a module's statements, with the body of ``if TYPE_CHECKING:`` instead of the whole ``if``."""
    for statement in module.body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            yield from statement.body
        else:
            yield statement


def _kept(statement: ast.stmt, source: Sequence[str], declared: Set[str]) -> list[str] | None:
    """Return the lines that a stub keeps of a statement, or None if only the names that it binds are kept."""
    declares = not declared.isdisjoint(_bound(statement))
    match statement:
        case ast.ImportFrom(module="__future__"):
            return []
        case ast.ImportFrom() if declares or statement.level:
            return _import(statement, declared)
        case ast.If() if ast.unparse(statement.test).startswith("__name__ =="):
            return []
    if declares:
        return None
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return ["", *ast.unparse(_WithoutBodies().visit(statement)).split("\n")]
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=value)) if type(value).__name__ in _PLAIN:
            return [f"{name}: {type(value).__name__}"]
        case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id=kind)) if kind in _PLAIN:
            return [f"{name}: {kind}"]
    if type(statement).__name__ in _AS_WRITTEN:
        return dedent("\n".join(source[statement.lineno - 1 : statement.end_lineno])).split("\n")
    return None


def _import(statement: ast.ImportFrom, declared: Set[str]) -> list[str]:
    """Render an import without declared names. A stub exports only imported names that are repeated after ``as``."""
    names = [alias for alias in statement.names if (alias.asname or alias.name) not in declared]
    if statement.level:
        names = [ast.alias(alias.name, alias.asname or alias.name) if alias.name != "*" else alias for alias in names]
    return [ast.unparse(ast.ImportFrom(statement.module, names, statement.level))] if names else []


class _WithoutBodies(ast.NodeTransformer):
    """Keeps signatures and docstrings, and the body of ``__init__``, from which a type checker infers attributes."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        return self._empty(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AsyncFunctionDef:
        return self._empty(node)

    def _empty(self, node: _Function) -> _Function:
        if node.name != "__init__":
            node.body = node.body[: ast.get_docstring(node) is not None] or [ast.Expr(ast.Constant(...))]
        return node


def _is_import(statement: ast.stmt) -> bool:
    return isinstance(statement, (ast.Import, ast.ImportFrom))


def _bound(node: ast.AST) -> list[str]:
    """Return the names that a statement binds in its module."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.alias(name=name, asname=alias):
            return [alias or name.partition(".")[0]]
        case ast.Name(id=name, ctx=ast.Store()):
            return [name]
        case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return []
    return [name for child in ast.iter_child_nodes(node) for name in _bound(child)]
