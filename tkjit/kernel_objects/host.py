"""Kernels whose entry is a host function that takes torch's tensors and does its own launches and allocations."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tkjit.errors import ArgumentError, SpecError
from tkjit.kernel_objects import prebuild
from tkjit.kernel_objects.loading import Kernel, Rendered, found_again
from tkjit.loader import Loader
from tkjit.spec import Variant
from tkjit.spec.options import Options
from tkjit.spec.read import compilation_of, directory_of, has_body
from tkjit.system.fork_safe import ForkSafeLock, cached_property

if TYPE_CHECKING:
    from tkjit.compile.targets import Target
    from tkjit.extensions.sources import Extension
    from tkjit.loader.background import Builds
    from tkjit.spec import Compilation

_OPTIONS = frozenset(["entry", "host", "schema", "schema_from", "flags", "defines", "include_dirs", "libraries", "std"])


class HostKernel(Kernel):
    """A kernel that calls a host function. The function's source was written for torch's C++ API.

    The parameters come from the schema in ``schema=``, from the schema that the file ``schema_from=`` registers, or
    from the C++ function. The decorated function provides the name, the defaults and the documentation. Its body is the
    reference, which also provides the shapes of the results when a call is traced.

    Parameters
    ----------
    function : callable
        The decorated function.
    source : str, Path or None
        The source file, relative to the function's file, or the source text.
    options : mapping
        The options of ``tkjit.kernel``.
    """

    def __init__(self, function: Callable[..., Any], source: str | Path | None, options: Options) -> None:
        name = function.__name__
        if strange := sorted(set(options) - _OPTIONS):
            raise SpecError(
                f"{name}: {strange[0]}= is not for a host function with a schema, which does its own launches"
            )
        if "schema" in options and "schema_from" in options:
            raise SpecError(f"{name}: schema= and schema_from= exclude each other; use only one")
        self._function = function
        self._given = source
        self._options = options
        self._compilation = compilation_of(function, source, options)
        self._source = self._compilation.sources[0][1]
        self._modules: dict[Any, Callable[..., Any]] = {}  # maps devices to compiled functions
        self._fingerprints: list[bytes] = []  # fingerprints of the files that the modules were compiled from
        self._building = ForkSafeLock()
        self._prepare(name, inspect.getdoc(function) or "")

    def __getattr__(self, name: str) -> Any:
        if name == "specs" and "_source" in self.__dict__:
            entry = self.__dict__["_options"]["entry"]
            raise SpecError(f"{self.name} is the host function {entry} of {self._source.name}, which has no spec")
        raise AttributeError(f"a kernel that is a host function has no attribute {name!r}")

    # ---- description

    @property
    def signature(self) -> inspect.Signature:
        """The schema's arguments, with the decorated function's defaults."""
        listed = []
        for argument in self._schema.arguments:
            default = self._defaults.get(argument.name, inspect.Parameter.empty)
            kind = inspect.Parameter.KEYWORD_ONLY if argument.kwarg_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
            listed.append(inspect.Parameter(argument.name, kind, default=default, annotation=str(argument.type)))
        return inspect.Signature(listed)

    @property
    def schema(self) -> str:
        """The schema in PyTorch's syntax."""
        from tkjit.extensions.schemas import schema_text

        return f"tkjit::{self.name}{schema_text(self._schema, self._defaults)}"

    @property
    def _extension_name(self) -> str:
        """The name of the module that contains the source's functions."""
        path = self._source.path
        return f"tkjit_host_{re.sub(r'[^0-9A-Za-z_]', '_', path.stem if path else 'text')}"

    @property
    def _summary(self) -> str:
        """The first line of the documentation."""
        return (self.__doc__ or "").split("\n")[0]

    @property
    def variants(self) -> tuple[Variant, ...]:
        """Empty, because the host function decides what it launches."""
        return ()

    @property
    def reference(self) -> Callable[..., Any]:
        """The body of the decorated function.

        Raises
        ------
        SpecError
            If the body is empty.
        """
        if not has_body(self._function):
            raise SpecError(f"{self.name} has no reference: the body of its function is empty")
        return self._function

    def render(self, *, overload: int = 0, arch: str = "", **values: str | int) -> Rendered:
        """Raise a SpecError, because nothing is rendered for a host function."""
        raise SpecError(f"{self.name} is a host function of its source, so nothing is rendered for it")

    def overload(self, *given: Any, **options: Any) -> Callable[[Callable[..., Any]], Kernel]:
        """Raise a SpecError, because a host function has one signature."""
        raise SpecError(f"{self.name} is a host function, which has no overloads")

    def __reduce__(self) -> tuple[Any, ...]:
        return found_again, (self.name, self._function.__module__)

    def __repr__(self) -> str:
        return f"<tkjit kernel {self.name}: {self._options['entry']} of {self._source.name}>"

    # ---- calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import torch

        if torch.compiler.is_compiling():
            return self._traced_call(*args, **kwargs)
        given = self._in_order(args, kwargs)
        tensors = list(_tensors_of(given))
        if (warm := prebuild.collecting()) is not None and tensors:
            warm.note_host_function(self, tensors[0].device)
        if _needs_dispatcher(tensors):
            return self.operator(*given)
        return self._call(given, tensors)

    @property
    def operator(self) -> Any:
        """``torch.ops.tkjit.NAME``, registered on first use."""
        return _operator_of(self._ensure_operator())

    def _ensure_operator(self) -> str:
        """Register the kernel with ``torch.library`` once, and return the operator's name in ``torch.ops.tkjit``."""
        with self._building:
            if not self._operator:
                from tkjit.torchlib.host import register_host_operator

                # torch omits arguments that are equal to their defaults
                def call(*args: Any, **kwargs: Any) -> Any:
                    given = self._in_order(args, kwargs)
                    return self._call(given, list(_tensors_of(given)))

                def shapes(*args: Any, **kwargs: Any) -> Any:
                    return self._function(*self._in_order(args, kwargs))

                known = shapes if has_body(self._function) else None
                self._operator = register_host_operator(self.name, self._schema, self._defaults, call, known)
                self._traced_callable = _operator_of(self._operator)
        return self._operator

    def _load_with(self, loader: Loader) -> HostKernel:
        """Return this kernel, or, if it has already been called, a new one that reads the files again."""
        return HostKernel(self._function, self._given, self._options) if self._modules else self

    def _call(self, given: tuple[Any, ...], tensors: list[Any]) -> Any:
        if not tensors:
            raise ArgumentError(f"{self.name}: no tensor is given that determines the device; pass at least one")
        device = tensors[0].device
        function = self._modules.get(device) or self._compiled_for(device)
        with _current(device):
            result = function(*given)
        _mark_written(given[position] for position in self._written)
        if self._schema.returns:
            _reject_aliases(self.name, result, tensors)
        return result

    def _in_order(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """Put the arguments into the schema's order, and fill in defaults."""
        if len(args) == len(self._schema.arguments) and not kwargs:
            return args
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(f"{self.name}: {error}") from None
        bound.apply_defaults()
        return tuple(bound.arguments.values())

    # ---- compilation

    @property
    def _taken(self) -> list[bytes]:
        return [*self._fingerprints]

    def warm_up(self, *examples: Any) -> Builds:
        """Build the function's module in the background; the examples are ignored."""
        return prebuild.warm_up_host_function(self)

    def _compiled_for(self, device: Any) -> Callable[..., Any]:
        """Return the compiled function for a device."""
        from tkjit.extensions.load import fingerprints_of, load_extension

        with self._building:
            if device not in self._modules:
                extension = self._extension(_arch_of(self.name, device))
                module = load_extension(extension)
                self._fingerprints += fingerprints_of(extension)
                found = getattr(module, self._name_in_module, None)
                if found is None:
                    raise SpecError(
                        f"{self.name}: the module that {self._source.name} defines has no {self._name_in_module}"
                    )
                self._modules[device] = found
        return self._modules[device]

    def _extension_for(self, target: Target) -> Extension:
        """Return the extension to compile for a target: a module with all functions of the source."""
        from tkjit.extensions.sources import CPU

        return self._extension(CPU if target.is_cpu else target.arch)

    def _extension(self, *archs: str) -> Extension:
        from tkjit.extensions.sources import WITHOUT_OPERATORS, extension_of, source_of_kernel

        how, path = self._compilation, self._source.path
        return extension_of(
            self._extension_name,
            [source_of_kernel(path, self._source.text or "")],
            cuda_flags=[*_flags_of(how), WITHOUT_OPERATORS],
            ldflags=[f"-l{library}" for library in how.libraries],
            include_paths=how.include_dirs,
            archs=archs,
        )

    @cached_property
    def _functions(self) -> list[Any]:
        """The C++ functions of the source. All are in one module, which all kernels of that source share."""
        from tkjit.extensions.load import functions_of_extension

        return functions_of_extension(self._extension())  # the functions are the same for every device

    @property
    def _name_in_module(self) -> str:
        from tkjit.extensions.functions import names_in_module

        return names_in_module(self._functions)[self._host_function.name]

    @cached_property
    def _host_function(self) -> Any:
        """The C++ function of the entry."""
        entry = self._options["entry"].removeprefix("::")
        functions = self._functions
        for function in functions:
            if entry in (function.name, function.bare_name):
                return function
        known = ", ".join(function.schema for function in functions) or "none"
        raise SpecError(
            f"{self.name}: {self._source.name} has no host function {entry} that tkjit can call; it has {known}."
            " Parameters can be tensors, numbers, bool, strings, dtypes, and std::optional and std::vector of them"
        )

    @cached_property
    def _schema(self) -> Any:
        """The schema, parsed by torch."""
        from tkjit.extensions.schemas import check_agreement, parse_schema, schema_in

        text = self._options.get("schema", "")
        if where := self._options.get("schema_from"):
            text = schema_in(
                self.name, directory_of(self._function) / where, self._options["entry"].rpartition("::")[2]
            )
        function = self._host_function
        parsed = parse_schema(self.name, text or function.schema)
        check_agreement(self.name, parsed, function)
        names = [argument.name for argument in parsed.arguments]
        for name, parameter in inspect.signature(self._function).parameters.items():
            if parameter.kind is parameter.VAR_POSITIONAL or parameter.kind is parameter.VAR_KEYWORD:
                continue
            if name not in names:
                raise SpecError(f"{self.name} takes {name}, which the schema lacks; it has {', '.join(names)}")
        return parsed

    @cached_property
    def _written(self) -> tuple[int, ...]:
        """The positions of the arguments that the function writes."""
        arguments = [argument.alias_info for argument in self._schema.arguments]
        return tuple(position for position, alias in enumerate(arguments) if alias is not None and alias.is_write)

    @cached_property
    def _defaults(self) -> dict[str, Any]:
        found = {each.name: each.default_value for each in self._schema.arguments if each.has_default_value()}
        given = inspect.signature(self._function).parameters.values()
        return found | {each.name: each.default for each in given if each.default is not each.empty}


def _flags_of(how: Compilation) -> list[str]:
    return [f"-std={how.std}", *(f"-D{key}={value}" for key, value in how.defines), *how.flags]


def _operator_of(name: str) -> Any:
    import torch

    return getattr(torch.ops.tkjit, name)


def _current(device: Any) -> AbstractContextManager[Any]:
    """Make a GPU the current device. For the CPU, or if the GPU is already current, do nothing."""
    import torch

    is_other = device.type == "cuda" and device.index != torch.cuda.current_device()
    return torch.cuda.device(device) if is_other else nullcontext()


def _tensors_of(given: Any) -> Any:
    import torch

    for value in given:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors_of(value)


def _needs_dispatcher(tensors: list[Any]) -> bool:
    """Return whether a call needs PyTorch's dispatcher: for gradients, tensor subclasses or modes."""
    import torch

    if torch._C._len_torch_dispatch_stack() or torch._C._is_torch_function_mode_enabled():
        return True
    plain = all(type(tensor) in (torch.Tensor, torch.nn.Parameter) for tensor in tensors)
    return not plain or (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors))


def _mark_written(given: Iterable[Any]) -> None:
    """Tell autograd which tensors have changed."""
    import torch

    for tensor in _tensors_of(given):
        if not tensor.is_inference():
            torch.autograd.graph.increment_version(tensor)


def _reject_aliases(kernel: str, result: Any, tensors: list[Any]) -> None:
    """Reject results that share memory with an input, because torch assumes that an operator's results do not."""
    storages = {tensor.untyped_storage().data_ptr() for tensor in tensors if tensor.numel()}
    for output in _tensors_of([result]):
        if output.numel() and output.untyped_storage().data_ptr() in storages:
            raise ArgumentError(
                f"{kernel}: the function returned one of its arguments or a view of it; an operator's results must not"
                " share memory with its arguments: return nothing, or a copy"
            )


def _arch_of(kernel: str, device: Any) -> str:
    import torch

    from tkjit.compile.targets import arch_of_capability
    from tkjit.extensions.sources import CPU

    if device.type == "cpu":
        return CPU
    if device.type != "cuda":
        raise ArgumentError(f"{kernel}: the tensors are on {device}; expected cpu or cuda")
    return arch_of_capability(*torch.cuda.get_device_capability(device))
