"""Writes a spec's operators as PyTorch schemas: ``gemm(Tensor a, Tensor b) -> Tensor``."""

from __future__ import annotations

import math

from tkjit.errors import SpecError
from tkjit.spec.model import MISSING, Field
from tkjit.spec.spec import Spec

_NUMBERS = {"bool": "bool", "float": "float", "double": "float"}


def operator_name(overload: int, *, out: bool = False) -> str:
    """Return an operator's overload name: empty, ``out``, ``overload1`` or ``overload1_out``."""
    parts = [f"overload{overload}"] * (overload > 0) + ["out"] * out
    return "_".join(parts)


def has_operator(spec: Spec) -> bool:
    """Return whether a spec can have an operator: PyTorch has a type for each argument, and one is a tensor.

    PyTorch has no type for dicts and sets. A host function that returns a number has no operator either, because
    computations with the number cannot be traced.
    """
    return bool(spec.inputs) and not spec.unknown_to_torch and not spec.result


def check_operator(spec: Spec) -> None:
    """Reject a spec that cannot have an operator.

    Raises
    ------
    SpecError
        If the spec cannot have one; the message names the argument without a PyTorch type, or another reason.
    """
    if not spec.inputs:
        raise SpecError(
            f"{spec.name} has no operator: PyTorch chooses an operator's code by its tensors, and it takes none"
        )
    if spec.result:
        raise SpecError(f"{spec.name} has no operator: it returns a number, which a trace cannot represent")
    for f in spec.unknown_to_torch:
        kind = f.value_type.text if f.value_type else "ParallelTensor"
        raise SpecError(f"{spec.name} has no operator: PyTorch has no type for {f.name}: {kind}")


def operator_fields(spec: Spec, *, out: bool = False) -> tuple[Field, ...]:
    """Return an operator's arguments in order; torch.library requires that all can be passed by position."""
    others = [f for f in spec.given if f.direction != "out"]
    return (*sorted(others, key=lambda f: f.keyword_only), *(spec.outputs if out else ()))


def schema_of(spec: Spec, overload: int = 0, *, name: str = "", out: bool = False) -> str:
    """Return the schema of a spec's operator.

    An operator returns the tensors that it allocates. In-place fields are marked as written but not returned, because
    torch does not let a custom operator return an argument. Calling the kernel directly does return them.

    Parameters
    ----------
    overload : int
        The overload's position among the kernel's overloads.
    name : str
        The operator's name; by default the kernel's.
    out : bool
        Whether to describe the operator that writes into outputs that the caller passes.

    Raises
    ------
    SpecError
        If PyTorch has no type for an argument.

    Examples
    --------
    >>> import tkjit
    >>> schema_of(tkjit.find("axpy").specs[0])
    'axpy(Tensor x, Tensor(a!) y, float alpha=1.0) -> ()'
    """
    check_operator(spec)
    fields = operator_fields(spec, out=out)
    written = [f.name for f in fields if f.is_written]
    kinds = [schema_type(f, written_alias(written.index(f.name)) if f.is_written else "") for f in fields]
    defaults = [schema_default(f) for f in fields]
    # torch rejects a default before an argument without one, because it could not be used
    first = max((i for i, default in enumerate(defaults) if not default), default=-1) + 1
    listed = [
        f"{kind} {f.name}{default if i >= first else ''}"
        for i, (kind, f, default) in enumerate(zip(kinds, fields, defaults, strict=True))
    ]
    outputs = [] if out else [f.name for f in spec.outputs]
    returned = "Tensor" if len(outputs) == 1 else f"({', '.join(f'Tensor {output}' for output in outputs)})"
    qualifier = operator_name(overload, out=out)
    return f"{name or spec.name}{'.' if qualifier else ''}{qualifier}({', '.join(listed)}) -> {returned}"


def written_alias(number: int) -> str:
    """Return the alias annotation of the written argument with this number: ``(a!)`` to ``(z!)``, then ``(a1!)``."""
    return f"({chr(ord('a') + number % 26)}{number // 26 or ''}!)"


def schema_default(field: Field) -> str:
    """Return a parameter's default in a schema, ``=1.0``, or "" if there is none that a schema can express."""
    default = field.default
    if field.direction == "out" or default is MISSING or (isinstance(default, float) and not math.isfinite(default)):
        return ""
    if field.value_type is not None and field.value_type.code in "td" and default is not None:
        return ""  # the binding fills it in
    if isinstance(default, tuple):
        if any(isinstance(item, float) and not math.isfinite(item) for item in default):
            return ""
        return f"=[{', '.join(map(str, default))}]"
    if isinstance(default, str):
        # schema strings have hardly any escapes; the binding fills in the defaults that they cannot express
        return f'="{default}"' if default.isprintable() and not {'"', "\\"} & set(default) else ""
    return f"={default!r}"


def schema_type(field: Field, alias: str = "") -> str:
    """Return a field's type in a schema: ``Tensor(a!)``, ``SymInt``, ``float?``."""
    if field.value_type is not None:
        plain = field.value_type.schema
    elif field.is_tensor:
        plain = f"Tensor{alias}{'?' if field.has_optional_items else ''}{'[]' if field.is_list else ''}"
    else:
        plain = _NUMBERS.get(field.dtype, "SymInt")
    return f"{plain}?" if field.optional else plain
