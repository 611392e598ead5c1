"""The loader: finds each part of a call in the cache, builds it if it is missing, and opens it."""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from tkjit import headers
from tkjit.cache import Cache, Entry, Product, Recipe, fingerprints
from tkjit.compile import targets
from tkjit.compile.targets import Target
from tkjit.compile.toolchain import Toolchain
from tkjit.config import Settings
from tkjit.errors import CacheError, CompileError, TkjitError, ToolchainError
from tkjit.loader.concurrent import ConcurrentBuild, running_beside
from tkjit.loader.environment import ABI, Environment
from tkjit.loader.first_variant import FirstVariant
from tkjit.loader.glue_flags import GlueFlags, glue_flags
from tkjit.loader.guards import check_may_compile, is_capturing
from tkjit.loader.launchers import LauncherPlan
from tkjit.loader.modules import GluePlan, LaunchProgramsPlan, OperatorsPlan, RuntimePlan
from tkjit.loader.objects import ObjectPlan
from tkjit.loader.plan import Opened, Plan
from tkjit.loader.simulator import SimulatorObjectPlan
from tkjit.loader.tuned import Tuned
from tkjit.loader.warm_start import WarmStarts
from tkjit.spec import Spec, Variant
from tkjit.spec.variants import configurations_of, configured
from tkjit.system import files
from tkjit.system.fork_safe import ForkSafeLock, cached_property
from tkjit.system.progress import show_progress

if TYPE_CHECKING:
    from tkjit.loader.background import Background


class _Built(NamedTuple):
    """An entry that this process built, and when it was built, on the monotonic clock."""

    warm_key: str
    entry: Entry
    built_ns: int


_GPU = Path("/dev/nvidiactl")  # do not ask the driver: that would initialize CUDA, which does not survive a fork
_UNSETTLED_NS = 2 * fingerprints.SETTLED_NS


class Loader:
    """Builds and opens everything that calls need, for one set of settings."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.cache = Cache(
            settings.cache_root,
            ABI,
            layers=settings.cache_layers,
            shared=settings.cache_shared,
            limit_bytes=settings.cache_limit_bytes,
            remote=settings.remote,
        )
        self.toolchain = Toolchain(settings, self.cache.tools_memo)
        self.env = Environment(
            settings,
            self.toolchain,
            self.cache.failure_directory,
            self.open_launcher,
            self.simulator,
            self.glue_flags,
            self.common_header,
        )
        # Errors of concurrent builds, which are kept until the call needs the entry.
        self._failures: dict[Recipe, TkjitError] = {}
        self._failed_headers: set[str] = set()  # the warm keys of precompiled headers that could not be built
        self._unrecorded: list[_Built] = []
        self._recorded: list[_Built] = []
        self.warm_starts = WarmStarts(self)
        self.tuned = Tuned(self.cache)
        self.kernels: dict[object, Any] = {}  # loaded from spec files
        self._runtime: Opened | None = None
        self.runtime_plan = RuntimePlan(self.env)
        self.operators_plan = OperatorsPlan(self.env)
        self.launch_programs_plan = LaunchProgramsPlan(self.env)
        self._runtime_lock = ForkSafeLock()
        self._operators: Opened | None = None
        self._operators_lock = ForkSafeLock()
        self._launch_programs: Opened | None = None
        self._launch_programs_lock = ForkSafeLock()

    # ---- the parts of a call

    @property
    def runtime(self) -> ModuleType:
        """The module that every glue uses, built once per environment and imported once per process."""
        with self._runtime_lock:
            runtime = self._runtime or self._hold(self.open(self.runtime_plan, concurrent=self._shared_build))
        loaded: ModuleType = runtime.loaded
        return loaded

    def _shared_build(self) -> ConcurrentBuild | None:
        """Return a build of the parts that all launchers share.

        The build runs while the runtime compiles, so that a first call need not wait.
        """
        if self.cache.remote is not None:  # the server may have all these parts
            return None

        def work() -> None:
            with suppress(TkjitError):  # a build that needs the failed part reports the error
                self.build_shared(on_cpu=not _GPU.exists())

        return ConcurrentBuild(self.runtime_plan, work)

    @property
    def operators(self) -> ModuleType:
        """The module through which torch's dispatcher calls kernels. It is built when a call first needs it."""
        with self._operators_lock:
            self._operators = self._operators or self.open(self.operators_plan)
        loaded: ModuleType = self._operators.loaded
        return loaded

    @property
    def launch_programs(self) -> ModuleType:
        """The module that runs launch programs. It is built when a launcher first needs it."""
        with self._launch_programs_lock:
            self._launch_programs = self._launch_programs or self.open(self.launch_programs_plan)
        loaded: ModuleType = self._launch_programs.loaded
        return loaded

    @cached_property
    def background(self) -> Background:
        """The threads that build in the background."""
        from tkjit.loader.background import Background

        return Background(self.cache, self.find, self.find_or_build)

    def _hold(self, runtime: Opened) -> Opened:
        self._runtime = runtime
        self.cache.unchanged = runtime.loaded.unchanged
        return runtime

    def launcher(self, spec: Spec, variant: Variant, target: Target) -> Entry:
        """Return a launcher's entry, building it if it is not in the cache."""
        return self.find_or_build(self.launcher_plan(spec, variant, target))

    def open_variant(self, spec: Spec, variant: Variant, target: Target) -> Opened:
        """Load a variant's launcher, and return it with the address of its launch function."""
        opened = self.open(self.launcher_plan(spec, variant, target))
        if not spec.tuning:
            return opened
        fingerprint = opened.entry.fingerprint + self.tuned.fingerprint(spec)  # a new choice makes it outdated
        return opened._replace(entry=replace(opened.entry, fingerprint=fingerprint))

    @property
    def records(self) -> bool:
        """Whether tkjit records the variants that calls use."""
        return self.settings.record is not None

    def record(self, spec: Spec, overload: int, variant: Variant, target: Target) -> None:
        """Record the variant of a call, if ``TKJIT_RECORD`` is set."""
        if self.settings.record is not None:
            from tkjit.loader.record import record

            record(self.settings.record, spec, overload, variant, target)

    def forget_failures(self) -> None:
        """Forget a call's errors when the call ends, so that the next call tries again."""
        self._failures.clear()

    def is_current(self, opened: Iterable[Opened]) -> bool:
        """Return whether the files on which loaded objects depend are unchanged since the objects were loaded."""
        return all(self.cache.unchanged(item.entry.fingerprint) for item in opened)

    def runtime_as_recorded(self) -> Entry | None:
        """Return the runtime's entry with its fingerprint, if this process has loaded that entry."""
        entry = self.cache.warm_lookup(self.runtime_plan.warm_key)
        return entry if self._runtime is not None and entry == self._runtime.entry else None

    def is_unchanged(self, fingerprint: bytes, runtime: Entry) -> bool:
        """Return whether all files are unchanged since a record was written. Load the runtime, which compares them.

        Raises
        ------
        ImportError
            If the runtime cannot be loaded here.
        """
        with self._runtime_lock:
            if self._runtime is not None:
                return self.cache.unchanged(fingerprint)
            # Python checks only the runtime's own file. The runtime compares all others in a third of Python's time.
            if fingerprints.of([str(runtime.shared_object)]) not in fingerprint:
                return False
            loaded = self.runtime_plan.load(runtime.module, runtime.shared_object)
            if not loaded.unchanged(fingerprint):
                return False
            self._hold(Opened(loaded, runtime))
            return True

    def open_glue(self, specs: Sequence[Spec], predict: Callable[[], FirstVariant | None]) -> Opened:
        """Load the glue. If it has to be built, a thread builds the launcher that the first call will probably need."""

        def launcher() -> ConcurrentBuild | None:
            if (likely := predict()) is None:
                return None
            spec, variant, device_type, device = likely
            plan = self.launcher_plan(spec, variant, self.target(device_type, device))

            def work() -> None:
                try:
                    self.find_or_build(plan)
                except TkjitError as error:
                    self._failures[plan.recipe] = error

            return ConcurrentBuild(plan, work)

        return self.open(self.glue_plan(specs), concurrent=launcher)

    # ---- plans

    def glue_plan(self, specs: Sequence[Spec]) -> Plan:
        return GluePlan(self.env, specs)

    def launcher_plan(self, spec: Spec, variant: Variant, target: Target) -> LauncherPlan:
        """Return the plan of a variant's launcher.

        Raises
        ------
        ToolchainError
            If the spec has no source for the target.
        """
        return LauncherPlan(
            self.env, headers.locate(spec, self.settings), self.configured(spec, variant, target), target
        )

    def object_plan(self, spec: Spec, variant: Variant, target: Target) -> ObjectPlan:
        """Like ``launcher_plan``, but return the plan of an object file."""
        return ObjectPlan(self.env, headers.locate(spec, self.settings), self.configured(spec, variant, target), target)

    def configured(self, spec: Spec, variant: Variant, target: Target) -> Variant:
        """Return a variant with the configuration that tuning has chosen for it, or with the default one."""
        if not spec.tuning:
            return variant
        choice = self.tuned.find(spec, variant, target.name, _device_with(target))
        return configured(spec, variant, choice.configuration if choice is not None else None)

    def tune_before_a_call(self, spec: Spec, variant: Variant, device_type: str, device: int) -> None:
        """Tune a variant if ``TKJIT_TUNE=1`` asks for it, no choice is stored, and no CUDA graph is being captured."""
        if not (self.settings.tune and self.settings.jit) or len(configurations_of(spec, variant)) < 2:
            return
        target = self.target(device_type, device)
        if self.tuned.find(spec, variant, target.name, _device_with(target)) is None and not is_capturing():
            # imported by name when it is needed, because tuning calls kernels, and these need the loader
            import_module("tkjit.benchmark.tuning").tune_for_a_call(spec, variant, device_type, device)

    def simulator(self, target: Target, mode: str = "") -> Path:
        """Return the simulator's object, for linking CPU launchers. For ``mode``, see ``SimulatorObjectPlan``."""
        path: Path = self.open(SimulatorObjectPlan(self.env, target, mode)).loaded
        return path

    def glue_flags(self) -> GlueFlags | None:
        """Return glue's flags, or None if the flags that torch's ``load_inline`` chose for the runtime are unknown."""
        if self._runtime is None:
            return None
        manifest = self._runtime.entry.manifest
        return self._glue_flags_from(str(manifest.get("cflags", "")), str(manifest.get("ldflags", "")))

    def _glue_flags_during_the_build(self) -> GlueFlags | None:
        """Return glue's flags while this process compiles the runtime, or None if ``load_inline`` has not begun.

        ``load_inline`` writes its flags to a file for ninja before it compiles. With these flags, the header of glue
        can be compiled at the same time as the runtime, which saves a seventh of a first call with an empty cache.
        """
        from tkjit.compile.compiler import flags_of_module

        directory = self.cache.directory(self.runtime_plan.recipe)
        for staging in list(self.cache.building):
            if staging.parent == directory:
                with suppress(OSError):
                    return self._glue_flags_from(*flags_of_module(staging))
        return None

    def _glue_flags_from(self, cflags: str, ldflags: str) -> GlueFlags | None:
        return glue_flags(cflags, ldflags, self.runtime_plan.cflags, GluePlan.cflags)

    def build_shared(self, *, on_cpu: bool = True) -> None:
        """Build the parts that launchers for the CPU or for GPUs share, then glue's header if its flags are known."""
        from tkjit.loader.common_headers import of_glue, of_launchers

        target = self.target("cpu")
        if on_cpu:
            self.simulator(target)
        if on_cpu and not target.model and not self.env.for_debugger:  # with either setting, no launcher can use it
            self.common_header(of_launchers(self.env, target))
        elif not on_cpu and self.env.compiler != "nvcc":
            with suppress(ToolchainError):  # without NVRTC, nothing needs the module
                self.toolchain.nvrtc  # noqa: B018
                self.find_or_build(self.launch_programs_plan)
        if (known_flags := self.glue_flags() or self._glue_flags_during_the_build()) is not None:
            self.common_header(of_glue(self.env, known_flags.compiler))

    def common_header(self, plan: Plan) -> Entry | None:
        """Return the entry of a precompiled header. If it is unavailable, return None, which only costs time.

        A missing header is built, unless there is a remote cache, because a remote cache already has most of the
        entries that the header would help to compile.
        """
        if plan.warm_key in self._failed_headers or "clang" in self.toolchain.cxx.version:
            return None
        try:
            return self.find_or_build(plan) if self.cache.remote is None else self.find(plan)
        except TkjitError:  # compiling without the header reports the error, if that fails as well
            self._failed_headers.add(plan.warm_key)
            return None

    # ---- looking up, building, opening

    def find_or_build(
        self,
        plan: Plan,
        concurrent: Callable[[], ConcurrentBuild | None] | None = None,
        *,
        replacing: Entry | None = None,
    ) -> Entry:
        """Return a plan's entry, building it if it is not in the cache.

        Parameters
        ----------
        replacing : Entry, optional
            An entry that cannot be loaded on this machine, so that it has to be built again.
        """
        if (found := self.find(plan, exclude=replacing)) is not None:
            return found
        if (earlier_error := self._failures.pop(plan.recipe, None)) is not None:
            raise earlier_error
        make = plan.make
        if self.cache.remote is None:
            check_may_compile(plan, self.settings)
        else:
            make = partial(self._make_if_allowed, plan)
        self.record_built()
        _preload_sysconfig()
        other = concurrent() if concurrent else None
        named = other.plan if other else plan
        shown = show_progress(named.what, quiet=self.settings.quiet, estimate_s=partial(self._last_build_s, named))
        with shown as say, running_beside(other, self.cache):
            recipe, inputs = plan.rendered
            try:
                built = self.cache.build(
                    recipe,
                    make,
                    what=plan.what,
                    replacing=replacing,
                    report_wait=say,
                    watch_after_s=plan.watch_after_s,
                )
            except CompileError as error:
                raise plan.explain(error) from None  # the explanation contains the whole error
            built = replace(built, fingerprint=inputs + built.fingerprint)
            self._unrecorded.append(_Built(plan.warm_key, built, time.monotonic_ns()))
            return built

    def _last_build_s(self, plan: Plan) -> float | None:
        from tkjit.cache.listing import last_build_s

        return last_build_s(self.cache.root, plan.recipe, plan.what)

    def _make_if_allowed(self, plan: Plan, staging: Path) -> Product:
        """Build an entry that the remote cache does not have, if compilation is allowed."""
        check_may_compile(plan, self.settings)
        return plan.make(staging)

    def find_or_fetch(self, plan: Plan) -> Entry | None:
        """Return a plan's entry if it is in the cache or in the remote cache, otherwise None."""
        return self.find(plan) or self.fetch(plan)

    def fetch(self, plan: Plan) -> Entry | None:
        """Return a plan's entry if it is in the remote cache, otherwise None."""
        if self.cache.remote is None:
            return None
        recipe, inputs = plan.rendered
        with show_progress(plan.what, quiet=self.settings.quiet) as say:
            fetched = self.cache.fetch(recipe, what=plan.what, report_wait=say)
        return replace(fetched, fingerprint=inputs + fetched.fingerprint) if fetched else None

    def record_built(self, *, at_exit: bool = False) -> None:
        """Write warm records for the entries that this process built, so that the next process finds them quickly.

        Parameters
        ----------
        at_exit : bool
            Whether to wait until even the newest files are old enough to be recorded. If True, this also renews the
            records of shared objects that have been hard-linked since they were built.
        """
        built, self._unrecorded = self._unrecorded, []  # another thread may call this at the same time
        settled_ns = time.monotonic_ns() - _UNSETTLED_NS
        if at_exit and built:
            time.sleep(max(0, built[-1].built_ns - settled_ns) / 1e9)
        for item in built:
            if item.built_ns > settled_ns and not at_exit:
                self._unrecorded.append(item)
            else:
                self._record(item.warm_key, item.entry)
                self._recorded.append(item)
        for item in self._recorded if at_exit else ():
            if not self.cache.unchanged(item.entry.fingerprint):
                self._record(item.warm_key, item.entry)

    def _record(self, warm_key: str, entry: Entry) -> None:
        fingerprint = fingerprints.after_linking(entry.fingerprint, str(entry.shared_object))
        with suppress(OSError, CacheError):  # the build has succeeded, so failing to write a record is no error
            if self.cache.unchanged(fingerprint):
                self.cache.write_record(warm_key, [entry], fingerprint)

    def find(self, plan: Plan, *, exclude: Entry | None = None) -> Entry | None:
        """Return a plan's entry if it is in the cache. If no file has changed since the last lookup, render nothing."""
        found = self.cache.warm_lookup(plan.warm_key)
        if found is not None and found != exclude:
            return found
        recipe, inputs = plan.rendered
        return self.cache.lookup(recipe, exclude=exclude, warm_key=plan.warm_key, inputs=inputs)

    def open(self, plan: Plan, concurrent: Callable[[], ConcurrentBuild | None] | None = None) -> Opened:
        """Load a plan's shared object, building it if necessary. If it cannot be loaded here, build it again once."""
        entry = self.find_or_build(plan, concurrent)
        try:
            loaded = plan.load(entry.module, entry.shared_object)
        except ImportError:
            entry = self.find_or_build(plan, replacing=entry)
            loaded = plan.load(entry.module, entry.shared_object)
        return Opened(loaded, entry)

    def connect_module(self, path: Path) -> None:
        """Let the simulator in an imported module share interruptions, stacks and traces with the other simulators."""
        self.runtime.connect_module(str(path), self._trace)

    def open_launcher(self, path: Path) -> int:
        """Load a launcher, and return the address of its ``TkjitLauncher``.

        Raises
        ------
        ImportError
            If it cannot be loaded here.
        """
        if path.suffix == ".json":
            from tkjit.loader.device_code import open_program

            return open_program(path, self.launch_programs, synchronous=self.settings.sync)
        return int(self.runtime.open_launcher(str(path), self.settings.sync, self._trace))

    @cached_property
    def _trace(self) -> int:
        """The file descriptor of the simulator's log of barriers and copies, or -1 if there is no log."""
        where = self.settings.sim_trace
        if not where:
            return -1
        try:
            return 2 if where == "1" else files.append(where, 0o644)
        except OSError as error:
            raise CacheError(f"TKJIT_SIM_TRACE: cannot write to {where}: {error.strerror}") from None

    def target(self, device_type: str, device: int = 0) -> Target:
        """Return the target of a device."""
        if device_type == "cpu":
            # the runtime queries the CPU itself; reading /proc/cpuinfo would take a tenth of a millisecond
            has_v3 = getattr(self._runtime and self._runtime.loaded, "has_x86_64_v3", None)
            return targets.cpu_target(has_v3, self.settings.model_arch)
        import torch

        return targets.gpu_target(targets.arch_of_capability(*torch.cuda.get_device_capability(device)))


def _device_with(target: Target) -> str:
    """Return the name of the current GPU if it has this target, ``"cpu"`` for the CPU, and otherwise nothing."""
    if target.is_cpu:
        return "cpu"
    import torch

    if not torch.cuda.is_available():
        return ""
    capability = torch.cuda.get_device_capability()
    return torch.cuda.get_device_name() if targets.arch_of_capability(*capability) == target.arch else ""


_sysconfig_lock = ForkSafeLock()


def _preload_sysconfig() -> None:
    """Read Python's configuration in one thread, because in CPython 3.11 a concurrent reader would see half of it."""
    import sysconfig

    with _sysconfig_lock:
        sysconfig.get_config_vars()


@cache
def loader_for(settings: Settings) -> Loader:
    """Return this process's loader for some settings."""
    loader = Loader(settings)
    atexit.register(loader.record_built, at_exit=True)
    return loader
