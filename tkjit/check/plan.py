"""The plan of a checker: the program that launches one variant in one mode."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tkjit.cache import Product, Recipe
from tkjit.compile.flags import Flags, checker_flags
from tkjit.compile.targets import Target
from tkjit.compile.toolchain import install_address_sanitizer
from tkjit.errors import CompileError, TkjitError, ToolchainError
from tkjit.loader.environment import Environment
from tkjit.loader.launchers import LauncherPlan
from tkjit.loader.simulator import simulator_flags_of, with_simulator_sources
from tkjit.spec import Spec, Variant
from tkjit.system import files
from tkjit.system.fork_safe import cached_property

if TYPE_CHECKING:
    from tkjit.compile.compiler import Step

MEMORY, RACE, OVERFLOW = "memory", "race", "overflow"
CHECKER = "checker"

# gcc puts no red zone around static variables of templates, because the linker may replace such a variable with another
# file's. There is no red zone before the first variable of a section either. So we add gaps, and a table of the gaps'
# addresses, so that sim/check/address_sanitizer.h can poison the gaps. The gap before a variable is a multiple of the
# variable's alignment.
_GAP = r'\n{label}:\n\t.zero\t256\n\t.pushsection\ttkjit_gaps,"aw"\n\t.quad\t{label}b\n\t.popsection'
_GAPS = (
    (r"^(\t\.section\t\.bss\._ZZ(?:.*\n)*?\t\.zero\t\d+)$", r"\1" + _GAP.format(label=991)),
    (
        r"^(\t(?:\.bss$|\.section\t\.bss\._ZZ)(?:.*\n)*?)([A-Za-z_][^ \n]*:)$",
        r"\1\t.zero\t768" + _GAP.format(label=992) + r"\n\2",
    ),
)


def with_gaps(assembly: str) -> str:
    """Add gaps around static variables to an assembly file's text.

    Examples
    --------
    >>> with_gaps("\\t.bss\\n\\t.align 4\\ntile:\\n\\t.zero\\t4\\n").count("tkjit_gaps")
    1
    """
    for pattern, replacement in _GAPS:
        assembly = re.sub(pattern, replacement, assembly, flags=re.MULTILINE)
    return assembly


class CheckerPlan(LauncherPlan):
    """The plan of a variant's checker.

    Parameters
    ----------
    mode : str
        ``"memory"`` builds with AddressSanitizer; ``"race"`` reports each access to the simulator's detector;
        ``"overflow"`` logs the accesses of the last block, and reports signed overflow.
    """

    def __init__(self, env: Environment, spec: Spec, variant: Variant, target: Target, mode: str) -> None:
        super().__init__(env, spec, variant, target)
        self.mode = mode

    @cached_property
    def warm_key(self) -> str:
        name = f"{CHECKER}-{self.mode}-{self.spec.name}"
        return self._env.warm_key(name, (self.spec, self.variant, self.target))

    @property
    def what(self) -> str:
        return f"the {self.mode} checker of {super().what}"

    def inputs(self) -> Iterable[str]:
        return [*super().inputs(), __file__]

    def render(self) -> Recipe:
        plain = super().render()
        flags = "\n".join((*self._checker_flags.compile, *self._checker_flags.link))
        steps = "\n".join((*_LINKED[self.mode], *(word for gap in _GAPS if self.mode == MEMORY for word in gap)))
        own = {"flags": flags, "simulator": simulator_flags_of(self.target, self.mode), "steps": steps}
        parts = {**dict(plain.parts), **own}
        return self._env.recipe(CHECKER, self.spec.name, parts, self.target, self._own)

    def make(self, staging: Path) -> Product:
        from tkjit.compile import compiler

        self._check()
        toolchain = self._env.toolchain
        simulator = self._env.simulator(self.target, self.mode)
        flags = self._checker_flags
        cxx = str(toolchain.cxx.path)

        is_translated = self._is_translated()

        def commands(source: Path, output: Path, depfile: Path, included: list[str]) -> list[Step]:
            middle = staging / ("checker.s" if self.mode == MEMORY else "checker.o")
            compile_only = "-S" if self.mode == MEMORY else "-c"
            start = [cxx, *flags.compile, *flags.paths, compile_only, "-MD", "-MF", str(depfile)]
            line = [*start, "-x", "c++", str(source), "-o", str(middle)]
            lines = self._steps(line, source, included, is_translated)
            if self.mode == MEMORY:
                lines.append(lambda: files.write(middle, with_gaps(middle.read_text())))
            linking = [] if flags.link else toolchain.quick_linking
            objects = [str(middle), str(simulator), "-o", str(output)]
            lines.append([cxx, *_LINKED[self.mode], *linking, *objects, *flags.link])
            return lines

        unit = self._unit()

        def make(included: list[str]) -> Product:
            return compiler.compile_binary(unit, staging, CHECKER, partial(commands, included=included))

        product = self._with_header(make, unit, is_translated, self.mode)
        for name in ("checker.s", "checker.o"):
            (staging / name).unlink(missing_ok=True)
        return with_simulator_sources(product, self.mode)

    def load(self, module: str, path: Path) -> Path:  # type: ignore[override]
        return path

    def explain(self, error: CompileError) -> TkjitError:
        if self.mode == MEMORY and re.search(r"(cannot find|No such file)[^\n]*asan", error.log):
            return ToolchainError(
                "the C++ compiler has no AddressSanitizer, which --memory needs; install its runtime: "
                f"{install_address_sanitizer(self._env.toolchain.cxx.version)}"
            )
        return super().explain(error)

    _checks_bounds = False  # a bounds check would end the launch at the first bad index, but we want all of them

    @cached_property
    def _checker_flags(self) -> Flags:
        return checker_flags(
            self._flags,
            self.mode,
            is_clang="clang" in self._env.toolchain.cxx.version,
            cooperative=self.spec.cooperative,
        )


# Without position-independent code, addresses in the process equal those in the file. Unused host functions of the
# source are dropped, because they may call libraries that are not linked.
_ALWAYS_LINKED = ("-no-pie", "-pthread", "-Wl,--gc-sections")
_WRAPPED = "-Wl,--wrap=memcpy,--wrap=memmove,--wrap=memset"
_LINKED = {
    MEMORY: (*_ALWAYS_LINKED, "-fsanitize=address"),
    RACE: (*_ALWAYS_LINKED, _WRAPPED),
    OVERFLOW: (*_ALWAYS_LINKED, _WRAPPED),
}
