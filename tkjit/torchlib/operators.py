"""Registers kernels as ``torch.ops.tkjit.NAME``, with an overload for each spec and another for its ``out=`` form."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from types import CellType, ModuleType
from typing import Any, NamedTuple

import torch
from torch._ops import _OpNamespace

from tkjit.errors import ArgumentError
from tkjit.registry import name_for_torch
from tkjit.spec import Spec
from tkjit.spec.schema import check_operator, operator_fields, operator_name, schema_of
from tkjit.system.fork_safe import ForkSafeLock
from tkjit.torchlib.autocast import register_autocast
from tkjit.torchlib.batching import loop_rule
from tkjit.torchlib.calls import OverloadCall, call_overloads, in_stream
from tkjit.torchlib.gradients import Gradient, recorder, refusal
from tkjit.torchlib.meta import fake_operator

NAMESPACE = "tkjit"
_TAKEN = {*dir(_OpNamespace), *vars(_OpNamespace(NAMESPACE))}  # attributes that torch.ops.tkjit has anyway


class _Registered(NamedTuple):
    """A kernel's operators: the specs that they were made from, the cell that holds the kernel, and the gradients."""

    specs: tuple[Spec, ...]
    cell: CellType
    gradients: list[Gradient | None]


class _Registry:
    """The operators of a process.

    torch keeps an operator until the process ends, so an operator finds its kernel in a cell, which is
    updated when the kernel is loaded or defined again.
    """

    def __init__(self) -> None:
        self._library: Any = torch.library.Library(NAMESPACE, "FRAGMENT")  # type: ignore[no-untyped-call]
        self._kernels: dict[str, _Registered] = {}
        self._lock = ForkSafeLock()

    def register(self, kernel: Any, implementation: ModuleType, find: Callable[[str], Any]) -> str:
        """Return the name of a kernel's operator, and register it first if necessary."""
        specs: tuple[Spec, ...] = kernel.specs
        with self._lock:
            own_name = name_for_torch(kernel.name, specs[0].module)
            for name in (own_name, f"{own_name}_{_digest(specs)}"):
                known = self._kernels.get(name)
                if known is None and name not in _TAKEN:
                    # do everything that can fail first, because registrations in torch cannot be undone
                    gradients = [None if spec.backward is None else Gradient(spec, find) for spec in specs]
                    cell = CellType(kernel)
                    for overload, (spec, gradient) in enumerate(zip(specs, gradients, strict=True)):
                        for out in (False, True)[: 1 + bool(spec.outputs)]:
                            self._define(name, spec, overload, out, cell, implementation, gradient)
                    self._kernels[name] = _Registered(specs, cell, gradients)
                    return name
                if known is not None and known.specs == specs:  # the kernel was loaded or defined again
                    known.cell.cell_contents = kernel
                    for spec, gradient in zip(specs, known.gradients, strict=True):
                        if gradient is not None:
                            gradient.use(spec, find)
                    return name
        raise AssertionError(f"two kernels {name} with one digest")

    def _define(
        self,
        name: str,
        spec: Spec,
        overload: int,
        out: bool,
        cell: CellType,
        implementation: ModuleType,
        gradient: Gradient | None,
    ) -> None:
        qualifier = operator_name(overload, out=out)
        qualified = f"{NAMESPACE}::{name}{'.' if qualifier else ''}{qualifier}"
        tags = [torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides]
        if any(f.draws is not None for f in spec.fields):
            tags.append(torch.Tag.nondeterministic_seeded)  # otherwise torch could merge two calls into one
        self._library.define(schema_of(spec, overload, name=name, out=out), tags=tags)
        operator = getattr(getattr(torch.ops.tkjit, name), qualifier or "default")
        fields = operator_fields(spec, out=out)
        positional = [f for f in fields if not f.keyword_only]
        keywords = tuple(f.name for f in fields[len(positional) :])
        single = len(spec.returns) == 1
        returned = () if out else tuple(-1 if single else spec.returns.index(f.name) for f in spec.outputs)
        implementation.implement(qualified, cell, overload, keywords, returned)
        records = refusal(spec, out=out) if gradient is None or out else recorder(spec, operator, gradient)
        implementation.record_gradients(qualified, records, len(returned))

        torch.library.register_fake(qualified, fake_operator(spec, out=out), lib=self._library)
        if spec.autocast is not None and not out:  # torch's own operators do not cast with out= either
            register_autocast(spec, operator, self._library)
        torch.library.register_vmap(qualified, loop_rule(spec, operator, out=out), lib=self._library)


def _digest(specs: Sequence[Spec]) -> str:
    return hashlib.sha256(repr(specs).encode()).hexdigest()[:8]


_registry = _Registry()


def register_operators(kernel: Any, implementation: ModuleType, find: Callable[[str], Any]) -> str:
    """Register a loaded kernel's operators if necessary, and return their name in ``torch.ops.tkjit``.

    The first kernel with a given name gets that name; later kernels with different specs get a digest appended.

    Parameters
    ----------
    kernel : Kernel
        A loaded kernel with its glue attached.
    implementation : module
        The module compiled from ``runtime/operators.cpp``.
    find : callable
        Returns the kernel with a given name, for ``backward``.
    """
    for spec in kernel.specs:
        check_operator(spec)
    return _registry.register(kernel, implementation, find)


def operator_of(name: str) -> Any:
    """Return an operator, with all its overloads: ``torch.ops.tkjit.NAME``."""
    return getattr(torch.ops.tkjit, name)


def calls_of(name: str, specs: Sequence[Spec], capsule_of: Callable[[Any], Any]) -> Callable[..., Any]:
    """Make a function that calls a kernel's operators.

    The function takes the number of the overload that the glue has chosen (-1 if the glue could not choose one), and
    then the kernel's arguments.

    Parameters
    ----------
    capsule_of : callable
        Returns an array's DLPack capsule, or None if its strides are negative.
    """
    packet = operator_of(name)
    overloads = tuple(_overload_call(spec, overload, packet, capsule_of) for overload, spec in enumerate(specs))

    def call(chosen: int, *args: Any, **kwargs: Any) -> Any:
        stream = kwargs.get("stream")
        if stream is not None and torch.compiler.is_compiling():
            raise ArgumentError(f"{name}: stream= cannot be given in compiled code; use torch.cuda.stream()")
        with in_stream(specs[0].name, stream, args, kwargs):
            return overloads[chosen](args, kwargs) if chosen >= 0 else call_overloads(overloads, args, kwargs)

    return call


def _overload_call(spec: Spec, overload: int, packet: Any, capsule_of: Callable[[Any], Any]) -> OverloadCall:
    operator = getattr(packet, operator_name(overload) or "default")
    out_operator = getattr(packet, operator_name(overload, out=True)) if spec.outputs else None
    return OverloadCall(spec, operator, out_operator, capsule_of)


def opaque(call: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a call so that ``torch.compile`` puts it into the graph as it is, and traces it only to infer shapes.

    If the call were traced like other code, each compiled call would spend about 3 us on guards.
    """

    def in_graph(*args: Any, **kwargs: Any) -> Any:
        return call(-1, *args, **kwargs)

    kept: Callable[..., Any] = torch.compiler.allow_in_graph(in_graph)  # type: ignore[no-untyped-call]
    return kept
