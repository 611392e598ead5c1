"""Defines ``Kernel`` and ``load``. ``load`` returns a kernel with a compiled call path."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias

from tkjit import registry
from tkjit.cache import fingerprints
from tkjit.compile.targets import gpu_target
from tkjit.config import BINDINGS, Settings
from tkjit.errors import ArgumentError, SpecError, ToolchainError
from tkjit.headers import locate
from tkjit.kernel import ahead
from tkjit.kernel.loaded import LoadedMixin
from tkjit.kernel.prepared import PreparedLaunch
from tkjit.kernel.tokens import token_for
from tkjit.loader import Loader, Opened, Origin, Use, WarmStart, loader_for
from tkjit.spec import Options, Spec, Variant, spec_of_function, variants_of
from tkjit.spec.schema import schema_of
from tkjit.spec.signature import signature_of, signature_text
from tkjit.spec.variants import known_variant

if TYPE_CHECKING:
    import torch
    from typing_extensions import Unpack

    from tkjit.loader.background import Builds

Stamp: TypeAlias = tuple[bytes, ...]


class Rendered(NamedTuple):
    """The two texts of a variant: the kernel's glue, and the variant's launcher."""

    glue: str
    launcher: str

    def __str__(self) -> str:
        return f"{self.glue}\n{self.launcher}"


class Kernel:
    """A named operation: one or more overloads, each described by a spec.

    Calling it loads it first; ``tkjit.load`` gives the object that skips that step.

    Examples
    --------
    >>> import tkjit
    >>> tkjit.find("axpy").signature
    <Signature (x: 'Tensor', y: 'Tensor', alpha: 'float' = 1.0, *, stream: 'object' = None)>
    """

    specs: tuple[Spec, ...]

    def __init__(self, *specs: Spec, origin: Origin | None = None) -> None:
        if len({spec.name for spec in specs}) != 1:
            raise SpecError(f"the overloads of a kernel share one name, got {', '.join(spec.name for spec in specs)}")
        if len(specs) > 1 and any(spec.is_parallel for spec in specs):
            raise SpecError(f"{specs[0].name}: a kernel over several devices has one signature, and no overloads")
        self.specs = specs
        self._prepare(specs[0].name, _doc(specs), origin)

    def _prepare(self, name: str, doc: str, origin: Origin | None = None) -> None:
        self.__name__ = name
        self.__doc__ = doc
        self._loaded: dict[tuple[Loader, Stamp], Kernel] = {}
        self._conventional: tuple[Loader, Kernel] | None = None  # the one through pybind11
        self._origin = origin
        self._opened: list[Opened] = []  # what calls have loaded: the glue, and launchers
        self._first: tuple[Use, Opened] | None = None  # the variant that was needed first, and its launcher
        self._warm_start: WarmStart | None = None
        self._token = token_for(self)
        self._operator = ""  # the name of its operator below torch.ops.tkjit, once there is one
        self._traced_callable: Any = None  # what a traced call is

    @property
    def name(self) -> str:
        return self.__name__

    @property
    def summary(self) -> str:
        """The first line of its documentation."""
        return self.specs[0].doc.split("\n")[0]

    @property
    def signature(self) -> inspect.Signature:
        """The first overload's signature, as ``inspect`` knows signatures."""
        return signature_of(self.specs[0])

    @property
    def __signature__(self) -> inspect.Signature:
        return self.signature

    @property
    def schema(self) -> str:
        """The schemas of its operators as PyTorch writes them, a line for each overload.

        Examples
        --------
        >>> import tkjit
        >>> tkjit.find("gemm").schema
        'tkjit::gemm(Tensor a, Tensor b) -> Tensor'
        """
        name = f"tkjit::{registry.name_for_torch(self.name, self.specs[0].module)}"
        lines = (schema_of(spec, overload, name=name) for overload, spec in enumerate(self.specs))
        return "\n".join(lines)

    @property
    def operator(self) -> Any:
        """``torch.ops.tkjit.NAME``: the kernel as an operator of PyTorch's, registered if it was not.

        A program that was exported with the kernel needs it before it is loaded.

        Raises
        ------
        ToolchainError
            If something has to be compiled for it and there is no compiler.
        """
        from tkjit.torchlib import operator_of

        return operator_of(self.register_operator())

    def register_operator(self) -> str:
        """Register the kernel with ``torch.library``; the operator's name below ``torch.ops.tkjit``."""
        loaded = load(self)
        self._operator = loaded.register_operator()
        self._traced_callable = loaded._traced_callable
        return self._operator

    @property
    def variants(self) -> tuple[Variant, ...]:
        """Every variant that a call can ask for, of all overloads."""
        return tuple(variant for spec in self.specs for variant in variants_of(spec))

    @property
    def reference(self) -> Callable[..., Any]:
        """The reference implementation: it takes a call's arguments without ``out=`` and ``stream=``.

        Raises
        ------
        SpecError
            If the spec's function has no body.
        """
        spec = self.specs[0]
        function = spec.reference
        if function is None:
            raise SpecError(f"{self.name} has no reference: the body of its function is empty")
        made = {f.name: None for f in spec.fields if f.is_allocated}
        names = [f.name for f in spec.fields if not f.is_allocated]  # positional arguments skip outputs

        def reference(*args: Any, **kwargs: Any) -> Any:
            if len(args) > len(names):
                raise ArgumentError(f"{self.name}: the reference takes {', '.join(names)}, got {len(args)} arguments")
            if twice := kwargs.keys() & set(names[: len(args)]):
                raise ArgumentError(f"{self.name}: the reference got {', '.join(sorted(twice))} twice")
            return function(**{**made, **dict(zip(names, args, strict=False)), **kwargs})

        return reference

    def render(self, *, overload: int = 0, arch: str = "", binding: str = "", **values: str | int) -> Rendered:
        """The texts that a call would compile, without compiling them.

        Parameters
        ----------
        overload : int
            Which overload's launcher.
        arch : str
            Where the spec has sources by architecture: ``"90a"`` or ``"cpu"``.
        binding : str
            ``"pybind11"`` for the glue of that binding.
        values
            The variant: ``T="bfloat16"``. What is left out is the first option.

        Raises
        ------
        SpecError
            If there is no such variant or source.
        ToolchainError
            If the headers that it is written on are not found.
        """
        chosen, variant = self._chosen(overload, values)
        spec = locate(chosen, Settings.from_environment())
        arch = arch or spec.sources[0][0]
        source = spec.source_for(arch)
        if source is None:
            raise SpecError(f"{self.name} has no source for {arch}")
        from tkjit.render import render_glue, render_launcher
        from tkjit.torch_headers.declarations import declarations_of_spec

        launcher = render_launcher(
            spec,
            variant,
            source.read(),
            source.name,
            on_cpu=arch == "cpu",
            preamble=declarations_of_spec(spec, source),
        )
        if binding not in ("", *BINDINGS):
            raise SpecError(f"unknown binding {binding!r}; expected {' or '.join(BINDINGS)}")
        if binding:
            from tkjit.loader.pybind11_modules import pybind11_text

            target = (
                gpu_target(arch) if arch not in ("", "cpu") else loader_for(Settings.from_environment()).target("cpu")
            )
            return Rendered(pybind11_text(spec, variant, target), launcher)
        return Rendered(render_glue(self.specs), launcher)

    def _chosen(self, overload: int, values: dict[str, str | int]) -> tuple[Spec, Variant]:
        """An overload, and its variant by some of its values."""
        if not 0 <= overload < len(self.specs):
            raise SpecError(f"{self.name} has no overload {overload}; it has {len(self.specs)}, counted from 0")
        spec = self.specs[overload]
        chosen = {name: values.pop(name, options[0]) for name, options in spec.variants}
        asked = Variant(tuple({**chosen, **values}.items()))
        if (variant := known_variant(spec, asked)) is None:
            raise SpecError(f"{self.name} has no variant {asked}; it has {'; '.join(map(str, variants_of(spec)))}")
        return spec, variant

    def overload(
        self, source: str | Path | None = None, **options: Unpack[Options]
    ) -> Callable[[Callable[..., Any]], Kernel]:
        """A decorator like ``tkjit.kernel``: the same kernel with one more overload, tried after the others."""

        def add(function: Callable[..., Any]) -> Kernel:
            return Kernel(*self.specs, spec_of_function(function, source, **options))

        return add

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import torch

        if torch.compiler.is_compiling():
            return self._traced_call(*args, **kwargs)
        # the settings of the first call stay: asking the environment takes longer than a call
        loaded = next(iter(self._loaded.values()), None) or load(self)
        return loaded(*args, **kwargs)

    def __getitem__(self, launch: object) -> Any:
        """Refuse what Triton and Numba have: ``kernel[grid](...)``."""
        raise ArgumentError(f"{self.name}: it has its grid and its block: call {self.name}(...), without [...]")

    __iter__ = None  # which __getitem__ would be taken for
    __contains__ = None

    def prepare(self, *args: Any, **kwargs: Any) -> PreparedLaunch:
        """Parse and check a call once, to launch it often: ``step = kernel.prepare(x, y); step(); step(alpha=2.0)``.

        The tensors have to stay what they are; outputs and scratch are allocated once, and each launch writes the same.
        A launch without a stream of its own is in the stream that is current then. Autograd and ``torch.compile`` do
        not see it.

        Raises
        ------
        ArgumentError, ShapeError
            As a call does.

        Examples
        --------
        >>> import torch, tkjit
        >>> x, y = torch.ones(3), torch.zeros(3)
        >>> step = tkjit.load("axpy").prepare(x, y, alpha=2.0)
        >>> step(), step(alpha=0.5)
        (tensor([2.5000, 2.5000, 2.5000]), tensor([2.5000, 2.5000, 2.5000]))
        """
        loaded: Any = load(self)
        prepared: PreparedLaunch = loaded.prepare(*args, **kwargs)
        return prepared

    def symbol(self, name: str, *, device: Any = None, overload: int = 0, **values: str | int) -> torch.Tensor:
        """A ``__constant__`` or ``__device__`` variable of the source, as a tensor of its memory.

        The variable is that of one variant on one device, and stays the same for the life of the process. A kernel that
        is running sees a write at any time, so wait for it first. The spec names the variable, in ``symbols=`` or as a
        ``Constant``.

        Parameters
        ----------
        name : str
            As C++ has it: ``"counter"``, ``"mine::table"``.
        device : torch.device or str, optional
            The current GPU, or the CPU on a machine without one.
        overload : int
            Which overload's.
        values
            The variant: ``T="bfloat16"``. What is left out is the first option.

        Returns
        -------
        Tensor
            Of the variable's extents and dtype. An element without a dtype, such as a struct, is a row of ``uint8``.

        Raises
        ------
        SpecError
            If the spec names no such variable, or has no such variant.
        CompileError
            If the source does not define the variable.

        Examples
        --------
        >>> tkjit.load("count").symbol("counter").zero_()  # doctest: +SKIP
        """
        from tkjit.kernel.symbols import symbol

        spec, variant = self._chosen(overload, values)
        return symbol(loader_for(Settings.from_environment()), spec, variant, name, device)

    def warm_up(self, *examples: Any) -> Builds:
        """Build what calls will need, beside the program: a call waits only for its own.

        Parameters
        ----------
        examples
            Each the arguments of a call, of which only dtypes, devices and numbers count: a tuple, a dict by names, or
            a tensor. Without any: every variant, for this machine's GPU, or for the CPU if it has none. To ask for
            the GPU initializes CUDA, after which a process should not fork.

        Returns
        -------
        Builds
            With ``done``, ``names`` and ``wait()``, which raises the first error. Nobody has to wait: a call whose
            build failed compiles again, and has the error then.

        Raises
        ------
        ArgumentError
            If an example does not show its variant.

        Examples
        --------
        >>> import torch, tkjit
        >>> builds = tkjit.load("axpy").warm_up((torch.empty(1), torch.empty(1)))
        >>> builds.wait()
        """
        return ahead.warm_up(self, examples)

    def changed_files(self) -> tuple[Path, ...]:
        """The files that have changed since calls of this object were compiled: a new ``load`` takes them as they are.

        Its spec file, source and headers, and what was built of them; empty before the first call.
        """
        taken = self._taken
        taken += [self._origin.fingerprint] if self._origin and taken else []
        changed = {path: None for fingerprint in taken for path in fingerprints.changed(fingerprint)}
        return tuple(map(Path, changed))

    @property
    def _taken(self) -> list[bytes]:
        """The fingerprints of what calls have loaded."""
        return [one.entry.fingerprint for known in (self, *self._loaded.values()) for one in known._opened]

    def load_with(self, loader: Loader) -> Kernel:
        """What ``load`` returns of it."""
        return _loaded(self, loader)

    def _load_through_pybind11(self, loader: Loader) -> Kernel:
        """What ``load`` returns of it with ``binding="pybind11"``."""
        if self._conventional is None or self._conventional[0] is not loader:
            self._conventional = loader, _Pybind11Kernel(self, loader)
        return self._conventional[1]

    def __copy__(self) -> Kernel:
        return self

    def __deepcopy__(self, memo: object) -> Kernel:
        return self  # it does not change, and a model that holds one may be copied

    def __reduce__(self) -> tuple[Any, ...]:
        return found_again, (self.name, self.specs[0].module)

    def _traced_call(self, *args: Any, **kwargs: Any) -> Any:
        """The call where torch.compile traces it."""
        from tkjit.kernel.traced import register_if_traced

        register_if_traced(self._token)
        return self._traced_callable(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tkjit kernel {' | '.join(signature_text(spec) for spec in self.specs)}>"


def found_again(name: str, module: str) -> Kernel:
    """What a kernel is pickled as, as functions are: its name, and where it is defined."""
    if (known := registry.full_name(name, module)) is not None:
        return load(known)
    return load(getattr(import_module(module), name))


def _doc(specs: tuple[Spec, ...]) -> str:
    signatures = "\n".join(signature_text(spec) for spec in specs)
    return f"{signatures}\n\n{specs[0].doc}".rstrip()


def kernel_of_file(path: Path, name: str = "", module: str = "") -> Kernel:
    """One of the kernels that a spec file defines, by default that of the file's own name; the file is run."""
    name = name or path.stem
    found = registry.run_spec_file(path, name, module)
    if not isinstance(found, Kernel):
        raise SpecError(f"{name} is defined as {found!r}; decorate its function with @tkjit.kernel")
    return found


def load(kernel: str | Kernel | Spec, *, binding: str | None = None) -> Kernel:
    """The callable of a kernel. No kernel is compiled before it is called.

    It stays what it was loaded as. After a source or a header was edited, ``load`` gives a new one.

    Parameters
    ----------
    kernel : str, Kernel or Spec
        A name, ``package.name`` for one of an installed package, what the decorator returned, or a spec built by hand.
    binding : {"pybind11"}, optional
        Calls the kernel through a pybind11 module, which is slow to compile and plain to read, instead of tkjit's own
        glue. Both agree in results and messages. ``TKJIT_BINDING`` is the default.

    Raises
    ------
    SpecError
        If no kernel has that name, or no binding.
    ToolchainError
        If the runtime has to be compiled and there is no compiler.

    Examples
    --------
    >>> import torch, tkjit
    >>> axpy = tkjit.load("axpy")
    >>> axpy(torch.ones(3), torch.zeros(3), alpha=2.0)
    tensor([2., 2., 2.])
    """
    loader = loader_for(Settings.from_environment())
    binding = binding or loader.settings.binding
    if binding not in ("", *BINDINGS):
        raise SpecError(f"unknown binding {binding!r}; expected {' or '.join(BINDINGS)}")
    if isinstance(kernel, str):
        if not binding:
            return _load_by_name(kernel, loader)
        path, name, module = registry.find_file(kernel, loader.settings, loader.warm_starts.definitions)
        return kernel_of_file(path, name, module)._load_through_pybind11(loader)
    found = Kernel(kernel) if isinstance(kernel, Spec) else kernel
    if not isinstance(found, Kernel):
        raise SpecError(f"{kernel!r} is not a kernel; expected a name, a tkjit.Kernel or a tkjit.Spec")
    return found._load_through_pybind11(loader) if binding else found.load_with(loader)


class _Pybind11Kernel(Kernel):
    """A kernel whose calls go through pybind11."""

    def __init__(self, kernel: Kernel, loader: Loader) -> None:
        from tkjit.kernel.pybind11_calls import Pybind11Calls

        super().__init__(*kernel.specs, origin=kernel._origin)
        self._calls = Pybind11Calls(self.specs, loader, load)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._calls(args, kwargs)

    def load_with(self, loader: Loader) -> Kernel:
        return self

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise SpecError(
            f'{self.name}: loaded with binding="pybind11" it can only be called; load it without a binding for the rest'
        )

    prepare = register_operator = warm_up = symbol = _refuse


def _load_by_name(name: str, loader: Loader) -> Kernel:
    """A spec file's kernel: as this process knows it, as the last one had it, or as the file says now."""
    path, name, module = registry.find_file(name, loader.settings, loader.warm_starts.definitions)
    origin = Origin(path, name, module, fingerprints.of([str(path)]))
    known: Kernel | None = loader.kernels.get(origin)
    if known is None and (warm_start := loader.warm_starts.read(path, name, module)) is not None:
        known = loader.kernels[origin] = _loaded_class(loader)(warm_start=warm_start)
        return known
    if known is None or (known._warm_start is not None and not loader.is_current(known._opened)):
        known = loader.kernels[origin] = kernel_of_file(path, name, module)
        known._origin = origin
    return known.load_with(loader)


def _loaded(kernel: Kernel, loader: Loader) -> Kernel:
    """A kernel's loaded self; a new one where what the last one was made from has changed."""
    loaded_class = _loaded_class(loader)
    if issubclass(type(kernel), loaded_class):  # and not isinstance, which mypy takes for always true of a type[Any]
        return kernel
    # kept by the kernel and not by a table here: one that is defined again in a notebook takes its old self along
    key = (loader, _stamp(kernel.specs))
    loaded: Kernel | None = kernel._loaded.get(key)
    if loaded is None:
        loaded = kernel._loaded.setdefault(key, loaded_class(*kernel.specs, origin=kernel._origin))
    elif not loader.is_current(loaded._opened):
        loaded = kernel._loaded[key] = loaded_class(*kernel.specs, origin=kernel._origin)
    return loaded


def _stamp(specs: tuple[Spec, ...]) -> Stamp:
    """What changes when a source is edited: ``load`` then gives a new object, which looks into the cache anew."""
    stamps = []
    if any(spec.headers for spec in specs):
        with suppress(ToolchainError):  # a call says it
            specs = tuple(locate(spec, Settings.from_environment()) for spec in specs)
    for path in (source.path for spec in specs for _, source in spec.sources if source.path is not None):
        stamps.append(fingerprints.state_of(str(path)))
    return tuple(stamps)


@cache
def _loaded_class(loader: Loader) -> type[Any]:
    """The class of loaded kernels: a ``Kernel`` to look at, the runtime's dispatcher to call."""
    runtime = loader.runtime
    members = {
        "_loader": loader,
        "_load": staticmethod(load),
        "__doc__": "A kernel that is called through compiled code.",
    }
    loaded = type("LoadedKernel", (LoadedMixin, Kernel, runtime.Dispatcher), members)
    runtime.enable_vectorcall(loaded)
    return loaded
