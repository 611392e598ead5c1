"""Plans of pybind11 modules, which replace a kernel's glue. Each is linked with the code of one variant."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tkjit.cache import TEXT, Product, Recipe
from tkjit.cache.recipe import digest_of_file
from tkjit.compile import flags
from tkjit.compile.targets import Target
from tkjit.loader.environment import rendering_files
from tkjit.loader.modules import ModulePlan
from tkjit.loader.objects import ObjectPlan
from tkjit.loader.variant_names import describe
from tkjit.render.exported import Code, ExportedFunction
from tkjit.render.pybind11_glue import render_pybind11_glue
from tkjit.spec import Spec, Variant, variants_of
from tkjit.spec.c_signature import c_signature
from tkjit.system.fork_safe import cached_property

if TYPE_CHECKING:
    from tkjit.compile.compiler import Unit
    from tkjit.loader.environment import Environment

BINDING = "pybind11"
_ENTRY = "tkjit_launch"


class Pybind11Plan(ModulePlan):
    """Builds the module for one overload and one variant with a single call of torch's ``load_inline``.

    Parameters
    ----------
    code : ObjectPlan
        The plan of the variant's object.
    built : Path
        The object file.
    """

    arch = BINDING
    cflags: tuple[str, ...] = ("-std=c++20", "-O1", "-fvisibility=hidden")

    def __init__(self, env: Environment, code: ObjectPlan, built: Path) -> None:
        super().__init__(env, f"{code.spec.name}-{BINDING}")
        self._code, self._object = code, built
        device = "CPU" if code.target.is_cpu else "CUDA"
        self.cflags = (*type(self).cflags, f"-D{device}_KERNEL")

    @cached_property
    def warm_key(self) -> str:
        code = self._code
        return self._env.warm_key(f"{code.target.name}-{self._name}", (code.spec, code.variant, code.target))

    @property
    def what(self) -> str:
        code = self._code
        return f"the pybind11 module of {describe(code.spec, code.variant, code.target)}"

    @property
    def warmup(self) -> str:
        return f'tkjit.load("{self._code.spec.name}", binding="pybind11")(...)'

    def text(self) -> str:
        """Return the module's source: the checks of a call, and the functions that Python calls."""
        return pybind11_text(self._code.spec, self._code.variant, self._code.target)

    def render(self) -> Recipe:
        parts = {TEXT: self.text(), "flags": " ".join(self.cflags), "object": digest_of_file(self._object)}
        return self._env.recipe(self.arch, self._name, parts)

    def _files(self) -> list[str]:
        return [*self._code.inputs(), *rendering_files(), __file__]

    def _compile(self, unit: Unit, staging: Path) -> Product:
        from tkjit.compile import compiler

        is_cpu = self._code.target.is_cpu
        product, self._built = compiler.compile_module(
            unit,
            staging,
            cxx=self._env.toolchain.cxx.path,
            include_dirs=[flags.INCLUDE],
            cflags=list(self.cflags),
            exports="{ global: PyInit_*; local: *; };",
            linked=[str(self._object), *self._code.link_flags],
            with_cuda=not is_cpu,
        )
        return product

    def inputs(self) -> Iterable[str]:
        return [str(self._object), *super().inputs()]


def pybind11_text(spec: Spec, variant: Variant, target: Target) -> str:
    """Return the source of a variant's module."""
    variants = variants_of(spec)
    what = describe(spec, variant, target)
    table = [
        [Code(_ENTRY if candidate.values == variant.values else "", what, target.is_cpu)] for candidate in variants
    ]
    return render_pybind11_glue(ExportedFunction(c_signature(spec), variants, table), target.name)
