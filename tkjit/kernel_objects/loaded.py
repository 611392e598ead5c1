"""The Python callbacks of a loaded kernel. They build and load its glue and launchers, and register its operator.

``tkjit/runtime/runtime.cpp`` calls ``_first_call``, ``_resolve`` and ``_call_operator`` by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tkjit.errors import TkjitError
from tkjit.kernel_objects.prebuild import collecting
from tkjit.kernel_objects.prepared import PreparedLaunch
from tkjit.loader import Loader, Opened, Origin, Use, WarmStart, first_variant
from tkjit.spec import Spec, variants_of
from tkjit.spec.results import result_type
from tkjit.spec.variants import first_variants


class LoadedMixin:
    """The Python part of a loaded kernel; ``kernel.py`` combines it with ``Kernel`` and the dispatcher."""

    _loader: Loader
    _load: Callable[..., Any]

    if TYPE_CHECKING:  # from Kernel
        specs: tuple[Spec, ...]
        name: str
        _opened: list[Opened]
        _first: tuple[Use, Opened] | None
        _origin: Origin | None
        _operator: str
        _traced_callable: Any
        _prepare: Callable[[str, str], None]
        _token: str

    def __init__(self, *specs: Spec, origin: Origin | None = None, warm_start: WarmStart | None = None) -> None:
        if warm_start is None:
            super().__init__(*specs, origin=origin)  # type: ignore[call-arg]
            return
        self._prepare(warm_start.name, warm_start.doc)
        self._warm_start = warm_start
        self._attach(warm_start.glue, warm_start.returns)
        self._opened.append(warm_start.launcher)
        self._first = warm_start.use, warm_start.launcher  # an earlier process made the first call

    def __getattr__(self, name: str) -> Any:
        warm_start = self.__dict__.get("_warm_start")  # missing while the object is being copied
        if name != "specs" or warm_start is None:
            raise AttributeError(f"a loaded kernel has no attribute {name!r}")
        self.specs = warm_start.specs
        return self.specs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # the interpreter calls the dispatcher directly; only tracers and explicit uses of __call__ come here
        from tkjit.kernel_objects.traced import register_if_traced

        if register_if_traced(self._token):
            return self._traced_callable(*args, **kwargs)
        return self._loader.runtime.Dispatcher.__call__(self, *args, **kwargs)

    def _collect(self, *args: Any, **kwargs: Any) -> Any:
        """Return what a call would pass to its kernel, without launching it; only the glue is needed."""
        self._ensure_glue()
        return self._loader.runtime.collect(self, args, kwargs)

    def prepare(self, *args: Any, **kwargs: Any) -> PreparedLaunch:
        """See ``Kernel.prepare``."""
        self._ensure_glue()
        prepared: PreparedLaunch = self._loader.runtime.prepare(self, args, kwargs)
        return prepared

    def _show_prepared(self, prepared: PreparedLaunch) -> Any:
        """Return what a prepared call's launches pass to the kernel."""
        return self._loader.runtime.show_prepared(prepared)

    def _ensure_operator(self) -> str:
        if not self._operator:
            self._ensure_glue()
        return self._register_operator()

    def _call_operator_without_glue(self, *args: Any, **kwargs: Any) -> Any:
        """Call the operator with fake tensors, without building the glue."""
        self._register_operator()
        return self._operator_calls(-1, *args, **kwargs)

    def _register_operator(self) -> str:
        from tkjit import torchlib

        if not self._operator:
            name = torchlib.register_operators(self, self._loader.operators, self._load)
            self._operator_calls = torchlib.calls_of(name, self.specs, self._loader.runtime.capsule_for_torch)
            self._traced_callable = torchlib.opaque(self._operator_calls)
            self._operator = name
        return self._operator

    # ---- called by the runtime

    def _first_call(self, *args: Any, **kwargs: Any) -> Any:
        """Make a call before the glue is loaded."""
        if (warm := collecting()) is not None:
            return warm.call(self, args, kwargs)
        loader = self._loader
        try:
            glue = loader.open_glue(self.specs, lambda: first_variant(self.specs, args, kwargs))
            self._attach(glue, [spec.returns for spec in self.specs])
            result = self(*args, **kwargs)
        except TkjitError as error:  # the caller made a mistake, so stack frames inside tkjit would not help
            raise error.with_traceback(None) from error.__cause__
        finally:
            loader.forget_failures()
        if self._origin and self._first:
            use, launcher = self._first
            loader.warm_starts.write(self._origin, self.specs, self.__doc__ or "", use, glue, launcher)
        return result

    def _resolve(self, overload: int, variant: int, device_type: str, device: int) -> int:
        """Return the address of a variant's launcher; the glue stores it for later calls."""
        loader = self._loader
        target = loader.target(device_type, device)
        use = Use(overload, variant, target.name)
        launcher = self._first[1] if self._first is not None and self._first[0] == use else None
        if launcher is not None and not loader.records:
            return int(launcher.loaded)
        spec = self.specs[overload]
        own_variant = variants_of(spec)[variant - first_variants(self.specs)[overload]]
        loader.record(spec, overload, own_variant, target)
        if launcher is None:
            try:
                loader.tune_before_a_call(spec, own_variant, device_type, device)
                launcher = loader.open_variant(spec, own_variant, target)
            except TkjitError as error:
                raise error.with_traceback(None) from error.__cause__
            self._opened.append(launcher)
            self._first = self._first or (use, launcher)
        return int(launcher.loaded)

    def _call_operator(self, chosen: int, *args: Any, **kwargs: Any) -> Any:
        """Make a call through PyTorch's dispatcher, with the overload that the glue has chosen."""
        if (warm := collecting()) is not None:
            return warm.call(self, args, kwargs)
        self._ensure_operator()
        return self._operator_calls(chosen, *args, **kwargs)

    # ---- the glue

    def _ensure_glue(self) -> None:
        if not self._opened:
            self._attach(self._loader.open_glue(self.specs, lambda: None), [spec.returns for spec in self.specs])

    def _attach(self, glue: Opened, returns: Sequence[Sequence[str]]) -> None:
        types = tuple(result_type(self.name, tuple(names)) for names in returns)
        self._loader.runtime.attach(self, glue.loaded, types)
        self._opened.append(glue)  # marks the glue as attached
