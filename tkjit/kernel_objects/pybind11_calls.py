"""Calls a kernel through pybind11: the conventional glue, which is easy to read but slow to compile.

tkjit's own glue is tested against it. Python binds and reads the arguments (``torchlib/calls.py``); a function in a
pybind11 module checks and launches the call. Each variant has its own module, built when a call first needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import torch

from tkjit.errors import ArgumentError, LaunchError, ShapeError, TkjitError
from tkjit.loader import Loader
from tkjit.loader.first_variant import first_variant
from tkjit.loader.pybind11_modules import Pybind11Plan
from tkjit.spec import Spec, Variant, variants_of
from tkjit.spec.c_signature import c_signature
from tkjit.spec.schema import operator_fields
from tkjit.torchlib.calls import OverloadCall, call_overloads, in_stream
from tkjit.torchlib.gradients import Gradient, recorder, refusal
from tkjit.torchlib.meta import fake_operator
from tkjit.torchlib.random import draw

# Maps tkjit_error_kind to exceptions; running out of memory raises a LaunchError.
_ERRORS: dict[int, type[TkjitError]] = {1: ArgumentError, 2: ShapeError, 3: LaunchError, 4: LaunchError}


class Pybind11Calls:
    """Makes a kernel's calls through pybind11.

    Parameters
    ----------
    load : callable
        Returns the kernel with a given name, for ``backward``.

    Raises
    ------
    SpecError
        If a parameter has no C type, or the kernel runs on several devices.
    """

    def __init__(self, specs: Sequence[Spec], loader: Loader, load: Callable[[str], Any]) -> None:
        self._name = specs[0].name
        self._overloads = [
            OverloadCall(
                spec,
                _Function(spec, loader, load, out=False),
                _Function(spec, loader, load, out=True) if spec.outputs else None,
                loader.runtime.capsule_for_torch,
            )
            for spec in specs
        ]

    def __call__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        with in_stream(self._name, kwargs.get("stream"), args, kwargs):
            return call_overloads(self._overloads, args, kwargs)


class _Function:
    """One overload as an operator. It calls functions in pybind11 modules; each variant has one module per target."""

    def __init__(self, spec: Spec, loader: Loader, load: Callable[[str], Any], *, out: bool) -> None:
        signature = c_signature(spec)
        self._spec, self._loader, self._load, self._is_out = spec, loader, load, out
        self._name = f"{signature.name}_out" if out else signature.name
        self._fields = operator_fields(spec, out=out)
        self._variants = variants_of(spec)
        self._modules: dict[tuple[Variant, str], ModuleType] = {}

    def __call__(self, *arguments: Any) -> Any:
        if any(tensor.is_meta for tensor in _tensors(arguments)):
            return fake_operator(self._spec, out=self._is_out)(*arguments)
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in _tensors(arguments)):
            if self._spec.backward is None or self._is_out:
                return refusal(self._spec, out=self._is_out)(*arguments)
            return recorder(self._spec, self._call, Gradient(self._spec, self._load))(*arguments)
        return self._call(*arguments)

    def _call(self, *arguments: Any) -> Any:
        named = dict(zip((f.name for f in self._fields), arguments, strict=True))
        predicted = first_variant([self._spec], [], named)
        variant = predicted[1] if predicted else self._variants[0]
        device = self._device(arguments)
        passed = [part for f in self._fields for part in self._passed(f.name, named)]
        while True:
            module = self._module(variant, device)
            try:
                return getattr(module, self._name)(*passed)
            except RuntimeError as error:
                missing, kind = module.missing_variant(), module.error_kind()
                if missing < 0 and kind == 0 and isinstance(error, torch.OutOfMemoryError):
                    raise
                if missing < 0:
                    raise _ERRORS.get(kind, ArgumentError)(str(error)) from None
            variant = self._variants[missing]

    def _device(self, arguments: Sequence[Any]) -> torch.device:
        """Return the first tensor's device, or else the device argument's; anything but a GPU counts as the CPU."""
        places = [argument for argument in arguments if isinstance(argument, torch.device)]
        place = next((tensor.device for tensor in _tensors(arguments)), places[0] if places else torch.device("cpu"))
        return place if place.type == "cuda" else torch.device("cpu")

    def _passed(self, name: str, named: Mapping[str, Any]) -> Sequence[Any]:
        """Convert an argument to the values that the module takes. A generator becomes a seed and an offset."""
        field = next(f for f in self._fields if f.name == name)
        return [named[name]] if field.draws is None else draw(self._spec, field, named)

    def _module(self, variant: Variant, device: torch.device) -> ModuleType:
        target = self._loader.target(device.type, device.index or 0)
        known = self._modules.get((variant, target.name))
        if known is None:
            code = self._loader.object_plan(self._spec, variant, target)
            plan = Pybind11Plan(self._loader.env, code, self._loader.open(code).loaded)
            known = self._modules[variant, target.name] = self._loader.open(plan).loaded
        return known


def _tensors(arguments: Sequence[Any]) -> Iterator[torch.Tensor]:
    """Yield the tensors among an operator's arguments."""
    for value in arguments:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from (item for item in value if isinstance(item, torch.Tensor))
