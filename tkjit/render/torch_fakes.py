"""Renders the fake implementations of an exported torch package's operators, which compute the outputs' shapes."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Sequence

from tkjit.render.text import indent, repr_text
from tkjit.render.torch_binding import operator_parameters, operators
from tkjit.spec import Field
from tkjit.spec.c_signature import CParameter, CSignature, Kind
from tkjit.spec.dim_order import derived_in_order
from tkjit.spec.expr import EXTENTS, Expr
from tkjit.spec.model import MISSING


def render_fakes(signature: CSignature) -> list[str]:
    lines: list[str] = []
    for out in operators(signature):
        name = f"{signature.name}_out" if out else signature.name
        parameters = operator_parameters(signature, out=out)
        required = [
            i for i, p in enumerate(parameters) if p.field.default is MISSING or p.kind in (Kind.OUTPUT, Kind.SEED)
        ]
        first = max(required, default=-1) + 1  # the first parameter that may have a default
        names = [part for i, p in enumerate(parameters) for part in fake_parameter(p, has_default=i >= first)]
        body = [] if out else _fake_body(signature)
        lines += [
            *(["", ""] if lines else []),
            f"@torch.library.register_fake(add_op_namespace_prefix({repr_text(name)}))",
            f"def _fake_{name}({', '.join(names)}):",
            *indent(body or ["return None"]),
        ]
    return lines


def fake_parameter(p: CParameter, *, has_default: bool) -> list[str]:
    if p.kind is Kind.SEED:
        return [f"seed_of_{p.name}", f"offset_of_{p.name}"]
    return [f"{p.name}={python_value(p.field.default)}" if has_default else p.name]


def _fake_body(signature: CSignature) -> list[str]:
    """Render the code that computes the shapes of the outputs from those of the inputs."""
    if not signature.outputs:
        return []
    needed = {name for p in signature.outputs for dim in p.field.dims for name in dim.names}
    lines = read_dims(signature, needed, checks=True)
    place = anchor(signature)
    outputs = []
    for p in signature.outputs:
        sizes = [*(["*leading"] if p.field.leading else []), *(python_expression(dim) for dim in p.field.dims)]
        shape = f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"
        outputs.append(f"{place}.new_empty({shape}, dtype={_dtype(signature, p.field)})")
    return [*lines, f"return {', '.join(outputs)}"]


def _dtype(signature: CSignature, f: Field) -> str:
    """Return the Python expression for an output's dtype."""
    spec = signature.spec
    if f.dtype not in spec.type_variants:
        return f"torch.{f.dtype}"
    if any(other.name == f.dtype for other in spec.dtype_fields):
        return f.dtype
    first = next(p for p in signature.parameters if p.field.is_input and p.field.dtype == f.dtype)
    return f"{_one_of(first)}.dtype"


def read_dims(signature: CSignature, needed: Iterable[str], *, checks: bool) -> list[str]:
    """Render the code that reads a call's dims from its tensors.

    With ``checks``, the code reads all tensors and checks that dims with the same name have the same size. Otherwise it
    reads only the tensors that have a needed dim.
    """
    spec = signature.spec
    lines: list[str] = []
    known: set[str] = set()
    wanted = set(needed)
    derived = derived_in_order(spec, [Expr.parse(name) for name in sorted(wanted) if name in dict(spec.derived)])
    wanted |= {name for _, expr in derived for name in expr.names}
    has_leading = False
    for p in sorted(signature.parameters, key=lambda p: p.is_optional):  # required tensors bind the dims first
        f = p.field
        if not f.is_input or not (f.dims or f.leading):
            continue
        own_dims = [dim.text for dim in f.dims if dim.text in spec.dim_names]
        if not checks and not wanted & set(own_dims):
            continue
        variable = _one_of(p)
        tests: list[str] = []
        places = []
        for i, dim in enumerate(f.dims):
            place = dim.text
            if dim.text not in spec.dim_names or dim.text in known or dim.text in places:
                place = f"_{p.name}_{i}"
                if checks and dim.is_name and dim.text in spec.dim_names:
                    shown_dim = repr_text(f"{dim.text} of {p.name}")
                    tests.append(f"_same({repr_text(spec.name)}, {shown_dim}, {place}, {dim.text})")
            places.append(place)
        if f.leading:
            places.insert(0, "*_" if has_leading or p.is_optional else "*leading")
            has_leading = has_leading or not p.is_optional
        reads = [f"{targets_text(places)} = {variable}.shape", *tests]
        lines += [f"if {p.name} is not None:", *indent(reads)] if p.is_optional else reads
        known |= {place for place in places if place in spec.dim_names}
    return [*lines, *(f"{name} = {python_expression(expr)}" for name, expr in derived)]


def targets_text(names: Sequence[str]) -> str:
    """Return the left side of an assignment that unpacks a tuple."""
    return f"({names[0]},)" if len(names) == 1 else ", ".join(names)


def python_expression(expr: Expr) -> str:
    """Return a spec's expression as Python code that also works for symbolic sizes."""
    if expr.is_name or not expr.names:
        return expr.text
    return ast.unparse(_ForSymbols().visit(ast.parse(expr.text, mode="eval").body))


class _ForSymbols(ast.NodeTransformer):
    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        tensor = ast.unparse(node.value)
        if node.attr == "numel":
            return _parsed(f"{tensor}.numel()")
        return _parsed(f"_extent({tensor}, {EXTENTS.index(node.attr)})")

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Attribute):
            return node  # x.stride(-1), which torch tensors also have
        node.args = [self.visit(argument) for argument in node.args]
        name = ast.unparse(node.func)
        if name == "cdiv":
            return node
        nested, *others = map(ast.unparse, node.args)
        for other in others:  # torch's functions take two values, and comparing symbols in Python would add a guard
            nested = f"torch.sym_{name}({nested}, {other})"
        return _parsed(nested)


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def anchor(signature: CSignature) -> str:
    """Return the Python expression for a tensor on the device where the call runs."""
    return _one_of(next(p for p in signature.parameters if p.field.is_input and not p.is_optional))


def _one_of(p: CParameter) -> str:
    """Return the Python expression for a tensor, or for the first tensor in a list that is not None."""
    if p.kind is not Kind.TENSORS:
        return p.name
    return f"_first({p.name})" if p.field.has_optional_items else f"{p.name}[0]"


def python_value(value: object) -> str:
    """Return a default as Python code."""
    if isinstance(value, tuple):
        return f"({', '.join(map(python_value, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)
