"""Runs a spec's ``backward`` in PyTorch's autograd."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._functorch.utils import enable_single_level_autograd_function

from tkjit.errors import ArgumentError, SpecError
from tkjit.spec import Field, Spec
from tkjit.spec.checks import NEEDED, differentiable
from tkjit.spec.schema import operator_fields
from tkjit.torchlib.describe import describe


def refusal(spec: Spec, *, out: bool) -> Callable[..., Any]:
    """Make a function that rejects a call whose gradient would be recorded, because nothing can compute it."""
    fields = operator_fields(spec, out=out)
    who = "out= does" if out and spec.backward else "this kernel does"

    def refuse(*arguments: Any) -> Any:
        for name, value in _tensors(fields, arguments):
            if value.requires_grad:
                raise ArgumentError(
                    f"{spec.name}: {name} is {describe(value)} and requires a gradient, which {who} not record; "
                    f"call it under torch.no_grad(), or pass {name}.detach(); backward= in its spec would record it"
                )
        raise _forward_mode(spec)

    return refuse


def _forward_mode(spec: Spec) -> ArgumentError:
    return ArgumentError(f"{spec.name}: forward-mode gradients are not recorded; use reverse mode")


def _tensors(fields: Sequence[Field], arguments: Sequence[Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield each tensor among an operator's arguments, with its name for messages."""
    for f, value in zip(fields, arguments, strict=True):
        if f.is_list:
            yield from ((f"{f.name}[{i}]", item) for i, item in enumerate(value) if item is not None)
        elif f.is_tensor and value is not None:
            yield f.name, value


def recorder(spec: Spec, operator: Callable[..., Any], gradient: Gradient) -> Callable[..., Any]:
    """Make a function that calls an operator and records its gradient."""
    fields = operator_fields(spec)
    outputs = [f.name for f in spec.outputs]
    saved_names = [name for name in gradient.parameters if name not in gradient.of_outputs and name != NEEDED]
    position = {f.name: i for i, f in enumerate(fields)}

    class Recorded(torch.autograd.Function):
        @staticmethod
        def forward(*arguments: Any) -> Any:
            return operator(*arguments)  # gradients are off here, so this does not recurse

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            results = dict(zip(outputs, output if len(outputs) > 1 else [output], strict=True))
            values = {name: results[name] if name in results else inputs[position[name]] for name in saved_names}
            tensors = {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
            ctx.save_for_backward(*tensors.values())
            ctx.tensor_names = tuple(tensors)
            ctx.others = {name: value for name, value in values.items() if name not in tensors}

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
            saved = {**ctx.others, **dict(zip(ctx.tensor_names, ctx.saved_tensors, strict=True))}
            arriving = {
                f"grad_{name}": output_gradient.contiguous()
                for name, output_gradient in zip(outputs, gradients, strict=True)
            }
            needed = {f.name for f, need in zip(fields, ctx.needs_input_grad, strict=True) if need}
            found = gradient.compute({**saved, **arriving}, needed)
            return tuple(found.get(f.name) if f.name in needed else None for f in fields)

    Recorded.__name__ = Recorded.__qualname__ = f"{spec.name}_backward"
    # skip Function.apply, which would handle the levels of torch.func again after the dispatcher has done so
    apply: Callable[..., Any] = super(torch.autograd.Function, Recorded).apply

    def record(*arguments: Any) -> Any:
        # in reverse mode over forward mode, as in torch.func.hessian, autograd would lose the forward-mode gradient
        levels = torch._C._functorch.get_interpreter_stack() or []
        if any(level.key() == torch._C._functorch.TransformType.Jvp for level in levels):
            raise _forward_mode(spec)
        with enable_single_level_autograd_function():
            return apply(*arguments)

    return record


class Gradient:
    """A spec's ``backward``: its parameters, and the gradients that it computes.

    Parameters
    ----------
    find : callable
        Returns the kernel with a given name.
    """

    def __init__(self, spec: Spec, find: Callable[[str], Any]) -> None:
        assert spec.backward is not None
        self.spec = spec
        self.inputs = [f.name for f in differentiable(spec)]
        self.of_outputs = {f"grad_{f.name}" for f in spec.outputs}
        self.function: Callable[..., Any]
        self.parameters = spec.backward.parameters
        if spec.backward.kernel:
            self.parameters = _parameters_of(spec, _kernel_of(spec, find).specs[0])
        self.use(spec, find)

    def use(self, spec: Spec, find: Callable[[str], Any]) -> None:
        """Use the function of a spec that was redefined, and differs from the old spec only in that function."""
        assert spec.backward is not None
        if spec.backward.kernel:
            self.function = _kernel_of(spec, find)
        elif spec.backward.function is not None:
            self.function = spec.backward.function

    def compute(self, values: Mapping[str, Any], needed: set[str]) -> dict[str, Any]:
        available = {**values, NEEDED: frozenset(needed)}
        result = self.function(**{name: available[name] for name in self.parameters})
        listed: Sequence[Any] = result if isinstance(result, (tuple, list)) else [result]
        if len(listed) != len(self.inputs):
            raise SpecError(
                f"{self.spec.name}: backward returned {len(listed)} gradients; expected {len(self.inputs)}, "
                f"for {', '.join(self.inputs)}"
            )
        return dict(zip(self.inputs, listed, strict=True))


def _kernel_of(spec: Spec, find: Callable[[str], Any]) -> Any:
    """Return the kernel of a spec's ``backward``, which is either a name or the kernel itself."""
    assert spec.backward is not None
    if spec.backward.function is not None:
        return spec.backward.function
    name = spec.backward.kernel
    try:
        return find(name)
    except SpecError as error:
        remedy = f"If it is in the file of {spec.name}, write backward={name}, without quotes"
        end = "" if str(error).endswith("?") else "."
        raise SpecError(f"{spec.name}: backward: {error}{end} {remedy}") from None


def _parameters_of(spec: Spec, backward: Spec) -> tuple[str, ...]:
    """Return which values a backward kernel takes. Its outputs must be the gradients, in the order of the inputs."""
    known = {f.name for f in spec.given} | {f"grad_{f.name}" for f in spec.outputs}
    taken: list[Field] = [f for f in backward.given if f.direction != "out"]
    wanted = [f"grad_{f.name}" for f in differentiable(spec)]
    outputs = [f.name for f in backward.outputs]
    unknown = [f.name for f in taken if f.name not in known and f.is_required]
    if unknown or outputs != wanted:
        raise SpecError(
            f"{spec.name}: {backward.name} cannot be its backward: it takes {', '.join(f.name for f in taken)} and "
            f"returns {', '.join(outputs) or 'nothing'}; expected fields of {spec.name} or the grad_ of its outputs, "
            f"and the outputs {', '.join(wanted)}"
        )
    return tuple(f.name for f in taken if f.name in known)
