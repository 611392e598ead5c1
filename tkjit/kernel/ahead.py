"""``warm_up`` and ``warming``: what calls will need is built before them, at once and beside the program."""

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

_collecting: list[Warming] = []  # of all threads


def collecting() -> Warming | None:
    """The ``warming`` in whose block this thread is, and the threads of autograd that work for it."""
    if not _collecting:
        return None
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    modes = [mode for mode in _get_current_dispatch_mode_stack() if isinstance(mode, FakeTensorMode)]
    return next((warm for warm in reversed(_collecting) if warm.mode in modes), None)


class Warming:
    """What the calls inside ``tkjit.warming()`` need.

    Parameters
    ----------
    target : Target, optional
        What all of them are built for; the devices of the tensors if it is not given.
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
        """What the calls so far need: ``softmax (T=float32) for sm_90a``."""
        return [plan.what for plan in self._plans.values()] + [what for what, _ in self._extensions.values()]

    def call(self, kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Note what a call needs, and return outputs as fake as its inputs. Nothing is launched.

        Raises
        ------
        ArgumentError, ShapeError
            As the call does.
        """
        import torch

        self.add(plans_of_call(self._loader, kernel, args, kwargs, self._target))
        values = [*args, *kwargs.values()]
        if torch.is_grad_enabled() and any(isinstance(one, torch.Tensor) and one.requires_grad for one in values):
            self.add([self._loader.operators_plan])
            return kernel.call_operator_without_glue(*args, **kwargs)
        return _fake_call(self._loader, kernel.specs, args, kwargs)

    def note_host_function(self, kernel: Any, device: Any) -> None:
        """Note the extension that a host function is in."""
        target = self._target or self._loader.target(device.type, device.index or 0)
        what, work = build_of_host_function(self._loader, kernel, target)
        self._extensions.setdefault(what, (what, work))

    def add(self, plans: Sequence[Plan]) -> None:
        for plan in plans:
            self._plans.setdefault(plan.warm_key, plan)

    def start(self) -> Builds:
        """Begin to build it."""
        self.builds = self._loader.background.start(list(self._plans.values()), list(self._extensions.values()))
        return self.builds


@contextmanager
def warming(*, arch: str = "", wait: bool = True) -> Iterator[Warming]:
    """Collect what the calls of kernels in the block need, and build it all at once when the block ends.

    In the block nothing is computed: torch's operations give fake tensors, which have a shape, a dtype and a device,
    and so do kernels. Modules and tensors from outside may be used. So the block can hold the first step of a model,
    backward included, but not the step of its optimizer. A backward leaves fake gradients: ``model.zero_grad()``.

    What all kernels share is built first, where it is missing: the runtime, and for gradients the module of operators.

    Calls of kernels over several devices, ``prepare`` and calls of bound libraries are not collected.

    Parameters
    ----------
    arch : str
        The GPU architecture to build for, ``"90a"``; that of the tensors' devices if it is not given.
    wait : bool
        Whether the end of the block waits for the builds. If not, they go on beside the program: a call waits only
        for its own, and ``builds`` of what the block is given has ``done`` and ``wait()``.

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
    loader.runtime  # noqa: B018 - what all calls need; loading a kernel inside builds it anyway
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
    """The glue and the launcher of a call.

    Raises
    ------
    ArgumentError
        If the arguments do not show the variant.
    SpecError
        If the kernel runs over several devices.
    """
    if any(spec.is_parallel for spec in kernel.specs):
        raise SpecError(f"{kernel.name} runs over several devices; build it with python -m tkjit warmup {kernel.name}")
    likely = first_variant(kernel.specs, args, kwargs)
    if likely is None:
        raise ArgumentError(
            f"{kernel.name}: these arguments do not show which variant to build; give those of a call, of tensors on "
            f"the cpu or on cuda: {kernel.__signature__}"
        )
    spec, variant, device_type, device = likely
    if device_type == "cuda" and target is None and not _has_gpu():
        raise ArgumentError(f"{kernel.name}: there is no GPU here; say the architecture: tkjit.warming(arch='90a')")
    return [
        loader.glue_plan(kernel.specs),
        loader.launcher_plan(spec, variant, target or loader.target(device_type, device)),
    ]


def plans_of_all(loader: Loader, kernel: Any, target: Target) -> list[Plan]:
    """The glue, and the launchers of all variants."""
    launchers = [loader.launcher_plan(spec, variant, target) for spec in kernel.specs for variant in variants_of(spec)]
    return [loader.glue_plan(kernel.specs), *launchers]


def build_of_host_function(loader: Loader, kernel: Any, target: Target) -> tuple[str, Callable[[], object]]:
    """The extension that a host function is in: its name for a person, and what builds it."""
    from tkjit.extensions.load import entries_of
    from tkjit.extensions.record import Loaded

    loaded = Loaded(kernel.extension_for(target))
    return f"the extension {kernel.extension_name} for {target.name}", lambda: entries_of(loader, loaded)


def warm_up(kernel: Any, examples: Sequence[Any]) -> Builds:
    """See ``Kernel.warm_up``."""
    loader = loader_for(Settings.from_environment())
    plans: list[Plan] = [loader.runtime_plan]
    for example in examples:
        args, kwargs = _as_call(kernel, example)
        plans += plans_of_call(loader, kernel, args, kwargs)
    return loader.background.start(plans if examples else [*plans, *plans_of_all(loader, kernel, _here(loader))])


def warm_up_host_function(kernel: Any) -> Builds:
    """The same of a kernel that is a host function."""
    loader = loader_for(Settings.from_environment())
    return loader.background.start([], [build_of_host_function(loader, kernel, _here(loader))])


def _here(loader: Loader) -> Target:
    """This machine's GPU; the CPU if it has none."""
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
        "them by name, or a tensor"
    )


def _fake_call(loader: Loader, specs: Sequence[Spec], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What a call returns, from shapes alone."""
    from tkjit.torchlib.calls import OverloadCall, call_overloads
    from tkjit.torchlib.meta import fake_operator

    # what stands for its operators, which nobody has registered
    calls = [
        OverloadCall(
            spec, fake_operator(spec, out=False), fake_operator(spec, out=True), loader.runtime.capsule_for_torch
        )
        for spec in specs
    ]
    return call_overloads(calls, args, kwargs)
