"""Renders the Python part of an exported torch package: functions, fake tensors and gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tkjit.render.text import indent, repr_text
from tkjit.render.torch_binding import operator_parameters
from tkjit.render.torch_fakes import (
    anchor,
    fake_parameter,
    python_expression,
    read_dims,
    render_fakes,
    targets_text,
)
from tkjit.render.torch_overloads import FITS, function_name, python_parameters, render_choice
from tkjit.spec import Spec
from tkjit.spec.c_signature import CSignature, Kind
from tkjit.spec.checks import NEEDED, differentiable
from tkjit.spec.signature import python_type

_HELPERS = {
    "_fits": FITS,
    "_extent": '''
def _extent(x: Tensor, axis: int) -> int:
    """Return an extent of x's shape padded to four dimensions: 0 is the batch, 3 the columns."""
    return x.shape[x.dim() - 4 + axis] if x.dim() - 4 + axis >= 0 else 1
''',
    "_first": '''
def _first(tensors: list[Tensor | None]) -> Tensor:
    """Return the first tensor of a list that is not None."""
    return next(x for x in tensors if x is not None)
''',
    "cdiv": '''
def cdiv(a: int, b: int) -> int:
    """Divide and round up."""
    return -(-a // b)
''',
    "_same": '''
def _same(kernel: str, dim: str, size: int, expected: int) -> None:
    """Check the extent of a fake tensor."""
    torch._check(size == expected, lambda: f"{kernel}: {dim} is {size}; expected {expected}, as in an earlier tensor")
''',
    "_draw": '''
def _draw(kernel: str, generator: torch.Generator | None, device: torch.device, count: int) -> tuple[int, int]:
    """Draw ``count`` random numbers per thread from a generator, and return a seed and an offset in its sequence."""
    if generator is not None and generator.device != device:
        raise RuntimeError(f"{kernel}: the generator is on {generator.device}; expected one on {device}")
    if device.type == "cpu":
        number = torch.empty((), dtype=torch.int64).random_(-(2**63), None, generator=generator)
        return int(number), 0
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError(
            f"{kernel}: a CUDA graph would draw the same random numbers each time; call it outside of the capture"
        )
    if generator is None:
        generator = torch.cuda.default_generators[device.index]
    offset = generator.get_offset()
    generator.set_offset(offset + (count + 3) // 4 * 4)
    seed = generator.initial_seed()
    return seed - 2**64 if seed >= 2**63 else seed, offset
''',
    "_refuse_gradients": '''
def _refuse_gradients(kernel: str, who: str, **tensors: Tensor | list[Tensor | None] | None) -> None:
    """Reject a call that would have to record a gradient.

    Raises
    ------
    RuntimeError
        If a tensor requires a gradient.
    """
    if not torch.is_grad_enabled():
        return
    named = dict(tensors)
    for name, value in tensors.items():
        if isinstance(value, (list, tuple)):
            named.update((f"{name}[{i}]", x) for i, x in enumerate(value))
    for name, x in named.items():
        if isinstance(x, Tensor) and x.requires_grad:
            what = f"{tuple(x.shape)} {str(x.dtype).removeprefix('torch.')} on {x.device}"
            raise RuntimeError(
                f"{kernel}: {name} is {what} and requires a gradient, which {who} not record; "
                f"call it under torch.no_grad(), or pass {name}.detach()"
            )
''',
}


def overloads_by_kernel(signatures: Sequence[CSignature]) -> dict[str, list[CSignature]]:
    """Return the overloads of each kernel by its name."""
    found: dict[str, list[CSignature]] = {}
    for signature in signatures:
        found.setdefault(signature.spec.name, []).append(signature)
    return found


class FunctionSource(NamedTuple):
    """The source of a Python function, as a module can define it.

    Parameters
    ----------
    name : str
    text : str
        The definitions that the function uses, followed by the function's own definition.
    imports : tuple of str
        The imports that the text needs.
    """

    name: str
    text: str
    imports: tuple[str, ...]


def render_package(library: str, signatures: Sequence[CSignature], gradients: Mapping[str, FunctionSource]) -> str:
    """Render the package's ``__init__.py``.

    Parameters
    ----------
    gradients : mapping
        Maps the name of a kernel's C function to the source of its ``backward``, if that is a function.
    """
    kernels = overloads_by_kernel(signatures)
    body = [line for s in signatures for line in ("", "", *_function(s, function_name(s, kernels[s.spec.name])))]
    body += [line for overloads in kernels.values() if len(overloads) > 1 for line in render_choice(overloads)]
    body += [line for s in signatures for line in ("", "", *render_fakes(s))]
    for signature in signatures:
        body += _gradient(signature, signatures, gradients.get(signature.name))
    functions = [function_name(s, kernels[s.spec.name]) for s in signatures]
    listed = [
        *{*functions, *(s.name for s in signatures)},
        *(f"{s.name}_result" for s in signatures if len(s.spec.returns) > 1),
    ]
    names = ", ".join(repr_text(name) for name in sorted(listed))
    text = "\n".join(body)
    helpers = [
        line for name, code in _HELPERS.items() if f"{name}(" in text for line in ("", *code.rstrip().split("\n"))
    ]
    typing = ["from typing import NamedTuple", ""] if "NamedTuple" in text else []
    imports = sorted({line for source in gradients.values() for line in source.imports} - {"import torch"})
    head = [
        f'"""{library}: kernels as PyTorch operators."""',
        "",
        "from __future__ import annotations",
        "",
        *typing,
        *imports,
        "import torch",
        "from torch import Tensor",
        "",
        "from ._ops import add_op_namespace_prefix, ops",
        "",
        f"__all__ = [{names}]",
    ]
    return "\n".join([*head, *helpers, *body]) + "\n"


# ---- the function that users call


def _function(signature: CSignature, name: str) -> list[str]:
    spec = signature.spec
    outputs = [p.name for p in signature.outputs]
    doc = _docstring(spec.doc.strip() or f"{spec.name}.")
    refusal = _refusal(signature, "this kernel does") if spec.backward is None else []
    body = [*doc, *refusal, *_draws(signature)]
    given = ", ".join(_passed(signature, out=False))
    if outputs:
        called = f"ops.{signature.name}({given})"
        absent = " and ".join(f"{name} is None" for name in outputs)
        results = ", ".join(outputs)
        body += [f"if {absent}:", f"    {results} = {called}"]
        if len(outputs) > 1:
            present = " or ".join(f"{name} is None" for name in outputs)
            text = f"{spec.name}: expected all of {results} or none of them; pass the others as well"
            body += [f"elif {present}:", f"    raise ValueError({repr_text(text)})"]
        out = ", ".join(_passed(signature, out=True))
        refusal = _refusal(signature, "out= does") if spec.backward is not None else []
        body += ["else:", *indent([*refusal, f"ops.{signature.name}_out({out})"])]
    else:
        body.append(f"ops.{signature.name}({given})")
    returns = list(spec.returns)
    several = f"{signature.name}_result"
    result = "None" if not returns else "Tensor" if len(returns) == 1 else several
    if len(returns) > 1:
        body.append(f"return {several}({', '.join(returns)})")
    elif returns:
        body.append(f"return {returns[0]}")
    by_name = {f.name: f for f in spec.given}
    named = (
        [
            f"class {several}(NamedTuple):",
            f'    """The results of ``{signature.name}``."""',
            "",
            *(f"    {name}: {python_type(by_name[name])}" for name in returns),
            "",
            "",
        ]
        if len(returns) > 1
        else []
    )
    return [*named, f"def {name}({', '.join(python_parameters(signature))}) -> {result}:", *indent(body)]


def _refusal(signature: CSignature, who: str) -> list[str]:
    names = [p.name for p in signature.parameters if p.kind in (Kind.TENSOR, Kind.TENSORS)]
    listed = ", ".join(f"{name}={name}" for name in names)
    return [f"_refuse_gradients({repr_text(signature.spec.name)}, {repr_text(who)}, {listed})"] if names else []


def _docstring(text: str) -> list[str]:
    lines = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"').split("\n")
    if len(lines) == 1 and not lines[0].endswith('"'):
        return [f'"""{lines[0]}"""']
    return [f'"""{lines[0]}', *lines[1:], '"""']


def _draws(signature: CSignature) -> list[str]:
    """Render the code that draws random numbers from torch's generators."""
    lines = []
    for p in signature.parameters:
        if p.kind is Kind.SEED and p.field.draws is not None:
            count = python_expression(p.field.draws)
            drawn = f"_draw({repr_text(signature.spec.name)}, {p.name}, {anchor(signature)}.device, {count})"
            lines += [
                *read_dims(signature, p.field.draws.names, checks=False),
                f"seed_of_{p.name}, offset_of_{p.name} = {drawn}",
            ]
    return lines


def _passed(signature: CSignature, *, out: bool) -> list[str]:
    """Render the arguments of an operator; users may pass a dtype or device by name."""
    listed: list[str] = []
    for p in operator_parameters(signature, out=out):
        if p.kind is Kind.SEED:
            listed += [f"seed_of_{p.name}", f"offset_of_{p.name}"]
        elif p.kind is Kind.DEVICE:
            listed.append(f"torch.device({p.name})")
        elif p.kind is Kind.DTYPE:
            listed.append(f"getattr(torch, {p.name}) if isinstance({p.name}, str) else {p.name}")
        else:
            listed.append(p.name)
    return listed


# ---- gradients


def _gradient(signature: CSignature, signatures: Sequence[CSignature], source: FunctionSource | None) -> list[str]:
    """Render the registration of a gradient.

    Without ``backward=``, return an empty list, because the kernel's function then rejects gradients.
    """
    spec = signature.spec
    if spec.backward is None:
        return []
    outputs = [p.name for p in signature.outputs]
    if source is not None:
        function, taken = source.name, list(spec.backward.parameters)
    else:
        backward = next(s for s in signatures if s.spec.name == spec.backward.kernel)
        known = {*(f.name for f in spec.given), *(f"grad_{name}" for name in outputs)}
        function = backward.name
        taken = [f.name for f in backward.spec.given if f.direction != "out" and f.name in known]
    by_name = {p.name: p for p in signature.parameters}
    tensors = [name for name in taken if name in by_name and by_name[name].kind in (Kind.TENSOR, Kind.OUTPUT)]
    others = [name for name in taken if name in by_name and name not in tensors]
    names = [part for p in operator_parameters(signature) for part in fake_parameter(p, has_default=False)]
    return [
        *(["", "", *source.text.rstrip().split("\n")] if source is not None else []),
        *("", "", f"def _keep_{signature.name}(ctx, inputs, output):"),
        f"    {targets_text(names)} = inputs",
        f"    {', '.join(outputs)} = output",
        *([f"    ctx.save_for_backward({', '.join(tensors)})"] if tensors else []),
        *([f"    ctx.others = ({', '.join(others)},)"] if others else []),
        *("", "", f"def _gradient_of_{signature.name}(ctx, {', '.join(f'grad_{name}' for name in outputs)}):"),
        *([f"    {targets_text(tensors)} = ctx.saved_tensors"] if tensors else []),
        *([f"    {targets_text(others)} = ctx.others"] if others else []),
        *indent(_gradients(spec, function, taken, names)),
        "",
        "",
        "torch.library.register_autograd(",
        f"    add_op_namespace_prefix({repr_text(signature.name)}),",
        f"    _gradient_of_{signature.name},",
        f"    setup_context=_keep_{signature.name},",
        ")",
    ]


def _gradients(spec: Spec, function: str, taken: Sequence[str], names: Sequence[str]) -> list[str]:
    """Render the call of a kernel's ``backward``, and the return of a gradient or None for each operator argument.

    Parameters
    ----------
    taken : sequence of str
        The names of the values to pass to ``function``.
    names : sequence of str
        The operator's arguments.
    """
    fields = {f.name for f in spec.given}
    lines = []
    if NEEDED in taken:
        listed = ", ".join(map(repr_text, names))
        lines.append(f"{NEEDED} = {{name for name, need in zip([{listed}], ctx.needs_input_grad) if need}}")
    values = {name: f"{name}.contiguous()" for name in taken if name.startswith("grad_") and name not in fields}
    given = ", ".join(f"{name}={values.get(name, name)}" for name in taken)
    found = [f"grad_{f.name}" for f in differentiable(spec)]
    lines.append(f"found = {function}({given})")
    if len(found) == 1:
        lines.append(f"{found[0]} = found[0] if isinstance(found, (tuple, list)) else found")
    else:
        lines.append(f"{', '.join(found)} = found")
    return [*lines, f"return {', '.join(f'grad_{name}' if f'grad_{name}' in found else 'None' for name in names)}"]
