"""Renders the function of an exported torch package that chooses an overload of a kernel."""

from __future__ import annotations

from collections.abc import Sequence

from tkjit.render.text import indent, repr_text
from tkjit.render.torch_fakes import python_value
from tkjit.spec import Field
from tkjit.spec.c_signature import CSignature
from tkjit.spec.model import MISSING
from tkjit.spec.signature import python_type

FITS = '''
_ABSENT = object()  # the value of an argument that a call leaves out


def _fits(x: object, dims: int, has_more_dims: bool, dtypes: tuple[torch.dtype, ...]) -> bool:
    """Whether an argument is a tensor with one of these dtypes and that many dims."""
    return isinstance(x, Tensor) and (x.dim() == dims or has_more_dims and x.dim() > dims) and x.dtype in dtypes


def _shown(args: tuple, kwargs: dict) -> str:
    """Describe a call's arguments."""
    def text(x: object) -> str:
        return f"{str(x.dtype).removeprefix('torch.')} {tuple(x.shape)}" if isinstance(x, Tensor) else repr(x)

    return f"({', '.join([*map(text, args), *(f'{name}={text(x)}' for name, x in kwargs.items())])})"
'''


def function_name(signature: CSignature, overloads: Sequence[CSignature]) -> str:
    """Return the name of an overload's own function."""
    return signature.name if len(overloads) == 1 or signature is not overloads[0] else f"{signature.name}_overload0"


def python_parameters(signature: CSignature) -> list[str]:
    """Render the parameters of the Python function."""
    positional: list[str] = []
    keywords: list[str] = []
    for f in signature.spec.given:
        is_output = f.direction == "out"
        kind = f"{python_type(f)} | None" if f.optional or is_output else python_type(f)
        default = "None" if is_output else None if f.default is MISSING else python_value(f.default)
        part = f"{f.name}: {kind}" + ("" if default is None else f" = {default}")
        (keywords if f.keyword_only else positional).append(part)
    return [*positional, *(["*", *keywords] if keywords else [])]


def render_choice(overloads: Sequence[CSignature]) -> list[str]:
    """Render the function that calls the first overload whose parameters fit.

    It compares the numbers of dims and the dtypes of tensors, not their extents or a kernel's constraints.
    """
    name = overloads[0].name
    texts = [f"{name}({', '.join(python_parameters(signature))})" for signature in overloads]
    expected = f"{name}: no overload takes %s; expected {' or '.join(texts)}"
    lines: list[str] = []
    for signature in overloads:
        lines += ["", "", *_test(signature)]
    lines += ["", "", f"def {name}(*args, **kwargs):"]
    lines += ['    """Calls the first of these functions whose parameters fit.', ""]
    lines += [f"    * ``{function_name(signature, overloads)}``" for signature in overloads]
    lines += ['    """']
    for signature in overloads:
        lines += [
            f"    if _takes_{signature.name}(*args, **kwargs):",
            f"        return {function_name(signature, overloads)}(*args, **kwargs)",
        ]
    return [*lines, f"    raise TypeError({repr_text(expected)} % _shown(args, kwargs))"]


def _test(signature: CSignature) -> list[str]:
    """Render the function that tells whether an overload takes a call's arguments."""
    positional: list[str] = []
    keywords: list[str] = []
    tests = ["not others", "not unknown"]
    for f in signature.spec.given:
        default = "None" if f.direction == "out" else "_ABSENT" if f.default is MISSING else python_value(f.default)
        (keywords if f.keyword_only else positional).append(f"{f.name}={default}")
        if f.direction != "out":
            tests += _tests_of(signature, f)
    parameters = ", ".join([*positional, "*others", *keywords, "**unknown"])
    listed = " and\n".join(tests).split("\n")
    return [f"def _takes_{signature.name}({parameters}):", "    return (", *indent(indent(listed)), "    )"]


def _tests_of(signature: CSignature, f: Field) -> list[str]:
    if not f.is_tensor:
        return [f"{f.name} is not _ABSENT"] if f.default is MISSING else []
    options = dict(signature.spec.variants).get(f.dtype, (f.dtype,))
    dtypes = "".join(f"torch.{dtype}, " for dtype in options).rstrip()
    fits = f"{len(f.dims)}, {f.leading}, ({dtypes}))"
    if f.is_list:
        text = f"isinstance({f.name}, (list, tuple)) and all(x is None or _fits(x, {fits} for x in {f.name})"
    else:
        text = f"_fits({f.name}, {fits}"
    return [f"({f.name} is None or {text})" if f.optional else text]
