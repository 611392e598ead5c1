"""Decides whether a spec file is plain, which means that its specs depend only on its text."""

from __future__ import annotations

import ast

# The markers that take arguments, such as Align(16).
_CALLED = ("Align", "CExpr", "CType", "Fill", "HeaderLibrary", "MaxLength", "Member")
# The names that a plain spec file may import from tkjit, in addition to the decorator.
_MARKERS = (
    *("In", "InOut", "Out", "Scratch", "Constant", "Scalar", "Struct", "Tensor", "Strided", "ParallelTensor"),
    *("Generator", "DType", "Zero"),
    *_CALLED,
)
_TYPES = dict.fromkeys(("float", "int", "bool", "str", "tuple", "list", "dict", "set"), "data")


def is_plain(text: str) -> bool:
    """Return whether a spec file only declares kernels.

    Such a file only imports tkjit (and torch, for the references), assigns literals to names, and defines functions:
    kernels decorated with literals, and helpers for their ``backward=``, ``prepare=`` and ``peers=``. The result of
    running it does not depend on the environment, the machine or the time.

    Examples
    --------
    >>> is_plain("import tkjit\\nN = 256\\n@tkjit.kernel('a.cu', entry='a', grid=1, block=N)\\ndef a(n: int): ...")
    True
    >>> is_plain("import os, tkjit\\nSIZE = int(os.environ['SIZE'])")
    False
    """
    try:
        statements = ast.parse(text).body
    except (SyntaxError, ValueError):
        return False
    names = dict(_TYPES)  # maps a name to its kind: data, tkjit or torch, decorator, kernel, function
    return all(_is_plain(statement, names) for statement in statements)


def _is_plain(statement: ast.stmt, names: dict[str, str]) -> bool:
    match statement:
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Import(names=[ast.alias(name="tkjit" | "torch" as module, asname=given)]):
            names[given or module] = module
            return True
        case ast.ImportFrom(module="__future__"):
            return True
        case ast.ImportFrom(module="tkjit", level=0, names=imported):
            offered = {**dict.fromkeys(_MARKERS, "data"), "kernel": "decorator"}
            names.update((alias.asname or alias.name, offered.get(alias.name, "")) for alias in imported)
            return all(alias.name in offered for alias in imported)
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            names[name] = "data"
            return _is_data(value, names)
        case ast.FunctionDef(name=name, decorator_list=[ast.Call() as decorator]):
            plain = (
                _decorates(decorator.func, names) and _has_data(decorator, names) and _has_plain_head(statement, names)
            )
            names[name] = "kernel"
            return plain
        case ast.FunctionDef(name=name, decorator_list=[]):  # for backward=, prepare= and peers=
            names[name] = "function"
            return _has_plain_head(statement, names)
        case _:
            return False


def _decorates(node: ast.expr, names: dict[str, str]) -> bool:
    """Return whether a decorator is ``tkjit.kernel``, ``kernel``, or the ``overload`` of an earlier kernel."""
    match node:
        case ast.Name(id=name):
            return names.get(name) == "decorator"
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            return (names.get(name), attribute) in (("tkjit", "kernel"), ("kernel", "overload"))
        case _:
            return False


def _has_plain_head(function: ast.FunctionDef, names: dict[str, str]) -> bool:
    arguments = function.args
    parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    annotations = [*(argument.annotation for argument in parameters), function.returns]
    # a string annotation is evaluated later, and could contain any code
    if any(isinstance(annotation, ast.Constant) and isinstance(annotation.value, str) for annotation in annotations):
        return False
    given = [node for node in (*annotations, *arguments.defaults, *arguments.kw_defaults) if node is not None]
    return all(_is_data(node, names) for node in given)


def _has_data(call: ast.Call, names: dict[str, str]) -> bool:
    given = [keyword.value for keyword in call.keywords if not _is_function(keyword, names)]
    return all(_is_data(node, names) for node in (*call.args, *given))


def _is_function(keyword: ast.keyword, names: dict[str, str]) -> bool:
    """Return whether a keyword is ``backward=``, ``prepare=`` or ``peers=``, and names only earlier functions."""
    match keyword:
        case ast.keyword(arg="backward" | "prepare", value=ast.Name(id=name)):
            return names.get(name) == "function"
        case ast.keyword(arg="peers", value=ast.Dict(keys=keys, values=values)):
            is_named = all(isinstance(key, ast.Constant) for key in keys)
            return is_named and all(isinstance(one, ast.Name) and names.get(one.id) == "function" for one in values)
        case _:
            return False


def _is_data(node: ast.expr, names: dict[str, str]) -> bool:
    """Return whether an expression consists of literals, names of literals, and tkjit's markers."""
    match node:
        case ast.Name(id=name):
            return names.get(name) == "data"
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            return names.get(name) == "tkjit" and attribute in _MARKERS
        case ast.Call(func=function):
            marker = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            return marker in _CALLED and _is_data(function, names) and _has_data(node, names)
        case ast.Dict(keys=keys, values=values):
            return all(key is not None and _is_data(key, names) for key in keys) and all(
                _is_data(value, names) for value in values
            )
        case ast.Tuple() | ast.List() | ast.Subscript() | ast.BinOp() | ast.UnaryOp():
            return all(_is_data(child, names) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
        case _:
            return isinstance(node, ast.Constant)
