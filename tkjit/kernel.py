"""What users hold: ``Kernel``, the decorator that makes one, and ``load``."""

from __future__ import annotations

import inspect
from collections import namedtuple
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from tkjit import registry
from tkjit.config import Settings
from tkjit.errors import SpecError
from tkjit.loader import Loader, Opened, guess_variant, loader_for
from tkjit.render import render_glue, render_launcher
from tkjit.render.text import signature_text
from tkjit.spec import Spec, Variant, spec_of_function, variants_of
from tkjit.spec.signature import signature_of

Stamp: TypeAlias = tuple[tuple[int, int], ...]


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

    def __init__(self, *specs: Spec) -> None:
        if len({spec.name for spec in specs}) != 1:
            raise SpecError(f"the overloads of a kernel share one name, got {', '.join(spec.name for spec in specs)}")
        self.specs = specs
        self.__name__ = specs[0].name
        self.__doc__ = _doc(specs)
        self._loaded: dict[tuple[Loader, Stamp], Kernel] = {}
        self._opened: list[Opened] = []  # what calls have loaded

    @property
    def name(self) -> str:
        return self.specs[0].name

    @property
    def signature(self) -> inspect.Signature:
        """The first overload's signature, as ``inspect`` knows signatures."""
        return signature_of(self.specs[0])

    @property
    def __signature__(self) -> inspect.Signature:
        return self.signature

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
        outputs = {f.name: None for f in spec.fields if f.direction == "out"}
        return lambda *args, **kwargs: function(*args, **{**outputs, **kwargs})

    def render(self, *, overload: int = 0, arch: str = "", **values: str | int) -> Rendered:
        """The texts that a call would compile, without compiling them.

        Parameters
        ----------
        overload : int
            Which overload's launcher.
        arch : str
            Where the spec has sources by architecture: ``"90a"`` or ``"cpu"``.
        values
            The variant: ``T="bfloat16"``. What is left out is the first option.

        Raises
        ------
        SpecError
            If there is no such variant or source.
        """
        if not 0 <= overload < len(self.specs):
            raise SpecError(f"{self.name} has no overload {overload}; it has {len(self.specs)}, counted from 0")
        spec = self.specs[overload]
        chosen = {name: values.pop(name, options[0]) for name, options in spec.variants}
        variant = Variant(tuple(chosen.items()))
        if values or variant not in variants_of(spec):
            asked = Variant(tuple({**chosen, **values}.items()))
            known = "; ".join(map(str, variants_of(spec)))
            raise SpecError(f"{self.name} has no variant {asked}; it has {known}")
        source = spec.source_for(arch or spec.sources[0][0])
        if source is None:
            raise SpecError(f"{self.name} has no source for {arch}")
        return Rendered(render_glue(self.specs), render_launcher(spec, variant, source.read(), source.name))

    def overload(self, source: str | Path | None = None, **options: Any) -> Callable[[Callable[..., Any]], Kernel]:
        """A decorator like ``tkjit.kernel``: the same kernel with one more overload, tried after the others."""

        def add(function: Callable[..., Any]) -> Kernel:
            return Kernel(*self.specs, _spec(function, source, options))

        return add

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # the settings of the first call stay: asking the environment takes longer than a call
        loaded = next(iter(self._loaded.values()), None) or load(self)
        return loaded(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tkjit kernel {' | '.join(signature_text(spec) for spec in self.specs)}>"


def kernel(source: str | Path | None = None, **options: Any) -> Callable[[Callable[..., Any]], Kernel]:
    """Make a kernel of a function, whose signature, docstring and body are the kernel's.

    Parameters
    ----------
    source : str or Path, optional
        A file beside the one that defines the function, or the source text itself.
    entry : str
        The ``__global__`` function: ``"axpy<T>"``.
    grid, block : str, int or tuple
        Up to three expressions over dims and integers; a described struct may have its own ``grid()`` and ``block()``.
    shared_memory : str or int, optional
        Dynamic shared memory, in bytes.
    variants : dict, optional
        Template parameters: ``{"T": ("float32", "bfloat16"), "D": (64, 128)}``.
    dims : dict, optional
        Dims computed from others: ``{"P": "cdiv(N, 2)"}``.
    constraints : str or list of str, optional
        What must hold of a call: ``"K % 8 == 0"``.
    fields : str, optional
        The struct's order of fields, where it is not the parameters'.
    struct : str, optional
        The source's own globals struct; without it one is rendered under the name ``Globals``.
    args : bool
        The kernel takes plain arguments instead of a struct.
    host : bool
        The entry is a host function: it is called, and launches by itself.
    archs : dict, optional
        Sources by architecture: ``{"90a": "gemm_sm90.cu"}``.
    cpu : str or Path, optional
        A source of its own for the CPU, where the simulator is too slow.
    flags, defines, include_dirs, libraries, std
        For the compiler; all are part of the key.
    forbid_spills : bool
        Refuse a build for a GPU that spills registers to local memory.

    Raises
    ------
    SpecError
        If the parts contradict each other.

    Examples
    --------
    >>> import tkjit
    >>> from tkjit import InOut, Tensor
    >>> @tkjit.kernel(
    ...     "template <class T> __global__ void twice(Globals g) { g.x[threadIdx.x] *= T(2); }",
    ...     entry="twice<T>", grid=1, block="N", variants={"T": ("float32",)},
    ... )
    ... def twice(x: InOut[Tensor, "T", "N"]) -> Tensor: ...
    >>> twice
    <tkjit kernel twice(x: Tensor, *, stream=None)>
    """

    if callable(source):
        raise SpecError("@tkjit.kernel needs brackets: its source, entry= and the launch")

    def make(function: Callable[..., Any]) -> Kernel:
        return Kernel(_spec(function, source, options))

    return make


def _spec(function: Callable[..., Any], source: str | Path | None, options: dict[str, Any]) -> Spec:
    """Read a spec, with the decorator's own words for what is wrong with its arguments."""
    known = ["entry", *(spec_of_function.__kwdefaults__ or ())]
    for option in options:
        if option not in known:
            raise SpecError(f"{function.__name__}: tkjit.kernel has no option {option!r}; it has {', '.join(known)}")
    if "entry" not in options:
        raise SpecError(f"{function.__name__}: entry= is missing; expected the name of a __global__ function")
    return spec_of_function(function, source, **options)


def find(name: str) -> Kernel:
    """The kernel of that name, not loaded.

    Raises
    ------
    SpecError
        If there is none; with near names.
    """
    return _find(name, Settings.from_environment())


def _find(name: str, settings: Settings) -> Kernel:
    found = registry.find(name, settings)
    if not isinstance(found, Kernel):
        raise SpecError(f"{name} is defined as {found!r}; decorate its function with @tkjit.kernel")
    return found


def find_used(name: str, module: str) -> Kernel:
    """The kernel that another process used: of a spec file, or of the module that defined it there.

    Raises
    ------
    SpecError
        If it is not to be found here.
    """
    if module.startswith(f"{registry.MODULES}."):
        return find(name)
    if module == "__main__":
        raise SpecError(f"{name} was defined in a script or a notebook; put it in a module, or in TKJIT_KERNEL_PATH")
    from importlib import import_module

    try:
        found = getattr(import_module(module), name, None)
    except ImportError as error:
        raise SpecError(f"{name} was defined in {module}, which cannot be imported: {error}") from None
    if not isinstance(found, Kernel):
        raise SpecError(f"{module} defines no kernel {name}")
    return found


def kernels() -> tuple[str, ...]:
    """The names of all kernels that ``load`` finds."""
    return tuple(sorted(registry.kernel_files(Settings.from_environment())))


def load(kernel: str | Kernel | Spec) -> Kernel:
    """The callable of a kernel. No kernel is compiled before it is called.

    It stays what it was loaded as. After a source or a header was edited, ``load`` gives a new one.

    Parameters
    ----------
    kernel : str, Kernel or Spec
        A name, what the decorator returned, or a spec built by hand.

    Raises
    ------
    SpecError
        If no kernel has that name.
    ToolchainError
        If the runtime has to be compiled and there is no compiler.

    Examples
    --------
    >>> import torch, tkjit
    >>> axpy = tkjit.load("axpy")
    >>> axpy(torch.ones(3), torch.zeros(3), alpha=2.0)
    tensor([2., 2., 2.])
    """
    settings = Settings.from_environment()
    found = (
        _find(kernel, settings) if isinstance(kernel, str) else Kernel(kernel) if isinstance(kernel, Spec) else kernel
    )
    if not isinstance(found, Kernel):
        raise SpecError(f"{kernel!r} is not a kernel; expected a name, a tkjit.Kernel or a tkjit.Spec")
    loader = loader_for(settings)
    loaded_class = _loaded_class(loader)
    if isinstance(found, loaded_class):
        return found
    # kept by the kernel and not by a table here: one that is defined again in a notebook takes its old self along
    key = (loader, _stamp(found.specs))
    loaded = found._loaded.get(key)
    if loaded is None:
        loaded = found._loaded.setdefault(key, loaded_class(*found.specs))
    elif not loader.is_current(loaded._opened):
        loaded = found._loaded[key] = loaded_class(*found.specs)
    return loaded


def _stamp(specs: tuple[Spec, ...]) -> Stamp:
    """What changes when a source is edited: ``load`` then gives a new object, which looks into the cache anew."""
    stamps = []
    for path in (source.path for spec in specs for _, source in spec.sources if source.path is not None):
        try:
            status = path.stat()
        except OSError:
            continue  # reading it says so
        stamps.append((status.st_mtime_ns, status.st_size))
    return tuple(stamps)


@cache
def _loaded_class(loader: Loader) -> type[Kernel]:
    """The class of loaded kernels: a ``Kernel`` to look at, the runtime's dispatcher to call."""
    runtime = loader.runtime

    class LoadedKernel(Kernel, runtime.Dispatcher):  # type: ignore[misc, name-defined]
        """A kernel that is called through compiled code."""

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            # the interpreter calls the dispatcher directly; this is for who asks for the method
            return runtime.Dispatcher.__call__(self, *args, **kwargs)

        def _first_call(self, *args: Any, **kwargs: Any) -> Any:
            try:
                glue = loader.prepare(self.specs, lambda: guess_variant(self.specs, args, kwargs))
                self._opened.append(glue)
                runtime.attach(self, glue.loaded, tuple(map(_result_type, self.specs)))
                return self(*args, **kwargs)
            finally:
                loader.end_first_call(self._opened)

        def _resolve(self, overload: int, variant: int, device_type: str, device: int) -> int:
            spec, index = self.specs[overload], variant
            index -= sum(len(variants_of(earlier)) for earlier in self.specs[:overload])
            launcher = loader.address(spec, overload, variants_of(spec)[index], loader.target(device_type, device))
            self._opened.append(launcher)
            return int(launcher.loaded)

    runtime.enable_vectorcall(LoadedKernel)
    return LoadedKernel


def _result_type(spec: Spec) -> Any:
    """The named tuple of several outputs."""
    return namedtuple(f"{spec.name}_result", spec.returns) if len(spec.returns) > 1 else None


def _doc(specs: tuple[Spec, ...]) -> str:
    signatures = "\n".join(signature_text(spec) for spec in specs)
    return f"{signatures}\n\n{specs[0].doc}".rstrip()
