"""Plans that build Python modules: the runtime, the operators, and a kernel's glue."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from tkjit.cache import TEXT, Product, Recipe
from tkjit.compile import flags
from tkjit.loader import environment
from tkjit.loader.environment import Environment, rendering_files
from tkjit.loader.glue_flags import GlueFlags
from tkjit.loader.plan import Plan
from tkjit.loader.torch_files import check_not_replaced, torch_files
from tkjit.loader.variant_names import warmup_command
from tkjit.spec import Spec
from tkjit.system import files
from tkjit.system.fork_safe import cached_property

if TYPE_CHECKING:
    from tkjit.compile.compiler import Unit

GLUE, RUNTIME, OPERATORS, LAUNCH_PROGRAMS = "glue", "runtime", "operators", "launch_programs"
# Export only the init function. If the standard library's templates were exported as well, each load would look them up
# in every library of torch.
_EXPORTS = "{ global: PyInit_*; local: *; };"
_STD = "-std=c++20"  # torch 2.11 compiles its extensions as C++17, but the last -std flag wins
_INCLUDE_DIRS = [flags.RUNTIME, flags.INCLUDE]


class ModulePlan(Plan):
    """Builds a Python module that is written in C++."""

    arch: str  # the module's directory in the cache; for a launcher, this is its architecture
    cflags: tuple[str, ...]

    def __init__(self, env: Environment, name: str) -> None:
        self._env = env
        self._name = name
        self._built: ModuleType | None = None

    @abstractmethod
    def text(self) -> str:
        """Return the text to compile."""

    def inputs(self) -> Iterable[str]:
        return [*self._files(), *self._env.toolchain.searched_paths()]

    @abstractmethod
    def _files(self) -> list[str]:
        """Return the source files of the code that renders the text."""

    def render(self) -> Recipe:
        parts = {TEXT: self.text(), "flags": " ".join(self.cflags), "exports": _EXPORTS}
        return self._env.recipe(self.arch, self._name, parts)

    def make(self, staging: Path) -> Product:
        import torch

        from tkjit.compile import compiler

        env = self._env
        env.toolchain.check_python_headers()
        directory = Path(torch.__file__).parent
        check_not_replaced(directory, str(torch.__version__))
        unit = compiler.Unit(
            self.what,
            f"{self.arch}.cpp",
            self.recipe.text,
            env.failure_directory(self.recipe),
            search=(*_INCLUDE_DIRS, *env.header_path),
        )
        product = self._compile(unit, staging)
        check_not_replaced(directory, str(torch.__version__))  # again, in case it was replaced during the compilation
        return replace(product, dependencies=(*product.dependencies, *torch_files(directory)))

    def _compile(self, unit: Unit, staging: Path) -> Product:
        from tkjit.compile import compiler

        # gold would link 0.2 s faster, but each call would then take 10 ns longer
        product, self._built = compiler.compile_module(
            unit,
            staging,
            cxx=self._env.toolchain.cxx.path,
            include_dirs=_INCLUDE_DIRS,
            cflags=list(self.cflags),
            exports=_EXPORTS,
        )
        return product

    def load(self, module: str, path: Path) -> ModuleType:
        # a module that this process built is already imported under its unique name
        if self._built is None or self._built.__name__ != module:
            self._built = self.import_module(module, path)
        return self._built

    @staticmethod
    def import_module(module: str, path: Path) -> ModuleType:
        """Import a module from its file."""
        loader = ExtensionFileLoader(module, str(path))
        imported = module_from_spec(ModuleSpec(module, loader, origin=str(path)))
        loader.exec_module(imported)
        return imported


class SharedModulePlan(ModulePlan):
    """A module that all kernels share, compiled from the C++ file of the same name."""

    warmup = "python -m tkjit warmup"

    def __init__(self, env: Environment) -> None:
        super().__init__(env, self.arch)

    @cached_property
    def warm_key(self) -> str:
        return self._env.warm_key(self.arch, ())

    def text(self) -> str:
        return f"#include <{self.arch}.cpp>\n"

    def _files(self) -> list[str]:
        return [environment.__file__, __file__]


class RuntimePlan(SharedModulePlan):
    """The runtime: the module that every glue uses."""

    arch = RUNTIME
    # -O2 would take a third longer to compile and make calls no faster. -g0, because nobody debugs the runtime. The
    # unit is small, so the compiler's default limit on its growth would prevent inlining along the path of a call.
    # Nobody reads the texts of torch's own checks, because tkjit turns their exceptions into other errors. The last two
    # flags save a tenth of a first call: the assembler runs at the same time, and g++ does not collect garbage.
    cflags = (
        *(_STD, "-O1", "-finline-functions", "-finline-small-functions", "--param=inline-unit-growth=400"),
        *("-falign-functions=32", "-g0", "-fvisibility=hidden", "-DSTRIP_ERROR_MESSAGES"),
        *("-pipe", "--param=ggc-min-heapsize=600000"),
    )
    what = "the runtime (once per environment)"


class OperatorsPlan(SharedModulePlan):
    """The module through which torch's dispatcher calls kernels."""

    arch = OPERATORS
    cflags = (_STD, "-O2", "-g0", "-fvisibility=hidden")
    what = "the module of operators (once per environment)"


class LaunchProgramsPlan(SharedModulePlan):
    """The module that runs launch programs. It has nothing of torch, so the C++ compiler builds it alone."""

    arch = LAUNCH_PROGRAMS
    cflags = (_STD, "-O1", "-g0", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread")
    what = "the module of launch programs (once per environment)"

    def make(self, staging: Path) -> Product:
        from tkjit.compile import compiler

        toolchain = self._env.toolchain
        python = toolchain.check_python_headers()
        directories = (*_INCLUDE_DIRS, flags.DRIVER)
        failures = self._env.failure_directory(self.recipe)
        search = (*directories, *self._env.header_path)
        unit = compiler.Unit(self.what, f"{self.arch}.cpp", self.recipe.text, failures, search=search)

        def commands(source: Path, output: Path, depfile: Path) -> list[compiler.Step]:
            paths = [*(f"-I{directory}" for directory in directories), f"-isystem{python}"]
            named = [*self.cflags, *toolchain.quick_linking, f"-DTORCH_EXTENSION_NAME={self.arch}"]
            files = ["-MD", "-MF", str(depfile), str(source), "-o", str(output)]
            return [[str(toolchain.cxx.path), *named, *paths, *files, "-ldl"]]

        return compiler.compile_binary(unit, staging, f"{self.arch}.so", commands)

    def load(self, module: str, path: Path) -> ModuleType:
        return self.import_module(self.arch, path)


class GluePlan(ModulePlan):
    """The glue of a kernel: the module that checks a call and calls the launcher. It serves all overloads."""

    arch = GLUE
    # -O2 would take a quarter longer to compile and save only a hundredth of a call's time. Without the alignment of
    # functions, a call would take 5 ns longer.
    cflags = (_STD, "-O1", "-falign-functions=32", "-fvisibility=hidden")

    def __init__(self, env: Environment, specs: Sequence[Spec]) -> None:
        super().__init__(env, specs[0].name)
        self._specs = specs

    @cached_property
    def warm_key(self) -> str:
        return self._env.warm_key(f"{GLUE}-{self._name}", self._specs)

    @property
    def what(self) -> str:
        return f"the glue of {self._name}"

    @property
    def warmup(self) -> str:
        return warmup_command(self._specs[0])

    def text(self) -> str:
        from tkjit.render import render_glue  # takes 2 ms, and a warm call renders nothing

        return render_glue(self._specs)

    def _compile(self, unit: Unit, staging: Path) -> Product:
        """Compile with the flags that torch's ``load_inline`` chose for the runtime.

        Importing ``load_inline`` and running ninja again would take 0.2 s.
        """
        from tkjit.loader.common_headers import of_glue

        known_flags = self._env.glue_flags()
        if known_flags is None:
            return super()._compile(unit, staging)

        make = partial(self._replay, unit, staging, known_flags)
        return of_glue(self._env, known_flags.compiler).compile_with(make, unit)

    def _replay(self, unit: Unit, staging: Path, given: GlueFlags, included: list[str]) -> Product:
        from tkjit.compile import compiler

        name = compiler.new_module_name(unit)
        exports = staging / compiler.EXPORTS
        files.write(exports, _EXPORTS)

        def commands(source: Path, output: Path, depfile: Path) -> list[compiler.Step]:
            options = [f"-DTORCH_EXTENSION_NAME={name}", *included, "-MMD", "-MF", str(depfile), str(source)]
            return [[str(self._env.toolchain.cxx.path), *given.compiler, *options, "-o", str(output), *given.linker]]

        def check(output: Path) -> None:
            self._built = self.import_module(name, output)

        product = compiler.compile_binary(unit, staging, f"{name}.so", commands, check)
        with suppress(OSError):  # the entry does not need the file, so a failure does not matter
            exports.unlink()
        return replace(product, facts={**product.facts, "module": name})

    def _files(self) -> list[str]:
        return rendering_files()
