"""Renders the tests of an exported torch package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tkjit.check.cases import Case, cases_of
from tkjit.errors import TkjitError
from tkjit.exports.model import Export
from tkjit.exports.python_functions import Copies
from tkjit.render.text import repr_text
from tkjit.render.torch_binding import operator_parameters
from tkjit.render.torch_fakes import python_value
from tkjit.render.torch_python import FunctionSource
from tkjit.spec import Field
from tkjit.spec.c_signature import CSignature, Kind

_MOST_ELEMENTS = {False: 1 << 14, True: 1 << 12}  # of an input with up to two dims, and with more
_MOST_CASES = 2


def render_tests(export: Export, copies: Copies) -> str:
    """Render the package's tests.

    Kernels that need ``prepare=``, or whose reference cannot be copied, are left out.
    """
    body: list[str] = []
    imports: set[str] = set()
    for signature in export.signatures:
        reference = _reference(signature, copies)
        cases = _cases(export, signature)
        if not cases or reference is None:
            continue
        imports |= set(reference.imports)
        body += ["", "", *_tests(signature, cases, reference)]
    more = sorted(line for line in imports if line not in ("import torch", "import pytest"))
    head = [
        f'"""Tests of {export.name}: compares results with PyTorch references, and runs torch\'s operator checks."""',
        "",
        *(["import pytest", "import torch"] if body else []),
        *more,
        *(["from torch.testing import assert_close"] if body else []),
        "",
        f"import {export.name} as package",
        *(_HEAD if body else []),
    ]
    return "\n".join([*head, *(body or _NO_TESTS.split("\n"))]).rstrip() + "\n"


_HEAD = [
    "",
    'DEVICES = ["cpu"] if not torch.cuda.is_available() else ["cpu", "cuda"]',
    "TOLERANCE = {torch.bfloat16: 2e-2, torch.float16: 4e-3, torch.float32: 1e-4, torch.float64: 1e-10}",
    "",
    "",
    "def on(value, device):",
    '    """Copy a case\'s tensors to a device."""',
    "    if isinstance(value, dict):",
    "        return {name: on(one, device) for name, one in value.items()}",
    "    if isinstance(value, list):",
    "        return [on(one, device) for one in value]",
    "    return value.to(device, copy=True) if isinstance(value, torch.Tensor) else value",
    "",
    "",
    "def tolerance(case):",
    '    """Return the tolerance of a result, by the dtype of the first tensor."""',
    "    tensors = [one for one in case.values() if isinstance(one, torch.Tensor)]",
    "    return TOLERANCE.get(tensors[0].dtype, 0) if tensors else 0",
]

_NO_TESTS = """

def test_import():
    assert package.__all__"""


def _reference(signature: CSignature, copies: Copies) -> FunctionSource | None:
    spec = signature.spec
    if spec.reference is None or spec.verification.prepare is not None:
        return None
    try:
        return copies.reference(signature.name, spec.reference)
    except TkjitError:  # the reference uses something that cannot be copied
        return None


def _cases(export: Export, signature: CSignature) -> list[Case]:
    """Return a few calls of the first variant that the package has."""
    variant = next(variant for variant, is_kept in export.variants(signature.spec) if is_kept)
    try:
        return cases_of(signature.spec, variant, {}, 0, _MOST_ELEMENTS)[:_MOST_CASES]
    except TkjitError:  # no sizes satisfy the constraints
        return []


def _tests(signature: CSignature, cases: list[Case], reference: FunctionSource) -> list[str]:
    spec, name = signature.spec, signature.name
    written = [f.name for f in spec.tensors if f.direction == "inout"]
    listed = [f for f in spec.given if f.direction != "out"]
    in_place = [f"    assert_close(given[{repr_text(n)}], expected[{repr_text(n)}], rtol=r, atol=r)" for n in written]
    lines = [*reference.text.split("\n"), "", "", f"CASES_OF_{name.upper()} = ["]
    for case in cases:
        lines += [
            f"    dict(  # {case.name}",
            *(f"        {line}," for line in _arguments(listed, case.arguments)),
            "    ),",
        ]
    outputs = "".join(f", {f.name}=None" for f in (*spec.outputs, *spec.scratch))
    returned = "tuple(result)" if len(spec.returns) > 1 else "result"
    positional = ", ".join(
        f"call[{repr_text(p.name)}]" for p in operator_parameters(signature) if p.kind is not Kind.SEED
    )
    lines += [
        "]",
        "",
        "",
        f'@pytest.mark.parametrize("case", CASES_OF_{name.upper()})',
        '@pytest.mark.parametrize("device", DEVICES)',
        f"def test_{name}_agrees_with_its_reference(case, device):",
        "    given, expected = on(case, device), on(case, device)",
        f"    result = package.{name}(**given)",
        f"    wanted = {reference.name}(**expected{outputs})",
        "    r = tolerance(case)",
        *([f"    assert_close({returned}, wanted, rtol=r, atol=r)"] if spec.returns else []),
        *in_place,
    ]
    if all(p.kind is not Kind.SEED for p in signature.parameters):
        lines += [
            "",
            "",
            f"def test_{name}_is_a_valid_operator():",
            f"    call = on(CASES_OF_{name.upper()}[0], DEVICES[-1])",
            f"    torch.library.opcheck(package.ops.{name}.default, ({positional},))",
        ]
    return lines


def _arguments(fields: list[Field], arguments: Mapping[str, Any]) -> list[str]:
    return [f"{f.name}={_value(arguments[f.name])}" for f in fields]


def _value(value: Any) -> str:
    """Return a value as Python code. For a tensor, the code makes a random tensor of its shape and dtype."""
    if isinstance(value, torch.Tensor):
        return _tensor(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    return python_value(value)


def _tensor(tensor: torch.Tensor) -> str:
    shape = ", ".join(map(str, tensor.shape)) or "()"
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        plain = f"torch.randn({shape})"
        return plain if tensor.dtype == torch.float32 else f"{plain}.to({tensor.dtype})"
    sizes = f"({', '.join(map(str, tensor.shape))}{',' if tensor.dim() == 1 else ''})"
    return f"torch.randint(0, 2, {sizes}).to({tensor.dtype})"
