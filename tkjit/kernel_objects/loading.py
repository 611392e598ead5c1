"""Defines ``Kernel``, and ``load``, which returns a kernel with a compiled call path."""

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
from tkjit.kernel_objects import prebuild
from tkjit.kernel_objects.loaded import LoadedMixin
from tkjit.kernel_objects.prepared import PreparedLaunch
from tkjit.kernel_objects.tokens import token_for
from tkjit.loader import Loader, Opened, Origin, Use, WarmStart, loader_for
from tkjit.spec import Options, Spec, Variant, spec_of_function, variants_of
from tkjit.spec.schema import schema_of
from tkjit.spec.signature import signature_of, signature_text
from tkjit.spec.variants import configured, known_variant

if TYPE_CHECKING:
    import torch
    from typing_extensions import Unpack

    from tkjit.loader.background import Builds

Stamp: TypeAlias = tuple[bytes, ...]


class Rendered(NamedTuple):
    """The two texts rendered for a variant: the kernel's glue, and the variant's launcher."""

    glue: str
    launcher: str

    def __str__(self) -> str:
        return f"{self.glue}\n{self.launcher}"


class Kernel:
    """A named operation with one or more overloads, each described by a spec.

    A call of this object goes to the version that ``tkjit.load`` returned last; the first call loads one. That version
    itself is faster to call.

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
            raise SpecError(
                f"{specs[0].name}: a kernel over several devices has one signature and cannot have overloads"
            )
        self.specs = specs
        self._prepare(specs[0].name, _doc(specs), origin)

    def _prepare(self, name: str, doc: str, origin: Origin | None = None) -> None:
        self.__name__ = name
        self.__doc__ = doc
        self._loaded: dict[tuple[Loader, Stamp], Kernel] = {}
        self._latest: Kernel | None = None  # the result of the last load of this kernel
        self._conventional: tuple[Loader, Kernel] | None = None  # this kernel's version that calls through pybind11
        self._origin = origin
        self._opened: list[Opened] = []  # the glue and launchers that calls have loaded
        self._first: tuple[Use, Opened] | None = None  # the variant of the first call, and its launcher
        self._warm_start: WarmStart | None = None
        self._token = token_for(self)
        self._operator = ""  # the name of its operator in torch.ops.tkjit once it is registered
        self._traced_callable: Any = None  # used instead of this object while a call is traced

    @property
    def name(self) -> str:
        return self.__name__

    @property
    def _summary(self) -> str:
        """The first line of the documentation."""
        return self.specs[0].doc.split("\n")[0]

    @property
    def signature(self) -> inspect.Signature:
        """The first overload's signature as an ``inspect.Signature``."""
        return signature_of(self.specs[0])

    @property
    def __signature__(self) -> inspect.Signature:
        return self.signature

    @property
    def schema(self) -> str:
        """The schemas of the kernel's operators in PyTorch's syntax, one line per overload.

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
        """``torch.ops.tkjit.NAME``: the kernel as a PyTorch operator, registered on first use.

        Access this attribute before you load an exported program that uses the kernel.

        Raises
        ------
        ToolchainError
            If something must be compiled for the operator and there is no compiler.
        """
        from tkjit.torchlib import operator_of

        return operator_of(self._ensure_operator())

    def _ensure_operator(self) -> str:
        """Register the kernel with ``torch.library``, and return the operator's name in ``torch.ops.tkjit``."""
        loaded = load(self)
        self._operator = loaded._ensure_operator()
        self._traced_callable = loaded._traced_callable
        return self._operator

    @property
    def variants(self) -> tuple[Variant, ...]:
        """All variants of all overloads."""
        return tuple(variant for spec in self.specs for variant in variants_of(spec))

    @property
    def reference(self) -> Callable[..., Any]:
        """The reference implementation, which takes a call's arguments except ``out=`` and ``stream=``.

        Raises
        ------
        SpecError
            If the spec's function has no body.
        """
        spec = self.specs[0]
        function = spec.reference
        if function is None:
            raise SpecError(f"{self.name} has no reference: the body of its function is empty")
        outputs = {f.name: None for f in spec.fields if f.is_allocated}
        names = [f.name for f in spec.fields if not f.is_allocated]  # positional arguments skip outputs

        def reference(*args: Any, **kwargs: Any) -> Any:
            if len(args) > len(names):
                raise ArgumentError(f"{self.name}: the reference takes {', '.join(names)}, got {len(args)} arguments")
            if twice := kwargs.keys() & set(names[: len(args)]):
                raise ArgumentError(f"{self.name}: the reference got {', '.join(sorted(twice))} twice")
            return function(**{**outputs, **dict(zip(names, args, strict=False)), **kwargs})

        return reference

    def render(self, *, overload: int = 0, arch: str = "", binding: str = "", **values: str | int) -> Rendered:
        """Render the texts that a call would compile, without compiling them.

        Parameters
        ----------
        overload : int
            The overload whose launcher is rendered.
        arch : str
            The architecture, if the spec has sources by architecture: ``"90a"`` or ``"cpu"``.
        binding : str
            ``"pybind11"`` to render the pybind11 glue; by default, tkjit's own glue.
        values
            The variant: ``T="bfloat16"``. Omitted parameters have their first option.

        Raises
        ------
        SpecError
            If there is no such variant or source.
        ToolchainError
            If the kernel's header library is not found.
        """
        chosen, variant = self._chosen(overload, values)
        variant = configured(chosen, variant)
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
        """Return an overload and its variant with the given values; omitted parameters get their first option."""
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
        """Like ``tkjit.kernel``, but return this kernel with one more overload, which calls try after the others."""

        def add(function: Callable[..., Any]) -> Kernel:
            return Kernel(*self.specs, spec_of_function(function, source, **options))

        return add

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import torch

        if torch.compiler.is_compiling():
            return self._traced_call(*args, **kwargs)
        # reuse the loaded kernel: load would read the environment again, which takes longer than a call
        loaded = self._latest or load(self)
        return loaded(*args, **kwargs)

    def __getitem__(self, launch: object) -> Any:
        """Reject ``kernel[grid](...)``, which is how Triton and Numba launch kernels."""
        raise ArgumentError(f"{self.name}: the spec sets the grid and block; call {self.name}(...), without [...]")

    __iter__ = None  # otherwise Python would iterate by __getitem__
    __contains__ = None

    def prepare(self, *args: Any, **kwargs: Any) -> PreparedLaunch:
        """Parse and check a call once to launch it often: ``step = kernel.prepare(x, y); step(); step(alpha=2.0)``.

        The tensors must not be freed, resized or moved. Outputs and scratch are allocated once, and every launch writes
        to the same memory. Without ``stream=``, each launch uses the stream that is current at that time. Autograd and
        ``torch.compile`` do not see the launches.

        Raises
        ------
        ArgumentError, ShapeError
            For the same reasons as a call.

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
        """Return a ``__constant__`` or ``__device__`` variable of the source as a tensor that shares its memory.

        Each variant has its own variable on each device, which lives as long as the process. A running kernel may see
        your write at any time, so wait for it to finish. The spec must name the variable, in ``symbols=`` or as a
        ``Constant``.

        Parameters
        ----------
        name : str
            The name in C++: ``"counter"``, ``"mine::table"``.
        device : torch.device or str, optional
            By default the current GPU, or the CPU on a machine without one.
        overload : int
            The overload that uses the variable.
        values
            The variant: ``T="bfloat16"``. Omitted parameters have their first option.

        Returns
        -------
        Tensor
            A tensor with the variable's extents and dtype. An element that has no dtype, such as a struct, becomes a
            row of ``uint8``.

        Raises
        ------
        SpecError
            If the spec does not name the variable, or has no such variant.
        CompileError
            If the source does not define the variable.

        Examples
        --------
        >>> tkjit.load("count").symbol("counter").zero_()  # doctest: +SKIP
        """
        from tkjit.kernel_objects.symbols import symbol

        spec, variant = self._chosen(overload, values)
        return symbol(loader_for(Settings.from_environment()), spec, variant, name, device)

    def warm_up(self, *examples: Any) -> Builds:
        """Build the code that later calls need, in the background. A call waits only for the builds that it needs.

        Parameters
        ----------
        examples
            The arguments of example calls, each a tuple, a dict by name, or a tensor. Only dtypes, devices and numbers
            matter. Without examples, every variant is built, for this machine's GPU, or for the CPU if there is none.
            Looking for a GPU initializes CUDA, after which the process should not fork.

        Returns
        -------
        Builds
            An object with ``done``, ``names``, and ``wait()``, which raises the first error. You do not have to wait: a
            call whose build failed compiles again and raises the error itself.

        Raises
        ------
        ArgumentError
            If an example does not determine a variant.

        Examples
        --------
        >>> import torch, tkjit
        >>> builds = tkjit.load("axpy").warm_up((torch.empty(1), torch.empty(1)))
        >>> builds.wait()
        """
        return prebuild.warm_up(self, examples)

    def _changed_files(self) -> tuple[Path, ...]:
        """Return the files that changed after this object's calls were compiled, and that a new ``load`` would read.

        These are the spec file, the source, headers, and files built from them. Empty before the first call.
        """
        taken = self._taken
        taken += [self._origin.fingerprint] if self._origin and taken else []
        changed = {path: None for fingerprint in taken for path in fingerprints.changed(fingerprint)}
        return tuple(map(Path, changed))

    @property
    def _taken(self) -> list[bytes]:
        """Return the fingerprints of the cache entries that calls have loaded."""
        return [opened.entry.fingerprint for opened in (self._latest or self)._opened]

    def _load_with(self, loader: Loader) -> Kernel:
        """Return the result of ``load`` for this kernel."""
        return _loaded(self, loader)

    def _load_through_pybind11(self, loader: Loader) -> Kernel:
        """Return the result of ``load`` for this kernel with ``binding="pybind11"``."""
        if self._conventional is None or self._conventional[0] is not loader:
            self._conventional = loader, _Pybind11Kernel(self, loader)
        return self._conventional[1]

    def __copy__(self) -> Kernel:
        return self

    def __deepcopy__(self, memo: object) -> Kernel:
        return self  # a kernel is immutable, so copies of a model can share it

    def __reduce__(self) -> tuple[Any, ...]:
        return found_again, (self.name, self.specs[0].module)

    def _traced_call(self, *args: Any, **kwargs: Any) -> Any:
        """Make the call while torch.compile traces it."""
        from tkjit.kernel_objects.traced import register_if_traced

        register_if_traced(self._token)
        return self._traced_callable(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tkjit kernel {' | '.join(signature_text(spec) for spec in self.specs)}>"


def found_again(name: str, module: str) -> Kernel:
    """Unpickle a kernel. Like a function, a kernel is pickled as its name and the module that defines it."""
    if (known := registry.full_name(name, module)) is not None:
        return load(known)
    return load(getattr(import_module(module), name))


def _doc(specs: tuple[Spec, ...]) -> str:
    signatures = "\n".join(signature_text(spec) for spec in specs)
    return f"{signatures}\n\n{specs[0].doc}".rstrip()


def kernel_of_file(path: Path, name: str = "", module: str = "") -> Kernel:
    """Run a spec file, and return one of its kernels: by default, the one with the file's name."""
    name = name or path.stem
    found = registry.run_spec_file(path, name, module)
    if not isinstance(found, Kernel):
        raise SpecError(f"{name} is defined as {found!r}; decorate its function with @tkjit.kernel")
    return found


def load(kernel: str | Kernel | Spec, *, binding: str | None = None) -> Kernel:
    """Load a kernel so that you can call it. The first call compiles it.

    A loaded kernel does not notice edits. After you change a source or a header, call ``load`` again.

    Parameters
    ----------
    kernel : str, Kernel or Spec
        A name (``package.name`` for a kernel of an installed package), the result of the decorator, or a spec built by
        hand.
    binding : {"pybind11"}, optional
        Call the kernel through a pybind11 module instead of tkjit's own glue. The module is easy to read but slow to
        compile. Results and messages do not change. ``TKJIT_BINDING`` sets the default.

    Raises
    ------
    SpecError
        If no kernel or no binding has that name.
    ToolchainError
        If the runtime must be compiled and there is no compiler.

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
    return found._load_through_pybind11(loader) if binding else found._load_with(loader)


class _Pybind11Kernel(Kernel):
    """A kernel whose calls go through pybind11."""

    def __init__(self, kernel: Kernel, loader: Loader) -> None:
        from tkjit.kernel_objects.pybind11_calls import Pybind11Calls

        super().__init__(*kernel.specs, origin=kernel._origin)
        self._calls = Pybind11Calls(self.specs, loader, load)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._calls(args, kwargs)

    def _load_with(self, loader: Loader) -> Kernel:
        return self

    def _reject(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise SpecError(
            f'{self.name}: with binding="pybind11", it can only be called; load it without a binding for the rest'
        )

    prepare = _ensure_operator = warm_up = symbol = _reject


def _load_by_name(name: str, loader: Loader) -> Kernel:
    """Load a spec file's kernel. Run the file only if no kernel of this or an earlier process can be reused."""
    path, name, module = registry.find_file(name, loader.settings, loader.warm_starts.definitions)
    origin = Origin(path, name, module, fingerprints.of([str(path)]))
    known: Kernel | None = loader.kernels.get(origin)
    # a warm start would skip the choice of a configuration
    if (
        known is None
        and not loader.settings.tune
        and (warm_start := loader.warm_starts.read(path, name, module)) is not None
    ):
        known = loader.kernels[origin] = _loaded_class(loader)(warm_start=warm_start)
        return known
    if known is None or (known._warm_start is not None and not loader.is_current(known._opened)):
        known = loader.kernels[origin] = kernel_of_file(path, name, module)
        known._origin = origin
    return known._load_with(loader)


def _loaded(kernel: Kernel, loader: Loader) -> Kernel:
    """Return the loaded version of a kernel, or a new one if files of the previous version have changed."""
    loaded_class = _loaded_class(loader)
    if issubclass(type(kernel), loaded_class):  # not isinstance, which mypy considers always true for type[Any]
        return kernel
    # The kernel itself stores its loaded versions, because a table in this module would keep them alive after a
    # notebook redefines the kernel.
    key = (loader, _stamp(kernel.specs))
    loaded: Kernel | None = kernel._loaded.get(key)
    if loaded is None:
        loaded = kernel._loaded.setdefault(key, loaded_class(*kernel.specs, origin=kernel._origin))
    elif not loader.is_current(loaded._opened):
        loaded = kernel._loaded[key] = loaded_class(*kernel.specs, origin=kernel._origin)
    kernel._latest = loaded
    return loaded


def _stamp(specs: tuple[Spec, ...]) -> Stamp:
    """Return a value that changes when a source is edited; ``load`` then returns a new object."""
    stamps = []
    if any(spec.headers for spec in specs):
        with suppress(ToolchainError):  # a call will raise the error
            specs = tuple(locate(spec, Settings.from_environment()) for spec in specs)
    for path in (source.path for spec in specs for _, source in spec.sources if source.path is not None):
        stamps.append(fingerprints.state_of(str(path)))
    return tuple(stamps)


@cache
def _loaded_class(loader: Loader) -> type[Any]:
    """Return the class of loaded kernels, which combines ``Kernel`` with the runtime's dispatcher for calls."""
    runtime = loader.runtime
    members = {
        "_loader": loader,
        "_load": staticmethod(load),
        "__doc__": "A kernel whose calls run compiled code.",
    }
    loaded = type("LoadedKernel", (LoadedMixin, Kernel, runtime.Dispatcher), members)
    runtime.enable_vectorcall(loaded)
    return loaded
