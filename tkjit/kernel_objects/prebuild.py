"""``warm_up`` and ``warming``: build the code that later calls need, in parallel and in the background."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tkjit.compile.targets import Target, gpu_target
from tkjit.config import Settings
from tkjit.errors import ArgumentError, SpecError
from tkjit.loader import Loader, Plan, first_variant, loader_for
from tkjit.spec import Spec, variants_of

if TYPE_CHECKING:
    from tkjit.loader.background import Builds

_collecting: list[Warming] = []  # the open ``warming`` blocks of all threads


def collecting() -> Warming | None:
    """Return the innermost open ``warming`` block that this thread runs in, or None outside of all blocks.

    A thread of autograd runs in the block whose backward pass it computes.
    """
    if not _collecting:
        return None
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    modes = [mode for mode in _get_current_dispatch_mode_stack() if isinstance(mode, FakeTensorMode)]
    return next((warm for warm in reversed(_collecting) if warm.mode in modes), None)


class Warming:
    """Collects the builds that the calls inside ``tkjit.warming()`` need.

    Parameters
    ----------
    target : Target, optional
        The target of all builds; by default, the devices of the tensors determine it.
    """

    def __init__(self, loader: Loader, target: Target | None) -> None:
        from torch._subclasses.fake_tensor import FakeTensorMode

        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        self._loader = loader
        self._target = target
        self._plans: dict[str, Plan] = {}
        self._extensions: dict[str, tuple[str, Callable[[], object]]] = {}
        self.builds: Builds | None = None

    @property
    def names(self) -> list[str]:
        """The builds that the calls so far need: ``softmax (T=float32) for sm_90a``."""
        return [plan.what for plan in self._plans.values()] + [what for what, _ in self._extensions.values()]

    def call(self, kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Record the builds that a call needs, and return fake outputs instead of launching the kernel.

        Raises
        ------
        ArgumentError, ShapeError
            For the same reasons as a call outside the block.
        """
        import torch

        self.add(plans_of_call(self._loader, kernel, args, kwargs, self._target))
        values = [*args, *kwargs.values()]
        if torch.is_grad_enabled() and any(isinstance(value, torch.Tensor) and value.requires_grad for value in values):
            self.add([self._loader.operators_plan])
            return kernel._call_operator_without_glue(*args, **kwargs)
        return _fake_call(self._loader, kernel.specs, args, kwargs)

    def note_host_function(self, kernel: Any, device: Any) -> None:
        """Record the extension that contains a host function."""
        target = self._target or self._loader.target(device.type, device.index or 0)
        what, work = build_of_host_function(self._loader, kernel, target)
        self._extensions.setdefault(what, (what, work))

    def add(self, plans: Sequence[Plan]) -> None:
        for plan in plans:
            self._plans.setdefault(plan.warm_key, plan)

    def start(self) -> Builds:
        """Start the builds."""
        self.builds = self._loader.background.start(list(self._plans.values()), list(self._extensions.values()))
        return self.builds


@contextmanager
def warming(*, arch: str = "", wait: bool = True) -> Iterator[Warming]:
    """Collect the builds that the kernel calls in the block need, and run them in parallel when the block ends.

    Nothing is computed in the block. torch's operations and kernels return fake tensors, which have only a shape, a
    dtype and a device. You can use modules and tensors from outside the block. For example, the block can contain the
    model's first forward and backward pass, but not the optimizer's step. A backward pass leaves fake gradients in the
    model, so call ``model.zero_grad()`` afterwards.

    The parts that all kernels share are built first if they are missing: the runtime, and for gradients the
    operators module.

    The block does not collect calls of kernels over several devices, ``prepare``, or calls of bound libraries.

    Parameters
    ----------
    arch : str
        The GPU architecture to build for, such as ``"90a"``; by default, the architecture of the tensors' devices.
    wait : bool
        Whether to wait for the builds at the end of the block. Otherwise they continue in the background, and a call
        waits only for the builds that it needs; with ``as warm``, ``warm.builds`` has ``done`` and ``wait()``.

    Raises
    ------
    CompileError
        At the end of the block, if a build failed.

    Examples
    --------
    >>> import torch, tkjit
    >>> with tkjit.warming() as warm:
    ...     out = tkjit.load("softmax")(torch.rand(8, 64))
    >>> out.shape, len(warm.names)
    (torch.Size([8, 64]), 2)
    """
    loader = loader_for(Settings.from_environment())
    loader.runtime  # noqa: B018 - all calls need it, and loading a kernel in the block would build it anyway
    warm = Warming(loader, gpu_target(arch) if arch else None)
    _collecting.append(warm)
    try:
        with warm.mode:
            yield warm
    finally:
        _collecting.remove(warm)
    builds = warm.start()
    if wait:
        builds.wait()


def plans_of_call(
    loader: Loader, kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any], target: Target | None = None
) -> list[Plan]:
    """Plan the builds of the glue and the launcher that a call needs.

    Raises
    ------
    ArgumentError
        If the arguments do not determine the variant.
    SpecError
        If the kernel runs over several devices.
    """
    if any(spec.is_parallel for spec in kernel.specs):
        raise SpecError(f"{kernel.name} runs over several devices; build it with python -m tkjit warmup {kernel.name}")
    likely = first_variant(kernel.specs, args, kwargs)
    if likely is None:
        raise ArgumentError(
            f"{kernel.name}: these arguments do not determine the variant to build; pass the arguments of a real "
            f"call, with tensors on cpu or cuda: {kernel.__signature__}"
        )
    spec, variant, device_type, device = likely
    if device_type == "cuda" and target is None and not _has_gpu():
        raise ArgumentError(f"{kernel.name}: this machine has no GPU; pass the architecture: tkjit.warming(arch='90a')")
    return [
        loader.glue_plan(kernel.specs),
        loader.launcher_plan(spec, variant, target or loader.target(device_type, device)),
    ]


def plans_of_all(loader: Loader, kernel: Any, target: Target) -> list[Plan]:
    """Plan the builds of the glue and of all variants' launchers."""
    launchers = [loader.launcher_plan(spec, variant, target) for spec in kernel.specs for variant in variants_of(spec)]
    return [loader.glue_plan(kernel.specs), *launchers]


def build_of_host_function(loader: Loader, kernel: Any, target: Target) -> tuple[str, Callable[[], object]]:
    """Return a readable name for the extension that contains a host function, and a function that builds it."""
    from tkjit.extensions.load import entries_of
    from tkjit.extensions.record import Loaded

    loaded = Loaded(kernel._extension_for(target))
    return f"the extension {kernel._extension_name} for {target.name}", lambda: entries_of(loader, loaded)


def warm_up(kernel: Any, examples: Sequence[Any]) -> Builds:
    """See ``Kernel.warm_up``."""
    loader = loader_for(Settings.from_environment())
    plans: list[Plan] = [loader.runtime_plan]
    for example in examples:
        args, kwargs = _as_call(kernel, example)
        plans += plans_of_call(loader, kernel, args, kwargs)
    return loader.background.start(plans if examples else [*plans, *plans_of_all(loader, kernel, _here(loader))])


def warm_up_host_function(kernel: Any) -> Builds:
    """See ``HostKernel.warm_up``."""
    loader = loader_for(Settings.from_environment())
    return loader.background.start([], [build_of_host_function(loader, kernel, _here(loader))])


def _here(loader: Loader) -> Target:
    """Return this machine's GPU as a target, or the CPU if there is no GPU."""
    return loader.target("cuda" if _has_gpu() else "cpu")


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def _as_call(kernel: Any, example: Any) -> tuple[Sequence[Any], Mapping[str, Any]]:
    import torch

    if isinstance(example, torch.Tensor):
        return (example,), {}
    if isinstance(example, tuple):
        return example, {}
    if isinstance(example, Mapping):
        return (), example
    raise ArgumentError(
        f"{kernel.name}: an example is {type(example).__name__}; expected a tuple of a call's arguments, a dict of "
        "arguments by name, or a tensor"
    )


def _fake_call(loader: Loader, specs: Sequence[Spec], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute the result of a call from shapes alone."""
    from tkjit.torchlib.calls import OverloadCall, call_overloads
    from tkjit.torchlib.meta import fake_operator

    # stand-ins for the operators, which may not be registered yet
    calls = [
        OverloadCall(
            spec, fake_operator(spec, out=False), fake_operator(spec, out=True), loader.runtime.capsule_for_torch
        )
        for spec in specs
    ]
    return call_overloads(calls, args, kwargs)
